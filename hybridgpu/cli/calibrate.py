# SPDX-License-Identifier: Apache-2.0
"""``hybridgpu calibrate``: measure the constants of this machine's devices that cost models decide by."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone
from math import isfinite
from pathlib import Path
from typing import Any

import click

from ..compiler.devices.record import DeviceConstants, constants_of
from .cache import open_store
from .console import check_gpu, console, progress
from .text import byte_text

__all__ = ["calibrate"]

SCHEMA = 1
FAR = 2  #: times that a processor's constant may differ before a line says so


@click.command(short_help="Measure the constants that cost models decide by.")
@click.option("--device", type=click.Choice(["cpu", "gpu"]), default="gpu", show_default=True)
@click.option(
    "--seconds", type=click.FloatRange(0.1), default=25.0, show_default=True, help="About how long it may take."
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write everything there.")
@click.option("--dry-run", is_flag=True, help="Measure, and store nothing.")
@click.option("--show", is_flag=True, help="Measure nothing; print what is used, and where it comes from.")
@click.option("--forget", is_flag=True, help="Measure nothing; delete what was stored for this GPU.")
def calibrate(device: str, seconds: float, json_file: Path | None, dry_run: bool, show: bool, forget: bool) -> None:
    """Measure a device's constants, some 25 seconds, and store them for this GPU, its multiprocessors and driver.

    Programs compiled from then on are chosen by them; results may differ in their last bits, as sums are taken in another
    order. A processor's are only shown: there results are the same everywhere.
    """
    if show and forget:
        raise click.UsageError("--show and --forget exclude each other")
    if dry_run and (show or forget):
        raise click.UsageError("--dry-run measures; --show and --forget do not")

    def save(document: dict[str, Any]) -> None:
        if json_file is not None:
            json_file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder {json_file.parent}", param_hint="'--json'")
    if not isfinite(seconds):
        raise click.BadParameter(f"{seconds} is no time", param_hint="'--seconds'")
    if device == "cpu":
        if forget:
            raise click.UsageError("--forget is for GPUs: nothing is stored for processors")
        document, problem = _cpu(seconds, show)
    else:
        document, problem = _gpu(seconds, show, forget, dry_run, save)
    save(document)
    if json_file is not None:
        click.echo(f"wrote {json_file}")
    if problem:
        raise click.ClickException(problem)


def _gpu(
    seconds: float, show: bool, forget: bool, dry_run: bool, save: Callable[[dict[str, Any]], None]
) -> tuple[dict[str, Any], str]:
    """What was found, and what went wrong; ``save`` is given each step's, should the process not live to see the last."""
    from ..backends.cuda import calibration, device_tables
    from ..compiler.target import cuda_target

    opened = check_gpu("\nWrite --device cpu for the constants of this processor.")
    backend, store = opened.backend(), open_store()
    gpu, driver = backend.driver.gpu, backend.driver
    constants = device_tables.known(gpu, store)
    if forget:
        click.echo(
            f"deleted what was stored for {gpu.name}" if device_tables.forget(gpu, store) else "nothing was stored"
        )
        constants = device_tables.known(gpu, store)
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "device": {**gpu._asdict(), "arch": driver.arch},
        "seconds": seconds,
        "steps": [],
        "figures": {},
        "stored": None,
    }
    plain = cuda_target(driver.arch, driver.multiprocessors).changed(**constants.values)
    limits = {k: min(getattr(plain.gpu, k), most) for k, most in driver.limits.items()}
    device = plain.changed(**limits).gpu
    measured: dict[str, float] = {}
    if not (show or forget):
        bench = calibration.Bench(
            driver,
            opened.xp,
            opened.address,
            calibration.event_timer(driver, opened.xp),
            device,
            seconds / len(calibration.STEPS),
            _products(opened),
        )
        driver.attach()
        document["figures"] = bench.figures
        for step in _with_progress(lambda on_step: calibration.measure(bench, on_step), len(calibration.STEPS)):
            measured |= step.found
            document["steps"].append(step._asdict())
            document["constants"] = _rows(device, constants.sources, measured, {})
            save(document)
    new = calibration.with_rounded(measured)
    document["constants"] = _rows(device, constants.sources, measured, new)
    if new and not dry_run:
        stored = {k: v for k, v in constants.values.items() if constants.sources[k].startswith("measured")}
        file = device_tables.keep(gpu, {**stored, **new}, document["date"], store)
        document["stored"] = str(file.name) if file else None
    out = console()
    out.print(
        f"{gpu.name}, {gpu.multiprocessors} multiprocessors, driver for CUDA {gpu.driver // 1000}.{gpu.driver % 1000 // 10}"
    )
    _print(out, document)
    for step in document["steps"]:
        if step["failed"]:
            click.echo(f"{step['name']}: {step['failed']}")
    if document["stored"]:
        click.echo("stored; programs of new processes are chosen by these figures")
    elif new and not dry_run:
        return document, f"nothing lasts in {store.folder}; HYBRIDGPU_CACHE_DIR names a private folder that does"
    elif not new and not (show or forget):
        return document, "no constant could be measured"
    return document, ""


def _products(opened: Any) -> Any:
    """Starts of square products of cuBLASLt, by kind and size."""

    def multiply(how: str, size: int) -> Any:
        from ..backends.library import LibraryRequest, Unsupported
        from ..compiler.devices.gpu import TF32_CAPABILITY
        from ..compiler.ir.types import tensor_type
        from ..core.dtypes import from_short

        kind = tensor_type((size, size), from_short(how.removeprefix("t")))
        rounding = how == "tf32"  # what is set about TF32 is of no account: nothing is decided by it here
        if rounding and opened.compute_capability < TF32_CAPABILITY:
            return None
        prepared = opened.products.prepare(LibraryRequest("dot", (kind, kind), {}, kind, "calibrate", tf32=rounding))
        if prepared is None or isinstance(prepared, Unsupported):
            return None
        one, other, out = (opened.xp.ones((size, size), kind.dtype.np) for _ in range(3))

        def start() -> None:
            if not prepared((one, other), out):
                raise RuntimeError("cuBLASLt has no algorithm for a square product")

        return start

    return multiply


def _cpu(seconds: float, show: bool) -> tuple[dict[str, Any], str]:
    """What was found, and what went wrong."""
    from ..compiler.target import CPU
    from .calibrate_cpu import STEPS, measure
    from .machine import cpu

    measured: dict[str, float] = {}
    steps = []
    if not show:
        for step in _with_progress(lambda on_step: measure(seconds / len(STEPS), on_step), len(STEPS)):
            measured |= step.found
            steps.append(step._asdict())
    facts = cpu()
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "device": {"name": facts["model"], "cores": facts["cores"]},
        "seconds": seconds,
        "steps": steps,
        "figures": {},
        "stored": None,
        "constants": _rows(CPU.device, {}, measured, {}),
    }
    out = console()
    out.print(f"{facts['model']}, one core")
    _print(out, document)
    for step in steps:
        if step["failed"]:
            click.echo(f"{step['name']}: {step['failed']}")
    far = [
        r["name"] for r in document["constants"] if r["measured"] and not 1 / FAR <= r["measured"] / r["used"] <= FAR
    ]
    if far:
        click.echo(f"more than {FAR} times from what is used: {', '.join(far)}")
    if measured:
        click.echo(
            "nothing is stored: a processor's constants decide in which order sums are taken, which is one for all"
        )
    return document, "" if measured or show else "no constant could be measured"


def _with_progress(run: Callable[[Callable[[str], None]], Iterable[Any]], count: int) -> Iterator[Any]:
    """The steps of ``run(on_step)`` under a progress bar."""
    with progress() as bar:
        task = bar.add_task("calibrate", total=count) if bar is not None else None

        def on_step(name: str) -> None:
            if bar is not None:
                bar.update(task, description=name)

        for step in run(on_step):
            yield step
            if bar is not None:
                bar.update(task, advance=1)


def _rows(
    device: DeviceConstants, sources: Any, measured: dict[str, float], new: dict[str, float]
) -> list[dict[str, Any]]:
    """Every constant: what is used, where it comes from, what was measured, and what is used from now on."""
    rows = []
    for c in constants_of(type(device)):
        used = getattr(device, c.name)
        source = sources.get(c.name) or (c.source if used == c.default else "told by the driver or the architecture")
        row = {"name": c.name, "unit": c.unit, "about": c.about, "used": used, "source": source}
        rows.append({**row, "measured": measured.get(c.name), "new": new.get(c.name)})
    return rows


def _value(value: float, unit: str) -> str:
    if unit == "bytes" and value >= 1024:
        return byte_text(round(value))
    if unit == "flag":
        return "yes" if value else "no"
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _print(out: Any, document: dict[str, Any]) -> None:
    from rich.table import Table

    measured = any(r["measured"] is not None for r in document["constants"])
    table = Table(box=None, padding=(0, 2, 0, 0), expand=True)
    table.add_column("constant", no_wrap=True)
    table.add_column("used", justify="right", no_wrap=True)
    if measured:
        table.add_column("measured", justify="right", no_wrap=True)
        if any(r["new"] is not None for r in document["constants"]):
            heading = "from now on" if document["stored"] else "rounded"
            table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    table.add_column("source of what is used", overflow="fold", ratio=1)
    for r in document["constants"]:
        if measured and r["measured"] is None:
            continue
        cells = [r["name"], _value(r["used"], r["unit"])]
        if measured:
            cells += [_value(r[k], r["unit"]) for k in ("measured", "new") if r[k] is not None]
        table.add_row(*cells, r["unit"], r["source"])
    out.print(table)
