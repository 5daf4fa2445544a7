# SPDX-License-Identifier: Apache-2.0
"""Rolled loops: loops that differ in their arrays and positions alone become one loop over a table of these.

A concat that a kernel reads is as many loops as it has operands (``index_set_splitting``). In a dense block of a network
there are dozens, which a C++ compiler would optimise one by one: a third of a second for a kernel that does no more than
one with a single operand. Extents and strides of inner loops stay literals, so that the loop is the code that each was.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count

from ....core.dataclass import dataclass
from ..blocks import Block, Line
from ..kernel import Pointer

__all__ = ["rolled"]

_MIN_LOOPS = 4  #: loops that are worth a table
_HEAD = re.compile(r"for \(Index (\w+) = (.+); \1 < (.+); (.+)\)")
_DEFINED = re.compile(r"^const [\w ]+ (v\d+|line\d*) =")
_NAME = re.compile(r"\b(?:[vxy]\d+|line\d*)\b")
#: the constant part of a position, at its end, or before how far ahead is fetched
_OFFSET = re.compile(r"(?: ([+-]) (\d+|start\d+))?(\]| \+ \d+\), )")
#: how far neighbours along an outer variable are apart: samples of operands of a concat have different numbers of channels
_STRIDE = re.compile(r"(?<=[\[(])((?:i\d+|at) \* )(\d+)(?= \+ )")
_SLOT = re.compile(r"@(\d+)@")


@dataclass(frozen=True)
class _Pattern:
    """A loop without what tells it from others alike.

    Attributes:
        block: the loop, with ``@k@`` in the places of …
        slots: … these texts.
        types: type of a slot; ' ' where it is a position.
    """

    block: Block
    slots: tuple[str, ...]
    types: tuple[str, ...]


def rolled(lines: Sequence[Line], pointers: Sequence[Pointer]) -> list[Line]:
    """``lines`` with a loop over a table in the place of loops that are alike.

    Args:
        pointers: parameters of the kernel, which the table may hold.
    """
    declared = {p.name: f"{p.type}* {'' if p.aliased else 'HG_RESTRICT '}const" for p in pointers}
    result: list[Line] = []
    alike: list[tuple[Block, _Pattern]] = []
    for line in [*lines, ""]:
        pattern = None
        if isinstance(line, Block):
            line = Block(line.heads, rolled(line.lines, pointers), rolled(line.otherwise, pointers))
            pattern = _pattern(line, declared)
        if alike and not (pattern and _is_alike(pattern, alike[0][1])):
            result += _merged([p for _, p in alike]) or [b for b, _ in alike]
            alike = []
        if pattern and isinstance(line, Block):
            alike.append((line, pattern))
        elif line:
            result.append(line)
    return result


def _is_alike(one: _Pattern, other: _Pattern) -> bool:
    return one.block == other.block and one.types == other.types


def _pattern(block: Block, declared: dict[str, str]) -> _Pattern | None:
    """The pattern of a loop, None of other blocks."""
    head = _HEAD.fullmatch(block.heads[-1]) if block.heads else None
    if head is None or block.otherwise:
        return None
    var, begin, end, step = head.groups()
    if not any(isinstance(line, Block) for line in block.lines) and "begin" not in begin + end and "end" not in end:
        return None  # of an innermost loop that is short the extent stays known
    slots, types = [begin, end], [" ", " "]
    names: dict[str, str] = {}
    numbers = count()

    def renamed(match: re.Match[str]) -> str:
        name = match[0]
        if name in declared and name not in names:
            names[name] = slot(name, declared[name])
        return names.get(name, name)

    def slot(text: str, type_: str) -> str:
        slots.append(text)
        types.append(type_)
        return f"@{len(slots) - 1}@"

    def offset(match: re.Match[str]) -> str:
        sign, text, rest = match.groups()
        return f" + {slot(('-' if sign == '-' else '') + (text or '0'), ' ')}{rest}"

    def stride(match: re.Match[str]) -> str:
        return match[1] + slot(match[2], " ")

    def of(line: Line) -> Line:
        if isinstance(line, Block):
            return Block([text(h) for h in line.heads], [of(x) for x in line.lines], [of(x) for x in line.otherwise])
        return text(line)

    def text(line: str) -> str:
        defined = _DEFINED.match(line)
        if defined:
            names[defined[1]] = f"w{next(numbers)}"
        return _OFFSET.sub(offset, _STRIDE.sub(stride, _NAME.sub(renamed, line)))

    heads = [*block.heads[:-1], f"for (Index {var} = @0@; {var} < @1@; {step})"]
    return _Pattern(Block(heads, [of(x) for x in block.lines]), tuple(slots), tuple(types))


def _merged(patterns: Sequence[_Pattern]) -> list[Line] | None:
    """One loop over the table of what differs; None where there is no need for one."""
    if len(patterns) < _MIN_LOOPS:
        return None
    first = patterns[0]
    columns: dict[tuple[str, ...], str] = {}
    types: list[str] = []
    texts: list[str] = []
    for k, type_ in enumerate(first.types):
        values = tuple(p.slots[k] for p in patterns)
        if len(set(values)) == 1:
            texts.append(values[0])
            continue
        if values not in columns:
            columns[values] = f"p{len(columns)}"
            types.append("Index const" if type_ == " " else type_)
        texts.append(columns[values])

    def filled(line: Line) -> Line:
        if isinstance(line, Block):
            return Block(
                [text(h) for h in line.heads], [filled(x) for x in line.lines], [filled(x) for x in line.otherwise]
            )
        return text(line)

    def text(line: str) -> str:
        return (
            _SLOT.sub(lambda m: texts[int(m[1])], line)
            .replace(" + 0]", "]")
            .replace(" + 0 + ", " + ")
            .replace(" + -", " - ")
        )

    fields = [
        f"{t.removesuffix(' const').replace('HG_RESTRICT', '')} {c};"
        for t, c in zip(types, columns.values(), strict=True)
    ]
    rows = ", ".join("{" + ", ".join(row) + "}" for row in zip(*columns, strict=True))
    taken = [f"{t} {c} = loops[loop].{c};" for t, c in zip(types, columns.values(), strict=True)]
    over = f"for (int loop = 0; loop < {len(patterns)}; ++loop)"
    table = f"const struct {{ {' '.join(fields)} }} loops[] = {{{rows}}};"
    return [Block([], [table, Block([over], [*taken, filled(first.block)])])]
