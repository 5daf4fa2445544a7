# SPDX-License-Identifier: Apache-2.0
"""The typed graph of primitives: nodes, builder, printed form, verification."""

from .graph import Builder, Graph, Node, Primitive, Provenance
from .types import TensorType, tensor_type

__all__ = ["Builder", "Graph", "Node", "Primitive", "Provenance", "TensorType", "tensor_type"]
