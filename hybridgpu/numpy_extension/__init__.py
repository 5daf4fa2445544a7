# SPDX-License-Identifier: Apache-2.0
"""``mx.npx``: functions of np arrays that NumPy does not have, and what turns NumPy's semantics on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..context import Context, cpu, cpu_pinned, current_context, gpu, gpu_memory_info, num_gpus
from ..frontend.namespaces import Functions, importable
from ..ndarray import waitall
from ..ndarray.numpy import _application
from ..ndarray.serialization import load_np as load
from ..ndarray.serialization import save_np as save
from ..util import (
    get_cuda_compute_capability,
    is_np_array,
    is_np_shape,
    np_array,
    np_shape,
    reset_np,
    set_np,
    set_np_shape,
    use_np,
    use_np_array,
    use_np_shape,
)

_functions = Functions("numpy_extension", _application, "NPX")


class _Images(Functions):
    """Operators on pictures, and the functions and classes of ``mx.image``."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            pictures = sys.modules[__name__.partition(".")[0]].image  # a layer above this one
            if name.startswith("__") or not hasattr(pictures, name):
                raise
            return getattr(pictures, name)


def _seed(seed: int, ctx: str | Context = "all") -> None:
    """Seed the generators of all devices, or of one."""
    from ..core.rng import seed as restart

    restart(seed, ctx)


_seed.__name__ = _seed.__qualname__ = "seed"
if TYPE_CHECKING:  # stubs, made from the definitions
    from . import image, random
    from .functions import *
else:
    random = Functions("numpy_extension.random", _application, "NPX", "random")
    random.seed = _seed
    image = _Images("numpy_extension.image", _application, "NPX", "image")
    importable(random, image)

__all__ = [
    "Context",
    "cpu",
    "cpu_pinned",
    "current_context",
    "get_cuda_compute_capability",
    "gpu",
    "gpu_memory_info",
    "image",
    "is_np_array",
    "is_np_shape",
    "load",
    "np_array",
    "np_shape",
    "num_gpus",
    "random",
    "reset_np",
    "save",
    "set_np",
    "set_np_shape",
    "use_np",
    "use_np_array",
    "use_np_shape",
    "waitall",
]


if not TYPE_CHECKING:  # which would no longer find names that are not there

    def __getattr__(name: str) -> Any:
        value = getattr(_functions, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *dir(_functions)})
