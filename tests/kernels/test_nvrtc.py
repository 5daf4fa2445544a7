# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's compiler takes every CUDA text of every case, for every architecture, without a word.

The texts of all cases form one translation unit an architecture (a second or two). Warnings are errors; no kernel may
spill registers or keep anything in local memory, in the bounds that production compiles it in (``in_registers``). Every
architecture has every text as results are by default, but for those that an ELDER has; in fast mode each text is compiled
for one that has it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest
from compiler.cases import CASES, build, cuda_of
from cuda_on_cpu.static_checks import ARCHITECTURES, StaticReport, compile_report, has_nvrtc
from cuda_on_cpu.support import by_architecture

from hybridgpu.backends.cuda.driver import module_source
from hybridgpu.backends.cuda.nvrtc import NUMERIC, in_registers, without_report
from hybridgpu.cache.package_files import kernels_folder
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.passes.differentiate import differentiate, residuals
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import KernelInfo
from hybridgpu.compiler.target import cuda_target
from hybridgpu.core.dtypes import f32, f64
from hybridgpu.ops import OPERATORS

pytestmark = pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")


@cache
def kernels(arch: str) -> dict[str, tuple[str, KernelInfo]]:
    """Every kernel of every case as an architecture gets them, by name, with the first case that has it."""
    found: dict[str, tuple[str, KernelInfo]] = {}
    for case in CASES:
        for k in compile_graph(build(case), cuda_of(case, arch)).kernels:
            found.setdefault(k.name, (case, k))
    return found


#: architectures with texts of their own; the others have those of these (see the test)
WAYS = ("sm_80", "sm_75", "sm_90", "sm_100", "sm_120")


def new_texts(arch: str) -> dict[str, tuple[str, KernelInfo]]:
    """The kernels of an architecture whose texts no one before it in WAYS has."""
    known = {k.text for a in WAYS[: WAYS.index(arch)] for _, k in kernels(a).values()}
    return {name: (case, k) for name, (case, k) in kernels(arch).items() if k.text not in known}


def compiled(found: dict[str, tuple[str, KernelInfo]], arch: str, numeric: str) -> tuple[StaticReport, dict[str, Any]]:
    """(the report of one module with these kernels, those of the ones that it gives a stack, compiled as the driver does)."""
    options = ["-default-device", *NUMERIC[numeric]]
    report = compile_report(module_source([k for _, k in found.values()]), arch, options, [kernels_folder()])
    again = {}
    for name in [n for n, need in report.kernels.items() if need.stack or need.spills]:
        last, source = report, module_source([found[name][1]])
        while (bounded := in_registers(source, last.log)) != source:
            source = bounded
            last = compile_report(source, arch, options, [kernels_folder()])
        again[name] = last.kernels[name]
    return report, again


def faults(found: dict[str, tuple[str, KernelInfo]], arch: str, numeric: str) -> list[str]:
    """What is wrong with the kernels, in words."""
    report, again = compiled(found, arch, numeric)
    wrong = without_report(report.log).splitlines()
    assert set(report.kernels) == set(found)
    for name, first in report.kernels.items():
        (case, k), need = found[name], again.get(name, first)
        threads = k.launch["threads"]
        if need.stack or need.spills:
            wrong.append(f"{name} of {case}: {need.stack} bytes of stack, {need.spills} of spills")
        if need.registers * threads > 65536:
            wrong.append(f"{name} of {case}: {need.registers} registers for {threads} threads")
    if len(again) * 20 > len(kernels(arch)):  # each costs another compilation
        wrong.append(f"{len(again)} of {len(kernels(arch))} kernels ask for their registers")
    return wrong


#: Architectures with the instructions of an elder one, for which ptxas takes nearly the same registers (of 272 kernels at
#: most 11 more, and the same one was kept in memory): of texts that both have only those are compiled again that need most.
ELDER = {"sm_86": "sm_80", "sm_89": "sm_86"}
AGAIN = 8  #: one of so many


def strictly_compiled(arch: str) -> dict[str, tuple[str, KernelInfo]]:
    """The kernels of an architecture that are compiled for it in strict mode."""
    found = kernels(arch)
    if arch not in ELDER:
        return found
    elder = ELDER[arch]
    before, texts = strictly_compiled(elder), {k.text for _, k in kernels(elder).values()}
    needs = compiled(before, elder, "strict")[0].kernels
    known = {
        k.text: (needs[name].stack, needs[name].registers * k.launch["threads"]) for name, (_, k) in before.items()
    }
    most = set(sorted(known, key=lambda text: known[text], reverse=True)[: -(-len(found) // AGAIN)])
    return {name: (case, k) for name, (case, k) in found.items() if k.text in most or k.text not in texts}


#: sm_90 as results are by default, and every fourth text for sm_80 in fast mode; the others are the second job's
DAILY = {"strict": "sm_90", "fast": "sm_80"}


def by_second(architectures: Iterable[str]) -> list[Any]:
    """Architectures, of which one is compiled for daily."""
    second = pytest.mark.architectures
    return [a if a == DAILY["strict"] else pytest.param(a, marks=second) for a in architectures]


@pytest.mark.parametrize("arch", by_second(a for a in ARCHITECTURES if a not in ELDER))
def test_every_text_compiles_silently_and_stays_in_registers(arch):
    assert not faults(kernels(arch), arch, "strict")
    for younger in ELDER if arch in ELDER.values() else ():
        assert not faults(strictly_compiled(younger), younger, "strict")


@pytest.mark.architectures
def test_what_is_left_to_an_elder_is_compiled_there():
    for arch, elder in ELDER.items():
        own, before = strictly_compiled(arch), {k.text for _, k in kernels(elder).values()}
        assert len(own) > 20
        assert all(name in own or k.text in before for name, (_, k) in kernels(arch).items())


@pytest.mark.architectures
@pytest.mark.parametrize("arch", WAYS)
def test_every_text_does_so_in_fast_mode_once(arch):
    found = new_texts(arch)
    assert found and not faults(found, arch, "fast")


def test_every_fourth_text_does_so_in_fast_mode_daily():
    arch = DAILY["fast"]
    found = dict(list(new_texts(arch).items())[::4])
    assert len(found) > 50 and not faults(found, arch, "fast")


@pytest.mark.architectures
def test_no_architecture_beyond_those_has_texts_of_its_own():
    texts = {a: {k.text for _, k in kernels(a).values()} for a in ARCHITECTURES}
    assert set().union(*texts.values()) == set().union(*(texts[a] for a in WAYS))


def test_what_asks_for_its_registers_gets_them():
    """A block less of a multiprocessor is what keeps this kernel's addresses out of memory; others are left alone."""
    text = module_source([k for case, k in kernels("sm_75").values() if case in ("softmax_ragged", "softmax")])
    report = compile_report(text, "sm_75", ["-default-device", *NUMERIC["strict"]], [kernels_folder()])
    (parked,) = [n for n, need in report.kernels.items() if need.stack]
    bounded = in_registers(text, report.log)
    changed = [b for a, b in zip(text.splitlines(), bounded.splitlines(), strict=True) if a != b]
    assert len(changed) == 1 and f"HG_BOUNDS_FOR(128, 4) {parked}(" in changed[0]
    after = compile_report(bounded, "sm_75", ["-default-device", *NUMERIC["strict"]], [kernels_folder()])
    assert after.stack == 0 and in_registers(bounded, after.log) == bounded


@pytest.mark.parametrize(
    ("arch", "numeric"), [("sm_90", "strict"), pytest.param("sm_80", "fast", marks=pytest.mark.architectures)]
)
def test_the_way_production_compiles_is_silent_too(arch, numeric):
    pytest.importorskip("cupy", reason="production reaches NVRTC through CuPy")
    from hybridgpu.backends.cuda.nvrtc import compile_cubin

    some = [k for _, k in kernels(arch).values()][::24]  # the test above has them all; here it is the way that counts
    code, log = compile_cubin(module_source(some), arch, numeric)
    assert log.strip() == "" and code[:4] == b"\x7fELF"


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_cubins_are_there_to_their_last_byte(arch):
    """The file ends where the last of its sections and tables does: CuPy's binding gives a byte less."""
    pytest.importorskip("cupy", reason="production reaches NVRTC through CuPy")
    from hybridgpu.backends.cuda.nvrtc import compile_cubin

    text = 'extern "C" __global__ void {}(float *x) {{ __shared__ float s[{}]; s[threadIdx.x] = *x; *x = s[0] + {}; }}'
    for name, count in (("f", 32), ("with_a_longer_name", 77)):
        code, _ = compile_cubin(text.format(name, count, count), arch)
        segments, start = struct.unpack_from("<QQ", code, 32)
        size, segment_count, each, section_count = struct.unpack_from("<4H", code, 54)
        kinds = [struct.unpack_from("<IIQQQQ", code, start + k * each) for k in range(section_count)]
        ends = [offset + nbytes for _, kind, _, _, offset, nbytes in kinds if kind != 8]  # 8: takes no room in the file
        assert len(code) == max(segments + size * segment_count, start + each * section_count, *ends)
        alignment = struct.unpack_from("<Q", code, segments + size * segment_count - 8)[0]
        assert alignment & (alignment - 1) == 0 and alignment < 1 << 32


#: f64: erf and exp of doubles take most of what a thread has; f32: what sums over all rows leave of it
LONG_ROWS = [("sm_90", f64, n) for n in (65536, 131072, 262144)]
LONG_ROWS += [("sm_80", f32, 16384), ("sm_120", f32, 12288)]
LONG_ROWS += [(arch, f32, n) for arch in ("sm_90", "sm_100") for n in (8192, 65536, 100000, 131072)]


@pytest.mark.parametrize(("arch", "dtype", "length"), by_architecture(LONG_ROWS))
def test_derivatives_of_long_rows_stay_in_registers(arch, dtype, length):
    """LayerNorm before GELU, with its slopes; of doubles without them, too."""
    b = builder(True)
    x, g, beta = (
        b.input(tensor_type(shape, dtype), n) for n, shape in (("x", (4, length)), ("g", (length,)), ("b", (length,)))
    )
    norm, gelu = OPERATORS["LayerNorm"], OPERATORS["LeakyReLU"]
    y = gelu.build(b, gelu.parse({"act_type": "gelu"}), [norm.build(b, norm.parse({}), [x, g, beta])[0]])
    graph = b.finish(list(y), "norm")
    for wanted in ((True, True, True), (True, False, False))[: 2 if dtype is f64 else 1]:
        derivative = differentiate(graph, residuals(graph, (True,), wanted), (True,), wanted).graph
        program = compile_graph(derivative, cuda_target(arch, 132))
        assert not faults({k.name: (graph.name, k) for k in program.kernels}, arch, "strict")


def test_a_warning_would_be_seen():
    text = 'extern "C" __global__ void k(float* o) { int unused; o[0] = 1; }'
    report = compile_report(text, "sm_90", ["-default-device"])
    assert without_report(report.log)
