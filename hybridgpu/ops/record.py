# SPDX-License-Identifier: Apache-2.0
"""The operator record: everything hybridgpu knows of an operator, declared in one place.

The functions of ``nd`` and ``sym``, array and Symbol methods, shape and type inference, eager
execution, lowering, JSON and the documentation are all derived from these records.
"""

from __future__ import annotations

import inspect
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..compiler.ir.dim_texts import report_text
from ..compiler.ir.types import TensorType
from ..core.dataclass import dataclass, field
from ..core.dtypes import DType
from ..core.source_location import located_hint, note_location
from ..hints.arguments import SPELLED, about_value, closest
from ..hints.op_errors import differing_types
from .mutation import Write
from .params import REQUIRED, Param, Values, text_of

__all__ = [
    "OPERATORS",
    "Operator",
    "Sample",
    "check_same_shape",
    "operator",
    "sample",
    "shape_text",
    "tuple_text",
]

Lower = Callable[..., "Node | Sequence[Node]"]


@dataclass(frozen=True, eq=False)
class Sample:
    """One call that tests make.

    Attributes:
        shapes: of the inputs; None where every shape will do (records with ``same_shape``).
        attributes: keyword arguments.
        positions: input number -> (low, high), inclusive, for inputs that hold whole numbers such as indices.
    """

    shapes: tuple[tuple[int, ...], ...] | None
    attributes: dict[str, Any]
    positions: dict[int, tuple[int, int]]


def sample(
    shapes: Sequence[tuple[int, ...]] | None = None,
    attributes: dict[str, Any] | None = None,
    positions: dict[int, tuple[int, int]] | None = None,
) -> Sample:
    """A :class:`Sample`."""
    return Sample(None if shapes is None else tuple(shapes), attributes or {}, positions or {})


@dataclass(eq=False)
class Operator:
    """One operator.

    Attributes:
        name: MXNet's canonical name, which files carry.
        inputs: names of the inputs in order; a variadic operator has one name, ``*data``.
        params: attributes in declaration order.
        lower: (builder, values, *inputs) -> result or tuple of results, in primitives.
        doc: what it does.
        aliases: other names under which it is reached.
        optional: (values) -> names of the inputs in use, for operators whose inputs depend on attributes;
            none for a variadic operator whose inputs have no names then.
        subgraphs: number of graphs that control flow works on; ``lower`` takes them before the inputs, each
            with ``inputs``, ``outputs`` (numbers) and ``lower(builder, nodes)``.
        auxiliary: inputs that are states, not arguments.
        outputs: number of results, or (values) -> number.
        visible: how many of them callers see, or (values) -> number; None means all.
        kept: further results that MXNet keeps for its own gradient: files count them, nothing here makes them.
        output_names: suffixes of output names or (index) -> suffix, where MXNet registered them; () for 'output' (or
            'output0' … for several).
        named: MXNet registered a name for the only input ``data``; it shows others to monitors as ``input0``.
        dtypes: a letter an input; inputs with one letter have one dtype, '*' takes any.
        same_shape: inputs and result have one shape.
        np_shape: NumPy shape semantics change the shapes of results: one number has shape () with them, (1,) without.
        same_size: the input and the result have as many elements: one unknown extent follows from the others.
        result_dtype: (values, input dtypes) -> dtype of the results, or a tuple of one a result, where it is
            not the attribute ``dtype`` or the first input's; used where shapes are unknown.
        infer_dtypes: (values, input dtypes) -> input dtypes, filling in None where ``dtypes`` cannot say it.
        infer_inputs: (values, shapes) -> shapes, filling in None from what is known.
        infer_with_graphs: (values, subgraphs, shapes) -> shapes, for control flow.
        unknown_axes: (values, axes of the first input) -> those axes of it whose extent, if unknown, leaves that of the
            result unknown; where partial inference would say more than MXNet's.
        infer_from_results: (values, shapes, shapes of the results) -> shapes, the other way round.
        mutates: input index -> index of the result of ``lower`` whose value it takes after the call, or
            (values, training) -> :class:`Write` items; results beyond ``outputs`` exist for this only.
        in_place: the same operator where its result is written over its first input, if that changes what it computes:
            kernels of MXNet that read an operand again after they have overwritten it.
        accumulates: (values) -> whether results are multiplied into the arrays of ``out=`` instead of replacing them.
        eager: (xp, values, *arrays) -> arrays, for results whose shape depends on values.
        check_arrays: (xp, values, *arrays), raises an error for values that do not fit, such as negative scales. Eager calls
            ask it; programs do not look at values.
        eager_gradient: (xp, values, cotangents, inputs, outputs) -> one array or None an input, with ``eager``.
        python: (values, input arrays) -> arrays, for operators written in Python; it records itself.
        infer_results: (values, input types) -> types of the results, with ``python``.
        binder: (args, kwargs) -> Bound, where a call is taken apart in a way of its own.
        method: name as a method of arrays and Symbols, '' for none.
        custom_type: ``op_type`` of the ``Custom`` nodes as which graph files hold the operator: MXNet has it in Python, and
            registers it so. ``_npi_`` with this name is an alias, under which the reader of files finds it.
        count_param: the attribute that holds the number of variadic inputs.
        initial: input -> initialiser, as JSON, of the variable that stands for it when a Symbol is not given it.
        samples: calls that tests make. Needed unless the record has ``same_shape`` and no required attribute.
        domain: (low, high) of the values that tests draw.
        differentiable: False where the gradient is zero by definition.
        no_gradient: names of inputs whose gradient is: conditions, positions, lengths, arrays of which the shape counts.
    """

    name: str
    inputs: tuple[str, ...]
    params: dict[str, Param]
    lower: Lower
    doc: str
    aliases: tuple[str, ...] = ()
    optional: Callable[[Values], Sequence[str]] | None = None
    subgraphs: int = 0
    auxiliary: tuple[str, ...] = ()
    outputs: int | Callable[[Values], int] = 1
    visible: int | Callable[[Values], int] | None = None
    kept: int = 0
    output_names: tuple[str, ...] | Callable[[int], str] = ()
    named: bool = False
    dtypes: str = ""
    same_shape: bool = False
    np_shape: bool = False
    same_size: bool = False
    result_dtype: Callable[[Values, Sequence[DType | None]], DType | tuple[DType | None, ...] | None] | None = None
    infer_dtypes: Callable[[Values, list[DType | None]], list[DType | None]] | None = None
    infer_inputs: Callable[[Values, list[Any]], list[Any]] | None = None
    infer_with_graphs: Callable[[Values, Sequence[Any], list[Any]], Sequence[Any]] | None = None
    unknown_axes: Callable[[Values, int], Iterable[int]] | None = None
    infer_from_results: Callable[[Values, list[Any], list[Any]], list[Any]] | None = None
    mutates: dict[int, int] | Callable[[Values, bool], Iterable[Write]] = field(default_factory=dict)
    in_place: Operator | None = None
    accumulates: Callable[[Values], bool] = lambda values: False
    eager: Callable[..., Any] | None = None
    check_arrays: Callable[..., None] | None = None
    eager_gradient: Callable[..., Sequence[Any]] | None = None
    python: Callable[[Values, Sequence[Any]], list[Any]] | None = None
    infer_results: Callable[[Values, Sequence[TensorType]], Sequence[TensorType]] | None = None
    binder: Callable[..., Any] | None = None
    method: str = ""
    custom_type: str = ""
    count_param: str = ""
    initial: dict[str, str] = field(default_factory=dict)
    samples: tuple[Sample, ...] = ()
    domain: tuple[float, float] = (-2.0, 2.0)
    differentiable: bool = True
    no_gradient: tuple[str, ...] = ()
    _parsed: dict[Any, Values] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.variadic = bool(self.inputs) and self.inputs[0].startswith("*")
        without = {*self.auxiliary, *self.no_gradient}
        self.all_with_gradient = self.differentiable and not without
        #: what ``inputs_with_gradient`` gives, where the inputs are always the same
        self._with_gradient: Sequence[int] | None = None
        if without and self.optional is None and not self.variadic:
            self._with_gradient = [k for k, n in enumerate(self.inputs) if n not in without]
        #: attributes that change from call to call
        self.varies = frozenset(n for n, p in self.params.items() if p.varies)
        #: attributes that say how many inputs there are
        self._counts = [n for n in _INPUT_COUNTS if n in self.params] if self.variadic else []
        ours = getattr(self.lower, "__module__", "").startswith(f"{__package__.partition('.')[0]}.")
        #: what a stored program depends on beside the name: of our own lowerings the cache knows the sources, any
        #: other record is unlike all before it
        self.identity = "" if ours else os.urandom(16).hex()

    # -- attributes

    def parse(self, attributes: dict[str, Any], written: dict[str, Any] | None = None) -> Values:
        """Canonical values of the attributes given; defaults for the others.

        Args:
            written: the attributes as the program wrote them, where they are texts, for errors.

        Raises:
            MXNetError: an unknown, missing or unfit attribute, in MXNet's words.
        """
        given, hashable, written = tuple(attributes.items()), True, written or attributes
        try:
            parsed = self._parsed.get(given)
            # 1 == True == 1.0 and 0.0 == -0.0 as dictionary keys, in tuples too, but not as attributes
            if parsed is not None and all(
                a is b or (type(a) is type(b) and ((a and type(a) is not tuple) or repr(a) == repr(b)))
                for (_, a), (_, b) in zip(given, parsed.given, strict=True)
            ):
                return parsed
        except (TypeError, NotImplementedError):  # such as a list, or an array of np, of which MXNet reads the text
            attributes = {k: str(v) if hasattr(v, "asnumpy") else v for k, v in given}
            given, hashable = tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in attributes.items()), False
        items: dict[str, Any] = {}
        unknown = [k for k in attributes if k not in self.params]
        if unknown and self.params:
            raise self._unknown(unknown[0], attributes)
        for name, param in self.params.items():
            if name in attributes:
                try:
                    items[name] = param.parse(name, attributes[name])
                except MXNetError as e:
                    unfit = self._unfit(str(e), attributes)
                    if line := about_value(name, written[name], written):
                        unfit = MXNetError(f"{unfit}{line}")
                    raise unfit from None
            elif param.default is REQUIRED:
                raise self._unfit(f"Required parameter {name} of {param.kind} is not presented", attributes)
            else:
                items[name] = param.default if param.default is None else param.parse(name, param.default)
        values = Values(items)
        values.__dict__["given"] = given
        for count in self._counts:
            self._check_count(items[count], count, attributes)
        if callable(self.outputs):
            self._check_count(self.outputs(values), "number of outputs", attributes)
        if hashable and len(self._parsed) < 4096:
            self._parsed[given] = values
        return values

    def _check_count(self, count: int, what: str, attributes: dict[str, Any]) -> None:
        if count > MAX_ENTRIES:
            raise self._unfit(f"{what} is {count}, more than any graph needs", attributes)
        if count < 0:
            raise self._unfit(f"{what} is {count}, which is negative", attributes)

    def _as_called(self, attributes: dict[str, Any]) -> str:
        shown = "".join(f', {k}="{text_of(v)}"' for k, v in sorted(attributes.items()))
        return f'in operator {self.name}(name=""{shown})'

    def _unfit(self, text: str, attributes: dict[str, Any]) -> MXNetError:
        """An error whose block and line are told where it leaves a block."""
        error = MXNetError(f"{text}, {self._as_called(attributes)}")
        note_location(error)
        return error

    def _unknown(self, name: str, attributes: dict[str, Any]) -> MXNetError:
        lines = [
            f"{n} : {p.type_name}{'' if p.default is REQUIRED else f', optional, default={p.default}'}"
            for n, p in self.params.items()
        ]
        instead = closest(name, self.params, SPELLED)
        error = self._unfit(
            f"Cannot find argument '{name}', Possible Arguments:\n----------------\n" + "\n".join(lines) + "\n",
            attributes,
        )
        return MXNetError(f"{error}\n{located_hint(f'Write {instead} instead of {name}.')}") if instead else error

    def attribute_texts(self, attributes: dict[str, Any]) -> dict[str, str]:
        """The attributes as a Symbol keeps them: text, only what was given."""
        return {k: text_of(v) for k, v in attributes.items()}

    # -- arity

    def input_names(self, values: Values, count: int | None = None) -> list[str]:
        """Names of the inputs in use; for variadic operators ``arg0`` … up to ``count``."""
        named = list(self.optional(values)) if self.optional else []
        if self.variadic and not named:
            base = "arg" if self.inputs[0] in ("*args", "*data") else self.inputs[0][1:]
            return [f"{base}{k}" for k in range(count or 0)]
        return named if self.optional else list(self.inputs)

    def monitored_names(self, values: Values, count: int) -> list[str]:
        """Names of the inputs in use as monitors are told them."""
        return ["input0"] if self.inputs == ("data",) and not self.named else self.input_names(values, count)

    def auxiliary_names(self, values: Values) -> Sequence[str]:
        """Names of the inputs that are states."""
        return self.auxiliary

    def num_outputs(self, values: Values) -> int:
        """All results, hidden ones included."""
        return self.outputs(values) if callable(self.outputs) else self.outputs

    def num_visible(self, values: Values) -> int:
        """Results that callers see."""
        if self.visible is None:
            return self.num_outputs(values)
        return self.visible(values) if callable(self.visible) else self.visible

    def writes(self, values: Values, training: bool) -> list[Write]:
        """The inputs that change."""
        if callable(self.mutates):
            return list(self.mutates(values, training))
        return [Write(target, result) for target, result in self.mutates.items()]

    def inputs_with_gradient(self, values: Values, count: int) -> Sequence[int]:
        """Positions of the inputs, ``count`` in all, whose gradients the backward pass computes."""
        if not self.differentiable:
            return ()
        if self._with_gradient is not None:
            return self._with_gradient
        without = {*self.auxiliary_names(values), *self.no_gradient}
        if not without:
            return range(count)
        names = self.input_names(values, count)
        return [k for k in range(count) if names[k] not in without]

    def output_suffix(self, values: Values, index: int) -> str:
        """What follows ``<node name>_`` in the name of a result."""
        if self.output_names:
            return self.output_names(index) if callable(self.output_names) else self.output_names[index]
        return "output" if self.num_outputs(values) + self.kept == 1 else f"output{index}"

    # -- lowering

    def build(
        self, b: Builder, values: Values, inputs: Sequence[Node], node: str = "", graphs: Sequence[Any] = ()
    ) -> tuple[Node, ...]:
        """Check the inputs against the record and lower; ``graphs`` are the subgraphs of control flow.

        Raises:
            MXNetError: dtypes or shapes that do not fit.
        """
        self.check(values, [i.type for i in inputs], node)
        # of what a graph of its own unrolls into, its operators answer for
        with b.limited(f"operator {self.name}", sys.maxsize if self.subgraphs else MAX_UNROLLED):
            try:
                out = self.lower(b, values, graphs, *inputs) if self.subgraphs else self.lower(b, values, *inputs)
            except MXNetError:
                raise
            except (TypeError, ValueError, IndexError, ArithmeticError) as e:
                # an inference rule of a primitive: say which operator asked for the impossible
                shapes = ", ".join(f"{i.dtype.name}{shape_text(i.shape)}" for i in inputs)
                raise MXNetError(f"operator {self.name} does not take inputs of {shapes}: {e}") from e
        results = (out,) if isinstance(out, Node) else tuple(out)
        if self.differentiable:
            return results
        # zero by definition, whatever the lowering is made of
        return tuple(b.stop_gradient(x) if x.inputs and not isinstance(x.prim.vjp, str) else x for x in results)

    def dtype_letters(self, count: int) -> str:
        """The letters of ``dtypes`` for a call with ``count`` inputs."""
        return (self.dtypes or "T") * count if self.variadic or not self.dtypes else self.dtypes

    def check(self, values: Values, types: Sequence[TensorType], node: str = "") -> None:
        """The checks that hold for every operator: one dtype, one shape.

        Raises:
            MXNetError: in MXNet's words.
        """
        first: dict[str, Any] = {}
        for k, (letter, t) in enumerate(zip(self.dtype_letters(len(types)), types, strict=False)):
            if letter == "*":
                continue
            at, dtype = first.setdefault(letter, (k, t.dtype))
            if dtype is not t.dtype:
                names = [*self.input_names(values, len(types)), *(f"input {j}" for j in range(len(types)))]
                raise differing_types(
                    f"Incompatible attr in node {node} at {k}-th input: expected {dtype.name}, got {t.dtype.name}",
                    (names[at], dtype),
                    (names[k], t.dtype),
                )
        if self.same_shape:
            check_same_shape(types, node)

    def fill_shapes(self, values: Values, shapes: list[Any]) -> list[Any]:
        """Input shapes with what can be told from the others filled in (None: unknown)."""
        if self.infer_inputs is not None:
            try:
                return self.infer_inputs(values, shapes)
            except (TypeError, ValueError, IndexError, ArithmeticError) as e:  # attributes that do not fit the shapes
                shapes_text = ", ".join("?" if s is None else shape_text(s) for s in shapes)
                raise MXNetError(f"operator {self.name} does not take inputs of {shapes_text}: {e}") from e
        if self.same_shape:
            shape = next((s for s in shapes if s is not None), None)
            return [shape if s is None else s for s in shapes]
        return shapes

    def dtypes_of_results(self, values: Values, dtypes: Sequence[DType | None]) -> tuple[DType | None, ...]:
        """The element types of all results for known input types, without shapes."""
        if self.result_dtype is not None:
            result = self.result_dtype(values, dtypes)
        else:
            result = values.__dict__.get("dtype")
            if result is None:  # that of the inputs that share a type with the first
                letters = self.dtype_letters(len(dtypes))
                alike = [d for n, d in zip(letters, dtypes, strict=False) if n == letters[0] or letters[0] == "*"]
                result = next((d for d in alike if d is not None), None)
        return result if isinstance(result, tuple) else (result,) * self.num_outputs(values)

    # -- documentation

    def signature(self) -> inspect.Signature:
        """As ``nd`` functions show it."""
        kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters: list[inspect.Parameter] = []
        if self.variadic:
            parameters.append(inspect.Parameter(self.inputs[0][1:], inspect.Parameter.VAR_POSITIONAL))
            kind = inspect.Parameter.KEYWORD_ONLY
        else:
            parameters += [inspect.Parameter(n, kind, default=None) for n in self.inputs]
        for n, p in self.params.items():
            if n != self.count_param:
                parameters.append(inspect.Parameter(n, kind, default=None if p.default is REQUIRED else p.default))
        for n in ("out", "name"):
            parameters.append(inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=None))
        return inspect.Signature(parameters)

    def docstring(self) -> str:
        """The documentation with its arguments."""
        lines = [(textwrap.dedent(self.doc) if "\n" in self.doc else self.doc).strip(), "", "Args:"]
        lines += [f"    {n.lstrip('*')}: input array." for n in self.inputs]
        for n, p in self.params.items():
            if n != self.count_param:
                default = "required" if p.default is REQUIRED else f"default {p.default!r}"
                lines.append(f"    {n}: {p.type_name}, {default}. {p.doc}".rstrip())
        lines += ["    out: array that receives the result.", "    name: name of the node (Symbols).", ""]
        return "\n".join(lines)


_INPUT_COUNTS = ("num_args", "num_arrays", "num_weights", "num_tensors")
#: nodes that one operator may unroll into, and inputs or results that it may have: a number in a small file is no reason
#: to work for minutes or to list billions of names
MAX_UNROLLED = MAX_ENTRIES = 1 << 16

OPERATORS: dict[str, Operator] = {}  #: every name, canonical or alias


def operator(
    name: str, inputs: str = "data", params: dict[str, Param] | None = None, **fields: Any
) -> Callable[[Lower], Operator]:
    """Declare an operator whose lowering is the decorated function and whose doc is its docstring.

    Args:
        name: canonical name, then aliases, separated by blanks.
        inputs: names separated by blanks.
        params: attributes.
        fields: other fields of :class:`Operator`.
    """

    def declare(lower: Lower) -> Operator:
        canonical, *aliases = name.split()
        doc = fields.pop("doc", None) or inspect.cleandoc(lower.__doc__ or "")
        record = Operator(canonical, tuple(inputs.split()), params or {}, lower, doc, tuple(aliases), **fields)
        for n in (canonical, *aliases):
            if n in OPERATORS:
                raise AssertionError(f"operator {n} is declared twice")
            OPERATORS[n] = record
        return record

    return declare


def _extent_text(extent: Any) -> str:
    return report_text(extent) if isinstance(extent, int) else str(extent)


def shape_text(shape: Sequence[Any]) -> str:
    """A shape as MXNet's messages write it: [2,3]."""
    return "[" + ",".join(map(_extent_text, shape)) + "]"


def tuple_text(shape: Sequence[Any]) -> str:
    """A shape as some messages write it: (2,3)."""
    return "(" + ",".join(map(_extent_text, shape)) + ")"


def check_same_shape(types: Sequence[TensorType], node: str = "") -> None:
    """Raise MXNet's error unless all shapes are equal."""
    for k, t in enumerate(types):
        if t.shape != types[0].shape:
            raise MXNetError(
                f"Incompatible attr in node {node} at {k}-th input: "
                f"expected {shape_text(types[0].shape)}, got {shape_text(t.shape)}"
            )
