# SPDX-License-Identifier: Apache-2.0
"""Containers and basic layers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ... import ndarray as nd_module
from ... import symbol as sym_module
from ...core.source_location import user_frame
from ...hints.misplaced import about_function
from ...util import is_np_array
from ..block import Block, indent
from ..hybrid import HybridBlock
from .activations import Activation, activation_of  # noqa: F401 - MXNet's module has it, too

__all__ = ["Dense", "Dropout", "Embedding", "Flatten", "HybridLambda", "HybridSequential", "Lambda", "Sequential"]


class _Container:
    """What Sequential and HybridSequential share."""

    _hg_transparent = True
    _children: Any
    prefix: str

    def add(self, *blocks: Block) -> None:
        """Append blocks."""
        for block in blocks:
            self.register_child(block)  # type: ignore[attr-defined]

    def _hg_chain(self, x: Any, args: tuple[Any, ...]) -> Any:
        """Each block on what the one before gives; several results are several arguments."""
        for block in self._children.values():
            x = block(x, *args)
            args = ()
            if isinstance(x, (tuple, list)):
                x, args = x[0], tuple(x[1:])
        return (x, *args) if args else x

    def __repr__(self) -> str:
        body = "\n".join(f"  ({key}): {indent(repr(block), 2)}" for key, block in self._children.items())
        return f"{type(self).__name__}(\n{body}\n)"

    def __getitem__(self, key: Any) -> Any:
        layers = list(self._children.values())[key]
        if isinstance(layers, list):
            net = type(self)(prefix=self.prefix)  # type: ignore[call-arg]
            with net.name_scope():  # type: ignore[attr-defined]
                net.add(*layers)
            return net
        return layers

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._children.values()))


class Sequential(_Container, Block):
    """Blocks one after the other."""

    def __init__(self, prefix: str | None = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)

    def forward(self, x: Any, *args: Any) -> Any:
        return self._hg_chain(x, args)

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Hybridize the children, each on its own."""
        if self._children and all(isinstance(c, HybridBlock) for c in self._children.values()):
            warnings.warn(
                f"All children of this Sequential layer '{self.prefix}' are HybridBlocks. Consider using HybridSequential for the best performance.",
                stacklevel=user_frame(),
            )
        super().hybridize(active, **kwargs)


class HybridSequential(_Container, HybridBlock):
    """HybridBlocks one after the other, traced as one graph."""

    def __init__(self, prefix: str | None = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)

    def hybrid_forward(self, F: Any, x: Any, *args: Any) -> Any:
        return self._hg_chain(x, args)


class Dense(HybridBlock):
    """activation(x * weight^T + bias).

    Args:
        units: results.
        activation: name of an activation.
        use_bias: add a bias.
        flatten: fold all axes but the first; else the last axis is contracted.
        in_units: inputs; 0 takes them from the first call.
    """

    def __init__(
        self,
        units: int,
        activation: str | None = None,
        use_bias: bool = True,
        flatten: bool = True,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_units: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._flatten = flatten
        with self.name_scope():
            self._units, self._in_units = units, in_units
            self.weight = self.params.get(
                "weight", shape=(units, in_units), init=weight_initializer, dtype=dtype, allow_deferred_init=True
            )
            self.bias = (
                self.params.get("bias", shape=(units,), init=bias_initializer, dtype=dtype, allow_deferred_init=True)
                if use_bias
                else None
            )
            self.act = activation_of(activation)

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:
        x = F.FullyConnected(
            x, weight, bias, no_bias=bias is None, num_hidden=self._units, flatten=self._flatten, name="fwd"
        )
        return x if self.act is None else self.act(x)

    def __repr__(self) -> str:
        shape = self.weight.shape or (0, 0)
        layout = f"{shape[1] if shape[1] else None} -> {shape[0]}"
        return f"{type(self).__name__}({layout}, {self.act if self.act else 'linear'})"


class Dropout(HybridBlock):
    """Zeros entries with probability ``rate`` in training; axes in ``axes`` share the mask."""

    def __init__(self, rate: float, axes: Any = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._rate, self._axes = rate, axes

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        if self._rate > 0:
            return F.Dropout(x, p=self._rate, axes=self._axes, name="fwd", cudnn_off=False)
        return F.np.copy(x) if is_np_array() else F.identity(x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p = {self._rate}, axes={self._axes})"


class Embedding(HybridBlock):
    """Rows of a learned table by index."""

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        sparse_grad: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._kwargs = {"input_dim": input_dim, "output_dim": output_dim, "dtype": dtype, "sparse_grad": sparse_grad}
        with self.name_scope():
            self.weight = self.params.get(
                "weight", shape=(input_dim, output_dim), init=weight_initializer, dtype=dtype, allow_deferred_init=True
            )

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
        return F.Embedding(x, weight, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        k = self._kwargs
        return f"{type(self).__name__}({k['input_dim']} -> {k['output_dim']}, {np.dtype(k['dtype']).name})"


class Flatten(HybridBlock):
    """All axes but the first folded into one."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.Flatten(x)

    def __repr__(self) -> str:
        return type(self).__name__


class Lambda(Block):
    """A function of arrays, or an operator of ``nd`` by name, as a block."""

    def __init__(self, function: str | Callable[..., Any], prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            named = getattr(nd_module, function, None)
            assert named is not None, f"Function name {function} is not found in ndarray."
            self._func_impl: Any = named
        elif callable(function):
            self._func_impl = function
        else:
            raise ValueError(f"Unrecognized function in lambda: {function} of type {type(function)}")

    def forward(self, *args: Any) -> Any:
        try:
            return self._func_impl(*args)
        except TypeError as e:
            about_function(e, self._func_impl, len(args), with_f=False)
            raise

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_impl.__name__})"


def _by_name(name: str, F: Any, *args: Any) -> Any:
    return getattr(F, name)(*args)


class HybridLambda(HybridBlock):
    """A function of (F, x, …), or an operator by name, as a hybrid block."""

    def __init__(self, function: str | Callable[..., Any], prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            assert getattr(nd_module, function, None) is not None and getattr(sym_module, function, None) is not None, (
                f"Function name {function} is not found in symbol/ndarray."
            )
            self._func: Any = partial(_by_name, function)
            self._func_name = function
        elif callable(function):
            self._func, self._func_name = function, function.__name__
        else:
            raise ValueError(f"Unrecognized function in lambda: {function} of type {type(function)}")

    def __getstate__(self) -> dict[str, Any]:
        """The attributes for copies and pickles: an operator is there by its name."""
        state = super().__getstate__()
        return state | {"_func": None} if isinstance(self._func, partial) and self._func.func is _by_name else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._func is None:
            self._func = partial(_by_name, self._func_name)

    def hybrid_forward(self, F: Any, x: Any, *args: Any) -> Any:
        try:
            return self._func(F, x, *args)
        except TypeError as e:
            about_function(e, self._func, 1 + len(args), with_f=True)
            raise

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_name})"
