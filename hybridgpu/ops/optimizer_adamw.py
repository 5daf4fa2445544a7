# SPDX-License-Identifier: Apache-2.0
"""AdamW and LAMB: weight decay apart from the gradient, and steps in proportion to the weight.

Their steps have the form that :mod:`.optimizer` describes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..core.dtypes import f32
from .dynamic_attributes import DynamicAttribute
from .linear import need_float
from .optimizer import BETAS, CLIP, DECAY, RESCALE, Scalars, averages, epsilon, need_single, rate, single
from .params import REQUIRED, Bool, Float, Floats, Int, Param, Values
from .precision import wide
from .record import check_same_shape, operator, sample

__all__ = ["BOUNDS", "adamw", "adamw_params", "lamb_direction", "lamb_step", "need_factor"]


def lamb_direction(
    b: Builder, s: Scalars, t: int | DynamicAttribute, wd: Node, weight: Node, grad: Node, mean: Node, var: Node
) -> tuple[Node, ...]:
    """The direction of step ``t`` (You et al., 2019), and the new mean and var."""
    mean, var = averages(s, s.scaled(grad), mean, var)
    mean_hat, var_hat = mean, var
    if s.p.bias_correction:
        mean_hat, var_hat = mean / s.remaining(s.p.beta1, t), var / s.remaining(s.p.beta2, t)
    return mean_hat / (b.sqrt(var_hat) + s.epsilon) + wd * weight, mean, var


def lamb_step(b: Builder, s: Scalars, lr: Node, weight: Node, g: Node, r1: Node, r2: Node) -> Node:
    """The weight moved by ``g`` times the rate, times the quotient of the norms where it makes sense."""
    if s.p.lower_bound >= 0:
        r1 = b.max(r1, s.p.lower_bound)
    if s.p.upper_bound >= 0:
        r1 = b.min(r1, s.p.upper_bound)
    usable = b.logical_and(b.ne(r1, 0), b.ne(r2, 0))
    ratio = b.select(usable, r1 / r2, b.full_like(r1, 1))
    return weight - lr * b.broadcast(ratio, lr.shape) * g


# -- LAMB in two phases, with norms made between them

_LAMB: dict[str, Param] = {
    **BETAS,
    "epsilon": epsilon(1e-6),
    "t": Int(doc="number of the step", varies=True),
    "bias_correction": Bool(True, "undo that the moments start at 0"),
    "wd": Float(doc="weight decay", varies=True),
    "rescale_grad": RESCALE,
    "clip_gradient": CLIP,
}
BOUNDS: dict[str, Param] = {
    "lower_bound": Float(-1.0, "of the weight's norm; none if negative"),
    "upper_bound": Float(-1.0, "of the weight's norm; none if negative"),
}


@operator(
    "lamb_update_phase1",
    "weight grad mean var",
    params=_LAMB,
    same_shape=True,
    auxiliary=("mean", "var"),
    mutates={2: 1, 3: 2},
    differentiable=False,
    domain=(0.25, 2.0),
    samples=(sample(None, {"t": 2, "wd": 0.01}), sample(None, {"t": 2, "wd": 0.0, "bias_correction": False})),
)
def lamb_update_phase1(b: Builder, p: Values, weight: Node, grad: Node, mean: Node, var: Node) -> list[Node]:
    """The direction of a LAMB step (You et al., 2019)."""
    need_float(weight)
    floats = [wide(b, x) for x in (weight, grad, mean, var)]
    s = Scalars(b, p, floats[0])
    return [b.cast(x, weight.dtype) for x in lamb_direction(b, s, p.t, s.wd, *floats)]


@operator(
    "mp_lamb_update_phase1",
    "weight grad mean var weight32",
    params=_LAMB,
    same_shape=True,
    dtypes="TT***",
    result_dtype=lambda p, d: f32,
    infer_dtypes=lambda p, d: single(d, 2),
    auxiliary=("mean", "var"),
    mutates={2: 1, 3: 2},
    differentiable=False,
    domain=(0.25, 2.0),
    samples=(sample([(3, 5)] * 5, {"t": 2, "wd": 0.01}),),
)
def mp_lamb_update_phase1(
    b: Builder, p: Values, weight: Node, grad: Node, mean: Node, var: Node, weight32: Node
) -> tuple[Node, ...]:
    """The direction of a LAMB step on a float copy of the weight."""
    need_float(weight)
    need_single(enumerate((mean, var, weight32), 2))
    s = Scalars(b, p, weight32)
    return lamb_direction(b, s, p.t, s.wd, weight32, b.cast(grad, f32), mean, var)


def _norm_shapes(p: Values, shapes: list[Any]) -> list[Any]:
    shape = shapes[0] or shapes[1]
    return [shape, shape, shapes[2] or (1,), shapes[3] or (1,), *([shape] * (len(shapes) - 4))]


def _phase2(b: Builder, p: Values, weight: Node, g: Node, r1: Node, r2: Node) -> Node:
    check_same_shape([weight.type, g.type])
    for name, r in (("r1", r1), ("r2", r2)):
        if r.size != 1:
            raise MXNetError(f"Check failed: {name}_shape[0] == 1U ({r.size} vs. 1) : {name} shape incorrect")
    s = Scalars(b, p, weight)
    norms = [b.reshape(r, (1,) * weight.ndim) for r in (r1, r2)]
    return lamb_step(b, s, s.lr, weight, g, *norms)


@operator(
    "lamb_update_phase2",
    "weight g r1 r2",
    params={**rate(), **BOUNDS},
    infer_inputs=_norm_shapes,
    differentiable=False,
    domain=(0.25, 2.0),
    samples=(
        sample([(3, 5), (3, 5), (1,), (1,)], {"lr": 0.1}),
        sample([(3, 5), (3, 5), (1,), (1,)], {"lr": 0.1, "lower_bound": 0.5, "upper_bound": 1.0}),
    ),
)
def lamb_update_phase2(b: Builder, p: Values, weight: Node, g: Node, r1: Node, r2: Node) -> Node:
    """A LAMB step along ``g``; r1 is the norm of the weight, r2 that of ``g``."""
    need_float(weight)
    return b.cast(_phase2(b, p, *(wide(b, x) for x in (weight, g, r1, r2))), weight.dtype)


@operator(
    "mp_lamb_update_phase2",
    "weight g r1 r2 weight32",
    params={**rate(), **BOUNDS},
    dtypes="T****",
    infer_dtypes=lambda p, d: single(d, 1),
    infer_inputs=_norm_shapes,
    auxiliary=("weight32",),
    mutates={4: 1},
    differentiable=False,
    domain=(0.25, 2.0),
    samples=(sample([(3, 5), (3, 5), (1,), (1,), (3, 5)], {"lr": 0.1}),),
)
def mp_lamb_update_phase2(
    b: Builder, p: Values, weight: Node, g: Node, r1: Node, r2: Node, weight32: Node
) -> tuple[Node, Node]:
    """A LAMB step of a float copy of the weight."""
    need_float(weight)
    need_single(enumerate((g, r1, r2, weight32), 1))
    new = _phase2(b, p, weight32, g, r1, r2)
    return b.cast(new, weight.dtype), b.copy(new)


# -- AdamW: weight decay apart from the gradient; the gradient's factor is an array


def adamw_params(many: bool) -> dict[str, Param]:
    end: dict[str, Param] = {"clip_gradient": CLIP}
    if many:
        rates: dict[str, Param] = {"lrs": Floats(REQUIRED, "learning rates", varies=True)}
        factors: dict[str, Param] = {
            "wds": Floats(REQUIRED, "weight decays", varies=True),
            "etas": Floats(REQUIRED, "factors of the schedule", varies=True),
        }
        end["num_weights"] = Int(1, "number of weights")
    else:
        rates, factors = rate(), {"wd": DECAY, "eta": Float(doc="factor of the schedule", varies=True)}
    return {**rates, **BETAS, "epsilon": epsilon(1e-8), **factors, **end}


def adamw(b: Builder, s: Scalars, lr: Node, wd: Node, eta: Node, scale: Node, old: Sequence[Node]) -> tuple[Node, ...]:
    """Weight, mean and var after a step; the old ones if the gradient's factor is 0 or not finite."""
    weight, grad, mean, var = old
    factor = b.broadcast(b.reshape(scale, (1,) * weight.ndim), weight.shape)
    grad = s.clipped(grad * factor, s.p.clip_gradient)
    new_mean, new_var = averages(s, grad, mean, var)
    new = weight - eta * (lr * new_mean / (b.sqrt(new_var) + s.epsilon) + wd * weight)
    usable = b.logical_and(b.isfinite(factor), b.ne(factor, 0))
    return tuple(b.select(usable, x, y) for x, y in ((new, weight), (new_mean, mean), (new_var, var)))


def _scale_shapes(p: Values, shapes: list[Any]) -> list[Any]:
    shape = next((s for s in shapes[:-1] if s is not None), None)
    return [*(s or shape for s in shapes[:-1]), shapes[-1] or (1,)]


def need_factor(scale: Node) -> None:
    if scale.size != 1:
        raise MXNetError(f"Check failed: rescale_grad must be one number, not an array of shape {scale.shape}")


@operator(
    "_adamw_update",
    "weight grad mean var rescale_grad",
    params=adamw_params(many=False),
    dtypes="TTTT*",
    infer_inputs=_scale_shapes,
    infer_dtypes=lambda p, d: single(d, 4),
    auxiliary=("mean", "var"),
    mutates={2: 1, 3: 2},
    differentiable=False,
    domain=(0.25, 2.0),
    samples=(sample([(3, 5)] * 4 + [(1,)], {"lr": 0.1, "eta": 0.5, "wd": 0.01}),),
)
def adamw_update(
    b: Builder, p: Values, weight: Node, grad: Node, mean: Node, var: Node, rescale_grad: Node
) -> list[Node]:
    """AdamW (Loshchilov and Hutter, 2017). Nothing changes where ``rescale_grad`` is 0 or not finite."""
    need_float(weight)
    check_same_shape([x.type for x in (weight, grad, mean, var)])
    need_factor(rescale_grad)
    floats = [wide(b, x) for x in (weight, grad, mean, var)]
    s = Scalars(b, p, floats[0])
    new = adamw(b, s, s.lr, s.wd, s.eta, b.cast(rescale_grad, floats[0].dtype), floats)
    return [b.cast(x, weight.dtype) for x in new]


@operator(
    "_mp_adamw_update",
    "weight grad mean var weight32 rescale_grad",
    params=adamw_params(many=False),
    dtypes="TT****",
    infer_inputs=_scale_shapes,
    infer_dtypes=lambda p, d: single(d, 2),
    auxiliary=("mean", "var", "weight32"),
    mutates={2: 1, 3: 2, 4: 3},
    differentiable=False,
    domain=(0.25, 2.0),
    samples=(sample([(3, 5)] * 5 + [(1,)], {"lr": 0.1, "eta": 0.5, "wd": 0.01}),),
)
def mp_adamw_update(
    b: Builder, p: Values, weight: Node, grad: Node, mean: Node, var: Node, weight32: Node, rescale_grad: Node
) -> tuple[Node, ...]:
    """AdamW on a float copy of the weight."""
    need_float(weight)
    check_same_shape([x.type for x in (weight, grad, mean, var, weight32)])
    need_single(enumerate((mean, var, weight32), 2))
    need_factor(rescale_grad)
    s = Scalars(b, p, weight32)
    old = (weight32, b.cast(grad, f32), mean, var)
    new, mean, var = adamw(b, s, s.lr, s.wd, s.eta, b.cast(rescale_grad, f32), old)
    return b.cast(new, weight.dtype), mean, var, b.copy(new)
