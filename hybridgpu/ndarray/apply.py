# SPDX-License-Identifier: Apache-2.0
"""Eager execution of operators.

An operator is lowered once for each combination of attributes and input types; what is kept is the
list of array calls that its lowering makes. A lowering of one primitive is one array call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from ..backends.device_errors import HostMemoryError, call_with_retry
from ..backends.devices import Device, HostDevice, device_of
from ..backends.write_tracking import assign
from ..base import MXNetError, OperandError, ParameterError
from ..compiler.ir.graph import Graph, Provenance
from ..compiler.ir.types import TensorType
from ..compiler.primitives import builder
from ..context import Context, given_or_current
from ..core import autograd_state
from ..core.source_location import note_location
from ..hints.op_errors import add_details
from ..hints.tracing import about_operand, in_array_code
from ..ops.functions import Bound
from ..ops.mutation import When
from ..ops.params import Values
from ..ops.precision import active, cast_inputs
from ..ops.record import OPERATORS, Operator, shape_text
from ..util import is_np_shape
from .binding_version import invalidate_bindings
from .dynamic_attributes import DynamicCall, dynamic_call, dynamic_key
from .kernels import wants_kernel
from .late_bindings import late
from .ndarray import NDArray, in_place_recorded, refuse_in_place, wrap
from .plan_source import plan_of
from .plans import forget_plans, keep, noting, observation
from .tape import DifferentiableGraph, FunctionCall, Pullback, SizedGraph, running_average, tracked
from .versions import before_write, latest

__all__ = ["apply", "apply_function", "first_target", "forget_graphs", "operator_graph", "zeros_like"]

_graphs: dict[Any, tuple[Graph, bool]] = {}
_functions: dict[Any, DifferentiableGraph] = {}
_dynamic_calls: dict[Any, DynamicCall | int] = {}  # or how many values have become constants
_CONSTANT_VALUES = 8  # of attributes that vary; a call with a constant is faster by some microseconds
_LIMIT = 8192  # plans kept; beyond it all are dropped and made again


def operator_graph(op: Operator, values: Values, types: Sequence[TensorType], training: bool) -> tuple[Graph, bool]:
    """The lowering of one operator call, and whether it draws random numbers."""
    key = (op, values.key, tuple(types), training, is_np_shape())
    entry = _graphs.get(key)
    if entry is None:
        since = observation.since
        graph = _lowered(op, values, types, training)
        entry = graph, graph.draws
        keep(_graphs, key, entry, since, _LIMIT)
    return entry


def _lowered(op: Operator, values: Values, types: Sequence[TensorType], training: bool) -> Graph:
    b = builder(training)
    b.prov = Provenance(op.name, "")  # what errors name
    nodes = [b.input(t, n) for t, n in zip(types, op.input_names(values, len(types)), strict=False)]
    return b.finish(op.build(b, values, cast_inputs(b, op, values, nodes)), op.name.strip("_"))


def apply_function(op: Operator, spelled: str, call: Bound) -> Any:
    """The body of a function of ``nd``: check the kinds of the arguments, then apply."""
    ctx = call.attributes.pop("ctx", None) if not op.inputs or "ctx" not in op.params else None
    inputs = call.inputs
    kind = numpy_class() if spelled.startswith("_np") else None
    if op.variadic:
        for x in inputs:
            if not isinstance(x, NDArray):
                raise OperandError(
                    f"Positional arguments must have NDArray type, but got {x}"
                    + (in_array_code(x, spelled) or about_operand(x, ("*data",), op.params, spelled))
                )
    else:
        for n, x in zip(op.inputs, inputs, strict=True):
            if x is not None and not isinstance(x, NDArray):
                raise OperandError(
                    f"Argument {n} must have NDArray type, but got {x}"
                    + (in_array_code(x, spelled) or about_operand(x, op.inputs, op.params, spelled))
                )
        inputs = [x for x in inputs if x is not None]
    check_kind(op, spelled, inputs, call.out, kind)
    values = op.parse(call.attributes)
    check_count(op, values, inputs)
    if autograd_state.state.trace is not None:
        autograd_state.state.trace.hint = spelled, call.name
    return apply(op, inputs, values, call.out, as_context(ctx), kind)


def check_count(op: Operator, values: Values, inputs: Sequence[NDArray]) -> None:
    """Raise MXNet's error unless an operator has as many inputs as it takes."""
    if not op.variadic or op.count_param:
        count = values.as_dict()[op.count_param] if op.variadic else len(op.input_names(values))
        if len(inputs) != count:
            names = ", ".join(op.input_names(values))
            taken = "" if op.variadic else f"\n{op.name} takes {names} for these attributes."
            raise MXNetError(
                f"Check failed: num_inputs == infered_num_inputs ({len(inputs)} vs. {count}) : "
                f"Operator {op.name} expects {count} inputs, but got {len(inputs)} instead.{taken}"
            )


def numpy_class() -> type[NDArray]:
    """The class of the arrays of np, which programs without any do not load."""
    return late.ndarray  # type: ignore[no-any-return]


def check_kind(op: Operator, spelled: str, inputs: Sequence[NDArray], out: Any, kind: Any) -> None:
    """Raise MXNet's error for arrays of the other interface.

    Args:
        kind: the class of the arrays of np for their operators, None for legacy ones.
    """
    for x in inputs:
        if x._kind is not kind:
            raise _other_interface(op, spelled, kind)
    if out is not None:
        for x in out if isinstance(out, (list, tuple)) else (out,):
            if (kind is not None or isinstance(x, NDArray)) and getattr(x, "_kind", None) is not kind:
                raise _other_interface(op, spelled, kind, written=True)


def _other_interface(op: Operator, spelled: str, kind: Any, written: bool = False) -> TypeError:
    from ..ops.numpy.application import legacy_operand, numpy_operand

    return legacy_operand(op.name, spelled, written) if kind is None else numpy_operand(spelled)


def as_context(ctx: Any) -> Context | None:
    if isinstance(ctx, str):
        kind, _, number = ctx.partition("(")
        return Context(kind, int(number.rstrip(")") or 0))
    return ctx  # type: ignore[no-any-return]


def apply(
    op: Operator,
    inputs: Sequence[NDArray],
    values: Values,
    out: Any = None,
    ctx: Context | None = None,
    kind: type[NDArray] | None = None,
) -> Any:
    """Run an operator on arrays.

    Args:
        out: takes the results.
        ctx: where an operator without inputs computes.
        kind: the class of the results, None for NDArray.

    Returns:
        The result, a list where callers see several, or ``out``.

    Raises:
        MXNetError: inputs that do not fit, or that lie on different devices.
    """
    if autograd_state.state.trace is not None:
        return autograd_state.state.trace.apply(op, inputs, values, out, ctx, kind)
    noted = noting.calls
    if noted is not None:
        noted.append(None)
    where = common_context(op, inputs) if inputs else given_or_current(ctx)
    if out is not None:
        first = first_target(out)
        if first is None:
            pass  # _targets refuses it
        elif not inputs:
            values = like(first, values)
        elif op.in_place is not None and first.address == inputs[0].address:
            op = op.in_place
    if op.python is not None:
        python_results = op.python(values, _in_precision(op, values, inputs))
        if out is not None:
            write_out([r._data for r in python_results], _targets(op, values, out), exact=True)
            return out
        if kind is not None:
            python_results = [r._as_kind(kind) for r in python_results]
        return python_results[0] if len(python_results) == 1 else python_results
    device = device_of(where)
    if device.needs_switch():
        with device.current():
            return apply(op, inputs, values, out, where, kind)
    arrays = [x._data for x in inputs]
    numbers: Sequence[Any] = ()  # attributes that vary
    track = autograd_state.state.recording and tracked(inputs)
    if op.check_arrays is not None:
        try:
            op.check_arrays(device.xp, values, *arrays)
        except MXNetError as e:
            _fail(op, values, inputs, e)
    if op.eager is not None:
        inputs = _in_precision(op, values, inputs)
        arrays = [x._data for x in inputs]
        with _named(op, values, inputs):
            op.check(values, [x._type.tensor for x in inputs])
        try:
            results = call_with_retry(run_eagerly, op, device.xp, values, arrays)
        except Exception as e:
            _fail(op, values, inputs, e)
        function = seed = None
    else:
        training = autograd_state.state.training
        key = (op, values.key, training, is_np_shape(), *[x._type.tensor for x in inputs])
        function = _functions.get(key)
        call = _cached_dynamic_call(op, values, inputs, training, device) if function is None and op.varies else None
        if call is not None:
            function = call.function
            try:
                numbers = [*map(device.from_host, call.numbers(values))]
            except ArithmeticError as e:
                _fail(op, values, inputs, e)
            arrays += numbers
        elif function is None:
            function = _new_function(op, values, inputs, training, key)
        try:
            if function.draws:
                from ..core.rng import next_state

                seed = device.from_host(next_state(where))
                results = function.run(device, [*arrays, seed])
            else:
                seed = None
                results = function.run(device, arrays)
        except Exception as e:
            _fail(op, values, inputs, e)
    visible = results[: op.num_visible(values)]
    if out is not None:
        wrapped, written = _targets(op, values, out), out
        _on_one_device(op, wrapped, where)
        visible = results[: len(wrapped)]
        if autograd_state.state.recording:
            for x in wrapped:
                refuse_in_place(x)
                if track and any(x is i for i in inputs):
                    raise in_place_recorded()
        if op.accumulates(values):
            visible = call_with_retry(_accumulated, wrapped, visible)
        del arrays  # or it would seem that somebody else reads what is written
        write_out(visible, wrapped, exact=bool(inputs), promoted=None if kind is None else inputs)
    else:
        wrapped = [wrap(r, where, kind) for r in visible]
        written = wrapped[0] if len(wrapped) == 1 else wrapped
    in_backward = []
    if op.mutates:  # only now: an ``out`` that does not fit changes nothing
        for target, source, keep, when in op.writes(values, autograd_state.state.training):
            if when is When.BACKWARD:
                in_backward.append((inputs[target]._data, results[source], keep))
            else:
                before_write(inputs[target])
                running_average(inputs[target]._data, results[source], keep)
    if track:
        if function is not None:
            hidden = results[len(visible) :]
            FunctionCall(function, inputs, wrapped, where, seed, hidden, in_backward, (op, values), numbers=numbers)
        elif op.eager_gradient is not None:
            _record_eager(op, values, inputs, wrapped, device)
    if noted is not None and function is not None and out is None:
        writes = op.mutates and op.writes(values, autograd_state.state.training)
        plain = not (numbers or writes or (op.check_arrays and inputs))  # without arrays it checks attributes
        if plain and isinstance(device, HostDevice):

            def general(*arrays: NDArray) -> Any:
                return apply(op, arrays, values, None, where, kind)

            plan = plan_of(function, device, len(wrapped), where, kind or NDArray, general, (op, values))
            noted[-1] = plan, inputs, written
    return written


def _new_function(
    op: Operator, values: Values, inputs: Sequence[NDArray], training: bool, key: tuple[Any, ...]
) -> DifferentiableGraph:
    """The graph of an operator for attributes and types that are met for the first time; ``key``: of ``_functions``."""
    since, types = observation.since, [x._type.tensor for x in inputs]
    with _named(op, values, inputs):
        graph, _ = operator_graph(op, values, types, training)

    def lower(types: Sequence[TensorType]) -> Graph:
        return _lowered(op, values, types, training)

    function = DifferentiableGraph(graph, SizedGraph(types, lower, (*key[:4], active())))
    keep(_functions, key, function, since, _LIMIT)
    return function


def _in_precision(op: Operator, values: Values, inputs: Sequence[NDArray]) -> Sequence[NDArray]:
    """The inputs of an operator that has no graph, in the types of automatic mixed precision."""
    policy = active()
    if policy is None:
        return inputs
    dtypes = policy.dtypes(op, values, [x._type.dtype for x in inputs])
    cast = OPERATORS["amp_cast"]
    return [
        x if x._type.dtype is d else apply(cast, [x], cast.parse({"dtype": d.name}))
        for x, d in zip(inputs, dtypes, strict=True)
    ]


def zeros_like(x: NDArray) -> Any:
    """Zeros in the shape, the type and the class of an array; a recorded operator, so that gradients are zeros as well."""
    op = OPERATORS["zeros_like"]
    return apply(op, (x,), op.parse({}), kind=x._kind)


def forget_graphs() -> None:
    """Drop the graphs of all operators: they were made under another policy of mixed precision."""
    forget_plans()  # first: what a call of another thread makes meanwhile is not kept from here on
    for table in (_graphs, _functions, _dynamic_calls):
        table.clear()
    invalidate_bindings()  # functions that were traced on arrays are traced again


def _cached_dynamic_call(
    op: Operator, values: Values, inputs: Sequence[NDArray], training: bool, device: Device
) -> DynamicCall | None:
    """The lowering for all values of the attributes that vary; None for the first few values, which become constants where
    nothing is compiled for them."""
    types = [x._type.tensor for x in inputs]
    key = (op, dynamic_key(op, values), training, is_np_shape(), *types)
    entry, since = _dynamic_calls.get(key, 0), observation.since
    if isinstance(entry, int):
        if entry == 0:
            with _named(op, values, inputs):
                graph, _ = operator_graph(op, values, types, training)
            if wants_kernel(graph, device):
                entry = _CONSTANT_VALUES
        if entry < _CONSTANT_VALUES:
            keep(_dynamic_calls, key, entry + 1, since, _LIMIT)
            return None
        with _named(op, values, inputs):
            entry = dynamic_call(op, values, types, training)
        keep(_dynamic_calls, key, entry, since, _LIMIT)
    return entry


class _named:
    """Errors inside end with the operator and its arguments, which MXNet's words leave out."""

    def __init__(self, op: Operator, values: Values, inputs: Sequence[NDArray]) -> None:
        self._op, self._values, self._inputs = op, values, inputs

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, MXNetError):
            _add_operator(error, self._op, self._values, self._inputs)


def _add_operator(error: MXNetError, op: Operator, values: Values, inputs: Sequence[NDArray]) -> None:
    names = op.input_names(values, len(inputs))
    types = [x._type.tensor for x in inputs]
    error.args = (f"{error}{add_details(error, op, values, names, types)}",)
    note_location(error)


def _fail(op: Operator, values: Values, inputs: Sequence[NDArray], error: Exception) -> NoReturn:
    """Raise, in the ``except`` clause of an operator's work, MXNet's error with the operator and its arguments.

    What an array library says of values that it cannot work with (sizes and counts that attributes ask for) becomes one,
    which names the class of what was raised: it may be a defect of ours.
    """
    if isinstance(error, MXNetError):
        if type(error) in (MXNetError, ParameterError, HostMemoryError):
            _add_operator(error, op, values, inputs)
        raise error
    raised: MXNetError
    if isinstance(error, MemoryError):
        raised = HostMemoryError(f"There is not enough memory: {error}".removesuffix(": "))
    elif isinstance(error, (ArithmeticError, ValueError)):
        raised = MXNetError(f"operator {op.name} cannot be computed: {type(error).__name__}: {error}")
    else:
        raise error
    _add_operator(raised, op, values, inputs)
    raise raised from error


def run_eagerly(op: Operator, xp: Any, values: Values, arrays: Sequence[Any]) -> list[Any]:
    """Results of an operator whose shapes depend on values."""
    assert op.eager is not None
    return list(op.eager(xp, values, *arrays))


def _accumulated(targets: Sequence[NDArray], results: Sequence[Any]) -> list[Any]:
    """What is written into ``out`` by an operator that multiplies into it."""
    return [t._data * r for t, r in zip(targets, results, strict=True)]


def _record_eager(
    op: Operator, values: Values, inputs: Sequence[NDArray], results: Sequence[NDArray], device: Any
) -> None:
    """Record an operator that has no graph; its derivative runs on arrays as it does itself."""
    arrays, outputs = [x._data for x in inputs], [r._data for r in results]
    where = inputs[0].context

    def pullback(*cotangents: NDArray) -> list[NDArray | None]:
        assert op.eager_gradient is not None
        cotangent_data = [c._data for c in cotangents]
        gradients = call_with_retry(
            op.eager_gradient, device.xp, values, cotangent_data, list(map(latest, arrays)), outputs
        )
        return [None if g is None else wrap(g, where) for g in gradients]

    Pullback(pullback, inputs, results)


def common_context(op: Operator, inputs: Sequence[NDArray]) -> Context:
    """The context of the inputs.

    Raises:
        MXNetError: two different devices; both are named.
    """
    first = inputs[0]._type.ctx
    for k, x in enumerate(inputs):
        ctx = x._type.ctx
        # hosts share memory whatever their number; a GPU is itself only
        if ctx is not first and 2 in (ctx.device_typeid, first.device_typeid) and ctx != first:
            raise mixed(op, k, first, ctx)
    return first


def mixed(op: Operator, position: int, first: Context, other: Context) -> MXNetError:
    names = op.inputs
    name = names[position] if position < len(names) and not op.variadic else f"input {position}"
    return MXNetError(
        f"operator {op.name}: all inputs must be on one device, but {name} is on {other} and the first input on {first}\n"
        f"Move it with as_in_context({first})."
    )


def like(out: NDArray, values: Values) -> Values:
    """Attributes of what takes no arrays: without a shape it takes that of ``out``, and floats are of its type."""
    attributes, dtype = values.as_dict(), out._type.tensor.dtype
    changed: dict[str, Any] = {"shape": out.shape} if attributes.get("shape", ()) is None else {}
    if getattr(attributes.get("dtype"), "is_float", False) and dtype.is_float:
        changed["dtype"] = dtype
    return Values({**attributes, **changed}) if changed else values


def first_target(out: Any) -> NDArray | None:
    """The array of ``out=``, or the first of several; None where it is something else."""
    first = out[0] if isinstance(out, (list, tuple)) and out else out
    return first if isinstance(first, NDArray) else None


def _targets(op: Operator, values: Values, out: Any) -> list[NDArray]:
    """The arrays of ``out=``, one for every result or for every one that callers see.

    Raises:
        TypeError: something else than arrays.
        MXNetError: another number of them.
    """
    targets = list(out) if isinstance(out, (list, tuple)) else [out]
    for target in targets:
        if not isinstance(target, NDArray):
            raise TypeError(f"out must be an NDArray or a list of them, not {type(target)}")
    every, seen = op.num_outputs(values), op.num_visible(values)
    if len(targets) not in (every, seen):
        raise MXNetError(
            "Check failed: *num_outputs == infered_num_outputs || *num_outputs == num_visible_outputs: Operator expects "
            f"{every} (all) or {seen} (visible only) outputs, but got {len(targets)} instead."
        )
    return targets


def _on_one_device(op: Operator, targets: Sequence[NDArray], where: Context) -> None:
    """
    Raises:
        MXNetError: ``out`` is not where the operator computes.
    """
    for target in targets:
        ctx = target._type.ctx
        if ctx is not where and 2 in (ctx.device_typeid, where.device_typeid) and ctx != where:
            raise MXNetError(
                f"operator {op.name}: out must be where the result is computed, but it is on {ctx} and the result on {where}\n"
                f"Give an array on {where}, or leave out= away and copy the result."
            )


def write_out(
    results: Sequence[Any], targets: Sequence[NDArray], exact: bool, promoted: Sequence[NDArray] | None = None
) -> None:
    """Write results into the arrays of ``out=``.

    Args:
        exact: refuse other element types; what takes no arrays (zeros, random numbers) takes that of ``out``.
        promoted: the operands of an operator of np: what follows from several shapes or types MXNet calls inferred.

    Raises:
        MXNetError: a shape or an element type differs; nothing is written.
    """
    for k, (target, result) in enumerate(zip(targets, results, strict=True)):
        if result.shape == target.shape and (not exact or result.dtype == target._data.dtype):
            continue
        expected, got = shape_text(result.shape), shape_text(target.shape)
        what, inferred = (
            "Shape inconsistent, Provided = {}, inferred shape={}",
            promoted is not None and len(promoted) > 1,
        )
        if expected == got and exact:
            expected, got = str(result.dtype), str(target._data.dtype)
            what = "Type inconsistent, Provided = {}, inferred type = {}"
            inferred = promoted is not None and any(x._data.dtype != result.dtype for x in promoted)
        if expected != got:
            message = f"Incompatible attr in node  at {k}-th output: expected {expected}, got {got}"
            raise MXNetError(
                f"{what.format(got, expected) if inferred else message}\n"
                "out= must be an array of the shape and the type of the result: leave it away, or cast the inputs."
            )
    for target, result in zip(targets, results, strict=True):
        before_write(target)
        assign(target._data, result)
