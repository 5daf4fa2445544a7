# SPDX-License-Identifier: Apache-2.0
"""Running compiled graphs: signatures, programs by signature, output pools, reports."""

from typing import Any

from .reports.events import compile_report

__all__ = ["Feature", "Features", "compile_report", "feature_list"]


def __getattr__(name: str) -> Any:
    if name in ("Feature", "Features", "feature_list"):
        from . import features

        return getattr(features, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
