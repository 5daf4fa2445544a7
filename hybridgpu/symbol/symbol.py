# SPDX-License-Identifier: Apache-2.0
"""Symbol: a value of a graph that has not been computed.

What an array can do and a Symbol cannot raises MXNet's error, followed by a line that says what to
write instead.
"""

from __future__ import annotations

import copy
import numbers
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from ..base import MXNetError, NotImplementedForSymbol, numeric_types, shown
from ..core.dtypes import dtype_of
from ..core.source_location import located_hint, user_frame
from ..hints.absent_member import AbsentMember, absent_member
from ..hints.operators import install_stubs
from ..hints.tracing import in_graph, numpy_call
from ..name import current as current_names
from ..ops.functions import HIDDEN_KEYS, module_with
from .array_members import ROWS_HINT, array_only, refuse_in_place
from .late_bindings import late
from .node import Entry, SymbolNode, is_hidden, topological

if TYPE_CHECKING:  # a stub, made from the records
    from .operator_methods import OperatorMethods
else:
    OperatorMethods = object

__all__ = ["Group", "Symbol"]


def _binary(
    operator: str,
    hint: str,
    scalar: str,
    scalar_hint: str,
    reverse: tuple[str, str] | None = None,
    reflected: bool = False,
) -> Callable[[Any, Any], Symbol]:
    def method(self: Symbol, other: Any) -> Any:
        if isinstance(other, Symbol):
            pair = [other, self] if reflected else [self, other]
            return late.compose(operator, hint, pair, {})
        if isinstance(other, (*numeric_types, numbers.Number)):
            name, name_hint = reverse if reflected and reverse else (scalar, scalar_hint)
            return late.compose(name, name_hint, [self], {"scalar": other})
        raise TypeError(f"type {type(other)} not supported{in_graph(other)}")

    return method


@shown
class Symbol(OperatorMethods):
    """One or several results of a graph. Made by ``sym.var`` and the operators of ``mx.sym``."""

    __slots__ = ("_heads",)
    __array_priority__ = 1000.0
    _kind: Any = None  #: the class of results: None for this one, ``_Symbol`` for the Symbols of np
    _heads: list[Entry]
    handle = AbsentMember("symbol.symbol.Symbol")

    def __init__(self, heads: list[Entry]) -> None:
        object.__setattr__(self, "_heads", heads)

    # -- identity and structure

    @property
    def name(self) -> str | None:
        """The node's name; None for a group of several nodes."""
        names = {node.name for node, _ in self._heads}
        return names.pop() if len({id(n) for n, _ in self._heads}) == 1 else None

    def __repr__(self) -> str:
        if self.name is not None:
            return f"<{type(self).__name__} {self.name}>"
        shown = ", ".join(node.name for node, _ in self._heads)
        return f"<{type(self).__name__} group [{shown}]>"

    __str__ = __repr__

    def __len__(self) -> int:
        return len(self._heads)

    def __iter__(self) -> Iterator[Symbol]:
        return (self[k] for k in range(len(self._heads)))

    def __getitem__(self, index: Any) -> Symbol:
        if isinstance(index, slice):
            # as in MXNet negative places are none: what Python makes of them would hide that these are no rows
            last = len(self._heads) if index.stop is None else index.stop
            places = range(index.start or 0, last, 1 if index.step is None else index.step)
            if not places:
                raise TypeError("Expected a list of symbols as input\n" + located_hint(ROWS_HINT))
            return Group([self[k] for k in places])
        if isinstance(index, str):
            names = self.list_outputs()
            matches = [k for k, n in enumerate(names) if n == index]
            if not matches:
                raise ValueError(f'Cannot find output that matches name "{index}"')
            if len(matches) > 1:
                raise ValueError(f'There are multiple outputs with name "{index}"')
            return Symbol([self._heads[matches[0]]])
        if not isinstance(index, int):
            raise TypeError("Symbol only support integer index to fetch i-th output\n" + located_hint(ROWS_HINT))
        if index < 0:
            raise MXNetError(
                "Symbol only accept nonnegative index\n" + located_hint(f"Outputs are numbered from 0. {ROWS_HINT}")
            )
        if index >= len(self._heads):
            raise IndexError(f"there is no output {index} of {len(self._heads)}\n{located_hint(ROWS_HINT)}")
        return Symbol([self._heads[index]])

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            f"'{type(self).__name__}' object does not support item assignment\n"
            + located_hint("Build the result with F.where or F.concat instead of writing into it.")
        )

    def __delitem__(self, index: Any) -> None:
        raise TypeError(f"'{type(self).__name__}' object doesn't support item deletion")

    def __getattr__(self, name: str) -> Any:
        method = late.make_method(name)
        if method is not None:
            setattr(Symbol, name, method)
            return getattr(self, name)
        if (absent := absent_member(self, name)) is not None:
            raise absent
        text = f"'{type(self).__name__}' object has no attribute '{name}'"
        instead = self._instead(name)
        if not instead:
            raise AttributeError(text, name=name, obj=self)  # behind which Python guesses at another one
        raise AttributeError(f"{text}\n{located_hint(instead)}", obj=self)

    def _instead(self, name: str) -> str:
        """What to write instead of a member that Symbols lack, or ''."""
        from ..hints import members

        own = {*dir(Symbol), *late.method_names()}
        return members.instead(members.SYMBOLS, name, partial(module_with, functions="F"), own)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(late.method_names() if self._kind is None else ())})

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __bool__(self) -> bool:
        raise NotImplementedForSymbol(
            "__bool__",
            "bool",
            advice=located_hint(
                "Values are not known while tracing: write F.where, or F.contrib.cond for whole branches."
            ),
        )

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedForSymbol(
            "__array__", advice=numpy_call(lambda name: callable(getattr(sys.modules[__package__], name, None)))
        )

    __hash__ = None  # type: ignore[assignment]

    def as_np_ndarray(self) -> Any:
        """The Symbol of np with the same results."""
        return late._Symbol(list(self._heads))

    def as_nd_ndarray(self) -> Symbol:
        """Itself."""
        return self

    def __copy__(self) -> Symbol:
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: Any) -> Symbol:
        table: dict[int, SymbolNode] = {}
        for node in topological(self._heads):
            inputs = [(table[id(n)], k) for n, k in node.inputs]
            subgraphs = [copy.deepcopy(s) for s in node.subgraphs]
            table[id(node)] = SymbolNode(node.op, node.name, dict(node.attrs), inputs, subgraphs, node.line, node.block)
        return type(self)([(table[id(n)], k) for n, k in self._heads])

    def __reduce__(self) -> Any:
        return late.load_json, (self.tojson(),)

    # -- arithmetic: none of these broadcast

    __add__ = _binary("elemwise_add", "_plus", "_plus_scalar", "_plusscalar")
    __radd__ = _binary("elemwise_add", "_plus", "_plus_scalar", "_plusscalar", reflected=True)
    __sub__ = _binary("elemwise_sub", "_minus", "_minus_scalar", "_minusscalar")
    __rsub__ = _binary(
        "elemwise_sub", "_minus", "_minus_scalar", "_minusscalar", ("_rminus_scalar", "_rminusscalar"), True
    )
    __mul__ = _binary("elemwise_mul", "_mul", "_mul_scalar", "_mulscalar")
    __rmul__ = _binary("elemwise_mul", "_mul", "_mul_scalar", "_mulscalar", reflected=True)
    __truediv__ = _binary("elemwise_div", "_div", "_div_scalar", "_divscalar")
    __rtruediv__ = _binary("elemwise_div", "_div", "_div_scalar", "_divscalar", ("_rdiv_scalar", "_rdivscalar"), True)
    __mod__ = _binary("_mod", "_mod", "_mod_scalar", "_modscalar")
    __rmod__ = _binary("_mod", "_mod", "_mod_scalar", "_modscalar", ("_rmod_scalar", "_rmodscalar"), True)
    __pow__ = _binary("_power", "_power", "_power_scalar", "_powerscalar")
    __rpow__ = _binary("_power", "_power", "_power_scalar", "_powerscalar", ("_rpower_scalar", "_rpower_scalar"), True)
    __eq__: Any = _binary("_equal", "_equal", "_equal_scalar", "_equal_scalar")
    __ne__: Any = _binary("_not_equal", "_not_equal", "_not_equal_scalar", "_not_equal_scalar")
    __gt__ = _binary("_greater", "_greater", "_greater_scalar", "_greater_scalar")
    __ge__ = _binary("_greater_equal", "_greater_equal", "_greater_equal_scalar", "_greater_equal_scalar")
    __lt__ = _binary("_lesser", "_lesser", "_lesser_scalar", "_lesser_scalar")
    __le__ = _binary("_lesser_equal", "_lesser_equal", "_lesser_equal_scalar", "_lesser_equal_scalar")

    def __neg__(self) -> Symbol:
        return self * -1.0  # type: ignore[no-any-return]

    def __abs__(self) -> Symbol:
        return late.compose("abs", "abs", [self], {})

    __iadd__ = refuse_in_place("__iadd__", "+=", True, "+")
    __isub__ = refuse_in_place("__isub__", "-=", False, "-")
    __imul__ = refuse_in_place("__imul__", "*=", False, "*")
    __itruediv__ = refuse_in_place("__itruediv__", "/=", False, "/")
    # MXNet rebinds x, while eager code writes into the array; there is no in-place power of arrays
    __imod__ = refuse_in_place("__imod__", "%=", False, "%")

    # -- what only arrays have

    asnumpy = array_only(
        "asnumpy", "Values are not known while tracing: use operators of F, or read the block's result."
    )
    asscalar = array_only(
        "asscalar", "Values are not known while tracing: use operators of F, or read the block's result."
    )
    wait_to_read = array_only("wait_to_read", "There is nothing to wait for while tracing.")
    backward = array_only("backward", "Call backward on the arrays that the block returns.")
    detach = array_only("detach", "Write F.BlockGrad(x).")
    copy = array_only("copy", "Write F.identity(x).")

    def as_in_context(self, *args: Any) -> Any:
        """Arrays only."""
        raise NotImplementedForSymbol(
            "as_in_context", advice=located_hint("Operators run where their inputs are: move the inputs instead.")
        )

    # -- lists

    def optimize_for(
        self,
        backend: str,
        args: Any = None,
        aux: Any = None,
        ctx: Any = None,
        shape_dict: Any = None,
        type_dict: Any = None,
        stype_dict: Any = None,
        skip_infer: bool = False,
        **kwargs: Any,
    ) -> Symbol:
        """The graph as it is: MXNet's backends, which rewrite it, do not exist here, as a warning says."""
        assert isinstance(backend, str), "expected a string for the backend"
        import warnings

        warnings.warn(
            f"Error optimizing for backend '{backend}' cannot be found: the graph is compiled as without it. "
            "Leave the call out.",
            stacklevel=user_frame(),
        )
        return self

    def get_backend_symbol(self, backend: str) -> Symbol:
        """The graph as it is; see :meth:`optimize_for`."""
        return self.optimize_for(backend)

    def list_arguments(self) -> list[str]:
        """Names of the variables that are no auxiliary states, depth first."""
        aux = _auxiliary(self._heads)
        return [n.name for n in topological(self._heads) if n.op is None and id(n) not in aux]

    def list_auxiliary_states(self) -> list[str]:
        """Names of the auxiliary states."""
        aux = _auxiliary(self._heads)
        return [n.name for n in topological(self._heads) if n.op is None and id(n) in aux]

    def list_inputs(self) -> list[str]:
        """Names of all variables."""
        return [n.name for n in topological(self._heads) if n.op is None]

    def list_outputs(self) -> list[str]:
        """Names of the results."""
        return [node.output_name(k) for node, k in self._heads]

    def get_internals(self) -> Symbol:
        """Every result of every node, grouped."""
        return Symbol([(node, k) for node in topological(self._heads) for k in range(node.num_visible)])

    def get_children(self) -> Symbol | None:
        """The inputs of the node, grouped; None for a variable."""
        entries = [e for node in dict.fromkeys(n for n, _ in self._heads) for e in node.inputs]
        return Symbol(entries) if entries else None

    # -- attributes

    def attr(self, key: str) -> str | None:
        """One attribute of the node, None if it has none; ``lr_mult`` and its like with or without underscores."""
        if key == "name":
            return self.name
        attrs = self._heads[0][0].attrs
        return attrs.get(key, attrs.get(f"__{key}__") if key in HIDDEN_KEYS else None)

    def list_attr(self, recursive: bool = False) -> dict[str, str]:
        """Attributes of the node; lr_mult and its like under both spellings.

        Raises:
            DeprecationWarning: ``recursive``, which MXNet dropped too.
        """
        if recursive:
            raise DeprecationWarning(
                "Symbol.list_attr with recursive=True has been deprecated. Please use attr_dict instead."
            )
        return _both_spellings(self._heads[0][0].attrs)

    def attr_dict(self) -> dict[str, dict[str, str]]:
        """Node name -> its attributes, for all nodes that have some."""
        return {n.name: _both_spellings(n.attrs) for n in topological(self._heads) if n.attrs}

    def _set_attr(self, **kwargs: str) -> None:
        for key, value in kwargs.items():
            if not isinstance(value, str):
                raise ValueError("Set Attr only accepts string values")
            node = self._heads[0][0]
            attrs = {**node.attrs, f"__{key}__" if key in HIDDEN_KEYS else key: value}
            if node.op is not None:
                node._values = node.op.parse({k: v for k, v in attrs.items() if not is_hidden(k)})
            node.attrs = attrs

    # -- composition

    def __call__(self, *args: Any, **kwargs: Any) -> Symbol:
        """A copy with variables replaced by keyword: ``net(data=other, name='composed')``."""
        new = self.__deepcopy__({})
        new._compose(*args, **kwargs)
        return new

    def _compose(self, *args: Any, **kwargs: Any) -> None:
        name = kwargs.pop("name", None)
        if args and kwargs:
            raise TypeError("compose only accept input Symbols either as positional or keyword arguments, not both")
        for value in (*args, *kwargs.values()):
            if not isinstance(value, Symbol):
                raise TypeError("Compose expect `Symbol` as arguments")
        if args:
            raise MXNetError("General composition only support kwargs for now\nWrite net(name_of_variable=symbol).")
        replaced = self._replace({key: value._heads[0] for key, value in kwargs.items()})
        for key in kwargs:
            if key not in replaced:
                raise MXNetError(
                    f"Symbol.ComposeKeyword argument name {key} not found.\nCandidate arguments: {', '.join(self.list_inputs())}"
                )
        if name:
            self._heads[0][0].name = current_names().get(name, "")

    def _replace(self, entries: dict[str, Entry]) -> set[str]:
        """Put entries in the place of variables, in the nodes themselves; the names of those that were there."""
        replaced = set()
        for node in topological(self._heads):
            for k, (source, _) in enumerate(node.inputs):
                if source.op is None and source.name in entries:
                    node.inputs[k] = entries[source.name]
                    replaced.add(source.name)
        for k, (head, _) in enumerate(self._heads):
            if head.op is None and head.name in entries:
                self._heads[k] = entries[head.name]
                replaced.add(head.name)
        return replaced

    # -- inference

    def infer_shape(self, *args: Any, **kwargs: Any) -> Any:
        """(argument, output, auxiliary) shapes from known ones; (None, None, None) where not all follow."""
        return late.infer_shape(self, args, kwargs, partial=False)

    def infer_shape_partial(self, *args: Any, **kwargs: Any) -> Any:
        """As ``infer_shape``, with () for what does not follow."""
        return late.infer_shape(self, args, kwargs, partial=True)

    def infer_type(self, *args: Any, **kwargs: Any) -> Any:
        """(argument, output, auxiliary) element types from known ones; (None, None, None) where not all follow."""
        return late.infer_type(self, args, kwargs, partial=False)

    def infer_type_partial(self, *args: Any, **kwargs: Any) -> Any:
        """As ``infer_type``, with None for what does not follow."""
        return late.infer_type(self, args, kwargs, partial=True)

    # -- files

    def tojson(self, remove_amp_cast: bool = True) -> str:
        """The graph as MXNet's JSON."""
        return late.write_graph(self._heads, remove_amp_cast)

    def save(self, fname: str, remove_amp_cast: bool = True) -> None:
        """Write ``tojson()`` to a file.

        Raises:
            TypeError: the name is no string.
        """
        if not isinstance(fname, str):
            raise TypeError("fname need to be string")
        from ..io.formats.atomic import write_atomically

        write_atomically(fname, self.tojson(remove_amp_cast).encode())

    def debug_str(self) -> str:
        """The nodes, one after the other, for people."""
        lines = ["Symbol Outputs:", *(f"\toutput[{k}]={n.name}({at})" for k, (n, at) in enumerate(self._heads))]
        for node in topological(self._heads):
            if node.op is None:
                lines.append(f"Variable:{node.name}")
                continue
            lines.append(f"--------------------\nOp:{node.op.name}, Name={node.name}\nInputs:")
            lines += [
                f"\targ[{k}]={source.name}({at})" + (" version=0" if source.op is None else "")
                for k, (source, at) in enumerate(node.inputs)
            ]
            if node.attrs:
                lines += ["Attrs:", *(f"\t{k}={v}" for k, v in sorted(node.attrs.items()))]
        return "\n".join(lines) + "\n"

    # -- execution

    def eval(self, ctx: Any = None, **kwargs: Any) -> list[Any]:
        """Evaluate with arrays for the variables; a list of arrays.

        Raises:
            ValueError: a variable has no array.
        """
        return late.evaluate(self, ctx, kwargs)

    def bind(
        self,
        ctx: Any,
        args: Any,
        args_grad: Any = None,
        grad_req: Any = "write",
        aux_states: Any = None,
        group2ctx: Any = None,
        shared_exec: Any = None,
    ) -> Any:
        """An executor over arrays of the caller's own.

        Args:
            ctx: where it runs.
            args, args_grad, aux_states: arrays, as a list in the order of ``list_arguments`` (``list_auxiliary_states``)
                or a dict by name; gradients may be missing.
            grad_req: write, add or null for all arguments, a list, or a dict by name.
            group2ctx: devices of groups of nodes (``AttrScope(ctx_group=…)``): there their outputs are, and arrays may
                lie on any device. The graph itself runs on ``ctx``: what lies elsewhere is copied at each call.
            shared_exec: accepted; memory is not shared.

        Raises:
            ValueError: an array is missing.
            TypeError: something that is no array.
            MXNetError: an array on another device than ``ctx`` without ``group2ctx``; a group that is not in it.
        """
        return late.bind(self, ctx, args, args_grad, grad_req, aux_states, group2ctx)

    def simple_bind(
        self,
        ctx: Any,
        grad_req: Any = "write",
        type_dict: Any = None,
        stype_dict: Any = None,
        group2ctx: Any = None,
        shared_arg_names: Any = None,
        shared_exec: Any = None,
        shared_buffer: Any = None,
        **kwargs: Any,
    ) -> Any:
        """An executor with new zero arrays, their shapes inferred from those given by name.

        Args:
            group2ctx: devices of groups of nodes (``AttrScope(ctx_group=…)``), where the arrays of their variables and
                their outputs are. The graph itself runs on ``ctx``: what lies elsewhere is copied at each call.
            shared_exec: an executor whose arrays are used where they fit.
            shared_arg_names: with it, only these arguments (and their gradients) are taken from ``shared_exec``.
            shared_buffer: arrays by name that are used where they fit; new ones are added.

        Raises:
            RuntimeError: shapes that do not fit or do not suffice.
            MXNetError: a shared argument has another shape.
        """
        return late.simple_bind(
            self, ctx, grad_req, type_dict, shared_exec, shared_buffer, shared_arg_names, group2ctx, **kwargs
        )

    def gradient(self, wrt: Any) -> Any:
        """Not implemented, as in MXNet: use autograd or an executor."""
        raise MXNetError("Symbol.gradient is not implemented\nUse autograd.record and backward on the block's result.")


install_stubs(
    Symbol,
    "F",
    "must be real number, not {kind}",  # the words for math.exp(x): in a block it is met more often than float(x)
    "Values are not known while tracing: use operators of F instead of Python's numbers and math.",
)


def _auxiliary(heads: list[Entry]) -> set[int]:
    """ids of the variables that some operator takes as auxiliary state."""
    ids: set[int] = set()
    for node in topological(heads):
        for k in node.auxiliary_inputs():
            ids.add(id(node.inputs[k][0]))
    return ids


def _both_spellings(attrs: dict[str, str]) -> dict[str, str]:
    out = dict(attrs)
    for key in HIDDEN_KEYS:
        if f"__{key}__" in attrs:
            out[key] = attrs[f"__{key}__"]
    return out


def Group(symbols: Any, create_fn: Callable[[Any], Symbol] = Symbol) -> Symbol:
    """Several Symbols as one; groups flatten.

    Args:
        symbols: those to group.
        create_fn: makes the group, a class of Symbols.

    Raises:
        TypeError: no Symbols.
    """
    if not symbols or any(not isinstance(s, Symbol) for s in symbols):
        raise TypeError("Expected a list of symbols as input")
    return create_fn([head for s in symbols for head in s._heads])


def type_flag(dtype: Any) -> str:
    """MXNet's number of an element type, as text."""
    return str(dtype_of(dtype).flag)
