# SPDX-License-Identifier: Apache-2.0
"""Multi-tensor operators: optimizer steps of many weights, norms of many gradients.

The inputs are weight, grad and states of the first weight, then those of the second, and so on. A compiled
graph makes few kernels of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..core.dtypes import f32
from .linear import need_float
from .mutation import Write
from .optimizer import (
    BETAS,
    CLIP,
    MOMENTUM,
    RESCALE,
    Scalars,
    epsilon,
    sgd_momentum,
    sgd_of_many,
)
from .optimizer_adamw import BOUNDS, adamw, adamw_params, lamb_direction, lamb_step, need_factor
from .params import REQUIRED, Bool, Float, Floats, Int, Ints, Param, Values
from .precision import wide
from .record import check_same_shape, operator, sample

__all__: list[str] = []


def _groups(name: str, data: Sequence[Node], count: int, stride: int, extra: int, mixed: int) -> list[list[Node]]:
    """The inputs of each weight.

    Raises:
        MXNetError: their number, shapes or types do not fit. The last ``mixed`` of each weight are float.
    """
    expected_count = count * stride + extra
    if len(data) != expected_count:
        raise MXNetError(
            f"Check failed: num_inputs == infered_num_inputs ({len(data)} vs. {expected_count}) : "
            f"Operator {name} expects {expected_count} inputs, but got {len(data)} instead."
        )
    groups = [list(data[k * stride : (k + 1) * stride]) for k in range(count)]
    for group in groups:
        need_float(group[0])
        check_same_shape([x.type for x in group])
        for k, x in enumerate(group):
            expected = f32 if k >= stride - mixed else group[0].dtype
            if x.dtype is not expected:
                raise MXNetError(
                    f"Incompatible attr in node  at {k}-th input: expected {expected.name}, got {x.dtype.name}"
                )
    return groups


def _need_numbers(what: str, parameter: str, count: int, got: int) -> None:
    if got != count:
        raise MXNetError(
            f"Check failed: {got} == {count} : Number of {what} is inconsistent with {parameter} "
            f"parameter passed. Expected number of {what}: {count}, and got {got}"
        )


def _many_writes(parameter: str, stride: int, first: int) -> Callable[[Values, bool], list[Write]]:
    """Inputs ``first`` … of each weight take the results that follow the new weights."""

    def writes(p: Values, training: bool) -> list[Write]:
        count, num_states = getattr(p, parameter), stride - first
        return [
            Write(k * stride + first + j, count + k * num_states + j) for k in range(count) for j in range(num_states)
        ]

    return writes


def _many(
    name: str,
    params: dict[str, Param],
    each: Callable[..., Sequence[Node]],
    stride: int,
    extra: int,
    mixed: int,
    doc: str,
    shapes: Sequence[tuple[int, ...]],
    example: dict[str, Any],
    parameter: str = "num_weights",
) -> None:
    """An operator on many weights: ``each(b, p, number, inputs, all inputs)`` gives new weight, then states."""

    def lower(b: Builder, p: Values, *data: Node) -> list[Node]:
        count = getattr(p, parameter)
        groups = _groups(name, data, count, stride, extra, mixed)
        results = [each(b, p, k, group, data) for k, group in enumerate(groups)]
        return [*(r[0] for r in results), *(x for r in results for x in r[1:])]

    operator(
        name,
        "*data",
        params={**params, parameter: Int(1, "number of weights", low=1)},
        dtypes="*",
        outputs=lambda p: getattr(p, parameter),
        mutates=_many_writes(parameter, stride, 2),
        differentiable=False,
        domain=(0.25, 2.0),
        doc=doc,
        samples=(sample(shapes, {**example, parameter: 2}),),
    )(lower)


def _stepped(b: Builder, weight: Node, copy: Sequence[Node]) -> Node:
    """What a step starts from: the float copy of a weight of half precision; other weights themselves, as in MXNet."""
    return copy[0] if copy and weight.dtype.is_half else wide(b, weight)


def _copied(b: Builder, weight: Node, copy: Sequence[Node], new: Node) -> list[Node]:
    """The float copy after a step, if there is one."""
    return [b.copy(new if weight.dtype.is_half else x) for x in copy]


def _many_sgd(momentum: bool, mixed: bool, preloaded: bool) -> None:
    stride = 2 + momentum + mixed
    name = f"{'preloaded_' * preloaded}multi_{'mp_' * mixed}sgd_{'mom_' * momentum}update"
    params: dict[str, Param] = {}
    if not preloaded:
        params = {
            "lrs": Floats(REQUIRED, "learning rates", varies=True),
            "wds": Floats(REQUIRED, "weight decays", varies=True),
        }
    if momentum:
        params["momentum"] = MOMENTUM
    params |= {"rescale_grad": RESCALE, "clip_gradient": CLIP}

    def each(b: Builder, p: Values, k: int, group: list[Node], data: Sequence[Node]) -> list[Node]:
        weight, grad, *states = group
        copy = [states.pop()] if mixed else []
        master = _stepped(b, weight, copy)
        s = Scalars(b, p, master)
        if preloaded:
            _need_numbers("learning rates", "num_weights", p.num_weights, data[-2].size)
            _need_numbers("weight decays", "num_weights", p.num_weights, data[-1].size)
            lr, wd = (_entry(b, vector, k, master) for vector in data[-2:])
        else:
            _need_numbers("learning rates", "num_weights", p.num_weights, len(p.lrs))
            _need_numbers("weight decays", "num_weights", p.num_weights, len(p.wds))
            lr, wd = s(p.lrs[k]), s(p.wds[k])
        step = sgd_momentum if momentum else sgd_of_many
        new, *rest = step(b, s, lr, wd, master, b.cast(grad, master.dtype), *(b.cast(x, master.dtype) for x in states))
        rest = [b.cast(r, x.dtype) for r, x in zip(rest, states, strict=True)]
        return [b.cast(new, weight.dtype), *rest, *_copied(b, weight, copy, new)]

    shapes = [(3, 5)] * stride + [(7,)] * stride + [(2,)] * (2 * preloaded)
    example: dict[str, Any] = {} if preloaded else {"lrs": (0.1, 0.2), "wds": (0.0, 0.01)}
    doc = (
        f"Stochastic gradient descent{' with momentum' * momentum} of many weights"
        f"{', each with a float copy' * mixed}{'; the last two inputs are the learning rates and weight decays' * preloaded}."
    )
    _many(name, params, each, stride, 2 * preloaded, int(mixed) + int(mixed and momentum), doc, shapes, example)


def _entry(b: Builder, vector: Node, k: int, like: Node) -> Node:
    """Entry ``k`` everywhere in the shape of ``like``."""
    flat = b.reshape(vector, (vector.size,))
    one = b.cast(b.slice(flat, (k,), (k + 1,)), like.dtype)
    return b.broadcast(b.reshape(one, (1,) * like.ndim), like.shape)


for _preloaded in (False, True):
    for _mp in (False, True):
        for _with_momentum in (False, True):
            _many_sgd(_with_momentum, _mp, _preloaded)


def _many_adamw(mixed: bool) -> None:
    stride = 4 + mixed

    def each(b: Builder, p: Values, k: int, group: list[Node], data: Sequence[Node]) -> list[Node]:
        weight, grad, mean, var, *copy = group
        for what, numbers in (
            ("learning rates", p.lrs),
            ("weight decays", p.wds),
            ("learning rates schedule multiplier", p.etas),
        ):
            _need_numbers(what, "num_weights", p.num_weights, len(numbers))
        need_factor(data[-1])
        master = _stepped(b, weight, copy)
        s = Scalars(b, p, master)
        old = (master, *(b.cast(x, master.dtype) for x in (grad, mean, var)))
        scale = b.cast(data[-1], master.dtype)
        new, *moments = adamw(b, s, s(p.lrs[k]), s(p.wds[k]), s(p.etas[k]), scale, old)
        moments = [b.cast(m, mean.dtype) for m in moments]
        return [b.cast(new, weight.dtype), *moments, *_copied(b, weight, copy, new)]

    params = adamw_params(many=True)
    params.pop("num_weights")
    example = {"lrs": (0.1, 0.2), "wds": (0.0, 0.01), "etas": (1.0, 0.5)}
    shapes = [(3, 5)] * stride + [(7,)] * stride + [(1,)]
    name = "_multi_mp_adamw_update" if mixed else "_multi_adamw_update"
    doc = f"AdamW of many weights{', each with a float copy' * mixed}; the last input is the gradients' factor."
    _many(name, params, each, stride, 1, 3 if mixed else 0, doc, shapes, example)


def _many_lamb(mixed: bool) -> None:
    stride = 4 + mixed

    def each(b: Builder, p: Values, k: int, group: list[Node], data: Sequence[Node]) -> list[Node]:
        weight, grad, mean, var, *copy = group
        for what, numbers in (
            ("learning rates", p.learning_rates),
            ("weight decays", p.wds),
            ("step counts", p.step_count),
        ):
            _need_numbers(what, "num_tensors", p.num_tensors, len(numbers))
        master = _stepped(b, weight, copy)
        s = Scalars(b, p, master)
        old = (master, *(b.cast(x, master.dtype) for x in (grad, mean, var)))
        g, *moments = lamb_direction(b, s, p.step_count[k], s(p.wds[k]), *old)
        norms = [b.sqrt(b.sum(x * x, keepdims=True)) for x in (b.cast(weight, master.dtype), g)]
        new = lamb_step(b, s, s(p.learning_rates[k]), master, g, *norms)
        moments = [b.cast(m, mean.dtype) for m in moments]
        return [b.cast(new, weight.dtype), *moments, *_copied(b, weight, copy, new)]

    params: dict[str, Param] = {
        "learning_rates": Floats(REQUIRED, "learning rates", varies=True),
        **BETAS,
        "epsilon": epsilon(1e-6),
        "wds": Floats(REQUIRED, "weight decays", varies=True),
        "rescale_grad": RESCALE,
        **BOUNDS,
        "clip_gradient": CLIP,
        "bias_correction": Bool(True, "undo that the moments start at 0"),
        "step_count": Ints(REQUIRED, "number of the step, for each weight", varies=True),
    }
    example = {"learning_rates": (0.1, 0.2), "wds": (0.0, 0.01), "step_count": (1, 3)}
    shapes = [(3, 5)] * stride + [(7,)] * stride
    name = "_multi_mp_lamb_update" if mixed else "_multi_lamb_update"
    doc = f"LAMB of many weights{', each with a float copy' * mixed}."
    _many(name, params, each, stride, 0, 3 if mixed else 0, doc, shapes, example, "num_tensors")


for _mp in (False, True):
    _many_adamw(_mp)
    _many_lamb(_mp)


# -- norms, and checks of gradients

_ONES = {"init_output": Bool(True, "if not, an array given as out= stays 0 where it was 0")}


def _finite(b: Builder, x: Node) -> Node:
    """1 if every element is finite, else 0, in shape (1,)."""
    need_float(x)
    good = b.reduce("amin", b.cast(b.isfinite(x), f32)) if x.size else b.full((), 1, f32)
    return b.reshape(good, (1,))


def _expect(name: str, data: Sequence[Node], count: int) -> None:
    if len(data) != count:
        raise MXNetError(
            f"Check failed: num_inputs == infered_num_inputs ({len(data)} vs. {count}) : "
            f"Operator {name} expects {count} inputs, but got {len(data)} instead."
        )


@operator(
    "all_finite",
    params=dict(_ONES),
    result_dtype=lambda p, d: f32,
    accumulates=lambda p: not p.init_output,
    differentiable=False,
    samples=(sample([(3, 5)]), sample([(70,)])),
    named=True,
)
def all_finite(b: Builder, p: Values, data: Node) -> Node:
    """1 if no element is infinite or NaN, else 0, as a float array of one element."""
    return _finite(b, data)


@operator(
    "multi_all_finite",
    "*data",
    params={"num_arrays": Int(1, "number of arrays"), **_ONES},
    dtypes="*",
    result_dtype=lambda p, d: f32,
    accumulates=lambda p: not p.init_output,
    differentiable=False,
    samples=(sample([(3, 5), (7,)], {"num_arrays": 2}),),
)
def multi_all_finite(b: Builder, p: Values, *data: Node) -> Node:
    """1 if no element of any array is infinite or NaN, else 0."""
    _expect("multi_all_finite", data, p.num_arrays)
    finite = _finite(b, data[0])
    for x in data[1:]:
        finite = finite * _finite(b, x)
    return finite


@operator(
    "multi_sum_sq",
    "*data",
    params={"num_arrays": Int(doc="number of arrays")},
    dtypes="*",
    result_dtype=lambda p, d: f32,
    differentiable=False,
    samples=(sample([(3, 5), (7,), (2, 3, 4)], {"num_arrays": 3}), sample([(1,)], {"num_arrays": 1})),
)
def multi_sum_sq(b: Builder, p: Values, *data: Node) -> Node:
    """The sum of squares of each array, as floats."""
    _expect("multi_sum_sq", data, p.num_arrays)
    for x in data:
        need_float(x)
    floats = [wide(b, x) for x in data]
    return b.concat([b.reshape(b.cast(b.sum(x * x), f32), (1,)) for x in floats], 0)


@operator(
    "multi_lars",
    "lrs weights_sum_sq grads_sum_sq wds",
    params={
        "eta": Float(doc="trust in the layer's norm"),
        "eps": Float(doc="keeps the divisor from 0"),
        "rescale_grad": RESCALE,
    },
    same_shape=True,
    differentiable=False,
    domain=(0.25, 2.0),
    samples=(sample([(5,)] * 4, {"eta": 0.001, "eps": 1e-8}),),
)
def multi_lars(b: Builder, p: Values, lrs: Node, weights_sum_sq: Node, grads_sum_sq: Node, wds: Node) -> Node:
    """Learning rates scaled by the norms of weight and gradient (You et al., 2017)."""
    if lrs.dtype is not f32:
        raise MXNetError("MultiLARS only support float")
    norm = b.sqrt(weights_sum_sq)
    rescale_grad = Scalars(b, p, grads_sum_sq).rescale_grad
    scaled = lrs * p.eta * norm / (b.sqrt(grads_sum_sq) * rescale_grad + wds * norm + p.eps)
    return b.select(b.logical_and(b.gt(norm, 0), b.gt(grads_sum_sq, 0)), scaled, lrs)


@operator(
    "reset_arrays",
    "*data",
    params={"num_arrays": Int(doc="number of arrays")},
    dtypes="*",
    outputs=0,
    mutates=lambda p, training: [Write(k, k) for k in range(p.num_arrays)],
    differentiable=False,
    samples=(sample([(3, 5), (7,)], {"num_arrays": 2}),),
)
def reset_arrays(b: Builder, p: Values, *data: Node) -> list[Node]:
    """Make all elements of all arrays 0. There is no result."""
    _expect("reset_arrays", data, p.num_arrays)
    return [b.full_like(x, 0) for x in data]
