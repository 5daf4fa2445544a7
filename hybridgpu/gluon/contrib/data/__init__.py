# SPDX-License-Identifier: Apache-2.0
"""``gluon.contrib.data``: another order of samples, datasets of text."""

from . import text
from .sampler import *
from .sampler import __all__ as _sampler

__all__ = [*_sampler, "text"]
