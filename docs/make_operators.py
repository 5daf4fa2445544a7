# SPDX-License-Identifier: Apache-2.0
"""Writes docs/operators.md from the operator table.

    python docs/make_operators.py [--check]

Everything is found out by trying: each record's own samples are lowered for every element type, differentiated, and
compiled for the CPU. ``--check`` writes nothing and exits with 1 if the page is not current.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import hybridgpu.operator  # noqa: E402 - operators written in Python have a record, too
import hybridgpu.ops.numpy  # noqa: E402, F401 - and those of np, which are declared at their first use
from hybridgpu.base import MXNetError  # noqa: E402
from hybridgpu.compiler.ir import Graph, tensor_type  # noqa: E402
from hybridgpu.compiler.ir.graph import RANDOM_STATE  # noqa: E402
from hybridgpu.compiler.passes.differentiate import differentiate  # noqa: E402
from hybridgpu.compiler.pipeline import compile_graph  # noqa: E402
from hybridgpu.compiler.program import KernelStep, LibraryStep  # noqa: E402
from hybridgpu.compiler.target import CPU  # noqa: E402
from hybridgpu.core.dtypes import ALL_DTYPES, DType, bf16, f32, from_short  # noqa: E402
from hybridgpu.ndarray.apply import operator_graph  # noqa: E402
from hybridgpu.ops import OPERATORS  # noqa: E402
from hybridgpu.ops.record import Operator, Sample  # noqa: E402

PAGE = Path(__file__).resolve().with_name("operators.md")
TYPES = (*ALL_DTYPES[:8], bf16)  #: those of MXNet
SHAPE = (2, 3)  #: for records that take any

HEAD = """\
# Operators

Made from the operator table by `python docs/make_operators.py`; do not edit.

Every operator is reached as `mx.nd.NAME` and `mx.sym.NAME` (`F.NAME` in `hybrid_forward`). Names that begin with
`_contrib_`, `_linalg_`, `_image_` or `_random_` are functions of `nd.contrib`, `nd.linalg` and so on; other names
with a leading underscore are what Python's operators and other functions call, and what model files hold; `_np_`, `_npi_` and
`_npx_` are what functions of `mx.np` and `mx.npx` call. All of them run eagerly.

- **hybridized** says what a hybridized block makes of it, found by compiling the operator's own test calls for the CPU
  in float32. `map`, `reduce`, `rows`, `matmul`, `conv` are kinds of generated kernels; the operator becomes part of
  one, together with its neighbours where they fit. `library` names the primitives that NumPy, BLAS or CuPy compute. `no work` means
  that only the view of an array changes. `stage` ends one program and begins the next, because an extent depends on
  values.
- **gradient** is `yes`, `zero` (no gradient flows, as in MXNet), or `no` (asking for it is an error).
- **types** are the element types that it takes: `all` of float16, bfloat16, float32, float64, uint8, int8, int32, int64,
  bool; `float` for the floating-point ones, `number` for all but bool.

"""


def samples(op: Operator) -> Sequence[Sample]:
    """The calls of a record; one without attributes where it lists none."""
    return op.samples or (Sample(None, {}, {}),)


def graph_of(op: Operator, sample: Sample, dtype: DType, training: bool = False) -> Graph:
    """The lowering of one sample in one element type.

    Raises:
        MXNetError: the operator refuses.
    """
    values = op.parse(sample.attributes)
    count = 3 if op.variadic else len(op.input_names(values))
    shapes = [SHAPE] * count if sample.shapes is None else sample.shapes
    types = [tensor_type(s, from_short("i32") if k in sample.positions else dtype) for k, s in enumerate(shapes)]
    return operator_graph(op, values, types, training)[0]


def graphs(op: Operator, dtype: DType, training: bool = False) -> list[Graph]:
    """The lowerings of all samples that take the element type."""
    found = []
    for sample in samples(op):
        try:
            found.append(graph_of(op, sample, dtype, training))
        except MXNetError:
            continue
    return found


def hybridized(op: Operator) -> str:
    """Kinds of kernels and library calls of all samples."""
    if op.subgraphs:
        return "loop or branch"
    if op.eager is not None:
        return "stage"
    if op.python is not None:
        return "Python, in a stage"
    kernels: set[str] = set()
    library: set[str] = set()
    for graph in graphs(op, f32):
        program = compile_graph(graph, CPU)
        kernels |= {program.kernels[s.kernel].kind for s in program.steps if isinstance(s, KernelStep)}
        library |= {s.primitive for s in program.steps if isinstance(s, LibraryStep)}
    # what only copies its input to its output has nothing to do inside a graph
    if kernels == {"map"} and not library and all(only_views(g) for g in graphs(op, f32)):
        return "no work"
    parts = [", ".join(sorted(kernels))] if kernels else []
    parts += [f"library ({', '.join(sorted(library))})"] if library else []
    return "; ".join(parts) or "no work"


def only_views(graph: Graph) -> bool:
    """True if the results are the inputs in another shape."""
    return all(n.prim.name in ("input", "reshape", "stop_gradient", "custom_gradient") for n in graph.nodes)


def gradient(op: Operator) -> str:
    """yes, zero or no."""
    if op.eager is not None:
        return "zero" if not op.differentiable else "yes" if op.eager_gradient is not None else "no"
    if op.subgraphs or op.python is not None:
        return "yes"
    if not op.differentiable:
        return "zero"
    for graph in graphs(op, f32, training=True):
        plain = [n for n in graph.inputs if n.params["name"] != RANDOM_STATE]
        given = [o.dtype.is_float for o in graph.outputs]
        wanted = [n.dtype.is_float for n in plain]
        try:
            gives = differentiate(graph, (), given, wanted).output_positions
        except MXNetError:
            return "no"
        if any(g is not None for g in gives):
            return "yes"
    return "zero"


def types(op: Operator) -> str:
    """Element types that at least one sample takes."""
    if op.eager is not None or op.python is not None or op.subgraphs:
        return ""
    if all(op.parse(s.attributes) and not count_inputs(op, s) for s in samples(op)):
        return "by `dtype`" if "dtype" in op.params else ""
    taken = [d for d in TYPES if graphs(op, d)]
    names = {d.name for d in taken}
    floats = {d.name for d in TYPES if d.is_float}
    everything = {d.name for d in TYPES}
    for word, group in (("all", everything), ("number", everything - {"bool"}), ("float", floats)):
        if names == group:
            return word
    return ", ".join(d.name for d in taken)


def count_inputs(op: Operator, sample: Sample) -> int:
    return len(sample.shapes) if sample.shapes is not None else len(op.input_names(op.parse(sample.attributes), 3))


def row(op: Operator) -> str:
    """A line of the table."""
    summary = op.doc.strip().split("\n")[0].rstrip(".").replace("|", "\\|").replace("``", "`")
    aliases = ", ".join(f"`{a}`" for a in op.aliases)
    inputs = ", ".join(op.inputs).replace("*", "\\*")
    name = f"`{op.name}`" + (f" ({aliases})" if aliases else "")
    return f"| {name} | {inputs} | {hybridized(op)} | {gradient(op)} | {types(op)} | {summary} |"


def page() -> str:
    """The whole page."""
    families: dict[str, list[Operator]] = {}
    for op in dict.fromkeys(OPERATORS.values()):
        of_np = "np: " if op.name.startswith("_np") else ""
        families.setdefault(of_np + op.lower.__module__.rpartition(".")[2], []).append(op)
    records = list(itertools.chain.from_iterable(families.values()))
    parts = [HEAD, f"{len(records)} operators under {len(OPERATORS)} names.\n"]
    for family, members in sorted(families.items()):
        parts.append(f"\n## {(family if family.startswith('np: ') else family.capitalize()).replace('_', ' ')}\n")
        parts.append("| operator (other names) | inputs | hybridized | gradient | types | what it does |")
        parts.append("|---|---|---|---|---|---|")
        parts += [row(op) for op in sorted(members, key=lambda op: op.name.lower())]
    return "\n".join(parts) + "\n"


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        print("docs/operators.md is not current: run python docs/make_operators.py", file=sys.stderr)
        return 1
    PAGE.write_text(text, encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
