# SPDX-License-Identifier: Apache-2.0
"""With this folder on PYTHONPATH, every Python of a run has NULL_CUDA_DEVICES null devices (1), of $NULL_CUDA_LIBRARY, and
the libraries of $NULL_CUDA_LIBRARIES, loaded before anything looks for those of the same names.
"""

import ctypes
import os
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path


class _Before(MetaPathFinder):
    """Replaces CUDA when CuPy is about to be imported, and not where nothing imports it."""

    def find_spec(self, name, path=None, target=None):
        if name == "cupy":
            sys.meta_path.remove(self)
            sys.path.append(str(Path(__file__).parents[1]))
            from null_cupy import NullCuda

            for library in filter(None, os.environ.get("NULL_CUDA_LIBRARIES", "").split(os.pathsep)):
                ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
            NullCuda(os.environ["NULL_CUDA_LIBRARY"], int(os.environ.get("NULL_CUDA_DEVICES", "1")))
        return None


if "NULL_CUDA_LIBRARY" in os.environ:
    sys.meta_path.insert(0, _Before())
