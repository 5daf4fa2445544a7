# SPDX-License-Identifier: Apache-2.0
"""Updates of many weights by an optimizer's operator, compiled into one program that writes in place.

The program is lowered from the operator's own record. Learning rates, weight decays, the gradients' factor and the
number of the step are arguments (ops/dynamic_attributes.py): a schedule or another batch size needs no other program.
Weights and states are written where they are, which the compiler arranges (compiler/passes/memory/buffer_donation.py). The numeric mode is always
strict, so that a compiled step gives the bits of an eager one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..backends.device_errors import raise_translated
from ..backends.devices import Device, device_of
from ..backends.memory import aligned_bytes, empty
from ..backends.write_tracking import assign, notify_writes
from ..base import MXNetError
from ..cache.disk_cache import default_store
from ..compiler.ir import Node
from ..compiler.ir.graph import Graph, Provenance
from ..compiler.ir.types import TensorType
from ..compiler.primitives import builder
from ..context import Context
from ..core.dtypes import f64
from ..core.fork_safe_lock import Lock
from ..core.name_table import GRAPH, NameTable, name_placeholder
from ..ndarray.ndarray import NDArray
from ..ops import OPERATORS
from ..ops.dynamic_attributes import DynamicSlot, DynamicValues
from .compilation import LIMIT, Compilation, Compiled, store_key

__all__ = ["Update", "UpdateProgram", "UpdateSpec", "available", "update_program"]

_STRIDE = 16  #: bytes from number to number: kernels on a GPU want arguments that are aligned so


class UpdateSpec(NamedTuple):
    """The work of one program.

    Attributes:
        operator: its name.
        constants: attributes that are constants of the program.
        many: the attribute that holds the number of weights, for operators that take all of them; '' for those
            that take one.
        wrapped: the operator works on a float copy of each weight, which follows the gradient.
        rows: for each weight the types of weight, gradient (copy) and states.
    """

    operator: str
    constants: tuple[tuple[str, Any], ...]
    many: str
    wrapped: bool
    rows: tuple[tuple[TensorType, ...], ...]

    def _identity(self, backend: Any) -> str:
        return f"updates {backend.key()} {self!r}"

    def row_name(self, k: int, weight: str = "") -> str:
        """The name in reports of the update of row ``k``, whose weight may have a name."""
        return f"{self.operator.strip('_')} of {weight or f'weight {k}'}, {self.rows[k][0].shape}"

    def names(self, weights: Sequence[str] = ()) -> NameTable:
        """For reports; ``weights`` are the names of the weights, if they are known."""
        named = weights or [""] * len(self.rows)
        return NameTable(self.name, tuple([self.row_name(k, name) for k, name in enumerate(named)]))

    @property
    def name(self) -> str:
        """For reports."""
        one = len(self.rows) == 1
        return f"{self.operator.strip('_')} of {len(self.rows)} weight{'' if one else 's'}"


class UpdateProgram:
    """A compiled recipe.

    Attributes:
        spec: what it does.
        executable: the program. Its inputs are the arrays of all weights, row by row, then the numbers.
        slots: what the numbers are.
        updated: positions of the inputs that are written.
        rest: those among them that take results of the program, in order; the others are written by kernels.
    """

    def __init__(
        self, spec: UpdateSpec, executable: Compiled, slots: Sequence[DynamicSlot], over: Mapping[int, int]
    ) -> None:
        self.spec, self.executable, self.slots = spec, executable, list(slots)
        self.updated = sorted(over.values())
        assert executable.program is not None
        done = {k for k, _ in executable.program.input_output_aliases}
        self.rest = [over[k] for k in sorted(over) if k not in done]


def _lower(spec: UpdateSpec) -> tuple[Graph, list[DynamicSlot], dict[int, int]]:
    """The graph, its numbers, and which result replaces which input."""
    b = builder()
    op, constants = OPERATORS[spec.operator], dict(spec.constants)
    op = op.in_place or op
    b.prov = Provenance(op.name, op.name.strip("_"))
    late = DynamicValues(b)
    rows = [[b.input(t, f"w{k}_{j}") for j, t in enumerate(row)] for k, row in enumerate(spec.rows)]
    stride = len(rows[0])
    results: list[Node] = []
    over: dict[int, int] = {}

    def replace(position: int, value: Node) -> None:
        over[len(results)] = position
        results.append(value)

    if spec.many:
        values = late.values(op, 0, {**constants, spec.many: len(rows)}, len(rows))
        outputs = op.build(b, values, [x for row in rows for x in row])
        for k in range(len(rows)):
            replace(k * stride, outputs[k])
        for write in op.writes(values, False):
            replace(write.target, outputs[write.result])
    else:
        for k, (weight, grad, *states) in enumerate(rows):
            b.prov = Provenance(op.name, name_placeholder(k))
            values = late.values(op, k, constants, 1)
            first = 0
            if spec.wrapped:
                copy, *states = states
                outputs = op.build(b, values, [copy, b.cast(grad, copy.dtype), *states])
                replace(k * stride, b.cast(outputs[0], weight.dtype))
                first = 1  # what follows the weight follows the copy's gradient, which is not stored
                replace(k * stride + 2, outputs[0])
            else:
                outputs = op.build(b, values, [weight, grad, *states])
                replace(k * stride, outputs[0])
            for write in op.writes(values, False):
                replace(k * stride + first + write.target, outputs[write.result])
    return b.finish(results, GRAPH), late.slots, over


_memory: dict[Any, UpdateProgram] = {}
_building = Lock()


def _key(spec: UpdateSpec, device: Device) -> Any:
    backend = device.backend()
    return spec, backend.key() if backend else "reference", id(device)


def available(spec: UpdateSpec, ctx: Context, on_disk: bool) -> bool:
    """Whether the program is there already, in this process or (if that is asked for) on disk."""
    device = device_of(ctx)
    backend = device.backend()
    if backend is None:
        return False
    if _key(spec, device) in _memory:
        return True
    return on_disk and default_store().get("program", store_key(spec._identity(backend))) is not None


def update_program(spec: UpdateSpec, ctx: Context, reason: str) -> UpdateProgram | None:
    """The program of a recipe, made if need be; None where there is no compiler.

    Args:
        reason: why it is made, for the report.
    """
    device = device_of(ctx)
    backend = device.backend()
    if backend is None:
        return None
    key = _key(spec, device)
    with _building:
        program = _memory.get(key)
        if program is None:
            identity = spec._identity(backend)
            graph, slots, over = _lower(spec)
            types = [n.type for n in graph.inputs]
            fixed = frozenset(range(len(types)))
            with Compilation(
                lambda *_: graph,
                types,
                device,
                fixed,
                spec.name,
                reason,
                identity,
                "strict",
                over=over,
                names=spec.names(),
            ) as job:
                executable = job.finish()
            if executable.program is None:
                return None
            program = UpdateProgram(spec, executable, slots, over)
            if len(_memory) >= LIMIT:
                del _memory[next(iter(_memory))]
            _memory[key] = program
    return program


class Update:
    """A program with the arrays it works on.

    Args:
        arrays: weight, gradient and states of each weight, as in the recipe. They have to stay where they are.

    Attributes:
        device: where they lie.
    """

    def __init__(self, program: UpdateProgram, arrays: Sequence[NDArray]) -> None:
        self.program = program
        executable = program.executable
        self.device = executable.device
        self._arrays = [a._data for a in arrays]
        self._updated = [self._arrays[k] for k in program.updated]
        self._targets = [self._arrays[k] for k in program.rest]
        count = len(program.slots)
        assert executable.program is not None
        dtype = executable.program.inputs[-1][1] if count else "f32"
        self._places = [(s.call, s.attribute, s.entry) for s in program.slots]
        #: positions whose number is more than the attribute, rounded to float
        double = dtype == f64.short
        self._computed = [(k, s) for k, s in enumerate(program.slots) if double or s.base is not None]
        self._host = aligned_bytes(max(1, count) * _STRIDE).view(np.float64 if double else np.float32)
        self._host = self._host.reshape(max(1, count), -1)
        self._numbers = self._host[:count, 0]
        on_device = executable.program.target == "cuda"
        self._block = self._host
        if on_device:
            with self.device.current():
                self._block = self.device.from_host(self._host)
        start = self.device.address(self._block)
        addresses = [self.device.address(a) for a in self._arrays] + [start + _STRIDE * k for k in range(count)]
        self._run = self._runner(on_device, tuple(addresses))

    def __call__(self, numbers: Sequence[Mapping[str, Any]]) -> None:
        """Make one step.

        Args:
            numbers: the varying attributes of each call of the operator.
        """
        values = [numbers[c][n] if e is None else numbers[c][n][e] for c, n, e in self._places]
        try:
            for k, slot in self._computed:
                values[k] = slot.value(numbers[slot.call])
            self._numbers[:] = values
        except (TypeError, ValueError):
            raise MXNetError(self._refusal(values)) from None
        device = self.device
        try:
            if device.needs_switch():
                with device.current():
                    self._run()
            else:
                self._run()
        except Exception as e:
            raise_translated(e)
        finally:
            notify_writes(self._updated)

    def _refusal(self, values: Sequence[Any]) -> str:
        """Which of the numbers is none."""
        for (_, name, _), value in zip(self._places, values, strict=True):
            if isinstance(value, NDArray):
                value = value.asnumpy()
            elif isinstance(value, (int, float, np.number)):
                continue
            return f"Invalid Parameter format for {name} expect float but value='{value}'\nGive a Python number."
        return f"a number of a step is none of {self._numbers.dtype}: {list(values)}"

    def _runner(self, on_device: bool, addresses: tuple[int, ...]) -> Any:
        executable, device, targets = self.program.executable, self.device, self._targets
        bound = executable.loaded.bind(addresses)
        call = None if on_device else bound.call
        scalars = [self._block[k, :1].reshape(()) for k in range(len(self.program.slots))]

        def run() -> None:
            results = [empty(device.xp, t.shape, t.dtype.np) for t in executable.outputs]
            if on_device:
                self._block[...] = device.from_host(self._host)
                bound.lane().run(tuple(map(device.address, results)), [*self._arrays, *scalars], results)
            elif call is None:
                bound([*self._arrays, *scalars], results)
            else:
                call([device.address(r) for r in results])
            for target, value in zip(targets, results, strict=True):
                assign(target, value)

        return run
