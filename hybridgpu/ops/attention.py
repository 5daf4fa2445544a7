# SPDX-License-Identifier: Apache-2.0
"""Products of multi-head attention on interleaved projections.

Projections have the shape (length, batch, heads * parts * depth): for each head queries, keys and values
(or keys and values) lie side by side. Attention has the shape (batch * heads, queries, keys).
"""

from __future__ import annotations

import math

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from .linear import need_float
from .params import Int, Values
from .record import operator, sample

__all__: list[str] = []

_HEADS = {"heads": Int(doc="number of heads")}


def _need_rank(x: Node, name: str, layout: str) -> None:
    if x.ndim != 3:
        raise MXNetError(f"Check failed: Input {name} should be 3D in {layout}, currently is: {x.ndim}D")


def _parts(b: Builder, x: Node, heads: int, parts: int, name: str) -> list[Node]:
    """The interleaved parts, each as (batch * heads, length, depth).

    Raises:
        MXNetError: the last axis does not divide.
    """
    need_float(x)
    length, batch, width = x.shape
    if heads < 1 or width % (heads * parts):
        raise MXNetError(
            f"Check failed: {name}.shape[2] should be a multiple of heads * {parts}, currently are: {width} and {heads}"
        )
    depth = width // (heads * parts)
    split = b.transpose(b.reshape(x, (length, batch * heads, parts, depth)), (2, 1, 0, 3))
    return [b.item(split, k) for k in range(parts)]


def _scores(b: Builder, queries: Node, keys: Node) -> Node:
    return b.dot(queries * (1 / math.sqrt(queries.shape[-1])), b.transpose(keys, (0, 2, 1)))


def _joined(b: Builder, x: Node, batch: int) -> Node:
    """(batch * heads, length, depth) -> (length, batch, heads * depth)."""
    many, length, depth = x.shape
    return b.copy(b.reshape(b.transpose(x, (1, 0, 2)), (length, batch, many // max(batch, 1) * depth)))


@operator(
    "_contrib_interleaved_matmul_selfatt_qk",
    "queries_keys_values",
    params=dict(_HEADS),
    samples=(sample([(3, 2, 12)], {"heads": 2}), sample([(5, 1, 21)], {"heads": 1})),
    output_names=("output",),
)
def selfatt_qk(b: Builder, p: Values, queries_keys_values: Node) -> Node:
    """Scores of self-attention: queries, divided by the root of their depth, times keys."""
    _need_rank(queries_keys_values, "queries_keys_values", "seq_length-batch-proj_dim")
    queries, keys, _ = _parts(b, queries_keys_values, p.heads, 3, "queries_keys_values")
    return _scores(b, queries, keys)


@operator(
    "_contrib_interleaved_matmul_selfatt_valatt",
    "queries_keys_values attention",
    params=dict(_HEADS),
    samples=(
        sample([(3, 2, 12), (4, 3, 3)], {"heads": 2}),
        sample([(5, 1, 21), (1, 5, 5)], {"heads": 1}),
    ),
    output_names=("output",),
)
def selfatt_valatt(b: Builder, p: Values, queries_keys_values: Node, attention: Node) -> Node:
    """Attention times values, the heads side by side."""
    _need_rank(queries_keys_values, "queries_keys_values", "seq_length-batch-3*proj_dim")
    _need_rank(attention, "attention", "batch-seq_length-seq_length")
    length, batch = queries_keys_values.shape[:2]
    for k in (1, 2):
        if attention.shape[k] != length:
            raise MXNetError(
                f"Check failed: qkv_shape[0] == att_shape[{k}] ({length} vs. {attention.shape[k]}) : "
                f"queries_keys_values.shape[0] and attention.shape[{k}] should be the same, "
                f"currently are {length} and {attention.shape[k]}"
            )
    _, _, values = _parts(b, queries_keys_values, p.heads, 3, "queries_keys_values")
    _check_batch(attention, batch, p.heads)
    return _joined(b, b.dot(attention, values), batch)


def _check_batch(attention: Node, batch: int, heads: int) -> None:
    if attention.shape[0] != batch * heads:
        raise MXNetError(
            f"Check failed: kv_shape[1] * params.heads == att_shape[0] ({batch * heads} vs. {attention.shape[0]}) : "
            f"attention.shape[0] should be equal to keys_values.shape[1] * heads, "
            f"currently are: {attention.shape[0]} and {batch}"
        )


@operator(
    "_contrib_interleaved_matmul_encdec_qk",
    "queries keys_values",
    params=dict(_HEADS),
    samples=(
        sample([(3, 2, 4), (5, 2, 8)], {"heads": 2}),
        sample([(4, 1, 7), (3, 1, 14)], {"heads": 1}),
    ),
    output_names=("output",),
)
def encdec_qk(b: Builder, p: Values, queries: Node, keys_values: Node) -> Node:
    """Scores of attention between two sequences: queries, divided by the root of their depth, times keys."""
    _need_rank(queries, "queries", "seq_length-batch-proj_dim")
    _need_rank(keys_values, "keys_values", "seq_length-batch-2*proj_dim")
    if queries.shape[2] * 2 != keys_values.shape[2]:
        raise MXNetError(
            f"Check failed: q_shape[2] * 2 == kv_shape[2] ({queries.shape[2] * 2} vs. {keys_values.shape[2]}) : "
            "keys_values.shape[2] should be equal to queries.shape[2] * 2, "
            f"currently are: {keys_values.shape[2]} and {queries.shape[2]}"
        )
    if queries.shape[1] != keys_values.shape[1]:
        raise MXNetError(
            f"Check failed: q_shape[1] == kv_shape[1] ({queries.shape[1]} vs. {keys_values.shape[1]}) : "
            "queries.shape[1] should be equal to keys_values.shape[1], "
            f"currently are: {queries.shape[1]} and {keys_values.shape[1]}"
        )
    (asked,) = _parts(b, queries, p.heads, 1, "queries")
    keys, _ = _parts(b, keys_values, p.heads, 2, "keys_values")
    return _scores(b, asked, keys)


@operator(
    "_contrib_interleaved_matmul_encdec_valatt",
    "keys_values attention",
    params=dict(_HEADS),
    samples=(
        sample([(5, 2, 8), (4, 3, 5)], {"heads": 2}),
        sample([(3, 1, 14), (1, 4, 3)], {"heads": 1}),
    ),
    output_names=("output",),
)
def encdec_valatt(b: Builder, p: Values, keys_values: Node, attention: Node) -> Node:
    """Attention times the values of the other sequence, the heads side by side."""
    _need_rank(keys_values, "keys_values", "seq_length-batch-2*proj_dim")
    _need_rank(attention, "attention", "batch-seq_length-seq_length")
    length, batch = keys_values.shape[:2]
    if attention.shape[2] != length:
        raise MXNetError(
            f"Check failed: kv_shape[0] == att_shape[2] ({length} vs. {attention.shape[2]}) : "
            "keys_values.shape[0] should be equal to attention.shape[2], "
            f"currently are {length} and {attention.shape[2]}"
        )
    _, values = _parts(b, keys_values, p.heads, 2, "keys_values")
    _check_batch(attention, batch, p.heads)
    return _joined(b, b.dot(attention, values), batch)
