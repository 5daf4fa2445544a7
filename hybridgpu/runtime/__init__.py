# SPDX-License-Identifier: Apache-2.0
"""Running compiled graphs: signatures, programs by signature, output pools, reports."""

from .reports import compile_report

__all__ = ["compile_report"]
