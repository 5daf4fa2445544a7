# SPDX-License-Identifier: Apache-2.0
"""Fusion: the partition of a graph into kernels."""

from .fuse import FusionPlan
from .group import Group, Refusal

__all__ = ["FusionPlan", "Group", "Refusal"]
