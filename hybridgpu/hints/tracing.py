# SPDX-License-Identifier: Apache-2.0
"""Errors for arrays in graphs, Symbols in array code, and NumPy in traced code: what to write instead."""

from __future__ import annotations

import linecache
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..base import MXNetError
from ..core.source_location import located_hint, user_place

__all__ = ["about_operand", "in_array_code", "in_graph", "is_symbol", "numpy_call", "through_numpy"]

_PARAMETER = "A parameter is no array: in forward take self.name.data(); hybrid_forward gets it as an argument, under its attribute's name."
_CONSTANT = (
    "{0} cannot enter a graph: write {1}.ones, {1}.full or {1}.arange, or make it an argument of the block, or a constant: "
    "self.name = self.params.get_constant('name', values) in __init__, and the argument name of hybrid_forward."
)
_NUMPY_FOLDER = os.path.dirname(np.__file__) + os.sep
_NUMPY = re.compile(r"\b(?:numpy|onp|_np|np)\.(?:\w+\.)*(\w+)\s*\(")
_SPELLED = {"concatenate": "concat", "absolute": "abs", "matmul": "dot", "amax": "max", "amin": "min"}


def is_symbol(x: Any) -> bool:
    """Whether ``x`` is a Symbol; arrays, which ask, must not load them."""
    return hasattr(x, "list_arguments") and hasattr(x, "get_internals")


def _is_parameter(x: Any) -> bool:
    return hasattr(x, "grad_req") and hasattr(x, "list_ctx")


def in_graph(x: Any) -> str:
    """For what is neither Symbol nor number where a Symbol is wanted: a line for the end of the error, or ''."""
    from ..util import is_np_array

    functions = "F.np" if is_np_array() else "F"
    if is_symbol(x):  # of the other interface
        text = "A Symbol of np in functions of nd: use those of F.np and F.npx, or write x.as_nd_ndarray()."
        if x._kind is None:
            text = "A Symbol of nd in functions of np: write x.as_np_ndarray(), or call npx.set_np() at the top of the program."
    elif _is_parameter(x):
        text = _PARAMETER
    elif isinstance(x, np.ndarray):
        text = _CONSTANT.format("A NumPy array", functions)
    elif hasattr(x, "asnumpy"):
        text = _CONSTANT.format("An array", functions)
    elif isinstance(x, (list, tuple)) and x and all(map(is_symbol, x)):
        text = "Give them one by one: F.concat(*symbols), F.stack(*symbols)."
    elif isinstance(x, (list, tuple)) and x and not any(map(is_symbol, x)):
        text = _CONSTANT.format(f"A {type(x).__name__}", functions)
    else:
        return ""
    return "\n" + located_hint(text)


def in_array_code(x: Any, function: str = "", module: str = "nd") -> str:
    """The same where an array is wanted; ``function`` is the name in ``nd`` (np, npx: ``module``) of what was called."""
    if is_symbol(x):
        spelled = function if module == "nd" else f"{module}.{function}"
        name = f"F.{spelled}, not {module}.{function}," if function else "operators of F"
        text = f"A block that is being traced has Symbols: write {name} in hybrid_forward, there F is mx.sym."
    elif _is_parameter(x):
        text = _PARAMETER
    elif isinstance(x, np.ndarray):
        text = f"Make it an array first: mx.{'nd' if module == 'nd' else 'np'}.array(values, dtype=values.dtype)."
    elif module != "nd" and hasattr(x, "as_np_ndarray"):
        text = "Write x.as_np_ndarray() for the array of nd, or make it by np: np.array, np.zeros and their like."
    elif module != "nd" and isinstance(x, (list, tuple)):
        text = "Make it an array first: np.array(values)."
    elif isinstance(x, (list, tuple)) and x and all(hasattr(a, "asnumpy") for a in x):
        text = "Give them one by one: nd.concat(*arrays), nd.stack(*arrays)."
    elif isinstance(x, (list, tuple)):
        text = "Make it an array first: mx.nd.array(values)."
    else:
        return ""
    return "\n" + located_hint(text)


def about_operand(x: Any, inputs: Sequence[str], attributes: Iterable[str], function: str) -> str:
    """A line for the error about a number or a text in the place of an input, or '': other arguments have names.

    Args:
        inputs, attributes: of the operator.
        function: what was called.
    """
    names = [n for n in attributes if n != "num_args"]
    if not isinstance(x, (bool, int, float, str, np.generic)):
        return ""
    if not names and not isinstance(x, str):
        return "\n" + located_hint(
            f"{function} takes arrays alone: write ones_like(y) * {x}, with an array y of that shape."
        )
    if not names:
        return ""
    taken = f"{function} takes {', '.join(inputs)}" if inputs[:1] != ("*data",) else f"{function} takes arrays"
    return "\n" + located_hint(f"{taken}; the others are written by name: {', '.join(names)}.")


def numpy_call(known: Callable[[str], bool]) -> str:
    """What to write instead of the NumPy function that the user's line calls with a Symbol.

    Args:
        known: whether ``F`` has a function of a name.
    """
    frame = user_place(sys._getframe(1), _NUMPY_FOLDER)
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno) if frame is not None else ""
    for name in _NUMPY.findall(line):
        own = _SPELLED.get(name, name)
        if known(own):
            return located_hint(
                f"NumPy computes with values, which are not known while tracing: write F.{own}, not np.{name}.",
                _NUMPY_FOLDER,
            )
    return located_hint(
        "NumPy computes with values, which are not known while tracing: use operators of F.", _NUMPY_FOLDER
    )


def through_numpy(error: MXNetError, method: str, functions: str) -> None:
    """Where NumPy called a method, with arguments that only its own arrays have: end the error with what to write.

    Args:
        functions: what users call the module that has the method as a function, ``nd`` or ``F``.
    """
    caller = user_place(sys._getframe(1))
    if caller is not None and caller.f_code.co_filename.startswith(_NUMPY_FOLDER):
        other = ", or give NumPy x.asnumpy()" if functions == "nd" else ""
        text = f"NumPy calls x.{method} with arguments of its own: write x.{method} or {functions}.{method}{other}."
        error.args = (f"{error}\n{located_hint(text, _NUMPY_FOLDER)}",)
