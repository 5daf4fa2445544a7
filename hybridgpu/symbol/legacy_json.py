# SPDX-License-Identifier: Apache-2.0
"""Upgrade of graph files of older MXNet versions to today's nodes.

What changed: before 1.0 attributes such as ``lr_mult`` had no underscores, and ``weight_lr_mult`` of an
operator meant its input ``weight``; files of 0.8 left out variables that operators make themselves;
until 0.9.3 variables did not carry their initialisers; until 0.9.4 axis -1 of argmax meant all axes.
"""

from __future__ import annotations

from ..base import MXNetError
from ..ops.functions import HIDDEN_KEYS
from ..ops.record import Operator
from .node import SymbolNode, is_hidden, name_initializers

__all__ = ["OLDEST", "VERSION", "split_hidden", "upgrade"]

OLDEST = 800  #: the version of files that name none
VERSION = 10901  #: of the files written here
_MOST_INPUTS = 1 << 16  #: of a node in a file: more is a defect of the file


def split_hidden(
    attrs: dict[str, str], op: Operator | None, version: int
) -> tuple[dict[str, str], dict[str, tuple[str, str, str]]]:
    """(attributes with hidden ones in underscores, key -> (input, hidden key, value) of what may be an input's)."""
    if version >= VERSION:
        return dict(sorted(attrs.items())), {}
    kept, hidden, moved = {}, {}, {}
    for key, value in attrs.items():
        if is_hidden(key) or (op is not None and key in op.params):
            kept[key] = value
        elif key in HIDDEN_KEYS:
            hidden[f"__{key}__"] = value
        elif op is not None and (end := next((h for h in HIDDEN_KEYS if key.endswith(f"_{h}")), None)):
            moved[key] = key[: -len(end) - 1], f"__{end}__", value
        else:
            kept[key] = value
    return dict(sorted({**kept, **hidden}.items())), moved


def upgrade(node: SymbolNode, moved: dict[str, tuple[str, str, str]], version: int) -> None:
    """Bring an operator's node, and the variables that it reads, from ``version`` to today's form.

    Raises:
        MXNetError: more inputs to add than any graph needs.
    """
    op = node.op
    assert op is not None
    if version < 905 and op.name in ("argmax", "argmin") and node.attrs.get("axis") == "-1":
        del node.attrs["axis"]
        node._values = None
    count = len(node.inputs)
    if version < 900 and op.count_param:
        count = max(count, node.values.as_dict()[op.count_param])
        if count > _MOST_INPUTS:
            raise MXNetError(f"{op.count_param} is {count}, more than any graph needs")
    names = op.input_names(node.values, count)
    if version < 900:
        for name in names[len(node.inputs) :]:
            node.inputs.append((SymbolNode(None, f"{node.name}_{name}", dict(node.attrs)), 0))
    if version < 904:
        name_initializers(op, names, node.inputs)
    variables = {n: v for n, (v, _) in zip(names, node.inputs, strict=False) if v.op is None}
    for key, (name, hidden, value) in moved.items():
        owner = variables.get(name, node)
        owner.attrs = dict(sorted({**owner.attrs, hidden if name in variables else key: value}.items()))
        node._values = None
