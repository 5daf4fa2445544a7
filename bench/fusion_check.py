# SPDX-License-Identifier: Apache-2.0
"""Every fused kernel with windows or reductions on the CPU against the same work cut apart: what fusion loses, and wins.

    python bench/fusion_check.py [--limit SHARE] [--json FILE] poolings [NAME ...]
    python bench/fusion_check.py [--size N] [--batch N] [--train] [--all] networks [NAME ...]

``poolings`` is a table of what stands before a pooling x the pooling x the size of the image, forward and backward;
``networks`` takes kernels out of compiled networks of the model zoo (those with windows, with ``--all`` every one with
reductions, too). Each is compiled once as the compiler fuses it and again with intermediate results in memory where a
window, a reduction or another view reads them: one of them at a time, and all. Times are minima of rounds in which all of
these run in turn, on one thread. Lists what takes more than 1 + SHARE of its fastest parts' time, and exits with 1 if
there is any.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from hybridgpu import sym
from hybridgpu.backends.cpu.backend import CpuProgram, address_of, cpu_backend
from hybridgpu.cli.bench.timing import HostClock, Loop, compare
from hybridgpu.compiler.ir import Graph, Node, tensor_type
from hybridgpu.compiler.passes.canonicalize.simplify import simplify
from hybridgpu.compiler.passes.fuse.fuse import FusionPlan
from hybridgpu.compiler.passes.fuse.group import Group
from hybridgpu.compiler.passes.recompute_hints import NO_RECOMPUTE, NO_RECOMPUTE_REASONS
from hybridgpu.compiler.passes.rewrite import rewrite
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import TABLE, builder
from hybridgpu.compiler.target import CPU
from hybridgpu.core.dtypes import from_short
from hybridgpu.gluon.model_zoo import vision
from hybridgpu.runtime.recorded_program import RecordedProgram
from hybridgpu.symbol.lowering import lower_symbol
from hybridgpu.symbol.symbol import Symbol

ROUNDS, SECONDS = 40, 0.001  #: of a batch of calls
AT_ONCE = 32  #: graphs that are compiled before their programs are timed
MOST_CUTS = 6  #: that are tried one at a time
WINDOWS = ("unfold", "fold")
LEFT_ALONE = ("reshape", "broadcast")  #: views that neither repeat work within a loop nor need tests


# -- cutting


def cuts(graph: Graph) -> list[Node]:
    """What a fused kernel computes and a window, a reduction or a view of part of it reads; results of reductions."""
    found: dict[Node, None] = {}
    for node in graph.nodes:
        if node.prim.family == "reduce":
            found[node] = None
        for i in node.inputs:
            moved = node.prim.family == "reduce"
            while i.prim.family == "view" and len(i.inputs) == 1:
                moved |= i.prim.name not in LEFT_ALONE
                i = i.inputs[0]
            if moved and i.prim.family == "elementwise" and i.prim.name != "copy":
                found[i] = None
    return [n for n in found if n not in graph.outputs]


def cut(graph: Graph, at: Collection[Node]) -> Graph:
    """``graph`` with the nodes ``at`` in memory before anything reads them."""
    reason = next(iter(NO_RECOMPUTE_REASONS))

    def rule(b: Any, node: Node, new: dict[Node, Node]) -> Node | None:
        if node not in at:
            return None
        made = b.apply(node.prim, [new[i] for i in node.inputs], node.params)
        return b.apply(TABLE["copy"], (made,), {NO_RECOMPUTE: reason})

    return rewrite(graph, rule)


def kernels(graph: Graph, every: bool) -> Iterator[tuple[str, Graph]]:
    """The graph of each fused kernel of ``graph`` that is looked at, with its name."""
    seen: dict[str, Any] = {}
    compile_graph(graph, CPU, observe=seen.setdefault)
    ready: Graph = seen["materialize"]
    plan: FusionPlan = seen["drop_dead_groups"]
    wanted, readers = set(ready.outputs), plan.readers()
    for group in plan.groups:
        members = set(group.members)
        if group.library or group.contraction or group.scatter or len(members) < 2:
            continue
        found = _kernel(ready, group, [n for n in group.index_of if n in wanted or set(readers.get(n, ())) - {group}])
        names = {n.prim.name for n in found.nodes}
        if not names.isdisjoint(WINDOWS) or (every and any(n.prim.family == "reduce" for n in found.nodes)):
            yield found.name, found


def _kernel(graph: Graph, group: Group, stored: list[Node]) -> Graph:
    b = builder()
    new: dict[Node, Node] = {}
    stack = [(n, False) for n in stored]
    while stack:
        node, ready = stack.pop()
        if node in new:
            continue
        leaf = node.prim.family == "leaf" and node.prim.name != "input"
        if not leaf and node.prim.family != "view" and node not in group.index_of:
            new[node] = b.input(node.type, f"x{len(b.inputs)}")
        elif ready or leaf:
            b.prov = node.prov
            new[node] = b.apply(node.prim, [new[i] for i in node.inputs], node.params)
        else:
            stack.append((node, True))
            stack += [(i, False) for i in node.inputs]
    operators = dict.fromkeys(n.prov.op for n in sorted(group.index_of, key=lambda n: n.index) if n.prov)
    shapes = " ".join(dict.fromkeys(repr(n.type) for n in (*b.inputs, *stored) if n.size > 1))
    return b.finish([new[n] for n in stored], f"{'+'.join(operators)} {shapes}")


# -- timing


@dataclass
class Row:
    """One kernel or graph: microseconds fused, and of its fastest parts."""

    name: str
    fused: float
    parts: float
    kernels: int
    kernels_of_parts: int
    forms: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return self.fused / self.parts


def versions(graph: Graph) -> list[Graph]:
    """``graph``, and with more of it in memory."""
    graph = simplify(graph)
    at = cuts(graph)
    some = [[n] for n in at] if len(at) <= MOST_CUTS else []
    return [graph, *(cut(graph, c) for c in some), *([cut(graph, at)] if len(at) > 1 else [])]


def load(graph: Graph) -> CpuProgram:
    backend = cpu_backend()
    assert backend is not None, "there is no compiler here"
    return backend.load(compile_graph(graph, CPU))


def arguments(graph: Graph) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    found = []
    for n in graph.inputs:
        if n.dtype.is_float:
            # (what is kept of variances is positive)
            found.append(rng.random(n.shape, np.float32).astype(n.dtype.np) + n.dtype.np.type(0.1))
            if n.size > 4096:
                found[-1] -= n.dtype.np.type(0.6)
        else:
            found.append(np.zeros(n.shape, n.dtype.np))
    return found


def calls(loaded: CpuProgram, inputs: list[np.ndarray]) -> Loop:
    """Calls of a program without what Python does for a user's call."""
    program = loaded.program
    outputs = [np.empty(shape, from_short(dtype).np) for shape, dtype in program.outputs]
    if loaded.single is None or program.takes_pointer_array:
        call: Any = partial(loaded, inputs, outputs)
    else:
        table = loaded.pointers([])
        addresses = [address_of(a) for a in (*inputs, *outputs)]
        arena = loaded.arena()
        call = partial(loaded.single, arena[1], loaded.table, table.buffer_info()[0], *addresses)
        call.__dict__["held"] = (arena, table, outputs)  # which live as long

    def run(count: int) -> None:
        for _ in range(count):
            call()

    return run


def timed(named: Iterator[tuple[str, Graph]]) -> Iterator[Row]:
    """A row for each graph; compilers run two at a time, timing when they are done."""
    while some := list(islice(named, AT_ONCE)):
        graphs = [(name, versions(graph)) for name, graph in some]
        with ThreadPoolExecutor(2) as pool:
            loaded = [(name, made, [pool.submit(load, g) for g in made]) for name, made in graphs if len(made) > 1]
            programs = [(name, made, [f.result() for f in futures]) for name, made, futures in loaded]
        for name, made, found in programs:
            yield _compared(name, made, found)


def _compared(name: str, made: list[Graph], found: list[CpuProgram]) -> Row:
    inputs = arguments(made[0])
    loops = {str(k): calls(p, inputs) for k, p in enumerate(found)}
    for run in loops.values():
        run(2)
    samples = compare(loops, HostClock(), ROUNDS, SECONDS)
    fused, *parts = (s.minimum for s in samples.values())
    best = min(range(len(parts)), key=parts.__getitem__)
    program = found[0].program
    forms = [f"{k.kind} {k.choice.get('form', '')}".strip() for k in program.kernels]
    return Row(name, fused, parts[best], len(program.steps), len(found[best + 1].program.steps), forms)


# -- what is looked at

_BEFORE = {
    "none": lambda x, v: x,
    "bn": lambda x, v: sym.broadcast_add(sym.broadcast_mul(x, v("scale")), v("shift")),
    "bn+relu": lambda x, v: sym.relu(_BEFORE["bn"](x, v)),
    "relu": lambda x, v: sym.relu(x),
    "add+relu": lambda x, v: sym.relu(x + v("other", True)),
    "mask": lambda x, v: x * v("mask", True),
    "sigmoid": lambda x, v: sym.sigmoid(x),
    "from f16": lambda x, v: sym.cast(x, "float32"),
    "f16": lambda x, v: sym.relu(x),
    "bf16": lambda x, v: sym.relu(x),
}
if find_spec("ml_dtypes") is None:
    del _BEFORE["bf16"]
_TYPES = {"from f16": "f16", "f16": "f16", "bf16": "bf16"}
_POOLINGS: dict[str, dict[str, Any]] = {
    "2x2/2": {"kernel": (2, 2), "stride": (2, 2)},
    "3x3/2+1": {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)},
    "3x3/2": {"kernel": (3, 3), "stride": (2, 2)},
    "3x3/2 full": {"kernel": (3, 3), "stride": (2, 2), "pooling_convention": "full"},
    "3x3/1": {"kernel": (3, 3), "stride": (1, 1)},
    "3x3/1+1": {"kernel": (3, 3), "stride": (1, 1), "pad": (1, 1)},
    "3x3/3": {"kernel": (3, 3), "stride": (3, 3)},
    "5x5/1+2": {"kernel": (5, 5), "stride": (1, 1), "pad": (2, 2)},
    "7x7/7": {"kernel": (7, 7), "stride": (7, 7)},
    "global": {"kernel": (1, 1), "global_pool": True},
    "1d 3/2+1": {"kernel": (3,), "stride": (2,), "pad": (1,)},
    "1d 2/2": {"kernel": (2,), "stride": (2,)},
    "3d 3/2+1": {"kernel": (3, 3, 3), "stride": (2, 2, 2), "pad": (1, 1, 1)},
    "3d 2/2": {"kernel": (2, 2, 2), "stride": (2, 2, 2)},
}


def poolings(
    names: Iterable[str], sizes: Iterable[int], batches: Iterable[int], backward: bool
) -> Iterator[tuple[str, Graph]]:
    """The table; ``names`` are parts of rows' names that are wanted."""
    for batch in batches:
        for size in sizes:
            for kind, p in _POOLINGS.items():
                rank = len(p["kernel"]) if kind != "global" else 2
                spatial = {1: (size * size,), 2: (size, size), 3: (max(size // 4, 7),) * 3}[rank]
                if min(spatial) < max(p["kernel"]):
                    continue
                for how in ("max", "avg", "sum"):
                    for before, make in _BEFORE.items():
                        name = f"{before} {how} {kind} {batch}x{size}"
                        if all(part in name for part in names):
                            shape = (batch, 64, *spatial)
                            out = sym.Pooling(make(sym.var("data"), partial(_given, shape)), pool_type=how, **p)
                            yield from graphs(name, out, {"data": shape}, _TYPES.get(before, "f32"), backward)


def _given(shape: tuple[int, ...], name: str, whole: bool = False) -> Symbol:
    found: Symbol = sym.var(name, shape=shape if whole else (1, shape[1], *(1 for _ in shape[2:])))
    return found


def graphs(
    name: str, out: Symbol, known: dict[str, tuple[int, ...]], dtype: str, backward: bool
) -> Iterator[tuple[str, Graph]]:
    """The graph of a call, or of the two passes of a step."""
    arguments, _, states = out.infer_shape(**known)
    names = [*out.list_arguments(), *out.list_auxiliary_states()]
    types = {n: tensor_type(tuple(s), from_short(dtype)) for n, s in zip(names, [*arguments, *states], strict=True)}
    inputs = out.list_inputs()
    if not backward:
        yield name, lower_symbol(out, types, False)
        return
    training = RecordedProgram(out, [types[n] for n in inputs], True, tuple(n in out.list_arguments() for n in inputs))
    derivative: list[Any] = []
    training._follow(training._plan(derivative))
    yield f"{name} forward", training._forward_graph(derivative)
    yield f"{name} backward", derivative[0].graph


def networks(names: Iterable[str], size: int, batch: int, train: bool, every: bool) -> Iterator[tuple[str, Graph]]:
    """Kernels of networks, each once."""
    known: set[str] = set()
    for net in names:
        known_as = {"data": (batch, 3, size, size)}
        for name, graph in graphs(net, vision.get_model(net)(sym.var("data")), known_as, "f32", train):
            for kernel, part in kernels(graph, every):
                text = str(part).split("\n", 1)[1]
                if text not in known:
                    known.add(text)
                    yield f"{name}: {kernel}", part


ZOO = (
    "resnet18_v1",
    "resnet18_v2",
    "densenet121",
    "inceptionv3",
    "mobilenetv2_1.0",
    "squeezenet1.1",
    "vgg11_bn",
    "alexnet",
)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("what", choices=("poolings", "networks"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--sizes", type=int, nargs="+", default=(112, 56, 28, 7))
    parser.add_argument("--batch", type=int, nargs="+", default=(1,))
    parser.add_argument("--train", action="store_true", help="both passes of a training step")
    parser.add_argument("--all", action="store_true", help="networks: kernels with reductions, too")
    parser.add_argument("--limit", type=float, default=0.05)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(argv)
    if given.what == "poolings":
        found = poolings(given.names, given.sizes, given.batch, given.train)
    else:
        found = networks(given.names or ZOO, given.sizes[0], given.batch[0], given.train, given.all)
    rows = []
    print(f"{'fused us':>9} {'parts us':>9} {'ratio':>6}  kernels")
    for row in timed(found):
        rows.append(row)
        slow = "  <- slower than its parts" if row.ratio > 1 + given.limit else ""
        print(
            f"{row.fused:9.1f} {row.parts:9.1f} {row.ratio:6.2f}  {row.kernels}/{row.kernels_of_parts} {row.name} "
            f"[{', '.join(row.forms)}]{slow}",
            flush=True,
        )
    if given.json:
        given.json.write_text(json.dumps([asdict(r) for r in rows], indent=1))
    lost = [r for r in rows if r.ratio > 1 + given.limit]
    print(f"{len(rows)} timed, {len(lost)} slower than their parts by more than {given.limit:.0%}")
    return bool(lost)


if __name__ == "__main__":
    sys.exit(main())
