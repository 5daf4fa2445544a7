# SPDX-License-Identifier: Apache-2.0
"""The recorded surface of MXNet 1.9.1, and how the package's own differs from it."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import lzma
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from against_mxnet.recorded.record_surface import arguments

import hybridgpu as mx

FILE = Path(__file__).parent / "against_mxnet" / "recorded" / "surface.json.xz"
#: names with an underscore that programs use, and that the record leaves out
HIDDEN = (
    *("_api_internal", "_ctypes", "_ffi", "_global_var", "_numpy_op_doc"),
    *("contrib.text._constants", "gluon.contrib.data._constants"),
    *(f"base.{n}" for n in ("_LIB", "_init_op_module", "_load_lib", "NDArrayHandle", "mx_int", "mx_uint")),
)
#: keyword arguments of every operator's function, wherever they stand
ANYWHERE = ("out", "name", "attr")


@functools.cache
def surface() -> dict[str, Any]:
    """What was recorded."""
    found: dict[str, Any] = json.loads(lzma.open(FILE, "rt").read())
    return found


def modules() -> list[str]:
    """Paths of MXNet's modules."""
    return list(surface()["modules"])


def is_numpy(path: str) -> bool:
    """Whether a path belongs to the NumPy interface."""
    return any(part in ("numpy", "numpy_extension", "np", "npx") for part in path.split(".")) or path.startswith(
        "numpy"
    )


def module(path: str) -> Any:
    """The module at a path of MXNet's; None if there is none."""
    try:
        return importlib.import_module(f"hybridgpu.{path}" if path else "hybridgpu")
    except ModuleNotFoundError:
        return None


def missing(path: str) -> Iterator[str]:
    """Names that MXNet has in a module, or as members of its classes, and the package does not."""
    found = module(path)
    if found is None:
        yield path
        return
    for name, what in surface()["modules"][path].items():
        full = f"{path}.{name}".lstrip(".")
        if is_numpy(what.partition(" ")[2]) and not is_numpy(path):
            continue
        if not has(found, name):
            yield full
            continue
        yield from (f"{full}.{member}" for _, member in missing_members(path, name))


def missing_members(path: str, name: str) -> Iterator[tuple[type, str]]:
    """(class here, name) of members that MXNet's class has; none if MXNet's name is no class of this module."""
    kind, _, key = surface()["modules"][path][name].partition(" ")
    if kind == "c" and home(key) == path:
        cls = getattr(module(path), name)
        owner = instance(cls)
        yield from ((cls, member) for member in surface()["classes"][key]["members"] if not has(owner, member))


def different(path: str) -> Iterator[tuple[str, str]]:
    """Functions, classes and members of a module whose arguments are others: (path, how)."""
    found = module(path)
    for name, what in surface()["modules"][path].items():
        kind, _, key = what.partition(" ")
        value = getattr(found, name, None)
        full = f"{path}.{name}".lstrip(".")
        if value is None or kind not in "fc" or home(key) != path and kind == "c":
            continue
        if kind == "f":
            yield from ((full, text) for text in compare(surface()["functions"][key], arguments(value)))
            continue
        recorded = surface()["classes"][key]
        if recorded["call"] is not None:
            yield from ((full, text) for text in compare(recorded["call"], arguments(value.__init__, 1)))
        for member, wanted in recorded["members"].items():
            own = inspect.getattr_static(value, member, None)
            if isinstance(wanted, list) and isinstance(own, (staticmethod, classmethod)) or inspect.isfunction(own):
                have = arguments(getattr(value, member), int(inspect.isfunction(own)))
                yield from ((f"{full}.{member}", text) for text in compare(wanted, have))


def has(owner: Any, name: str) -> bool:
    """``hasattr``, without warnings of what is old."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return hasattr(owner, name)


def home(key: str) -> str:
    """The module that a class or a function comes from."""
    return key.rpartition(".")[0]


def instance(cls: Any) -> Any:
    """What has the members of a class: some get them when they are made, arrays and Symbols at first use."""
    if cls is mx.nd.NDArray:
        return mx.nd.zeros((1,))
    if cls is mx.runtime.Feature:
        return mx.runtime.feature_list()[0]
    return mx.sym.var("x") if cls is mx.sym.Symbol else cls


def compare(wanted: Any, have: list[str] | None) -> Iterator[str]:
    """How arguments differ from those recorded, as far as a call that MXNet takes would notice."""
    if not isinstance(wanted, list) or wanted == ["*args", "**kwargs"]:  # which say nothing
        return
    if have is None:
        yield "no signature"
        return
    own, recorded = _names(have), _names(wanted)
    generated = {"name", "out"} <= recorded.keys()  # functions of operators, which take any keyword
    anywhere = ANYWHERE if generated else ()
    positions = [name for name in _positional(have) if name not in anywhere]
    for k, name in enumerate(name for name in _positional(wanted) if name not in anywhere):
        if name in own and name in positions and (k >= len(positions) or positions[k] != name):
            yield f"{name} is not argument {k}"
    yield from (f"no {name}" for name in recorded if name not in own and not name.startswith("*"))
    if _spreads(recorded) and not _spreads(own):
        yield "no *arguments"
    for name, default in own.items():
        if name not in recorded and default is None and not name.startswith("*"):
            yield f"needs {name}"
        elif name in recorded and _known(recorded[name]) and _known(default) and recorded[name] != default:
            yield f"{name}={default}, not {recorded[name]}"


def _names(given: list[str]) -> dict[str, str | None]:
    """Names with the texts of their defaults."""
    parts = (text.partition("=") for text in given if text != "*")
    return {name: default if sign else None for name, sign, default in parts}


def _positional(given: list[str]) -> list[str]:
    """Names of arguments that can be given by position."""
    found = []
    for text in given:
        if text.startswith("*"):
            break
        found.append(text.partition("=")[0])
    return found


def _spreads(names: dict[str, str | None]) -> bool:
    """Whether any number of arguments can be given by position."""
    return any(name.startswith("*") and not name.startswith("**") for name in names)


def _known(default: str | None) -> bool:
    """Whether a default has a text that can be compared."""
    return default is not None and not default.startswith("<")
