# SPDX-License-Identifier: Apache-2.0
"""Random numbers of np: operators whose parameters are numbers or arrays that broadcast.

The numbers come from the formulas of ``ops.random`` over counter-based bits. Where MXNet has a gradient it is that of
the formula, with the bits held fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base import MXNetError, ParameterError
from ...compiler.ir import Builder, Node
from ...core.dataclass import dataclass
from ...core.dtypes import DType, bool_, f32, f64, i64
from ..create import CTX, _uniform01
from ..linear import need_float
from ..params import REQUIRED, Bool, Dtype, Float, Floats, Int, Param, Position, Shape, Values
from ..random import _gamma, _normal, _standard_normal, _uniform
from ..record import operator, sample, shape_text

__all__: list[str] = []

_CTX = CTX["ctx"]
_SIZE = Shape(None, "extents of the result; those of the parameters, if not given", optional=True)
_FLOATS = ("float16", "float32", "float64")

Draw = Callable[[Builder, "tuple[int, ...]", DType, "list[Node]"], Node]


# -- distributions: (builder, shape, element type, parameters in that shape and a wide type) -> numbers


def _log_uniform(b: Builder, shape: tuple[int, ...], dtype: DType) -> Node:
    """Exponential numbers of rate 1."""
    return -b.log(1 - _uniform01(b, shape, dtype))


def _logistic(b: Builder, shape: tuple[int, ...], dtype: DType, parameters: list[Node]) -> Node:
    loc, scale = parameters
    u = _inside(b, shape, loc.dtype)
    return b.cast(loc + scale * (b.log(u) - b.log(1 - u)), dtype)


def _gumbel(b: Builder, shape: tuple[int, ...], dtype: DType, parameters: list[Node]) -> Node:
    loc, scale = parameters
    return b.cast(loc - scale * b.log(-b.log(_inside(b, shape, loc.dtype))), dtype)


def _inside(b: Builder, shape: tuple[int, ...], dtype: DType) -> Node:
    """Uniform on (0, 1), neither end reached: the middles of the steps of ``_uniform01``."""
    return _uniform01(b, shape, dtype) + 2.0 ** (-54 if dtype is f64 else -25)


def _exponential(b: Builder, shape: tuple[int, ...], dtype: DType, parameters: list[Node]) -> Node:
    return b.cast(_log_uniform(b, shape, parameters[0].dtype) * parameters[0], dtype)


def _rayleigh(b: Builder, shape: tuple[int, ...], dtype: DType, parameters: list[Node]) -> Node:
    return b.cast(b.sqrt(_log_uniform(b, shape, parameters[0].dtype) * 2.0) * parameters[0], dtype)


def _weibull(b: Builder, shape: tuple[int, ...], dtype: DType, parameters: list[Node]) -> Node:
    return b.cast(b.pow(_log_uniform(b, shape, parameters[0].dtype), 1 / parameters[0]), dtype)


def _pareto(b: Builder, shape: tuple[int, ...], dtype: DType, parameters: list[Node]) -> Node:
    return b.cast(b.expm1(_log_uniform(b, shape, parameters[0].dtype) / parameters[0]), dtype)


def _power(b: Builder, shape: tuple[int, ...], dtype: DType, parameters: list[Node]) -> Node:
    return b.cast(b.pow(1 - _uniform01(b, shape, parameters[0].dtype), 1 / parameters[0]), dtype)


@dataclass(frozen=True)
class _Bound:
    """What a parameter must be: above 0 (``strict``) or not below it.

    Attributes:
        text: of the error.
        of_numbers: what precedes it for a number, if it is not the comparison.
        of_arrays: likewise for an array.
        array_strict: as ``strict`` for the elements of arrays, for which MXNet compares otherwise.
    """

    name: str
    strict: bool
    text: str
    of_numbers: str | None = None
    of_arrays: str | None = None
    array_strict: bool = False

    def check_number(self, value: float) -> None:
        if not (value > 0 if self.strict else value >= 0):
            relation = ">" if self.strict else ">="
            compared = f"Check failed: param.{self.name}.value() {relation} 0.0 ({value:g} vs. 0) : "
            raise ParameterError(f"{compared if self.of_numbers is None else self.of_numbers}{self.text}")

    def check_array(self, value: Any) -> None:
        if (value <= 0 if self.array_strict else value < 0).any():
            compared = "Check failed: indicator_host >= 0.0 (-1 vs. 0) : "
            raise ParameterError(f"{compared if self.of_arrays is None else self.of_arrays}{self.text}")


@dataclass(frozen=True)
class _Family:
    """A distribution: its word in names, parameters in order, how to draw, what they must be.

    Attributes:
        defaults: of the parameters that have one; MXNet requires the others, if only as None.
        typed: whether the element type can be chosen.
        gradient: whether the parameters have one.
        operators: their names, if not that of the word.
    """

    word: str
    params: tuple[str, ...]
    draw: Draw
    doc: str
    bounds: tuple[_Bound, ...] = ()
    defaults: float | str | None = "required"
    typed: bool = False
    gradient: bool = True
    operators: tuple[str, ...] = ()


def _scale(text: str) -> tuple[_Bound, ...]:
    return (_Bound("scale", False, text),)


_SHAPE_PARAMETER = (_Bound("a", True, "expect a > 0"),)
_GAMMA_BOUNDS = tuple(
    _Bound(n, True, f"expect {n} > 0", "Check failed: false: ", "", array_strict=True) for n in ("shape", "scale")
)
_FAMILIES = (
    _Family(
        "uniform",
        ("low", "high"),
        _uniform,
        "Uniform on [low, high)",
        typed=True,
        gradient=False,
        operators=("_npi_uniform", "_npi_uniform_n"),
    ),
    _Family(
        "normal",
        ("loc", "scale"),
        _normal,
        "Normal with mean ``loc`` and standard deviation ``scale``",
        _scale("scale < 0"),
        typed=True,
        operators=("_npi_normal", "_npi_normal_n"),
    ),
    _Family(
        "gamma",
        ("shape", "scale"),
        _gamma,
        "Gamma with a shape and a scale",
        _GAMMA_BOUNDS,
        typed=True,
        gradient=False,
    ),
    _Family("logistic", ("loc", "scale"), _logistic, "Logistic with mean ``loc`` and a scale", _scale("scale < 0")),
    _Family("gumbel", ("loc", "scale"), _gumbel, "Gumbel with mode ``loc`` and a scale", _scale("scale < 0")),
    _Family(
        "exponential", ("scale",), _exponential, "Exponential with mean ``scale``", _scale("expect scale >= 0"), 1.0
    ),
    _Family("rayleigh", ("scale",), _rayleigh, "Rayleigh with mode ``scale``", _scale("expect scale >= 0"), 1.0),
    _Family("weibull", ("a",), _weibull, "Weibull with shape ``a`` and scale 1", _SHAPE_PARAMETER, None),
    _Family("pareto", ("a",), _pareto, "Pareto II (Lomax) with shape ``a``, from 0", _SHAPE_PARAMETER, None),
    _Family(
        "power",
        ("a",),
        _power,
        "On [0, 1], with density a * x**(a - 1)",
        _SHAPE_PARAMETER,
        None,
        gradient=False,
        operators=("_npi_powerd",),
    ),
)


def _given_inputs(names: Sequence[str]) -> Callable[[Values], list[str]]:
    """The inputs in use: one for every parameter that is no number."""
    return lambda p: [f"input{k + 1}" for k in range(sum(getattr(p, n) is None for n in names))]


def _broadcast_shape(first: Sequence[int], second: Sequence[int]) -> tuple[int, ...]:
    """The shape of two that are broadcast.

    Raises:
        MXNetError: they do not fit.
    """
    try:
        return np.broadcast_shapes(tuple(first), tuple(second))
    except ValueError:
        raise _not_broadcast(first, second) from None


def _not_broadcast(first: Sequence[int], second: Sequence[int]) -> MXNetError:
    return MXNetError(
        "Check failed: l == 1 || r == 1: operands could not be broadcast together with shapes "
        f"{shape_text(first)} {shape_text(second)}"
    )


def _drawn_shape(name: str, p: Values, arrays: Sequence[Node]) -> tuple[int, ...]:
    """The shape of the result."""
    if p.size is not None and any(d < 0 for d in p.size):
        least = min(p.size)
        raise MXNetError(f"Check failed: dim_size_is_known(*it): Shape dim size cannot be a negative value {least}")
    shape: tuple[int, ...] = ()
    for x in arrays:
        shape = _broadcast_shape(shape, x.shape)
    if p.size is None:
        return shape
    if name.endswith("_n"):
        return (*p.size, *shape)
    for x in arrays:
        if _broadcast_shape(x.shape, p.size) != p.size:
            raise _not_broadcast(x.shape, p.size)
    return tuple(p.size)


def _refuse_bool(*arrays: Any) -> None:
    if any(x.dtype is bool_ or x.dtype == np.bool_ for x in arrays):
        raise MXNetError("Unknown type enum 7")


def _declare(family: _Family, name: str) -> None:
    names = family.params

    def lower(b: Builder, p: Values, *arrays: Node) -> Node:
        for bound in family.bounds:
            value = getattr(p, bound.name)
            if value is not None:
                bound.check_number(value)
        _refuse_bool(*arrays)
        dtype = getattr(p, "dtype", f32)
        wide = f64 if dtype is f64 else f32
        shape = _drawn_shape(name, p, arrays)
        left = iter(arrays)
        parameters = []
        for n in names:
            value = getattr(p, n)
            if value is None:
                x = b.cast(next(left), wide)
                parameters.append(b.broadcast(x if family.gradient else b.stop_gradient(x), shape))
            else:
                parameters.append(b.full(shape, value, wide))
        return family.draw(b, shape, dtype, parameters)

    def check_arrays(xp: Any, p: Values, *arrays: Any) -> None:
        _refuse_bool(*arrays)
        left = iter(arrays)
        for n in names:
            if getattr(p, n) is None:
                value = next(left)
                for bound in family.bounds:
                    if bound.name == n:
                        bound.check_array(value)

    default = REQUIRED if family.defaults == "required" else family.defaults
    params: dict[str, Param] = {n: Float(default, "number, or None for an array", optional=True) for n in names}
    params["size"], params["ctx"] = _SIZE, _CTX
    if family.typed:
        params["dtype"] = Dtype("float32", "element type", only=_FLOATS)
    numbers = {n: (1.0, 2.0)[k] for k, n in enumerate(names)}
    nothing = dict.fromkeys(names)
    second = {**numbers, names[-1]: None}
    samples = [
        sample([], {**numbers, "size": (20, 13)}),
        sample([(2, 1), (1, 3)][: len(names)], nothing),
        sample([(3,)], {**second, "size": (5, 3)}),
        sample([()], {**second}),
    ]
    if family.typed:
        samples += [sample([], {**numbers, "size": (20, 13), "dtype": d}) for d in ("float16", "float64")]
    operator(
        name,
        " ".join(f"input{k + 1}" for k in range(len(names))),
        params=params,
        optional=_given_inputs(names),
        dtypes="**"[: len(names)],
        result_dtype=lambda p, d: getattr(p, "dtype", f32),
        infer_dtypes=lambda p, d: [x or f32 for x in d],
        check_arrays=check_arrays if family.bounds else None,
        samples=tuple(samples),
        domain=(0.5, 2.0),
        doc=f"{family.doc}{': a batch of such draws' if name.endswith('_n') else ''}. A parameter that is None is an array.",
        differentiable=family.gradient,
        kept=int(family.gradient),
    )(lower)


for _family in _FAMILIES:
    for _name in _family.operators or (f"_npi_{_family.word}",):
        _declare(_family, _name)


# -- outcomes of trials


_PROBABILITY = "expect probs >= 0 && probs <= 1"


def _check_probabilities(xp: Any, p: Values, *arrays: Any) -> None:
    if arrays and not p.is_logit and ((arrays[0] < 0) | (arrays[0] > 1)).any():
        raise ParameterError(f"Check failed: indicator_host >= 0.0 (-1 vs. 0) : {_PROBABILITY}")


@operator(
    "_npi_bernoulli",
    "input1",
    params={
        "prob": Float(doc="probability of 1, or None", optional=True),
        "logit": Float(doc="log(prob / (1 - prob)), or None", optional=True),
        "size": _SIZE,
        "ctx": _CTX,
        "dtype": Dtype("float32", "element type", only=("bool", "float16", "float32", "float64", "int32", "uint8")),
        "is_logit": Bool(doc="whether the array is logits"),
    },
    optional=lambda p: ["input1"] if p.prob is None and p.logit is None else [],
    dtypes="*",
    result_dtype=lambda p, d: p.dtype,
    infer_dtypes=lambda p, d: [x or f32 for x in d],
    check_arrays=_check_probabilities,
    differentiable=False,
    domain=(0.0, 1.0),
    samples=(
        sample([], {"prob": 0.3, "logit": None, "is_logit": False, "size": (20, 13)}),
        sample([], {"prob": None, "logit": -0.3, "is_logit": True, "size": (20, 13), "dtype": "int32"}),
        sample([(40, 3)], {"prob": None, "logit": None, "is_logit": False}),
        sample([(3,)], {"prob": None, "logit": None, "is_logit": True, "size": (40, 3), "dtype": "bool"}),
    ),
)
def bernoulli(b: Builder, p: Values, input1: Node | None = None) -> Node:
    """1 with a probability, else 0."""
    if p.prob is not None and not 0 <= p.prob <= 1:
        comparison = f"<= 1.0 ({p.prob:g} vs. 1)" if p.prob > 1 else f">= 0.0 ({p.prob:g} vs. 0)"
        raise ParameterError(f"Check failed: param.prob.value() {comparison} : {_PROBABILITY}")
    shape = _drawn_shape("_npi_bernoulli", p, [] if input1 is None else [input1])
    if input1 is None:
        threshold = b.full(shape, p.logit if p.is_logit else p.prob, f32)
    else:
        threshold = b.broadcast(b.cast(input1, f64 if input1.dtype is f64 else f32), shape)
    if p.is_logit:
        threshold = b.sigmoid(threshold)
    return b.cast(b.lt(_uniform01(b, shape, threshold.dtype), threshold), p.dtype)


def _choice_inputs(p: Values) -> list[str]:
    """The population as an array, then the weights; either may be missing."""
    count = (p.a is None) + p.weighted
    return ["input1", "input2"][:count]


@operator(
    "_npi_choice",
    "input1 input2",
    params={
        "a": Position(doc="number of items, or None for an array of them", optional=True),
        "size": Shape(doc="extents of the result, () if None", optional=True),
        "ctx": _CTX,
        "replace": Bool(True, "an item can be drawn more than once"),
        "weighted": Bool(False, "the last input has the probabilities"),
    },
    optional=_choice_inputs,
    dtypes="**",
    result_dtype=lambda p, d: i64,
    infer_dtypes=lambda p, d: [x or f32 for x in d],
    differentiable=False,
    domain=(0.1, 1.0),
    samples=(
        sample([], {"a": 9, "size": (300,)}),
        sample([], {"a": 300, "size": (20, 10), "replace": False}),
        sample([(5,), (5,)], {"a": None, "size": (300,), "weighted": True}),
        sample([(300,)], {"a": 300, "size": (200,), "weighted": True, "replace": False}),
    ),
)
def choice(b: Builder, p: Values, *arrays: Node) -> Node:
    """Positions of items, drawn with or without replacement."""
    items = p.a if p.a is not None else arrays[0].shape[0] if arrays[0].ndim else 1
    size = p.size or () if p.size is None else tuple(p.size)
    count = math.prod(size)
    if items <= 0 and count:
        raise MXNetError(f"Check failed: a > 0 ({items} vs. 0) : a must be greater than 0")
    if not p.replace and count > items:
        raise MXNetError(f"Check failed: size <= a ({count} vs. {items}) : Cannot take a larger sample than population")
    if not p.weighted:
        if p.replace:
            return _below(b, size, items)
        return b.reshape(b.slice(b.argsort(_keys(b, items), axis=0, ascending=True), (0,), (count,)), size)
    need_float(arrays[-1])
    weights = b.stop_gradient(arrays[-1])
    weights = b.cast(weights, f64 if weights.dtype is f64 else f32)
    if weights.ndim != 1 or weights.shape[0] > items:
        raise MXNetError(f"Check failed: the probabilities have shape {shape_text(weights.shape)}, for {items} items")
    n = weights.shape[0]
    if p.replace:
        total = b.cumsum(weights, axis=0)
        u = _uniform01(b, (count,), weights.dtype)
        grid = (count, n)
        passed = b.le(b.broadcast(b.reshape(total, (1, n)), grid), b.broadcast(b.reshape(u, (count, 1)), grid))
        return b.reshape(b.min(b.sum(b.cast(passed, i64), (1,)), n - 1), size)
    # the largest of log(weight) + Gumbel noise are a sample without replacement
    noisy = b.log(weights) - b.log(-b.log(_inside(b, (n,), weights.dtype)))
    return b.reshape(b.slice(b.argsort(noisy, axis=0, ascending=False), (0,), (count,)), size)


def _keys(b: Builder, n: int) -> Node:
    """Random keys, of which two are hardly ever equal."""
    return b.cast(b.random_bits((n,)), i64) + b.cast(b.random_bits((n,)) / 2, i64) * (1 << 32)


def _below(b: Builder, shape: tuple[int, ...], n: int) -> Node:
    """Uniform integers below ``n``."""
    bits = b.cast(b.random_bits(shape), i64)
    if n > 1 << 20:  # two words: the bias of one modulo is below 2**-31
        bits = bits + b.cast(b.random_bits(shape) / 2, i64) * (1 << 32)
    return b.mod(bits, n)


def _beyond_one(total: float) -> MXNetError:
    return MXNetError(f"Check failed: sum <= 1.0 + 1e-12 ({total:g} vs. 1) : sum(pvals[:-1]) > 1.0")


def _check_outcomes(xp: Any, p: Values, *arrays: Any) -> None:
    """Raise MXNet's error for probabilities that add up to more than 1."""
    _refuse_bool(*arrays)
    if arrays:
        total = float(arrays[0].sum())
        if total > 1.0 + (1e-12 if arrays[0].dtype == np.float64 else 1e-6):
            raise _beyond_one(total)


@operator(
    "_npi_multinomial",
    "a",
    params={
        "n": Int(doc="number of trials"),
        "pvals": Floats(None, "probabilities of the outcomes, or None for an array", optional=True, single=False),
        "size": _SIZE,
    },
    optional=lambda p: ["a"] if p.pvals is None else [],
    dtypes="*",
    result_dtype=lambda p, d: i64,
    infer_dtypes=lambda p, d: [x or f32 for x in d],
    check_arrays=_check_outcomes,
    differentiable=False,
    domain=(0.1, 0.2),
    samples=(
        sample([], {"n": 20, "pvals": (0.2, 0.3, 0.5), "size": (50,)}),
        sample([(4,)], {"n": 20, "size": (10, 5)}),
        sample([(4,)], {"n": 3}),
    ),
)
def multinomial(b: Builder, p: Values, a: Node | None = None) -> Node:
    """How often each outcome occurs in ``n`` trials."""
    if a is not None:
        _refuse_bool(a)
    if a is not None and a.ndim != 1:
        raise MXNetError(f"Check failed: ishape.ndim() == 1U ({a.ndim} vs. 1) : object too deep for desired array")
    wide = f64 if a is None or a.dtype is f64 else f32
    kinds = len(p.pvals) if a is None else a.shape[0]
    size, trials = tuple(p.size or ()), max(p.n, 0)
    shape = (*size, kinds)
    if not kinds or not trials:
        return b.full(shape, 0, i64)
    if a is None:
        total = math.fsum(p.pvals)
        if total > 1.0 + 1e-12:
            raise _beyond_one(total)
        edges = b.concat([b.full((1,), v, wide) for v in np.cumsum(p.pvals)], 0)
    else:
        edges = b.cumsum(b.cast(a, wide), axis=0)
    # the outcome of a trial is the number of edges, the last one left out, that a uniform number has passed
    grid = (*size, trials, kinds)
    u = b.broadcast(_uniform01(b, (*size, trials, 1), wide), grid)
    passed = b.cast(b.le(b.broadcast(b.reshape(edges, (*(1,) * (len(grid) - 1), kinds)), grid), u), i64)
    reached = b.sum(passed, (len(size),))  # trials beyond each edge
    inner = b.slice_axis(reached, -1, 0, kinds - 1)
    before = b.concat([b.full((*size, 1), trials, i64), inner], len(size))
    after = b.concat([inner, b.full((*size, 1), 0, i64)], len(size))
    return before - after


def _normal_shape(p: Values, mean: Node, cov: Node) -> tuple[int, ...]:
    """The shape of the result of multivariate_normal."""
    if mean.ndim < 1:
        raise MXNetError("mean must be at least 1 dimensional")
    if cov.ndim < 2:
        raise MXNetError("cov must be at least 2 dimensional")
    if cov.shape[-1] != cov.shape[-2]:
        raise MXNetError(
            f"the last two dimensions of the parameter cov have to be the same, whereas the shape of cov is {cov.shape}"
        )
    if cov.shape[-1] != mean.shape[-1]:
        raise MXNetError(
            "mean and cov must have same length. "
            f"The shape of mean is {mean.shape[-1:]} but the shape of cov is {cov.shape[-2:]}"
        )
    return (*(p.size or ()), *_broadcast_shape(mean.shape, cov.shape[:-1]))


@operator(
    "_npi_multivariate_normal _npi_mvn_fallback",
    "mean cov",
    custom_type="mvn_fallback",
    params={"size": _SIZE},
    samples=(sample([(1,), (1, 1)], {"size": (200,)}), sample([(4, 1, 1), (3, 1, 1)])),
    domain=(0.5, 2.0),
)
def multivariate_normal(b: Builder, p: Values, mean: Node, cov: Node) -> Node:
    """Normal vectors with a mean and a covariance. Hybridgpu's own: MXNet computes them in Python."""
    need_float(mean)
    need_float(cov)
    shape = _normal_shape(p, mean, cov)
    wide = f64 if f64 in (mean.dtype, cov.dtype) else f32
    n = shape[-1]
    factor = b.cholesky(b.cast(cov, wide))
    factor = b.broadcast(factor, (*shape[:-1], n, n))
    noise = b.reshape(_standard_normal(b, shape, wide), (*shape, 1))
    y = b.reshape(b.dot(factor, noise), shape)
    return b.cast(b.broadcast(b.cast(mean, wide), shape) + y, mean.dtype)
