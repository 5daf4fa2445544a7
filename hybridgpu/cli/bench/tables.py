# SPDX-License-Identifier: Apache-2.0
"""A suite's result as tables on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...runtime.reports.explain import counted
from ..text import byte_text, time_text
from .results import CaseResult, Row, SuiteResult

__all__ = ["LABELS", "print_machine", "print_suite", "threads_text"]

NOISY = 0.25  #: of the least time, beyond which a median is marked
LABELS = {"numpy": "NumPy", "cupy": "CuPy", "copy": "copy of the same bytes"}


def print_suite(console: Any, results: Sequence[SuiteResult]) -> None:
    """A suite's cases and first calls, on a rich Console; of several numbers of threads the first one whole, and a column of
    times for each further one."""
    from rich.table import Table
    from rich.text import Text

    suite, *others = results
    reference = LABELS.get(suite["reference"], suite["reference"])
    title = f"{suite['title']} on {suite['device']}, {threads_text(suite)}"
    table = Table(title=Text(title), title_justify="left", title_style="bold")
    table.add_column("case", no_wrap=True)
    table.add_column("", no_wrap=True)
    medians = ["median us", *(f"{threads_text(other)}, us" for other in others)]
    for name in (*medians, "min us", f"faster than {reference}", "time / copy", "Python us"):
        table.add_column(name, justify="right")
    for case, *same in zip(*(result["cases"] for result in results), strict=True):
        for k, (row, *rows) in enumerate(zip(*(c["rows"] for c in (case, *same)), strict=True)):
            ours = row["mode"] in ("eager", "hybridized", "static")
            cells = [
                _case(case, k),
                _label(case, row),
                *map(_median, (row, *rows)),
                *_numbers(row),
            ]
            last = k == len(case["rows"]) - 1
            table.add_row(*map(Text, cells), style="bold" if ours else "", end_section=last)
    console.print(table)
    note = (
        f"'faster than {reference}' and 'time / copy' are medians over rounds; 'bare' is the compiled code called on prepared "
        "addresses; 'Python us' is what a call costs beyond that, '<' where noise hides it."
    )
    if any(map(_is_noisy, (r for result in results for c in result["cases"] for r in c["rows"]))):
        note += f" '~': a median more than {NOISY:.0%} above the least time; other work may have run beside it."
    console.print(Text(note, style="dim"))
    for first in suite["first_calls"]:
        compiled = f"{counted(first['modules'], 'module')} compiled" if first["modules"] else "nothing compiled"
        text = (
            f"first call, {first['cache']} cache: {first['backend_ms'] + first['first_call_ms']:.1f} ms, of which finding "
            f"the compiler {first['backend_ms']:.1f} ms ({first['first_call_cpu_ms']:.0f} ms of processor time in the "
            f"rest; {compiled}); before it, import {first['import_ms']:.0f} ms"
        )
        console.print(Text(text))
    console.print()


def threads_text(suite: SuiteResult) -> str:
    """What each library was given."""
    threads = suite["threads"]
    return "all threads" if threads == "all" else "one thread" if threads == "1" else f"{threads} threads"


def _label(case: CaseResult, row: Row) -> str:
    return f"bare {case['bare']}" if row["mode"] == "bare" else LABELS.get(row["mode"], row["mode"])


def _median(row: Row) -> str:
    return ("~" if _is_noisy(row) else "") + time_text(row["median_us"])


def _is_noisy(row: Row) -> bool:
    return row["spread_us"] > NOISY * row["min_us"]


def _case(case: CaseResult, line: int) -> str:
    return case["name"] if line == 0 else byte_text(case["bytes"]) if line == 1 else ""


def _numbers(row: Row) -> list[str]:
    beyond = row["over_bare_us"]
    if beyond is None:
        python = ""
    elif beyond > row["spread_us"]:
        python = time_text(beyond)
    else:
        python = f"< {time_text(row['spread_us'])}"  # lost in the noise
    return [
        time_text(row["min_us"]),
        f"{1 / row['over_reference']:.2f}x",
        f"{row['over_copy']:.2f}",
        python,
    ]


def print_machine(console: Any, machine: dict[str, Any]) -> None:
    """One paragraph on what the numbers were measured with."""
    from rich.text import Text

    versions, cpu, compiler, cuda = (machine[k] for k in ("versions", "cpu", "compiler", "cuda"))
    parts = [f"{cpu['model']}, {cpu['cores']} cores"]
    parts += [f"{g['name']} (driver CUDA {cuda['driver']}, NVRTC {cuda['nvrtc']})" for g in cuda["gpus"]]
    parts.append(compiler["version"] if compiler["found"] else compiler["reason"])
    parts += [f"{name} {versions[name]}" for name in ("hybridgpu", "numpy", "blas")]
    parts.append(versions["python"])
    parts += [f"{k}={v}" for k, v in machine["environment"].items()]
    console.print(Text("; ".join(parts), style="dim"))
    console.print()
