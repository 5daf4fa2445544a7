# SPDX-License-Identifier: Apache-2.0
"""Random operators: with scalar parameters, with arrays of parameters, and in the shape of an array.

Uniform, normal and exponential numbers are formulas over counter-based bits, which kernels compute
where they need them; gamma and Poisson numbers, drawn by rejection, are library calls. A family is
declared once; its three operators differ in where shape and parameters come from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..core.dataclass import dataclass
from ..core.dtypes import DType, bool_, f32, f64, i32, i64
from .create import CTX, _uniform01, checked_shape
from .dynamic_attributes import DynamicAttribute
from .linear import need_float
from .params import Bool, Dtype, Float, Int, Long, Param, Shape, Values
from .record import Sample, operator, sample, shape_text

__all__: list[str] = []

_DRAW: dict[str, Param] = {
    "shape": Shape(None, "extents; whatever the context asks for, if not given"),
    **CTX,
    "dtype": Dtype(None, "element type, float32 by default"),
}
_FLOATS = ("bfloat16", "float16", "float32", "float64")

Draw = Callable[[Builder, tuple[int, ...], DType, list[Node]], Node]


def _wide(dtype: DType) -> DType:
    """What numbers of a type are computed in."""
    return f64 if dtype is f64 else f32


# -- the distributions: (builder, shape, element type, parameters in that shape and its wide type) -> numbers


def _uniform(b: Builder, shape: tuple[int, ...], dtype: DType, parameters: list[Node]) -> Node:
    low, high = parameters
    y = b.cast(_uniform01(b, shape, low.dtype) * (high - low) + low, dtype)
    # rounding may reach high, which is no result: what is nearest below takes its place
    top = b.cast(high, dtype)
    return b.select(b.logical_and(b.ge(y, top), b.gt(high, low)), _below(b, top), y)


def _below(b: Builder, x: Node) -> Node:
    """About the largest number below ``x``."""
    info = x.dtype.finfo
    return x - b.max(b.abs(x) * float(info.eps), float(info.smallest_normal))


def _standard_normal(b: Builder, shape: tuple[int, ...], dtype: DType) -> Node:
    """Box and Muller, 1958."""
    radius = b.sqrt(b.log(1 - _uniform01(b, shape, dtype)) * -2.0)
    return radius * b.cos(_uniform01(b, shape, dtype) * (2 * math.pi))


def _normal(b: Builder, shape: tuple[int, ...], dtype: DType, parameters: list[Node]) -> Node:
    loc, scale = parameters
    return b.cast(_standard_normal(b, shape, loc.dtype) * scale + loc, dtype)


def _exponential(b: Builder, shape: tuple[int, ...], dtype: DType, parameters: list[Node]) -> Node:
    (rate,) = parameters
    return b.cast(-b.log(1 - _uniform01(b, shape, rate.dtype)) / rate, dtype)


def _gamma(b: Builder, shape: tuple[int, ...], dtype: DType, parameters: list[Node]) -> Node:
    alpha, scale = parameters
    return b.cast(b.draw("random_gamma", alpha) * scale, dtype)


def _poisson(b: Builder, shape: tuple[int, ...], dtype: DType, parameters: list[Node]) -> Node:
    return b.cast(b.draw("random_poisson", parameters[0]), dtype)


def _negative_binomial(b: Builder, shape: tuple[int, ...], dtype: DType, parameters: list[Node]) -> Node:
    """Poisson numbers whose rate is a gamma number."""
    k, p = parameters
    return b.cast(b.draw("random_poisson", b.draw("random_gamma", k) * ((1 - p) / p)), dtype)


def _generalized(b: Builder, shape: tuple[int, ...], dtype: DType, parameters: list[Node]) -> Node:
    mu, alpha = parameters
    none = b.eq(alpha, 0)  # no dispersion: Poisson
    shape_parameter = b.div(1, b.select(none, b.full_like(alpha, 1), alpha))
    rate = b.draw("random_gamma", shape_parameter) * (mu * alpha)
    return b.cast(b.draw("random_poisson", b.select(none, mu, rate)), dtype)


@dataclass(frozen=True)
class _Check:
    """A bound on a parameter given as a number."""

    name: str
    strict: bool
    text: str

    def __call__(self, p: Values) -> None:
        value = getattr(p, self.name)
        if not (value > 0 if self.strict else value >= 0):
            relation = ">" if self.strict else ">="
            raise MXNetError(f"Check failed: param.{self.name} {relation} 0 ({value:g} vs. 0) : {self.text}")


def _ordered(p: Values) -> None:
    if not p.high >= p.low:
        raise MXNetError(
            f"Check failed: param.high >= param.low ({p.high:g} vs. {p.low:g}) : low must be less or equal to high in uniform distribution"
        )


def _positive(name: str, word: str, where: str) -> _Check:
    return _Check(name, True, f"{word} parameter in {where} has to be positive")


def _not_negative(name: str, word: str, where: str) -> _Check:
    return _Check(name, False, f"{word} parameter in {where} has to be non-negative")


@dataclass(frozen=True)
class _Family:
    """A distribution: its word in names, parameters as numbers, inputs as arrays, how to draw, what to check."""

    word: str
    params: dict[str, Param]
    inputs: str
    draw: Draw
    doc: str
    checks: tuple[Callable[[Values], None], ...] = ()
    aliases: str = ""
    samples: tuple[dict[str, float], ...] = ({},)


_NB, _GNB = "negative binomial distribution", "generalized negative binomial distribution"
_FAMILIES = (
    _Family(
        "uniform",
        {"low": Float(0.0, "lower bound", varies=True), "high": Float(1.0, "upper bound, not reached", varies=True)},
        "low high",
        _uniform,
        "Uniform on [low, high)",
        (_ordered,),
        "uniform",
        ({}, {"low": -3, "high": 2}),
    ),
    _Family(
        "normal",
        {"loc": Float(0.0, "mean", varies=True), "scale": Float(1.0, "standard deviation", varies=True)},
        "mu sigma",
        _normal,
        "Normal with a mean and a standard deviation",
        (_positive("scale", "scale", "gaussian"),),
        "normal",
        ({}, {"loc": 3, "scale": 0.5}),
    ),
    _Family(
        "gamma",
        {"alpha": Float(1.0, "shape"), "beta": Float(1.0, "scale")},
        "alpha beta",
        _gamma,
        "Gamma with shape alpha and scale beta",
        (_positive("alpha", "alpha", "gamma distribution"), _positive("beta", "beta", "gamma distribution")),
    ),
    _Family(
        "exponential",
        {"lam": Float(1.0, "rate")},
        "lam",
        _exponential,
        "Exponential with rate lam",
        (_positive("lam", "lambda", "exponential distribution"),),
    ),
    _Family(
        "poisson",
        {"lam": Float(1.0, "mean")},
        "lam",
        _poisson,
        "Poisson with mean lam",
        (_not_negative("lam", "lambda", "poisson distribution"),),
        samples=({"lam": 2.5}, {"lam": 80}),
    ),
    _Family(
        "negative_binomial",
        {"k": Int(1, "number of failures that end it"), "p": Float(1.0, "probability of a failure")},
        "k p",
        _negative_binomial,
        "Successes before the k-th failure",
        (_not_negative("k", "k", _NB), _not_negative("p", "p", _NB)),
        samples=({"k": 3, "p": 0.4},),
    ),
    _Family(
        "generalized_negative_binomial",
        {"mu": Float(1.0, "mean"), "alpha": Float(1.0, "dispersion")},
        "mu alpha",
        _generalized,
        "Negative binomial with mean mu and variance mu + alpha * mu**2",
        (_not_negative("mu", "mu", _GNB), _not_negative("alpha", "alpha", _GNB)),
    ),
)


def _float_type(dtype: DType, name: str) -> DType:
    if dtype.name not in _FLOATS:
        valid = ", ".join(f"'{d}'" for d in ("None", *_FLOATS))
        raise MXNetError(f"Invalid Input: '{dtype.name}', valid values are: {{{valid}}}, in operator {name}")
    return dtype


def _declare(family: _Family) -> None:
    word, checks = family.word, family.checks

    def numbers(b: Builder, p: Values, shape: tuple[int, ...], dtype: DType) -> Node:
        attributes = [getattr(p, n) for n in family.params]
        if not any(isinstance(v, DynamicAttribute) for v in attributes):
            check_values(None, p)
        wide = _wide(dtype)
        return family.draw(b, shape, dtype, [parameter(b, v, shape, wide) for v in attributes])

    def parameter(b: Builder, value: float | DynamicAttribute, shape: tuple[int, ...], dtype: DType) -> Node:
        if isinstance(value, DynamicAttribute):
            return b.broadcast(b.reshape(value.number(dtype), (1,) * len(shape)), shape)
        # MXNet keeps such attributes as floats
        return b.full(shape, float(np.float32(value)) if isinstance(value, float) else value, dtype)

    def check_values(xp: Any, p: Values, *_: Any) -> None:
        for check in checks:
            check(p)

    def plain(b: Builder, p: Values) -> Node:
        name = f"_random_{word}"
        return numbers(b, p, checked_shape(p.shape, name), _float_type(p.dtype or f32, name))

    def like(b: Builder, p: Values, data: Node) -> Node:
        return numbers(b, p, data.shape, _float_type(data.dtype, f"_random_{word}_like"))

    def of_arrays(b: Builder, p: Values, *parameters: Node) -> Node:
        first = parameters[0].shape
        for k, x in enumerate(parameters):
            if x.dtype is bool_:
                raise MXNetError("Unknown type enum 7")
            if x.shape != first:
                raise MXNetError(
                    f"Operator _sample_{word} inferring shapes failed. Incompatible attr in node  at {k}-th input: "
                    f"expected {shape_text(first)}, got {shape_text(x.shape)}"
                )
        dtype = _float_type(p.dtype or f32, f"_sample_{word}")
        shape, wide = (*first, *p.shape), _wide(dtype)
        spread = [
            b.broadcast(b.reshape(b.stop_gradient(b.cast(x, wide)), (*first, *(1,) * len(p.shape))), shape)
            for x in parameters
        ]
        return family.draw(b, shape, dtype, spread)

    operator(
        f"_random_{word} random_{word} {family.aliases}",
        "",
        params={**family.params, **_DRAW},
        result_dtype=lambda p, d: p.dtype or f32,
        samples=tuple(
            Sample((), {**a, "shape": (20, 13), "dtype": dtype}, {}) for a in family.samples for dtype in _FLOATS
        ),
        doc=f"{family.doc}.",
        differentiable=False,
        check_arrays=check_values,
    )(plain)
    operator(
        f"_random_{word}_like",
        params=dict(family.params),
        samples=tuple(sample([(20, 13)], dict(a)) for a in family.samples),
        doc=f"{family.doc}, in the shape and type of an array.",
        differentiable=False,
        check_arrays=check_values,
    )(like)
    operator(
        f"_sample_{word} sample_{word}",
        family.inputs,
        params={"shape": Shape((), "extents for each parameter"), "dtype": _DRAW["dtype"]},
        result_dtype=lambda p, d: p.dtype or f32,
        samples=(
            sample([(3,)] * len(family.params), {"shape": (4, 6)}),
            sample([(4, 5)] * len(family.params), {"dtype": "float64"}),
        ),
        domain=(0.3, 1.0),
        doc=f"{family.doc}: ``shape`` numbers for each entry of the parameters.",
        differentiable=False,
    )(of_arrays)


for _family in _FAMILIES:
    _declare(_family)


@operator(
    "_random_randint random_randint _npi_random_randint",
    "",
    params={"low": Long(doc="smallest"), "high": Long(doc="above the largest"), **_DRAW},
    differentiable=False,
    result_dtype=lambda p, d: p.dtype or i32,
    samples=(
        Sample((), {"low": -3, "high": 40, "shape": (20, 10)}, {}),
        Sample((), {"low": 0, "high": 1 << 40, "shape": (20, 10), "dtype": "int64"}, {}),
    ),
)
def random_randint(b: Builder, p: Values) -> Node:
    """Uniform integers in low … high - 1."""
    if p.high < p.low:
        raise MXNetError(
            f"Check failed: param.high >= param.low ({p.high} vs. {p.low}) : low must be less or equal to high in uniform "
            "distribution"
        )
    if p.high == p.low:
        raise MXNetError(f"Check failed: low < high: randint of an empty range {p.low} … {p.high}")
    dtype = p.dtype or i32
    if dtype not in (i32, i64):
        raise MXNetError(
            f"Invalid Input: '{dtype.name}', valid values are: {{'None', 'int32', 'int64'}}, in operator _random_randint"
        )
    span, shape = p.high - p.low, checked_shape(p.shape, "_random_randint")
    bits = b.cast(b.random_bits(shape), i64)
    if span > 1 << 20:  # two words: the bias of one modulo is below 2**-31
        bits = bits + b.cast(b.random_bits(shape) / 2, i64) * (1 << 32)
    return b.cast(b.mod(bits, span) + p.low, dtype)


# -- choice and order


def _largest(dtype: DType) -> int:
    """The number up to which a type holds every whole number."""
    return 2 ** (dtype.finfo.nmant + 1) if dtype.is_float else int(np.iinfo(dtype.np).max)


@operator(
    "_sample_multinomial sample_multinomial",
    params={
        "shape": Shape((), "extents for each row"),
        "get_prob": Bool(False, "return the logarithm of the probability of what was drawn too"),
        "dtype": Dtype("int32", "type of the draws"),
    },
    outputs=lambda p: 2 if p.get_prob else 1,
    samples=(
        sample([(4,)], {"shape": (200,), "get_prob": True}),
        sample([(3, 4)], {"shape": (10, 20), "dtype": "float32"}),
        sample([(2, 4)]),
    ),
    domain=(0.1, 1.0),
)
def sample_multinomial(b: Builder, p: Values, data: Node) -> Node | tuple[Node, Node]:
    """Numbers of categories, drawn with the probabilities of the last axis: ``shape`` numbers a row.

    The gradient of the logarithms of the probabilities reaches ``data``.
    """
    need_float(data)
    if not data.ndim:
        raise MXNetError("Check failed: multinomial needs probabilities along an axis")
    if p.dtype.name not in (*_FLOATS, "int32", "uint8"):
        valid = "'bfloat16', 'float16', 'float32', 'float64', 'int32', 'uint8'"
        raise MXNetError(
            f"Invalid Input: '{p.dtype.name}', valid values are: {{{valid}}}, in operator _sample_multinomial"
        )
    if data.shape[-1] > _largest(p.dtype):
        raise MXNetError("'dtype' does not have a sufficient precision to represent the indices of the input array.")
    rows, count = data.shape[:-1], data.shape[-1]
    draws = math.prod(p.shape)
    wide = _wide(data.dtype)
    total = b.cumsum(b.stop_gradient(b.cast(data, wide)), axis=data.ndim - 1)
    u = _uniform01(b, (*rows, draws), wide)
    grid = (*rows, draws, count)
    passed = b.le(
        b.broadcast(b.reshape(total, (*rows, 1, count)), grid), b.broadcast(b.reshape(u, (*rows, draws, 1)), grid)
    )
    drawn = b.min(b.sum(b.cast(passed, i64), (len(grid) - 1,)), count - 1)
    shape = (*rows, *p.shape) or (1,)
    numbers = b.cast(b.reshape(drawn, shape), p.dtype)
    if not p.get_prob:
        return numbers
    likely = b.take_along(data, drawn, axis=data.ndim - 1)
    return numbers, b.reshape(b.log(likely), shape)


@operator(
    "_sample_unique_zipfian",
    "",
    params={"range_max": Int(doc="numbers are below this", low=1), "shape": Shape((), "(rows, numbers in each)")},
    outputs=2,
    differentiable=False,
    result_dtype=lambda p, dtypes: i64,
    samples=(sample([], {"range_max": 50, "shape": (2, 10)}),),
)
def sample_unique_zipfian(b: Builder, p: Values) -> tuple[Node, Node]:
    """Different numbers in each row, small ones more often (log-uniform), and how many were drawn to get them."""
    if len(p.shape) != 2 or min(p.shape) < 0:
        raise MXNetError(f"Check failed: param.shape.ndim() == 2U ({len(p.shape)} vs. 2) : ")
    rows, count = p.shape
    if count > p.range_max:
        raise MXNetError(
            f"Check failed: num_sampled <= param.range_max ({count} vs. {p.range_max}) : "
            "Number of samples cannot exceed the number of possible classes"
        )
    both = b.draw("unique_zipfian", shape=p.shape, below=p.range_max)
    return b.slice_axis(both, 1, 0, count), b.reshape(b.slice_axis(both, 1, count, count + 1), (rows,))


@operator("_shuffle shuffle _npi_shuffle", samples=(sample([(40, 3)]), sample([(1,)]), sample([(0, 2)])))
def shuffle(b: Builder, p: Values, data: Node) -> Node:
    """The entries of the first axis in random order."""
    if not data.ndim or not data.size:
        return b.copy(data)
    n = (data.shape[0],)
    keys = b.cast(b.random_bits(n), i64) + b.cast(b.random_bits(n) / 2, i64) * (1 << 32)
    return b.take(data, b.argsort(keys, axis=0, ascending=True), axis=0)


# -- densities


def _density(word: str, inputs: str, formula: Callable[..., Node], doc: str, vector: bool = False) -> None:
    """An operator of log densities; exponentiated unless ``is_log``."""
    count = len(inputs.split())
    samples = (
        sample([(2, 4, 3), (2, 3)], {"is_log": True})
        if vector
        else sample([(2, 3), *[(2,)] * count], {"is_log": True}),
        sample([(3,), (3,)]) if vector else sample([(2, 3), *[(2, 3)] * count]),
    )

    def lower(b: Builder, p: Values, x: Node, *parameters: Node) -> Node:
        need_float(x)
        lead = parameters[0].shape
        if any(y.shape != lead for y in parameters) or x.shape[: len(lead) - vector] != lead[: len(lead) - vector]:
            shapes = ", ".join(shape_text(y.shape) for y in (x, *parameters))
            raise MXNetError(f"Check failed: random_pdf_{word}: the shapes of sample and parameters differ: {shapes}")
        if vector and (not lead or x.shape[-1] != lead[-1]):
            raise MXNetError(
                f"Check failed: random_pdf_{word}: the last axes of {shape_text(x.shape)} and {shape_text(lead)} differ"
            )
        batch_shape = lead[:-1] if vector else lead
        tail = lead[-1:] if vector else ()
        middle = (1,) * (x.ndim - len(lead))
        spread = [b.broadcast(b.reshape(y, (*batch_shape, *middle, *tail)), x.shape) for y in parameters]
        y = formula(b, x, *spread)
        return y if p.is_log else b.exp(y)

    operator(
        f"_random_pdf_{word} random_pdf_{word}",
        f"sample {inputs}",
        params={"is_log": Bool(False, "the logarithm of the density")},
        doc=doc,
        samples=samples,
        domain=(0.1, 1.0),
    )(lower)


def _log_uniform(b: Builder, x: Node, low: Node, high: Node) -> Node:
    return -b.log(b.abs(high - low)) + x * 0


def _log_normal(b: Builder, x: Node, mu: Node, sigma: Node) -> Node:
    z = (x - mu) / sigma
    return z * z * -0.5 - b.log(sigma) - 0.5 * math.log(2 * math.pi)


def _log_gamma(b: Builder, x: Node, alpha: Node, beta: Node) -> Node:
    return alpha * b.log(beta) + (alpha - 1) * b.log(x) - beta * x - b.lgamma(alpha)


def _log_exponential(b: Builder, x: Node, lam: Node) -> Node:
    return b.log(lam) - lam * x


def _log_poisson(b: Builder, x: Node, lam: Node) -> Node:
    x = b.stop_gradient(x)  # a count, here and below
    return x * b.log(lam) - b.lgamma(x + 1) - lam


def _log_negative_binomial(b: Builder, x: Node, k: Node, p: Node) -> Node:
    x = b.stop_gradient(x)
    return b.lgamma(x + k) - b.lgamma(x + 1) - b.lgamma(k) + k * b.log(p) + x * b.log(1 - p)


def _log_generalized(b: Builder, x: Node, mu: Node, alpha: Node) -> Node:
    return _log_negative_binomial(b, x, b.div(1, alpha), b.div(1, mu * alpha + 1))


def _log_dirichlet(b: Builder, x: Node, alpha: Node) -> Node:
    last = (x.ndim - 1,)
    terms: Any = (alpha - 1) * b.log(x) - b.lgamma(alpha)
    y = b.sum(terms, last) + b.lgamma(b.sum(alpha, last))
    return y if y.ndim else b.reshape(y, (1,))


_density("uniform", "low high", _log_uniform, "Density of the uniform distribution on [low, high], for samples inside.")
_density("normal", "mu sigma", _log_normal, "Density of the normal distribution.")
_density("gamma", "alpha beta", _log_gamma, "Density of the gamma distribution with shape alpha and rate beta.")
_density("exponential", "lam", _log_exponential, "Density of the exponential distribution with rate lam.")
_density("poisson", "lam", _log_poisson, "Probability of the Poisson distribution with mean lam.")
_density("negative_binomial", "k p", _log_negative_binomial, "Probability of k failures' successes.")
_density(
    "generalized_negative_binomial",
    "mu alpha",
    _log_generalized,
    "Probability of the negative binomial distribution with mean mu and dispersion alpha.",
)
_density(
    "dirichlet", "alpha", _log_dirichlet, "Density of the Dirichlet distribution, along the last axis.", vector=True
)
