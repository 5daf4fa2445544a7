# SPDX-License-Identifier: Apache-2.0
"""What the classifiers of the model zoo share."""

from __future__ import annotations

from typing import Any

from ...hybrid import HybridBlock

__all__ = ["Classifier"]


class Classifier(HybridBlock):
    """``features``, then ``output``: images (N, 3, H, W) to scores (N, classes)."""

    features: Any
    output: Any

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.output(self.features(x))
