# SPDX-License-Identifier: Apache-2.0
"""The figures of a launch."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

__all__ = ["Access", "FIGURES", "Report", "Traffic"]


@dataclass(frozen=True)
class Traffic:
    """Bytes of global memory that one buffer gave and took in a launch.

    read, written: all accesses added up, each access at its size; atomics count in neither but in
    atomic. read_unique, written_unique: distinct bytes; the latter with those of atomics.
    """

    read: int = 0
    written: int = 0
    atomic: int = 0
    read_unique: int = 0
    written_unique: int = 0


@dataclass(frozen=True)
class Access:
    """One load or store instruction as the traced warps executed it.

    sectors: 32-byte sectors of global memory that their requests touched, ideal: the least that
    hold the bytes. bank_conflict: the most words that a request took from one shared-memory bank.
    """

    line: int | None
    space: str
    write: bool
    bytes: int
    requests: int
    sectors: int
    ideal: int
    bank_conflict: int


@dataclass
class Report:
    """What a launch did. Memory figures are bytes, or count accesses; 'wide' ones have 16 bytes.

    They are those of the source as g++ compiles it, identical from run to run; the figures of
    memory are 0 where the kernel was compiled with check=False.
    """

    global_read: int = 0
    global_written: int = 0
    shared_read: int = 0
    shared_written: int = 0
    global_loads: int = 0
    global_stores: int = 0
    wide_loads: int = 0
    wide_stores: int = 0
    atomics: int = 0
    barriers: int = 0
    warp_ops: int = 0
    grid_barriers: int = 0
    cluster_barriers: int = 0
    async_copies: int = 0
    async_bytes: int = 0
    prefetches: int = 0
    prefetched: int = 0
    threads: int = 0
    switches: int = 0
    static_shared: int = 0
    accesses: list[Access] = field(default_factory=list)
    traffic_rows: bytes = field(default=b"", repr=False)

    @property
    def traffic(self) -> dict[str, Traffic]:
        """For each buffer an argument points to, by its name ('name#2' for the second such)."""
        found: dict[str, Traffic] = {}
        for *figures, raw in _ROW.iter_unpack(self.traffic_rows):
            name = raw.split(b"\0")[0].decode(errors="replace")
            key, count = name, 1
            while key in found:
                count += 1
                key = f"{name}#{count}"
            found[key] = Traffic(*figures)
        return found


FIGURES = tuple(Report.__dataclass_fields__)[:20]  # in the order of 'struct Report'
_ROW = struct.Struct("<5Q56s")
