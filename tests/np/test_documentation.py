# SPDX-License-Identifier: Apache-2.0
"""``help()`` of functions of np and npx: arguments, their types and meaning, results."""

from __future__ import annotations

import inspect
import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from against_mxnet.recorded.numpy_calls import values

import hybridgpu as mx
from hybridgpu.ops.numpy import NP, NPX
from hybridgpu.ops.numpy.application import falls_back, is_on_host
from hybridgpu.ops.numpy.arguments import ARGUMENTS
from hybridgpu.ops.numpy.documentation import argument, record_of, signature_of

FUNCTIONS = {
    f"{space}.{name}": (table, name)
    for space, table in (("np", NP), ("npx", NPX))
    for name, definition in table.items()
    if not is_on_host(definition) and not hasattr(definition, "operator")  # operators' own have their record's text
}


def arguments(function: str) -> list[inspect.Parameter]:
    table, name = FUNCTIONS[function]
    given = signature_of(table[name]).parameters.values()
    return [p for p in given if p.kind is not p.VAR_KEYWORD]


def found(path: str, root: Any = mx) -> Any:
    for part in path.split("."):
        root = getattr(root, part)
    return root


@pytest.mark.parametrize("function", FUNCTIONS)
def test_arguments_are_described(function):
    table, name = FUNCTIONS[function]
    record = record_of(name, table)
    lines = found(function).__doc__.partition("\nArgs:\n")[2].splitlines() if arguments(function) else []
    for parameter in arguments(function):
        kind, text = argument(parameter, record)
        assert kind and text, f"{parameter.name} is neither an attribute of {record} nor in ARGUMENTS"
        assert any(line.startswith(f"    {parameter.name}: ") for line in lines)
    assert not any(line.startswith("    F: ") for line in lines)
    assert re.search(r"\n\nReturns:\n    \S", found(function).__doc__)


def test_every_described_argument_is_one():
    assert set(ARGUMENTS) - {p.name for function in FUNCTIONS for p in arguments(function)} == set()


def test_what_a_definition_says_itself_comes_first():
    """Of its arguments, its results and its errors."""
    text = mx.np.pad.__doc__
    assert (
        "\n    mode: str | Callable[..., Any], default 'constant'. constant, edge, reflect, symmetric, maximum or minimum.\n"
        in text
    )
    assert mx.npx.while_loop.__doc__.count("Returns:") == 1
    assert mx.np.linalg.norm.__doc__.count("Args:") == 1


def test_functions_of_numpy_say_so():
    own = [name for name, definition in NP.items() if is_on_host(definition)]
    assert all("on the host by NumPy's function" in found(f"np.{name}").__doc__ for name in own)
    assert "go to NumPy's own function" in mx.np.interp.__doc__


def test_symbols_are_called_so():
    assert "\n    x: Symbol | float. array or number\n" in mx.sym.np.sin.__doc__


# -- what definitions say of their results, beside the calls that MXNet has answered

RECORDED = json.loads((Path(__file__).parents[1] / "against_mxnet" / "recorded" / "numpy_calls.json").read_text())[
    "calls"
]
CALLS = {}
for _calls in RECORDED.values():
    for _call, _answer in _calls.items():
        if isinstance(_answer, list) and "a(" in _call:  # of arrays, without an error
            CALLS.setdefault(re.match(r"npx?\.[\w.]+", _call)[0], []).append(_call)


def array(kind: str, shape: Any, low: int = -3, high: int = 3) -> Any:
    import numpy as onp

    return mx.np.array(values(onp, kind, shape, low, high))


@pytest.mark.parametrize("function", sorted(set(CALLS) & set(FUNCTIONS)))
def test_results_are_what_definitions_say(function):
    table, name = FUNCTIONS[function]
    said = signature_of(table[name]).return_annotation
    array_class = mx.np.ndarray
    with mx.util.np_shape(True), mx.util.np_array(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in CALLS[function][:3]:
            result = eval(call, {"np": mx.np, "npx": mx.npx, "a": array, "inf": float("inf"), "nan": float("nan")})
            if said in ("Any", Any, inspect.Signature.empty):
                assert isinstance(result, array_class) or falls_back(table[name])
            elif said == "ArrayOrList":
                assert isinstance(result, (array_class, list, tuple))
            elif said.partition("[")[0] in ("list", "tuple"):
                assert type(result).__name__ == said.partition("[")[0]
                assert len(result) == said.count("Any") or "..." in said or said == "list[Any]"
