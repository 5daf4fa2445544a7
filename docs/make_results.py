# SPDX-License-Identifier: Apache-2.0
"""Writes the measured tables into README.md and docs/benchmarks.md, from the newest files in bench/results.

    python docs/make_results.py

The tables stand between ``<!-- results -->`` and ``<!-- end of results -->``. To measure anew:

    hybridgpu bench --full --json bench/results/bench-DATE-PROCESSOR.json
    python bench/peers.py PYTHON … --threads 1 --out bench/results
    python bench/peers.py PYTHON … --workload networks --threads all 1 --out bench/results
    python bench/peers.py PYTHON … --workload eager --threads all 1 --out bench/results
    python bench/peers.py PYTHON … --workload first --out bench/results

Every workload of bench/peers.py has its place in both, of first calls those of networks in README; measurements on a GPU join
the second page.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))

import peers as beside  # noqa: E402  (bench/peers.py)

RESULTS = ROOT / "bench" / "results"
PAGES = (ROOT / "README.md", ROOT / "docs" / "benchmarks.md")
#: mode in the JSON -> head in the README, in the order of the columns
SHOWN = {
    "hybridgpu static": "**hybridgpu**, static",
    "hybridgpu eager": "hybridgpu, eager",
    "numpy eager": "NumPy",
    "torch jit.script": "torch.jit.script",
    "torch compile": "torch.compile",
    "jax jit": "jax.jit",
    "jax one thread jit": "jax.jit, pool of one thread",
    "mxnet static": "MXNet 1.9.1, static",
    "mxnet NaiveEngine static": "MXNet 1.9.1, static, NaiveEngine",
    "tensorflow xla": "TensorFlow, XLA",
    "numpy copy": "copy of the same bytes",
}
#: the same of whole networks and of single operators
SHOWN_OF_SUITES = {
    "hybridgpu static": "**hybridgpu**, static",
    "hybridgpu eager": "hybridgpu, eager",
    "numpy eager": "NumPy",
    "torch eager": "PyTorch",
    "torch compile": "torch.compile",
    "jax jit": "jax.jit",
    "mxnet static": "MXNet 1.9.1, static",
    "mxnet OMP static": "MXNet 1.9.1, static, told the cores",
    "mxnet eager": "MXNet 1.9.1",
}
#: of a workload with many sizes the README has these; of others with more than three the first, which stands for the rest
IN_README = {"chain": (1000, 100_000, 1_000_000, 100_000_000)}
#: workload of bench/peers.py -> a case of it in the README, whose size is put in
HEADS = {
    "mlp": "perceptron, batch of {}",
    "chain": "chain, {} elements",
    "normalise": "normalisation, {} rows",
    "gelu": "bias, GELU, residual; {} rows",
    "softmax": "softmax, rows of {}",
    "norm": "LayerNorm, GELU; rows of {}",
    "lenet": "LeNet, batch of {}",
    "resnet": "residual blocks, batch of {}",
    **{name: f"eager {name[6:].replace('_', ' ')}, {{}} elements" for name in beside.workloads.SUITES["eager"]},
    **{name: f"{network.title}, batch of {{}}" for name, network in beside.networks.NETWORKS.items()},
}


def newest(pattern: str, device: str = "cpu") -> dict[str, Any] | None:
    """The newest document of a kind, if there is one of that device."""
    documents = [json.loads(p.read_text(encoding="utf-8")) for p in RESULTS.glob(pattern)]
    chosen = [d for d in documents if str(d.get("device", d.get("options", {}).get("device"))).startswith(device)]
    return max(chosen, key=lambda d: d["date"], default=None)


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


def shown(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The cases of README's table."""
    sizes = {w: IN_README.get(w, n if len(n) <= 3 else n[:1]) for w, n in beside.SIZES.items()}
    return [c for c in document["cases"] if c["kind"] == "latency" and c["size"] in sizes[c["workload"]]]


def table(document: dict[str, Any], columns: dict[str, str]) -> list[str]:
    """A case a line; ``columns``: mode in the JSON -> head."""
    cases = shown(document)
    modes = [m for m in columns if any(r["name"] == m for c in cases for r in c["rows"])]
    unit = "milliseconds" if document.get("suite") == "networks" else "microseconds"
    head = f"| {unit} a call | " + " | ".join(columns[m] for m in modes)
    lines = [head + " |", "|---|" + "---:|" * len(modes)]
    for c in cases:
        times = {r["name"]: number(r["median_us"] / (1000 if unit == "milliseconds" else 1)) for r in c["rows"]}
        cells = [f"**{times[m]}**" if m == beside.BASE and m in times else times.get(m, "–") for m in modes]
        threads = f"; {beside.THREADS[c['threads']]}" if "suite" in document else ""
        lines.append(f"| {HEADS[c['workload']].format(format(c['size'], ','))}{threads} | " + " | ".join(cells) + " |")
    return lines


def short(document: dict[str, Any]) -> str:
    """README's first table."""
    lines = table(document, SHOWN)
    lines += [
        "",
        "Made by `python bench/peers.py PYTHON … --out bench/results`: one thread each, all in one run in turns, "
        f"medians of {document['rounds']} rounds; the perceptron has layers of 512-256-128-2, the chain is "
        "`tanh(a*x+b)*sigmoid(x) + 0.5*relu(x-c) - exp(-x*x)`, and [Benchmarks](docs/benchmarks.md#what-is-measured) "
        f"describes the others; –: not written for that library, or not measured at that size. {place(document)}.",
    ]
    return "\n".join(lines)


def short_suite(document: dict[str, Any]) -> str:
    """README's table of a suite, with one thread and with all."""
    what = {
        "networks": "Whole networks; training is forward, loss, backward and update:",
        "eager": "Single operators and a chain of ten, called without blocks:",
    }[document["suite"]]
    lines = [what, "", *table(document, SHOWN_OF_SUITES), ""]
    lines += [
        f"`--workload {document['suite']} --threads all 1`, medians of {document['rounds']} rounds. {place(document)}."
    ]
    return "\n".join(lines)


def short_first(document: dict[str, Any]) -> str:
    """README's table of first calls of networks, cold and warm."""
    cases = [c for c in document["first"] if c["workload"] in beside.networks.NETWORKS]
    modes = [m for m in SHOWN_OF_SUITES if any(r["name"] == m for c in cases for r in c["rows"])]
    lines = ["First calls, in a new process with an empty cache, and in the next process with what that left:", ""]
    lines += ["| seconds | " + " | ".join(SHOWN_OF_SUITES[m] for m in modes) + " |", "|---|" + "---:|" * len(modes)]
    for case in cases:
        found = {r["name"]: r for r in case["rows"]}
        for state, what in (("cold", "empty cache"), ("warm", "next process")):
            times = {m: r[state]["ms"] / 1e3 for m, r in found.items() if r[state]}
            cells = [f"{times[m]:.2f}" if m in times else "–" for m in modes]
            cells = [f"**{c}**" if m == beside.BASE else c for m, c in zip(modes, cells, strict=True)]
            lines.append(f"| {beside.first.TITLES[case['workload']]}; {what} | " + " | ".join(cells) + " |")
    lines += ["", f"`--workload first`; –: keeps nothing on disk. {place(document)}."]
    return "\n".join(lines)


def long(
    peers: dict[str, Any],
    bench: dict[str, Any],
    on_gpu: dict[str, Any] | None,
    suites: Sequence[dict[str, Any]] = (),
    first: dict[str, Any] | None = None,
) -> str:
    """The tables of docs/benchmarks.md."""
    own = peers if first is None else {**peers, "first": []}  # of first calls one document is enough
    parts = ["### Beside other libraries", "", beside.markdown(own).strip(), ""]
    parts += ["† used more than one core on average. The machine was shared with other jobs.", ""]
    for suite in suites:
        parts += [f"### {suite['suite'].capitalize()} beside other libraries", "", beside.markdown(suite).strip(), ""]
    if first is not None:
        parts += ["### First calls beside other libraries", "", beside.markdown(first).strip(), ""]
    if on_gpu is not None:
        parts += ["### Beside other libraries, on a GPU", "", beside.markdown(on_gpu).strip(), ""]
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
            threads = (
                "; one thread" if suite.get("threads", "1") == "1" else "; all threads"
            )  # before schema 2 it was one
            parts.append(f"| {suite['name']}, {case['name']}{threads} | " + " | ".join(cells) + " |")
    parts += ["", "### First call of a new process", ""]
    parts += [
        "| milliseconds | import | **first call** | finding the compiler | the rest | its processor time | modules compiled |",
        "|---|" + "---:|" * 6,
    ]
    for suite in bench["suites"]:
        for call in suite["first_calls"]:
            whole = call["backend_ms"] + call["first_call_ms"]
            parts_of_it = [call[k] for k in ("backend_ms", "first_call_ms", "first_call_cpu_ms")]
            cells = [f"{t:.1f}" for t in (call["import_ms"], whole, *parts_of_it)]
            parts.append(f"| {suite['name']}, {call['cache']} cache | " + " | ".join(cells) + f" | {call['modules']} |")
    parts += ["", f"Made by `hybridgpu bench --full --json …`. {place(bench)}."]
    return "\n".join(parts)


def pages() -> dict[Path, str]:
    """The pages with current tables."""
    peers, bench = newest("peers-*.json"), newest("bench-*.json")
    assert peers is not None and bench is not None, f"nothing was measured: {RESULTS}"
    suites = [d for d in (newest(f"{name}-*.json") for name in beside.SUITES) if d is not None]
    made = {}
    first = newest("first-*.json")
    tables_of = (
        "\n\n".join([short(peers), *map(short_suite, suites), *([short_first(first)] if first else [])]),
        long(peers, bench, newest("peers-*.json", "gpu"), suites, first),
    )
    for page, tables in zip(PAGES, tables_of, strict=True):
        text = page.read_text(encoding="utf-8")
        block = f"<!-- results -->\n\n{tables}\n\n<!-- end of results -->"
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
