# SPDX-License-Identifier: Apache-2.0
"""``mx.test_utils``: comparisons, random data, gradient checks and statistics for tests of programs.

Programs rely on ``from mxnet.test_utils import *`` for a few modules and classes too, so the names
imported here are part of the interface and there is no ``__all__``.
"""

import json  # noqa: F401
import logging  # noqa: F401
import numbers  # noqa: F401
import os  # noqa: F401
import random as rnd  # noqa: F401
import sys  # noqa: F401
import time  # noqa: F401
from collections import OrderedDict  # noqa: F401
from contextlib import contextmanager  # noqa: F401

import numpy as np  # noqa: F401
import numpy.testing as npt  # noqa: F401

import hybridgpu as mx  # noqa: F401

from ..context import Context, current_context  # noqa: F401
from ..ndarray import NDArray, array  # noqa: F401
from ..symbol import Symbol  # noqa: F401
from ..util import get_cuda_compute_capability, getenv, setenv  # noqa: F401
from .compare import *  # noqa: F403
from .data import *  # noqa: F403
from .datasets import *  # noqa: F403
from .environment import *  # noqa: F403
from .files import *  # noqa: F403
from .gradients import *  # noqa: F403
from .statistics import *  # noqa: F403
