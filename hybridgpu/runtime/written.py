# SPDX-License-Identifier: Apache-2.0
"""Prepared calls as Python that is written for one signature, on the host.

What a loop over arguments, results or nested lists would find out at every call is known when the call is prepared.
So the function is written out: a line for each list of arguments, one condition for all types, one foreign call, one
expression for the result, and no frames but those of what has to be called. Texts say nothing of a net but the shape of its call,
so that those of many nets are one code object.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import count
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import recording
from ..backends.writes import assign
from ..generator import next_words
from ..ndarray.array import NDArray
from ..recording import GradientInfo, history
from .epoch import epoch
from .start import Fixed, taking
from .training import Training, TrainingCall

if TYPE_CHECKING:
    from ..context import Context
    from .prepared_recorded import Known
    from .program import Compiled

__all__ = ["Writer"]

_Words = ctypes.c_uint32 * 4


class Writer:
    """The text of a prepared call, and the objects that it names.

    Args:
        form: of the arguments: 0 for an array, -1 for None, a list of zeros for a list or tuple of arrays.
        types: the type of each array, in order.
        born: the epoch in which addresses of parameters are right.
        training: the flag that calls have to find.
        slow: what takes the arguments, as a tuple, of all other calls.
        recorded: for calls under ``autograd.record``, or for others.
    """

    def __init__(
        self,
        form: Sequence[Any],
        types: Sequence[Any],
        born: int,
        training: bool,
        slow: Callable[..., Any],
        recorded: bool,
    ) -> None:
        self.names: dict[str, Any] = {
            "NDArray": NDArray,
            "assign": assign,
            "born": born,
            "epoch": epoch,
            "history": history,
            "new": object.__new__,
            "slow": slow,
            "state": recording.state,
            "training": training,
        }
        self.lines: list[str] = []
        flag = "state.recording" if recorded else "not state.recording"
        self._refuse_unless(f"len(args) == {len(form)} and epoch[0] == born and state.training is training and {flag}")
        self._unpack(form)
        for k, t in enumerate(types):
            self.names[f"t{k}"] = t
        self._refuse_unless(
            " and ".join(f"x{k}.__class__ is NDArray and x{k}._type is t{k}" for k in range(len(types)))
        )

    def _refuse_unless(self, condition: str) -> None:
        self._refuse(f"not ({condition})")

    def _refuse(self, condition: str) -> None:
        self.lines += [f"if {condition}:", "    return slow(args)"]

    def _unpack(self, form: Sequence[Any]) -> None:
        numbers = count()
        parts: list[str] = []
        inner: list[tuple[str, list[str]]] = []
        for k, f in enumerate(form):
            if f == 0:
                parts.append(f"x{next(numbers)}")
                continue
            parts.append(f"a{k}")
            inner.append((f"a{k}", [] if f == -1 else [f"x{next(numbers)}" for _ in f]))
        self.lines.append(f"{', '.join(parts)}, = args")
        for (name, arrays), f in zip(inner, [f for f in form if f != 0], strict=True):
            if f == -1:
                self._refuse_unless(f"{name} is None")
                continue
            self._refuse_unless(f"({name}.__class__ is list or {name}.__class__ is tuple) and len({name}) == {len(f)}")
            if arrays:
                self.lines.append(f"{', '.join(arrays)}, = {name}")

    def start(self, made: Compiled, whole: Fixed, ctx: Context, arguments: Sequence[int], pooled: bool) -> None:
        """Lines that run the program: results are y0, y1 …, and ``words`` the random state if there is one.

        Args:
            made: its whole program is one foreign call.
            arguments: the numbers of those arrays whose addresses are passed, in order.
        """
        bound = made.loaded.bind(whole.addresses)
        entry, table, fixed = bound.entry
        self.names |= {"entry": entry, "table": table, "fixed": fixed, "alive": (bound, whole)}
        passed = [f"x{k}._address or x{k}.address" for k in arguments]
        if made.draws:
            self.names |= {"Words": _Words, "next_words": next_words, "addressof": ctypes.addressof, "ctx": ctx}
            self.lines.append("words = Words(*next_words(ctx))")
            passed.append("addressof(words)")
        for k, t in enumerate(made.outputs):
            self.names[f"take{k}"] = taking(t, ctx, pooled, made)
            self.lines.append(f"y{k} = take{k}()")
            passed.append(f"y{k}._address")
        assert made.program is not None
        if made.program.arena_bytes:
            free = made.loaded.free
            self.names |= {"free": free, "make_arena": made.loaded.arena}
            self.lines.append("arena = free.pop() if free else make_arena()")
            self.lines += [f"entry(arena[1], table, fixed, {', '.join(passed)})", "free.append(arena)"]
        else:
            self.lines.append(f"entry(0, table, fixed, {', '.join(passed)})")

    def write(self, target: NDArray | int, result: int) -> None:
        """A line that gives an argument (by number) or a parameter a result as its new value."""
        name = f"x{target}"
        if not isinstance(target, int):
            name = f"p{result}"
            self.names[name] = target
        self.lines.append(f"assign({name}._data, y{result}._data)")

    def histories(self, known: Known) -> None:
        """Lines before the start of a recorded call: what arrays know of gradients is as it was, and stands in ``inputs``."""
        self.names |= {"infos": known.infos, "data": known.data}
        for k, (parameter, info) in enumerate(known.fixed):
            self.names |= {f"f{k}": parameter, f"g{k}": info}
        if known.fixed:
            self._refuse_unless(" and ".join(f"f{k}._autograd is g{k}" for k in range(len(known.fixed))))
        self.lines += ["inputs = infos.copy()", "arrays = data.copy()"]
        for k, s, wanted in known.moving:
            self.lines += [f"arrays[{k}] = x{s}._data", f"i = x{s}._autograd"]
            self.lines += ["if i is not None:", f"    i = inputs[{k}] = history(x{s})"]
            found = "i is not None and (i.node is not None or i.grad_req != 'null')"
            self._refuse(f"not ({found})" if wanted else found)

    def node(self, known: Known, program: Training, ctx: Context) -> None:
        """Lines after the start of a recorded call: its node, and results v0, v1 … that are in the recorded graph."""
        self.names |= {"TrainingCall": TrainingCall, "GradientInfo": GradientInfo, "frombuffer": np.frombuffer}
        self.names |= {
            "program": program,
            "types": known.types,
            "origin": known.origin,
            "ctx": ctx,
            "uint32": np.uint32,
        }
        values = {
            "inputs": "inputs",
            "types": "types",
            "released": "False",
            "arrays": "arrays",
            "ctx": "ctx",
            "seed": "frombuffer(words, uint32)" if program.forward.draws else "None",
            "writes": _listed(f"(arrays[{k}], y{r}._data, {keep!r})" for r, k, keep in known.late),
            "program": "program",
            "kept": _listed(f"y{k}._data" for k in program.kept),
            "origin": "origin",
            "at": _listed(f"x{s}._address" for _, s, _ in known.moving),
            "kept_at": _listed(f"y{k}._address" for k in program.kept),
        }
        self.lines += ["node = new(TrainingCall)", *(f"node.{name} = {value}" for name, value in values.items())]
        # arrays of their own: one that waits in a pool would hold the recorded graph
        for k in range(program.heads):
            self.lines += [f"v{k} = new(NDArray)", f"v{k}._data = y{k}._data", f"v{k}._type = y{k}._type"]
            self.lines += [f"v{k}._address = y{k}._address", f"v{k}._autograd = i = new(GradientInfo)"]
            self.lines += ["i.grad, i.grad_req, i.node, i.index, i.fresh = None, 'null', node, " + str(k) + ", False"]

    def finish(self, name: str, form: Any, results: str) -> Callable[..., Any]:
        """The function, whose name is ``name``; its results, x0, x1 … if ``results`` is x, are put together as ``form``."""
        numbers = count()
        self.lines.append(f"return {_expression(form, lambda: f'{results}{next(numbers)}')}")
        exec(_code(f"def {name}(*args):\n" + "".join(f"    {line}\n" for line in self.lines)), self.names)
        call: Callable[..., Any] = self.names.pop(name)  # it holds the names: no cycle
        return call


def _expression(form: Any, result: Callable[[], str]) -> str:
    """What ``nested.regroup`` makes of results of that form."""
    if form == 0:
        return result()
    inner = [0] * form if isinstance(form, int) else form
    return _listed([_expression(f, result) for f in inner])


def _listed(values: Iterable[str]) -> str:
    return f"[{', '.join(values)}]"


@lru_cache(maxsize=256)
def _code(text: str) -> CodeType:
    return compile(text, "<prepared call>", "exec")
