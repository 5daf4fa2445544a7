# SPDX-License-Identifier: Apache-2.0
"""np.random and npx.random: functions that draw with parameters that are numbers or arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...context import current_context
from .application import Array, np_function, npx_function

__all__: list[str] = []


def _draw(
    F: Any, operator: str, parameters: dict[str, Any], size: Any, ctx: Any, out: Any = None, **attributes: Any
) -> Any:
    """Call a sampling operator: parameters that are arrays become inputs."""
    inputs = [v for v in parameters.values() if isinstance(v, F.array)]
    attributes.update((n, None if isinstance(v, F.array) else v) for n, v in parameters.items())
    attributes["size"] = None if isinstance(size, tuple) and not size else size
    if not inputs:
        attributes["ctx"] = current_context() if ctx is None else ctx
    return F.invoke(operator, inputs, attributes, out)


@np_function("random.uniform")
def np_uniform(
    F: Any, low: Any = 0.0, high: Any = 1.0, size: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None
) -> Any:
    """Uniform on [low, high), float32 by default."""
    return _draw(F, "_npi_uniform", {"low": low, "high": high}, size, ctx, out, dtype=dtype or "float32")


@np_function("random.normal")
def np_normal(
    F: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None
) -> Any:
    """Normal with mean ``loc`` and standard deviation ``scale``, float32 by default."""
    return _draw(F, "_npi_normal", {"loc": loc, "scale": scale}, size, ctx, out, dtype=dtype or "float32")


@np_function("random.lognormal")
def np_lognormal(
    F: Any, mean: Any = 0.0, sigma: Any = 1.0, size: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None
) -> Any:
    """Exponentials of normal numbers with mean ``mean`` and standard deviation ``sigma``."""
    y = F.invoke("_npi_exp", (np_normal(F, mean, sigma, size, dtype, ctx),))
    return y if out is None else F.invoke("_np_copy", (y,), {}, out)


@np_function("random.gamma")
def np_gamma(
    F: Any, shape: Any, scale: Any = 1.0, size: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None
) -> Any:
    """Gamma with shape ``shape`` and scale ``scale``, float32 by default."""
    size = out.shape if out is not None else size
    return _draw(F, "_npi_gamma", {"shape": shape, "scale": scale}, size, ctx, out, dtype=dtype or "float32")


@np_function("random.beta")
def np_beta(F: Any, a: Any, b: Any, size: Any = None, dtype: Any = None, ctx: Any = None) -> Any:
    """Beta on [0, 1] with shapes ``a`` and ``b``, from two gamma numbers in double precision."""
    x, y = (np_gamma(F, shape, 1.0, size, "float64", ctx) for shape in (a, b))
    total = F.invoke("_npi_add", (x, y))
    return F.invoke("_npi_cast", (F.invoke("_npi_true_divide", (x, total)),), {"dtype": dtype or "float32"})


@np_function("random.chisquare")
def np_chisquare(F: Any, df: Any, size: Any = None, dtype: Any = None, ctx: Any = None) -> Any:
    """Chi-squared with ``df`` degrees of freedom: mean df, variance 2 * df (a quarter of both in MXNet, where the scale of
    the gamma numbers is 1/2)."""
    half = F.invoke("_npi_multiply_scalar", (df,), {"scalar": 0.5}) if isinstance(df, F.array) else df / 2
    return np_gamma(F, half, 2.0, size, dtype, ctx)


@np_function("random.logistic")
def np_logistic(F: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Logistic with mean ``loc`` and scale ``scale``."""
    return _draw(F, "_npi_logistic", {"loc": loc, "scale": scale}, size, ctx, out)


@np_function("random.gumbel")
def np_gumbel(F: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Gumbel with mode ``loc`` and scale ``scale``."""
    return _draw(F, "_npi_gumbel", {"loc": loc, "scale": scale}, size, ctx, out)


@np_function("random.exponential")
def np_exponential(F: Any, scale: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Exponential with mean ``scale``."""
    return _draw(F, "_npi_exponential", {"scale": scale}, size, ctx, out)


@np_function("random.rayleigh")
def np_rayleigh(F: Any, scale: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Rayleigh with mode ``scale``."""
    return _draw(F, "_npi_rayleigh", {"scale": scale}, size, ctx, out)


@np_function("random.weibull")
def np_weibull(F: Any, a: Any, size: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Weibull with shape ``a`` and scale 1."""
    return _draw(F, "_npi_weibull", {"a": a}, size, ctx, out)


@np_function("random.pareto")
def np_pareto(F: Any, a: Any, size: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Pareto II (Lomax) with shape ``a``, from 0."""
    return _draw(F, "_npi_pareto", {"a": a}, size, ctx, out)


@np_function("random.power")
def np_power(F: Any, a: Any, size: Any = None) -> Any:
    """Numbers on [0, 1] with density a * x**(a - 1)."""
    return _draw(F, "_npi_powerd", {"a": a}, size, None)


@np_function("random.rand")
def rand(F: Any, *size: int, **kwargs: Any) -> Any:
    """Uniform on [0, 1), the extents as separate arguments."""
    return np_uniform(F, 0, 1, size=size, **kwargs)


@np_function("random.randn")
def randn(F: Any, *size: int, **kwargs: Any) -> Any:
    """Standard normal numbers, the extents as separate arguments."""
    return np_normal(F, 0, 1, size=size, **kwargs)


@np_function("random.randint")
def randint(
    F: Any, low: Any, high: Any = None, size: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None
) -> Any:
    """Uniform integers in low … high - 1, or below ``low`` if that is the only bound; int64 by default."""
    low, high = (0, low) if high is None else (low, high)
    attributes = {
        "low": low,
        "high": high,
        "shape": () if size is None else size,
        "dtype": "int64" if dtype in (None, "int") else dtype,
        "ctx": current_context() if ctx is None else ctx,
    }
    return F.invoke("_npi_random_randint", (), attributes, out)


@np_function("random.choice")
def np_choice(
    F: Any, a: Array | int, size: Any = None, replace: Any = True, p: Any = None, ctx: Any = None, out: Any = None
) -> Any:
    """Items of an array, or numbers below ``a``, drawn with the probabilities ``p``."""
    of_array = isinstance(a, F.array)
    inputs = [*([a] if of_array else []), *([] if p is None else [p])]
    attributes = {
        "a": None if of_array else a,
        "size": None if isinstance(size, tuple) and not size else size,
        "replace": replace,
        "weighted": p is not None,
    }
    if not inputs:
        attributes["ctx"] = current_context() if ctx is None else ctx
    if not of_array:
        return F.invoke("_npi_choice", inputs, attributes, out)
    return F.invoke("_npi_take", (a, F.invoke("_npi_choice", inputs, attributes)))


@np_function("random.multinomial")
def np_multinomial(F: Any, n: Any, pvals: Any, size: Any = None) -> Any:
    """How often each outcome occurs in ``n`` trials with the probabilities ``pvals``."""
    if isinstance(pvals, F.array):
        return F.invoke("_npi_multinomial", (pvals,), {"n": n, "pvals": None, "size": size})
    if isinstance(pvals, np.ndarray):
        raise ValueError("numpy ndarray is not supported!")
    if any(isinstance(i, list) for i in pvals):
        raise ValueError("object too deep for desired array")
    return F.invoke("_npi_multinomial", (), {"n": n, "pvals": tuple(pvals), "size": size})


@np_function("random.multivariate_normal")
def np_multivariate_normal(
    F: Any, mean: Any, cov: Any, size: Any = None, check_valid: Any = None, tol: Any = None
) -> Any:
    """Normal vectors with a mean and a covariance, which broadcast. ``check_valid`` and ``tol`` have no effect."""
    return F.invoke("_npi_multivariate_normal", (mean, cov), {"size": size})


@np_function("random.shuffle")
def np_shuffle(F: Any, x: Any) -> None:
    """Put the entries of the first axis in random order, in place."""
    F.invoke("_npi_shuffle", (x,), {}, x)


@npx_function("random.bernoulli")
def npx_bernoulli(
    F: Any,
    prob: Any = None,
    logit: Any = None,
    size: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
) -> Any:
    """1 with probability ``prob``, or sigmoid(logit), else 0; float32 by default."""
    if (prob is None) == (logit is None):
        raise ValueError(
            f"Either `prob` or `logit` must be specified, but not both. Received prob={prob}, logit={logit}"
        )
    parameter = {"prob": prob} if prob is not None else {"logit": logit}
    rest = {"logit" if prob is not None else "prob": None, "is_logit": prob is None}
    return _draw(F, "_npi_bernoulli", parameter, size, ctx, out, dtype=dtype or "float32", **rest)


@npx_function("random.uniform_n")
def npx_uniform_n(
    F: Any, low: Any = 0.0, high: Any = 1.0, batch_shape: Any = None, dtype: Any = None, ctx: Any = None
) -> Any:
    """Uniform on [low, high): ``batch_shape`` draws of the shape of the parameters."""
    return _draw(F, "_npi_uniform_n", {"low": low, "high": high}, batch_shape, ctx, dtype=dtype or "float32")


@npx_function("random.normal_n")
def npx_normal_n(
    F: Any, loc: Any = 0.0, scale: Any = 1.0, batch_shape: Any = None, dtype: Any = None, ctx: Any = None
) -> Any:
    """Normal numbers: ``batch_shape`` draws of the shape of the parameters."""
    return _draw(F, "_npi_normal_n", {"loc": loc, "scale": scale}, batch_shape, ctx, dtype=dtype or "float32")
