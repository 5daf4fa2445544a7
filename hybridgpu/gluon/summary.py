# SPDX-License-Identifier: Apache-2.0
"""The table of ``Block.summary``."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from ..core.source_location import located_hint
from ..ndarray import NDArray
from .pytree import flatten

if TYPE_CHECKING:
    from .block import Block

__all__ = ["print_summary"]


def print_summary(block: Block, inputs: tuple[Any, ...]) -> None:
    """Run ``block`` once on ``inputs`` and print layers, output shapes and parameter counts.

    Raises:
        AssertionError: the block is hybridized.
    """
    rows: OrderedDict[str, dict[str, Any]] = OrderedDict()
    seen: set[Any] = set()
    hooks = []

    def shapes(args: Any) -> str:
        flat, _ = flatten(args, "input")
        extents = [x.shape for x in flat if isinstance(x, NDArray)]
        return str(extents[0]) if len(extents) == 1 else str(extents)[1:-1]

    def register(b: Block) -> None:
        assert not getattr(b, "_active", False), (
            f'"{b.name}" must not be hybridized to print summary.\n'
            + located_hint("Call net.hybridize(False) before; net.explain(x) tells what was compiled.")
        )

        def hook(layer: Block, _: Any, outputs: Any) -> None:
            if not any(isinstance(x, NDArray) for x in flatten(outputs, "input")[0]):
                return  # traced for the shapes of deferred parameters; the run follows
            key = f"{type(layer).__name__}-{len(rows)}"
            row: dict[str, Any] = {"shape": shapes(outputs), "params": 0, "trainable": 0, "shared": 0}
            for p in layer.params.values():
                size = p.data().size
                row["params"] += size
                row["trainable"] += 0 if p.grad_req == "null" else size
                if p in seen:
                    row["shared"] += size
                else:
                    seen.add(p)
            rows[key] = row

        if not b._hg_transparent:  # containers only pass through
            hooks.append(b.register_forward_hook(hook))

    rows["Input"] = {"shape": shapes(inputs), "params": 0, "trainable": 0, "shared": 0}
    try:
        block.apply(register)
        block(*inputs)
        print("-" * 80)
        print(f"{'Layer (type)':>20}  {'Output Shape':>42} {'Param #':>15}")
        print("=" * 80)
        total = trainable = shared = 0
        for name, row in rows.items():
            print(f"{name:>20}  {row['shape']:>42} {row['params']:>15}")
            total += row["params"]
            trainable += row["trainable"]
            shared += row["shared"]
        print("=" * 80)
        print("Parameters in forward computation graph, duplicate included")
        print(f"   Total params: {total}")
        print(f"   Trainable params: {trainable}")
        print(f"   Non-trainable params: {total - trainable}")
        print(f"Shared params in forward computation graph: {shared}")
        print(f"Unique parameters in model: {total - shared}")
        print("-" * 80)
    finally:
        for h in hooks:
            h.detach()
