# SPDX-License-Identifier: Apache-2.0
"""What the tests of operator families share: calls in both modes, and derivatives against differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd

STEP = 1e-4


def array(x: Any) -> Any:
    """An array of the type of ``x``."""
    x = np.asarray(x)
    return nd.array(x, dtype=x.dtype)


def as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def reach(F: Any, path: str) -> Callable[..., Any]:
    for part in path.split("."):
        F = getattr(F, part)
    return F  # type: ignore[no-any-return]


def hybridized(operator: str, attributes: dict[str, Any]) -> Any:
    """A hybridized block of one operator."""

    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, *args: Any) -> Any:
            return reach(F, operator)(*args, **attributes)

    net = Net()
    net.hybridize()
    return net


def runs(operator: str, attributes: dict[str, Any]) -> list[Callable[..., Any]]:
    """The operator eagerly and hybridized, as functions of arrays."""
    return [lambda *xs: reach(nd, operator)(*xs, **attributes), hybridized(operator, attributes)]


def gradients(
    f: Callable[..., Any], inputs: Sequence[np.ndarray], wanted: Sequence[int], heads: Any = None, train: bool = True
) -> tuple[list[np.ndarray], list[np.ndarray], list[Any]]:
    """(results, gradients of the wanted inputs, the input arrays afterwards)."""
    arrays = [array(x) for x in inputs]
    for k in wanted:
        arrays[k].attach_grad()
    with autograd.record(train_mode=train):
        out = as_list(f(*arrays))
    autograd.backward(out, None if heads is None else [array(h) for h in heads], train_mode=train)
    return [o.asnumpy() for o in out], [arrays[k].grad.asnumpy() for k in wanted], arrays


def check_derivatives(
    f: Callable[..., Any], inputs: Sequence[np.ndarray], wanted: Sequence[int], second: bool = True
) -> None:
    """First and second derivatives of the first result along a random direction, against central differences."""
    rng = np.random.default_rng(11)
    inputs = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs]
    with autograd.train_mode():
        shape = as_list(f(*map(array, inputs)))[0].shape
    weight = array(rng.normal(size=shape))
    directions = {k: rng.normal(size=inputs[k].shape) for k in wanted}
    turns = {k: array(rng.normal(size=inputs[k].shape)) for k in wanted}

    def arrays_at(step: float) -> list[Any]:
        found = [array(x + step * directions[k] if k in directions else x) for k, x in enumerate(inputs)]
        for k in wanted:
            found[k].attach_grad()
        return found

    def value(step: float) -> tuple[float, list[np.ndarray]]:
        xs = arrays_at(step)
        with autograd.record():
            loss = (as_list(f(*xs))[0] * weight).sum()
        loss.backward()
        return loss.asscalar(), [xs[k].grad.asnumpy() for k in wanted]

    def turned(step: float) -> float:
        return sum(float((g * turns[k].asnumpy()).sum()) for k, g in zip(wanted, value(step)[1], strict=True))

    def difference(g: Callable[[float], float]) -> float:
        near, far = g(STEP) - g(-STEP), g(2 * STEP) - g(-2 * STEP)
        return (8 * near - far) / (12 * STEP)

    slopes = value(0)[1]
    got = sum(float((g * directions[k]).sum()) for k, g in zip(wanted, slopes, strict=True))
    np.testing.assert_allclose(got, difference(lambda s: value(s)[0]), rtol=1e-6, atol=1e-7)
    if not second:
        return
    xs = arrays_at(0)
    with autograd.record():
        loss = (as_list(f(*xs))[0] * weight).sum()
        first = autograd.grad(loss, [xs[k] for k in wanted], create_graph=True)
        projected = sum(
            ((g * turns[k]).sum() for k, g in zip(wanted, first, strict=True)), mx.nd.zeros((1,), dtype="float64")
        )
    projected.backward()
    got = sum(float((xs[k].grad.asnumpy() * directions[k]).sum()) for k in wanted)
    np.testing.assert_allclose(got, difference(turned), rtol=1e-5, atol=1e-6)
