# SPDX-License-Identifier: Apache-2.0
"""Steps of optimizers. States change at the call; the new weight is the result (``out=weight`` writes it).

A step is a function ``(b, s, lr, wd, weight, grad, *states)`` to the new weight and states, all in float or
double, where ``s`` holds the attributes as constants. One such function serves the plain operator, the one
with a float copy of half precision weights (``mp_``), and those that take many weights at once (``multi_``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..core.dataclass import dataclass
from ..core.dtypes import DType, f32
from .dynamic_attributes import DynamicAttribute
from .linear import need_float
from .params import Bool, Double, Float, Int, Param, Values
from .precision import wide
from .record import check_same_shape, operator, sample

__all__ = [
    "BETAS",
    "CLIP",
    "DECAY",
    "MOMENTUM",
    "RESCALE",
    "Scalars",
    "averages",
    "epsilon",
    "need_single",
    "rate",
    "sgd",
    "sgd_momentum",
    "sgd_of_many",
    "single",
]

Step = Callable[..., "tuple[Node, ...]"]

RESCALE = Float(1.0, "factor of the gradient", varies=True)
CLIP = Float(-1.0, "largest absolute gradient; none if negative")
DECAY = Float(0.0, "weight decay", varies=True)
_LAZY = Bool(True, "only rows that a sparse gradient has")
MOMENTUM = Float(0.0, "how much of the last step stays")
BETAS: dict[str, Param] = {"beta1": Float(0.9, "decay of the mean"), "beta2": Float(0.999, "decay of the square")}


def rate(doc: str = "learning rate") -> dict[str, Param]:
    return {"lr": Float(doc=doc, varies=True)}


def epsilon(value: float) -> Param:
    return Float(value, "keeps the divisor from 0")


_GRADIENT: dict[str, Param] = {"wd": DECAY, "rescale_grad": RESCALE, "clip_gradient": CLIP}


@dataclass
class Scalars:
    """Attributes in the weight's shape and type, rounded to float as MXNet keeps them: constants, or late numbers."""

    b: Builder
    p: Values
    like: Node

    def __call__(self, value: float | DynamicAttribute) -> Node:
        if isinstance(value, DynamicAttribute):
            return self._spread(value.number(self.like.dtype))
        return self.b.full(self.like.shape, float(np.float32(value)), self.like.dtype)

    def _spread(self, number: Node) -> Node:
        return self.b.broadcast(self.b.reshape(number, (1,) * self.like.ndim), self.like.shape)

    def remaining(self, beta: float, t: int | DynamicAttribute) -> Node:
        """1 - beta**t: what of a moment that started at 0 has been filled after ``t`` steps."""
        if isinstance(t, DynamicAttribute):
            return 1 - self._spread(t.power(float(np.float32(beta)), self.like.dtype))
        return 1 - self.b.full(self.like.shape, float(np.float32(beta)) ** t, self.like.dtype)

    def __getattr__(self, name: str) -> Node:
        return self(getattr(self.p, name))

    def clipped(self, grad: Node, bound: float) -> Node:
        """grad within -bound … bound; a negative bound is none."""
        return self.b.min(self.b.max(grad, self(-bound)), self(bound)) if bound >= 0 else grad

    def scaled(self, grad: Node) -> Node:
        """The gradient rescaled and clipped."""
        return self.clipped(grad * self.rescale_grad, self.p.clip_gradient)

    def along(self, lr: Node, grad: Node) -> Node:
        """The rate times the gradient rescaled and clipped; without a bound the two factors come first, as in MXNet's SGD."""
        return lr * self.scaled(grad) if self.p.clip_gradient >= 0 else lr * self.rescale_grad * grad

    def decayed(self, grad: Node, weight: Node, wd: Node) -> Node:
        """The gradient rescaled, with weight decay, then clipped."""
        return self.clipped(grad * self.rescale_grad + weight * wd, self.p.clip_gradient)


# -- the steps


def sgd(b: Builder, s: Scalars, lr: Node, wd: Node, weight: Node, grad: Node) -> tuple[Node, ...]:
    return ((1 - lr * wd) * weight - s.along(lr, grad),)


def sgd_of_many(b: Builder, s: Scalars, lr: Node, wd: Node, weight: Node, grad: Node) -> tuple[Node, ...]:
    """As MXNet's operators of many weights compute it: a step with momentum from a momentum of 0."""
    return (weight + (s(0.0) - lr * wd * weight - s.along(lr, grad)),)


def sgd_momentum(b: Builder, s: Scalars, lr: Node, wd: Node, weight: Node, grad: Node, mom: Node) -> tuple[Node, ...]:
    mom = s.momentum * mom - lr * wd * weight - s.along(lr, grad)
    return weight + mom, mom


def _nesterov(b: Builder, s: Scalars, lr: Node, wd: Node, weight: Node, grad: Node, mom: Node) -> tuple[Node, ...]:
    old = s.momentum * mom
    mom = old - lr * (s.scaled(grad) + wd * weight)
    return weight - old + (s.momentum + 1) * mom, mom


def _nesterov_in_place(
    b: Builder, s: Scalars, lr: Node, wd: Node, weight: Node, grad: Node, mom: Node
) -> tuple[Node, ...]:
    """As MXNet has it where the weight is overwritten: the momentum takes in the decay of the new one."""
    new, _ = _nesterov(b, s, lr, wd, weight, grad, mom)
    return new, s.momentum * mom - lr * (s.scaled(grad) + wd * new)


def _adam(
    b: Builder, s: Scalars, lr: Node, wd: Node, weight: Node, grad: Node, mean: Node, var: Node
) -> tuple[Node, ...]:
    mean, var = averages(s, s.decayed(grad, weight, wd), mean, var)
    return weight - lr * mean / (b.sqrt(var) + s.epsilon), mean, var


def averages(s: Scalars, grad: Node, mean: Node, var: Node) -> tuple[Node, Node]:
    """Running means of the gradient and its square."""
    return (
        s.beta1 * mean + (1 - s.beta1) * grad,
        s.beta2 * var + (1 - s.beta2) * grad * grad,
    )


def _rmsprop(b: Builder, s: Scalars, lr: Node, wd: Node, weight: Node, grad: Node, n: Node) -> tuple[Node, ...]:
    grad = s.decayed(grad, weight, wd)
    n = (1 - s.gamma1) * (grad * grad) + s.gamma1 * n
    return s.clipped(weight - lr * (grad / b.sqrt(n + s.epsilon)), s.p.clip_weights), n


def _rmsprop_alex(
    b: Builder, s: Scalars, lr: Node, wd: Node, weight: Node, grad: Node, n: Node, g: Node, delta: Node
) -> tuple[Node, ...]:
    grad = s.decayed(grad, weight, wd)
    n = (1 - s.gamma1) * grad * grad + s.gamma1 * n
    g = (1 - s.gamma1) * grad + s.gamma1 * g
    delta = s.gamma2 * delta - lr * grad / b.sqrt(n - g * g + s.epsilon)
    return s.clipped(weight + delta, s.p.clip_weights), n, g, delta


def _ftrl(b: Builder, s: Scalars, lr: Node, wd: Node, weight: Node, grad: Node, z: Node, n: Node) -> tuple[Node, ...]:
    grad = s.scaled(grad)
    z = z + (grad - (b.sqrt(n + grad * grad) - b.sqrt(n)) * weight / lr)
    n = n + grad * grad
    moved = (b.sign(z) * s.lamda1 - z) / ((s.beta + b.sqrt(n)) / lr + wd)
    # a product, not a choice: a weight whose z is NaN is NaN
    return moved * b.cast(b.gt(b.abs(z), s.lamda1), z.dtype), z, n


def _ftml(
    b: Builder, s: Scalars, lr: Node, wd: Node, weight: Node, grad: Node, d: Node, v: Node, z: Node
) -> tuple[Node, ...]:
    grad = s.clipped(grad * s.rescale_grad + wd * weight, s.p.clip_grad)
    v = s.beta2 * v + (1 - s.beta2) * (grad * grad)
    rest1, rest2 = s.remaining(s.p.beta1, s.p.t), s.remaining(s.p.beta2, s.p.t)
    divisor = rest1 / lr * (b.sqrt(v / rest2) + s.epsilon)
    z = s.beta1 * z + (1 - s.beta1) * grad - (divisor - s.beta1 * d) * weight
    return -z / divisor, divisor, v, z


def _sign_sgd(b: Builder, s: Scalars, lr: Node, wd: Node, weight: Node, grad: Node) -> tuple[Node, ...]:
    return ((1 - lr * wd) * weight - lr * b.sign(grad),)


def _signum(b: Builder, s: Scalars, lr: Node, wd: Node, weight: Node, grad: Node, mom: Node) -> tuple[Node, ...]:
    mom = s.momentum * mom - (1 - s.momentum) * wd * weight - (1 - s.momentum) * s.scaled(grad)
    return (1 - lr * s.wd_lh) * weight + lr * b.sign(mom), mom


def _adagrad(b: Builder, s: Scalars, lr: Node, wd: Node, weight: Node, grad: Node, history: Node) -> tuple[Node, ...]:
    grad = s.scaled(grad)
    history = history + grad * grad
    return weight - grad / b.sqrt(history + s.epsilon) * lr, history


# -- one weight at a time


def _plain(name: str, states: str, params: dict[str, Param], step: Step, doc: str, example: dict[str, Any]) -> None:
    """The operator of one step; half precision is computed in float."""
    count = len(states.split())

    def lowering(step: Step) -> Callable[..., list[Node]]:
        def lower(b: Builder, p: Values, weight: Node, grad: Node, *state_arrays: Node) -> list[Node]:
            need_float(weight)
            floats = [wide(b, x) for x in (weight, grad, *state_arrays)]
            s = Scalars(b, p, floats[0])
            return [b.cast(x, weight.dtype) for x in step(b, s, s.lr, s.wd, *floats)]

        return lower

    record = operator(
        name,
        f"weight grad {states}",
        params=params,
        same_shape=True,
        auxiliary=tuple(states.split()),
        mutates={2 + k: 1 + k for k in range(count)},
        differentiable=False,
        domain=(0.25, 2.0),
        doc=doc,
        samples=(
            sample([(3, 5)] * (2 + count), example),
            sample([(7,)] * (2 + count), {**example, "rescale_grad": 0.5}),
        ),
    )(lowering(step))
    if step in _IN_PLACE:
        record.in_place = replace(record, lower=lowering(_IN_PLACE[step]))


def single(dtypes: Sequence[DType | None], first: int) -> list[DType | None]:
    """Inputs from ``first`` on are float."""
    dtype = next((d for d in dtypes[:first] if d is not None), None)
    return [d or (dtype if k < first else f32) for k, d in enumerate(dtypes)]


def need_single(types: Iterable[tuple[int, Node]]) -> None:
    for k, x in types:
        if x.dtype is not f32:
            raise MXNetError(f"Incompatible attr in node  at {k}-th input: expected float32, got {x.dtype.name}")


def _mixed(name: str, states: str, params: dict[str, Param], step: Step, doc: str, example: dict[str, Any]) -> None:
    """The same on a float copy of the weight, ``weight32``; weight and grad may be of half precision."""
    count = len(states.split())

    def lower(b: Builder, p: Values, weight: Node, grad: Node, *state_arrays: Node) -> list[Node]:
        need_float(weight)
        need_single(enumerate(state_arrays, 2))
        *plain_states, master = state_arrays
        s = Scalars(b, p, master)
        new, *rest = step(b, s, s.lr, s.wd, master, b.cast(grad, f32), *plain_states)
        return [b.cast(new, weight.dtype), *rest, b.copy(new)]

    state_names = (*states.split(), "weight32")
    operator(
        name,
        f"weight grad {' '.join(state_names)}",
        params=params,
        same_shape=True,
        dtypes="TT" + "*" * len(state_names),
        infer_dtypes=lambda p, d: single(d, 2),
        auxiliary=state_names,
        mutates={2 + k: 1 + k for k in range(count + 1)},
        differentiable=False,
        domain=(0.25, 2.0),
        doc=f"{doc[:-1]}, on a float copy of the weight.",
        samples=(sample([(3, 5)] * (3 + count), example),),
    )(lower)


_SGD: dict[str, Param] = {**rate(), **_GRADIENT, "lazy_update": _LAZY}
_SGD_MOMENTUM: dict[str, Param] = {**rate(), "momentum": MOMENTUM, **_GRADIENT, "lazy_update": _LAZY}
_NAG: dict[str, Param] = {**rate(), "momentum": MOMENTUM, **_GRADIENT}
_RMSPROP: dict[str, Param] = {**rate(), "gamma1": Float(0.95, "decay of the square")}
_RMSPROP_END: dict[str, Param] = {
    "epsilon": epsilon(1e-8),
    **_GRADIENT,
    "clip_weights": Float(-1.0, "largest absolute weight; none if negative"),
}
_STEP_SAMPLE = {"lr": 0.1, "wd": 0.01}
_IN_PLACE: dict[Step, Step] = {_nesterov: _nesterov_in_place}
_MIXED = (sgd, sgd_momentum, _nesterov)  # whose float copy is always overwritten

for _name, _states, _params, _step, _doc, _example in (
    ("sgd_update _sparse_sgd_update", "", _SGD, sgd, "Stochastic gradient descent.", {"clip_gradient": 0.5}),
    (
        "sgd_mom_update _sparse_sgd_mom_update",
        "mom",
        _SGD_MOMENTUM,
        sgd_momentum,
        "Stochastic gradient descent with momentum.",
        {"momentum": 0.9},
    ),
    ("nag_mom_update", "mom", _NAG, _nesterov, "Nesterov's accelerated gradient descent.", {"momentum": 0.9}),
    (
        "adam_update _sparse_adam_update",
        "mean var",
        {**rate(), **BETAS, "epsilon": epsilon(1e-8), **_GRADIENT, "lazy_update": _LAZY},
        _adam,
        "Adam (Kingma and Ba, 2014).",
        {"clip_gradient": 1.0},
    ),
    ("rmsprop_update", "n", {**_RMSPROP, **_RMSPROP_END}, _rmsprop, "RMSProp (Tieleman and Hinton, 2012).", {}),
    (
        "rmspropalex_update",
        "n g delta",
        {**_RMSPROP, "gamma2": Float(0.9, "decay of the steps"), **_RMSPROP_END},
        _rmsprop_alex,
        "RMSProp (Graves, 2013).",
        {"clip_weights": 1.0},
    ),
    (
        "ftrl_update _sparse_ftrl_update",
        "z n",
        {**rate(), "lamda1": Float(0.01, "of the penalty on absolute weights"), "beta": Float(1.0), **_GRADIENT},
        _ftrl,
        "Follow the regularised leader (McMahan et al., 2013).",
        {},
    ),
    (
        "ftml_update",
        "d v z",
        {
            **rate(),
            "beta1": Float(0.6, "decay of the mean", within=(0, 1)),
            "beta2": Float(0.999, "decay of the square", within=(0, 1)),
            "epsilon": Double(1e-8, "keeps the divisor from 0"),
            "t": Int(doc="number of the step", varies=True),
            "wd": DECAY,
            "rescale_grad": RESCALE,
            "clip_grad": CLIP,
        },
        _ftml,
        "Follow the moving leader (Zheng and Kwok, 2017).",
        {"t": 2},
    ),
    ("signsgd_update", "", {**rate(), **_GRADIENT}, _sign_sgd, "A step by the sign of the gradient.", {}),
    (
        "signum_update",
        "mom",
        {**rate(), "momentum": MOMENTUM, **_GRADIENT, "wd_lh": Float(0.0, "decay apart from the momentum")},
        _signum,
        "A step by the sign of the momentum (Bernstein et al., 2018).",
        {"momentum": 0.9, "wd_lh": 0.01},
    ),
    (
        "_sparse_adagrad_update",
        "history",
        {**rate(), "epsilon": epsilon(1e-7), **_GRADIENT},
        _adagrad,
        "AdaGrad (Duchi et al., 2011).",
        {"wd": 0.0},
    ),
):
    _plain(_name, _states, _params, _step, _doc, {**_STEP_SAMPLE, **_example})
    if _step in _MIXED:
        _step = _IN_PLACE.get(_step, _step)
        _mixed(f"mp_{_name.split()[0]}", _states, _params, _step, _doc, {**_STEP_SAMPLE, **_example})


def _row_shapes(p: Values, shapes: list[Any]) -> list[Any]:
    shape = shapes[0] or shapes[1]
    return shapes if shape is None else [shape, shape, shapes[2] or (shape[0], 1)]


@operator(
    "_contrib_group_adagrad_update",
    "weight grad history",
    params={**rate(), "rescale_grad": RESCALE, "clip_gradient": CLIP, "epsilon": epsilon(1e-5)},
    auxiliary=("history",),
    infer_inputs=_row_shapes,
    mutates={2: 1},
    differentiable=False,
    domain=(0.25, 2.0),
    samples=(sample([(3, 5), (3, 5), (3, 1)], {"lr": 0.1}),),
)
def group_adagrad_update(b: Builder, p: Values, weight: Node, grad: Node, history: Node) -> tuple[Node, Node]:
    """AdaGrad with one history a row: the mean square of its gradients."""
    need_float(weight)
    check_same_shape([weight.type, grad.type])
    rows = weight.shape[:1] + (1,) * (weight.ndim - 1)
    if history.size != weight.shape[0]:
        raise MXNetError(f"Check failed: history must have one entry a row of the weight, not shape {history.shape}")
    w, scaled, sums = (wide(b, x) for x in (weight, grad, history))
    s = Scalars(b, p, w)
    scaled = s.scaled(scaled)
    total = b.reshape(sums, rows) + b.mean(scaled * scaled, tuple(range(1, w.ndim)), keepdims=True)
    moved = w - s.lr * scaled / b.sqrt(total + float(np.float32(p.epsilon)))
    return b.cast(moved, weight.dtype), b.cast(b.reshape(total, history.shape), history.dtype)
