# SPDX-License-Identifier: Apache-2.0
"""Memory for intermediate results of the model zoo, against what lives at once at the fullest step.

    python bench/memory.py [--training] [--batch N] [NAME …]

Prints one line an architecture, target and program (inference, or the forward and the backward pass of training):
bytes of the arena if no two values shared memory while both live; the arena as it is, with how many results are
written over operands and how many buffers lie in the memory of results; the least that any placement of the same steps
needs; and the ratio of the last two. Nothing is compiled to machine code or run. ``lenet`` is the benchmark's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from hybridgpu import sym  # noqa: E402
from hybridgpu.cli.bench.workloads.pictures import lenet  # noqa: E402
from hybridgpu.compiler.ir.types import TensorType, tensor_type  # noqa: E402
from hybridgpu.compiler.passes.memory.arena_offsets import allocate  # noqa: E402
from hybridgpu.compiler.pipeline import compile_graph  # noqa: E402
from hybridgpu.compiler.program import LibraryStep, Program  # noqa: E402
from hybridgpu.compiler.target import CPU, CUDA, Target  # noqa: E402
from hybridgpu.core.dtypes import from_short  # noqa: E402
from hybridgpu.gluon.model_zoo import vision  # noqa: E402
from hybridgpu.runtime.recorded_program import RecordedProgram  # noqa: E402
from hybridgpu.symbol.lowering import lower_symbol  # noqa: E402
from hybridgpu.symbol.symbol import Symbol  # noqa: E402


def described(name: str, batch: int) -> tuple[Symbol, dict[str, TensorType]]:
    """An architecture for pictures of its usual size, and the types of its arguments and states."""
    side = 28 if name == "lenet" else 299 if name.startswith("inception") else 224
    symbol = (lenet() if name == "lenet" else vision.get_model(name))(sym.var("data"))
    arguments, _, states = symbol.infer_shape(data=(batch, 1 if name == "lenet" else 3, side, side))
    names = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    types = {n: tensor_type(tuple(s), from_short("f32")) for n, s in zip(names, [*arguments, *states], strict=True)}
    return symbol, types


def planned(name: str, target: Target, batch: int = 1) -> Program:
    """The inference program."""
    symbol, types = described(name, batch)
    return compile_graph(lower_symbol(symbol, types, False, name), target)


def trained(name: str, target: Target, batch: int) -> Iterator[tuple[str, Program]]:
    """The programs of a training step."""
    symbol, types = described(name, batch)
    names = symbol.list_inputs()
    states = set(symbol.list_auxiliary_states())
    wanted = tuple(n != "data" and n not in states for n in names)
    training = RecordedProgram(symbol, [types[n] for n in names], True, wanted)
    training._follow(training._plan())
    yield "forward", compile_graph(training._forward_graph(), target)
    yield "backward", compile_graph(training.derivative().graph, target)


def unshared(program: Program) -> int:
    """Bytes of an arena in which every intermediate result has memory of its own while it lives."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    theirs = set(program.output_buffers)
    for at, step in enumerate(program.steps):
        used = (*step.inputs, step.output) if isinstance(step, LibraryStep) else step.buffers
        for b in used:
            if program.buffers[b].space != "input" and b not in theirs:
                first.setdefault(b, at)
                last[b] = at
    return allocate([(first[b], last[b], program.buffers[b].nbytes) for b in first])[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--training", action="store_true", help="the programs of a training step")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    print(
        f"{'architecture':<18} {'target':<6} {'program':<9} {'steps':>5} {'unshared MB':>11} {'arena MB':>9} {'over':>5} "
        f"{'hosted':>6} {'least MB':>9} {'ratio':>6}"
    )
    for name in options.names or sorted(vision._MODELS):
        for target in (CPU, CUDA):
            made = trained(name, target, options.batch) if options.training else None
            for kind, p in made or [("inference", planned(name, target, options.batch))]:
                ratio = p.arena_bytes / max(p.peak_live_bytes, 1)
                print(
                    f"{name:<18} {target.name:<6} {kind:<9} {len(p.steps):>5} {unshared(p) / 1e6:>11.2f} "
                    f"{p.arena_bytes / 1e6:>9.2f} {p.in_place_results:>5} {p.aliased_to_outputs:>6} {p.peak_live_bytes / 1e6:>9.2f} {ratio:>6.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
