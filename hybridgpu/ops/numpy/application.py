# SPDX-License-Identifier: Apache-2.0
"""Functions of np and npx: one definition each, for arrays and for Symbols.

A definition takes an *application* first, which says what its operands are and calls operators on them::

    @np_function("sum")
    def sum(F, a, axis=None, dtype=None, out=None, keepdims=None, initial=None, where=None):
        return F.invoke("_np_sum", (a,), {"axis": axis, ...}, out)

``mx.np.sum``, ``mx.nd.np.sum`` and ``mx.sym.np.sum`` are it with the application filled in.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy

from ...base import ParameterError, numeric_types
from ...core import autograd_state
from ...hints.op_errors import NP_FUNCTIONS

__all__ = [
    "NP",
    "NPX",
    "Application",
    "Array",
    "ArrayOrList",
    "ArrayOrNumber",
    "falls_back",
    "is_on_host",
    "legacy_operand",
    "np_function",
    "np_function_or_host",
    "np_on_host",
    "npx_function",
    "numpy_operand",
    "short_name",
]

#: results of definitions that are not one array: their names are what ``help()`` and type checkers are told
Array: TypeAlias = Any  # of an argument that the table of arguments tells otherwise
ArrayOrNumber: TypeAlias = Any
ArrayOrList: TypeAlias = Any

_Definition = TypeVar("_Definition", bound=Callable[..., Any])


class Application(Protocol):
    """What definitions call: operators applied to arrays at once, or composed into a graph of Symbols.

    Attributes:
        array: the class of operands, ``mx.np.ndarray`` or ``mx.sym.np._Symbol``.
        symbolic: whether operands are Symbols, of which neither shapes nor values are known.
    """

    array: type
    symbolic: bool

    def is_array(self, value: Any) -> bool:
        """Whether ``value`` is an operand: an array (or Symbol) of either interface. Numbers are none."""

    def invoke(
        self,
        operator: str,
        inputs: Sequence[Any],
        attributes: Mapping[str, Any] | None = None,
        out: Any = None,
        name: str | None = None,
    ) -> Any:
        """The result of an operator; a list where callers see several.

        Args:
            operator: its name, canonical or alias, such as '_npi_add' or '_npx_relu'.
            inputs: operands in order; None for one that is optional and left away.
            attributes: as the record declares them. ``ctx``, a Context or its text, is taken by every operator without
                inputs.
            out: receives the result, and is returned.
            name: of the node (Symbols).

        Raises:
            AssertionError: an input that is no operand.
            TypeError: an operand of the other interface.
        """

    def number(self, value: Any, kind: type | None = None) -> Any:
        """A result without axes as NumPy's functions give it: a number, or one of ``kind``, such as bool.

        It stays an array while gradients are recorded or a function is traced, and a Symbol is one anyway; so does what
        has axes.
        """

    def constant(self, values: numpy.ndarray, like: Any) -> Any:
        """An operand with values of NumPy, on the device of another operand; not a Symbol.

        Raises:
            NotImplementedError: operands are Symbols.
        """

    def on_host(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The result of a function of NumPy for the values of arrays; not of Symbols."""

    def control_flow(self, name: str) -> Callable[..., Any]:
        """``foreach``, ``while_loop`` or ``cond``, whose bodies are functions of operands."""

    def function(self, name: str) -> Callable[..., Any]:
        """A function of np ('sum', 'linalg.norm') or, behind ``npx.``, of npx ('npx.relu') with this application."""
        definition = NPX[name[4:]] if name.startswith("npx.") else NP[name]
        return lambda *args, **kwargs: definition(self, *args, **kwargs)


NP: dict[str, Callable[..., Any]] = (
    NP_FUNCTIONS  #: name in np, such as 'sum', 'linalg.norm', 'random.uniform' -> definition
)
NPX: dict[str, Callable[..., Any]] = {}  #: name in npx -> definition


def np_function(*names: str) -> Callable[[_Definition], _Definition]:
    """Declare a function of ``mx.np`` under these names; 'linalg.norm' is in ``mx.np.linalg``."""
    return _declare(NP, names)


def npx_function(*names: str) -> Callable[[_Definition], _Definition]:
    """Declare a function of ``mx.npx`` under these names."""
    return _declare(NPX, names)


def np_on_host(*names: str, function: Callable[..., Any] | None = None) -> None:
    """Declare functions of ``mx.np`` that are NumPy's own, computed on the host from the values of arrays.

    NumPy asks the arrays, which refuse while gradients are recorded; see ``ndarray.numpy.protocols``.

    Args:
        names: of the functions, also in NumPy if there is no ``function``.
        function: what takes the place of one that NumPy no longer has.
    """
    for name in names:
        _declare(NP, (name,))(_on_host(name, function or _of_numpy(name)))


def np_function_or_host(
    name: str, function: Callable[..., Any] | None = None, eager: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a function of ``mx.np`` that MXNet leaves to NumPy, as operators; they take what MXNet's arrays can hold.

    NumPy's own answers where there is no array among the arguments, where the definition raises NotImplementedError and,
    with an error of its own, where it raises ParameterError and there are values.

    Args:
        name: of the function.
        function: what takes the place of one that NumPy no longer has.
        eager: False where NumPy answers unless a function is traced or gradients are recorded: shapes of results depend on
            values there, or functions are called with parts.
    """
    host = function or _of_numpy(name)

    def declare(definition: Callable[..., Any]) -> Callable[..., Any]:
        _name(definition, name)

        @wraps(definition)
        def operators_or_host(F: Any, *args: Any, **kwargs: Any) -> Any:
            if F.symbolic:
                return definition(F, *args, **kwargs)
            if _has_operand(F, args) or _has_operand(F, kwargs.values()):
                if not eager and not (autograd_state.state.recording or autograd_state.state.trace is not None):
                    return F.on_host(host, args, kwargs)
                try:
                    return definition(F, *args, **kwargs)
                except NotImplementedError:
                    return F.on_host(host, args, kwargs)
                except ParameterError:  # of shapes or types that do not fit, of which NumPy has its own errors
                    if autograd_state.state.recording or autograd_state.state.trace is not None:
                        raise
                    return F.on_host(host, args, kwargs)
            return host(*args, **kwargs)

        operators_or_host.falls_back = True  # type: ignore[attr-defined]
        return _declare(NP, (name,))(operators_or_host)

    return declare


def _has_operand(F: Any, values: Any) -> bool:
    return any(_has_operand(F, v) if isinstance(v, (list, tuple)) else F.is_array(v) for v in values)


def _of_numpy(name: str) -> Callable[..., Any]:
    member: Any = numpy
    for part in name.split("."):
        member = getattr(member, part)
    function: Callable[..., Any] = member
    return function


def _on_host(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def definition(F: Any, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    definition.__doc__ = f"NumPy's ``{name}`` of the values of arrays."
    definition.on_host = definition.falls_back = True  # type: ignore[attr-defined]
    try:
        own = inspect.signature(function)
    except ValueError:  # some that are written in C, and ufuncs of older versions
        return definition
    first = next(iter(inspect.signature(definition).parameters.values()))
    taken = [p.replace(annotation=p.empty) for p in own.parameters.values()]
    if not taken or taken[0].kind is not inspect.Parameter.POSITIONAL_ONLY:
        definition.__signature__ = own.replace(parameters=[first, *taken])  # type: ignore[attr-defined]
    return definition


def is_on_host(definition: Callable[..., Any]) -> bool:
    """Whether a definition is NumPy's own function."""
    return getattr(definition, "on_host", False)


def falls_back(definition: Callable[..., Any]) -> bool:
    """Whether MXNet leaves a function to NumPy, which answers here for arguments that operators do not take."""
    return getattr(definition, "falls_back", False)


def _declare(table: dict[str, Callable[..., Any]], names: Sequence[str]) -> Callable[[_Definition], _Definition]:
    def declare(definition: _Definition) -> _Definition:
        _name(definition, names[0])
        for name in names:
            if name in table:
                raise AssertionError(f"function {name} is declared twice")
            table[name] = definition
        return definition

    return declare


def _name(definition: Callable[..., Any], name: str) -> None:
    """Give a definition the function's name, which Python's errors about arguments begin with."""
    definition.__name__ = definition.__qualname__ = name.rpartition(".")[2]


def short_name(operator: str) -> str:
    """The name of an operator in Python: what follows ``_np_``, ``_npi_``, ``_npx_``, ``_contrib_`` and their like."""
    from ..functions import spelled_hint

    return spelled_hint(operator)


def numpy_operand(operator: str) -> TypeError:
    """The error for an operator of np or npx that is given an array or Symbol of the legacy interface."""
    from ...core.source_location import located_hint

    text = "Write x.as_np_ndarray() for arrays of nd. Parameters are of nd where npx.set_np() was called after net.initialize(): "
    return TypeError(
        f"Operator `{operator}` registered in backend is known as `{short_name(operator)}` in Python. This is a numpy "
        "operator which can only accept MXNet numpy ndarrays, while received a legacy ndarray. Please ensure that you have "
        "activated numpy semantics by calling `npx.set_np()` in your code. If you still see this error with numpy semantics "
        "activated, please call `as_np_ndarray()` upon the legacy ndarray to convert it to an MXNet numpy ndarray, and then "
        f"feed the converted array to this operator.\n{located_hint(text + 'call it at the top of the program.')}"
    )


def not_supported(F: Application, operand: Any, *others: Any) -> TypeError:
    """The error for operands of which one is neither an array nor a number: names that one, and says what to write instead."""
    from ...hints.tracing import in_array_code, in_graph

    operands = (operand, *others)
    wrong = next((x for x in operands if not isinstance(x, (F.array, *numeric_types))), operand)
    instead = in_graph(wrong) if F.symbolic else in_array_code(wrong, module="np")
    return TypeError(f"type {type(wrong)} not supported{instead}")


def legacy_operand(operator: str, spelled: str, written: bool = False) -> TypeError:
    """The error for an operator of nd or sym that is given an array or Symbol of np, or is to write into one."""
    from ...core.source_location import located_hint
    from ...util import is_np_array

    module = "np" if spelled in NP else "npx" if spelled in NPX else ""
    instead = [f"Write {module}.{spelled} ({module} of F in hybrid_forward)."] if module else []
    if not is_np_array():
        instead.append("Call npx.set_np() at the top of the program: layers and losses then compute with arrays of np.")
    elif not module:
        instead.append("Write x.as_np_ndarray() for an array of nd beside one of np, or functions of np and npx.")
    text = f"\n{located_hint(' '.join(instead))}"
    return TypeError(
        f"Operator `{operator}` registered in backend is known as `{spelled}` in Python. This is a legacy operator which "
        f"can only {'write to' if written else 'accept'} legacy ndarrays, while received an MXNet numpy ndarray. Please call "
        "`as_nd_ndarray()` upon the numpy ndarray to convert it to a legacy ndarray, and then feed the converted array to "
        f"this operator.{text}"
    )
