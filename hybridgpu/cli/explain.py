# SPDX-License-Identifier: Apache-2.0
"""``hybridgpu explain FILE``: what an exported network is compiled to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

__all__ = ["explain"]


@click.command(short_help="Print what an exported network is compiled to.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--shape", "shapes", multiple=True, required=True, metavar="NAME=EXTENTS", help="Of an input: data=1,3,224,224."
)
@click.option("--type", "types", multiple=True, metavar="NAME=TYPE", help="Of an input's elements (float32).")
@click.option(
    "--params",
    type=click.Path(exists=True, dir_okay=False),
    help="The file of parameters; without it they are random.",
)
@click.option("--source", is_flag=True, help="Print the text of the kernels, too.")
def explain(file: Path, shapes: tuple[str, ...], types: tuple[str, ...], params: str | None, source: bool) -> None:
    """Print kernels, library calls and traffic of FILE, such as net-symbol.json, for inputs of these shapes on the CPU."""
    from .. import ndarray, symbol
    from ..gluon import SymbolBlock

    extents = {name: _extents(text) for name, text in map(_pair, shapes)}
    kinds = dict(map(_pair, types))
    there = symbol.load(str(file)).list_inputs()
    for name in (*extents, *kinds):
        if name not in there or name not in extents:
            what = "has no --shape" if name in there else f"is no input: {file.name} has {', '.join(there[:8])}"
            raise click.UsageError(f"{name} {what}")
    try:
        net = SymbolBlock.imports(str(file), list(extents), params)
        if params is None:
            net.initialize()
        report: Any = net.explain(
            *(ndarray.zeros(shape, dtype=kinds.get(n, "float32")) for n, shape in extents.items())
        )
    except (AssertionError, TypeError, ValueError, RuntimeError) as e:
        raise click.ClickException(str(e)) from e
    click.echo(report)
    if source:
        click.echo(report.source())


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise click.UsageError(f"write a name and a value, such as data=1,3,224,224, not {text!r}")
    return name, value


def _extents(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.strip("()").rstrip(",").split(","))
    except ValueError:
        raise click.UsageError(f"extents are whole numbers, such as 1,3,224,224, not {text!r}") from None
