# SPDX-License-Identifier: Apache-2.0
"""``mx.test_utils``: comparisons, random data, gradient checks and statistics for tests of programs.

Programs rely on ``from mxnet.test_utils import *`` for a few modules and classes too, so the names
imported here are part of the interface and there is no ``__all__``.
"""

import json
import logging
import numbers
import os
import random as rnd
import sys
import time
from collections import OrderedDict
from contextlib import contextmanager

import numpy as np
import numpy.testing as npt

import hybridgpu as mx

from ..context import Context, current_context
from ..ndarray import NDArray, array
from ..symbol import Symbol
from ..util import get_cuda_compute_capability, getenv, setenv
from .compare import *
from .data import *
from .datasets import *
from .environment import *
from .files import *
from .gradients import *
from .matrices import *
from .statistics import *
