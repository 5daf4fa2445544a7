# SPDX-License-Identifier: Apache-2.0
"""Source of a prepared call: the lines of one Python function, the objects they name, its nested arguments and results.

A loop over arguments, results or nested lists would find out at every call what is known when the call is prepared. So
the function is written out. Its text says nothing of a net but the shape of its call, so that those of many nets are one
code object.

A format is that of :mod:`hybridgpu.core.pytree`: 0 for an array, -1 for None, a list of formats for a list or tuple; that of a
function that was traced on arrays keeps tuples, dictionaries and values that are the same at every call, and its lists are
lists alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any

from ...backends.code_cache import define
from ...core.pytree import Named, Static

__all__ = ["FILE", "Call", "CallSource", "indented", "listed"]

Call = Callable[..., Any]
FILE = f"{__file__}, prepared call"  #: of all functions that are written here

_MISSING = object()  #: in place of an argument that was left out


def _given(*args: Any) -> tuple[Any, ...]:
    """The arguments of a call, of which some may have been left out."""
    return tuple([x for x in args if x is not _MISSING])


class CallSource:
    """A function of a call's arguments that is being written; a call that it refuses is left to ``dispatch_other``.

    Args:
        form: the format of the arguments. Arrays are x0, x1 … in order.
        dispatch_other: takes the arguments, as a tuple, of all other calls.
        keeps_tuples: whether the format is one that tells tuples from lists.

    Attributes:
        names: the objects that the lines name.
    """

    def __init__(self, form: Sequence[Any], dispatch_other: Call, keeps_tuples: bool) -> None:
        self.names: dict[str, Any] = {"dispatch_other": dispatch_other}
        self.lines: list[str] = []
        self._form, self._keeps_tuples = form, keeps_tuples
        self._flat = all(isinstance(f, int) and f == 0 for f in form)
        self._constants = count()
        if self._flat:  # Python itself takes the arguments apart
            self.names |= {"missing": _MISSING, "given": _given}
            arrays = "".join(f"x{k}, " for k in range(len(form)))
            self._parameters = "".join(f"x{k}=missing, " for k in range(len(form))) + "*rest"
            self._arguments = (
                f"({arrays}*rest) if x{len(form) - 1} is not missing else given({arrays})" if form else "rest"
            )
        else:
            self._parameters, self._arguments = "*args", "args"

    @property
    def refusal(self) -> str:
        """The line that leaves the call to others."""
        return f"return dispatch_other({self._arguments})"

    def refuse_if(self, condition: str) -> None:
        """Lines that leave the call to others where a condition holds."""
        self.lines += [f"if {condition}:", f"    {self.refusal}"]

    def refuse_unless(self, *conditions: str) -> None:
        """Lines that leave the call to others where one of the conditions does not hold."""
        self.refuse_if(f"not ({' and '.join(conditions)})")

    def unpack(self, arrays: Sequence[str], others: Sequence[str]) -> None:
        """Lines that check the structure of the arguments, which are x0, x1 … from here on, and conditions.

        Args:
            arrays: conditions on these; in a block's calls in turn they fail most often.
            others: all other ones.
        """
        if self._flat:
            self.refuse_unless(*arrays, "not rest", *others)
            return
        self.refuse_unless(f"len(args) == {len(self._form)}", *others)
        self._unpack_nested()
        self.refuse_unless(*arrays)

    def _unpack_nested(self) -> None:
        self.names["Static"] = Static
        arrays, others = count(), count()

        def named(f: Any) -> tuple[str, Any]:
            if isinstance(f, Static):
                return f"n{next(others)}", f
            if isinstance(f, Named):
                parts = {key: named(inner) for key, inner in f.parts[0].items()} if f.is_dict else map(named, f.parts)
                return f"n{next(others)}", Named(f.kind, [parts] if f.is_dict else list(parts))
            if f == 0:
                return f"x{next(arrays)}", f
            if isinstance(f, dict):
                return f"n{next(others)}", {key: named(inner) for key, inner in f.items()}
            return f"n{next(others)}", f if f == -1 else type(f)([named(inner) for inner in f])

        self._unpack("args", [named(f) for f in self._form])

    def _unpack(self, whole: str, parts: Sequence[tuple[str, Any]]) -> None:
        if parts:
            self.lines.append(f"{', '.join(name for name, _ in parts)}, = {whole}")
        for name, inner in parts:
            if isinstance(inner, Static):
                same = self._constant(inner)
                self.refuse_if(f"{name} is not {same}.value and {same} != Static({name})")
            elif isinstance(inner, Named):
                self.refuse_if(f"{name}.__class__ is not {self._constant(inner.kind)}")
                if inner.is_dict:
                    self.refuse_unless(self._has_keys(name, inner.parts[0]))
                    self._unpack(f"{name}.values()", list(inner.parts[0].values()))
                else:
                    self._unpack(name, inner.parts)
            elif inner == -1:
                self.refuse_if(f"{name} is not None")
            elif isinstance(inner, dict):  # whose order functions may follow
                self.refuse_unless(f"{name}.__class__ is dict", self._has_keys(name, inner))
                self._unpack(f"{name}.values()", list(inner.values()))
            elif inner != 0:
                kinds = [inner.__class__.__name__] if self._keeps_tuples else ["list", "tuple"]
                sequence = " or ".join(f"{name}.__class__ is {kind}" for kind in kinds)
                self.refuse_unless(f"({sequence})", f"len({name}) == {len(inner)}")
                self._unpack(name, inner)

    def _has_keys(self, name: str, keys: Iterable[Any]) -> str:
        """The condition that a dictionary has these keys in this order."""
        if all(key.__class__ is str for key in keys):
            return f"(*{name},) == {self._constant(tuple(keys))}"
        return f"(*map(Static, {name}),) == {self._constant(tuple(map(Static, keys)))}"  # 1 and True are two

    def pack(self, form: Any) -> str:
        """The expression of a result of format ``form``, made of the arrays y0, y1 …"""
        return self._expression(form, count())

    # (methods: a function that calls itself would be a cycle, which holds the names)

    def _expression(self, f: Any, numbers: Iterator[int]) -> str:
        if isinstance(f, Static):
            return self._constant(f.value)
        if isinstance(f, Named):
            return f"{self._constant(f.kind)}({', '.join(self._expression(inner, numbers) for inner in f.parts)})"
        if isinstance(f, tuple):
            return f"({''.join(self._expression(inner, numbers) + ', ' for inner in f)})"
        if isinstance(f, dict):
            items = (f"{self._constant(key)}: {self._expression(inner, numbers)}" for key, inner in f.items())
            return f"{{{', '.join(items)}}}"
        if f == 0:
            return f"y{next(numbers)}"
        if f == -1:
            return "None"
        return listed(self._expression(inner, numbers) for inner in ([0] * f if isinstance(f, int) else f))

    def _constant(self, value: Any) -> str:
        name = f"constant{next(self._constants)}"
        self.names[name] = value
        return name

    def define(self, name: str) -> Call:
        """The function."""
        return define(f"{name}({self._parameters})", self.lines, self.names, FILE)


def listed(values: Iterable[str]) -> str:
    """The expression of a list."""
    return f"[{', '.join(values)}]"


def indented(lines: Iterable[str], levels: int = 1) -> list[str]:
    """Lines of a block."""
    return ["    " * levels + line for line in lines]
