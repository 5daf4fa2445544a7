# SPDX-License-Identifier: Apache-2.0
"""Operator functions of ``nd`` and ``sym`` from records: names, namespaces, argument binding.

Functions are made at first access (a namespace is a module with ``__getattr__``), so importing costs
nothing and there is no list of them anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import Parameter, Signature
from types import MappingProxyType
from typing import Any

from ..core.source_location import located_hint
from ..frontend.late_declarations import DECLARED_BY, FAMILY_DECLARED_BY
from .record import OPERATORS, Operator

__all__ = [
    "HIDDEN_KEYS",
    "Bound",
    "OperatorSignature",
    "bind",
    "find",
    "make_function",
    "module_with",
    "names_in",
    "registered",
    "spelled_hint",
]

#: attributes of nodes, not of operators: a Symbol keeps them as ``__key__``
HIDDEN_KEYS = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")


class Bound:
    """A call taken apart: inputs by position (None where not given), attributes, out and name."""

    __slots__ = ("attributes", "inputs", "name", "out")

    def __init__(self, inputs: list[Any], attributes: dict[str, Any], out: Any, name: str | None) -> None:
        self.inputs, self.attributes, self.out, self.name = inputs, attributes, out, name


def bind(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> Bound:
    """Sort the arguments of a call into inputs and attributes, as MXNet's generated functions do."""
    if op.binder is not None:
        bound: Bound = op.binder(args, kwargs)
        return bound
    out = kwargs.pop("out", None)
    name = kwargs.pop("name", None)
    if op.variadic:
        inputs = list(args)
        if not inputs:  # by keyword: data0=…, or arg0=…
            for key in [k for k in kwargs if k not in op.params and k.rstrip("0123456789") in ("arg", "data", "args")]:
                inputs.append(kwargs.pop(key))
        if op.count_param and op.count_param not in kwargs:
            kwargs[op.count_param] = len(inputs)
        return Bound(inputs, kwargs, out, name)
    names = op.inputs
    count = len(names)
    inputs = list(args[:count]) + [None] * (count - len(args))
    for k, key in enumerate(names):
        if key in kwargs and key not in op.params:
            if inputs[k] is not None:
                raise TypeError(f"{op.name}() got multiple values for argument {key!r}")
            inputs[k] = kwargs.pop(key)
    if len(args) > count:
        params = [p for p in op.params if p != op.count_param]
        extra = args[count:]
        if len(extra) > len(params):
            text = f"{op.name}() takes at most {count + len(params)} positional arguments ({len(args)} given)"
            taken = f"{op.name} takes {', '.join((*names, *params))}; several numbers are one tuple."
            raise TypeError(f"{text}\n{located_hint(taken)}")
        for key, value in zip(params, extra, strict=False):
            if key in kwargs:
                raise TypeError(f"{op.name}() got multiple values for argument {key!r}")
            kwargs[key] = value
    return Bound(inputs, kwargs, out, name)


def registered(name: str) -> Operator | None:
    """The operator that the table has under this name; None if there is none."""
    op = OPERATORS.get(name)
    if op is None:
        declare = DECLARED_BY.get(name) or FAMILY_DECLARED_BY.get(name[:3])
        if declare is not None:
            declare()
            op = OPERATORS.get(name)
    return op


def find(name: str, namespace: str = "") -> Operator | None:
    """The operator reached as ``<namespace>.<name>``; None if there is none."""
    if namespace == "":
        return registered(name) if not name.startswith("_") else None
    if namespace in ("_internal", "op"):
        return registered(name)
    if namespace == "linalg":
        return OPERATORS.get(f"_linalg_{name}") or OPERATORS.get(f"linalg_{name}")
    if namespace == "sparse":  # of dense arrays they are the operators of the same name
        return OPERATORS.get(f"_sparse_{name}") or find(name)
    return registered(f"_{namespace}_{name}")


def module_with(name: str, functions: str) -> str:
    """How users call the module that has a function of a name, ``functions`` or its contrib; '' if neither has."""
    return functions if find(name) else f"{functions}.contrib" if find(name, "contrib") else ""


def names_in(namespace: str = "") -> Iterator[str]:
    """Every name that ``find`` resolves in a namespace."""
    prefixes = {"": ("",), "_internal": ("",), "op": ("",), "linalg": ("_linalg_", "linalg_"), "sparse": ("_sparse_",)}
    if namespace == "sparse":
        yield from names_in()
    for name in (*OPERATORS, *(n for n in DECLARED_BY if n not in OPERATORS)):
        for prefix in prefixes.get(namespace, (f"_{namespace}_",)):
            if name.startswith(prefix) and (namespace != "" or not name.startswith("_")):
                yield name[len(prefix) :]
                break


def spelled_hint(name: str) -> str:
    """What automatic node names are made of: the lower-cased name the function was called by."""
    for prefix in ("_contrib_", "_linalg_", "linalg_", "_image_", "_sparse_", "_npi_", "_npx_", "_np_"):
        if name.startswith(prefix):
            return name[len(prefix) :].lower()
    return name.lower()


def make_function(
    op: Operator,
    spelled: str,
    apply: Callable[..., Any],
    module: str,
    repeated: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None,
) -> Callable[..., Any]:
    """The function ``spelled`` of a namespace.

    Args:
        op: the record.
        spelled: the name it is reached by.
        apply: (operator, spelled name, Bound) -> result.
        module: what ``__module__`` shows.
        repeated: gives a function that does the same faster when it is called again.
    """

    def function(*args: Any, **kwargs: Any) -> Any:
        return apply(op, spelled, bind(op, args, kwargs))

    if repeated is not None:
        function = repeated(function)
    function.__name__ = function.__qualname__ = spelled
    function.__module__ = module
    function.__doc__ = op.docstring()
    function.__signature__ = OperatorSignature(op, "symbol" in module)  # type: ignore[attr-defined]
    return function


class OperatorSignature(Signature):
    """An operator's signature, which is made when somebody reads it: that takes longer than most calls.

    Args:
        op: the record.
        symbols: of a function that makes Symbols.
        method: of a method, whose object is the first input.
    """

    def __init__(self, op: Operator, symbols: bool, method: bool = False) -> None:
        super().__init__()
        self._op, self._symbols, self._method = op, symbols, method

    def _signature(self) -> Signature:
        plain = self._op.signature()
        parameters = list(plain.parameters.values())
        if self._symbols:
            parameters.append(Parameter("attr", Parameter.KEYWORD_ONLY, default=None))
        if self._method:
            parameters[0] = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
        return plain.replace(parameters=parameters)

    @property
    def parameters(self) -> MappingProxyType[str, Parameter]:
        return self._signature().parameters

    def replace(self, **changes: Any) -> Signature:  # type: ignore[override]
        return self._signature().replace(**changes)

    def __reduce__(self) -> Any:
        return self._signature().__reduce__()
