# SPDX-License-Identifier: Apache-2.0
"""Optimizers (``mx.optimizer``)."""

from . import contrib
from .adaptive import *
from .adaptive import __all__ as _adaptive
from .base import Optimizer, create, register
from .contrib import GroupAdaGrad
from .sgd import DCASGD, LARS, LBSGD, NAG, SGD, SGLD, Signum, ccSGD
from .updater import Updater, get_updater

__all__ = [
    "DCASGD",
    "LARS",
    "LBSGD",
    "NAG",
    "SGD",
    "SGLD",
    "GroupAdaGrad",
    "Optimizer",
    "Signum",
    "Updater",
    "ccSGD",
    "contrib",
    "create",
    "get_updater",
    "register",
    *_adaptive,
]
