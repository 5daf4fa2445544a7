# SPDX-License-Identifier: Apache-2.0
"""Namespaces of operator functions, filled at first access."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .ops.functions import find, make_function, names_in
from .provenance import advice, current_block

__all__ = ["INSTEAD", "Namespace"]

#: what other libraries call it -> what to write, of the module whose name comes in
INSTEAD = {
    "matmul": "{0}.dot(a, b), or {0}.batch_dot(a, b) of two batches",
    "mm": "{0}.dot(a, b)",
    "mv": "{0}.dot(a, b)",
    "bmm": "{0}.batch_dot(a, b)",
    "addmm": "{0}.dot(a, b) + c",
    "einsum": "{0}.dot, {0}.batch_dot and {0}.transpose",
    "cat": "{0}.concat(a, b, dim=0)",
    "hstack": "{0}.concat(a, b, dim=1)",
    "vstack": "{0}.concat(a, b, dim=0)",
    "tensor": "mx.nd.array(values)",
    "from_numpy": "mx.nd.array(values)",
    "unsqueeze": "{0}.expand_dims(x, axis)",
    "permute": "{0}.transpose(x, axes)",
    "view": "{0}.reshape(x, shape)",
    "unbind": "{0}.split(x, num_outputs, axis, squeeze_axis=True)",
    "masked_fill": "{0}.where(mask, values, x)",
    "clamp": "{0}.clip(x, a_min, a_max)",
    "pow": "{0}.power(a, b), or a ** b",
    "rand": "mx.nd.random.uniform(shape=...)",
    "randn": "mx.nd.random.normal(shape=...)",
    "randint": "mx.nd.random.randint(low, high, shape=...)",
    "std": "{0}.sqrt({0}.moments(x, axes)[1])",
    "var": "{0}.moments(x, axes)[1]",
    "cumprod": "{0}.exp({0}.cumsum({0}.log(x))) where x > 0",
    "gelu": "{0}.LeakyReLU(x, act_type='gelu')",
    "leaky_relu": "{0}.LeakyReLU(x, slope=0.01)",
    "elu": "{0}.LeakyReLU(x, act_type='elu')",
    "tril": "x * {0}.broadcast_greater_equal(rows, columns), {0}.arange(n) as a column and as a row",
    "triu": "x * {0}.broadcast_lesser_equal(rows, columns), {0}.arange(n) as a column and as a row",
    "no_grad": "autograd.pause(), though nothing is recorded outside autograd.record()",
}


class Namespace:
    """``nd.contrib`` and its like: attributes are functions made from the operator table.

    Args:
        name: which operators, see ``ops.functions.find``.
        apply: (operator, spelled name, Bound) -> result.
        module: 'ndarray' or 'symbol', for ``__module__`` and messages.
    """

    def __init__(self, name: str, apply: Callable[..., Any], module: str) -> None:
        self.__name__ = f"hybridgpu.{module}" + (f".{name}" if name else "")
        self._name, self._apply, self._module = name, apply, module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        op = find(name, self._name)
        if op is None:
            text = f"module '{self.__name__}' has no attribute '{name}'"
            if not self._name and name in INSTEAD:
                instead = INSTEAD[name].format("nd" if self._module == "ndarray" else "F" if current_block() else "sym")
                raise AttributeError(f"{text}\n{advice(f'Write {instead}.')}")
            near = _similar(name, self._name)
            raise AttributeError(f"{text}; did you mean {near}?" if near else text)
        function = make_function(op, name, self._apply, self.__name__)
        setattr(self, name, function)
        return function

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *names_in(self._name)})

    def __repr__(self) -> str:
        return f"<module '{self.__name__}'>"


def _similar(name: str, namespace: str) -> str:
    import difflib

    found = difflib.get_close_matches(name, list(names_in(namespace)), 1, 0.8)
    return found[0] if found else ""
