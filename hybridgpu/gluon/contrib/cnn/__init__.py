# SPDX-License-Identifier: Apache-2.0
"""``gluon.contrib.cnn``: convolutions whose windows learn their shape."""

from .conv_layers import *
