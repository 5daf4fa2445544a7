# SPDX-License-Identifier: Apache-2.0
"""Pytrees of blocks' arguments and results, with MXNet's checks."""

from __future__ import annotations

from typing import Any

from ..core import pytree
from ..core.pytree import formats_agree, regroup
from ..ndarray import NDArray
from ..symbol import Symbol
from ..util import is_np_array

__all__ = ["flatten", "formats_agree", "regroup", "regrouped"]

#: what to write instead of what is neither array nor Symbol
_INSTEAD = {
    "input": "\nMake arrays of numbers and NumPy's arrays: {}.array(x).",
    "output": "\nReturn what operators of F give, or lists and tuples of it.",
}
_DICT = "\nReturn the values as a tuple, in an order that the caller knows."


def _module() -> str:
    """Which module makes the arrays that blocks take here."""
    return "np" if is_np_array() else "nd"


def flatten(args: Any, what: str) -> tuple[list[Any], Any]:
    """(arrays or Symbols in order, format), see ``hybridgpu.core.pytree``.

    Raises:
        ValueError: something that is neither, in MXNet's words with ``what`` ('input' or 'output'), and a way out.
    """

    def format_of(value: Any) -> int | None:
        if isinstance(value, Symbol):
            return len(value._heads) if len(value._heads) > 1 else 0
        if isinstance(value, NDArray):
            return 0
        if value is None:
            return -1
        if not isinstance(value, (list, tuple)):
            hint = _DICT if isinstance(value, dict) and what == "output" else _INSTEAD.get(what, "").format(_module())
            raise ValueError(
                f"When hybridized, the input of HybridBlock {what} must be (nested) list of Symbol or NDArray, but got {value} of type {type(value)}{hint}"
            )
        return None

    return pytree.flatten(args, format_of)


def regrouped(args: Any, fmt: Any) -> Any:
    """The nested structure of a format made of a list, which stays as it is.

    Raises:
        ValueError: there is a value where the format has None.
    """

    def check(rest: list[Any], form: Any) -> None:
        for part in form if isinstance(form, list) else [form]:
            if isinstance(part, list):
                check(rest, part)
                continue
            taken = [rest.pop(0) for _ in range(part if part > 0 else 1)]
            if part == -1 and taken[0] is not None:
                raise ValueError(
                    "We do not support passing types that are not None when the initial HybridBlock has received "
                    f"NoneType and has been hybridized. Received arg = {taken[0]}, fmt = {part}."
                )

    check(list(args), fmt)
    return regroup(list(args), fmt)


def first_array(args: Any) -> NDArray:
    for a in args:
        if isinstance(a, NDArray):
            return a
        if isinstance(a, (list, tuple)):
            try:
                return first_array(a)
            except ValueError:
                continue
    raise ValueError("no array")


def kind_of_call(args: Any) -> type:
    """NDArray or Symbol, whichever the arguments hold.

    Raises:
        ValueError: neither, or both.
    """
    kinds: set[type] = set()
    pending = [args]
    while pending:
        value = pending.pop()
        if isinstance(value, NDArray):
            kinds.add(NDArray)
        elif isinstance(value, (list, tuple)):
            pending += value
        elif isinstance(value, Symbol):
            kinds.add(Symbol)
    if len(kinds) == 2:
        raise ValueError(
            "In HybridBlock, we do not support mixed NDArrays and Symbols types for the input. Please check the type of the args.\n"
        )
    if not kinds:
        raise ValueError(
            "In HybridBlock, there must be one NDArray or one Symbol in the input. Please check the type of the args.\n"
            f"Make arrays of numbers, lists and NumPy's arrays: {_module()}.array(x)."
        )
    return kinds.pop()


def check_contexts(arrays: list[NDArray]) -> None:
    contexts = {x.context for x in arrays}
    if len(contexts) > 1:
        raise ValueError(
            "Find multiple contexts in the input, After hybridized, the HybridBlock only supports one input context. "
            "You can print the ele.ctx in the input arguments to inspect their contexts. "
            f"Find all contexts = {{{', '.join(sorted(map(str, contexts)))}}}"
        )
