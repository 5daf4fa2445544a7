# SPDX-License-Identifier: Apache-2.0
"""Records of devices: constants with a unit, a source, and whether they were measured.

Two records, :class:`.cpu.CpuConstants` and :class:`.gpu.GpuConstants`, hold every figure that describes a device rather
than a decision of the compiler: seconds, rates, latencies, sizes of caches, limits. Those of array libraries are in
:mod:`.array_library`. Tile sizes and thresholds that were chosen to fit them stay beside the code that uses them, and are
written as shares of these figures where they are that.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ...core.dataclass import dataclass, field

__all__ = ["Constant", "DeviceConstants", "constant", "constants_of"]


def constant(default: Any, unit: str, about: str, source: str, measured: bool = False) -> Any:
    """A field of a record.

    Args:
        unit: such as 's', 'bytes', 'cycles'; 'count' for plain numbers, 'share' for parts of one.
        about: what it is, in words.
        source: where the default comes from: 'assumed' and why, a document, or where it was measured.
        measured: the default was measured on a device of this kind.
    """
    return field(default=default, metadata={"unit": unit, "about": about, "source": source, "measured": measured})


@dataclass(frozen=True)
class Constant:
    """The description of a record's field; see :func:`constant`."""

    name: str
    default: Any
    unit: str
    about: str
    source: str
    measured: bool


def constants_of(record: Any) -> tuple[Constant, ...]:
    """Every constant of a record, in its order."""
    return tuple(Constant(f.name, f.default, **f.metadata) for f in fields(record))


@dataclass(frozen=True)
class DeviceConstants:
    """The figures that both kinds of device have: what cost models compare everything with.

    Besides constants there are traits, class attributes that say what kind of device it is. Passes ask for these, not for
    the target's name:

    Attributes:
        loop_nests: a kernel is a nest of loops, whose innermost ones are vectors: what does not depend on a loop is
            computed before it, and loops over windows compute an element for each window.
        has_shared_memory: a kernel is a grid of blocks, whose threads exchange values on chip.
        host_memory: arrays lie in the host's memory, where NumPy reads and writes them in any place.
        scatters_in_result: a scatter adds up in the memory of its first result, not on chip.
        saves_library_operands: operands that a library reads from memory are worth keeping for the backward pass.
        library_swaps_axes: a library's convolution takes operands whose first two axes are exchanged in memory.
        in_place_bytes: bytes of operands that are written over wherever that may be; None: where it lowers the peak.
    """

    loop_nests = False
    has_shared_memory = False
    host_memory = False
    scatters_in_result = False
    saves_library_operands = False
    library_swaps_axes = False

    @property
    def in_place_bytes(self) -> int | None:
        return None

    op_seconds: float
    byte_seconds: float
    launch_seconds: float
    product_load_ops: float
    row_load_ops: int
    concat_trips: float
    concat_operands: int
    concat_step_operands: int
    pointer_alignment: int
    strided_read_bytes: int
    contiguous_run: int

    def rate(self, blocks: int) -> float:
        """Bytes a second that so many blocks read together."""
        raise NotImplementedError

    def seconds_a_byte(self, nbytes: float) -> float:
        """Seconds to write, or to read, a byte of an array of ``nbytes`` that is read soon."""
        return self.byte_seconds
