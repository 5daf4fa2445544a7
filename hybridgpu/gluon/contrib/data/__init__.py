# SPDX-License-Identifier: Apache-2.0
"""``gluon.contrib.data``: another order of samples."""

from .sampler import *  # noqa: F403
