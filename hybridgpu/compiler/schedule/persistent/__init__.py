# SPDX-License-Identifier: Apache-2.0
"""Persistent kernels (CUDA): consecutive small kernels and loops as phases of one launch."""
