# SPDX-License-Identifier: Apache-2.0
"""``hybridgpu bench``: how fast fusion is on this machine."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from ..console import check_gpu, progress
from ..console import console as make_console
from .plot import FORMATS, check_matplotlib
from .results import SCHEMA, Document, SuiteResult

__all__ = ["bench"]

ROUNDS, QUICK_ROUNDS = 15, 5
NAMES = (
    "mlp",
    "chain",
    "broadcast",
    "rows",
    "lenet",
    "resnet",
    "eager",
    "networks",
)  #: of the suites, in the order of workloads.SUITES
LARGE = ("chain", "broadcast", "rows")  #: suites that have large sizes


class Threads(click.ParamType):
    """'all', or a number."""

    name = "all|N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value != "all" and not (value.isdecimal() and int(value)):
            self.fail(f"{value!r} is neither 'all' nor a number of threads.", param, ctx)
        return value if value == "all" else str(int(value))


@click.command(short_help="Time blocks beside NumPy or CuPy.")
@click.option(
    "--suite",
    "asked",
    type=click.Choice([*NAMES, "all"]),
    multiple=True,
    default=("all",),
    show_default="all",
    help="What is measured; several times: one after the other.",
)
@click.option("--device", type=click.Choice(["cpu", "gpu"]), default="cpu", show_default=True)
@click.option(
    "--quick/--full", default=False, help="Less than a minute instead of several: fewer sizes, shorter batches."
)
@click.option("--large", is_flag=True, help=f"Arrays of 128 MiB instead, beyond any cache; of {', '.join(LARGE)}.")
@click.option(
    "--repeat", type=click.IntRange(1), help=f"Rounds of every size. [default: {ROUNDS}, quick {QUICK_ROUNDS}]"
)
@click.option(
    "--threads",
    type=Threads(),
    multiple=True,
    default=("all",),
    show_default="all",
    help="Threads of every library: all that it takes by itself, or so many; several times: a column each.",
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write everything there.")
@click.option("--plot", "plot_file", type=click.Path(dir_okay=False, path_type=Path), help="Draw a .png, .svg or .pdf.")
def bench(
    asked: tuple[str, ...],
    device: str,
    quick: bool,
    large: bool,
    repeat: int | None,
    threads: tuple[str, ...],
    json_file: Path | None,
    plot_file: Path | None,
) -> None:
    """Time eager and hybridized blocks, whole networks and steps of training, beside NumPy (CuPy on a GPU) and a copy of the
    same bytes."""
    if plot_file is not None:
        if plot_file.suffix.lower() not in FORMATS:
            raise click.BadParameter(f"{plot_file} must end in {', '.join(FORMATS)}", param_hint="'--plot'")
        check_matplotlib()
    if large and (small := [name for name in asked if name not in (*LARGE, "all")]):
        raise click.BadParameter(f"{small[0]} has none; {', '.join(LARGE)} have", param_hint="'--large'")
    for file in (json_file, plot_file):
        if file is not None and not file.absolute().parent.is_dir():
            raise click.BadParameter(f"there is no folder {file.parent}", param_hint="'--json' / '--plot'")
    if device == "gpu":
        check_gpu()
    from ..cache import open_store
    from ..machine import machine
    from .tables import print_machine, print_suite

    console = make_console()
    facts = machine(open_store())
    print_machine(console, facts)
    options: dict[str, Any] = {
        "device": device,
        "quick": quick,
        "large": large,
        "rounds": repeat or (QUICK_ROUNDS if quick else ROUNDS),
        "threads": list(dict.fromkeys(threads)),
    }
    suites: list[SuiteResult] = []
    stopped = False
    for name in (LARGE if large else NAMES) if "all" in asked else dict.fromkeys(asked):
        results: list[SuiteResult] = []
        try:
            for count in options["threads"]:
                results.append(_measure({**options, "suite": name, "threads": count}))
        except KeyboardInterrupt:  # what was measured until now is not lost
            stopped = True
        if results:
            print_suite(console, results)
            suites += results
        if stopped:
            break
    if not suites:
        if json_file is not None:
            click.echo(f"no suite was measured to its end: {json_file} is not written", err=True)
        raise click.Abort
    document: Document = {
        "schema": SCHEMA,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "options": {**options, "suite": "all" if "all" in asked else ", ".join(dict.fromkeys(asked))},
        "machine": facts,
        "suites": suites,
    }
    if json_file is not None:
        json_file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        click.echo(f"wrote {json_file}")
    if plot_file is not None:
        from .plot import draw

        draw(document, plot_file)
        click.echo(f"wrote {plot_file}")
    if stopped:
        raise click.Abort


def _measure(options: dict[str, Any]) -> SuiteResult:
    """One suite and its first calls, under a progress bar where stderr is a terminal."""
    from .children import first_calls, run_worker

    name, processes = options["suite"], min(3, options["rounds"]) if not options["quick"] else 1
    with progress() as bar:
        task = bar.add_task(name, total=None) if bar is not None else None

        def step(steps: int, label: str) -> None:
            if bar is None:
                return
            if not label:
                bar.update(task, total=steps + 1)
            else:
                bar.update(task, description=f"{name}: {label}", advance=1)

        result = run_worker(options, step)
        if bar is not None:
            bar.update(task, description=f"{name}: first call in new processes")
        if not options["large"]:  # first calls do not depend on the size
            result["first_calls"] = first_calls(name, options["device"], options["threads"], processes)
    return result
