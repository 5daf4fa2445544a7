# SPDX-License-Identifier: Apache-2.0
"""Every fused kernel on the CPU against the same work cut apart: what fusion loses, and wins.

    python bench/fusion_check.py [--sizes N ...] [--batch N ...] [--train] [--limit SHARE] [--json FILE] WHAT [NAME ...]

``poolings`` is a table of what stands before a pooling x the pooling x the size of the image; ``networks`` takes kernels
out of compiled networks of the model zoo, all of them unless some are named; ``blocks`` out of what detectors and
segmentation put behind such networks. A kernel is compiled once as the compiler fuses it and again with intermediate
results in memory where a window, a reduction or another view reads them, or a convolution made them: one of them at a
time, and all; and each of several results by itself. Times are minima of rounds in which all of these run in turn, on one
thread; what seems to lose is timed again. Lists what takes more than 1 + SHARE of its fastest parts' time, and exits with
1 if there is any. Rows of FILE whose generated code is the same are not timed again, so that a run can be resumed, and
after a change of the compiler only what changed is timed.
"""

from __future__ import annotations

import argparse
import hashlib
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
from hybridgpu.backends import memory
from hybridgpu.backends.cpu.backend import CpuProgram, address_of, cpu_backend
from hybridgpu.cli.bench.timing import HostClock, Loop, compare
from hybridgpu.compiler.ir import Graph, Node, tensor_type
from hybridgpu.compiler.passes.canonicalize.simplify import simplify
from hybridgpu.compiler.passes.fuse.fuse import FusionPlan
from hybridgpu.compiler.passes.fuse.group import CONTRACTIONS
from hybridgpu.compiler.passes.recompute_hints import NO_RECOMPUTE, NO_RECOMPUTE_REASONS
from hybridgpu.compiler.passes.rewrite import rewrite
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import TABLE, builder
from hybridgpu.compiler.program import Program
from hybridgpu.compiler.target import CPU
from hybridgpu.core.dtypes import from_short
from hybridgpu.gluon.model_zoo import vision
from hybridgpu.runtime.recorded_program import RecordedProgram
from hybridgpu.symbol.lowering import lower_symbol
from hybridgpu.symbol.symbol import Symbol

MODELS = sorted(vision._MODELS)
ROUNDS, SECONDS = 40, 0.001  #: of a batch of calls
AT_ONCE = 32  #: graphs that are compiled before their programs are timed
MOST_CUTS = 6  #: that are tried one at a time
LEFT_ALONE = ("reshape", "broadcast")  #: views that neither repeat work within a loop nor need tests


# -- cutting


def cuts(graph: Graph) -> list[Node]:
    """What a fused kernel computes and a window, a reduction, a product or a view of part of it reads, and their results."""
    found: dict[Node, None] = {}
    for node in graph.nodes:
        if node.prim.family == "reduce" or node.prim.name in CONTRACTIONS:
            found[node] = None
        for i in node.inputs:
            moved = node in found
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


def kernels(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """The graph of each fused kernel of ``graph``, with its name."""
    seen: dict[str, Any] = {}
    compile_graph(graph, CPU, observe=seen.setdefault)
    ready: Graph = seen["materialize"]
    plan: FusionPlan = seen["drop_dead_groups"]
    wanted, readers = set(ready.outputs), plan.readers()
    for group in plan.groups:
        members = group.members
        if group.library or group.scatter or len(members) < 2:
            continue
        found = _kernel(members, [n for n in group.index_of if n in wanted or set(readers.get(n, ())) - {group}])
        yield found.name, found


def _kernel(members: list[Node], stored: list[Node]) -> Graph:
    b, inside = builder(), set(members)
    new: dict[Node, Node] = {}
    stack = [(n, False) for n in stored]
    while stack:
        node, ready = stack.pop()
        if node in new:
            continue
        leaf = node.prim.family == "leaf" and node.prim.name != "input"
        if not leaf and node.prim.family != "view" and node not in inside:
            new[node] = b.input(node.type, f"x{len(b.inputs)}")
        elif ready or leaf:
            b.prov = node.prov
            new[node] = b.apply(node.prim, [new[i] for i in node.inputs], node.params)
        else:
            stack.append((node, True))
            stack += [(i, False) for i in node.inputs]
    operators = dict.fromkeys(n.prov.op for n in sorted(members, key=lambda n: n.index) if n.prov)
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
    code: str = ""  #: a digest of all generated code

    @property
    def ratio(self) -> float:
        return self.fused / self.parts


def versions(graph: Graph) -> list[list[Graph]]:
    """``graph``, with more of it in memory, and each of its results by itself."""
    graph = simplify(graph)
    at = cuts(graph)
    found = [[cut(graph, [c])] for c in at] if len(at) <= MOST_CUTS else []
    found += [[cut(graph, at)]] if len(at) > 1 else []
    if len(graph.outputs) > 1:
        found.append([Graph(graph.name, graph.inputs, (y,)) for y in graph.outputs])
    return [[graph], *found]


def load(program: Program) -> CpuProgram:
    backend = cpu_backend()
    assert backend is not None, "there is no compiler here"
    return backend.load(program)


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
    return [memory.copy(np, x) for x in found]  # which lie as arrays of programs do


def calls(loaded: CpuProgram, inputs: list[np.ndarray]) -> Loop:
    """Calls of a program without what Python does for a user's call."""
    program = loaded.program
    outputs = [memory.empty(np, shape, from_short(dtype).np) for shape, dtype in program.outputs]
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


def timed(named: Iterator[tuple[str, Graph]], limit: float, known: dict[str, Row]) -> Iterator[Row]:
    """A row for each graph; compilers run two at a time, timing when they are done.

    Args:
        limit: what loses more is timed again.
        known: rows of code that was timed before.
    """
    while some := list(islice(named, AT_ONCE)):
        waiting = []
        with ThreadPoolExecutor(2) as pool:
            for name, graph in some:
                made = versions(graph)
                if len(made) == 1:
                    continue
                programs = [[compile_graph(g, CPU) for g in version] for version in made]
                code = _digest(programs)
                if code in known:
                    yield known[code]
                    continue
                loaded = [[pool.submit(load, p) for p in version] for version in programs]
                waiting.append((name, code, made[0][0], loaded))
        for name, code, graph, loaded in waiting:
            found = [[f.result() for f in version] for version in loaded]
            row = _compared(name, graph, found)
            if row.ratio > 1 + limit:
                row = min(row, _compared(name, graph, found), key=lambda r: r.ratio)
            row.code = code
            yield row


def _digest(programs: list[list[Program]]) -> str:
    texts = hashlib.blake2b(digest_size=16)
    for version in programs:
        for program in version:
            texts.update(repr((program.inputs, program.outputs)).encode())
            for kernel in program.kernels:
                texts.update(kernel.text.encode())
    return texts.hexdigest()


def _compared(name: str, graph: Graph, found: list[list[CpuProgram]]) -> Row:
    inputs = arguments(graph)
    loops = {str(k): _in_turn([calls(p, inputs) for p in version]) for k, version in enumerate(found)}
    for run in loops.values():
        run(2)
    samples = compare(loops, HostClock(), ROUNDS, SECONDS)
    fused, *parts = (s.minimum for s in samples.values())
    best = min(range(len(parts)), key=parts.__getitem__)
    (program,) = (p.program for p in found[0])
    forms = [f"{k.kind} {k.choice.get('form', '')}".strip() for k in program.kernels]
    steps = sum(len(p.program.steps) for p in found[best + 1])
    return Row(name, fused, parts[best], len(program.steps), steps, forms)


def _in_turn(loops: list[Loop]) -> Loop:
    def run(count: int) -> None:
        for _ in range(count):
            for each in loops:
                each(1)

    return loops[0] if len(loops) == 1 else run


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
    training._follow(training._plan())
    yield f"{name} forward", training._forward_graph()
    yield f"{name} backward", training.derivative().graph


_BLOCKS: dict[str, tuple[tuple[int, ...], Any]] = {
    "squeeze and excitation": ((1, 256, 56, 56), lambda x: sym.broadcast_mul(x, sym.sigmoid(_dense(_mean(x), 256)))),
    "pyramid": (
        (1, 256, 28, 28),
        lambda x: sym.relu(sym.UpSampling(_conv(x, 64, 1), scale=2, sample_type="nearest", num_args=1) + 1.0),
    ),
    "spatial pyramid pooling": (
        (1, 128, 13, 13),
        lambda x: sym.Concat(x, *(_pooled(x, k) for k in (5, 9, 13)), dim=1),
    ),
    "whole image": (
        (1, 256, 32, 32),
        lambda x: sym.broadcast_add(x, sym.relu(sym.BatchNorm(_conv(_mean(x), 256, 1), fix_gamma=False))),
    ),
    "normalised scale": (
        (1, 512, 38, 38),
        lambda x: sym.broadcast_mul(sym.L2Normalization(x, mode="channel"), _given((1, 512, 38, 38), "scale")),
    ),
    "class scores": (
        (1, 84, 38, 38),
        lambda x: sym.softmax(sym.reshape(sym.transpose(x, (0, 2, 3, 1)), (0, -1, 21)), axis=-1),
    ),
    "boxes": (
        (1, 24, 52, 52),
        lambda x: sym.exp(
            sym.slice_axis(sym.reshape(sym.transpose(x, (0, 2, 3, 1)), (0, -1, 4)), axis=-1, begin=2, end=4)
        ),
    ),
    "ceiling stem": (
        (1, 64, 112, 112),
        lambda x: sym.Pooling(
            sym.relu(sym.BatchNorm(x, fix_gamma=False)), kernel=(3, 3), stride=(2, 2), pooling_convention="full"
        ),
    ),
    "shuffle": (
        (1, 232, 28, 28),
        lambda x: sym.relu(sym.reshape(sym.swapaxes(sym.reshape(x, (0, -4, 2, -1, -2)), 1, 2), (0, -3, -2))),
    ),
}


def _mean(x: Symbol) -> Symbol:
    return sym.Pooling(x, kernel=(1, 1), global_pool=True, pool_type="avg")


def _dense(x: Symbol, count: int) -> Symbol:
    return sym.reshape(
        sym.FullyConnected(sym.relu(sym.FullyConnected(x, num_hidden=count // 16)), num_hidden=count), (0, 0, 1, 1)
    )


def _conv(x: Symbol, count: int, kernel: int) -> Symbol:
    return sym.Convolution(x, kernel=(kernel, kernel), num_filter=count, pad=(kernel // 2, kernel // 2))


def _pooled(x: Symbol, kernel: int) -> Symbol:
    return sym.Pooling(x, kernel=(kernel, kernel), stride=(1, 1), pad=(kernel // 2, kernel // 2), pool_type="max")


def blocks(names: Collection[str], train: bool) -> Iterator[tuple[str, Graph]]:
    """Kernels of what stands behind a network, or in it."""
    for name, (shape, make) in _BLOCKS.items():
        if not names or any(part in name for part in names):
            yield from _kernels_of(graphs(name, make(sym.var("data")), {"data": shape}, "f32", train), set())


def networks(names: Iterable[str], size: int, batch: int, train: bool) -> Iterator[tuple[str, Graph]]:
    """Kernels of networks, each once."""
    known: set[str] = set()
    for net in names:
        found = vision.get_model(net)(sym.var("data"))
        side = max(size, 299) if net.startswith("inception") and size > 200 else size
        yield from _kernels_of(graphs(net, found, {"data": (batch, 3, side, side)}, "f32", train), known)


def _kernels_of(named: Iterable[tuple[str, Graph]], known: set[str]) -> Iterator[tuple[str, Graph]]:
    for name, graph in named:
        for kernel, part in kernels(graph):
            text = str(part).split("\n", 1)[1]
            if text not in known:
                known.add(text)
                yield f"{name}: {kernel}", part


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("what", choices=("poolings", "networks", "blocks"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--sizes", type=int, nargs="+", help="of images: networks 224, poolings 112 56 28 7")
    parser.add_argument("--batch", type=int, nargs="+", default=(1,))
    parser.add_argument("--train", action="store_true", help="both passes of a training step")
    parser.add_argument("--limit", type=float, default=0.05)
    parser.add_argument("--json", type=Path, help="where rows are kept, and found again")
    given = parser.parse_args(argv)
    if given.what == "poolings":
        found = poolings(given.names, given.sizes or (112, 56, 28, 7), given.batch, given.train)
    elif given.what == "blocks":
        found = blocks(given.names, given.train)
    else:
        found = networks(given.names or MODELS, (given.sizes or [224])[0], given.batch[0], given.train)
    known: dict[str, Row] = {}
    if given.json and given.json.exists():
        known = {r["code"]: Row(**r) for r in json.loads(given.json.read_text())}
    rows: list[Row] = []
    print(f"{'fused us':>9} {'parts us':>9} {'ratio':>6}  kernels")
    for row in timed(found, given.limit, known):
        rows.append(row)
        slow = "  <- slower than its parts" if row.ratio > 1 + given.limit else ""
        print(
            f"{row.fused:9.1f} {row.parts:9.1f} {row.ratio:6.2f}  {row.kernels}/{row.kernels_of_parts} {row.name} "
            f"[{', '.join(row.forms)}]{slow}",
            flush=True,
        )
        if given.json and row.code not in known:
            known[row.code] = row
            given.json.write_text(json.dumps([asdict(r) for r in known.values()], indent=1))
    lost = [r for r in rows if r.ratio > 1 + given.limit]
    print(f"{len(rows)} timed, {len(lost)} slower than their parts by more than {given.limit:.0%}")
    return bool(lost)


if __name__ == "__main__":
    sys.exit(main())
