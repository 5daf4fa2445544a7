# SPDX-License-Identifier: Apache-2.0
"""Comparing arrays within tolerances that follow from their element types."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

import numpy as np

from ..core.dtypes import bf16
from ..ndarray.ndarray import NDArray
from ..symbol import Symbol

__all__ = [
    "almost_equal",
    "assert_allclose",
    "assert_almost_equal",
    "assert_almost_equal_ignore_nan",
    "assert_almost_equal_with_err",
    "assert_exception",
    "checkShapes",
    "compare_ndarray_tuple",
    "compare_optimizer",
    "default_atols",
    "default_numeric_eps",
    "default_rtols",
    "effective_dtype",
    "find_max_violation",
    "get_atol",
    "get_etol",
    "get_rtol",
    "get_tolerance",
    "get_tols",
    "locationError",
    "retry",
    "same",
    "same_array",
    "same_symbol_structure",
]

_EXACT = ("bool", "int8", "uint8", "int32", "uint32", "int64", "uint64")


def _by_type(brain: float, half: float, single: float, double: float) -> dict[np.dtype[Any], float]:
    table: dict[np.dtype[Any], float] = {
        bf16.np: brain,
        np.dtype("float16"): half,
        np.dtype("float32"): single,
        np.dtype("float64"): double,
    }
    table.update({np.dtype(n): 0 for n in _EXACT})
    return table


def default_rtols() -> dict[np.dtype[Any], float]:
    """Relative tolerances by element type."""
    return _by_type(8e-2, 1e-2, 1e-4, 1e-5)


def default_atols() -> dict[np.dtype[Any], float]:
    """Absolute tolerances by element type."""
    return _by_type(1e-1, 1e-1, 1e-3, 1e-20)


def default_numeric_eps() -> dict[np.dtype[Any], float]:
    """Steps of finite differences by element type; powers of two, which add to inputs without rounding."""
    return {
        bf16.np: 2.0**-3,
        np.dtype("float16"): 2.0**-6,
        np.dtype("float32"): 2.0**-9,
        np.dtype("float64"): 2.0**-14,
    }


def effective_dtype(dat: Any) -> np.dtype[Any]:
    """The element type that decides about tolerances."""
    dtype: np.dtype[Any] = np.dtype(dat.dtype)
    return dtype


def get_tolerance(dat: Any, tol: Any, default_tol: dict[np.dtype[Any], float]) -> float:
    """``tol`` if it is a number, else its entry (or the default's) for the element type of ``dat``."""
    if isinstance(tol, Number):
        return tol  # type: ignore[return-value]
    dtype = effective_dtype(dat)
    return (tol or {}).get(dtype, default_tol[dtype])  # type: ignore[no-any-return]


def get_tols(x: Any, y: Any, rtol: Any, atol: Any) -> tuple[float, float]:
    """Relative and absolute tolerance for comparing two arrays: the larger of what each asks for."""
    pair = [np.array(v) if isinstance(v, (Number, list, tuple)) else v for v in (x, y)]
    return (
        max(get_tolerance(v, rtol, default_rtols()) for v in pair),
        max(get_tolerance(v, atol, default_atols()) for v in pair),
    )


def get_atol(atol: Any = None, dtype: Any = "float64") -> Any:
    """``atol``, or the default of an element type."""
    return default_atols()[np.dtype(dtype)] if atol is None else atol


def get_rtol(rtol: Any = None, dtype: Any = "float64") -> Any:
    """``rtol``, or the default of an element type."""
    return default_rtols()[np.dtype(dtype)] if rtol is None else rtol


def get_etol(etol: Any = None) -> Any:
    """``etol``, or 0."""
    return 0 if etol is None else etol


def _host(a: Any) -> Any:
    return a.asnumpy() if isinstance(a, NDArray) else np.asarray(a)


def find_max_violation(a: Any, b: Any, rtol: float, atol: float) -> tuple[tuple[Any, ...], float]:
    """Index of the worst element, and by what factor it misses the tolerance."""
    allowed = atol + rtol * np.abs(b)
    with np.errstate(all="ignore"):
        violation = np.abs(a.astype(np.float64) - b) / (allowed + 1e-20)
    # an infinite or undefined violation is the worst of all
    violation = np.where(np.isnan(violation) & ~(np.isnan(a) & np.isnan(b)), np.inf, np.nan_to_num(violation, nan=0))
    if not violation.size:
        return (), 0.0
    at = np.unravel_index(int(np.argmax(violation)), violation.shape)
    return tuple(at), float(violation[at])


def locationError(a: Any, b: Any, index: Any, names: Sequence[str], maxError: bool = False) -> str:
    """Where two arrays differ, in words."""
    kind = "maximum " if maxError else ""
    return f"Location of {kind}error: {index}, {names[0]}={a[index]:.8f}, {names[1]}={b[index]:.8f}"


def same(a: Any, b: Any) -> bool:
    """True if all elements are equal."""
    return np.array_equal(_host(a), _host(b))


def checkShapes(a: Any, b: Any) -> None:
    """Raise AssertionError unless the shapes are equal."""
    if a.shape != b.shape:
        raise AssertionError(f"Shapes of two arrays are not equal: {a.shape} and {b.shape}")


def almost_equal(
    a: Any, b: Any, rtol: Any = None, atol: Any = None, equal_nan: bool = False, use_broadcast: bool = True
) -> bool:
    """True if the arrays agree within the tolerances."""
    if not use_broadcast:
        checkShapes(a, b)
    rtol, atol = get_tols(a, b, rtol, atol)
    return bool(np.allclose(_host(a), _host(b), rtol=rtol, atol=atol, equal_nan=equal_nan))


def assert_almost_equal(
    a: Any,
    b: Any,
    rtol: Any = None,
    atol: Any = None,
    names: tuple[str, str] = ("a", "b"),
    equal_nan: bool = False,
    use_broadcast: bool = True,
    mismatches: tuple[int, int] = (10, 10),
) -> None:
    """Raise AssertionError unless the arrays agree within the tolerances; the worst element is shown.

    Args:
        rtol, atol: numbers, or dicts by element type; None means by element type.
        use_broadcast: False demands equal shapes.
        mismatches: accepted; the message names the worst element and the share of wrong ones.
    """
    if not use_broadcast:
        checkShapes(a, b)
    rtol, atol = get_tols(a, b, rtol, atol)
    x, y = _host(a), _host(b)
    if np.allclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan):
        return
    x, y = np.broadcast_arrays(x, y)
    at, factor = find_max_violation(x, y, rtol, atol)
    wrong = float(np.mean(~np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan))) * 100
    raise AssertionError(
        f"\nItems are not equal:\nError {factor:f} exceeds tolerance rtol={rtol:e}, atol={atol:e} (mismatch {wrong:f}%).\n"
        f"Location of maximum error: {at}, {names[0]}={x[at]:.8f}, {names[1]}={y[at]:.8f}\n"
        f" ACTUAL: {np.array2string(x, threshold=16)}\n DESIRED: {np.array2string(y, threshold=16)}"
    )


def assert_allclose(a: Any, b: Any, rtol: float = 1e-07, atol: float = 0, equal_nan: bool = True) -> None:
    """``assert_almost_equal`` with NumPy's defaults."""
    assert_almost_equal(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def assert_almost_equal_with_err(
    a: Any,
    b: Any,
    rtol: Any = None,
    atol: Any = None,
    etol: Any = None,
    names: tuple[str, str] = ("a", "b"),
    equal_nan: bool = False,
    mismatches: tuple[int, int] = (10, 10),
) -> None:
    """``assert_almost_equal``, but the share ``etol`` of the elements may be wrong."""
    etol = get_etol(etol)
    if not etol:
        assert_almost_equal(a, b, rtol, atol, names, equal_nan, mismatches=mismatches)
        return
    rtol, atol = get_tols(a, b, rtol, atol)
    wrong = float(np.mean(~np.isclose(_host(a), _host(b), rtol=rtol, atol=atol, equal_nan=equal_nan)))
    assert wrong <= etol, f"{wrong:.2%} of the elements of {names[0]} and {names[1]} differ; {etol:.2%} may"


def assert_almost_equal_ignore_nan(
    a: Any, b: Any, rtol: Any = None, atol: Any = None, names: tuple[str, str] = ("a", "b")
) -> None:
    """``assert_almost_equal`` where neither is NaN."""
    x, y = np.copy(_host(a)), np.copy(_host(b))
    skip = np.isnan(x) | np.isnan(y)
    x[skip], y[skip] = 0, 0
    assert_almost_equal(x, y, rtol, atol, names)


def assert_exception(f: Callable[..., Any], exception_type: Any, *args: Any, **kwargs: Any) -> None:
    """Raise AssertionError unless ``f(*args, **kwargs)`` raises ``exception_type``."""
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"{getattr(f, '__name__', f)} did not raise {exception_type}")


def retry(n: int) -> Callable[[Any], Any]:
    """A decorator: run a test up to ``n`` times until it passes."""
    assert n > 0

    def decorate(test: Any) -> Any:
        @functools.wraps(test)
        def run(*args: Any, **kwargs: Any) -> Any:
            for k in range(n):
                try:
                    return test(*args, **kwargs)
                except AssertionError:
                    if k == n - 1:
                        raise
            return None

        return run

    return decorate


def same_array(array1: NDArray, array2: NDArray) -> bool:
    """True if two arrays share their memory, which is tried by writing."""
    array1[:] += 1
    if not same(array1, array2):
        array1[:] -= 1
        return False
    array1[:] -= 1
    return same(array1, array2)


def same_symbol_structure(sym1: Symbol, sym2: Symbol) -> bool:
    """True if two graphs have the same operators and edges, whatever the names."""
    from ..symbol.node import topological

    def shape_of(s: Symbol) -> list[Any]:
        order = topological(s._heads)
        number = {id(n): k for k, n in enumerate(order)}
        return [(n.op.name if n.op else None, [(number[id(i)], k) for i, k in n.inputs]) for n in order]

    return shape_of(sym1) == shape_of(sym2)


def compare_ndarray_tuple(t1: Any, t2: Any, rtol: Any = None, atol: Any = None) -> None:
    """``assert_almost_equal`` through nested tuples; None is skipped."""
    if t1 is None or t2 is None:
        return
    if isinstance(t1, tuple):
        for a, b in zip(t1, t2, strict=False):
            compare_ndarray_tuple(a, b, rtol, atol)
    else:
        assert_almost_equal(t1, t2, rtol=rtol, atol=atol)


def compare_optimizer(
    opt1: Any,
    opt2: Any,
    shape: Any,
    dtype: Any,
    w_stype: str = "default",
    g_stype: str = "default",
    rtol: float = 1e-4,
    atol: float = 1e-5,
    compare_states: bool = True,
    ntensors: int = 1,
) -> None:
    """Raise AssertionError unless two optimizers update equal weights alike; several tensors at once if ``ntensors`` > 1."""
    from .. import ndarray as nd

    shapes = shape if isinstance(shape, list) else [shape] * ntensors
    w1 = [nd.random.uniform(shape=s, dtype="float32").astype(dtype) for s in shapes]
    g1 = [nd.random.uniform(shape=s, dtype="float32").astype(dtype) for s in shapes]
    w2, g2 = [w.copy() for w in w1], [g.copy() for g in g1]
    states1 = [opt1.create_state_multi_precision(k, w) for k, w in enumerate(w1)]
    states2 = [opt2.create_state_multi_precision(k, w) for k, w in enumerate(w2)]
    if compare_states:
        compare_ndarray_tuple(tuple(states1), tuple(states2), rtol, atol)
    indices = list(range(len(shapes)))
    if len(shapes) == 1:
        opt1.update_multi_precision(0, w1[0], g1[0], states1[0])
        opt2.update_multi_precision(0, w2[0], g2[0], states2[0])
    else:
        for k in indices:  # the first is the reference: one tensor after the other
            opt1.update_multi_precision(k, w1[k], g1[k], states1[k])
        opt2.update_multi_precision(indices, w2, g2, states2)
    if compare_states:
        compare_ndarray_tuple(tuple(states1), tuple(states2), rtol, atol)
    for a, b in zip(w1, w2, strict=True):
        assert_almost_equal(a, b, rtol=rtol, atol=atol)
