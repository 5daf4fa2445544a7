# SPDX-License-Identifier: Apache-2.0
"""A Trainer's step on one device: one compiled program of all weights, or operator by operator.

Which of the two it is makes no difference to the numbers, so it is decided by what it costs. Of small weights compiling pays
after some hundred steps on the CPU, and after far fewer on a GPU, where each operator is a launch, and NVRTC is faster than a
host's compiler. By default it happens at step AFTER or AFTER_ON_GPU with the same arrays, or at the first one where the
program lies on disk, or the weights have LARGE elements together: operators are compiled for these, too, and copy what
they update. LAMB sums, and a compiled sum rounds in another order: there it is the first step in any case, so
that runs are reproducible, and only where a parameter belongs to a hybridized block, whose user asked for compiled code.
``HYBRIDGPU_FUSED_UPDATES`` can be ``never`` or ``always`` (at the first step, whatever the block).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..backends.devices import device_of
from ..backends.write_tracking import storage
from ..base import MXNetError
from ..core.autograd_state import state as recording
from ..core.dataclass import dataclass, field
from ..core.settings import fused_updates
from ..ndarray import NDArray
from ..optimizer import Optimizer, Updater
from ..optimizer.single_op import ByOperator, ManyByOperator
from ..runtime.cached_op import is_compiled
from ..runtime.dispatch.prepare import ALIGNED
from ..runtime.optimizer_programs import Update, UpdateProgram, UpdateSpec, available, update_program
from ..runtime.reports.explain import Explanation
from .parameter import Parameter

__all__ = ["StepExplanation", "TrainerSteps"]

AFTER, AFTER_ON_GPU = 100, 3  #: the step with the same arrays at which they are compiled
LARGE = 1 << 20  #: elements of weights that are compiled at the first step
_SETS = 64  #: sets of arrays whose steps are counted
_GPU = 2  #: number of that type of device

Row = tuple[int, NDArray, NDArray]  #: index, gradient, weight


@dataclass
class StepExplanation:
    """How a Trainer makes its steps; ``print`` it.

    Attributes:
        programs: an Explanation for each program of the last compiled step, one an element type and device.
        reasons: why steps run operator by operator; empty if all are compiled.
    """

    programs: list[Explanation] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def fused(self) -> bool:
        """Whether every step is compiled."""
        return not self.reasons

    def __str__(self) -> str:
        lines = [f"steps run operator by operator: {reason}" for reason in self.reasons]
        return "\n".join([*lines, *map(str, self.programs)])


def why_not(updater: Any) -> str:
    """Why the steps of an updater cannot be compiled, '' if they can."""
    if type(updater) is not Updater:
        return f"{type(updater).__name__} is an updater of its own"
    optimizer = updater.optimizer
    kind = type(optimizer)
    ours = Optimizer.__module__.rpartition(".")[0]
    for name in ("update", "update_multi_precision", "_hg_step"):
        method = getattr(kind, name, None)
        if method is not None and not method.__module__.startswith(ours):
            return f"{kind.__name__} overrides {name}"
    if not isinstance(optimizer, ByOperator):
        return f"{kind.__name__} computes its steps with several operators"
    if isinstance(optimizer, ManyByOperator) and optimizer.aggregate_num < optimizer._hg_least:
        return f"aggregate_num is {optimizer.aggregate_num}"
    return ""


class _Group(NamedTuple):
    """The weights of one element type: their places among all, and what updates them."""

    places: list[int]
    update: Update


class _Repeat(NamedTuple):
    """A compiled step and what has to be as it was for the next one to be the same."""

    updater: Any
    optimizer: Any
    states: dict[Any, Any]
    call: Any  #: of the first weight, as a sample of the optimizer's constants
    precision: tuple[bool, int]
    requests: list[tuple[Parameter, str | None]]
    rows: list[tuple[int, Parameter, NDArray, Any, NDArray, Any, Any]]
    groups: list[_Group]
    indices: list[int]


class TrainerSteps:
    """Steps on one device.

    Args:
        params: of the Trainer.
        place: number of the device among those of the parameters.

    Attributes:
        reason: why the last step ran operator by operator, '' if it was compiled.
    """

    def __init__(self, params: Sequence[Parameter], place: int) -> None:
        self._params, self._place = list(params), place
        self._mode = fused_updates()
        self._seen: dict[Any, int] = {}
        self._refused: dict[UpdateSpec, str] = {}  # and why no program can be made
        self._repeat: _Repeat | None = None
        #: of the last step, where it was compiled, with the names of the weights
        self._last: list[tuple[UpdateProgram, list[str]]] = []
        self.reason = "there was no step yet"

    def explain(self) -> StepExplanation:
        """See :meth:`Trainer.explain`."""
        if self.reason:
            return StepExplanation([], [self.reason])
        programs = []
        for program, weights in self._last:
            recipe = program.spec
            programs.append(Explanation(recipe.name, program.executable.named(recipe.names(weights))))
        return StepExplanation(programs, [])

    # -- the next step like the last one

    def fits(self, updater: Any) -> bool:
        """Whether the last step was compiled and the next is like it: the same arrays, all with new gradients."""
        r, k = self._repeat, self._place
        if r is None or r.updater is not updater or updater.optimizer is not r.optimizer or recording.recording:
            return False
        states = updater.states
        if states is not r.states or r.precision != _precision(r.optimizer) or r.groups[0].update.device.is_capturing():
            return False
        for p, request in r.requests:
            if p._grad_req != request:
                return False
        for index, p, weight, data, grad, info, state in r.rows:
            if (
                p._data is None
                or p._grad is None
                or p._data[k] is not weight
                or p._grad[k] is not grad
                or weight._data is not data
                or weight._autograd is not info
                or not info.fresh
                or states.get(index) is not state
            ):
                return False
        same: bool = r.call == _call(r.optimizer, r.rows[0][2], r.rows[0][6])
        return same

    def repeat(self) -> None:
        """Make the step that fits."""
        r = self._repeat
        assert r is not None
        r.optimizer._set_current_context(r.rows[0][2].context.device_id)
        for row in r.rows:
            row[5].fresh = False
        _run(r.optimizer, r.indices, r.groups)

    # -- any step

    def __call__(self, updater: Any, rows: Sequence[Row]) -> None:
        """Make a step for some of the parameters."""
        self._repeat = None
        indices, grads, weights = (list(column) for column in zip(*rows, strict=True))
        before = [w._data for w in weights]
        groups = self._groups(updater, rows)
        if groups is None:
            updater(indices, grads, weights)
            return
        optimizer = updater.optimizer
        self._last = [(g.update.program, [self._params[indices[k]].name for k in g.places]) for g in groups]
        _run(optimizer, indices, groups)
        infos = [w._autograd for w in weights]
        # a step that left parameters out says nothing of the next one, in which they may have new gradients
        learned = sum(p.grad_req != "null" for p in self._params)
        stayed = all(w._data is data for w, data in zip(weights, before, strict=True))  # while programs were bound
        if len(set(indices)) == len(indices) == learned and stayed and all(i is not None for i in infos):
            states = updater.states
            self._repeat = _Repeat(
                updater,
                optimizer,
                states,
                _call(optimizer, weights[0], states[indices[0]]),
                _precision(optimizer),
                [(p, p._grad_req) for p in self._params],
                [
                    (i, self._params[i], w, data, g, info, states[i])
                    for i, g, w, data, info in zip(indices, grads, weights, before, infos, strict=True)
                ],
                groups,
                indices,
            )

    def _groups(self, updater: Any, rows: Sequence[Row]) -> list[_Group] | None:
        """What updates the weights, None if operators do."""
        self.reason = self._refusal(updater, rows[0][2].context)
        if self.reason:
            return None
        optimizer = updater.optimizer
        ctx = rows[0][2].context
        optimizer._set_current_context(ctx.device_id)
        indices, weights = [i for i, _, _ in rows], [w for _, _, w in rows]
        updater.make_states(indices, weights)
        if updater.cast_since(indices, weights):
            self.reason = "parameters were cast since their states were made"
            return None
        by_type: dict[Any, list[int]] = {}
        for k, (_, _, w) in enumerate(rows):
            by_type.setdefault(w.dtype, []).append(k)
        arrays: list[list[NDArray]] = []
        recipes: list[UpdateSpec] = []
        for places in by_type.values():
            recipe = _recipe(optimizer, [rows[k] for k in places], updater.states)
            if isinstance(recipe, str):
                self.reason = recipe
                return None
            recipes.append(recipe[0])
            arrays.append(recipe[1])
        programs = self._programs(optimizer, recipes, ctx)
        if programs is None:
            return None
        self.reason = _conflict([a for group in arrays for a in group], ctx.device_typeid == _GPU)
        if self.reason:
            return None
        return [
            _Group(places, Update(program, group))
            for places, program, group in zip(by_type.values(), programs, arrays, strict=True)
        ]

    def _refusal(self, updater: Any, ctx: Any) -> str:
        if self._mode == "never":
            return "HYBRIDGPU_FUSED_UPDATES is never"
        if device_of(ctx).is_capturing():  # learning rates and decays reach a program by a copy from the host
            return "the step was captured into a CUDA graph"
        if recording.recording:
            return "the step was made under autograd.record()"
        reason = why_not(updater)
        if reason or self._mode != "auto" or updater.optimizer._hg_exact or any(map(is_compiled, self._params)):
            return reason
        return "its sums round in another order, and no parameter belongs to a hybridized block that was called"

    def _programs(self, optimizer: Any, recipes: list[UpdateSpec], ctx: Any) -> list[UpdateProgram] | None:
        """The programs of all recipes, None if it is too early to compile them."""
        key = tuple(recipes)
        if len(self._seen) >= _SETS and key not in self._seen:
            self._seen.clear()
        count = self._seen[key] = self._seen.get(key, 0) + 1
        if device_of(ctx).backend() is None:
            self.reason = "there is no compiler"
            return None
        after = AFTER if ctx.device_typeid != _GPU else AFTER_ON_GPU
        large = sum(row[0].size for recipe in recipes for row in recipe.rows) >= LARGE
        early = self._mode == "auto" and optimizer._hg_exact and count < after and not large
        if early and not all(available(r, ctx, on_disk=count == 1) for r in recipes):
            self.reason = f"they are compiled at step {after}"
            return None
        programs = []
        for recipe in recipes:
            program = None
            if recipe not in self._refused:
                try:
                    program = update_program(recipe, ctx, f"step {count} of a Trainer")
                    if program is None:
                        self._refused[recipe] = "there is no compiler that works"
                except MXNetError as e:  # the operator refuses these arrays, and will say so
                    self._refused[recipe] = str(e)
            if program is None:
                self.reason = self._refused[recipe]
                return None
            programs.append(program)
        return programs


def _precision(optimizer: Any) -> tuple[bool, int]:
    return optimizer.multi_precision, optimizer.aggregate_num


def _call(optimizer: Any, weight: NDArray, state: Any) -> tuple[Any, ...]:
    """The operator of a weight, its constants, the arrays behind weight and gradient, and whether a copy is one."""
    copied = optimizer._hg_keeps_copy(weight)
    if copied and not optimizer._hg_takes_copies:
        copy, own = state
        call = optimizer._hg_call(own, False)
        return call.operator, call.constants, (copy, *call.states), True
    call = optimizer._hg_call(state, copied)
    return call.operator, call.constants, tuple(call.states), False


def _recipe(optimizer: Any, rows: Sequence[Row], states: dict[Any, Any]) -> tuple[UpdateSpec, list[NDArray]] | str:
    """What updates weights of one type, with their arrays; or why it cannot be compiled."""
    arrays: list[NDArray] = []
    types = []
    first: tuple[Any, ...] | None = None
    for index, grad, weight in rows:
        operator, constants, state_arrays, wrapped = _call(optimizer, weight, states[index])
        if first is None:
            first = operator, constants, wrapped
        elif first != (operator, constants, wrapped):
            return "weights of one type are updated in different ways"
        row = (weight, grad, *state_arrays)
        if not all(isinstance(x, NDArray) for x in row):
            return "a state is no array"
        arrays += row
        types.append(tuple(x._type.tensor for x in row))
    assert first is not None
    operator, constants, wrapped = first
    if len({len(t) for t in types}) > 1:
        return "weights of one type have different states"
    many = optimizer._hg_count if isinstance(optimizer, ManyByOperator) else ""
    return UpdateSpec(operator, tuple(sorted(constants.items())), many, wrapped, tuple(types)), arrays


def _conflict(arrays: Sequence[NDArray], on_device: bool) -> str:
    """Why a program cannot write into these arrays, '' if it can."""
    if not all(a.size for a in arrays):
        return "a parameter is empty"
    if len({id(storage(a._data)) for a in arrays}) < len(arrays):
        return "two of the arrays share memory"
    if on_device and any(a.address & ALIGNED for a in arrays):
        return "an array does not start at a multiple of 16 bytes"
    return ""


def _run(optimizer: Any, indices: list[int], groups: Sequence[_Group]) -> None:
    """Count the updates and run the programs."""
    if isinstance(optimizer, ManyByOperator):
        for group in groups:
            group.update([_together(optimizer, [indices[k] for k in group.places])])
        return
    begin: Callable[[int], dict[str, Any]] = optimizer._hg_numbers
    numbers = [begin(i) for i in indices]
    for group in groups:
        group.update([numbers[k] for k in group.places] if len(groups) > 1 else numbers)


def _together(optimizer: Any, indices: list[int]) -> dict[str, Any]:
    """The numbers of many weights, counted in the pieces in which operators would take them."""
    size = optimizer.aggregate_num
    numbers: dict[str, Any] = optimizer._hg_numbers(indices[:size])
    for start in range(size, len(indices), size):
        more = optimizer._hg_numbers(indices[start : start + size])
        for name, value in more.items():
            if isinstance(value, list):
                numbers[name] = numbers[name] + value
    return numbers
