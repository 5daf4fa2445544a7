# SPDX-License-Identifier: Apache-2.0
"""hybridgpu: Gluon's hybrid programming on today's hardware.

Use it as MXNet is used: ``import hybridgpu as mx``.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import PathFinder
from types import FrameType
from typing import TYPE_CHECKING, Any

from .base import MXNetError, NotImplementedForSymbol
from .context import Context, cpu, cpu_pinned, current_context, gpu, gpu_memory_info, num_gpus
from .frontend.late_declarations import DECLARED_BY
from .frontend.module_aliases import ROOTS, install

if TYPE_CHECKING:  # their types, for checkers of programs; the names are imported at first use
    from . import attribute as attribute
    from . import autograd as autograd
    from . import base as base
    from . import callback as callback
    from . import context as context
    from . import contrib as contrib
    from . import engine as engine
    from . import error as error
    from . import executor as executor
    from . import executor_manager as executor_manager
    from . import gluon as gluon
    from . import image as image
    from . import initializer as initializer
    from . import io as io
    from . import kvstore as kvstore
    from . import libinfo as libinfo
    from . import library as library
    from . import log as log
    from . import lr_scheduler as lr_scheduler
    from . import metric as metric
    from . import model as model
    from . import module as module
    from . import monitor as monitor
    from . import name as name
    from . import ndarray as ndarray
    from . import numpy as numpy
    from . import numpy_extension as numpy_extension
    from . import operator as operator
    from . import optimizer as optimizer
    from . import profiler as profiler
    from . import random as random
    from . import recordio as recordio
    from . import registry as registry
    from . import rnn as rnn
    from . import rtc as rtc
    from . import runtime as runtime
    from . import symbol as symbol
    from . import test_utils as test_utils
    from . import util as util
    from . import visualization as visualization
    from .as_mxnet import install_as_mxnet as install_as_mxnet
    from .attribute import AttrScope as AttrScope
    from .executor import Executor as Executor
    from .frontend.hybrid_function import hybridize as hybridize
    from .frontend.num_threads import get_num_threads as get_num_threads
    from .frontend.num_threads import set_num_threads as set_num_threads
    from .frontend.tf32 import allow_tf32 as allow_tf32
    from .runtime.reports.events import compile_report as compile_report
    from .tracing.error import TracingError as TracingError
    from .util import is_np_array as is_np_array
    from .util import is_np_shape as is_np_shape
    from .util import np_array as np_array
    from .util import np_shape as np_shape
    from .util import set_np_shape as set_np_shape
    from .util import use_np as use_np
    from .util import use_np_array as use_np_array
    from .util import use_np_shape as use_np_shape

    img = image
    init = initializer
    kv = kvstore
    mod = module
    mon = monitor
    nd = ndarray
    np = numpy
    npx = numpy_extension
    rnd = random
    sym = symbol
    viz = visualization

__version__ = "0.1.0"

#: submodules and their short names, imported at first use
_MODULES = {
    "nd": "ndarray",
    "ndarray": "ndarray",
    "sym": "symbol",
    "symbol": "symbol",
    "gluon": "gluon",
    "rnn": "rnn",
    "io": "io",
    "mod": "module",
    "module": "module",
    "autograd": "autograd",
    "random": "random",
    "rnd": "random",
    "init": "initializer",
    "initializer": "initializer",
    "name": "name",
    "attribute": "attribute",
    "util": "util",
    "base": "base",
    "error": "error",
    "executor_manager": "executor_manager",
    "libinfo": "libinfo",
    "log": "log",
    "context": "context",
    "viz": "visualization",
    "visualization": "visualization",
    "runtime": "runtime",
    "executor": "executor",
    "operator": "operator",
    "test_utils": "test_utils",
    "registry": "registry",
    "lr_scheduler": "lr_scheduler",
    "optimizer": "optimizer",
    "metric": "metric",
    "kv": "kvstore",
    "kvstore": "kvstore",
    "model": "model",
    "callback": "callback",
    "contrib": "contrib",
    "mon": "monitor",
    "monitor": "monitor",
    "ops": "ops",
    "cli": "cli",
    "profiler": "profiler",
    "engine": "engine",
    "recordio": "recordio",
    "rtc": "rtc",
    "library": "library",
    "image": "image",
    "img": "image",
    "np": "numpy",
    "numpy": "numpy",
    "npx": "numpy_extension",
    "numpy_extension": "numpy_extension",
}
_NAMES = {
    "AttrScope": ("attribute", "AttrScope"),
    "np_shape": ("util", "np_shape"),
    "np_array": ("util", "np_array"),
    "is_np_shape": ("util", "is_np_shape"),
    "is_np_array": ("util", "is_np_array"),
    "set_np_shape": ("util", "set_np_shape"),
    "use_np": ("util", "use_np"),
    "use_np_shape": ("util", "use_np_shape"),
    "use_np_array": ("util", "use_np_array"),
    "Executor": ("executor", "Executor"),
    "allow_tf32": ("frontend.tf32", "allow_tf32"),
    "compile_report": ("runtime.reports.events", "compile_report"),
    "get_num_threads": ("frontend.num_threads", "get_num_threads"),
    "set_num_threads": ("frontend.num_threads", "set_num_threads"),
    "install_as_mxnet": ("as_mxnet", "install_as_mxnet"),
    "hybridize": ("frontend.hybrid_function", "hybridize"),
    "TracingError": ("tracing.error", "TracingError"),
}


__all__ = [
    "Context",
    "MXNetError",
    "NotImplementedForSymbol",
    "cpu",
    "cpu_pinned",
    "current_context",
    "gpu",
    "gpu_memory_info",
    "num_gpus",
]


if not TYPE_CHECKING:  # which would no longer find names that are not there

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            value: Any = importlib.import_module(f".{_MODULES[name]}", __name__)
        elif name in _NAMES:
            module, attribute = _NAMES[name]
            value = getattr(importlib.import_module(f".{module}", __name__), attribute)
        else:
            raise AttributeError(f"module '{__name__}' has no attribute '{name}'{_hint(name)}")
        globals()[name] = value
        return value


def _hint(name: str) -> str:
    """What to write instead of a name that is not here."""
    if name.startswith("__"):
        return ""
    if PathFinder.find_spec(f"{__name__}.{name}", __path__):  # a module that is being imported
        return ""
    if hasattr(importlib.import_module(".ndarray", __name__), name):
        from .core.source_location import located_hint

        return "\n" + located_hint(f"Write mx.nd.{name}.")
    import difflib

    near = difflib.get_close_matches(name, [*_MODULES, *_NAMES, *__all__], 1, 0.75)
    return f"; did you mean {near[0]}?" if near else ""


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, *_NAMES} - {"cli", "ops"})


DECLARED_BY["Custom"] = DECLARED_BY["_npi_Custom"] = lambda: importlib.import_module(".operator", __name__)


class _WhatToWrite:
    """Ends import statements of what is not here as attributes end that are not here."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """None, for who asks whether there is such a module.

        Raises:
            ModuleNotFoundError: it is being imported, and there is something to say.
        """
        path, _, child = name.rpartition(".")
        module = sys.modules.get(path)
        parent = getattr(module, "__name__", "")  # under MXNet's name another than ``path``
        if parent.partition(".")[0] in ROOTS and _importing(sys._getframe(1)):
            try:
                getattr(module, child)
            except AttributeError as error:
                if (
                    str(error).startswith(plain := f"module '{parent}' has no attribute '{child}'")
                    and str(error) != plain
                ):
                    raise ModuleNotFoundError(str(error)) from None  # with a name 'from' would swallow it


def _importing(caller: FrameType) -> bool:
    """Whether Python looks for a module in order to import it; ``importlib.util.find_spec`` only asks."""
    code = caller.f_back.f_code if caller.f_back is not None else None
    return code is not None and (code.co_filename, code.co_name) == (
        "<frozen importlib._bootstrap>",
        "_find_and_load_unlocked",
    )


install()
sys.meta_path.append(_WhatToWrite)  # behind those that find modules
