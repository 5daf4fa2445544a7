# SPDX-License-Identifier: Apache-2.0
"""Nested lists among the arguments and results of prepared calls, written out for one structure.

A format is that of ``nested``: 0 for an array, -1 for None, a list of formats for a list or tuple; that of a function that
was traced on arrays keeps tuples, dictionaries and values that are the same at every call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

from ..backends.code_cache import code_of
from ..core.pytree import Named, Static, regroup

__all__ = ["Call", "count_of", "finish_of", "function", "listed", "prepared_for", "refusal", "together", "unpacking"]

Call = Callable[..., Any]


def count_of(form: Any) -> int:
    """How many arrays arguments of that format hold."""
    if isinstance(form, Static):
        return 0
    if isinstance(form, dict):
        form = list(form.values())
    if isinstance(form, Named):
        form = form.parts
    return sum(map(count_of, form)) if isinstance(form, (list, tuple)) else int(form == 0)


def unpacking(form: Sequence[Any], names: dict[str, Any]) -> list[str]:
    """Lines that take the tuple ``args``, whose length is right, apart; another structure is left to ``slow``.

    Arrays are x0, x1 … in order.

    Args:
        names: gets what the lines name besides.
    """
    met: dict[str, Any] = {"Static": Static}  # not ``names``: what calls itself is a cycle, which would hold them
    arrays, others = count(), count()
    lines: list[str] = []

    def named(f: Any) -> tuple[str, Any]:
        if isinstance(f, (Static, Named)):
            return f"a{next(others)}", f
        if f == 0:
            return f"x{next(arrays)}", f
        if isinstance(f, dict):
            return f"a{next(others)}", {key: named(inner) for key, inner in f.items()}
        return f"a{next(others)}", f if f == -1 else [named(inner) for inner in f]

    def unpack(whole: str, parts: Sequence[tuple[str, Any]]) -> None:
        if parts:
            lines.append(f"{', '.join(name for name, _ in parts)}, = {whole}")
        for name, inner in parts:
            if isinstance(inner, Static):
                same = f"same_{name}"
                met[same] = inner
                lines.extend(refusal(f"{name} is not {same}.value and {same} != Static({name})"))
            elif isinstance(inner, Named):
                met[f"kind_{name}"] = inner.kind
                lines.extend(refusal(f"{name}.__class__ is not kind_{name}"))
                if inner.is_dict:
                    met[f"keys_{name}"] = tuple(inner.parts[0])
                    lines.extend(refusal(f"(*{name},) != keys_{name}"))
                    unpack(f"{name}.values()", [named(f) for f in inner.parts[0].values()])
                else:
                    unpack(name, [named(f) for f in inner.parts])
            elif inner == -1:
                lines.extend(refusal(f"{name} is not None"))
            elif isinstance(inner, dict):
                met[f"keys_{name}"] = tuple(inner)  # whose order functions may follow
                lines.extend(refusal(f"not ({name}.__class__ is dict and (*{name},) == keys_{name})"))
                unpack(f"{name}.values()", list(inner.values()))
            elif inner != 0:
                sequence = f"({name}.__class__ is list or {name}.__class__ is tuple)"
                lines.extend(refusal(f"not ({sequence} and len({name}) == {len(inner)})"))
                unpack(name, inner)

    unpack("args", [named(f) for f in form])
    names.update(met)
    return lines


def refusal(condition: str) -> list[str]:
    """Lines that leave a call to ``slow``."""
    return [f"if {condition}:", "    return slow(args)"]


def together(form: Any, name: str, names: dict[str, Any] | None = None) -> str:
    """The expression that puts values together, which are ``name``0, ``name``1 …

    Args:
        names: gets what the expression names besides.
    """
    numbers = count()
    first = len(names or ())
    met: dict[str, Any] = {}  # as above

    def constant(value: Any) -> str:
        key = f"{name}_same{first + len(met)}"
        met[key] = value
        return key

    def expression(f: Any) -> str:
        if isinstance(f, Static):
            return constant(f.value)
        if isinstance(f, Named):
            return f"{constant(f.kind)}({', '.join(map(expression, f.parts))})"
        if isinstance(f, tuple):
            return f"({''.join(expression(inner) + ', ' for inner in f)})"
        if isinstance(f, dict):
            return f"{{{', '.join(f'{constant(key)}: {expression(inner)}' for key, inner in f.items())}}}"
        if f == 0:
            return f"{name}{next(numbers)}"
        if f == -1:
            return "None"
        return listed(map(expression, [0] * f if isinstance(f, int) else f))

    text = expression(form)
    if met:
        assert names is not None
        names.update(met)
    return text


def listed(values: Iterable[str]) -> str:
    """The expression of a list."""
    return f"[{', '.join(values)}]"


def function(head: str, lines: Iterable[str], names: dict[str, Any]) -> Call:
    """The function that the text ``def head: lines`` defines.

    Args:
        names: what it names; they are its own from then on.
    """
    text = f"def {head}:\n" + "".join(f"    {line}\n" for line in lines)
    exec(code_of(text, f"{__file__}, prepared call"), names)  # a file of ours, so that messages name the user's line
    made: Call = names.pop(head.partition("(")[0])  # it holds the names: no cycle
    return made


def finish_of(form: Any) -> Callable[[list[Any]], Any] | None:
    """What makes a block's result of format ``form`` of the graph's; None for a single one."""
    if form == 0:
        return None
    if isinstance(form, int) or (isinstance(form, list) and all(f == 0 for f in form)):
        return list
    return lambda results: regroup(results, form)


def prepared_for(form: Sequence[Any], general: Call, prepare: Callable[[Call], Call | None]) -> Call | None:
    """A prepared call for arguments of format ``form``; None where there is none.

    Args:
        general: function (arguments as a tuple) for any call.
        prepare: function (what takes a tuple of all arrays, for calls of another kind) -> a prepared call that takes
            these arrays one by one, or None.
    """
    if all(isinstance(f, int) and f == 0 for f in form):
        return prepare(general)
    arrays = "".join(f"x{k}, " for k in range(count_of(form)))
    names = {"general": general}
    regrouped = [f"{arrays}= flat", f"return general(tuple({together(form, 'x', names)}))"]
    fast = prepare(function("regrouped(flat)", regrouped, names))
    if fast is None:
        return None
    names = {"fast": fast, "slow": general}
    lines = [*refusal(f"len(args) != {len(form)}"), *unpacking(form, names), f"return fast({arrays})"]
    return function("call_structured(*args)", lines, names)
