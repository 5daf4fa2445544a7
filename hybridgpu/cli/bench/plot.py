# SPDX-License-Identifier: Apache-2.0
"""The picture of ``hybridgpu bench --plot``: a panel a suite. Needs matplotlib (the extra ``bench``)."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import click

from .results import CaseResult, Document, SuiteResult
from .tables import LABELS, threads_text

__all__ = ["FORMATS", "check_matplotlib", "draw"]

FORMATS = (".png", ".svg", ".pdf")
COLOURS = {
    "numpy": "#8a8f98",
    "cupy": "#8a8f98",
    "eager": "#e0a030",
    "hybridized": "#4c9be8",
    "static": "#1f5fbf",
    "copy": "#2e9e5b",
}
_INK, _GRID = "#22262e", "#e4e7ec"


def check_matplotlib() -> None:
    """Raise click.ClickException where matplotlib is missing."""
    if importlib.util.find_spec("matplotlib") is None:
        raise click.ClickException("--plot needs matplotlib: pip install matplotlib")


def draw(document: Document, path: Path) -> None:
    """Write the picture; the ending of ``path`` is one of FORMATS."""
    figures: Any = importlib.import_module("matplotlib.figure")
    matplotlib: Any = importlib.import_module("matplotlib")
    style = {
        "font.size": 10,
        "axes.edgecolor": _GRID,
        "axes.labelcolor": _INK,
        "text.color": _INK,
        "xtick.color": _INK,
        "ytick.color": _INK,
        "svg.fonttype": "none",
        "svg.hashsalt": "hybridgpu",
    }
    with matplotlib.rc_context(style):
        suites = document["suites"]
        figure = figures.Figure(figsize=(6.4 * len(suites), 4.6), dpi=150, layout="constrained", facecolor="white")
        panels = figure.subplots(1, len(suites), squeeze=False)[0]
        for panel, suite in zip(panels, suites, strict=True):
            panel.set_axisbelow(True)
            panel.spines[["top", "right"]].set_visible(False)
            (_lines if _sizes(suite) else _bars)(panel, suite)
            panel.set_title(
                f"{suite['title']}; {threads_text(suite)}", loc="left", fontsize=9.5, fontweight="bold", pad=12
            )
        figure.supxlabel(_caption(document), fontsize=7.5, x=0.01, ha="left", color="#6b7280")
        figure.savefig(path)


def _sizes(suite: SuiteResult) -> bool:
    """True for a suite of one operation at several numbers of elements."""
    return all("elements" in case["parameters"] for case in suite["cases"]) and len(suite["cases"]) > 1


def _times(case: CaseResult) -> dict[str, float]:
    return {row["mode"]: row["min_us"] for row in case["rows"] if row["mode"] in COLOURS}


def _bars(panel: Any, suite: SuiteResult) -> None:
    """Microseconds a call: a group of bars a case."""
    modes = [m for m in COLOURS if m in _times(suite["cases"][0])]
    width = 0.8 / len(modes)
    top = max(max(_times(c).values()) for c in suite["cases"])
    for k, mode in enumerate(modes):
        places = [c + (k - (len(modes) - 1) / 2) * width for c in range(len(suite["cases"]))]
        heights = [_times(case)[mode] for case in suite["cases"]]
        panel.bar(places, heights, width * 0.92, color=COLOURS[mode], label=LABELS.get(mode, mode))
        for x, height in zip(places, heights, strict=True):
            text = f"{height:.0f}" if height >= 10 else f"{height:.1f}"
            panel.text(x, height + top * 0.012, text, ha="center", va="bottom", fontsize=8)
    panel.set_xticks(range(len(suite["cases"])), [case["name"] for case in suite["cases"]])
    panel.tick_params(length=0)
    panel.set_ylabel("microseconds a call")
    panel.set_ylim(0, top * 1.1)
    panel.yaxis.grid(True, color=_GRID)
    panel.legend(loc="upper left", frameon=False, fontsize=8.5, ncols=2)


def _lines(panel: Any, suite: SuiteResult) -> None:
    """Nanoseconds an element over the number of elements."""
    sizes = [case["parameters"]["elements"] for case in suite["cases"]]
    for mode, colour in COLOURS.items():
        times = [_times(case).get(mode) for case in suite["cases"]]
        if None in times:
            continue
        heights = [t * 1e3 / n for t, n in zip(times, sizes, strict=True) if t is not None]
        dashed = "--" if mode == "copy" else "-"
        panel.plot(sizes, heights, dashed, marker="o", ms=4, lw=2, color=colour, label=LABELS.get(mode, mode))
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlabel("elements")
    panel.set_ylabel("nanoseconds an element")
    panel.grid(True, color=_GRID)
    panel.minorticks_off()
    panel.tick_params(length=0)
    panel.legend(loc="upper right", frameon=False, fontsize=8.5)


def _caption(document: Document) -> str:
    machine = document["machine"]
    names = [g["name"] for g in machine["cuda"]["gpus"]] if document["options"]["device"] == "gpu" else []
    where = ", ".join(names) or machine["cpu"]["model"]
    versions = machine["versions"]
    return f"{where}, hybridgpu {versions['hybridgpu']}, NumPy {versions['numpy']}, {document['date'][:10]}; least time of interleaved rounds"
