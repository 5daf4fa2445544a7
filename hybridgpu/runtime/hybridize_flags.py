# SPDX-License-Identifier: Apache-2.0
"""The flags of ``hybridize``: those of MXNet's CachedOp, the numeric mode, and where to compile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..backends.base import Mode
from ..base import MXNetError
from ..core.source_location import user_frame
from ..ops.params import Bool

__all__ = ["FLAGS", "call_options", "check_flags", "no_flag", "warn_of_unused"]

_SWITCHES = ("static_alloc", "static_shape", "background")
_SIZES = ("inline_limit", "forward_bulk_size", "backward_bulk_size")  #: of MXNet's engine; checked, and of no effect
FLAGS = (*_SWITCHES, *_SIZES, "numeric")


def call_options(flags: Mapping[str, Any]) -> tuple[Mode, str | None, bool]:
    """Mode, numeric mode and background compilation, the last arguments of ``CachedOp``, that flags ask for.

    Raises:
        MXNetError: ``static_shape`` without ``static_alloc``; a value that is none of a flag's.
    """
    check_flags(flags)
    alloc, shape, background = (_is_set(name, flags) for name in _SWITCHES)
    if shape and not alloc:
        raise MXNetError(
            "Check failed: config_.static_alloc: static_alloc must be True when static_shape is True\n"
            "Write static_alloc=True, static_shape=True, or neither."
        )
    mode = Mode.GRAPH if shape else Mode.STATIC_ALLOC if alloc else Mode.EAGER_ALLOC
    return mode, flags.get("numeric"), background


def check_flags(flags: Mapping[str, Any]) -> None:
    """Raise MXNet's error for a value that is none of its flag's.

    Raises:
        MXNetError: a switch that is neither on nor off, a size that is no number.
    """
    for name in _SWITCHES:
        _is_set(name, flags)
    for name in _SIZES:
        value = flags.get(name)
        if value is not None and not str(value).isdecimal():
            raise MXNetError(f"Invalid Parameter format for {name} expect int (non-negative) but value='{value}'")


def warn_of_unused(backend: str | None, others: dict[str, Any]) -> None:
    """Say which arguments of ``hybridize`` are without effect."""
    import warnings

    if backend is not None:
        assert isinstance(backend, str), "expected a string for the backend"
        warnings.warn(
            f"Error optimizing for backend '{backend}' cannot be found: the graph is compiled as without it. "
            "Leave the argument out.",
            stacklevel=user_frame(),
        )
    for name in others:
        if name != "backend_opts":
            warnings.warn(no_flag(name), stacklevel=user_frame())


def no_flag(name: str) -> str:
    """The message about an argument that ``hybridize`` does not take."""
    import difflib

    near = difflib.get_close_matches(name, FLAGS, 1, 0.7)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(FLAGS)}."
    return f"hybridize() has no flag {name}; {hint}"


def _is_set(name: str, flags: Mapping[str, Any]) -> bool:
    """A flag, which may be text as MXNet takes it."""
    try:
        return bool(Bool(False).parse(name, str(flags.get(name, False))))
    except MXNetError as e:
        raise MXNetError(f"{e}\nWrite {name}=True or {name}=False.") from None
