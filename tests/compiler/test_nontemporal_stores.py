# SPDX-License-Identifier: Apache-2.0
"""Results that kernels of the host store past the caches: the same bits, nothing written beside them, and where it is done."""

from __future__ import annotations

import numpy as np
import pytest
from compiler.cases import CASES, arrays, build, parse
from compiler.test_graphs import close, fresh, wanted
from guard_pages import guarded, guarded_copy

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import KernelStep
from hybridgpu.compiler.target import CPU
from hybridgpu.core.dtypes import from_short


def affine(b, x, *rest):
    return b.add(b.mul(x, x), rest[0]) if rest else b.mul(x, x)


def both(b, x, y):
    return [b.add(x, y), b.sub(x, y)]


def several(count):
    return lambda b, x, y: [b.add(x, y), b.sub(x, y), b.mul(x, y), b.max(x, y), b.min(x, y)][:count]


def compared(b, x, y):
    y = b.broadcast(y, x.shape)
    return [b.mul(x, y), b.gt(x, y)]


def normalised(b, x, y):
    return b.max(b.mul(b.sub(x, b.broadcast(y, x.shape)), x), x)


def softmax(b, x):
    e = b.exp(x - b.reduce("amax", x, (-1,), keepdims=True))
    return e / b.sum(e, (-1,), keepdims=True)


def two_of_rows(b, x):
    return [softmax(b, x), x - b.reduce("amax", x, (-1,), keepdims=True)]


def two_of_walk(b, x):
    y = x - b.sum(x, (-1,), keepdims=True)
    return [y, y * y]


def joined(axis):
    return lambda b, x, y, z: b.concat([b.mul(x, x), y, b.add(z, z)], axis)


def in_table(axis):
    return lambda b, *xs: b.concat([b.mul(x, x) for x in xs], axis)


def beside(b, x, g):
    return [x * b.sum(x * g, (-1,), keepdims=True), b.sum(x * g, (0,))]


#: function, types of the inputs, whether it is streamed
SHAPES = {
    "flat": (affine, ["f32[5000]", "f32[5000]"], True),
    "shorter than a vector": (affine, ["f32[3]"], True),
    "exactly a block": (affine, ["f32[64]"], True),
    "double": (affine, ["f64[2000]"], True),
    "half": (affine, ["f16[5001]", "f16[5001]"], True),
    "bfloat16": (affine, ["bf16[4099]"], True),
    "bytes": (affine, ["u8[9001]"], True),
    "two results": (both, ["f32[2500]", "f32[2500]"], True),
    "as many results as have room": (several(4), ["f32[2500]", "f32[2500]"], True),
    "too many results": (several(5), ["f32[2500]", "f32[2500]"], False),
    "two sizes of results of rows": (compared, ["f32[5,256]", "f32[1,256]"], True),
    "two sizes of results of rows, of which one begins with a line": (compared, ["f32[7,272]", "f32[1,272]"], False),
    "bytes beside doubles": (lambda b, x: [b.mul(x, x), b.gt(x, b.mul(x, x))], ["f64[777]"], True),
    "rows of whole blocks": (normalised, ["f32[5,1024]", "f32[1,1024]"], True),
    "rows of blocks and a part": (normalised, ["f32[3,2064]", "f32[1,2064]"], True),
    "some to compute": (lambda b, x: b.erf(b.mul(x, x)), ["f32[1000]"], True),
    "rows that do not begin with a line": (normalised, ["f32[3,1025]", "f32[1,1025]"], True),
    "rows of halves that do not": (normalised, ["f16[5,1001]", "f16[1,1001]"], True),
    "rows of bytes that do not": (
        lambda b, x, y: b.mul(x, b.broadcast(y, x.shape)),
        ["u8[4,1003]", "u8[1,1003]"],
        True,
    ),
    "the shortest rows that do not": (normalised, ["f32[40,129]", "f32[1,129]"], True),
    "two results of rows that do not": (
        lambda b, x, y: both(b, x, b.broadcast(y, x.shape)),
        ["f32[7,331]", "f32[1,331]"],
        True,
    ),
    "two sizes of results of rows that do not": (compared, ["f32[7,1001]", "f32[1,1001]"], False),
    "two results, of which one has rows in another order": (
        lambda b, x, y: [b.mul(x, b.broadcast(y, x.shape)), b.transpose(b.mul(x, b.broadcast(y, x.shape)), (1, 0, 2))],
        ["f32[7,3,331]", "f32[1,1,331]"],
        False,
    ),
    "channels to the front": (lambda b, x: b.div(b.transpose(x, (0, 3, 1, 2)), 255.0), ["f32[2,16,16,3]"], False),
    "channels of odd pictures to the front": (
        lambda b, x: b.div(b.transpose(x, (0, 3, 1, 2)), 255.0),
        ["f32[2,20,31,3]"],
        False,
    ),
    "short rows": (normalised, ["f32[300,20]", "f32[1,20]"], False),
    "rows of one line": (normalised, ["f32[300,16]", "f32[1,16]"], True),
    "rows of three lines": (normalised, ["f32[30,48]", "f32[1,48]"], True),
    "rows of lines of halves": (normalised, ["f16[30,160]", "f16[1,160]"], True),
    "rows of lines of doubles beside bytes": (
        lambda b, x, y: [b.mul(x, b.broadcast(y, x.shape)), b.gt(x, b.broadcast(y, x.shape))],
        ["f64[9,192]", "f64[1,192]"],
        True,
    ),
    "joined arrays": (joined(0), ["f32[40,7]", "f32[40,7]", "f32[3,7]"], True),
    "joined doubles": (joined(0), ["f64[301]", "f64[2]", "f64[77]"], True),
    "joined rows of lines": (joined(1), ["f32[9,64]", "f32[9,16]", "f32[9,192]"], True),
    "joined rows of halves that begin anywhere": (joined(1), ["f16[5,401]", "f16[5,302]", "f16[5,1203]"], True),
    "joined rows, one of which is too short": (joined(1), ["f32[9,401]", "f32[9,20]", "f32[9,301]"], True),
    "joined rows that are too short": (joined(1), ["f32[9,101]", "f32[9,20]", "f32[9,127]"], False),
    "joined rows, most of which are too short": (joined(1), ["f32[9,101]", "f32[9,120]", "f32[9,128]"], False),
    "joined pictures": (joined(1), ["f32[2,3,20,30]", "f32[2,5,20,30]", "f32[2,1,20,30]"], True),
    "joined along an axis between": (joined(1), ["f32[2,3,400]", "f32[2,5,400]", "f32[2,4,400]"], True),
    "a join whose parts compute much or little": (
        lambda b, x, y: b.concat([b.tanh(b.exp(b.sin(x))), y], 1),
        ["f32[5,256]", "f32[5,400]"],
        True,
    ),
    "joined with what it is gathered from": (
        lambda b, x, i: b.concat([b.take(x, i, axis=0), x], 0),
        ["f32[4000]", "i32[100]"],
        True,
    ),
    "two joins": (
        lambda b, x, y: both(b, b.concat([x, y], 1), b.concat([y, x], 1)),
        ["f32[7,331]", "f32[7,331]"],
        True,
    ),
    "stacked": (
        lambda b, x, y: b.concat([b.reshape(x, (1, *x.shape)), b.reshape(y, (1, *y.shape))], 0),
        ["f32[7,331]", "f32[7,331]"],
        True,
    ),
    "seventeen arrays, one behind the other": (lambda b, *xs: b.concat(xs, 0), ["f32[100]"] * 17, False),
    "five joined rows of whole blocks": (in_table(1), [f"f32[9,{n}]" for n in (512, 256, 256, 1024, 512)], True),
    "five joined rows of halves": (in_table(1), [f"f16[9,{n}]" for n in (512, 256, 256, 1024, 512)], True),
    "five joined rows of part blocks": (in_table(1), [f"f32[9,{n}]" for n in (512, 256, 320, 1024, 512)], True),
    "five joined pictures": (in_table(1), [f"f32[2,{n},20,30]" for n in (3, 5, 1, 4, 2)], True),
    "five arrays, one behind the other": (in_table(0), [f"f32[{n}]" for n in (100, 300, 70, 501, 200)], True),
    "padded rows": (lambda b, x: b.pad(x, (1, 2), (3, 1), 1.5), ["f32[9,401]"], True),
    "padded in front": (lambda b, x: b.pad(x, (40, 0), (0, 0), 0.0), ["f32[9,40]"], True),
    "rotated": (
        lambda b, x: b.concat([b.neg(b.slice(x, (0, 32), (9, 64), (1, 1))), b.slice(x, (0, 0), (9, 32), (1, 1))], 1),
        ["f32[9,64]"],
        True,
    ),
    "much to compute": (lambda b, x: b.tanh(b.exp(b.sin(x))), ["f32[4096]"], False),
    "softmax": (softmax, ["f32[6,128]"], True),
    "softmax of lanes that divide a row": (softmax, ["f32[5,480]"], True),
    "softmax that waits in its result": (softmax, ["f32[3,16384]"], False),
    "long rows": (lambda b, x: x * b.sum(x * x, (-1,), keepdims=True), ["f32[3,16384]"], True),
    "softmax of bfloat16": (softmax, ["bf16[3,1024]"], True),
    "softmax of rows that do not begin with a line": (softmax, ["f32[6,1000]"], True),
    "rows of lengths that are told": (softmax, ["f32[9,1001]"], True),
    "a row one longer than those streamed from its first line on": (softmax, ["f32[7,385]"], True),
    "rows of doubles that do not begin with a line": (softmax, ["f64[5,417]"], True),
    "rows of halves, which are computed for longer": (softmax, ["f16[5,1001]"], False),
    "rows longer than a buffer": (lambda b, x: x * b.sum(x * x, (-1,), keepdims=True), ["f32[3,5001]"], False),
    "two results of rows whose length is told": (two_of_rows, ["f32[9,401]"], True),
    "two results of one walk": (two_of_walk, ["f32[9,403]"], True),
    "steps of rows whose length is told": (
        lambda b, x, y: softmax(b, b.mul(x, y)),
        ["f32[4,5,401]", "f32[4,1,401]"],
        True,
    ),
    "rows and sums over them": (beside, ["f32[70,128]", "f32[70,128]"], True),
    "two results of rows": (two_of_rows, ["f32[9,192]"], True),
    "steps of examples": (normalised, ["f32[5,7,128]", "f32[5,1,128]"], True),
    "softmax of steps": (lambda b, x, y: softmax(b, b.mul(x, y)), ["f32[5,7,128]", "f32[5,1,128]"], True),
    "gathered": (lambda b, x, i: b.take(x, i, axis=0), ["f32[4000]", "i32[4000]"], False),
    "turned": (lambda b, x: b.transpose(x, perm=(1, 0)), ["f32[64,64]"], True),
    "turned and computed with": (
        lambda b, x, y: b.max(b.transpose(x, perm=(1, 0)) * 2.0, y),
        ["f32[192,64]", "f32[64,192]"],
        True,
    ),
    "turned halves, whose last tile is a part": (lambda b, x: b.transpose(x, perm=(1, 0)), ["f16[160,64]"], True),
    "turned doubles": (lambda b, x: b.transpose(x, perm=(1, 0)), ["f64[80,48]"], True),
    "turned, of rows that do not begin with a line": (lambda b, x: b.transpose(x, perm=(1, 0)), ["f32[70,64]"], False),
    "joined with what is turned": (
        lambda b, x, y: b.concat([b.transpose(x, perm=(1, 0)), y], 1),
        ["f32[128,70]", "f32[70,192]"],
        True,
    ),
}


def streaming(program):
    """``program`` as it is with arrays larger than the caches."""
    for unit in program.units:
        unit.kernels = [
            (name, text.replace("hg::exceeds_caches(", "hg::exceeds_caches((Index)1 << 40 | "))
            for name, text in unit.kernels
        ]
    return program


def made(function, types):
    b = builder()
    out = function(b, *[b.input(parse(t), f"x{k}") for k, t in enumerate(types)])
    return b.finish(out if isinstance(out, list) else [out], "g")


def run(graph, program, inputs, aligned):
    held = [guarded_copy(a) for a in inputs]
    outputs = fresh(program) if aligned else [guarded(s, from_short(d).np) for s, d in program.outputs]
    cpu_backend().load(program)(held, outputs)
    return outputs


@pytest.mark.parametrize("name", SHAPES)
def test_same_bits(name, compiler):
    function, types, expected = SHAPES[name]
    graph = made(function, types)
    inputs = arrays(graph, 7)
    plain = compile_graph(graph, CPU)
    assert ("hg::exceeds_caches(" in plain.source) is ("hg::store_block<" in plain.source) is expected
    # what went past the caches is fenced, which no thread of a test can be sure to miss
    assert plain.source.count("hg::streaming_fence();\n") == plain.source.count("hg::exceeds_caches(")
    want = run(graph, plain, inputs, True)
    for aligned in (True, False):
        for a, b in zip(run(graph, streaming(compile_graph(graph, CPU)), inputs, aligned), want):
            assert a.tobytes() == b.tobytes()


@pytest.mark.long_test
def test_all_cases_that_stream(compiler):
    found = 0
    for name in CASES:
        graph = build(name)
        program = compile_graph(graph, CPU)
        if "hg::exceeds_caches(" in program.source:
            found += 1
            inputs = arrays(graph, 3)
            for k, (got, want) in enumerate(zip(run(graph, streaming(program), inputs, False), wanted(graph, inputs))):
                close(got, want, inputs, f"{name} output {k}")
    assert found >= 15


@pytest.mark.parametrize(("rows", "over"), [(32, False), (1024, True)])
def test_what_is_written_over_an_operand_is_not_streamed(rows, over, compiler):
    b = builder()
    x, w = b.input(parse(f"f16[{rows},1024]"), "x"), b.input(parse("f16[1024,1024]"), "w")  # a library multiplies them
    y = b.dot(x, w)
    program = compile_graph(b.finish([b.dot(b.mul(b.add(b.dot(y, w), y), y), w)], "g"), CPU)
    (step,) = (s for s in program.steps if isinstance(s, KernelStep) and program.kernels[s.kernel].kind == "map")
    assert bool(step.in_place) is over
    assert ("hg::exceeds_caches(" in program.kernels[step.kernel].text) is not over


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "u8", "i64"])
def test_sizes_and_places_around_lines_and_vectors(dtype, compiler):
    """Results that begin at every place within two lines or so, and end one before, at, and one behind a border."""
    for n in (2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 1023, 1025):
        graph = made(lambda b, x, y: [b.add(b.mul(x, x), y), b.gt(x, y)], [f"{dtype}[{n}]"] * 2)
        inputs, plain = arrays(graph, n), compile_graph(graph, CPU)
        assert "hg::exceeds_caches(" in plain.source
        want = run(graph, plain, inputs, True)
        load = cpu_backend().load(streaming(compile_graph(graph, CPU)))
        for begin in (0, 1, 3, 8, 15, 31):
            outputs, memories = [], []
            for w in want:
                memory = np.full(w.nbytes + 512, 0xA5, np.uint8)
                at = -memory.__array_interface__["data"][0] % 64 + 64 + begin * w.itemsize
                outputs.append(memory[at : at + w.nbytes].view(w.dtype))
                memories.append((memory, at, at + w.nbytes))
            load(inputs, outputs)
            for got, w, (memory, first, last) in zip(outputs, want, memories):
                assert got.tobytes() == w.tobytes(), (n, begin)
                assert (memory[:first] == 0xA5).all() and (memory[last:] == 0xA5).all(), (n, begin)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_rows_of_lengths_around_lines_and_blocks(dtype, compiler):
    """Rows that begin at every place in a line, of one text for all lengths; 16 of them end with a line and a page."""
    texts = set()
    for n in (65, 383, 385, 399, 401, 447, 449, 511, 513, 527, 1001, 1023, 1025):
        graph = made(lambda b, x: two_of_walk(b, softmax(b, x)), [f"{dtype}[16,{n}]"])
        inputs, plain = arrays(graph, n), compile_graph(graph, CPU)
        text = plain.kernels[0].text
        texts.add(text)
        assert "hg::unaligned_prefix(" in text
        want = run(graph, plain, inputs, True)
        for aligned in (True, False):
            for got, w in zip(run(graph, streaming(compile_graph(graph, CPU)), inputs, aligned), want):
                assert got.tobytes() == w.tobytes(), (n, aligned)
    assert len(texts) == 1


@pytest.mark.parametrize("elements", [1_250_000, 1_200_001])
def test_large_arrays(elements, compiler):
    """Of three arrays, 15 and 14.4 MB: as many bytes as are streamed, and fewer."""
    graph = made(affine, [f"f32[{elements}]"] * 2)
    x, y = (np.random.default_rng(k).standard_normal(elements, np.float32) for k in range(2))
    (got,) = run(graph, compile_graph(graph, CPU), [x, y], True)
    np.testing.assert_array_equal(got, x * x + y)


@pytest.mark.long_table
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
def test_parts_of_joins_that_begin_at_every_place_of_a_line(dtype, axis, compiler):
    """Short parts, too, and none of them writes beside its own place."""
    for n in (1, 2, 7, 15, 16, 17, 31, 63, 64, 65, 127, 129):
        lengths = (n, 530, 515 + n) if axis else (n, 300, 70 + n, 2)
        types = [f"{dtype}[4,{m}]" if axis else f"{dtype}[{m}]" for m in lengths]
        graph = made(lambda b, *xs: b.concat([b.mul(x, x) for x in xs], axis), types)
        inputs, plain = arrays(graph, n), compile_graph(graph, CPU)
        assert "hg::exceeds_caches(" in plain.source and "hg::unaligned_prefix(" in plain.source
        want = np.concatenate([x * x for x in inputs], axis)
        memory = np.full(want.nbytes + 512, 0xA5, np.uint8)
        at = -memory.__array_interface__["data"][0] % 64 + 64
        got = memory[at : at + want.nbytes].view(want.dtype).reshape(want.shape)
        cpu_backend().load(streaming(plain))(inputs, [got])
        np.testing.assert_array_equal(got, want, err_msg=str(n))
        assert (memory[:at] == 0xA5).all() and (memory[at + want.nbytes :] == 0xA5).all(), n
