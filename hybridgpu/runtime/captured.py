# SPDX-License-Identifier: Apache-2.0
"""Calls that the user captures into a CUDA graph: what cannot be done then, and how that is said."""

from __future__ import annotations

from ..backends.devices import Device
from ..base import MXNetError

__all__ = ["CapturedError", "refuse_draws", "refuse_first"]


class CapturedError(Exception):
    """The current stream is captured: the general call knows what to do."""


def refuse_first(device: Device) -> None:
    """Raise an error if what is made once, at a first call, were made in a capture."""
    if device.is_capturing():
        raise MXNetError(
            "a first call cannot be captured into a CUDA graph: it compiles, and computes what is kept\n"
            "Call the block once before the capture begins, with arguments of the same types (under autograd.record() and "
            "with backward(), if the captured call is), and once more where a parameter was changed since."
        )


def refuse_draws(device: Device) -> None:
    """Raise an error if random numbers were drawn in a capture."""
    if device.is_capturing():
        raise MXNetError(
            "a call that draws random numbers cannot be captured into a CUDA graph, which would repeat them\n"
            "Leave out what draws them (in training Dropout, which can be given the rate 0), or call outside the capture."
        )
