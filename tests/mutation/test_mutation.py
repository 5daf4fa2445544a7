# SPDX-License-Identifier: Apache-2.0
"""Mutation of templates and kernel headers: which mutants there are, and (marked) that tests kill them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import mutate  # noqa: E402
from mutants import mutants_of, sample  # noqa: E402
from mutate import ROOT, SURVIVORS, anew, explained, files  # noqa: E402

from hybridgpu.compiler.codegen import render  # noqa: E402


def after(text, file="x.h"):
    return {m.after for m in mutants_of(file, text)}


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("a < b", {"a <= b"}),
        ("x = a + b * 2;", {"", "x = a - b * 2;", "x = a + b / 2;", "x = a + b * 3;"}),
        ("    __syncthreads();", {"    "}),
        ("if (e >= n) return;", {"if (!(e >= n)) return;", "if (true) return;", "if (e > n) return;", ""}),
        ("v = t ? a : b;", {"v = t ? b : a;", ""}),
        ("return t ? a : f(b, c);", {"return t ? f(b, c) : a;"}),
        ("x[t ? (a + b) * 2 : c + 1] = (T)y;", {"x[t ? c + 1 : (a + b) * 2] = (T)y;"}),
        ("f<V, T ? a : b>(p + 1);", {"f<V, T ? b : a>(p + 1);"}),
        ("x = t ? g<A, B>(y) : A::B(); y = 1;", {"x = t ? A::B() : g<A, B>(y); y = 1;"}),
        ("x = t ? a : u ? b : (c - 1);", {"x = t ? u ? b : (c - 1) : a;", "x = t ? a : u ? (c - 1) : b;"}),
        (
            "return b == 0 ? 0.0f : ((r < 0) != (b < 0) ? r + b : r);",
            {
                "return b == 0 ? ((r < 0) != (b < 0) ? r + b : r) : 0.0f;",
                "return b == 0 ? 0.0f : ((r < 0) != (b < 0) ? r : r + b);",
            },
        ),
        ("s = merge(s, t);", {"s = merge(t, s);", ""}),
        ("{% if k.vector > 1 %}", {"{% if not (k.vector > 1) %}", "{% if k.vector >= 1 %}", "{% if k.vector > 2 %}"}),
        ("{{ 'a' if k.held else 'b' }}", {"{{ 'a' if not (k.held) else 'b' }}"}),
        ("{{ writes(k) }}", {""}),
        ("x = 0.5f * y;", {"", "x = (0.5f * 1.001f) * y;", "x = 0.5f / y;"}),
    ],
)
def test_lines_written_differently(line, wanted):
    assert wanted <= after(line)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (
            '    stop = f"{n} - part < {size}"',
            {'    stop = f"{n} - part <= {size}"', '    stop = f"{n} + part < {size}"'},
        ),
        ('lines = ["taken = 0;", end] if sums else []', {'lines = ["", end] if sums else []'}),
        ("last = end if first < 1 else 0", {"last = end if not (first < 1) else 0"}),
        ("    if self.part:", {"    if not (self.part):"}),
    ],
)
def test_lines_of_modules_are_mutated_in_quotes_and_conditions(line, wanted):
    found = after(line, "x.py")
    assert wanted <= found
    assert not any("first <= 1" in m for m in found)


@pytest.mark.parametrize(
    "line",
    [
        "// a < b",
        "(0.0f)",
        '#include "core.h"',
        "#pragma unroll 2",
        "{# a < b #}",
        "{# begun\n a < b #}",
        "template <int W>",
        "",
    ],
)
def test_lines_that_are_let_be(line):
    assert not after(line)


def test_every_file_but_a_few_has_mutants_which_apply():
    empty = set()
    for file in files():
        text = (ROOT / file).read_text(encoding="utf-8")
        found = mutants_of(file, text)
        empty |= {file} if not found else set()
        assert len({(m.line, m.after) for m in found}) == len(found)
        for m in sample(found, 5, 0):
            assert m.apply(text) != text and m.apply(text).count("\n") == text.count("\n")
        assert sample(found, 5, 0) == sample(found, 5, 0)
    assert empty <= {
        "kernels/cpu.h",
        "kernels/math.h",
        "kernels/read_stdin.h",
        "templates/macros.j2",
        "templates/cpu/unit.j2",
    }


def test_templates_are_read_again(tmp_path, monkeypatch):
    texts = []
    with monkeypatch.context() as m:
        m.setattr(render, "templates_folder", lambda: tmp_path)
        for text in ("as it is\n", "mutant\n"):
            (tmp_path / "page.j2").write_text(text, encoding="utf-8")
            anew()
            texts.append(render.render("page.j2"))
    anew()
    assert texts == ["as it is\n", "mutant\n"]


def test_survivors_have_reasons():
    entries = json.loads(SURVIVORS.read_text(encoding="utf-8"))
    assert len({(e["file"], e["before"], e["after"], e["nth"]) for e in entries}) == len(entries)
    assert all(len(e["reason"].split()) > 3 for e in entries)


def test_survivors_are_lines_that_are_there_told_by_what_is_above_if_several_times():
    """Their number alone is another line's as soon as one more stands before it, and would explain what it is not about."""
    for e in json.loads(SURVIVORS.read_text(encoding="utf-8")):
        lines = [line.strip() for line in (ROOT / e["file"]).read_text(encoding="utf-8").split("\n")]
        found = [n for n, line in enumerate(lines) if line == e["before"]]
        assert found, f"{e['file']} has no such line any more: {e['before']}"
        if len(found) > 1:
            assert e.get("above") == lines[found[e["nth"]] - 1], e


def test_modules_are_read_again(tmp_path, monkeypatch):
    from hybridgpu.compiler.schedule import blocks

    was = (ROOT / mutate.LOOP_MODULES[0]).read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(mutate, "LOOP_MODULES", mutate.LOOP_MODULES[:1])
    (tmp_path / mutate.LOOP_MODULES[0]).parent.mkdir(parents=True)
    texts = []
    for text in (was.replace(" < {end}", " <= {end}"), was):
        (tmp_path / mutate.LOOP_MODULES[0]).write_text(text, encoding="utf-8")
        anew()
        texts.append(blocks.for_head("i", "0", "n"))
    assert texts == [f"for (Index i = 0; i {o} n; ++i)" for o in ("<=", "<")]


@pytest.mark.mutation
def test_survivors_are_mutants():
    there = {m.key for file in files() for m in mutants_of(file, (ROOT / file).read_text(encoding="utf-8"))}
    assert set(explained()) <= there, "lines of survivors.json that are no longer in the files"


@pytest.mark.mutation
def test_mutants_are_killed(request, tmp_path):
    count = str(request.config.getoption("--mutants"))
    command = [sys.executable, "tests/mutation/mutate.py", "--count", count, "--json", str(tmp_path / "mutants.json")]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
