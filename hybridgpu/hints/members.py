# SPDX-License-Identifier: Apache-2.0
"""What other libraries' arrays have as members -> what to write for an array or a Symbol. Read by errors alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from typing import NamedTuple

from ..core.source_location import located_hint
from .foreign_names import OTHERS

__all__ = ["ARRAYS", "ARRAYS_OF_NP", "SYMBOLS", "SYMBOLS_OF_NP", "Kind", "instead", "no_number", "no_truth"]


class Kind(NamedTuple):
    """Arrays or Symbols, of nd or np.

    Args:
        table: member -> what to write; what begins with '!' is a sentence of its own.
        functions: what {F} stands for: how users call the module of functions, or what is before np.
        foreign: what the names of its functions begin with in ``foreign_names``.
        target: what is assigned to in place of a member that writes into its array.
    """

    table: dict[str, str]
    functions: str
    foreign: str
    target: str


_OPERATORS = {
    "add": "x + y",
    "sub": "x - y",
    "subtract": "x - y",
    "mul": "x * y",
    "multiply": "x * y",
    "div": "x / y",
    "true_divide": "x / y",
    "remainder": "x % y",
    "pow": "x ** y",
    "neg": "-x",
    "eq": "x == y",
    "ne": "x != y",
    "lt": "x < y",
    "le": "x <= y",
    "gt": "x > y",
    "ge": "x >= y",
}

#: of arrays and Symbols
_OF_ALL = {
    **_OPERATORS,
    "float": "x.astype('float32')",
    "half": "x.astype('float16')",
    "double": "x.astype('float64')",
    "int": "x.astype('int32')",
    "long": "x.astype('int64')",
    "bool": "x.astype('bool')",
    "type": "x.astype(dtype)",
    "expand": "x.broadcast_to(shape)",
    "contiguous": "x alone: arrays are always contiguous",
    "ravel": "x.reshape(-1)",
}

#: of legacy arrays
_ARRAYS = {
    **_OF_ALL,
    "item": "x.asscalar()",
    "tolist": "x.asnumpy().tolist()",
    "numpy": "x.asnumpy()",
    "cpu": "x.as_in_context(mx.cpu())",
    "cuda": "x.as_in_context(mx.gpu())",
    "to": "x.as_in_context(ctx) or x.astype(dtype)",
    "to_device": "x.as_in_context(ctx)",
    "as_in_device": "x.as_in_context(ctx)",
    "device": "x.context",
    "is_cuda": "x.context.device_type == 'gpu'",
    "view": "x.reshape(shape)",
    "permute": "x.transpose(axes)",
    "unsqueeze": "x.expand_dims(axis)",
    "clone": "x.copy()",
    "data": "x.detach(), which has no gradient",
    "type_as": "x.astype(y.dtype)",
    "expand_as": "x.broadcast_like(y)",
    "matmul": "{F}.dot(x, y) or {F}.batch_dot(x, y)",
    "mm": "{F}.dot(x, y)",
    "bmm": "{F}.batch_dot(x, y)",
    "std": "{F}.moments(x, axes=axes), which gives mean and variance",
    "var": "{F}.moments(x, axes=axes), which gives mean and variance",
    "all": "x.min(), which is 1 where comparisons hold everywhere",
    "any": "x.max(), which is 1 where a comparison holds somewhere",
    "fill": "x[:] = value",
    "requires_grad_": "x.attach_grad()",
    "requires_grad": "x.attach_grad()",
    "zero_": "x[:] = 0",
    "copy_": "x[:] = y",
    "normal_": "x[:] = {F}.random.normal(shape=x.shape)",
    "uniform_": "x[:] = {F}.random.uniform(shape=x.shape)",
    "scatter_": "x[indices] = values",
    "at": "x[indices] = values",
    "gather": "{F}.pick(x, index, axis) for one element of each row, or x.take(indices, axis)",
    "dim": "x.ndim",
    "numel": "x.size",
    "nelement": "x.size",
    "t": "x.T",
    "chunk": "x.split(num_outputs, axis)",
    "narrow": "x.slice_axis(axis, begin, end)",
    "index_select": "x.take(indices, axis)",
    "nonzero": "np.nonzero(x.asnumpy())",
    "block_until_ready": "x.wait_to_read()",
    "new_zeros": "{F}.zeros(shape, ctx=x.context, dtype=x.dtype)",
    "new_ones": "{F}.ones(shape, ctx=x.context, dtype=x.dtype)",
    "new_full": "{F}.full(shape, value, ctx=x.context, dtype=x.dtype)",
}

_METHODS_OF_NP = ("item", "tolist", "all", "any", "std", "var", "nonzero")

#: of arrays of np, where {F} is ''
_ARRAYS_OF_NP = {
    **{name: text for name, text in _ARRAYS.items() if "{F}" not in text and name not in _METHODS_OF_NP},
    "asscalar": "x.item()",
    "tostype": "x: arrays are dense",
    "norm": "np.linalg.norm(x)",
    "cpu": "x.as_in_ctx(npx.cpu())",
    "cuda": "x.as_in_ctx(npx.gpu())",
    "to": "x.as_in_ctx(ctx) or x.astype(dtype)",
    "to_device": "x.as_in_ctx(ctx)",
    "as_in_device": "x.as_in_ctx(ctx)",
    "device": "x.ctx",
    "is_cuda": "x.ctx.device_type == 'gpu'",
    "unsqueeze": "np.expand_dims(x, axis)",
    "expand_as": "x.broadcast_to(y.shape)",
    "matmul": "x @ y",
    "mm": "x @ y",
    "bmm": "npx.batch_dot(x, y), or x @ y",
    "normal_": "x[:] = np.random.normal(size=x.shape)",
    "uniform_": "x[:] = np.random.uniform(size=x.shape)",
    "gather": "npx.pick(x, index, axis) for one element of each row, or x.take(indices, axis)",
    "chunk": "np.split(x, n, axis)",
    "narrow": "x[begin:end], with a slice for each axis",
    "new_zeros": "np.zeros(shape, ctx=x.ctx, dtype=x.dtype)",
    "new_ones": "np.ones(shape, ctx=x.ctx, dtype=x.dtype)",
    "new_full": "np.full(shape, value, ctx=x.ctx, dtype=x.dtype)",
}

_DEVICES = "!Devices are not known while tracing: operators run where their inputs are."
_GRADIENTS = "!Gradients belong to arrays: call attach_grad on the inputs before the block runs."
_VALUES = "!Values are not known while tracing: keep them in the graph, or read them from the block's result."
_OF_SYMBOLS = {
    **_OF_ALL,
    "ctx": _DEVICES,
    "context": _DEVICES,
    "device": _DEVICES,
    "is_cuda": _DEVICES,
    "to_device": _DEVICES,
    "as_in_device": _DEVICES,
    "cpu": _DEVICES,
    "cuda": _DEVICES,
    "to": f"x.astype(dtype) for another type. {_DEVICES[1:-1]}",
    "grad": _GRADIENTS,
    "attach_grad": _GRADIENTS,
    "requires_grad": _GRADIENTS,
    "requires_grad_": _GRADIENTS,
    "item": _VALUES,
    "tolist": _VALUES,
    "clone": "x alone: nothing writes into a Symbol",
    "copy_": "x = y",
    "fill_": "x = x * 0 + value",
    "zero_": "x = x * 0",
    "stype": "!Storage is always dense here.",
    "tostype": "!Storage is always dense here.",
}

#: of legacy Symbols
_SYMBOLS = {
    **_OF_SYMBOLS,
    "shape": "!Shapes are not known while tracing: use F.shape_array(x), reshape codes (0 keeps an extent, -1 infers one), or "
    "*_like operators.",
    "dtype": "!Element types are not known while tracing: use F.cast, or *_like operators that follow an input.",
    "size": "!Sizes are not known while tracing: use F.size_array(x).",
    "numel": "!Sizes are not known while tracing: use F.size_array(x).",
    "nelement": "!Sizes are not known while tracing: use F.size_array(x).",
    "ndim": "!The number of axes is not known while tracing: use reshape codes such as -2 (copy the rest).",
    "dim": "!The number of axes is not known while tracing: use reshape codes such as -2 (copy the rest).",
    "T": "F.transpose(x)",
    "t": "F.transpose(x)",
    "copyto": "F.identity(x)",
    "normal_": "x = F.random.normal_like(x)",
    "uniform_": "x = F.random.uniform_like(x)",
    "data": "F.BlockGrad(x), which has no gradient",
    "numpy": "!Values are not known while tracing: use operators of F, or read the block's result.",
    "view": "F.reshape(x, shape=(...))",
    "permute": "F.transpose(x, axes=(...))",
    "unsqueeze": "F.expand_dims(x, axis=...)",
    "expand_as": "F.broadcast_like(x, y)",
    "gather": "F.pick(x, index, axis=...) for one element of each row, or F.take(x, indices, axis=...)",
    "narrow": "F.slice_axis(x, axis=..., begin=..., end=...)",
    "index_select": "F.take(x, indices, axis=...)",
    "type_as": "F.cast(x, dtype=...)",
    "chunk": "F.split(x, num_outputs=..., axis=...)",
    **{name: _ARRAYS[name] for name in ("matmul", "mm", "bmm", "std", "var", "all", "any")},
}

#: of Symbols of np
_SYMBOLS_OF_NP = {
    **_OF_SYMBOLS,
    "shape": "!Shapes are not known while tracing: use F.npx.shape_array(x), codes of F.npx.reshape (-2 keeps an extent, -1 infers "
    "one), or *_like functions.",
    "dtype": "!Element types are not known while tracing: use x.astype, or *_like functions that follow an input.",
    "size": "!Sizes are not known while tracing: means and sums need none.",
    "numel": "!Sizes are not known while tracing: means and sums need none.",
    "nelement": "!Sizes are not known while tracing: means and sums need none.",
    "ndim": "!The number of axes is not known while tracing: use codes of F.npx.reshape such as -4 (copy the rest).",
    "dim": "!The number of axes is not known while tracing: use codes of F.npx.reshape such as -4 (copy the rest).",
    "t": "x.T",
    "copyto": "F.np.copy(x)",
    "numpy": "!Values are not known while tracing: use functions of F.np, or read the block's result.",
    "view": "x.reshape(...)",
    "permute": "x.transpose(...)",
    "unsqueeze": "F.np.expand_dims(x, axis)",
    "gather": "F.npx.pick(x, index, axis) for one element of each row, or F.np.take(x, indices, axis)",
    "index_select": "F.np.take(x, indices, axis)",
    "chunk": "F.np.split(x, n, axis)",
    "narrow": "x[begin:end], with a slice for each axis",
    "matmul": "x @ y",
    "mm": "x @ y",
    "bmm": "F.npx.batch_dot(x, y), or x @ y",
}


ARRAYS = Kind(_ARRAYS, "nd", "F.", "x[:]")
ARRAYS_OF_NP = Kind(_ARRAYS_OF_NP, "", "np.", "x[:]")
SYMBOLS = Kind(_SYMBOLS, "F", "F.", "x")
SYMBOLS_OF_NP = Kind(_SYMBOLS_OF_NP, "F.", "np.", "x")


def instead(kind: Kind, name: str, function: Callable[[str], str], own: Container[str]) -> str:
    """What to write instead of a member that there is not, a sentence, or ''.

    Args:
        function: name -> how users call the module that has a function of this name, or ''.
        own: names of the members that there are.
    """
    text = _written(kind, name, function, own)
    return text[1:] if text.startswith("!") else f"Write {text}." if text else ""


def _written(kind: Kind, name: str, function: Callable[[str], str], own: Container[str]) -> str:
    if name in kind.table:
        return kind.table[name].format(F=kind.functions)
    if name.startswith("_"):
        return ""
    if name.endswith("_"):
        return _in_place(kind, name[:-1], function, own)
    foreign = OTHERS.get(kind.foreign + name, "")
    if re.search(r"\b[xab]\b", foreign):  # of an array, not a maker of arrays
        return foreign.format(F=kind.functions)
    module = function(name)
    return f"{module}.{name}(x)" if module else ""


def _in_place(kind: Kind, name: str, function: Callable[[str], str], own: Container[str]) -> str:
    """For members that write into the array, whose names elsewhere are those of operators with '_' behind."""
    symbol = _OPERATORS.get(name, "x").split()[1:2]
    if symbol and symbol[0] in "+-*/" and kind.target != "x":
        return f"x {symbol[0]}= y"
    text = f"x.{name}(...)" if name in own else _written(kind, name, function, own)
    return f"{kind.target} = {text}" if text and text[0] != "!" and not text.startswith("x[") else text


def no_number(shape: tuple[int, ...], read: str) -> str:
    """A line for the error of an array of several elements where one number is read, by the method ``read``."""
    text = (
        f"An array of shape {shape} has several numbers: write x.mean().{read}() or x.sum().{read}(), or x.asnumpy()."
    )
    return f"\n{located_hint(text)}"


def no_truth(of_np: bool) -> str:
    """A line for the error of an array of several elements as a condition."""
    every, some = ("(x > 0).all()", "(x > 0).any()") if of_np else ("(x > 0).min()", "(x > 0).max()")
    return f"\n{located_hint(f'Write {every}, which says whether it holds for all elements, or {some}, for any.')}"
