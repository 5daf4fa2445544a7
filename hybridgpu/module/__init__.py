# SPDX-License-Identifier: Apache-2.0
"""``mx.mod``: training loops around Symbols, as before Gluon.

A module binds a Symbol to arrays (``bind``), gives its parameters values (``init_params``), gets an
optimizer (``init_optimizer``) and then runs batches: ``forward``, ``backward``, ``update``; ``fit`` does all of it.
"""

from .base_module import BaseModule
from .bucketing_module import BucketingModule
from .module import Module
from .python_module import PythonLossModule, PythonModule
from .sequential_module import SequentialModule

__all__ = ["BaseModule", "BucketingModule", "Module", "PythonLossModule", "PythonModule", "SequentialModule"]
