# SPDX-License-Identifier: Apache-2.0
"""Benchmarks, as programs; ``python -m bench.gpu_check`` is one of several modules."""
