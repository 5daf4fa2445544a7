# SPDX-License-Identifier: Apache-2.0
"""``gluon.rnn``: recurrent cells, which make one step, and layers, which run whole sequences."""

from .cells import *
from .cells import __all__ as _cells
from .combined import *
from .combined import __all__ as _combined
from .rnn_layer import *
from .rnn_layer import __all__ as _layers

__all__ = [*_cells, *_combined, *_layers]
