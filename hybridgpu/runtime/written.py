# SPDX-License-Identifier: Apache-2.0
"""Prepared calls as Python that is written for one signature, on the host.

What a loop over arguments, results or nested lists would find out at every call is known when the call is prepared.
So the function is written out: a line for each list of arguments, one condition for all types, one foreign call, one
expression for the result, and no frames but those of what has to be called. Texts say nothing of a net but the shape of its call,
so that those of many nets are one code object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import TYPE_CHECKING, Any

from ..backends.write_tracking import assign
from ..core.autograd_state import ResultInfo, history, state
from ..core.rng import drawing
from ..ndarray.binding_version import binding_version
from ..ndarray.ndarray import NDArray
from .dispatch.pools import REFS_ONE, REFS_TWO, OutputPool, ScratchPool, StoragePool
from .recorded_program import RecordedCall, RecordedProgram
from .start import Fixed
from .structured import function, listed, refusal, together, unpacking

if TYPE_CHECKING:
    from ..context import Context
    from .compilation import Compiled
    from .prepared_recorded import Known

__all__ = ["Writer"]


class Writer:
    """The text of a prepared call, and the objects that it names.

    Args:
        form: of the arguments, see structured.py.
        types: the type of each array, in order.
        array: the class of each.
        born: the epoch in which addresses of parameters are right.
        training: the flag that calls have to find.
        slow: what takes the arguments, as a tuple, of all other calls.
        recording: for calls under ``autograd.record``, or for others.
    """

    def __init__(
        self,
        form: Sequence[Any],
        types: Sequence[Any],
        array: type[NDArray],
        born: int,
        training: bool,
        slow: Callable[..., Any],
        recording: bool,
    ) -> None:
        self.names: dict[str, Any] = {
            "array": array,
            "assign": assign,
            "born": born,
            "binding_version": binding_version,
            "history": history,
            "new": object.__new__,
            "slow": slow,
            "state": state,
            "training": training,
        }
        self.lines: list[str] = []
        flag = "state.recording" if recording else "not state.recording"
        self._refuse_unless(
            f"len(args) == {len(form)} and binding_version[0] == born and state.training is training and {flag}"
        )
        self.lines += unpacking(form, self.names)
        for k, t in enumerate(types):
            self.names[f"t{k}"] = t
        self._refuse_unless(" and ".join(f"x{k}.__class__ is array and x{k}._type is t{k}" for k in range(len(types))))

    def _refuse_unless(self, condition: str) -> None:
        self.lines += refusal(f"not ({condition})")

    def start(
        self,
        made: Compiled,
        whole: Fixed,
        ctx: Context,
        arguments: Sequence[int],
        heads: int,
        reuse: bool,
        recorded: bool = False,
        kind: Any = None,
    ) -> None:
        """Lines that run the program.

        Data of result k is d{k} then, and its address at{k}. Results are y0, y1 … Everything
        else that the call needs is in one room, so that it costs one look at what is free.

        Args:
            made: its whole program is one foreign call.
            arguments: the numbers of those arrays whose addresses are passed, in order.
            heads: how many of the program's results the caller sees.
            reuse: give memory of results that are free out again.
            recorded: :meth:`node` follows, which makes the results.
            kind: of the results otherwise, as for ``wrap``.
        """
        bound = made.loaded.bind(whole.addresses)
        self.names |= bound.names | {"whole": whole}
        passed = [f"x{k}._address or x{k}.address" for k in arguments]
        hidden = made.outputs[heads:]
        places = range(heads, len(made.outputs))
        found = [*(f"d{k}" for k in places), *(f"at{k}" for k in places)]
        if made.draws:
            self.names["draw"] = drawing(ctx)
            found += ["words", "seed", "seed_at"]
        if found:
            self.names["take_room"] = ScratchPool(hidden, made.draws, reuse).take
            self.lines.append(f"{', '.join(found)}, = room = take_room()")
        if made.draws:
            self.lines.append("words[:] = draw()")
            passed.append("seed_at")
        for k, t in enumerate(made.outputs[:heads]):
            if recorded:
                self._data_of(k, StoragePool(t, reuse))
                passed.append(f"at{k}")
            else:
                self.names[f"take{k}"] = OutputPool(t, ctx, kind).take
                self.lines.append(f"y{k} = take{k}()")
                passed.append(f"y{k}._address")
        passed += [f"at{k}" for k in places]
        self.lines += bound.lines(", ".join(passed))

    def _data_of(self, k: int, pool: StoragePool) -> None:
        """Lines that take the data of result k: most often what the last call had is free, which is seen without a call."""
        self.names[f"take{k}"] = pool.take
        if not pool.reuse:
            self.lines.append(f"d{k}, _, at{k} = take{k}()")
            return
        self.names |= {f"last{k}": pool.take(), "count": getrefcount, "one": REFS_ONE, "two": REFS_TWO}
        self.lines.append(f"d{k}, m, at{k} = last{k}")
        self.lines.append(f"if count(d{k}) != one or count(m) != two: d{k}, m, at{k} = take{k}()")

    def apart(self, test: Callable[[Sequence[NDArray]], bool] | None, arguments: int) -> None:
        """Lines before the start: what shares memory that the call writes is left to others.

        Args:
            test: see ``overlaps.overlap_test``.
            arguments: how many arrays there are.
        """
        if test is not None:
            self.names["shares_memory"] = test
            self.lines += refusal(f"shares_memory({listed(f'x{k}' for k in range(arguments))})")

    def write(self, target: NDArray | int, result: int) -> None:
        """A line that gives an argument (by number) or a parameter a result as its new value."""
        name = f"x{target}"
        if not isinstance(target, int):
            name = f"p{result}"
            self.names[name] = target
        self.lines.append(f"assign({name}._data, d{result})")

    def untracked(self, arguments: int, parameters: Sequence[NDArray]) -> None:
        """Lines before the start of a call under ``autograd.record`` that is not recorded: nothing of the recorded graph
        goes into it."""
        for k in range(arguments):
            self.lines += refusal(f"x{k}._autograd is not None and history(x{k}) is not None")
        for k, p in enumerate(parameters):
            self.names[f"f{k}"] = p
            self.lines += refusal(f"f{k}._autograd is not None")

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
            self.lines += refusal(f"not ({found})" if wanted else found)

    def node(self, known: Known, program: RecordedProgram, ctx: Context, kind: Any) -> None:
        """Lines after the start of a recorded call: its node, and results y0, y1 … that are in the recorded graph."""
        self.names |= {
            "RecordedCall": RecordedCall,
            "ResultInfo": ResultInfo,
            "program": program,
            "types": known.types,
            "made": kind or NDArray,
            "origin": known.origin,
            "reader": known.reader,
            "ctx": ctx,
        }
        hidden = len(program.forward.outputs) > program.heads or program.forward.draws
        values = {
            "inputs": "inputs",
            "types": "types",
            "released": "False",
            "arrays": "arrays",
            "ctx": "ctx",
            "seed": "seed" if program.forward.draws else "None",
            "writes": listed(f"(arrays[{k}], d{r}, {keep!r})" for r, k, keep in known.late),
            "program": "program",
            "residuals": listed(f"d{k}" for k in program.residuals),
            "template": "origin",
            "addresses": listed(f"x{s}._address" for _, s, _ in known.moving),
            "residual_addresses": listed(f"at{k}" for k in program.residuals),
            "scratch": "room" if hidden else "None",
            "mark": "reader.mark",
        }
        self.lines += ["node = new(RecordedCall)", *(f"node.{name} = {value}" for name, value in values.items())]
        for k, t in enumerate(known.types):
            self.names[f"r{k}"] = t
            self.lines += [f"y{k} = new(made)", f"y{k}._data = d{k}", f"y{k}._type = r{k}", f"y{k}._address = at{k}"]
            self.lines += [
                f"y{k}._autograd = i = new(ResultInfo)",
                "i.node = node",
                f"i.index = {k}",
                "i.fresh = False",
            ]

    def finish(self, name: str, form: Any) -> Callable[..., Any]:
        """The function, whose name is ``name``; its results are put together as ``form``."""
        self.lines.append(f"return {together(form, 'y', self.names)}")
        return function(f"{name}(*args)", self.lines, self.names)
