# SPDX-License-Identifier: Apache-2.0
"""What an interpreter that ``hybridgpu run`` starts does first: ``mxnet`` is found here, whatever becomes of ``sys.path``.

It imports nothing of hybridgpu, for most processes are not about it.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec

_HERE = os.path.dirname(os.path.abspath(__file__))


class _First:
    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [_HERE]) if name == "mxnet" else None


sys.meta_path.insert(0, _First)

# the sitecustomize that there would be without this one
_other = PathFinder.find_spec("sitecustomize", [p for p in sys.path if os.path.abspath(p) != _HERE])
if _other is not None and _other.loader is not None:
    sys.modules["sitecustomize"] = module_from_spec(_other)
    _other.loader.exec_module(sys.modules["sitecustomize"])
