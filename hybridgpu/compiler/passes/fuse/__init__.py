# SPDX-License-Identifier: Apache-2.0
"""Partition a graph into kernels."""

from .fuse import FusionPlan, fuse
from .group import Cut, Group

__all__ = ["Cut", "FusionPlan", "Group", "fuse"]
