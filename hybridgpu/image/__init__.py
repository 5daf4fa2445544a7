# SPDX-License-Identifier: Apache-2.0
"""``mx.image``: reading, resizing, cropping and turning pictures; random changes to them; iterators over files of them."""

from . import detection as det
from . import image
from .augment import *
from .augment import __all__ as _augment
from .detection import *
from .detection import __all__ as _detection
from .image import *
from .image import __all__ as _image
from .iterator import *
from .iterator import __all__ as _iterator

__all__ = [*_image, *_augment, *_iterator, *_detection, "det", "image"]
