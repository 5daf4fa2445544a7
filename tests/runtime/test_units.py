# SPDX-License-Identifier: Apache-2.0
"""Programs of several translation units: what is kept of them, and who finds it."""

from __future__ import annotations

import ctypes

import pytest

from hybridgpu.backends.cpu import toolchain as module
from hybridgpu.backends.cpu.toolchain import CompileError, find_toolchain
from hybridgpu.compiler.codegen import program as codegen
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import END_OF_UNIT
from hybridgpu.compiler.target import CPU
from hybridgpu.dtypes import f32
from hybridgpu.store import Store

PLAIN = 'extern "C" int {name}() {{ return {value}; }}\n'
ENTRY = """extern "C" int {a}(); extern "C" int {b}();
extern "C" __attribute__((visibility("default"))) int run0() {{ return {a}() * 10 + {b}(); }}
"""


def source(a, b):
    units = [PLAIN.format(name=f"f{v}", value=v) for v in (a, b)]
    return END_OF_UNIT.join([*units, ENTRY.format(a=f"f{a}", b=f"f{b}")])


@pytest.fixture
def made(tmp_path, monkeypatch):
    """(compile and call ``run0``, the compiler's runs so far, the store)"""
    store = Store(tmp_path / "cache")
    toolchain = find_toolchain(store)
    if toolchain is None:
        pytest.skip("no C++ compiler")
    runs, run = [], module._run
    monkeypatch.setattr(module, "_run", lambda command, text: runs.append(text) or run(command, text))

    def call(text, numeric="strict"):
        before = len(runs)
        file = tmp_path / f"{len(runs)}.so"
        file.write_bytes(toolchain.compile(text, numeric, store))
        return ctypes.CDLL(str(file)).run0(), len(runs) - before

    return call, store


def test_units_that_were_compiled_for_another_program_are_not_compiled_again(made):
    call, _ = made
    assert call(source(2, 3)) == (23, 4)  # three units and the link
    assert call(source(3, 2)) == (32, 2)  # the entries and the link
    assert call(source(3, 4)) == (34, 3)
    assert call(source(2, 3), "fast") == (23, 4)  # other flags, other code


def test_a_damaged_unit_is_compiled_again(made):
    call, store = made
    call(source(2, 3))
    for file in store.folder.glob("*/*.o"):
        file.write_bytes(file.read_bytes()[:-8])
    assert call(source(3, 2)) == (32, 4)


def test_nothing_is_kept_of_a_program_that_a_compiler_refuses(made):
    call, store = made
    with pytest.raises(CompileError):
        call(source(2, 3) + "error")
    assert not list(store.folder.glob("*/*.o"))


def maxima(order):
    """A kernel for every member of ``order``: its text has the power."""
    b = builder()
    inputs = {n: b.input(tensor_type((4, 1000 + n), f32)) for n in sorted(order)}
    return b.finish([b.reduce("amax", multiplied(inputs[n], n), (1,)) for n in order], "maxima")


def multiplied(x, n):
    y = x
    for _ in range(n):
        y = y * x
    return y


def test_a_kernel_is_in_the_same_unit_whatever_the_order():
    programs = [compile_graph(maxima(order), CPU) for order in (range(1, 31), range(30, 0, -1))]
    kernels = programs[0].kernels
    assert len(kernels) == 30
    (*one, _), (*other, _) = (p.source.split(END_OF_UNIT) for p in programs)
    assert len(one) > 2 and one == other
    fewer = codegen._dealt(kernels[1:])
    assert sum(unit in fewer for unit in codegen._dealt(kernels)) == len(one) - 1
