# SPDX-License-Identifier: Apache-2.0
"""``mx.test_utils``: comparisons, random data, gradient checks and statistics for tests of programs."""

from .compare import *  # noqa: F403
from .compare import __all__ as _compare
from .data import *  # noqa: F403
from .data import __all__ as _data
from .environment import *  # noqa: F403
from .environment import __all__ as _environment
from .gradients import *  # noqa: F403
from .gradients import __all__ as _gradients
from .statistics import *  # noqa: F403
from .statistics import __all__ as _statistics

__all__ = [*_compare, *_data, *_environment, *_gradients, *_statistics]
