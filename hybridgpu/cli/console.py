# SPDX-License-Identifier: Apache-2.0
"""What commands write to: tables, progress bars, and what they say where there is no GPU."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any

import click

__all__ = ["WIDTH", "check_gpu", "console", "progress"]

WIDTH = 110  #: of tables that go to no terminal


def console() -> Any:
    """A rich Console on stdout."""
    from rich.console import Console

    result = Console(highlight=False)
    return result if result.is_terminal else Console(highlight=False, width=WIDTH)


def progress() -> Any:
    """A rich Progress on stderr, or None in its place where that is no terminal."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    return Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)


def check_gpu(instead: str = "") -> Any:
    """The device of gpu(0); raises where it cannot be used, and the message says what was looked for, and ``instead``."""
    from ..backends.devices import device_of
    from ..base import MXNetError
    from ..context import gpu
    from .machine import gpu_search

    try:
        return device_of(gpu(0))
    except MXNetError as e:
        looked = "; ".join(f"{what}: {outcome}" for what, outcome in gpu_search())
        raise click.ClickException(f"{str(e).splitlines()[0]} (looked for {looked}){instead}") from None
