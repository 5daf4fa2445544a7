# SPDX-License-Identifier: Apache-2.0
"""CUDA devices through CuPy, kernels through NVRTC."""
