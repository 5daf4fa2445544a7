# SPDX-License-Identifier: Apache-2.0
"""``contrib.adamw_update`` and ``mp_adamw_update`` of ``nd`` and ``sym``.

They are the operators of these names with MXNet's order of arguments, which is not that of the records, and with a
gradient's factor that may be a number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from typing import Any

from .record import OPERATORS, Operator

__all__ = ["make_adamw"]

_REQUIRED = ("lr", "eta")
_DEFAULTS = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "wd": 0, "clip_gradient": -1, "out": None, "name": None}


def make_adamw(run: Callable[[Operator, Sequence[Any], Any, dict[str, Any]], Any]) -> dict[str, Callable[..., Any]]:
    """The functions by name.

    Args:
        run: (operator, inputs without the factor, factor, attributes with ``out`` and ``name`` if given) -> result.
    """
    return {name: _function(OPERATORS[f"_{name}"], name, run) for name in ("adamw_update", "mp_adamw_update")}


def _function(op: Operator, name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    names = (*op.inputs, *_REQUIRED, *_DEFAULTS)
    signature = Signature(
        [Parameter(n, Parameter.POSITIONAL_OR_KEYWORD) for n in (*op.inputs, *_REQUIRED)]
        + [Parameter(n, Parameter.POSITIONAL_OR_KEYWORD, default=d) for n, d in _DEFAULTS.items()]
        + [Parameter("kwargs", Parameter.VAR_KEYWORD)]
    )

    def function(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs).arguments
        attributes = {n: bound[n] for n in names if n in bound} | bound.get("kwargs", {})
        *inputs, factor = (attributes.pop(n) for n in op.inputs)
        return run(op, inputs, factor, attributes)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = op.docstring()
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function
