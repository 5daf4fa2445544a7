# SPDX-License-Identifier: Apache-2.0
"""Making nodes: naming, attributes, variables for missing inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import attribute
from .. import name as names
from ..base import MXNetError
from ..ops import OPERATORS
from ..ops.functions import Bound, spelled_hint
from ..ops.record import Operator
from ..provenance import current_block, user_line
from .node import SymbolNode
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
    attrs = hidden(attribute.current().get(attr))
    if shape is not None:
        attrs["__shape__"] = str(tuple(shape))
    if lr_mult is not None:
        attrs["__lr_mult__"] = str(lr_mult)
    if wd_mult is not None:
        attrs["__wd_mult__"] = str(wd_mult)
    if dtype is not None:
        attrs["__dtype__"] = type_flag(dtype)
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


def hidden(attrs: dict[str, str]) -> dict[str, str]:
    """Scope attributes under their hidden names."""
    return {k if k.startswith("__") else f"__{k}__": v for k, v in attrs.items()}


def apply_symbol(op: Operator, spelled: str, call: Bound) -> Symbol:
    """What a function of ``sym`` does: check the kinds of the arguments, then make the node."""
    attributes = dict(call.attributes)
    attr = attributes.pop("attr", None)
    if op.variadic:
        for x in call.inputs:
            if not isinstance(x, Symbol) and not (x is None and op.binder is not None):
                raise AssertionError(f"Positional arguments must be Symbol instances, but got {x}")
    else:
        for n, x in zip(op.inputs, call.inputs, strict=True):
            if x is not None and not isinstance(x, Symbol):
                raise AssertionError(f"Argument {n} must be Symbol instances, but got {x}")
    if "ctx" in attributes and "ctx" not in op.params:
        attributes.pop("ctx")  # nodes run where their inputs are
    return make_node(op, spelled_hint(spelled), call.inputs, attributes, call.name, attr)


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
) -> Symbol:
    """A node with its visible results.

    Raises:
        MXNetError: attributes that do not fit, or an input of several results.
    """
    texts = op.attribute_texts({k: v for k, v in attributes.items() if not (k == op.count_param and v == 0)})
    full_name = names.current().get(name, hint)
    values = op.parse({k: v for k, v in texts.items() if not k.startswith("__")})
    scope = hidden(attribute.current().get(attr))
    wanted = op.input_names(values, len(inputs))
    entries = []
    # a variadic operator with named inputs may leave out the last ones
    given = dict(zip(wanted if op.variadic else op.inputs, inputs, strict=not (op.variadic and op.optional)))
    for key in wanted:
        x = given.get(key)
        if x is None:
            entries.append(_missing(op, full_name, key, {**texts, **scope})._heads[0])
            continue
        if len(x._heads) != 1:
            if op.variadic:
                entries.extend(x._heads)
                continue
            raise MXNetError(f"Keyword Argument {key} is a tuple, single value is required")
        entries.append(x._heads[0])
    extra = [k for k, x in given.items() if x is not None and k not in wanted]
    if extra:
        raise MXNetError(
            f"Operator {op.name} expects {len(wanted)} inputs, but got {len(wanted) + len(extra)} instead."
        )
    attrs = {**texts, **scope}
    node = SymbolNode(
        op, full_name, dict(sorted(attrs.items())), entries, list(subgraphs), user_line(), current_block()
    )
    node._values = values
    return Symbol([(node, k) for k in range(op.num_visible(values))])


_AUX_INIT = {
    "moving_mean": '["zero", {}]',
    "moving_var": '["one", {}]',
    "running_mean": '["zero", {}]',
    "running_var": '["one", {}]',
}


def _missing(op: Operator, node: str, key: str, attrs: dict[str, str]) -> Symbol:
    """The variable that stands for an input that was not given; it carries its node's attributes."""
    initial = op.initial.get(key) or (_AUX_INIT.get(key) if key in op.auxiliary else None)
    if initial:
        attrs = {**attrs, "__init__": initial}
    made = SymbolNode(None, f"{node}_{key}", dict(sorted(attrs.items())), line=user_line(), block=current_block())
    return Symbol([(made, 0)])
