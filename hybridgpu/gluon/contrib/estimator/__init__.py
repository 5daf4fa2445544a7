# SPDX-License-Identifier: Apache-2.0
"""``gluon.contrib.estimator``: a training loop that asks handlers what to do when."""

from . import batch_processor, estimator, event_handler
from .batch_processor import *
from .batch_processor import __all__ as _processors
from .estimator import *
from .estimator import __all__ as _estimators
from .event_handler import *
from .event_handler import __all__ as _handlers

__all__ = [*_estimators, *_handlers, *_processors, "batch_processor", "estimator", "event_handler"]
