# SPDX-License-Identifier: Apache-2.0
"""Lengths and shares of the batch, which are arguments of kernels."""

from __future__ import annotations

from typing import Any

from compiler.cases.table import case

from hybridgpu.compiler.ir import Builder, Node
from hybridgpu.compiler.ir.dynamic_constants import Reciprocal


@case("f32[16,20]", "f32[16,12]")
def slope_of_dense(b: Builder, x: Node, g: Node) -> Node:
    """A sum over the batch, whose extent is an argument of the CPU's kernel."""
    return b.dot(b.transpose(x, (1, 0)), g)


@case("f32[6,10]", "f32[6,40]")
def slope_of_zeros(b: Builder, g: Node, h: Node) -> Node:
    """The same with one constant for all elements of an operand, as a recurrent cell's first state has."""
    return b.dot(b.full((30, 6), 0.5, g.dtype), g) + b.sum(h)


@case("f32[9,6]")
def share_of_rows(b: Builder, x: Node) -> Node:
    """Bits of a constant are an argument."""
    return b.tanh(x) * Reciprocal(9)


@case("f32[7,6]", "f64[9,5]", "f32[11,4]")
def shares(b: Builder, x: Node, y: Node, z: Node) -> Any:
    """The same in kernels that share a launch."""
    return b.tanh(x) * Reciprocal(7), b.tanh(y) * Reciprocal(9), b.tanh(z) * Reciprocal(11)
