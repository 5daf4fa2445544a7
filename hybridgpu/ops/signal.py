# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms, count sketches, likelihoods of point processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..compiler.primitives.custom_gradient import gradient_rule
from ..core.dtypes import i32, i64
from .linear import need_float
from .params import Int, Values
from .record import operator, sample, shape_text

__all__: list[str] = []

_PART = Int(128, "accepted")


@operator(
    "_contrib_fft",
    params={"compute_size": _PART},
    samples=(sample([(3, 4)]), sample([(2, 3, 5)])),
    output_names=("output",),
)
def fft(b: Builder, p: Values, data: Node) -> Node:
    """The discrete Fourier transform along the last axis: real and imaginary parts alternate, (…, d) -> (…, 2 d)."""
    need_float(data)
    return b.fourier(data)


@operator(
    "_contrib_ifft",
    params={"compute_size": _PART},
    samples=(sample([(3, 4)]), sample([(2, 3, 6)])),
    output_names=("output",),
)
def ifft(b: Builder, p: Values, data: Node) -> Node:
    """The real part of the inverse of fft, not divided by the number of elements: (…, 2 d) -> (…, d)."""
    need_float(data)
    return b.inverse_fourier(data)


@operator(
    "_contrib_count_sketch",
    "data h s",
    dtypes="T*T",
    params={"out_dim": Int(doc="length of the sketches", low=1), "processing_batch_size": Int(32, "accepted")},
    samples=(sample([(3, 6), (1, 6), (1, 6)], {"out_dim": 4}, {1: (0, 3)}),),
    output_names=("output",),
)
def count_sketch(b: Builder, p: Values, data: Node, h: Node, s: Node) -> Node:
    """Add each column of (N, D), with its sign in ``s``, to the column of (N, out_dim) that ``h`` says."""
    need_float(data)
    width = data.shape[-1]
    for x in (h, s):
        if x.size != width:
            raise MXNetError(f"Shape inconsistent, Provided = {shape_text(x.shape)}, inferred shape=[1,{width}]")
    signed = data * b.reshape(b.stop_gradient(s), (1,) * (data.ndim - 1) + (width,))
    at = b.max(b.min(b.cast(b.reshape(h, (width,)), i64), p.out_dim - 1), 0)
    return b.scatter_add(signed, at, axis=data.ndim - 1, extent=p.out_dim)


@operator(
    "_contrib_hawkesll",
    "lda alpha beta state lags marks valid_length max_time",
    dtypes="TTTTT***",
    outputs=2,
    output_names=("output", "out_state"),
    infer_dtypes=lambda p, dtypes: [*dtypes[:5], i32, *dtypes[6:]],
    samples=(
        sample([(2, 3), (3,), (3,), (2, 3), (2, 4), (2, 4), (2,), (2,)], None, {5: (0, 2), 6: (0, 4), 7: (9, 12)}),
    ),
    domain=(0.1, 1.0),
)
def hawkesll(
    b: Builder,
    p: Values,
    lda: Node,
    alpha: Node,
    beta: Node,
    state: Node,
    lags: Node,
    marks: Node,
    valid_length: Node,
    max_time: Node,
) -> Sequence[Node]:
    """Log likelihoods (N,) of point processes that excite themselves, and their states (N, K) at the end.

    ``lda`` (N, K) are the background intensities, ``alpha`` and ``beta`` (K,) branching ratios and decays, ``lags``
    (N, T) times between points, ``marks`` (N, T) their kinds (int32), ``valid_length`` (N,) their numbers.
    """
    need_float(lda)
    for x, ndim in zip(
        (lda, alpha, beta, state, lags, marks, valid_length, max_time), (2, 1, 1, 2, 2, 2, 1, 1), strict=True
    ):
        if x.ndim != ndim:
            raise MXNetError(f"Check failed: ndim() == {ndim} ({x.ndim} vs. {ndim}) : ")
    n, k = lda.shape
    lengths = [b.cast(x, lda.dtype) for x in (valid_length, max_time)]
    every = [lda, alpha, beta, state, lags, b.cast(marks, i64), *lengths]
    both = b.hawkes(*every)
    likelihood = b.reshape(b.slice_axis(both, 1, 0, 1), (n,))
    return [b.custom_gradient(likelihood, *every, rule="hawkesll"), b.slice_axis(both, 1, 1, 1 + k)]


@gradient_rule("hawkesll", exact=False)
def _hawkesll_gradient(
    b: Builder, g: Node, y: Node, inputs: Sequence[Node], static: tuple[Any, ...]
) -> Sequence[Node | None]:
    """As in MXNet, of the parameters alone; the states at the end depend on nothing."""
    n, k = inputs[0].shape
    scaled = b.hawkes_gradient(*inputs) * b.reshape(g, (n, 1))
    mu, alpha, beta = (b.slice_axis(scaled, 1, j * k, (j + 1) * k) for j in range(3))
    return [mu, b.sum(alpha, (0,)), b.sum(beta, (0,)), *(None,) * 5]
