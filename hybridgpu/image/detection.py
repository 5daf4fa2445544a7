# SPDX-License-Identifier: Apache-2.0
"""``mx.image.detection``: augmenters and iterators for images with boxes, in one module as in MXNet."""

from .boxes import *
from .boxes import __all__ as _boxes
from .detection_iterator import *
from .detection_iterator import __all__ as _iterator

__all__ = [*_boxes, *_iterator]
