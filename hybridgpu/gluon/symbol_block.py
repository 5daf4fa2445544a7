# SPDX-License-Identifier: Apache-2.0
"""SymbolBlock: a block made of a Symbol, such as an exported model."""

from __future__ import annotations

from typing import Any

from .. import symbol as sym_module
from ..context import cpu
from ..core import autograd_state
from ..ndarray import NDArray, load
from ..symbol import Group, Symbol
from ..symbol.inference import type_propagation
from ..symbol.node import topological
from ..util import is_np_array
from .block import indent
from .hybrid import HybridBlock
from .parameter import ParameterDict
from .pytree import flatten, regroup
from .symbolic_trace import class_of_symbols

__all__ = ["SymbolBlock"]

_NAMED = 8  #: variables that a message names
_WITHOUT_VALUES = (
    "Give the file of parameters: SymbolBlock.imports(symbol_file, input_names, param_file), or net.load_parameters(param_file); "
    "net.initialize() is for training anew. If {} is an argument of calls, it belongs in input_names."
)


class SymbolBlock(HybridBlock):
    """Runs a Symbol as a compiled graph.

    Args:
        outputs: a Symbol or a list of Symbols.
        inputs: the variables that are arguments of calls, in order.
        params: parameters to share.
    """

    @staticmethod
    def imports(
        symbol_file: str,
        input_names: Any,
        param_file: str | None = None,
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
    ) -> SymbolBlock:
        """The block of an exported model.

        Args:
            symbol_file: ``…-symbol.json``.
            input_names: names of the inputs in call order.
            param_file: ``….params``; without it calls raise until parameters are loaded or initialised.
            ctx: where the parameters go.
        """
        names = [input_names] if isinstance(input_names, str) else list(input_names)
        symbol = sym_module.load(symbol_file)
        variables = symbol.list_inputs()
        for n in names:
            if n not in variables:
                raise ValueError(f"{symbol_file} has no input {n!r}; {_inputs_in_words(variables, param_file)}")
        inputs = [sym_module.var(n) for n in names]
        if is_np_array():
            symbol, inputs = symbol.as_np_ndarray(), [i.as_np_ndarray() for i in inputs]
        block = SymbolBlock(symbol, inputs)
        if param_file is not None:
            try:
                block.collect_params().load(
                    param_file, ctx or cpu(), allow_missing, ignore_extra, cast_dtype=True, dtype_source="saved"
                )
            except AssertionError as error:
                unsaved = _unsaved(variables, param_file)
                if set(unsaved) <= set(names):
                    raise
                raise AssertionError(
                    f"{error}\n{param_file} has no values of {_some(unsaved)}: inputs of the graph belong in input_names."
                ) from error
        return block

    def __init__(self, outputs: Any, inputs: Any, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=None, params=None)
        self._prefix = ""
        self._params = ParameterDict("", params)
        if isinstance(inputs, Symbol) and len(inputs._heads) == 1:
            inputs = [inputs]
        if isinstance(outputs, (list, tuple)) and len(outputs) == 1:
            outputs = outputs[0]
        flat_in, self._in_format = flatten(list(inputs), "input")
        flat_out, self._out_format = flatten(outputs, "output")
        out = Group(flat_out, class_of_symbols(flat_out))
        names = []
        for i in flat_in:
            assert isinstance(i, Symbol) and len(i._heads) == 1 and i._heads[0][0].op is None, (
                f"Input symbols must be variable, but {i} is an output of operators"
            )
            names.append(i.name)
        auxiliary = set(out.list_auxiliary_states())
        types = type_propagation(out, {})
        variables = [n for n in topological(out._heads) if n.op is None and n.name not in names]
        for node in sorted(variables, key=lambda n: n.name in auxiliary):  # arguments first, as in MXNet
            if node.name in self._params:
                continue
            kwargs: dict[str, Any] = {"allow_deferred_init": True}
            if node.name in auxiliary:
                kwargs["grad_req"] = "null"
            if "__shape__" in node.attrs:
                shape = _shape(node.attrs["__shape__"])
                kwargs["shape"] = shape
            kwargs["dtype"] = types[id(node), 0].np.type
            self._params.get(node.name, **kwargs)._hg_without_values = _WITHOUT_VALUES.format(node.name)
        prefix = _common_prefix(list(self._params.keys()))
        self._reg_params = {key[len(prefix) :]: p for key, p in self._params.items()}
        self._cached_graph = (list(flat_in), out)
        self._active = True

    def __repr__(self) -> str:
        inputs, out = self._cached_graph or ([], None)
        assert out is not None
        model = f"{out} : {len(inputs)} -> {len(out.list_outputs())}"
        return f"SymbolBlock(\n{indent(model, 0)}\n)"

    def _alias(self) -> str:
        return "symbolblock"

    def _hg_forward(self, call: tuple[Any, ...]) -> Any:
        """Run the graph on arrays, or put it into a larger graph."""
        if _holds_arrays(call):
            trace = autograd_state.state.trace
            return self._call_cached_op(call) if trace is None else self._hg_in_a_trace(trace, call)
        assert isinstance(call[0], Symbol), f"Layer call with nothing or a mixture of types: {type(call[0])}"
        flat, form = flatten(call, "input")
        assert form == self._in_format, "Invalid input format"
        assert self._cached_graph is not None
        inputs, out = self._cached_graph
        composed = out(**{str(i.name): s for i, s in zip(inputs, flat, strict=True)})
        results = [composed] if self._out_format == 0 else [type(composed)([head]) for head in composed._heads]
        return regroup(results, self._out_format)

    def _hg_in_a_trace(self, trace: Any, call: tuple[Any, ...]) -> Any:
        """Make the graph part of the one that is being traced."""
        flat, form = flatten(call, "input")
        assert form == self._in_format, "Invalid input format"
        assert self._cached_graph is not None
        inputs, out = self._cached_graph
        uninitialized = [p for p in self.params.values() if p._data is None and p._deferred_init]
        if uninitialized:
            self._hg_complete(uninitialized, call)
        inputs_by_name = {str(i.name): x for i, x in zip(inputs, flat, strict=True)}
        values_by_name = inputs_by_name | {
            n: self.params[n].data() for n in out.list_inputs() if n not in inputs_by_name
        }
        return regroup(trace.compose(out, values_by_name), self._out_format)

    def _clear_cached_op(self, why: str) -> None:
        self._hg_drop_cached_op(why)  # the graph is what the block is
        self._hg_changed()

    def hybridize(
        self,
        active: bool = True,
        backend: str | None = None,
        clear: bool = True,
        static_alloc: bool = False,
        static_shape: bool = False,
        inline_limit: int = 2,
        forward_bulk_size: int | None = None,
        backward_bulk_size: int | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """The graph always runs compiled; flags are taken over."""
        bulk = (inline_limit, forward_bulk_size, backward_bulk_size)
        super().hybridize(True, backend, clear, static_alloc, static_shape, *bulk, *args, **kwargs)

    def cast(self, dtype: Any) -> None:
        """Convert all parameters."""
        super().cast(dtype)

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def reset_ctx(self, ctx: Any) -> None:
        """Move the parameters."""
        for p in self.collect_params().values():
            p.reset_ctx(ctx)


def _unsaved(variables: list[str], param_file: str) -> list[str]:
    """The variables of a graph that a file of parameters has no values of: its inputs, if it is the graph's file."""
    saved = load(param_file)
    keys = {k.removeprefix("arg:").removeprefix("aux:") for k in saved} if isinstance(saved, dict) else set()
    return [v for v in variables if v not in keys]


def _inputs_in_words(variables: list[str], param_file: str | None) -> str:
    if param_file is None:
        return f"its variables are {_some(variables)}"
    return f"its inputs are those that {param_file} has no values of: {_some(_unsaved(variables, param_file))}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + " …" * (len(names) > _NAMED)


def _holds_arrays(args: Any) -> bool:
    return any(isinstance(a, NDArray) or (isinstance(a, (list, tuple)) and _holds_arrays(a)) for a in args)


def _shape(text: str) -> tuple[int, ...]:
    import ast

    return tuple(int(d) for d in ast.literal_eval(text))


def _common_prefix(names: list[str]) -> str:
    if not names:
        return ""
    first, last = min(names), max(names)
    k = 0
    while k < min(len(first), len(last)) and first[k] == last[k]:
        k += 1
    return first[:k]
