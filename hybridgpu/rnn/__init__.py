# SPDX-License-Identifier: Apache-2.0
"""``mx.rnn``: the symbolic recurrent cells from before Gluon, kept for older programs."""

from . import io
from .buckets import BucketSentenceIter
from .cells import *
from .cells import __all__ as _cells
from .checkpoints import do_rnn_checkpoint, load_rnn_checkpoint, rnn_unroll, save_rnn_checkpoint
from .combined import *
from .combined import __all__ as _combined
from .conv import *
from .conv import __all__ as _conv
from .io import *
from .io import __all__ as _io

__all__ = [
    "BucketSentenceIter",
    "do_rnn_checkpoint",
    "io",
    "load_rnn_checkpoint",
    "rnn_unroll",
    "save_rnn_checkpoint",
    *_cells,
    *_combined,
    *_conv,
    *_io,
]
