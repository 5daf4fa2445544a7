# SPDX-License-Identifier: Apache-2.0
"""Source of backward plans: the lines of a Python function that repeats the backward pass of a recorded call.

As for plans of forward calls (plan_source.py): which arrays a derivative takes, what NumPy is to do with them and the types
of its results are known when it is made, so nothing of that is asked at a call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..backends.code_cache import define
from ..compiler.reference import Interpreter
from .interpreted import evaluation_lines, without_float_errors
from .ndarray import NDArray
from .types import ArrayType, array_type
from .versions import latest

if TYPE_CHECKING:
    from ..compiler.ir.graph import Graph

__all__ = ["backward_plan_of"]


def backward_plan_of(
    run: Callable[..., Sequence[Any]],
    graph: Graph,
    positions: tuple[Sequence[int], Sequence[int | None]],
    counts: tuple[int, int],
    cotangents: Sequence[ArrayType | None],
    general: Callable[..., Any],
) -> Callable[..., Sequence[NDArray | None]]:
    """The backward plan of calls of one function, on NumPy's arrays.

    Args:
        run: computes the derivative; it draws no random numbers.
        graph: the derivative.
        positions: which of a call's arrays, results and cotangents that are not zero the derivative takes, and for each
            wanted input which of its results is the gradient, None where that is zero.
        counts: the numbers of the call's arrays and results.
        cotangents: their types, None for those that are zero.
        general: does the same in the usual way, with its errors, for cotangents of other types or too little memory.

    Returns:
        A function of the node, all cotangents and flags of the wanted inputs; it gives the wanted gradients.
    """
    (takes, gives), (arrays, results) = positions, counts
    present = [(k, t) for k, t in enumerate(cotangents) if t is not None]
    where = present[0][1].ctx
    names: dict[str, Any] = {"general": general, "latest": latest, "new": object.__new__, "kind": NDArray}
    names |= {f"of{k}": t for k, t in present}
    lines = [f"g{k} = cotangents[{k}]" for k, _ in present]
    expected = " and ".join(f"g{k}._type is of{k} is types[{k}]" for k, _ in present)
    lines += ["types = node.types", f"if not ({expected}):", "    return general(node, cotangents, wanted)"]
    lines += ["arrays, results = node.arrays, node.results"]
    for n, k in enumerate(takes):
        if k < arrays:
            value = f"latest(arrays[{k}])"
        elif k < arrays + results:
            value = f"results[{k - arrays}]"
        else:
            value = f"g{present[k - arrays - results][0]}._data"
        lines.append(f"a{n} = {value}")
    arguments = [f"a{n}" for n in range(len(takes))]
    written = evaluation_lines(run, arguments, names) if isinstance(run, Interpreter) else None
    otherwise = ["except Exception:", "    return general(node, cotangents, wanted)"]
    if written is not None:
        lines += without_float_errors(written, otherwise)
    else:
        names["run"] = run
        targets = "".join(f"d{k}, " for k in range(len(graph.outputs)))
        lines += ["try:", f"    {targets}= run({', '.join(arguments)})", *otherwise]
    parts = []
    for n, result in enumerate(gives):
        if result is None:
            parts.append("None")
            continue
        node = graph.outputs[result]
        names[f"t{result}"] = array_type(node.shape, node.dtype.np, where)
        lines += [f"y{n} = new(kind)", f"y{n}._data = d{result}", f"y{n}._type = t{result}"]
        lines += [f"y{n}._address = None", f"y{n}._autograd = None"]
        parts.append(f"y{n}")
    lines.append(f"return [{', '.join(parts)}]")
    return define("backward_plan(node, cotangents, wanted)", lines, names, f"{__file__}, backward plan")
