# SPDX-License-Identifier: Apache-2.0
"""bench/sass.py: loops and counts of texts written by hand, a case end to end, what a comparison prints."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest
from cuda_on_cpu.static_checks import has_nvrtc, nvdisasm

BENCH = Path(__file__).resolve().parents[2] / "bench"
RESULTS = sorted((BENCH / "results").glob("sass-*.json"))


@pytest.fixture(scope="module")
def sass():
    path = list(sys.path)
    sys.path.insert(0, str(BENCH))
    module = importlib.import_module("sass")
    sys.path[:] = path
    return module


def section(*lines):
    """A kernel as nvdisasm prints it: instructions, and labels that end in a colon."""
    at, out = 0, ['\t.section\t.text.k,"ax",@progbits', '\t.sectionflags\t@"SHF_BARRIERS=1"', "k:", ".text.k:"]
    for line in lines:
        if line.endswith(":"):
            out.append(line)
        else:
            guard, _, rest = line.rpartition("| ")
            out.append(f"        /*{at:04x}*/            {guard:>10} {rest} ;")
            at += 16
    return "\n".join([*out, '\t.section\t.nv.shared.k,"aw",@nobits', "        /*0000*/  MUFU.RCP R1, R1 ;"])


#: a loop with a rare case that jumps back into it from behind the exit, a tail, padding
MAP = section(
    "S2R R0, SR_TID.X",
    "@P0| EXIT",
    ".L_x_1:",
    "LDG.E.128 R4, desc[UR4][R2.64]",
    "FFMA R4, R4, R5, R6",
    "@P1| BRA `(.L_x_3)",
    ".L_x_2:",
    "STG.E.128 desc[UR4][R2.64], R4",
    "@!P0| BRA `(.L_x_1)",
    ".L_x_4:",
    "LDG.E.U16.CONSTANT R4, desc[UR4][R2.64]",
    "LDG.E R4, desc[UR4][R2.64]",
    "STG.E.64 desc[UR4][R2.64], R4",
    "BRA !P2, `(.L_x_4)",
    "EXIT",
    ".L_x_3:",
    "CALL.REL.NOINC `($__internal_0_$div)",
    "BRA `(.L_x_2)",
    ".type           $__internal_0_$div,@function",
    "$__internal_0_$div:",
    ".L_x_5:",
    "MUFU.RCP R1, R1",
    "@P0| BRA `(.L_x_5)",
    "RET.REL.NODEC R6 `(k)",
    ".L_x_6:",
    "BRA `(.L_x_6)",
    "NOP",
)


def test_counts_and_loops(sass):
    function = importlib.import_module("disassembly").functions(MAP)["k"]
    assert len(function.instructions) == 17 and len(function.body) == 14
    assert function.counts() == {
        "ldg128": 1, "ldg16": 1, "ldg32": 1, "stg128": 1, "stg64": 1, "ffma": 1, "mufu": 1, "call": 1, "branch": 5,
    }  # fmt: skip
    main, tail = function.loops()
    assert [i.name for i in main.instructions] == ["LDG", "FFMA", "BRA", "STG", "BRA", "CALL", "BRA"]
    assert len(tail.instructions) == 4
    assert sass.an_element(function, "map", 4) == 7 / 4
    assert sass.an_element(function, "map", 2) == 7 / 8
    assert sass.an_element(function, "conv", 4) is None


#: a loop over memory with one in it that divides what the short way does not, after a single element
DIVIDED = section(
    "MUFU.RCP R1, R1",
    ".L_x_1:",
    "LDG.E.128 R4, desc[UR4][R2.64]",
    "@P1| BRA `(.L_x_3)",
    ".L_x_2:",
    "FCHK P0, R4, R5",
    "CALL.REL.NOINC `($__internal_0_$div)",
    "@P0| BRA `(.L_x_2)",
    ".L_x_3:",
    "STG.E.128 desc[UR4][R2.64], R4",
    "@!P0| BRA `(.L_x_1)",
    "EXIT",
)


def test_rare_loops_are_no_part_of_others(sass):
    function = importlib.import_module("disassembly").functions(DIVIDED)["k"]
    (loop,) = function.loops()
    assert [i.name for i in loop.instructions] == ["LDG", "BRA", "STG", "BRA"]
    assert [i.name for i in function.straight().instructions] == ["MUFU", "LDG", "BRA", "STG", "BRA", "EXIT"]


needs_tools = pytest.mark.skipif(
    not has_nvrtc() or nvdisasm() is None, reason="the wheels of NVRTC and nvdisasm are not installed"
)


@needs_tools
def test_a_case(sass, tmp_path, capsys):
    file = tmp_path / "now.json"
    assert sass.main(["W3", "--json", str(file), "--text", str(tmp_path / "texts")]) == 0
    printed = capsys.readouterr().out
    strict, fast = json.loads(file.read_text())["kernels"]
    assert printed.count("| W3 normalise") == 2 and (strict["numeric"], fast["numeric"]) == ("strict", "fast")
    assert strict["kind"] == "map" and strict["kernel"] in printed
    # x, and four rows; all elements of a step in one access each
    assert (strict["ldg128"], strict["stg128"], strict["fchk"], strict["spills"]) == (5, 1, 0, 0)
    assert 8 < strict["an_element"] < 20 and 16 < strict["registers"] <= 32
    assert strict["blocks"] == 8 and strict["occupancy"] == 1
    assert len(list((tmp_path / "texts").glob("*.sass"))) == 2

    assert sass.main(["W3", "--compare", str(file)]) == 0
    assert capsys.readouterr().out == "no figure differs\n"
    old = json.loads(file.read_text())
    old["kernels"][0]["registers"] += 1
    old["kernels"][1]["case"] = "another one"
    file.write_text(json.dumps(old))
    assert sass.main(["W3", "--compare", str(file), "--json", str(file)]) == 1  # read before it is written
    assert capsys.readouterr().out.splitlines() == [
        f"W3 normalise 4096 x 1024, strict, {strict['kernel']}: registers {strict['registers'] + 1} -> {strict['registers']}",
        f"W3 normalise 4096 x 1024, fast, {fast['kernel']}: no such kernel before",
    ]


@pytest.mark.parametrize("path", RESULTS, ids=lambda p: p.stem)
def test_results_have_every_case(sass, path):
    found = json.loads(path.read_text())
    assert {r["case"] for r in found["kernels"]} == set(sass.WORK)
    assert path.with_suffix(".md").read_text() == sass.markdown(found)
