# SPDX-License-Identifier: Apache-2.0
"""Source of plans: the lines of a Python function that repeats an operator on arrays of given types.

Types, shapes and what NumPy is to do are known when a plan is made, so nothing of that is asked at a call. The text says
no more of the operator than which arrays each of its functions takes, so that a few texts serve most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..backends.code_cache import define
from ..compiler.reference import Interpreter
from ..core.autograd_state import ResultInfo
from ..core.rng import next_state
from .interpreted import evaluation_lines, without_float_errors
from .plans import Plan
from .tape import DifferentiableGraph, FunctionCall
from .types import array_type

if TYPE_CHECKING:
    from ..backends.devices import Device
    from ..context import Context

__all__ = ["plan_of"]

_Call = Callable[..., Any]


def plan_of(
    function: DifferentiableGraph, device: Device, visible: int, ctx: Context, kind: type, general: _Call, operator: Any
) -> Plan:
    """The plan of an operator.

    Args:
        function: the operator on arrays of given types.
        visible: results that callers see.
        kind: the class of the results.
        general: makes the call in the usual way, recorded or not, with other random numbers; where there is not enough memory,
            it tells of it.
        operator: (record, attributes), for the recorded call.
    """
    run: Any = function.prepared(device)
    count, results = len(function.graph.inputs) - function.draws, range(len(function.graph.outputs))
    parameters = ", ".join(f"x{k}" for k in range(count))
    types = [array_type(n.shape, n.dtype.np, ctx) for n in function.graph.outputs[:visible]]
    names = {"new": object.__new__, "kind": kind, "general": general}
    names |= {f"t{k}": t for k, t in enumerate(types)}
    compute = [f"a{k} = x{k}._data" for k in range(count)]  # once: another thread may exchange it
    addresses: list[str] = ["None"] * len(results)
    arguments = [f"a{k}" for k in range(count)]
    if function.draws:
        names |= {"next_state": next_state, "ctx": ctx}
        compute.append("seed = next_state(ctx)")
        arguments.append("seed")
    written = evaluation_lines(run, arguments, names) if isinstance(run, Interpreter) else None
    kernel_lines = None if function.draws else getattr(run, "lines", None)
    if written is not None:
        compute += without_float_errors(written, _otherwise(parameters))
    elif kernel_lines is not None:
        names |= run.names | {"address_of": _address_of}
        names |= {f"take{k}": take for k, take in enumerate(run.takes)}
        addresses = [f"q{k}" for k in results]
        compute += [f"p{k} = x{k}._address or address_of(x{k}, a{k})" for k in range(count)]
        passed = ", ".join([*(f"p{k}" for k in range(count)), *addresses])
        launch = [*(f"d{k}, m{k}, q{k} = take{k}()" for k in results), *kernel_lines(passed)]
        compute += ["try:", *(f"    {line}" for line in launch), *_otherwise(parameters)]
    else:
        names["interpreter"] = run
        targets = "".join(f"d{k}, " for k in results)
        compute += ["try:", f"    {targets}= interpreter({', '.join(arguments)})", *_otherwise(parameters)]
    unrecorded = _define(parameters, [*compute, *_wrapping(addresses[:visible], "None")], names)
    if not count:
        return Plan(unrecorded, unrecorded)
    names |= {"unrecorded": unrecorded, "FunctionCall": FunctionCall, "ResultInfo": ResultInfo}
    names |= {"ctx": ctx, "function": function, "operator": operator, "types": types}
    infos = [line for k in range(count) for line in _history(k)]
    constant = " and ".join(f"i{k} is None" for k in range(count))
    infos += [f"if {constant}:", f"    return unrecorded({parameters})"]
    node = {
        "inputs": f"[{', '.join(f'i{k}' for k in range(count))}]",
        "types": "types",
        "released": "False",
        "arrays": f"[{', '.join(f'a{k}' for k in range(count))}]",
        "ctx": "ctx",
        "seed": "seed" if function.draws else "None",
        "writes": "()",
        "function": "function",
        "operator": "operator",
        "needs": "()",
        "results": f"[{', '.join(f'd{k}' for k in results)}]",
    }
    recorded = ["node = new(FunctionCall)", *(f"node.{name} = {value}" for name, value in node.items())]
    for k in range(visible):
        recorded += [f"r{k} = new(ResultInfo)", f"r{k}.node = node", f"r{k}.index = {k}", f"r{k}.fresh = False"]
    lines = [*infos, *compute, *recorded, *_wrapping(addresses[:visible], "r{}")]
    return Plan(unrecorded, _define(parameters, lines, names))


def _otherwise(parameters: str) -> list[str]:
    return ["except Exception:", f"    return general({parameters})"]


def _history(k: int) -> list[str]:
    """Lines of ``autograd_state.history`` of argument k."""
    return [
        f"i{k} = x{k}._autograd",
        f"if i{k} is not None and (i{k}.grad is None if i{k}.node is None else i{k}.node.released):",
        f"    i{k} = None",
    ]


def _address_of(array: Any, data: Any) -> int:
    """Where data lies that an array has, or had when it was asked for."""
    address: int = array.address if array._type.family is None else data.__array_interface__["data"][0]
    return address


def _wrapping(addresses: Sequence[str], info: str) -> list[str]:
    """Lines that make arrays of d0, d1 … and return them; ``info``: what they know of gradients."""
    lines = []
    for k, address in enumerate(addresses):
        lines += [f"y{k} = new(kind)", f"y{k}._data = d{k}", f"y{k}._type = t{k}"]
        lines += [f"y{k}._address = {address}", f"y{k}._autograd = {info.format(k)}"]
    results = ", ".join(f"y{k}" for k in range(len(addresses)))
    return [*lines, f"return {results}" if len(addresses) == 1 else f"return [{results}]"]


def _define(parameters: str, lines: Sequence[str], names: dict[str, Any]) -> _Call:
    """A function of these lines."""
    return define(f"call({parameters})", lines, dict(names), f"{__file__}, plan")
