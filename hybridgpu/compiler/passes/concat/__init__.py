# SPDX-License-Identifier: Apache-2.0
"""Concatenation: wide ones in steps, and zero-copy ones whose operands are stored in place."""
