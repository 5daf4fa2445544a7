# SPDX-License-Identifier: Apache-2.0
"""Models with the casts of mixed precision in their graphs, for inference; the files are those that MXNet writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...context import Context, gpu
from ...core.dtypes import DType, bf16, dtype_of, f16, f32, from_flag
from ...ndarray import NDArray
from ...ops import OPERATORS
from ...symbol import Symbol
from ...symbol.inference import need_variables, type_propagation
from ...symbol.node import Entry, SymbolNode, topological
from .lists import by_type

if TYPE_CHECKING:
    from ...gluon import SymbolBlock

__all__ = ["convert_bucketing_module", "convert_hybrid_block", "convert_model", "convert_symbol"]

_DTYPE = "__dtype__"


class _Casts:
    """A graph copied node by node, with casts where operators want another type than their inputs have.

    An entry that was cast once is cast for all who read it.

    Args:
        low: the narrow type.
        data: names of inputs; all other variables are parameters.
        params_cast: parameters are given in the narrow type where an operator wants it.
    """

    def __init__(
        self,
        low: DType,
        low_ops: Sequence[str],
        full_ops: Sequence[str],
        widest_ops: Sequence[str],
        conditions: Sequence[tuple[str, str, Sequence[str]]],
        excluded: Sequence[str],
        data: Sequence[str],
        params_cast: bool,
    ) -> None:
        self._low, self._params_cast = low, params_cast
        self._low_ops, self._full_ops, self._widest_ops = set(low_ops), set(full_ops), set(widest_ops)
        self._conditions, self._excluded, self._data = conditions, set(excluded), set(data)
        self._copies: dict[SymbolNode, SymbolNode] = {}
        #: entries of the old graph -> entries of the new one with this type
        self._known: dict[DType, dict[Entry, Entry]] = {f32: {}, low: {}}

    def graph(self, heads: Sequence[Entry]) -> list[Entry]:
        """The heads of the new graph, in float32."""
        for node in topological(heads):
            copy = SymbolNode(node.op, node.name, dict(node.attrs), [], node.subgraphs, node.line, node.block)
            copy.inputs = self._inputs(node, copy)
            self._copies[node] = copy
        return [self._in(e, f32) for e in heads]

    def _inputs(self, node: SymbolNode, copy: SymbolNode) -> list[Entry]:
        op = node.op
        if node.name in self._excluded or (op is not None and op.name in self._full_ops):
            self._note(node, copy, [f32] * node.num_outputs)
            # variables are float32 already
            return [
                self._known[f32].get(e) or self._as_is(e) if e[0].op is None else self._in(e, f32) for e in node.inputs
            ]
        if op is None:
            return []
        if op.name in self._low_ops:
            return self._narrow(node, copy)
        if op.name in self._widest_ops:
            return self._widest(node, copy)
        states = node.auxiliary_inputs()
        if self._conditional(node):
            self._note(node, copy, [f32] * node.num_outputs)
            return [
                self._as_is(e) if k in states and e not in self._known[f32] else self._in(e, f32)
                for k, e in enumerate(node.inputs)
            ]
        first = next((d for d in (self._low, f32) if node.inputs and node.inputs[0] in self._known[d]), None)
        if first is not None:
            self._note(node, copy, _types(node, first)[1])
        return [self._as_is(e) for e in node.inputs]

    def _narrow(self, node: SymbolNode, copy: SymbolNode) -> list[Entry]:
        low, states = self._low, node.auxiliary_inputs()
        dtypes, results = _types(node, low)
        self._note(node, copy, results)
        inputs = []
        for k, e in enumerate(node.inputs):
            parameter = e[0].op is None and e[0].name not in self._data
            if e in self._known[low]:
                inputs.append(self._known[low][e])
            elif (self._params_cast and parameter) or k in states or dtypes[k] not in (low, None):
                inputs.append(self._as_is(e))
                if self._params_cast and e[0].op is None:
                    self._known[low][e] = inputs[-1]
            else:
                inputs.append(self._in(e, low))
        return inputs

    def _widest(self, node: SymbolNode, copy: SymbolNode) -> list[Entry]:
        types = [next((d for d in (f32, self._low) if e in self._known[d]), None) for e in node.inputs]
        if None not in types:
            wide = f32 if f32 in types else self._low
            self._note(node, copy, [wide] * node.num_outputs)
            return [self._in(e, wide) for e in node.inputs]
        first = node.inputs[0]
        name = f"{first[0].name}{_suffix(first)}_amp_multicast"
        inputs = [self._as_is(e) for e in node.inputs]
        cast = SymbolNode(OPERATORS["amp_multicast"], name, {"num_outputs": str(len(inputs))}, inputs)
        return [(cast, k) for k in range(len(inputs))]

    def _conditional(self, node: SymbolNode) -> bool:
        return any(
            node.op is not None and node.op.name == name and node.attrs.get(attribute) in texts
            for name, attribute, texts in self._conditions
        )

    def _note(self, node: SymbolNode, copy: SymbolNode, dtypes: Sequence[DType | None]) -> None:
        for k, d in enumerate(dtypes):
            if d in self._known:
                self._known[d][node, k] = (copy, k)

    def _as_is(self, entry: Entry) -> Entry:
        return self._copies[entry[0]], entry[1]

    def _in(self, entry: Entry, dtype: DType) -> Entry:
        cached = self._known[dtype].get(entry)
        if cached is None:
            name = f"{entry[0].name}{_suffix(entry)}_amp_cast_{dtype.name}"
            cast = SymbolNode(OPERATORS["amp_cast"], name, {"dtype": dtype.name}, [self._as_is(entry)])
            cached = self._known[dtype][entry] = (cast, 0)
        return cached


def _suffix(entry: Entry) -> str:
    """What the name of a cast has behind the name of the node whose result is cast."""
    node, k = entry
    if node.op is None:
        return ""
    return f"_{node.op.output_suffix(node.values, k)}" if node.op.output_names else f"_{k}"


def _types(node: SymbolNode, first: DType) -> tuple[list[DType | None], Sequence[DType | None]]:
    """The types of an operator's inputs and results, as far as they follow from that of the first input."""
    op = node.op
    assert op is not None
    letters = op.dtype_letters(len(node.inputs))
    dtypes: list[DType | None] = [
        first if k == 0 or (letter == letters[0] != "*") else None
        for k, letter in enumerate(letters[: len(node.inputs)].ljust(len(node.inputs), "*"))
    ]
    if op.infer_dtypes is not None:
        dtypes = op.infer_dtypes(node.values, dtypes)
    return dtypes, op.dtypes_of_results(node.values, dtypes)


def _types_of_parameters(symbol: Symbol, data: Sequence[str], low: DType, params_cast: bool) -> dict[str, DType]:
    """The type of each variable of a graph with casts; with ``params_cast`` the type into which all who read it cast it."""
    types = type_propagation(symbol, dict.fromkeys(data, f32), declared=False, default=None)
    order = topological(symbol._heads)
    dtypes = {n.name: types.get((id(n), 0)) for n in order if n.op is None}
    if not params_cast:
        return {n: d or f32 for n, d in dtypes.items()}
    unknown = {n for n, d in dtypes.items() if d is None}
    seen: dict[str, DType] = {}
    for node in order:
        name = node.op.name if node.op is not None else ""
        if name == "amp_cast":
            dtype = dtype_of(node.attrs["dtype"])
        elif name == "amp_multicast" and all(s.op is None for s, _ in node.inputs):
            dtype = low
        else:
            continue
        for source, _ in node.inputs:
            if source.op is None and source.name in unknown and seen.setdefault(source.name, dtype) is not dtype:
                dtypes[source.name] = None  # cast into two types
                break
            if source.op is None and source.name in unknown:
                dtypes[source.name] = dtype
    return {n: d or f32 for n, d in dtypes.items()}


def convert_symbol(
    sym: Symbol,
    target_dtype: Any = "float16",
    target_dtype_ops: list[str] | None = None,
    fp32_ops: list[str] | None = None,
    conditional_fp32_ops: list[tuple[str, str, list[str]]] | None = None,
    excluded_sym_names: list[str] | None = None,
    data_names: list[str] | None = None,
    cast_optional_params: bool = False,
) -> Symbol:
    """A graph in float32 with the casts of mixed precision between its operators.

    Args:
        target_dtype: 'float16' or 'bfloat16'.
        target_dtype_ops, fp32_ops, conditional_fp32_ops: in place of the lists of ``amp.lists``.
        excluded_sym_names: nodes that compute in float32 whatever their operator.
        data_names: the inputs; by default the variables without a type.
        cast_optional_params: parameters that are only read in the narrow type are parameters of that type.

    Raises:
        AssertionError: arguments of other types, an operator in two lists or in none of MXNet's.
    """
    assert isinstance(sym, Symbol), "First argument to convert_symbol should be Symbol"
    low = _target(target_dtype)
    for argument, what in (
        (target_dtype_ops, "target_dtype_ops should be a list of strs"),
        (fp32_ops, "fp32_ops should be a list of strs"),
        (conditional_fp32_ops, "conditional_fp32_ops should be a list"),
        (excluded_sym_names, "excluded_sym_names should be a list of strs"),
    ):
        assert argument is None or isinstance(argument, list), what
    defaults = by_type.list_conditional_fp32_ops(low)
    low_ops = by_type.list_lp16_ops(low) if target_dtype_ops is None else target_dtype_ops
    full_ops = by_type.list_fp32_ops(low) if fp32_ops is None else fp32_ops
    conditions = defaults if conditional_fp32_ops is None else conditional_fp32_ops
    for condition in conditions:
        name, attribute, texts = condition
        assert isinstance(name, str) and isinstance(attribute, str) and isinstance(texts, list), (
            "conditional_fp32_ops should be a list of (str, str, list of str)"
        )
    conditional = [c[0] for c in conditions]
    for (a, one), (b, other) in (
        (("target_dtype_ops", low_ops), ("fp32_ops", full_ops)),
        (("target_dtype_ops", low_ops), ("conditional_fp32_ops", conditional)),
        (("fp32_ops", full_ops), ("conditional_fp32_ops", conditional)),
    ):
        common = sorted({*one} & {*other})
        assert not common, f"Ops cannot be in two or more lists. Common ops in {a} and {b} {common}"
    legal = {
        *by_type.list_lp16_ops(low),
        *by_type.list_fp32_ops(low),
        *by_type.list_lp16_fp32_ops(low),
        *(c[0] for c in defaults),
    }
    illegal = sorted({*low_ops, *full_ops, *conditional} - legal)
    assert not illegal, (
        "Can only choose ops from one of the three lists for lp16_ops and fp32_ops\n"
        "1. amp.list_lp16_ops(target_dtype)\n2. amp.list_fp32_ops(target_dtype)\n"
        "3. amp.list_lp16_fp32_ops(target_dtype)\n4. amp.list_conditional_fp32_ops(target_dtype)\n"
        f"Op {illegal} not in any of them"
    )
    attributes, inputs = sym.attr_dict(), sym.list_inputs()
    data = data_names
    if data is None:
        data = [n for n in inputs if _DTYPE not in attributes.get(n, {})]
    need_variables(sym, data, "Type")
    params = set(inputs) - set(data)
    casts = _Casts(
        low,
        low_ops,
        full_ops,
        by_type.list_widest_type_cast(low),
        conditions,
        excluded_sym_names or [],
        data,
        cast_optional_params,
    )
    result = Symbol(casts.graph(sym._heads))
    types = _types_of_parameters(result, data, low, cast_optional_params)
    for node in topological(result._heads):
        if node.op is None and node.name in params:
            node.attrs = dict(sorted({**node.attrs, _DTYPE: str(types[node.name].flag)}.items()))
    return result


def _target(target_dtype: Any) -> DType:
    low = dtype_of(target_dtype)
    assert low in (f16, bf16), "Only target_dtype float16 and bfloat16 are supported currently"
    return low


def _declared(symbol: Symbol, name: str) -> DType | None:
    flag = int(symbol.attr_dict().get(name, {}).get(_DTYPE, "-1"))
    return None if flag < 0 else from_flag(flag)


def convert_model(
    sym: Symbol,
    arg_params: dict[str, NDArray],
    aux_params: dict[str, NDArray],
    target_dtype: Any = "float16",
    target_dtype_ops: list[str] | None = None,
    fp32_ops: list[str] | None = None,
    conditional_fp32_ops: list[tuple[str, str, list[str]]] | None = None,
    excluded_sym_names: list[str] | None = None,
    cast_optional_params: bool = False,
) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """A model with the casts of mixed precision; arguments as for :func:`convert_symbol`.

    Returns:
        The graph, and the two dictionaries, in which parameters have the types that the graph has for them.
    """
    assert isinstance(sym, Symbol), "First argument to convert_model should be Symbol"
    assert isinstance(arg_params, dict), "Second argument to convert_model should be a dict of name to ndarray"
    assert isinstance(aux_params, dict), "Third argument to convert_model should be a dict of name to ndarray"
    data = [n for n in sym.list_inputs() if n not in arg_params and n not in aux_params]
    result = convert_symbol(
        sym,
        target_dtype,
        target_dtype_ops,
        fp32_ops,
        conditional_fp32_ops,
        excluded_sym_names,
        data,
        cast_optional_params,
    )
    for names, values in ((result.list_arguments(), arg_params), (result.list_auxiliary_states(), aux_params)):
        for name in names:
            dtype = _declared(result, name)
            if dtype is not None and name in values:
                values[name] = values[name].astype(dtype.np)
    return result, arg_params, aux_params


def convert_hybrid_block(
    block: Any,
    target_dtype: Any = "float16",
    target_dtype_ops: list[str] | None = None,
    fp32_ops: list[str] | None = None,
    conditional_fp32_ops: list[tuple[str, str, list[str]]] | None = None,
    excluded_sym_names: list[str] | None = None,
    ctx: Context | Sequence[Context] | None = None,
    cast_optional_params: bool = False,
) -> SymbolBlock:
    """A hybridized block that was called, as a SymbolBlock in mixed precision; arguments as for :func:`convert_symbol`.

    Args:
        ctx: where its parameters are, the first GPU by default.

    Raises:
        AssertionError: no HybridBlock.
        RuntimeError: it was not traced yet.
    """
    from ...gluon import HybridBlock, SymbolBlock

    assert isinstance(block, HybridBlock), "block input should be a HybridBlock"
    if not block._cached_graph:
        raise RuntimeError(
            "Please first call block.hybridize() and then run forward with this block at least once before calling export."
        )
    inputs, symbol = block._cached_graph
    result = convert_symbol(
        symbol,
        target_dtype,
        target_dtype_ops,
        fp32_ops,
        conditional_fp32_ops,
        excluded_sym_names,
        [str(i.name) for i in inputs],
        cast_optional_params,
    )
    arguments = set(result.list_arguments())
    values = {}
    for name, parameter in block.collect_params().items():
        value, dtype = parameter._reduce(), _declared(result, name)
        values[f"{'arg' if name in arguments else 'aux'}:{name}"] = value if dtype is None else value.astype(dtype.np)
    mixed = SymbolBlock(result, list(inputs))
    parameters = mixed.collect_params()
    for key, value in values.items():
        if key[4:] in parameters and parameters[key[4:]].dtype != value.dtype:
            parameters[key[4:]].cast(value.dtype)
    parameters.load_dict(values, ctx=gpu(0) if ctx is None else ctx)
    return mixed


def convert_bucketing_module(
    bucketing_mod: Any,
    target_dtype: Any = "float16",
    target_dtype_ops: list[str] | None = None,
    fp32_ops: list[str] | None = None,
    conditional_fp32_ops: list[tuple[str, str, list[str]]] | None = None,
    excluded_sym_names: list[str] | None = None,
    cast_optional_params: bool = False,
) -> Any:
    """A BucketingModule whose buckets so far compute in mixed precision; arguments as for :func:`convert_symbol`."""
    from ...module import BucketingModule

    assert isinstance(bucketing_mod, BucketingModule), "module should be instance of bucketing module"
    assert bucketing_mod._buckets, "Bucketing Module should not be empty"
    assert bucketing_mod.params_initialized, "bucketing_mod params should be initialized for mixed precision conversion"
    arg_params, aux_params = bucketing_mod.get_params()
    graphs = {}
    for key, module in bucketing_mod._buckets.items():
        graphs[key], arg_params, aux_params = convert_model(
            module._symbol,
            arg_params,
            aux_params,
            target_dtype,
            target_dtype_ops,
            fp32_ops,
            conditional_fp32_ops,
            excluded_sym_names,
            cast_optional_params,
        )
    return BucketingModule.load_dict(
        graphs,
        bucketing_mod._sym_gen,
        bucketing_mod._default_bucket_key,
        arg_params,
        aux_params,
        **bucketing_mod._hg_options,
    )
