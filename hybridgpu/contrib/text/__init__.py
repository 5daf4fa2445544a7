# SPDX-License-Identifier: Apache-2.0
"""``mx.contrib.text``: numbers and vectors for words."""

from . import embedding, utils, vocab

__all__ = ["embedding", "utils", "vocab"]
