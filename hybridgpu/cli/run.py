# SPDX-License-Identifier: Apache-2.0
"""``hybridgpu run``: Python, in which ``import mxnet`` is answered by hybridgpu."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import click

from ..as_mxnet import PATH

__all__ = ["run"]

#: Python's options that ignore PYTHONPATH or sitecustomize
_ISOLATING = re.compile(r"-[bBdhiOPqsuvVx?]*[IES]")


class _Run(click.Command):
    """A command that leaves everything behind its own options to Python."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = next((i for i, a in enumerate(args) if a != "-h" and not a.startswith("--")), len(args))
        return super().parse_args(ctx, [*args[:own], "--", *args[own:]])


@click.command(
    cls=_Run,
    options_metavar="[--cpu]",
    epilog="hybridgpu run [--cpu] script.py … | -m package … | -c code …; without any, the interactive interpreter.",
)
@click.option("--cpu", is_flag=True, help="mx.gpu(i) is mx.cpu(i), for programs that want a GPU where there is none.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[PYTHON'S ARGUMENTS]")
def run(cpu: bool, arguments: tuple[str, ...]) -> None:
    """Run a program written for MXNet.

    It is run as Python runs it, and `import mxnet` is answered by hybridgpu, in every Python process that it starts, too.
    """
    for argument in arguments:
        if not argument.startswith("-") or argument in ("-m", "-c", "-"):
            break
        if _ISOLATING.match(argument):
            raise click.UsageError(f"{argument} makes Python ignore the environment, by which it is told what mxnet is")
    if sys.flags.ignore_environment or sys.flags.no_site:
        raise click.UsageError("this Python ignores the environment (-E, -I, -S), by which it is told what mxnet is")
    environment = {**os.environ, "PYTHONPATH": _path(os.environ.get("PYTHONPATH"))}
    if cpu:
        environment["HYBRIDGPU_GPU_AS_CPU"] = "1"
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    command = [sys.executable, *flags, *arguments]
    if sys.platform == "win32":  # where exec returns to the shell at once
        sys.exit(subprocess.run(command, env=environment, check=False).returncode)
    sys.stdout.flush()
    os.execve(sys.executable, command, environment)


def _path(present: str | None) -> str:
    others = (
        [p for p in present.split(os.pathsep) if p != PATH] if present else []
    )  # an empty one is the working folder
    return os.pathsep.join([PATH, *others])
