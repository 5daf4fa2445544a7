# SPDX-License-Identifier: Apache-2.0
"""``mx.executor``: a Symbol bound to arrays, and how ``Symbol.bind`` and ``simple_bind`` make that."""

from .executor import Executor

__all__ = ["Executor"]
