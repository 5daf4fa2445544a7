# SPDX-License-Identifier: Apache-2.0
"""The compiler: graphs in, plans and kernel texts out. It touches no device, and no disk but its templates and headers."""

from importlib import import_module

from .body_passes import BODY_PASSES

BODY_PASSES["simplify"] = lambda: import_module(".passes.canonicalize.simplify", __name__).simplify
BODY_PASSES["differentiate"] = lambda: import_module(".passes.differentiate", __name__).differentiate
