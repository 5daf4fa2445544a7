# SPDX-License-Identifier: Apache-2.0
"""Operators written in Python: ``CustomOp``, ``CustomOpProp`` and ``register``, for ``nd.Custom`` and ``sym.Custom``.

A custom operator runs on arrays. In a hybridized graph it ends one compiled program and the next
begins behind it; ``explain`` shows the stages.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .base import MXNetError
from .compiler.ir.types import TensorType, tensor_type
from .core.autograd_state import state
from .core.dtypes import dtype_of
from .ndarray.apply import numpy_class
from .ndarray.device_scope import zeros_on
from .ndarray.ndarray import NDArray
from .ndarray.tape import Pullback, tracked
from .ops.functions import Bound
from .ops.params import REQUIRED, Text, Values, text_of
from .ops.record import OPERATORS, Operator
from .symbol.symbol import Symbol
from .util import is_np_array

__all__ = [
    "CustomOp",
    "CustomOpProp",
    "NDArrayOp",
    "NumpyOp",
    "OperatorArguments",
    "PythonOp",
    "get_all_registered_operators",
    "get_operator_arguments",
    "register",
]


class CustomOp:
    """What a custom operator computes; subclass it and define ``forward`` and ``backward``.

    Both write their results into given arrays, best with ``self.assign``.
    """

    def __init__(self) -> None:
        pass

    def forward(
        self,
        is_train: bool,
        req: Sequence[str],
        in_data: Sequence[NDArray],
        out_data: Sequence[NDArray],
        aux: Sequence[NDArray],
    ) -> None:
        """Compute ``out_data`` from ``in_data``."""

    def backward(
        self,
        req: Sequence[str],
        out_grad: Sequence[NDArray],
        in_data: Sequence[NDArray],
        out_data: Sequence[NDArray],
        in_grad: Sequence[NDArray],
        aux: Sequence[NDArray],
    ) -> None:
        """Compute ``in_grad`` from ``out_grad``."""

    def assign(self, dst: NDArray, req: str, src: Any) -> None:
        """Write ``src`` into ``dst`` as ``req`` asks: null, write, inplace or add."""
        if req == "null":
            return
        if req in ("write", "inplace"):
            dst[:] = src
        elif req == "add":
            dst[:] += src


class CustomOpProp:
    """What a custom operator looks like from outside: its arguments, shapes and types.

    Args:
        need_top_grad: False for losses, whose gradient does not depend on the gradient of their result.
    """

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad

    def infer_shape(self, in_shape: list[Any]) -> Any:
        """(argument shapes, output shapes, auxiliary shapes); the last may be left out."""
        return in_shape, (in_shape[0],) * len(self.list_outputs()), ()

    def infer_type(self, in_type: list[Any]) -> Any:
        """(argument types, output types, auxiliary types)."""
        return (
            in_type,
            [in_type[0]] * len(self.list_outputs()),
            [in_type[0]] * len(self.list_auxiliary_states()),
        )

    def infer_storage_type(self, in_stype: list[str]) -> Any:
        """(argument, output, auxiliary storage types), all 'default'; nothing asks, since all arrays are dense."""
        dense = ["default"]
        return in_stype, dense * len(self.list_outputs()), dense * len(self.list_auxiliary_states())

    def infer_storage_type_backward(
        self,
        ograd_stype: list[str],
        in_stype: list[str],
        out_stype: list[str],
        igrad_stype: list[str],
        aux_stype: list[str],
    ) -> Any:
        """The storage types of gradients of results, inputs, results, gradients of inputs, states: all 'default'."""
        stypes_by_role = (ograd_stype, in_stype, out_stype, igrad_stype, aux_stype)
        return tuple(["default"] * len(stypes) for stypes in stypes_by_role)

    def list_outputs(self) -> list[str]:
        """Names of the results."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["data"]

    def list_auxiliary_states(self) -> list[str]:
        """Names of the states."""
        return []

    def declare_backward_dependency(self, out_grad: list[int], in_data: list[int], out_data: list[int]) -> list[int]:
        """What the backward pass reads."""
        return [*(out_grad if self.need_top_grad_ else []), *in_data, *out_data]

    def create_operator(self, ctx: Any, in_shapes: list[Any], in_dtypes: list[Any]) -> CustomOp:
        """The operator for given inputs."""
        return CustomOp()


_registered: dict[str, type[CustomOpProp]] = {}


def register(reg_name: str) -> Callable[[type[CustomOpProp]], type[CustomOpProp]]:
    """Decorator: make a :class:`CustomOpProp` known as ``op_type=reg_name``."""

    def decorate(prop: type[CustomOpProp]) -> type[CustomOpProp]:
        if not issubclass(prop, CustomOpProp):
            raise TypeError(f"{prop} is no subclass of CustomOpProp")
        _registered[reg_name] = prop
        return prop

    return decorate


def get_all_registered_operators() -> list[str]:
    """Names of all operators."""
    return list(OPERATORS)


class OperatorArguments(NamedTuple):
    """What an operator takes: the number of arguments, their names and types."""

    narg: int
    names: list[str]
    types: list[str]


def get_operator_arguments(op_name: str) -> OperatorArguments:
    """The arguments of an operator: inputs first, then attributes.

    Raises:
        MXNetError: there is no such operator.
    """
    op = OPERATORS.get(op_name)
    if op is None:
        raise MXNetError(f"Check failed: op != nullptr: Operator {op_name} is not registered")
    names = [n.lstrip("*") for n in op.inputs]
    types = ["NDArray-or-Symbol[]" if op.variadic else "NDArray-or-Symbol"] * len(names)
    for n, p in op.params.items():
        names.append(n)
        types.append(
            f"{p.type_name}, required" if p.default is REQUIRED else f"{p.type_name}, optional, default={p.default}"
        )
    return OperatorArguments(len(names), names, types)


def _property(values: Values) -> CustomOpProp:
    """The property object for the attributes of a call."""
    prop = values.__dict__.get("_property")
    if prop is None:
        maker = _registered.get(values.op_type)
        if maker is None:
            raise MXNetError(
                f"Check failed: Cannot find custom operator {values.op_type}\n"
                f"Register it first, with @mx.operator.register({values.op_type!r})."
            )
        prop = values.__dict__["_property"] = maker(**dict(values.extra))
    return prop


def _shapes(prop: CustomOpProp, shapes: Sequence[tuple[int, ...]]) -> tuple[list[Any], list[Any], list[Any]]:
    inferred = prop.infer_shape([list(s) for s in shapes])
    arguments, outputs = inferred[0], inferred[1]
    states = inferred[2] if len(inferred) > 2 else []
    return [tuple(s) for s in arguments], [tuple(s) for s in outputs], [tuple(s) for s in states]


class _Custom(Operator):
    """The record of ``Custom``: inputs, outputs and states are those of the registered property."""

    def parse(self, attributes: dict[str, Any], written: dict[str, Any] | None = None) -> Values:
        if "op_type" not in attributes:
            raise MXNetError('Required parameter op_type of string is not presented, in operator Custom(name="")')
        extra = tuple(sorted((k, text_of(v)) for k, v in attributes.items() if k != "op_type"))
        values = Values({"op_type": str(attributes["op_type"]), "extra": extra})
        values.__dict__["given"] = tuple(attributes.items())
        return values

    def input_names(self, values: Values, count: int | None = None) -> list[str]:
        prop = _property(values)
        return [*prop.list_arguments(), *prop.list_auxiliary_states()]

    def num_outputs(self, values: Values) -> int:
        return len(_property(values).list_outputs())

    def output_suffix(self, values: Values, index: int) -> str:
        return str(_property(values).list_outputs()[index])

    def auxiliary_names(self, values: Values) -> Sequence[str]:
        return _property(values).list_auxiliary_states()

    def fill_shapes(self, values: Values, shapes: list[Any]) -> list[Any]:
        prop = _property(values)
        count = len(prop.list_arguments())
        if any(s is None for s in shapes[:1]):
            return shapes
        try:
            arguments, _, states = _shapes(prop, [s or () for s in shapes[:count]])
        except (IndexError, AssertionError):
            return shapes
        return [*arguments, *states]

    def check(self, values: Values, types: Sequence[TensorType], node: str = "") -> None:
        """The property checks for itself."""


def _results(values: Values, types: Sequence[TensorType]) -> list[TensorType]:
    prop = _property(values)
    count = len(prop.list_arguments())
    _, shapes, _ = _shapes(prop, [t.shape for t in types[:count]])
    _, dtypes, *_ = prop.infer_type([t.dtype.np.type for t in types[:count]])
    return [tensor_type(s, dtype_of(d)) for s, d in zip(shapes, dtypes, strict=True)]


def run_python(name: str, method: Callable[..., None], *args: Any) -> None:
    """Call a method of a custom operator; ``name`` is what profiles show."""
    method(*args)


def _as_kind(kind: type[NDArray] | None, *parts: Sequence[NDArray]) -> list[list[NDArray]]:
    """Lists of arrays as arrays of np in the same memory, or as legacy ones where ``kind`` is None."""
    return [[a if a._kind is kind else a._as_kind(kind) for a in arrays] for arrays in parts]


def _run(values: Values, inputs: Sequence[NDArray]) -> list[NDArray]:
    """Call a custom operator on arrays, and record it.

    Raises:
        MXNetError: whatever goes wrong in it, with the original error as its cause.
    """
    prop = _property(values)
    count = len(prop.list_arguments())
    arguments, states = list(inputs[:count]), list(inputs[count:])
    ctx = arguments[0].context if arguments else inputs[0].context
    track, training = tracked(inputs), state.training
    recording, state.recording = state.recording, False
    kind = numpy_class() if is_np_array() else None  # what the operator is written for
    try:
        types = _results(values, [x._type.tensor for x in inputs])
        results = [zeros_on(ctx, t.shape, t.dtype.np) for t in types]
        body = prop.create_operator(ctx, [list(a.shape) for a in arguments], [a.dtype for a in arguments])
        data = [a.detach() for a in arguments]
        parts = _as_kind(kind, data, results, states)
        run_python(values.op_type, body.forward, training, ["write"] * len(results), *parts)
    except MXNetError:
        raise
    except Exception as e:
        raise MXNetError(f"Error in CustomOp.forward of {values.op_type}: {type(e).__name__}: {e}") from e
    finally:
        state.recording = recording
    if track:

        def pullback(*cotangents: NDArray) -> list[NDArray | None]:
            data = [a.detach() for a in arguments]
            gradients = [zeros_on(ctx, a.shape, a._data.dtype) for a in data]
            heads = list(cotangents)
            flag, state.recording = state.recording, False
            try:
                outputs = [r.detach() for r in results]
                name, requests = f"_backward_{values.op_type}", ["write"] * len(data)
                run_python(name, body.backward, requests, *_as_kind(kind, heads, data, outputs, gradients, states))
            except MXNetError:
                raise
            except Exception as e:
                raise MXNetError(f"Error in CustomOp.backward of {values.op_type}: {type(e).__name__}: {e}") from e
            finally:
                state.recording = flag
            return [*gradients, *(None for _ in states)]

        Pullback(pullback, inputs, results)
    return results


def _bind(args: Sequence[Any], kwargs: dict[str, Any]) -> Bound:
    """Inputs by position and by the names that the property lists; everything else is an attribute."""
    out, name = kwargs.pop("out", None), kwargs.pop("name", None)
    attributes = {k: v for k, v in kwargs.items() if not isinstance(v, (NDArray, Symbol))}
    named = {k: v for k, v in kwargs.items() if isinstance(v, (NDArray, Symbol))}
    inputs = list(args)
    if named:
        names = _record.input_names(_record.parse({k: v for k, v in attributes.items() if k != "attr"}))
        unknown = [k for k in named if k not in names]
        if unknown:
            raise MXNetError(
                f"operator Custom of type {attributes['op_type']} has no input {unknown[0]!r}; it has {names}"
            )
        inputs += [None] * (len(names) - len(inputs))
        for k, v in named.items():
            inputs[names.index(k)] = v
    elif args and isinstance(args[0], Symbol):
        names = _record.input_names(_record.parse({k: v for k, v in attributes.items() if k != "attr"}))
        inputs += [None] * (len(names) - len(inputs))
    return Bound(inputs, attributes, out, name)


def _lower(b: Any, p: Values, *inputs: Any) -> Any:
    raise MXNetError(f"the custom operator {p.op_type} runs in Python and cannot be lowered")


_record = _Custom(
    "Custom",
    ("*args",),
    {"op_type": Text(doc="registered name")},
    _lower,
    "An operator written in Python, registered with ``mx.operator.register``.",
    python=_run,
    infer_results=_results,
    binder=_bind,
    aliases=("_npi_Custom",),
    dtypes="*",
)
for _name in (_record.name, *_record.aliases):
    OPERATORS[_name] = _record


# -- the older way, one object an operator


class PythonOp:
    """The base of :class:`NumpyOp` and :class:`NDArrayOp`, deprecated in favour of :class:`CustomOp`.

    Args:
        need_top_grad: False for losses, whose gradient does not depend on the gradient of their result.
    """

    def __init__(self, need_top_grad: bool = True) -> None:
        warnings.warn(f"{type(self).__name__} has been deprecated. Please use CustomOp", stacklevel=2)
        self.need_top_grad_ = need_top_grad
        self._hg_op_type = f"_python_op{next(_numbers)}"
        owner = self

        class Prop(CustomOpProp):
            def __init__(self) -> None:
                super().__init__(owner.need_top_grad())

            def infer_shape(self, in_shape: list[Any]) -> Any:
                return (*owner.infer_shape(in_shape), [])

            def list_outputs(self) -> list[str]:
                return owner.list_outputs()

            def list_arguments(self) -> list[str]:
                return owner.list_arguments()

            def create_operator(self, ctx: Any, in_shapes: list[Any], in_dtypes: list[Any]) -> CustomOp:
                return _Adapter(owner)

        _registered[self._hg_op_type] = Prop

    def __call__(self, *args: Any, **kwargs: Any) -> Symbol:
        return self.get_symbol(*args, **kwargs)

    def get_symbol(self, *args: Any, **kwargs: Any) -> Symbol:
        """The operator applied to Symbols."""
        from .symbol import Custom

        symbol: Symbol = Custom(*args, op_type=self._hg_op_type, **kwargs)
        return symbol

    def forward(self, in_data: Sequence[Any], out_data: Sequence[Any]) -> None:
        """Compute ``out_data`` from ``in_data``."""
        out_data[0][:] = in_data[0]

    def backward(
        self, out_grad: Sequence[Any], in_data: Sequence[Any], out_data: Sequence[Any], in_grad: Sequence[Any]
    ) -> None:
        """Compute ``in_grad`` from ``out_grad``."""
        in_grad[0][:] = 1.0

    def infer_shape(self, in_shape: list[Any]) -> Any:
        """(argument shapes, output shapes)."""
        return in_shape, [in_shape[0]]

    def list_outputs(self) -> list[str]:
        """Names of the results."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["data"]

    def need_top_grad(self) -> bool:
        """Whether the backward pass reads ``out_grad``."""
        return self.need_top_grad_

    def _hg_call(
        self, function: Callable[..., None], inputs: Sequence[Sequence[NDArray]], outputs: Sequence[NDArray]
    ) -> None:
        raise NotImplementedError("derive from NumpyOp or NDArrayOp")


class NumpyOp(PythonOp):
    """An operator whose ``forward`` and ``backward`` work on NumPy arrays."""

    def _hg_call(
        self, function: Callable[..., None], inputs: Sequence[Sequence[NDArray]], outputs: Sequence[NDArray]
    ) -> None:
        results = [x.asnumpy() for x in outputs]
        function(*([x.asnumpy() for x in part] for part in inputs), results)
        for x, y in zip(outputs, results, strict=True):
            x[:] = y


class NDArrayOp(PythonOp):
    """An operator whose ``forward`` and ``backward`` work on arrays."""

    def _hg_call(
        self, function: Callable[..., None], inputs: Sequence[Sequence[NDArray]], outputs: Sequence[NDArray]
    ) -> None:
        function(*inputs, list(outputs))

    def declare_backward_dependency(self, out_grad: list[int], in_data: list[int], out_data: list[int]) -> list[int]:
        """What the backward pass reads."""
        return [*(out_grad if self.need_top_grad() else []), *in_data, *out_data]


class _Adapter(CustomOp):
    """A :class:`PythonOp` as a :class:`CustomOp`."""

    def __init__(self, owner: PythonOp) -> None:
        super().__init__()
        self._owner = owner

    def forward(self, is_train: Any, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        self._owner._hg_call(self._owner.forward, [in_data], out_data)

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        self._owner._hg_call(self._owner.backward, [out_grad, in_data, out_data], in_grad)


_numbers = itertools.count()
