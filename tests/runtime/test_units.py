# SPDX-License-Identifier: Apache-2.0
"""Programs of several translation units: what is kept of them, and who finds it."""

from __future__ import annotations

import ctypes
import subprocess
import threading
from dataclasses import replace

import pytest

from hybridgpu.backends.base import NotBuiltError
from hybridgpu.backends.cpu import compile as module
from hybridgpu.backends.cpu.compile import CompileError
from hybridgpu.backends.cpu.toolchain import find_toolchain
from hybridgpu.cache.disk_cache import Store
from hybridgpu.cache.package_files import kernels_folder
from hybridgpu.compiler.codegen import cpu_units as codegen
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import TABLE, builder
from hybridgpu.compiler.program import Unit
from hybridgpu.compiler.target import CPU
from hybridgpu.core.dtypes import f16, f32

PLAIN = 'extern "C" int {name}() {{ return {value}; }}\n'
ENTRY = """extern "C" int {a}(); extern "C" int {b}();
extern "C" __attribute__((visibility("default"))) int run0() {{ return {a}() * 10 + {b}(); }}
"""
#: these count the compiler's runs
LINKS = pytest.mark.unsanitized("what is compiled there calls a library, so that every link without them is in vain")


def plain(value):
    """A kernel that returns its number."""
    return f"f{value}", PLAIN.format(name=f"f{value}", value=value)


def source(a, b, more=""):
    return [*(Unit(kernels=[plain(v)]) for v in (a, b)), Unit(entries=ENTRY.format(a=f"f{a}", b=f"f{b}") + more)]


@pytest.fixture
def made(tmp_path, monkeypatch):
    """(compile and call ``run0``, the compiler's runs so far, the store)"""
    store = Store(tmp_path / "cache")
    toolchain = find_toolchain(store)
    if toolchain is None:
        pytest.skip("no C++ compiler")
    runs, run = [], module._run
    monkeypatch.setattr(module, "_run", lambda command, text, *_: runs.append(text) or run(command, text))
    monkeypatch.setattr(module, "cpu_count", lambda: 2)

    def call(units, numeric="strict"):
        before = len(runs)
        file = tmp_path / f"{len(runs)}.so"
        file.write_bytes(toolchain.compile(units, numeric, store).library)
        return ctypes.CDLL(str(file)).run0(), len(runs) - before

    return call, store


@LINKS
def test_units_that_were_compiled_for_another_program_are_not_compiled_again(made):
    call, _ = made
    assert call(source(2, 3)) == (23, 4)  # three units and the link
    assert call(source(3, 2)) == (32, 2)  # the entries and the link
    assert call(source(3, 4)) == (34, 3)
    assert call(source(2, 3), "fast") == (23, 4)  # other flags, other code


def of_kernels(*units, head="// head\n"):
    """A program of units of kernels, which return their numbers, and an entry that puts all of these together."""
    found = [Unit(head, list(map(plain, values))) for values in units]
    names = [f"f{v}" for values in units for v in values]
    declared = "".join(f'extern "C" int {n}(); ' for n in names)
    total = "0" + "".join(f" + {n}()" for n in names)
    entry = f'{declared}extern "C" __attribute__((visibility("default"))) int run0() {{ return {total}; }}\n'
    return [*found, Unit(entries=entry)]


@LINKS
def test_kernels_that_some_unit_has_are_not_compiled_again(made):
    call, store = made
    assert call(of_kernels([1, 2], [30, 40])) == (73, 4)
    assert call(of_kernels([1, 30], [2, 40])) == (73, 2), "each unit is linked from both"
    assert call(of_kernels([1, 2, 500], [30, 40])) == (573, 3), "one kernel, and the entries"
    assert call(of_kernels([500], [1, 30])) == (531, 2)
    assert call(of_kernels([2], [40]), "fast") == (42, 4), "other flags, other code"
    for file in store.folder.glob("*/*.unit"):
        file.write_bytes(b"[1" + file.read_bytes())
    assert call(of_kernels([40, 1], [2, 30])) == (73, 4), "of nothing it is known where it is"


@LINKS
def test_a_kernel_that_some_unit_has_under_another_name_is_not_compiled_again(made):
    call, store = made

    def source(names):
        kernels = [
            (n, f'#define HG_KERNEL extern "C" int\nHG_KERNEL {n}(int a) {{\n  return a + {v};\n}}\n') for n, v in names
        ]
        declared = "".join(f'extern "C" int {n}(int); ' for n, _ in names)
        calls = " + ".join(f"{n}({10 * k})" for k, (n, _) in enumerate(names, 1))
        entry = f'{declared}extern "C" __attribute__((visibility("default"))) int run0() {{ return {calls}; }}\n'
        return [Unit("// head\n", kernels), Unit(entries=entry)]

    assert call(source([("add_1", 1), ("add_2", 2)])) == (33, 3)
    assert call(source([("backward_add_2", 2), ("add_1", 1)])) == (33, 2), "the entries and the link"
    assert call(source([("backward_add_2", 2), ("sum_3", 3)])) == (35, 3)
    for file in store.folder.glob("*/*.o"):
        file.unlink()
    assert call(source([("other_2", 2), ("add_4", 4)])) == (36, 3)
    assert call(source([("backward_add_2", 2), ("add_5", 5), ("sum_3", 3)])) == (70, 3)
    assert call(source([("other_2", 2), ("add_4", 4), ("add_5", 5)])) == (71, 2), "two units have one of them"


@LINKS
def test_kernels_that_gcc_is_told_something_else_for_are_compiled_again(made):
    call, _ = made
    quick, slow = ('#pragma GCC optimize("O1")\n', "// head\n")
    assert call(of_kernels([1, 2], [30, 40], head=slow)) == (73, 4)
    assert call(of_kernels([1, 30], [2, 40], head=quick)) == (73, 4)
    assert call(of_kernels([2, 30], [1, 40], head=f"{quick}#include <stddef.h>\n")) == (73, 2), (
        "another kernel's header"
    )


@LINKS
def test_kernels_beside_entries_are_not_compiled_again(made):
    """… and declared where they were: of an earlier program's entries nothing is left."""
    call, _ = made

    def source(*values, more=""):
        kernels = [(f"f{v}", f"HG_KERNEL f{v}(int a) {{\n  return a * {v};\n}}\n") for v in values]
        calls = " + ".join(f"f{v}(1)" for v in values)
        entry = f'extern "C" __attribute__((visibility("default"))) int run0() {{ return {calls}{more}; }}\n'
        return [Unit('#define HG_KERNEL extern "C" int\n', kernels, entry, 1)]

    assert call(source(1, 20)) == (21, 2)
    assert call(source(20, 300)) == (320, 2)
    assert call(source(1, 20, 300, more=" + 4")) == (325, 2)


@LINKS
def test_no_program_has_the_second_entry_of_another(made):
    """… which calls kernels that it lacks."""
    call, _ = made
    head = '#define HG_KERNEL extern "C" int\n'
    one, twenty = ((f"f{v}", f"HG_KERNEL f{v}(int a) {{\n  return a * {v};\n}}\n") for v in (1, 20))
    entry = 'extern "C" __attribute__((visibility("default"))) int run{}() {{ return {}; }}\n'
    entries = "HG_KERNEL f1(int a);\n" + entry.format(0, "f20(1)") + entry.format(1, "f1(1)")
    assert call([Unit(head, [one]), Unit(head, [twenty], entries, 2)]) == (20, 3)
    assert call([Unit(head, [twenty], entry.format(0, "f20(2)"), 1)]) == (40, 2)
    assert call([Unit(head, [twenty], entry.format(0, "f20(3)"), 1)]) == (60, 2), "… and this is kept"


@LINKS
def test_a_kernel_whose_unit_has_gone_is_compiled_again(made):
    call, store = made
    call(of_kernels([1, 2], [30, 40]))
    for file in store.folder.glob("*/*.o"):
        file.unlink()
    assert call(of_kernels([1, 30], [2, 40])) == (73, 4)


@LINKS
def test_a_damaged_unit_is_compiled_again(made):
    call, store = made
    call(source(2, 3))
    for file in store.folder.glob("*/*.o"):
        file.write_bytes(file.read_bytes()[:-8])
    assert call(source(3, 2)) == (32, 4)


def test_nothing_is_kept_of_a_program_that_a_compiler_refuses(made):
    call, store = made
    with pytest.raises(CompileError):
        call(source(2, 3, "error"))
    assert not list(store.folder.glob("*/*.o"))


def test_a_compiler_that_ends_without_a_word(made, monkeypatch):
    """… because the system ended it, say."""
    call, _ = made
    monkeypatch.setattr(module, "_run", lambda command, text, *_: subprocess.CompletedProcess(command, -9, "", ""))
    with pytest.raises(CompileError, match="ended with code -9 and said nothing"):
        call(source(2, 3))


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
    (*one, _), (*other, _) = (p.units for p in programs)
    assert len(one) > 2 and one == other
    fewer = codegen._assign_to_units(kernels[1:])
    assert sum(unit in fewer for unit in codegen._assign_to_units(kernels)) == len(one) - 1


# -- what all programs have in common


def products(*widths, rows=64):
    """Large products, or batches of products of sentences."""
    b = builder()
    pairs = [((rows, w), (w, w + 16)) for w in widths] if rows else [((4, w, 32), (4, 32, w)) for w in widths]
    inputs = [[b.input(tensor_type(shape, f32)) for shape in pair] for pair in pairs]
    return b.finish([b.dot(x, y) for x, y in inputs], "products")


@LINKS
@pytest.mark.parametrize("rows", [64, 0])
def test_functions_of_products_are_compiled_once(made, monkeypatch, rows):
    """… whichever programs call them, of one kernel or several; what another type takes is another unit."""
    _, store = made
    texts, run = [], module._run
    monkeypatch.setattr(module, "_run", lambda command, text, *_: texts.append(text) or run(command, text))
    toolchain = find_toolchain(store)
    defined = []
    for widths in ((515,), (517, 519), (515, 517, 521)) if rows else ((35,), (37, 39), (35, 41, 43)):
        program = compile_graph(products(*widths, rows=rows), CPU)
        assert all(k.library for k in program.kernels)
        texts.clear()
        toolchain.compile(program.units, "strict", store)
        defined.append(sum("(template, float)" in text for text in texts))
    assert defined == [1, 0, 0]


# -- few kernels


def layers(count, width=128):
    """Products one after the other, each with a function of its own."""
    b = builder()
    x = b.input(tensor_type((1, width), f32), "x")
    for k in range(count):
        w = b.input(tensor_type((width, width + k), f32), f"w{k}")
        v = b.input(tensor_type((width + k, width), f32), f"v{k}")
        x = b.tanh(b.dot(b.exp(b.dot(x, w)), v))
    return b.finish([x], "layers")


def units_of(graph):
    program = compile_graph(graph, CPU)
    return program, [u.text for u in program.units]


def test_few_kernels_are_two_units_of_about_as_many():
    program, units = units_of(layers(2))
    names = [k.name for k in program.kernels]
    assert len(names) == 4 and len(units) == 2
    bodies = [[k.name for k in program.kernels if k.text in u] for u in units]
    assert sorted(bodies[0] + bodies[1]) == sorted(names) and {len(found) for found in bodies} == {2}
    assert all(f"HG_KERNEL {n}(" in units[1] for n in names), "the unit with the entry declares the other's kernels"
    assert "run0" not in units[0] and "run0" in units[1]


def test_a_kernel_alone_and_light_ones_are_one_unit():
    for graph in (maxima([1]), light(3)):
        assert len(units_of(graph)[1]) == 1
    assert len(units_of(light(4))[1]) == 2


def test_what_takes_long_to_compile_is_shared_out():
    """Three products of several rows and three maps: whoever has one product has the maps."""
    b = builder()
    x = b.input(tensor_type((8, 128), f32), "x")
    weights = [b.input(tensor_type((64 + k, 128), f32)) for k in range(3)]
    inputs = [b.input(tensor_type((1000 + 7 * n,), f32)) for n in range(3)]
    products = [b.dot(x, b.transpose(w, (1, 0))) for w in weights]
    graph = b.finish([*products, *(multiplied(y, n + 1) for n, y in enumerate(inputs))], "mixed")
    program, units = units_of(graph)
    kinds = [sorted(k.kind for k in program.kernels if k.text in u) for u in units]
    assert sorted(kinds) == [["map", "map", "map", "matmul"], ["matmul", "matmul"]]


# channels, result's channels, plane, stride: 3×3 windows
LAYERS = [(64, 128, 16, 2), (96, 128, 16, 2), (128, 64, 16, 2), (128, 256, 16, 2)]


def conv_gradients(operand, heavy=0):
    """Derivatives of convolutions by their operand (0) or weight (1), and products that take a compiler long."""
    b = builder()
    found = []
    for channels, results, plane, stride in LAYERS:
        params = {
            "stride": (stride,) * 2,
            "low": (1, 1),
            "high": (1, 1),
            "dilate": (1, 1),
            "base_dilate": (1, 1),
            "groups": 1,
        }
        x = b.input(tensor_type((2, channels, plane, plane), f32))
        w = b.input(tensor_type((results, channels, 3, 3), f32))
        y = b.conv(x, w, **params)
        found.append(TABLE["conv"].vjp(b, b.input(y.type), y, (x, w), params)[operand])
    x = b.input(tensor_type((8, 128), f32))
    found += [b.dot(x, b.transpose(b.input(tensor_type((64 + k, 128), f32)), (1, 0))) for k in range(heavy)]
    return b.finish(found, "gradients")


@pytest.mark.parametrize("heavy", [6, 20])
def test_kernels_that_share_tiles_are_in_one_unit(heavy):
    program, units = units_of(conv_gradients(1, heavy))
    sharers = [k for k in program.kernels if "conv_backward_filter_cpu.h" in k.headers]
    assert len(sharers) == len(LAYERS) and len(units) > 1
    (home,) = (u for u in units if sharers[0].text in u)
    assert all(k.text in home for k in sharers)


@pytest.mark.as_shipped
@pytest.mark.parametrize(("operand", "tile", "most"), [(1, b"filter_sums", 3), (0, b"dilated_tile", 2)])
def test_a_tile_is_compiled_once_for_all_kernels_of_a_unit(tmp_path, operand, tile, most):
    toolchain = find_toolchain(Store(tmp_path / "cache"))
    if toolchain is None:
        pytest.skip("no C++ compiler")
    text = units_of(conv_gradients(operand))[1][0]
    command = [
        *toolchain.command,
        *toolchain.mode_flags("strict"),
        f"-I{kernels_folder()}",
        "-S",
        "-x",
        "c++",
        "-",
        "-o",
        "-",
    ]
    lines = subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout.splitlines()
    assert 1 <= sum(line.startswith(b"_Z") and line.endswith(b":") and tile in line for line in lines) <= most


def light(count):
    """Maps of shapes that do not go together."""
    b = builder()
    inputs = [b.input(tensor_type((1000 + 7 * n,), f32)) for n in range(count)]
    return b.finish([multiplied(x, n + 1) for n, x in enumerate(inputs)], "light")


TWO = [
    'extern "C" int f2() { return 2; }\n',
    'extern "C" int f2(); extern "C" __attribute__((visibility("default"))) int run0() { return f2() + 1; }\n',
]


@pytest.mark.parametrize(
    ("error", "raised"), [(OSError(12, "no memory"), NotBuiltError), (UnicodeError("no text"), UnicodeError)], ids=repr
)
def test_what_fails_in_another_thread_is_told_to_the_caller(made, monkeypatch, error, raised):
    call, _ = made
    run, taken = module._run, threading.Event()

    def failing(command, text):
        if threading.current_thread() is not threading.main_thread():
            taken.set()
            raise error
        assert taken.wait(60)
        return run(command, text)

    monkeypatch.setattr(module, "_run", failing)
    with pytest.raises(raised, match=str(error).partition("] ")[2] or str(error)):
        call([Unit(entries=text) for text in TWO])


def test_a_compiler_that_has_gone_is_said(made, tmp_path):
    """Not that there is no place, which ENOENT of a folder says as well."""
    _, store = made
    gone = replace(find_toolchain(store), command=(str(tmp_path / "c++"),), linker="")
    with pytest.raises(NotBuiltError, match=r"c\+\+ has gone since it was found$") as caught:
        gone.compile([Unit(entries=TWO[0])], "strict", store)
    assert "HYBRIDGPU_CXX" in caught.value.advice


@pytest.mark.parametrize("numeric", ["strict", "fast"])
def test_units_with_different_headers_are_one_unit_as_well(made, tmp_path, monkeypatch, numeric):
    """The first knows float alone, and parts of the mathematics; the second brings what the others need."""
    _, store = made
    b = builder()
    inputs = [b.input(tensor_type((3, 100 + n), dtype)) for n, dtype in enumerate((f32, f16, f32, f16))]
    results = [b.reduce("sum", b.exp(x) if x.dtype is f32 else multiplied(x, 2), (1,)) for x in inputs]
    program = compile_graph(b.finish(results, "mixed"), CPU.with_numeric(numeric))
    one, other = (u.text for u in program.units)
    assert ("half.h" in one) is not ("half.h" in other)
    monkeypatch.setattr(module, "cpu_count", lambda: 1)
    file = tmp_path / "whole.so"
    file.write_bytes(find_toolchain(store).compile(program.units, numeric, store).library)
    assert ctypes.CDLL(str(file)).run0


@LINKS
def test_libraries_are_looked_into_where_something_of_them_is_called(made):
    call, _ = made
    text = """extern "C" double cbrt(double);
extern "C" __attribute__((visibility("default"))) int run0() { volatile double x = 27; return (int)(cbrt(x) + 0.5); }
"""
    runs = 3 if "-nostdlib" in find_toolchain(made[1]).flags else 2
    assert call([Unit(entries=text)]) == (3, runs)
    text = TWO[0].replace("f2", "run0").replace("int", '__attribute__((visibility("default"))) int')
    assert call([Unit(entries=text)]) == (2, 2)
