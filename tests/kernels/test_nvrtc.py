# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's compiler takes every CUDA text of every case, for every architecture, without a word.

The texts of all cases form one translation unit an architecture (a second or two). Warnings are errors;
no kernel may spill registers or keep arrays in local memory beyond what JUSTIFIED says.
"""

from __future__ import annotations

import re
from functools import cache

import pytest
from compiler.cases import CASES, build, cuda_of
from cuda_on_cpu.static_checks import ARCHITECTURES, compile_report, has_nvrtc

from hybridgpu.backends.cuda.driver import module_source
from hybridgpu.backends.cuda.nvrtc import NUMERIC
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.program import KernelInfo
from hybridgpu.resources import kernels_folder

pytestmark = pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")

#: case -> (bytes of stack a thread may have, where). Rows that are kept in registers: ptxas parks one to three addresses
#: of theirs in memory to stay at 56, 64, 80 or 96 registers, since a few more would cost a block of each multiprocessor.
#: Bounds that ask for one block end that (the test below proves it), and raise the registers to 64 … 102 a thread.
JUSTIFIED = {
    "softmax_ragged": (8, "sm_75: 96 registers rather than 102; sm_120 in the fast mode: 56 rather than 64"),
    "softmax_half": (8, "sm_90: 80 rather than 93"),
    "softmax_transposed": (24, "sm_100: 64 rather than 76, in the fast mode 56; sm_120: 64 rather than 74"),
}
_PTXAS = re.compile(r"ptxas +(info +:|\. +).*|ptxas info|    \d+ bytes stack frame.*|\s*")  #: what -v prints


@cache
def kernels(arch: str) -> dict[str, tuple[str, KernelInfo]]:
    """Every kernel of every case as an architecture gets them, by name, with the first case that has it."""
    found: dict[str, tuple[str, KernelInfo]] = {}
    for case in CASES:
        for k in compile_graph(build(case), cuda_of(case, arch)).kernels:
            found.setdefault(k.name, (case, k))
    return found


#: every architecture as results are by default; of the others, one of each way of building texts
BUILT = [(a, "strict") for a in ARCHITECTURES] + [(a, "fast") for a in ("sm_75", "sm_80", "sm_90", "sm_100")]


@pytest.mark.parametrize(("arch", "numeric"), BUILT)
def test_every_text_compiles_silently_and_stays_in_registers(arch, numeric):
    texts = [k for _, k in kernels(arch).values()]
    options = ["-default-device", *NUMERIC[numeric]]
    report = compile_report(module_source(texts), arch, options, [kernels_folder()])
    said = [line for line in report.log.splitlines() if not _PTXAS.fullmatch(line)]
    assert not said, f"NVRTC for {arch} says:\n" + "\n".join(said[:20])
    assert set(report.kernels) == set(kernels(arch))
    wrong = []
    for name, need in report.kernels.items():
        case, k = kernels(arch)[name]
        allowed = JUSTIFIED.get(case, (0, ""))[0]
        if need.stack > allowed or need.spills > 4 * allowed:
            wrong.append(f"{name} of case {case}: {need.stack} bytes of stack, {need.spills} of spills")
        threads = k.launch["threads"]
        if need.registers * threads > 65536:
            wrong.append(f"{name} of case {case}: {need.registers} registers for {threads} threads")
    assert not wrong, f"{arch}:\n" + "\n".join(wrong)


def test_what_is_justified_is_a_choice_of_ptxas():
    """It ends where a number of blocks is asked for."""
    parked = 0
    for arch, numeric in (("sm_75", "strict"), ("sm_90", "strict"), ("sm_100", "fast"), ("sm_120", "strict")):
        source = module_source([k for case, k in kernels(arch).values() if case in JUSTIFIED])
        options = ["-default-device", *NUMERIC[numeric]]
        parked += compile_report(source, arch, options, [kernels_folder()]).stack > 0
        report = compile_report(source.replace("HG_BOUNDS", "HG_BOUNDS_WIDE"), arch, options, [kernels_folder()])
        assert report.stack == report.spills == 0 < len(report.kernels)
    assert parked, "nothing is parked any more: remove the justifications"


@pytest.mark.parametrize("numeric", NUMERIC)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_way_production_compiles_is_silent_too(arch, numeric):
    pytest.importorskip("cupy", reason="production reaches NVRTC through CuPy")
    from hybridgpu.backends.cuda.nvrtc import compile_cubin

    some = [k for _, k in kernels(arch).values()][::6]  # the test above has them all; here it is the way that counts
    code, log = compile_cubin(module_source(some), arch, numeric)
    assert log.strip() == "" and code[:4] == b"\x7fELF"


def test_a_warning_would_be_seen():
    text = 'extern "C" __global__ void k(float* o) { int unused; o[0] = 1; }'
    report = compile_report(text, "sm_90", ["-default-device"])
    assert [line for line in report.log.splitlines() if not _PTXAS.fullmatch(line)]
