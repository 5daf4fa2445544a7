# SPDX-License-Identifier: Apache-2.0
"""Metrics of training loops (``mx.metric``).

A metric sums over the batches that ``update(labels, preds)`` sees, twice: since ``reset_local``
(``get``) and since ``reset`` (``get_global``).
"""

from .base import CompositeEvalMetric, CustomMetric, EvalMetric, alias, check_label_shapes, create, np, register
from .classification import *
from .classification import __all__ as _classification
from .values import *
from .values import __all__ as _values

__all__ = [
    "CompositeEvalMetric",
    "CustomMetric",
    "EvalMetric",
    "alias",
    "check_label_shapes",
    "create",
    "np",
    "register",
    *_classification,
    *_values,
]
