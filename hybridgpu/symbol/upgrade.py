# SPDX-License-Identifier: Apache-2.0
"""Nodes of graph files that older versions of MXNet wrote, in today's form.

What changed: before 1.0 attributes such as ``lr_mult`` had no underscores, and ``weight_lr_mult`` of an
operator meant its input ``weight``; files of 0.8 left out variables that operators make themselves;
until 0.9.3 variables did not carry their initialisers; until 0.9.4 axis -1 of argmax meant all axes.
"""

from __future__ import annotations

from ..ops.functions import HIDDEN_KEYS
from ..ops.record import Operator
from .node import SymbolNode, initial_of, is_hidden

__all__ = ["OLDEST", "split_hidden", "upgrade"]

OLDEST = 800  #: the version of files that name none


def split_hidden(attrs: dict[str, str], op: Operator | None) -> tuple[dict[str, str], dict[tuple[str, str], str]]:
    """(attributes with hidden ones in underscores, (input, hidden key) -> value that belongs to an input)."""
    kept, moved = {}, {}
    for key, value in attrs.items():
        if is_hidden(key) or (op is not None and key in op.params):
            kept[key] = value
        elif key in HIDDEN_KEYS:
            kept[f"__{key}__"] = value
        elif op is not None and (end := next((h for h in HIDDEN_KEYS if key.endswith(f"_{h}")), None)):
            moved[key[: -len(end) - 1], f"__{end}__"] = value
        else:
            kept[key] = value
    return dict(sorted(kept.items())), moved


def upgrade(node: SymbolNode, moved: dict[tuple[str, str], str], version: int) -> None:
    """Bring an operator's node, and the variables that it reads, from ``version`` to today's form."""
    op = node.op
    assert op is not None
    if version < 905 and op.name in ("argmax", "argmin") and node.attrs.get("axis") == "-1":
        del node.attrs["axis"]
        node._values = None
    names = op.input_names(node.values, len(node.inputs))
    if version < 900:
        for name in names[len(node.inputs) :]:
            node.inputs.append((SymbolNode(None, f"{node.name}_{name}", dict(node.attrs)), 0))
    for name, (variable, _) in zip(names, node.inputs, strict=False):
        if variable.op is not None:
            continue
        extra = {key: value for (owner, key), value in moved.items() if owner == name}
        initial = initial_of(op, name) if version < 904 else None
        if initial and "__init__" not in variable.attrs:
            extra["__init__"] = initial
        if extra:
            variable.attrs = dict(sorted({**variable.attrs, **extra}.items()))
