# SPDX-License-Identifier: Apache-2.0
"""Writes the measured tables into README.md and docs/benchmarks.md, from the newest files in bench/results.

    python docs/make_results.py

The tables stand between ``<!-- results -->`` and ``<!-- end of results -->``. To measure anew:

    hybridgpu bench --full --json bench/results/bench-DATE-PROCESSOR.json
    python bench/peers.py PYTHON … --out bench/results
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
PAGES = (ROOT / "README.md", ROOT / "docs" / "benchmarks.md")
#: mode in the JSON -> label in the README, in the order of the table
SHOWN = {
    "hybridgpu static": "**hybridgpu**, hybridized (static)",
    "hybridgpu eager": "hybridgpu, eager",
    "numpy eager": "NumPy",
    "torch jit.script": "torch.jit.script",
    "torch compile": "torch.compile",
    "jax jit": "jax.jit",
    "jax one thread jit": "jax.jit, a pool of one thread",
    "mxnet static": "MXNet 1.9.1, static",
    "mxnet NaiveEngine static": "MXNet 1.9.1, static, NaiveEngine",
}
HEADS = {"mlp": "perceptron, batch {}", "chain": "chain, {}"}


def newest(pattern: str, device: str = "cpu") -> dict[str, Any]:
    """The newest document of a kind."""
    documents = [json.loads(p.read_text(encoding="utf-8")) for p in RESULTS.glob(pattern)]
    chosen = [d for d in documents if d.get("device", d.get("options", {}).get("device")) == device]
    return max(chosen, key=lambda d: d["date"])


def number(us: float) -> str:
    """Microseconds for people."""
    return f"{us:,.0f}" if us >= 100 else f"{us:.3g}"


def place(document: dict[str, Any]) -> str:
    """Date, machine and versions in a sentence."""
    machine = document["machine"]
    versions = {k: v for k, v in document.get("versions", {}).items() if k not in ("python", "mxnet")}
    versions = versions or {k: machine["versions"][k] for k in ("numpy", "hybridgpu")}
    facts = [
        document["date"][:10],
        f"{machine['cpu']['model']}, {machine['cpu']['cores']} cores shared with other jobs",
    ]
    facts += [machine["compiler"]["version"], *(f"{k} {v}" for k, v in versions.items())]
    facts += [f"{k}={v}" for k, v in machine["environment"].items() if k != "CXX"]
    return "; ".join(facts)


def short(document: dict[str, Any]) -> str:
    """README's table."""
    cases = [c for c in document["cases"] if c["kind"] == "latency"]
    names = [HEADS[c["workload"]].format(f"{c['size']:,}") for c in cases]
    lines = ["| microseconds a call | " + " | ".join(names) + " |", "|---|" + "---:|" * len(cases)]
    for mode, label in SHOWN.items():
        rows = [next((r for r in c["rows"] if r["name"] == mode), None) for c in cases]
        if any(rows):
            ours = mode == "hybridgpu static"
            cells = [
                "–" if r is None else f"**{number(r['median_us'])}**" if ours else number(r["median_us"]) for r in rows
            ]
            lines.append(f"| {label} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "Made by `python bench/peers.py PYTHON … --out bench/results`: one thread each, all in one run in turns, "
        f"medians of {document['rounds']} rounds; the perceptron has layers of 512-256-128-2, the chain is "
        f"`tanh(a*x+b)*sigmoid(x) + 0.5*relu(x-c) - exp(-x*x)`. {place(document)}.",
    ]
    return "\n".join(lines)


def long(peers: dict[str, Any], bench: dict[str, Any]) -> str:
    """The tables of docs/benchmarks.md."""
    parts = ["### Beside other libraries", "", (RESULTS / f"{stem(peers)}.md").read_text(encoding="utf-8").strip(), ""]
    parts += ["† used more than one core on average. The machine was shared with other jobs.", ""]
    parts += ["### Eager, hybridized, and the least possible", ""]
    parts += ["| median microseconds a call | NumPy | eager | hybridized | static | bare | copy | Python, µs |"]
    parts += ["|---|" + "---:|" * 7]
    for suite in bench["suites"]:
        for case in suite["cases"]:
            rows = {r["mode"]: r for r in case["rows"]}
            cells = [
                number(rows[m]["median_us"]) if m in rows else "–"
                for m in ("numpy", "eager", "hybridized", "static", "bare", "copy")
            ]
            extra = rows["static"]["over_bare_us"]
            small = extra is not None and abs(extra) < rows["static"]["spread_us"]
            cells.append("–" if extra is None else f"< {rows['static']['spread_us']:.2f}" if small else f"{extra:.2f}")
            parts.append(f"| {suite['name']}, {case['name']} | " + " | ".join(cells) + " |")
    parts += ["", "### First call of a new process", ""]
    parts += [
        "| milliseconds | import | finding the compiler | first call | its processor time | modules compiled |",
        "|---|" + "---:|" * 5,
    ]
    for suite in bench["suites"]:
        for first in suite["first_calls"]:
            cells = [f"{first[k]:.1f}" for k in ("import_ms", "backend_ms", "first_call_ms", "first_call_cpu_ms")]
            parts.append(
                f"| {suite['name']}, {first['cache']} cache | " + " | ".join(cells) + f" | {first['modules']} |"
            )
    parts += ["", f"Made by `hybridgpu bench --full --json …`. {place(bench)}."]
    return "\n".join(parts)


def stem(document: dict[str, Any]) -> str:
    """The name of the files of a measurement beside other libraries."""
    for file in RESULTS.glob("peers-*.json"):
        if json.loads(file.read_text(encoding="utf-8"))["date"] == document["date"]:
            return file.stem
    raise FileNotFoundError(document["date"])


def pages() -> dict[Path, str]:
    """The pages with current tables."""
    peers, bench = newest("peers-*.json"), newest("bench-*.json")
    made = {}
    for page, table in zip(PAGES, (short(peers), long(peers, bench)), strict=True):
        text = page.read_text(encoding="utf-8")
        block = f"<!-- results -->\n\n{table}\n\n<!-- end of results -->"
        made[page], count = re.subn(
            r"<!-- results -->.*?<!-- end of results -->", lambda m, b=block: b, text, flags=re.S
        )
        assert count == 1, f"{page.name} has no place for results"
    return made


def main() -> None:
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
        print(f"wrote {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
