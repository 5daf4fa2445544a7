# SPDX-License-Identifier: Apache-2.0
"""``gluon.model_zoo``: known architectures."""

from . import model_store, vision

__all__ = ["model_store", "vision"]
