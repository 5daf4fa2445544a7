# SPDX-License-Identifier: Apache-2.0
"""Pooling: windows and their gradients as the loops of a target compute them best."""
