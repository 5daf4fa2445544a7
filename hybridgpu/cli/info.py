# SPDX-License-Identifier: Apache-2.0
"""``hybridgpu info``: what was found on this machine."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from .cache import open_store, store_lines
from .machine import compiler, cpu, cuda, environment, versions
from .text import byte_text

__all__ = ["info"]


@click.command(short_help="Print what was found on this machine.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def info(as_json: bool) -> None:
    """Print versions, compiler, processor, GPUs (or what was looked for), cache and environment."""
    store = open_store()
    facts: dict[str, Any] = {
        "versions": versions(),
        "cpu": cpu(),
        "compiler": compiler(store),
        "cuda": cuda(),
        "environment": environment(),
    }
    if as_json:
        facts["cache"] = {**asdict(store.usage()), "folder": str(store.folder)}
        click.echo(json.dumps(facts, indent=1))
        return
    sections = [
        ("Versions", list(facts["versions"].items())),
        ("Processor", _cpu_lines(facts["cpu"])),
        ("C++ compiler", _compiler_lines(facts["compiler"])),
        ("GPU", _gpu_lines(facts["cuda"])),
        ("Cache", store_lines(store)),
        ("Environment", list(facts["environment"].items()) or [("", "no variable is set that matters here")]),
    ]
    _print(sections)


def _cpu_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    features = " ".join(facts["features"]) or "unknown"
    return [("model", facts["model"]), ("cores", str(facts["cores"])), ("features", features)]


def _compiler_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    if not facts["found"]:
        return [("none", facts["reason"])]
    lines = [("command", facts["command"]), ("version", facts["version"] or "it does not say")]
    lines.append(("flags", " ".join(facts["flags"])))
    if facts["refused"]:
        lines.append(("refused", " ".join(facts["refused"])))
    return lines


def _gpu_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    lines = []
    for number, gpu in enumerate(facts["gpus"]):
        text = f"{gpu['name']}, compute capability {gpu['compute_capability']}, {byte_text(gpu['memory_bytes'])}, "
        lines.append((f"gpu({number})", f"{text}{gpu['multiprocessors']} multiprocessors"))
    if not facts["gpus"]:
        lines = [("none", "no GPU can be used; looked for:"), *((f"  {what}", text) for what, text in facts["search"])]
    else:
        lines += [("CuPy", facts["cupy"]), ("driver", f"CUDA {facts['driver']}")]
    if facts["nvrtc"]:
        architectures = facts["architectures"]
        lines.append(("NVRTC", f"{facts['nvrtc']}, compiles for sm_{architectures[0]} to sm_{architectures[-1]}"))
    else:
        lines.append(("NVRTC", next((t for w, t in facts["search"] if w == "NVRTC"), "none (it comes with CuPy)")))
    if facts["gpus"]:
        for name in ("cuDNN", "cuBLASLt"):
            lines.append((name, facts[name.lower()] or next(t for w, t in facts["search"] if w == name)))
    return lines


def _print(sections: list[tuple[str, list[tuple[str, str]]]]) -> None:
    """Sections of (label, text) in two columns."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for k, (title, lines) in enumerate(sections):
        if k:
            table.add_row("", "")
        table.add_row(Text(title, style="bold"), "")
        for label, text in lines:
            table.add_row(Text(f"  {label}", style="cyan"), Text(text))
    console.print(table)
