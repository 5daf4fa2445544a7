# SPDX-License-Identifier: Apache-2.0
"""Symbol methods: the operators that arrays have as methods."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

from ..base import MXNetError
from ..core.source_location import located_hint
from ..hints.tracing import through_numpy
from ..ndarray.methods import method_operator, operator_methods
from ..ops import OPERATORS
from ..ops.functions import OperatorSignature, bind

__all__ = ["make_method", "method_names"]

#: attributes that the method gives even where the program does not
_GIVEN: dict[str, dict[str, Any]] = {"squeeze": {"axis": None}, "diag": {"k": 0}}
#: methods that can be asked to share memory, which Symbols have none of
_IN_PLACE = ("expand_dims", "flatten", "squeeze")
_ONLY_SYMBOL = {"reshape": "Reshape", "broadcast_to": "broadcast_to", "astype": "Cast"}


def method_names() -> set[str]:
    """Names of the Symbol methods that :func:`make_method` makes."""
    return {*operator_methods(), *_ONLY_SYMBOL, "split_v2"}


def make_method(name: str) -> Callable[..., Any] | None:
    """The Symbol method ``name``: the operator with the Symbol as first input; None if there is none."""
    if name == "split_v2":
        from . import split_v2

        return split_v2
    op = OPERATORS[_ONLY_SYMBOL[name]] if name in _ONLY_SYMBOL else method_operator(name)
    if op is None:
        return None
    from .node_factory import apply_symbol

    record, spelled, in_place = op, "cast" if name == "astype" else name, name in _IN_PLACE

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._kind is not None:
            raise AttributeError(
                f"_Symbol object has no attribute {name}\n"
                + located_hint("Symbols of np have NumPy's methods: use functions of F.np and F.npx.")
            )
        if in_place:
            kwargs.pop("inplace", None)
        if not args:
            kwargs = {**_GIVEN.get(name, {}), **kwargs}
        try:
            return apply_symbol(record, spelled, bind(record, (self, *args), kwargs))
        except MXNetError as error:
            through_numpy(error, name, "F")
            raise

    method.__name__ = name
    method.__doc__ = op.docstring()
    signature: Signature = OperatorSignature(op, True, method=True)
    if in_place:
        parameters = list(signature.parameters.values())
        at = len(parameters) - len(("out", "name", "attr"))
        parameters.insert(at, Parameter("inplace", Parameter.POSITIONAL_OR_KEYWORD, default=False))
        signature = Signature(parameters)
    method.__signature__ = signature  # type: ignore[attr-defined]
    return method
