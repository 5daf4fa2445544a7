# SPDX-License-Identifier: Apache-2.0
"""Kernels of CUDA: elementwise, reductions, scatters, many small ones in one launch; how each is configured."""
