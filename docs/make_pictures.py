# SPDX-License-Identifier: Apache-2.0
"""Draws docs/pictures/*.svg: the stages of a compilation, what fusion saves, and the measured comparison.

    python docs/make_pictures.py

``fusion.svg`` is drawn from what the compiler says of a graph, ``peers.svg`` from the newest measurement in
bench/results. The same inputs give the same bytes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from hybridgpu.compiler.ir import tensor_type  # noqa: E402
from hybridgpu.compiler.pipeline import compile_graph  # noqa: E402
from hybridgpu.compiler.primitives import builder  # noqa: E402
from hybridgpu.compiler.program import Program  # noqa: E402
from hybridgpu.compiler.target import CPU  # noqa: E402
from hybridgpu.core.dtypes import f32  # noqa: E402

FOLDER = Path(__file__).resolve().with_name("pictures")
INK, PALE, LINE = "#22262e", "#6b7280", "#c9ced6"
BLUE, SOFT, AMBER, GREEN, GREY = "#1f5fbf", "#e8f0fb", "#e0a030", "#2e9e5b", "#8a8f98"


class Svg:
    """A picture: pieces of SVG, with text in the reader's own sans-serif font."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'font-family="system-ui, sans-serif" font-size="13" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" fill="white"/>',
        ]

    def box(self, x: float, y: float, w: float, h: float, fill: str = SOFT, stroke: str = BLUE) -> None:
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="6" fill="{fill}" stroke="{stroke}"/>'
        )

    def bar(self, x: float, y: float, w: float, h: float, fill: str) -> None:
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{w:.1f}" height="{h:g}" rx="2" fill="{fill}"/>')

    def text(
        self, x: float, y: float, text: str, anchor: str = "middle", fill: str = INK, size: int = 13, bold: bool = False
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{fill}" font-size="{size}"{weight}>{escape(text)}</text>'
        )

    def arrow(self, x0: float, y0: float, x1: float, y1: float) -> None:
        self.parts.append(f'<line x1="{x0:g}" y1="{y0:g}" x2="{x1:g}" y2="{y1:g}" stroke="{PALE}" stroke-width="1.5"/>')
        if y0 == y1:
            d = 6 if x1 < x0 else -6
            head = f"{x1:g},{y1:g} {x1 + d:g},{y1 - 4:g} {x1 + d:g},{y1 + 4:g}"
        else:
            head = f"{x1:g},{y1:g} {x1 - 4:g},{y1 - 6:g} {x1 + 4:g},{y1 - 6:g}"
        self.parts.append(f'<polygon points="{head}" fill="{PALE}"/>')

    def done(self) -> str:
        return "\n".join([*self.parts, "</svg>"]) + "\n"


def pipeline() -> str:
    """The way from a block to a prepared call."""
    s = Svg(860, 330, "From a block to a prepared call")
    stages = [
        ("trace", "hybrid_forward once,", "with F = sym"),
        ("lower", "operators become", "typed primitives"),
        ("simplify", "constants, common", "parts, dead code"),
        ("fuse", "nodes share a kernel", "where that saves bytes"),
        ("schedule", "axes, threads, registers", "of each kernel"),
        ("render", "templates make", "C++ or CUDA text"),
        ("load", "compiler or cache,", "once a signature"),
        ("replay", "one foreign call,", "or one launch a kernel"),
    ]
    forms = ["Symbol", "graph", "graph", "groups", "kernels", "text", "program", ""]
    for k, ((name, one, two), form) in enumerate(zip(stages, forms, strict=True)):
        row, column = divmod(k, 4)
        x, y = 16 + column * 218, 30 + row * 165
        s.box(x, y, 162, 84, "#fff4dd" if k in (0, 7) else SOFT, AMBER if k in (0, 7) else BLUE)
        s.text(x + 81, y + 26, name, bold=True, size=15)
        s.text(x + 81, y + 48, one, fill=PALE, size=12)
        s.text(x + 81, y + 65, two, fill=PALE, size=12)
        if column < 3:
            s.arrow(x + 164, y + 42, x + 216, y + 42)
            s.text(x + 189, y + 34, form, size=10, fill=PALE)
    s.parts.append(f'<path d="M 751 116 V 155 H 97 V 190" fill="none" stroke="{PALE}" stroke-width="1.5"/>')
    s.parts.append(f'<polygon points="97,194 93,187 101,187" fill="{PALE}"/>')
    s.text(420, 150, "groups", size=10, fill=PALE)
    s.text(430, 312, "the block is traced at its first call; blue: once for each combination of shapes and types; replay: every call", fill=PALE, size=11)  # fmt: skip
    return s.done()


def chain_program(elements: int) -> tuple[Program, int]:
    """(the compiled chain of the benchmark, bytes that its operators move one by one)."""
    b = builder()
    x = b.input(tensor_type((elements,), f32), "x")
    y = b.tanh(x * 1.25 - 0.3) * b.sigmoid(x) + b.max(x - 0.2, 0.0) * 0.5 - b.exp(b.neg(x) * x)
    graph = b.finish([y], "chain")
    apart = 0
    for node in graph.nodes:
        if node.prim.family != "leaf" and node.size == elements:
            big = {i for i in node.inputs if i.prim.name not in ("const", "broadcast") and i.size == elements}
            if node.prim.name != "broadcast":
                apart += 4 * elements * (1 + len(big))
    return compile_graph(graph, CPU), apart


def fusion() -> str:
    """Memory traffic of the chain, operator by operator and as one kernel."""
    elements = 1_000_000
    program, apart = chain_program(elements)
    together = program.bytes_moved
    s = Svg(860, 190, "Memory traffic with and without fusion")
    s.text(20, 28, "tanh(a*x+b) * sigmoid(x) + 0.5 * relu(x-c) - exp(-x*x), a million elements", "start", bold=True)
    scale = 560 / apart
    for k, (label, nbytes, colour) in enumerate(
        (
            ("operator by operator", apart, AMBER),
            (f"hybridized: {len(program.kernels)} kernel", together, BLUE),
            ("least possible", program.bytes_min, GREEN),
        )
    ):
        y = 50 + 40 * k
        s.text(170, y + 18, label, "end", size=12)
        s.bar(180, y, nbytes * scale, 26, colour)
        s.text(188 + nbytes * scale, y + 18, f"{nbytes / 1e6:.0f} MB", "start", size=12)
    s.text(20, 180, "bytes read and written, every array an operator touches once", "start", PALE, 11)
    return s.done()


def newest_peers() -> Path:
    """The newest measurement beside other libraries on a CPU."""
    found = sorted((ROOT / "bench" / "results").glob("peers-*.json"))
    found = [p for p in found if json.loads(p.read_text(encoding="utf-8"))["device"] == "cpu"]
    return found[-1]


#: mode of a library that is shown -> its name
SHOWN = {
    "hybridgpu static": "hybridgpu",
    "numpy eager": "NumPy",
    "jax jit": "jax.jit",
    "torch jit.script": "torch.jit.script",
    "torch compile": "torch.compile",
    "mxnet static": "MXNet static",
    "mxnet NaiveEngine static": "MXNet static, NaiveEngine",
    "tensorflow xla": "TensorFlow, XLA",
}


def peers() -> str:
    """Microseconds a call beside other libraries, a panel a case."""
    document = json.loads(newest_peers().read_text(encoding="utf-8"))
    panels: list[tuple[str, dict[str, float]]] = []
    for workload, size, title in (
        ("mlp", 1, "perceptron 512-256-128-2, batch 1"),
        ("mlp", 16, "the same, batch 16"),
        ("chain", 1000, "chain of ten operators, 1,000 elements"),
        ("chain", 1_000_000, "chain of ten operators, 1,000,000 elements"),
        ("softmax", 1024, "softmax, 4,096 rows of 1,024"),
        ("norm", 1024, "LayerNorm and GELU, 4,096 rows of 1,024"),
        ("lenet", 16, "LeNet, batch 16"),
        ("resnet", 1, "stem and three residual blocks, batch 1"),
    ):
        wanted = workload, size, "latency"
        case = next((c for c in document["cases"] if (c["workload"], c["size"], c["kind"]) == wanted), None)
        if case is None:  # not measured this time
            continue
        times = {SHOWN[r["name"]]: r["median_us"] for r in case["rows"] if r["name"] in SHOWN}
        panels.append((title, dict(sorted(times.items(), key=lambda kv: kv[1]))))
    return draw_peers(panels, document)


def draw_peers(panels: Sequence[tuple[str, dict[str, float]]], document: dict[str, Any]) -> str:
    height = max(len(times) for _, times in panels) * 24 + 46
    bottom = -(-len(panels) // 2) * height
    s = Svg(900, bottom + 34, "hybridgpu beside other libraries")
    for k, (title, times) in enumerate(panels):
        x, y = 10 + k % 2 * 450, k // 2 * height
        s.text(x + 10, y + 24, title, "start", bold=True)
        longest = max(times.values())
        for j, (name, us) in enumerate(times.items()):
            top = y + 36 + 24 * j
            ours = name == "hybridgpu"
            s.text(x + 190, top + 14, name, "end", INK if ours else PALE, 11, ours)
            s.bar(x + 196, top + 2, max(1.0, us / longest * 170), 16, BLUE if ours else GREY)
            shown = f"{us:,.0f}" if us >= 100 else f"{us:.3g}"
            s.text(x + 202 + max(1.0, us / longest * 170), top + 14, f"{shown} µs", "start", INK, 11)
    cpu = document["machine"]["cpu"]
    s.text(20, bottom + 18, f"median time of a call, one thread; {cpu['model']}, {document['date'][:10]}", "start", PALE, 11)  # fmt: skip
    return s.done()


def pictures() -> dict[str, str]:
    """File name -> text."""
    return {"pipeline.svg": pipeline(), "fusion.svg": fusion(), "peers.svg": peers()}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, text in pictures().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"wrote docs/pictures/{name}")


if __name__ == "__main__":
    main()
