# SPDX-License-Identifier: Apache-2.0
"""Functions of ``nd.random`` and ``sym.random``, from one definition each.

Parameters are all numbers, which makes one array of ``shape``, or all arrays, of which each entry
gives ``shape`` numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base import numeric_types
from ..hints.tracing import in_array_code, in_graph

__all__ = ["make_samplers", "make_zipfian"]

#: (operator, inputs, attributes, keywords such as ctx, out and name) -> result
Call = Callable[[str, list[Any], dict[str, Any], dict[str, Any]], Any]


def make_samplers(array: type, kind: str, call: Call) -> dict[str, Callable[..., Any]]:
    """The sampling functions by name.

    Args:
        array: the class of arrays.
        kind: its name in messages.
        call: applies an operator.
    """

    def draw(
        word: str, parameters: dict[str, Any], shape: Any, dtype: Any, ctx: Any, out: Any, rest: dict[str, Any]
    ) -> Any:
        rest |= {key: value for key, value in (("ctx", ctx), ("out", out)) if value is not None}
        values = list(parameters.values())
        of_arrays = isinstance(values[0], array)
        if not of_arrays and not isinstance(values[0], (*numeric_types, np.generic)):
            text = f"Distribution parameters must be either {kind} or numbers, but got {type(values[0])}."
            raise ValueError(text + (in_array_code if kind == "NDArray" else in_graph)(values[0]))
        for v in values[1:]:
            assert isinstance(v, array if of_arrays else (*numeric_types, np.generic)), (
                f"Distribution parameters must all have the same type, but got both {type(values[0])} and {type(v)}."
            )
        attributes = {} if shape is None else {"shape": shape}
        if dtype not in (None, "None"):
            attributes["dtype"] = dtype
        if of_arrays:
            return call(f"_sample_{word}", values, attributes, rest)
        return call(f"_random_{word}", [], {**parameters, **attributes}, rest)

    def uniform(
        low: Any = 0,
        high: Any = 1,
        shape: Any = None,
        dtype: Any = None,
        ctx: Any = None,
        out: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Uniform on [low, high), float32 by default."""
        return draw("uniform", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs)

    def normal(
        loc: Any = 0,
        scale: Any = 1,
        shape: Any = None,
        dtype: Any = None,
        ctx: Any = None,
        out: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Normal with mean ``loc`` and standard deviation ``scale``."""
        return draw("normal", {"loc": loc, "scale": scale}, shape, dtype, ctx, out, kwargs)

    def randn(*shape: int, loc: Any = 0, scale: Any = 1, dtype: Any = None, **kwargs: Any) -> Any:
        """Normal numbers, the extents as separate arguments."""
        return normal(loc, scale, shape, dtype, **kwargs)

    def gamma(
        alpha: Any = 1,
        beta: Any = 1,
        shape: Any = None,
        dtype: Any = None,
        ctx: Any = None,
        out: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Gamma with shape ``alpha`` and scale ``beta``."""
        return draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, ctx, out, kwargs)

    def exponential(
        scale: Any = 1, shape: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None, **kwargs: Any
    ) -> Any:
        """Exponential with mean ``scale``."""
        return draw("exponential", {"lam": 1.0 / scale}, shape, dtype, ctx, out, kwargs)

    def poisson(
        lam: Any = 1, shape: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None, **kwargs: Any
    ) -> Any:
        """Poisson with mean ``lam``."""
        return draw("poisson", {"lam": lam}, shape, dtype, ctx, out, kwargs)

    def negative_binomial(
        k: Any = 1, p: Any = 1, shape: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None, **kwargs: Any
    ) -> Any:
        """Successes before the k-th failure, whose probability is ``p``."""
        return draw("negative_binomial", {"k": k, "p": p}, shape, dtype, ctx, out, kwargs)

    def generalized_negative_binomial(
        mu: Any = 1,
        alpha: Any = 1,
        shape: Any = None,
        dtype: Any = None,
        ctx: Any = None,
        out: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Negative binomial with mean ``mu`` and variance ``mu + alpha * mu**2``."""
        return draw("generalized_negative_binomial", {"mu": mu, "alpha": alpha}, shape, dtype, ctx, out, kwargs)

    def randint(
        low: int, high: int, shape: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None, **kwargs: Any
    ) -> Any:
        """Integers in low … high - 1, int32 by default."""
        if isinstance(low, array) or isinstance(high, array):
            raise TypeError("randint takes numbers as its bounds")
        return draw("randint", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs)

    def choose(data: Any, shape: Any, get_prob: bool, dtype: Any, rest: dict[str, Any]) -> Any:
        """Numbers of categories with the probabilities of the last axis of ``data``, ``shape`` of them a row.

        With ``get_prob`` also the logarithms of the probabilities of what was drawn.
        """
        attributes = {"get_prob": get_prob, "dtype": dtype, **({} if shape is None else {"shape": shape})}
        return call("_sample_multinomial", [data], attributes, rest)

    if kind == "NDArray":

        def multinomial(
            data: Any, shape: Any = None, get_prob: bool = False, out: Any = None, dtype: Any = "int32", **kwargs: Any
        ) -> Any:
            return choose(data, shape, get_prob, dtype, kwargs if out is None else {**kwargs, "out": out})

    else:

        def multinomial(  # type: ignore[misc]
            data: Any, shape: Any = None, get_prob: bool = True, dtype: Any = "int32", **kwargs: Any
        ) -> Any:
            return choose(data, shape, get_prob, dtype, kwargs)

    multinomial.__doc__ = choose.__doc__

    def shuffle(data: Any, **kwargs: Any) -> Any:
        """The entries of the first axis in random order."""
        return call("_shuffle", [data], {}, kwargs)

    functions: tuple[Callable[..., Any], ...] = (
        uniform,
        normal,
        randn,
        gamma,
        exponential,
        poisson,
        negative_binomial,
        generalized_negative_binomial,
        randint,
        multinomial,
        shuffle,
    )
    for f in functions:
        f.__qualname__ = f.__name__
    return {f.__name__: f for f in functions}


def make_zipfian(uniform: Callable[..., Any], place: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """``contrib.rand_zipfian``, from a function that draws and ``place(array, ctx)``, which puts an array on a device."""

    def rand_zipfian(true_classes: Any, num_sampled: int, range_max: int, ctx: Any = None) -> tuple[Any, Any, Any]:
        """Draw classes with replacement, small numbers more often: class k with probability log((k + 2) / (k + 1)).

        Args:
            true_classes: numbers of classes.
            num_sampled: how many to draw.
            range_max: numbers of classes are below this.
            ctx: the device, for arrays.

        Returns:
            The classes drawn (int64), how often ``true_classes`` were to be expected among them, and how often those
            drawn (both float64).
        """
        width = math.log(range_max + 1)
        drawn = uniform(0, width, shape=(num_sampled,), dtype="float64", **({} if ctx is None else {"ctx": ctx}))
        classes = (drawn.exp() - 1).astype("int64") % range_max

        def expected(numbers: Any) -> Any:
            wide = numbers.astype("float64")
            return ((wide + 2.0) / (wide + 1.0)).log() / width * num_sampled

        return classes, expected(place(true_classes, ctx)), expected(classes)

    return rand_zipfian
