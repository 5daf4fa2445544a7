# SPDX-License-Identifier: Apache-2.0
"""Memory for intermediate results of the model zoo, against what lives at once at the fullest step.

    python bench/memory.py [NAME …]

Prints one line an architecture and target (batch 1): bytes of the arena, the least that any placement of the same
steps needs, and their ratio. Nothing is compiled to machine code or run.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from hybridgpu import sym  # noqa: E402
from hybridgpu.compiler.ir.types import tensor_type  # noqa: E402
from hybridgpu.compiler.pipeline import compile_graph  # noqa: E402
from hybridgpu.compiler.program import Program  # noqa: E402
from hybridgpu.compiler.target import CPU, CUDA, Target  # noqa: E402
from hybridgpu.dtypes import from_short  # noqa: E402
from hybridgpu.gluon.model_zoo import vision  # noqa: E402
from hybridgpu.symbol.lowering import lower_symbol  # noqa: E402


def planned(name: str, target: Target) -> Program:
    """The inference program of an architecture for one picture of its usual size."""
    side = 299 if name.startswith("inception") else 224
    symbol = vision.get_model(name)(sym.var("data"))
    arguments, _, states = symbol.infer_shape(data=(1, 3, side, side))
    names = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    types = {n: tensor_type(tuple(s), from_short("f32")) for n, s in zip(names, [*arguments, *states], strict=True)}
    return compile_graph(lower_symbol(symbol, types, False, name), target)


def main(names: list[str]) -> None:
    print(f"{'architecture':<18} {'target':<6} {'steps':>5} {'arena MB':>9} {'least MB':>9} {'ratio':>6}")
    for name in names or sorted(vision._MODELS):
        for target in (CPU, CUDA):
            p = planned(name, target)
            ratio = p.arena_bytes / max(p.arena_least, 1)
            print(
                f"{name:<18} {target.name:<6} {len(p.steps):>5} {p.arena_bytes / 1e6:>9.2f} "
                f"{p.arena_least / 1e6:>9.2f} {ratio:>6.3f}"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
