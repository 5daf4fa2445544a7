# SPDX-License-Identifier: Apache-2.0
"""Kernels of the CPU: loop nests, reductions over rows, pooling tiles, non-temporal stores."""
