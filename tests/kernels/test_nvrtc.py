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

#: case -> (bytes of stack a thread may have, why)
JUSTIFIED = {
    "double": (8, "exp in double precision: ptxas parks one value around its rare branch from sm_90 on"),
    "softmax_ragged": (8, "in the fast mode ptxas parks one value from sm_100 on, whatever registers are free"),
    "softmax_half": (8, "on sm_90 ptxas parks one value although registers are free"),
    "softmax_transposed": (24, "from sm_100 on ptxas parks addresses of stores that follow no row"),
    "longs": (16, "division in double precision calls a routine for rare operands, which ptxas parks values around"),
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


@pytest.mark.parametrize("numeric", NUMERIC)
@pytest.mark.parametrize("arch", ARCHITECTURES)
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


@pytest.mark.parametrize("numeric", NUMERIC)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_way_production_compiles_is_silent_too(arch, numeric):
    pytest.importorskip("cupy", reason="production reaches NVRTC through CuPy")
    from hybridgpu.backends.cuda.nvrtc import compile_cubin

    code, log = compile_cubin(module_source([k for _, k in kernels(arch).values()]), arch, numeric)
    assert log.strip() == "" and code[:4] == b"\x7fELF"


def test_a_warning_would_be_seen():
    text = 'extern "C" __global__ void k(float* o) { int unused; o[0] = 1; }'
    report = compile_report(text, "sm_90", ["-default-device"])
    assert [line for line in report.log.splitlines() if not _PTXAS.fullmatch(line)]
