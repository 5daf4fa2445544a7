# SPDX-License-Identifier: Apache-2.0
"""``mx.executor``: executors, which are Symbols bound to arrays."""

from .executor import Executor

__all__ = ["Executor"]
