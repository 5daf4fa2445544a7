# SPDX-License-Identifier: Apache-2.0
"""Canonicalization: exact rewrites towards one form of a graph, whatever the target is."""
