# SPDX-License-Identifier: Apache-2.0
"""``mx.image``: reading, resizing, cropping and turning images; random changes to them; iterators over files of them."""

from . import detection as det
from .augment import *
from .augment import __all__ as _augment
from .boxes import *
from .boxes import __all__ as _boxes
from .detection_iterator import *
from .detection_iterator import __all__ as _detection
from .images import *
from .images import __all__ as _pictures
from .iterator import *
from .iterator import __all__ as _iterator

__all__ = [*_pictures, *_augment, *_iterator, *_boxes, *_detection, "det"]
