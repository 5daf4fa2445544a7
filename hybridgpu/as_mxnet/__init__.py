# SPDX-License-Identifier: Apache-2.0
"""hybridgpu under MXNet's name: ``install_as_mxnet()``.

``mxnet`` becomes a module of its own, since its version and name are not ours; everything below it is ours, the same
objects. The folder ``path`` beside this file goes on ``sys.path`` of workers: what it holds answers ``import mxnet`` in
a new interpreter.
"""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from ..base import MXNetError, show_as
from ..context import map_gpus_to_cpu
from ..core.settings import flag
from ..frontend.module_aliases import ROOTS

__all__ = ["PATH", "VERSION", "install_as_mxnet"]

VERSION = "1.9.1"  #: what programs compare
PATH = str(Path(__file__).parent / "path")

#: of Python's own library what ``import mxnet`` brings along, which programs then use as attributes of their packages
_ALONG = ("concurrent.futures", "importlib.util", "multiprocessing.pool", "multiprocessing.queues", "urllib.request")

_OURS = __package__.partition(".")[0]
_THEIRS = "mxnet"


def install_as_mxnet(cpu: bool = False) -> None:
    """Answer ``import mxnet``, and the import of every module below it, with hybridgpu in this process.

    Processes that :mod:`multiprocessing` starts from it, and so workers of a DataLoader, answer alike.

    Args:
        cpu: ``mx.gpu(i)`` is ``mx.cpu(i)``, and there is one GPU to be counted. It cannot be taken back.

    Raises:
        MXNetError: another ``mxnet`` has been imported already.
    """
    if cpu:
        os.environ["HYBRIDGPU_GPU_AS_CPU"] = "1"  # for workers
    if flag("HYBRIDGPU_GPU_AS_CPU", False):
        map_gpus_to_cpu()
    present = sys.modules.get(_THEIRS)
    if isinstance(present, _MXNet):
        return
    if present is not None:
        where = getattr(present, "__file__", None) or "somewhere"
        raise MXNetError(
            f"mxnet has been imported already, from {where}\n"
            "Call hybridgpu.install_as_mxnet() before the first import of mxnet, or start the program with hybridgpu run."
        )
    if PATH not in sys.path:
        sys.path.insert(1, PATH)  # behind the program's own folder, before an installed mxnet
    ROOTS.add(_THEIRS)
    sys.meta_path.insert(0, _Finder)
    importlib.import_module(_THEIRS)
    show_as(_THEIRS)


class _MXNet(ModuleType):
    """The module ``mxnet``: reads and writes ``hybridgpu``, but for names with two underscores."""

    def __getattr__(self, name: str) -> Any:
        ours = sys.modules[_OURS]
        if name == "__all__":  # MXNet has none, and * brings what has no underscore
            return sorted({*ours.__all__, *ours._MODULES, *ours._NAMES} - {"cli", "compiler", "ops"})
        try:
            value = getattr(ours, name)
        except AttributeError as error:
            text = str(error).replace(f"module '{_OURS}'", f"module '{_THEIRS}'", 1)
            raise AttributeError(text, name=name, obj=None) from None  # with obj, Python would guess once more
        if isinstance(value, ModuleType):  # these stay what they are, so next time they are found at once
            self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            self.__dict__.pop(name, None)
            setattr(sys.modules[_OURS], name, value)

    def __delattr__(self, name: str) -> None:
        if name.startswith("__"):
            super().__delattr__(name)
        else:
            self.__dict__.pop(name, None)
            delattr(sys.modules[_OURS], name)

    def __dir__(self) -> list[str]:
        return dir(sys.modules[_OURS])


class _Finder:
    """Finds ``mxnet`` and what is below it, before every other finder; also its loader."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == _THEIRS:
            spec = ModuleSpec(name, cls, origin=sys.modules[_OURS].__file__, is_package=True)  # type: ignore[arg-type]
            spec.submodule_search_locations = list(sys.modules[_OURS].__path__)
            spec.has_location = True
            return spec
        if not name.startswith(f"{_THEIRS}."):
            return None
        real = _real(name)
        if real in sys.modules:
            return ModuleSpec(name, cls)  # type: ignore[arg-type]
        real_spec = find_spec(real)
        if real_spec is None:
            return None
        spec = ModuleSpec(name, cls, origin=real_spec.origin)  # type: ignore[arg-type]
        spec.submodule_search_locations = real_spec.submodule_search_locations
        return spec

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType | None:
        return _MXNet(spec.name, sys.modules[_OURS].__doc__) if spec.name == _THEIRS else None

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Put our module in the place of the new one, as modules may, and with it the names that it has for itself."""
        name = module.__name__
        if name == _THEIRS:
            module.__version__ = VERSION  # type: ignore[attr-defined]
            for along in _ALONG:
                importlib.import_module(along)
            return
        real = _real(name)
        sys.modules[name] = importlib.import_module(real)
        for other in [m for m in sys.modules if m.startswith(f"{real}.")]:
            sys.modules.setdefault(_THEIRS + other[len(_OURS) :], sys.modules[other])


def _real(name: str) -> str:
    return _OURS + name[len(_THEIRS) :]
