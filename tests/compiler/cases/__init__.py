# SPDX-License-Identifier: Apache-2.0
"""Graphs that every stage of the compiler is tried on: name -> (function of a builder, input types).

Each is a pattern that a kernel kind, a view, a fusion rule or a corner needs. The modules beside table.py register
theirs in CASES when they are imported.
"""

from __future__ import annotations

from compiler.cases import (
    batches,
    convolutions,
    functions,
    joined,
    loops,
    maps,
    pooled,
    products,
    rows,
    scatters,
    statistics,
    steps,
    tiles,
    windows,
)
from compiler.cases.table import CASES, arrays, build, case, cuda_of, parse, plain

__all__ = ["CASES", "EXPECTED", "arrays", "build", "case", "cuda_of", "parse", "plain"]

_FAMILIES = (
    batches,
    convolutions,
    functions,
    joined,
    loops,
    maps,
    pooled,
    products,
    rows,
    scatters,
    statistics,
    steps,
    tiles,
    windows,
)

#: what the compiler should make of some: kinds of kernels in order
EXPECTED: dict[str, list[str]] = {
    "chain": ["map"],
    "bias": ["map"],
    "softmax": ["rows"],
    "softmax_middle": ["rows"],
    "layer_norm": ["rows"],
    "batch_norm": ["rows", "reduce"],
    "statistics_of_columns": ["rows"],
    "statistics_in_a_cluster": ["rows"],
    "statistics_and_slopes": ["rows"],
    "group_norm": ["rows"],
    "log_sum_exp": ["reduce"],
    "steps_of_long_rows": ["rows", "map"],  # the sum of squares, which nobody waits for, is of the same walk
    "cross_entropy": ["reduce"],
    "several_outputs": ["rows"],
    "dense": ["matmul"],
    "dense_of_sequence": ["matmul"],
    "epilogue_of_other_axes": ["matmul"],
    "dense_with_prologue": ["matmul"],
    "batched_with_prologue": ["matmul"],
    "convolved_with_prologue": ["conv"],
    "thinned_with_prologue": ["conv"],
    "convolved_volume_with_prologue": ["conv"],
    "take": ["rows"],
    "narrow_rows": ["rows"],
    "max_pool": ["map", "reduce"],
    "windows_put_back": ["map"],
    "disjoint_windows": ["rows"],
    "wide_disjoint_windows": ["reduce"],
    "windows_over_the_border": ["map", "reduce"],  # on the CPU: its image fits into a cache
    "windows_over_each_other": ["reduce", "map"],
    "convolved": ["conv"],
    "convolved_line": ["conv"],
    "input_dilated_line": ["conv"],
    "input_dilated": ["conv"],
    "slope_line": ["conv"],
    "slope": ["map", "map", "conv"],
    "slope_volume": ["conv"],
    "scatter": ["scatter"],
    "scatter_of_means": ["scatter"],
    "scatter_and_what_follows": ["scatter"],
    "rows_replaced_and_what_follows": ["scatter"],
    "scatter_inside": ["scatter"],
    "counts": ["scatter"],
    "scatter_of_halves": ["scatter", "map"],
    "scatter_along": ["scatter"],
    "rows_replaced": ["scatter", "scatter"],
    "rows_replaced_with_prologue": ["map", "scatter"],
    "scatter_to_one_place": ["scatter"],
    "scatter_of_long_rows": ["scatter"],
    "scatter_in_parts": ["scatter", "map"],
    "long_scatter": ["scatter"],
    "scatter_into_many_rows": ["scatter"],
    "moments_of_rows": ["reduce"],  # (on the CPU they do stay near)
    "moments_of_columns": ["reduce"],
    "many_kernels": ["reduce"] * 14,
    "many_kernels_and_pointers": ["reduce"] * 14,
}
