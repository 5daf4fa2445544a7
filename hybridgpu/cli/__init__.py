# SPDX-License-Identifier: Apache-2.0
"""The command line: ``hybridgpu run | explain | bench | calibrate | info | cache``.

A usage error exits with 2, a failure with 1, each with one line on stderr. Nothing else in hybridgpu
imports this package, click or rich.
"""

from __future__ import annotations

import errno
from typing import Any

import click

from .. import __version__
from ..base import MXNetError
from .bench.command import bench
from .cache import cache
from .calibrate import calibrate
from .explain import explain
from .info import info
from .run import run

__all__ = ["main"]


class _Group(click.Group):
    """A group that says in one line what failed."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (MXNetError, OSError) as e:
            if isinstance(e, OSError) and e.errno == errno.EPIPE:
                raise  # click ends quietly when the reader of a pipe has gone
            lines = str(e).strip().splitlines()
            raise click.ClickException(lines[0] if lines else type(e).__name__) from e


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hybridgpu")
def main() -> None:
    """Gluon's hybrid programming on today's hardware: programs of MXNet, benchmarks, what was found on this machine, the kernel cache."""


main.add_command(bench)
main.add_command(calibrate)
main.add_command(explain)
main.add_command(info)
main.add_command(cache)
main.add_command(run)
