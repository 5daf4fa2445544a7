# SPDX-License-Identifier: Apache-2.0
"""Symbolic dimensions: arithmetic of extents, and kernels that further sizes share."""

from __future__ import annotations

import math
import pickle
import threading
from contextlib import suppress
from math import prod

import numpy as np
import pytest
from compiler.dynamic_sizes import texts_and_values
from compiler.test_dynamic_args import INNER, MOVED, SLICED
from compiler.test_dynamic_lengths import EVERY, ROWS, inputs

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.compiler.ir import dims
from hybridgpu.compiler.ir.computed import common_divisor, computed
from hybridgpu.compiler.ir.dims import Dim, cached_by_extents, nominal, symbolic_dims
from hybridgpu.compiler.ir.dynamic_constants import float_of_extent, reciprocal
from hybridgpu.compiler.ir.types import joint_type, tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import Program
from hybridgpu.compiler.size_buckets import symbolic_type, with_dims
from hybridgpu.compiler.size_templates import at_own_extents
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import f32

#: expression of extents -> (its value for 6, which was 8 at first, and what it was then)
ARITHMETIC = {
    "n * 4": (24, 32),
    "4 * n": (24, 32),
    "n + 3": (9, 11),
    "3 + n": (9, 11),
    "n - 1": (5, 7),
    "20 - n": (14, 12),
    "n // 2": (3, 4),
    "n * 10 // 5": (12, 16),
    "240 // n": (40, 30),
    "n * n": (36, 64),
    "-n": (-6, -8),
    "abs(n - 30)": (24, 22),
    "prod((2, n, 5))": (60, 80),
    "sum((n, n, 1))": (13, 17),
    # what does not depend on it is no dimension
    "n * 12 // n": (12, 12),
    "n - n": (0, 0),
}


@pytest.mark.parametrize("text", ARITHMETIC)
def test_arithmetic_is_done_on_both_extents(text):
    value, first = ARITHMETIC[text]
    with symbolic_dims() as scope:
        found = eval(text, {"n": scope.dim(6, 8), "prod": prod, "sum": sum})
        assert (found, nominal(found)) == (value, first) and (type(found) is Dim) == (value != first)


def test_threads_that_compile_at_once_count_rightly(monkeypatch):
    """A thread may be stopped between reading the number of such compilations and writing it."""
    running = threading.Barrier(2, timeout=10)

    class Slow(list):
        def __getitem__(self, k):
            found = super().__getitem__(k)
            with suppress(threading.BrokenBarrierError):
                running.wait(0.1)  # let the other one read as well, if it can
            return found

    counter = Slow([0])
    monkeypatch.setattr(dims, "symbolic", counter)
    scopes = [dims.symbolic_dims() for _ in range(2)]
    threads = [threading.Thread(target=scope.__enter__) for scope in scopes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list.__getitem__(counter, 0) == 2


def test_a_dimension_is_an_int():
    with symbolic_dims() as scope:
        n = scope.dim(6, 8)
        assert isinstance(n, int) and not isinstance(n * 1.5, int) and isinstance(n / 4, float)
        assert n == 6 and f"{n} {n!r} {[n]} {n:3d}" == "6 6 [6]   6"
        assert n * 1.5 == 9 and n / 4 == 1.5 and n % 4 == 2 and divmod(n, 4) == (1, 2) and 2**n == 64 and n & 3 == 2
        assert list(range(n)) == list(range(6)) and [0] * n == [0] * 6 and np.zeros((n, 2)).shape == (6, 2)
        assert np.float32(2) * n == 12 and np.array([n, n]).tolist() == [6, 6] and n.bit_length() == 3
        assert (math.trunc(n * 1.6), math.floor(n * 1.6), math.ceil(n * 1.6), round(n * 1.6)) == (9, 9, 10, 10)
        # a divisor of this extent alone, which was 0 at first
        assert n // scope.dim(2, 0) == 3 and type(n // scope.dim(2, 0)) is int
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(n)


def test_arithmetic_of_constants_that_follow_from_a_dimension():
    with symbolic_dims() as scope:
        n = scope.dim(64, 24)
        for x, plain in ((float_of_extent(n), 64.0), (reciprocal(n, True), 1 / 64)):
            assert (1 / x, 2 * x, x - 1, x / 4, -x, x > 0.5) == (
                1 / plain, 2 * plain, plain - 1, plain / 4, -plain, plain > 0.5,
            )  # fmt: skip


def test_what_the_first_extents_do_not_allow_is_computed_of_these():
    @computed
    def empty(extent):
        return np.empty(extent - 30).size

    with symbolic_dims() as scope:
        assert empty(scope.dim(64, 32)) == 34 and type(empty(scope.dim(64, 32))) is Dim
        assert empty(scope.dim(64, 24)) == 34 and type(empty(scope.dim(64, 24))) is int
        assert ("eq", scope.dim(64, 24).form, 64) in scope.guards


def test_what_follows_from_a_dimension_is_written_in_one_way():
    with symbolic_dims() as scope:
        n, m = scope.dim(6, 8), scope.dim(5, 7)
        for x, y in [
            (n * 64, 64 * n),
            ((n + m) * (n - m), n * n - m * m),
            ((n * 64 + 3) // 64, n),
            (n * m * 12 // (m * 4), n * 3),
            ((n * 64 + m) % 64, m % 64),
            (common_divisor(n * m * 6, n * 4), 2 * n),
        ]:
            assert x.form == y.form
        assert n * m % m == 0 and type(n * m % m) is int
        assert not scope.guards  # all of that holds at every size


@pytest.mark.parametrize(
    ("decide", "guarded"),
    [
        (lambda n: n > 1, False),  # a dimension is at least 2
        (lambda n: n * 3 - 7 < n * 4, False),
        (lambda n: n * n == 0, False),
        (lambda n: max(n * 2, n * 3), False),
        (lambda n: n // 8 >= 0, False),
        (lambda n: n in {n: 1}, False),
        (lambda n: 6 in {n: 1}, False),  # tables do not tell numbers by their values
        (lambda n: n < 8, True),
        (lambda n: n == 6, True),
        (lambda n: n != 8, True),
        (lambda n: min(n, 8), True),
        (lambda n: n % 4 == 0, True),
        (lambda n: bool(n - 5), True),
        (lambda n: n * 1.5 <= 100, True),
        (lambda n: 0.5 > n, True),
        (range, True),
        (str, True),
        (float, True),
        (lambda n: int(n / 4), True),
        (lambda n: [0] * n, True),
        (lambda n: "abcdefgh"[n], True),
        ("{:d}".format, True),
        (lambda n: np.zeros(n), True),
        (lambda n: np.asarray(n), True),
        (lambda n: np.float32(1) * n, True),
        (lambda n: math.log2(n), True),
        (lambda n: math.gcd(n, 4), True),
        (lambda n: n | 1, True),
        (lambda n: n.bit_length(), True),
        (lambda n: sorted([7, n]), True),
        (lambda n: (n, 1) == (6, 1), True),
    ],
)
def test_what_is_decided_is_guarded(decide, guarded):
    with symbolic_dims() as scope:
        decide(scope.dim(6, 8))
        assert bool(scope.guards) == guarded


@pytest.mark.parametrize(
    ("now", "first", "dims"),
    [
        ((6, 3), (28, 3), {0: 28}),
        ((6, 3), (6, 3), {}),
        ((6, 3), (6, 3, 1), {}),
        ((1, 3), (8, 3), {}),  # its loop vanishes
        ((6, 3), (1, 3), {0: 32}),  # one without a loop decides for none, …
        ((6, 3), (2, 12), {0: 32, 1: 32}),  # … nor one whose loop may be written out
        ((3, 400), (4096, 300), {0: 4096, 1: 300}),  # the first one decides for smaller sizes, and some larger ones
        ((128, 129), (8, 32), {0: 32, 1: 256}),
        ((32, 6), (1, 25), {0: 32, 1: 25}),
    ],
    ids=str,
)
def test_which_axes_are_dimensions(now, first, dims):
    with symbolic_dims() as scope:
        found = with_dims(now, first, scope)
        assert found == now
    assert {k: n.nominal for k, n in enumerate(found) if type(n) is Dim} == dims


def test_types_of_dimensions_are_apart():
    plain, first = tensor_type((6, 35), f32), tensor_type((28, 35), f32)
    with symbolic_dims() as scope:
        found = symbolic_type(plain, first, scope)
        assert found is not plain and found is symbolic_type(plain, first, scope)
        assert symbolic_type(plain, tensor_type((29, 35), f32), scope) is not found
        assert tensor_type((6, 35), f32) is plain
        # a parameter meets what changes
        assert joint_type(plain, found) is joint_type(found, plain) is found and joint_type(plain, first) is None
    # nobody else meets one, whatever is asked for first
    assert tensor_type((6, 35), f32) is plain and repr(found) == repr(plain)
    with symbolic_dims() as scope:
        assert symbolic_type(plain, first, scope) is not found


def test_results_of_dimensions_are_kept_apart():
    calls = []

    @cached_by_extents(8)
    def twice(shape):
        calls.append(shape)
        return shape[0] * 2

    with symbolic_dims() as scope:
        dims = 6, scope.dim(6, 8), scope.dim(6, 9), 6, scope.dim(6, 8)
        assert [nominal(twice((n, 3))) for n in dims] == [12, 16, 18, 12, 16]
    assert type(twice((6, 3))) is int and len(calls) == 3


SIZES = (12, 40, 61, 9, 4, 3, 2)


def slope_of_a_bias(b, n):
    """Of few sentences."""
    x, y = inputs(b, (3, n, 24), (3, n, 24))
    return b.sum(x * y, (0, 1))


def slope_of_positions(b, n):
    """Words of all sentences at one place."""
    x, y = inputs(b, (3, n, 24), (3, n, 24))
    return b.sum(x + y, (0,))


def slope_of_heads(b, n):
    """A bias of heads that lie between words."""
    (x,) = inputs(b, (3, 4, n, 16))
    return b.sum(x, (0, 2))


def mean_of_every_other(b, n):
    """Neighbours in rows do not lie side by side, as where a loss picks what each word was."""
    (x,) = inputs(b, (5, n, 8))
    return b.sum(b.exp(b.slice(x, (0, 0, 3), (5, n, 4), (1, 1, 1))), (1, 2))


def scores_with_prologue(b, n):
    """The right operand is computed, row by row."""
    q, k, f = inputs(b, (6, n, 24), (6, n, 24), (24,))
    return b.dot(q, b.transpose(b.tanh(k + f), (0, 2, 1)))


def words_first(b, n):
    """A batch lies between the words of a sentence."""
    (x,) = inputs(b, (12, n, 3, 16))
    q, k = (b.transpose(b.slice(x, (0, 0, j, 0), (12, n, j + 1, 16), (1,) * 4), (1, 2, 0, 3)) for j in (0, 1))
    q, k = (b.reshape(y, (n, 12, 16)) for y in (q, k))
    return b.dot(q, b.transpose(k, (0, 2, 1)))


def sentences_of_words(b, n):
    """Few sentences, of which each word's features are multiplied."""
    x, w = inputs(b, (4, n, 48), (48, 32))
    return b.dot(b.reshape(b.transpose(x, (1, 0, 2)), (n * 4, 48)), w)


def weights_of_batches(b, n):
    """Both strides of the left operand step over the batch, which lies innermost; those of the right one are other ones."""
    w, v = inputs(b, (11, 9, n), (9, 5, n))
    return b.dot(b.transpose(w, (2, 0, 1)), b.transpose(v, (2, 0, 1)))


#: of one text from the second size on
KNOWN = [slope_of_a_bias, slope_of_positions, slope_of_heads, mean_of_every_other, scores_with_prologue, words_first]
KNOWN += [sentences_of_words, weights_of_batches]


@pytest.mark.parametrize("make", [*EVERY, *ROWS, *SLICED, *MOVED, *INNER, *KNOWN], ids=lambda f: f.__name__)
def test_further_sizes_share_a_text(make, compiler):
    """From the second on, whatever the extents, those of loops that would be written out among them."""
    with symbolic_dims() as scope:
        texts = texts_and_values(make, [scope.dim(n, 24) for n in SIZES], CPU, cpu_backend().load, scope)
    assert len(texts) == 1


def test_parts_that_begin_at_one_place_at_this_size(compiler):
    """The gradient of every third maximum, as a scatter adds it up: each element once."""

    def make(b, n):
        x, u = inputs(b, (11, n), (11, (n - 3) // 2 + 1))
        spread = b.pad(b.reshape(u, (*u.shape, 1)), high=(0, 0, 1), low=(0, 0, 0), value=0.0)
        spread = b.reshape(spread, (11, 2 * u.shape[1]))
        rest = n - 2 * u.shape[1]
        y = b.pad(spread, high=(0, 0), low=(0, rest), value=0.0) + b.pad(spread, high=(0, rest), low=(0, 0), value=0.0)
        return b.scatter_along(y, b.argsort(x, axis=0, ascending=True), axis=0, extent=11)

    with symbolic_dims() as scope:
        texts_and_values(make, [scope.dim(n, 50) for n in (7, 9)], CPU, cpu_backend().load, scope)


def test_a_size_that_alone_would_be_shared_out_runs_as_a_whole(compiler):
    """Of few outermost turns, which the nominal extent leaves to one thread."""

    def make(b, n):
        (x,) = inputs(b, (3, n, 64))
        e = b.exp(x - b.broadcast(b.reduce("amax", x, (1,), keepdims=True), x.shape))
        return e / b.broadcast(b.sum(e, (1,), keepdims=True), x.shape)

    with symbolic_dims() as scope:
        texts_and_values(make, [scope.dim(n, 20) for n in (800, 30)], CPU, cpu_backend().load, scope)


def test_a_program_has_plain_numbers():
    with symbolic_dims() as scope:
        b = builder()
        x = b.input(tensor_type((scope.dim(6, 8), 3, 5), f32), "x")
        made = compile_graph(b.finish([b.exp(b.reshape(x, (x.shape[0] * 3, 5)))]), CPU)

    def numbers(value):
        if isinstance(value, (list, tuple)):
            return [n for v in value for n in numbers(v)]
        return numbers(list(vars(value).values())) if hasattr(value, "__dict__") and type(value) is not Dim else [value]

    assert any(type(n) is Dim for n in numbers(made))
    plain = at_own_extents(scope, made)
    assert not any(type(n) is Dim for n in numbers(plain)) and "\x02" not in repr(plain)
    assert Program.from_bytes(plain.to_bytes()) == plain


@pytest.mark.no_host_code
@pytest.mark.parametrize("make", [*ROWS, *SLICED, *MOVED], ids=lambda f: f.__name__)
def test_further_sizes_on_a_gpu(make, cuda_driver):
    """What the first size has decided holds for shorter and longer ones."""
    backend = CudaBackend(cuda_driver, np, lambda a: int(a.__array_interface__["data"][0]))
    with symbolic_dims() as scope:
        texts_and_values(make, [scope.dim(n, 24) for n in (3, 70)], CUDA, backend.load, scope)
