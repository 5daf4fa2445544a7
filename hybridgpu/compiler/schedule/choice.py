# SPDX-License-Identifier: Apache-2.0
"""Decisions of schedules, for reports: nothing reads them to compile.

The names of numbers, as reports show them:

- *form*: the loops, where there are several kinds; *tile*: of the loops or lanes; *width*: elements of a row; *kept*: values
  of an element that are cached for later passes; *group*: rows of one pass; *run*: elements of a row that lanes take at once;
- *threads*, *blocks*, *cluster*: of a launch on CUDA; *team*: threads of a row; *vector*, *vectors*: elements of an access;
  *steps*: accesses of a thread, or kinds of kernels that are steps of one; *unroll*: steps that are taken together; *parts*: of a
  kernel, or of sums over all rows; *merged*: blocks that put such sums together;
- *column_sums*, *full_reductions*: reductions over all rows that a kernel computes besides, of columns, of everything;
- *reread_bytes*, *scanned*: bytes that are read a second time: of rows, of positions;
- *rows*, *columns*: of a patch, of a band, of a table in a block; *layers*: partial sums of an element of a product;
- *copies*: a convolution copies what it reads; *block*: output channels of a packed weight that lie side by side;
  *utilization*: the part of what it computes that counts; *phases*: of one with zeros between elements; *neighbours*: results
  of a thread; *window*, *lanes*: results that are reduced, and threads that share them;
  *along*, *swapped*: what vectors of a derivative by a weight run along, and whether its operands are swapped;
- *kernels*, *bodies*: that share a launch, and different ones among them; *iterations*, *barriers*, *registers*,
  *prefetched*: of a persistent kernel: iterations of each step, grid barriers, registers of a thread, bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...core.dataclass import dataclass, field

__all__ = ["Choice", "with_form"]


@dataclass(frozen=True)
class Choice:
    """The decisions for one kernel.

    Attributes:
        numbers: numbers and short names, by name; None, and a text that is empty, was not decided: reports do not show it.
        selected: why a kernel is generated rather than a library called, in words.
        prologue: which operands are computed as they are loaded, in words.
        why: why the kernel is as it is, in words.
        writes: which concat the results are parts of, in words.
    """

    numbers: Mapping[str, Any] = field(default_factory=dict)
    selected: str = ""
    prologue: str = ""
    why: str = ""
    writes: str = ""

    def report(self) -> dict[str, Any]:
        """Names and values of what was decided: the plain form that programs store and reports show."""
        words = {"selected": self.selected, "prologue": self.prologue, "why": self.why, "writes": self.writes}
        return {name: value for name, value in {**self.numbers, **words}.items() if value is not None and value != ""}


def with_form(other: Choice, form: str) -> Choice:
    """The choice of a kernel of another form than ``other``."""
    return replace(other, numbers={"form": form, **other.numbers})
