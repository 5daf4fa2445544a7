# SPDX-License-Identifier: Apache-2.0
"""ELF headers, which tell whether a shared library is complete: the system's loader believes them, and the process dies
of a signal at the first page that is missing."""

from __future__ import annotations

__all__ = ["HEADER", "is_complete"]

HEADER = 64  #: bytes of a file that are enough to tell


def is_complete(header: bytes, size: int) -> bool:
    """Whether a file of ``size`` bytes that begins with ``header`` reaches to the end of its section table, which linkers
    write last. True for what is no ELF file of 64 bits, which the loader of another system judges."""
    if header[:5] != b"\x7fELF\x02":
        return True
    order = "big" if header[5:6] == b"\x02" else "little"

    def number(begin: int, end: int) -> int:
        return int.from_bytes(header[begin:end], order)  # type: ignore[arg-type]

    return len(header) >= HEADER and number(40, 48) + number(58, 60) * number(60, 62) <= size
