# SPDX-License-Identifier: Apache-2.0
"""What is written to memory before it is compared with its own extreme: all whose bits may be others if computed again."""

from __future__ import annotations

import pytest
from compiler.cases import parse
from compiler.one_pass import run_pass

from hybridgpu.compiler.passes.precision.exact_extrema import bits_may_change
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.target import CPU
from hybridgpu.core.dtypes import f16, f32, f64

pytestmark = pytest.mark.no_host_code

#: what is computed of x: f32[6,6], h: f16[6,6] and n: i32[6,6] -> whether its bits may change in 'strict', and in 'fast'
VALUES = {
    "an argument": (lambda b, x, h, n: x, False, False),
    "a product": (lambda b, x, h, n: x * x, False, True),
    "a product of doubles": (lambda b, x, h, n: b.cast(x, f64) * 2.0, False, True),
    "a product of halves": (lambda b, x, h, n: h * h, True, True),
    "a product of integers": (lambda b, x, h, n: n * n, False, False),
    "halves from memory": (lambda b, x, h, n: b.max(h, 0.0), False, False),
    "a part of a product": (lambda b, x, h, n: b.max(x * x, 0.5), False, True),
    "chosen from a product": (lambda b, x, h, n: b.select(b.gt(x, 0.0), x, h_of(b, h)), True, True),
    "a view of halves": (lambda b, x, h, n: b.transpose(h, (1, 0)), False, False),
    "a view of a product": (lambda b, x, h, n: b.transpose(x * x, (1, 0)), False, True),
    "made half": (lambda b, x, h, n: b.cast(x, f16), False, False),
    "a product made half": (lambda b, x, h, n: b.cast(x * x, f16), False, True),
    "halves made float": (lambda b, x, h, n: b.cast(h * h, f32), True, True),
    "a comparison of products": (lambda b, x, h, n: b.gt(x * x, 0.5), False, True),
    "a sum": (lambda b, x, h, n: b.sum(x * x, (1,)), False, False),
    "a sum of halves": (lambda b, x, h, n: b.sum(h, (1,)), True, True),
    "an extreme of halves": (lambda b, x, h, n: b.reduce("amax", h, (1,)), False, False),
    "an extreme of computed halves": (lambda b, x, h, n: b.reduce("amax", h * h, (1,)), True, True),
    "an extreme": (lambda b, x, h, n: b.reduce("amax", x * x, (1,)), False, False),
    "a product of matrices": (lambda b, x, h, n: b.dot(h * h, h), False, False),
    "running sums": (lambda b, x, h, n: b.cumsum(h * h, axis=0), False, False),
    "looked up in a product": (lambda b, x, h, n: b.take(x * x, n, axis=0), False, True),
}


def h_of(b, h):
    return b.cast(h * h, f32)


@pytest.mark.parametrize("name", VALUES)
def test_values_that_may_be_others_the_next_time(name):
    make, strict, fast = VALUES[name]
    b = builder()
    node = make(b, *(b.input(parse(f"{t}[6,6]"), t) for t in ("f32", "f16", "i32")))
    assert (bits_may_change(True)(node), bits_may_change(False)(node)) == (strict, fast)


def extreme(b, z, how="amax"):
    return b.broadcast(b.reduce(how, z, (1,), keepdims=True), z.shape)


#: results of z, which is computed, and x -> whether z is written to memory for its comparison
COMPARED = {
    "with its maximum": (lambda b, z, x: b.eq(z, extreme(b, z)), True),
    "its minimum with it": (lambda b, z, x: b.lt(extreme(b, z, "amin"), z), True),
    "turned": (lambda b, z, x: b.eq(b.transpose(z, (1, 0)), b.transpose(extreme(b, z), (1, 0))), True),
    "with the maximum of something else": (lambda b, z, x: b.eq(z, extreme(b, x)), False),
    "its maximum with something else": (lambda b, z, x: b.eq(x, extreme(b, z)), False),
    "with its sum": (lambda b, z, x: b.eq(z, b.broadcast(b.sum(z, (1,), keepdims=True), z.shape)), False),
    "with a number": (lambda b, z, x: b.cast(b.gt(z, 0.0), f32) + extreme(b, z), False),
    "not at all": (lambda b, z, x: z - extreme(b, z), False),
}


@pytest.mark.parametrize("numeric", ["strict", "fast"])
@pytest.mark.parametrize("name", COMPARED)
def test_what_is_written_before(name, numeric):
    make, wanted = COMPARED[name]
    b = builder()
    x = b.input(parse("f32[6,6]"), "x")
    z = x * 2.0 + 1.0
    graph = run_pass("exact_extrema", b.finish([make(b, z, x)]), CPU.with_numeric(numeric))
    copies = [n for n in graph.nodes if n.prim.name == "copy"]
    assert len(copies) == (wanted and numeric == "fast")
    readers = [n.prim.name for n in graph.nodes if any(i in copies for i in n.inputs)]
    assert ("add" not in readers) and len(readers) == 2 * len(copies)
