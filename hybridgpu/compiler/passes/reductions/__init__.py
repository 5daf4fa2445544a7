# SPDX-License-Identifier: Apache-2.0
"""Reductions: splitting over rows, blocks and updates, with merges that keep accuracy."""
