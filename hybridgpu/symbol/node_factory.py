# SPDX-License-Identifier: Apache-2.0
"""Node factory: names, attributes, variables for missing inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import attribute
from .. import name as names
from ..base import MXNetError, OperandError
from ..core.source_location import current_block, user_line
from ..hints.misplaced import about_initializer
from ..hints.tracing import about_operand, in_graph
from ..ops import OPERATORS
from ..ops.functions import HIDDEN_KEYS, Bound, spelled_hint
from ..ops.params import Values
from ..ops.precision import Policy, active
from ..ops.record import Operator
from .late_bindings import late
from .node import Entry, SymbolNode, name_initializers
from .symbol import Symbol, type_flag

__all__ = ["apply_symbol", "compose", "var"]


def var(
    name: str,
    attr: dict[str, str] | None = None,
    shape: Any = None,
    lr_mult: float | None = None,
    wd_mult: float | None = None,
    dtype: Any = None,
    init: Any = None,
    stype: Any = None,
    **kwargs: str,
) -> Symbol:
    """A variable: an input of the graph, given when it runs.

    Raises:
        TypeError: the name is no string.
        ValueError: an extra attribute not written as ``__key__``.
    """
    if not isinstance(name, str):
        raise TypeError("Expect a string for variable `name`")
    attrs = _hidden(attribute.current().get(attr))
    if shape is not None:
        attrs["__shape__"] = str(shape)
    if lr_mult is not None:
        attrs["__lr_mult__"] = str(lr_mult)
    if wd_mult is not None:
        attrs["__wd_mult__"] = str(wd_mult)
    if dtype is not None:
        attrs["__dtype__"] = type_flag(dtype)
    if isinstance(init, type):
        raise TypeError(
            f"{init.__name__}.dumps() missing 1 required positional argument: 'self'{about_initializer(init)}"
        )
    if init is not None:
        attrs["__init__"] = init if isinstance(init, str) else init.dumps()
    if stype is not None:
        attrs["__storage_type__"] = {"default": "0", "row_sparse": "1", "csr": "2"}.get(stype, str(stype))
    for key, value in kwargs.items():
        if not (key.startswith("__") and key.endswith("__")):
            raise ValueError(
                f"Attribute name={key} is not supported. Additional attributes must start and end with double underscores, e.g, __yourattr__"
            )
        attrs[key] = value
    node = SymbolNode(None, name, dict(sorted(attrs.items())), line=user_line(), block=current_block())
    return Symbol([(node, 0)])


def apply_symbol(op: Operator, spelled: str, call: Bound) -> Symbol:
    """The body of a function of ``sym``: check the kinds of the arguments, then make the node."""
    attributes = dict(call.attributes)
    attr = attributes.pop("attr", None)
    if op.variadic:
        for x in call.inputs:
            if not isinstance(x, Symbol) and not (x is None and op.binder is not None):
                raise OperandError(
                    f"Positional arguments must be Symbol instances, but got {x}"
                    + (in_graph(x) or about_operand(x, ("*data",), op.params, spelled))
                )
    else:
        for n, x in zip(op.inputs, call.inputs, strict=True):
            if x is not None and not isinstance(x, Symbol):
                raise OperandError(
                    f"Argument {n} must be Symbol instances, but got {x}"
                    + (in_graph(x) or about_operand(x, op.inputs, op.params, spelled))
                )
    if "ctx" in attributes and "ctx" not in op.params:
        attributes.pop("ctx")  # nodes run where their inputs are
    kind: Any = late._Symbol if spelled.startswith("_np") else None
    check_kind(op, spelled, call.inputs, kind)
    return make_node(op, spelled_hint(spelled), call.inputs, attributes, call.name, attr, kind=kind)


def check_kind(op: Operator, spelled: str, inputs: Sequence[Symbol | None], kind: Any) -> None:
    """Raise MXNet's error for Symbols of the other interface.

    Args:
        kind: the class of the Symbols of np for their operators, None for legacy ones.
    """
    for x in inputs:
        if x is not None and x._kind is not kind:
            from ..ops.numpy.application import legacy_operand, numpy_operand

            raise legacy_operand(op.name, spelled) if kind is None else numpy_operand(spelled)


def _hidden(attributes: dict[str, Any], op: Operator | None = None) -> dict[str, Any]:
    """Attributes with those of nodes, such as ``lr_mult``, under their hidden names; others keep theirs.

    Raises:
        MXNetError: an attribute meant for the variable of an input, such as ``weight_lr_mult``.
    """
    renamed = {}
    for name, value in attributes.items():
        if name.startswith("__") or (op is not None and name in op.params):
            renamed[name] = value
        elif name.startswith(HIDDEN_KEYS):
            renamed[f"__{name}__"] = value
        elif op is not None and name.endswith(HIDDEN_KEYS):
            key = next(k for k in HIDDEN_KEYS if name.endswith(k))
            raise MXNetError(
                f"setting variable attributes with {name} is deprecated. please instead use\n"
                f"w = Variable({key}={value})\nsym = YourSymbolName({name[: -len(key) - 1]}=w)"
            )
        else:
            renamed[name] = value
    return renamed


def compose(operator: str, hint: str, inputs: list[Symbol], attributes: dict[str, Any]) -> Symbol:
    """A node made by Python syntax, which has hints of its own."""
    return make_node(OPERATORS[operator], hint, inputs, attributes, None, None)


def make_node(
    op: Operator,
    hint: str,
    inputs: Sequence[Symbol | None],
    attributes: dict[str, Any],
    name: str | None,
    attr: dict[str, str] | None,
    subgraphs: Sequence[Any] = (),
    kind: type[Symbol] | None = None,
) -> Symbol:
    """A node with its visible results, a Symbol or a ``kind`` of it.

    Raises:
        MXNetError: attributes that do not fit, or an input of several results.
    """
    attributes = _hidden({**attributes, **attribute.current().get(attr)}, op)
    texts = op.attribute_texts(attributes)
    full_name = names.current().get(name, hint)
    values = op.parse({k: v for k, v in texts.items() if not k.startswith("__")}, attributes)
    input_names = op.input_names(values, len(inputs))
    entries: list[Entry] = []
    at: list[int] = []  # the places of entries that were given
    # a variadic operator with named inputs may leave out the last ones
    inputs_by_name = dict(
        zip(input_names if op.variadic else op.inputs, inputs, strict=not (op.variadic and op.optional))
    )
    for key in input_names:
        x = inputs_by_name.get(key)
        if x is None:
            entries.append(_missing(full_name, key, texts)._heads[0])
            continue
        if len(x._heads) != 1 and not op.variadic:
            raise MXNetError(f"Keyword Argument {key} is a tuple, single value is required")
        at.extend(range(len(entries), len(entries) + len(x._heads)))
        entries.extend(x._heads)
    extra = [k for k, x in inputs_by_name.items() if x is not None and k not in input_names]
    if extra:
        raise MXNetError(
            f"Operator {op.name} expects {len(input_names)} inputs, but got {len(input_names) + len(extra)} instead."
        )
    name_initializers(op, input_names, entries)
    policy = active()
    if policy is not None:
        _cast(policy, op, values, entries, at)
    node = SymbolNode(
        op, full_name, dict(sorted(texts.items())), entries, list(subgraphs), user_line(), current_block()
    )
    node._values = values
    return (kind or Symbol)([(node, k) for k in range(op.num_visible(values))])


def _cast(policy: Policy, op: Operator, values: Values, entries: list[Entry], positions: Sequence[int]) -> None:
    """Put the casts of automatic mixed precision between an operator and its inputs, of which some were given."""
    target_type = policy.wanted(op, values)
    if target_type is None or not entries:
        return
    if isinstance(target_type, str):
        if positions:
            inputs, attributes = [Symbol([entries[k]]) for k in positions], {"num_outputs": len(positions)}
            cast = make_node(OPERATORS["amp_multicast"], "amp_multicast", inputs, attributes, None, None)
            for k, entry in zip(positions, cast._heads, strict=True):
                entries[k] = entry
        return
    for k, name in enumerate(op.input_names(values, len(entries))):
        if not policy.stays(op, values, name, target_type):
            one, dtype = [Symbol([entries[k]])], {"dtype": target_type.name}
            entries[k] = make_node(OPERATORS["amp_cast"], "amp_cast", one, dtype, None, None)._heads[0]


def _missing(node: str, key: str, attrs: dict[str, str]) -> Symbol:
    """The variable that stands for an input that was not given; it carries its node's attributes."""
    variable = SymbolNode(None, f"{node}_{key}", dict(sorted(attrs.items())), line=user_line(), block=current_block())
    return Symbol([(variable, 0)])
