# SPDX-License-Identifier: Apache-2.0
"""``mx.nd``: arrays and the operators on them, executed at once.

Operators are made from the operator table at first access.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..context import current_context
from ..frontend.namespaces import NUMPY_MODULES, Namespace, importable
from ..ops.sample_like import make_zipfian
from . import control_flow, random, updates
from .apply import apply_function
from .creation import *
from .creation import __all__ as _creation
from .late_bindings import late
from .ndarray import NDArray
from .plans import with_plans
from .serialization import load, load_frombuffer, save

if TYPE_CHECKING:  # stubs, made from the records
    from ..runtime.cached_op_api import CachedOp as CachedOp
    from . import contrib, image, linalg
    from . import numpy as numpy
    from . import numpy_extension as numpy_extension
    from . import sparse as sparse
    from .functions import *

    np, npx = numpy, numpy_extension
else:
    contrib = Namespace("contrib", apply_function, "ndarray", repeated=with_plans)
    for _module in (control_flow, updates):
        for _name in _module.__all__:
            setattr(contrib, _name, getattr(_module, _name))
    _zipfian = make_zipfian(random.uniform, lambda x, ctx: x.as_in_context(ctx or current_context()))
    for _name, _function in (("rand_zipfian", _zipfian),):
        setattr(contrib, _name, _function)
    linalg = Namespace("linalg", apply_function, "ndarray", repeated=with_plans)
    image = Namespace("image", apply_function, "ndarray", repeated=with_plans)
late.register(
    __name__,
    {
        "..runtime.dispatch.pools": "large_results",
        "..runtime.eager_kernels": "eager_kernels",
        ".apply": "apply",
        ".backward_pass": "backward",
        ".indexing": "get_item is_contiguous set_item",
        ".methods": "attribute_error make_method method_names",
        ".numpy.array": "ndarray",
        ".serialization": "array_of_record",
        ".tape": "record_call tracked",
        ".versions": "before_write",
    },
)
_internal = Namespace("_internal", apply_function, "ndarray", repeated=with_plans)
op = Namespace("op", apply_function, "ndarray", repeated=with_plans)
_top = Namespace("", apply_function, "ndarray", repeated=with_plans)
importable(contrib, linalg, image, _internal, op)
__all__ = ["NDArray", "contrib", "image", "linalg", "load", "load_frombuffer", "op", "random", "save", *_creation]


if not TYPE_CHECKING:  # which would no longer find names that are not there

    def __getattr__(name: str) -> Any:
        if name == "CachedOp":
            from ..runtime import cached_op_api

            value: Any = cached_op_api.CachedOp
        elif name == "sparse":
            value = import_module(".sparse", __name__)
        elif name in NUMPY_MODULES:
            value = import_module(f".{NUMPY_MODULES[name]}", __name__)
        else:
            value = getattr(_top, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, "CachedOp", "sparse", *NUMPY_MODULES, *dir(_top)})
