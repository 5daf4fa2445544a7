# SPDX-License-Identifier: Apache-2.0
"""``gluon.contrib.rnn``: convolutional cells, projected LSTM, variational dropout."""

from .conv_rnn_cell import *
from .conv_rnn_cell import __all__ as _conv
from .rnn_cell import *
from .rnn_cell import __all__ as _cells

__all__ = [*_cells, *_conv]
