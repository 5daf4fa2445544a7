# SPDX-License-Identifier: Apache-2.0
"""Gradient descent with one rate for a whole weight: SGD and its relatives."""

from __future__ import annotations

import logging
import math
import os
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..ndarray import NDArray
from ..ndarray.random import normal
from .base import Optimizer, register, zeros_like
from .single_op import AggregatedUpdate, ByOperator, Call, ManyByOperator, as_lists, interleave

__all__ = ["DCASGD", "LARS", "LBSGD", "NAG", "SGD", "SGLD", "Signum", "ccSGD"]


def aggregation_size(default: int) -> int:
    """How many weights are updated by one operator (``MXNET_OPTIMIZER_AGGREGATION_SIZE``)."""
    return int(os.environ.get("MXNET_OPTIMIZER_AGGREGATION_SIZE", default))


class _Momentum(Optimizer):
    """Optimizers whose state is one array, the momentum, None where that is 0.

    Under ``multi_precision`` the state is (momentum, float32 copy of the weight).
    """

    momentum: float

    def create_state_multi_precision(self, index: Any, weight: NDArray) -> Any:
        if self._hg_keeps_copy(weight):
            copy = weight.astype(np.float32)
            return self.create_state(index, copy), copy
        self._hg_warn_of_half(weight)
        return self.create_state(index, weight)

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return None if self.momentum == 0.0 else zeros_like(weight)


@register
class SGD(_Momentum, ManyByOperator):
    """m = momentum * m - lr * (g + wd * w); w += m.

    Args:
        lazy_update: accepted; arrays are dense.
    """

    def __init__(self, momentum: float = 0.0, lazy_update: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum, self.lazy_update = momentum, lazy_update
        self.aggregate_num = aggregation_size(4)

    def _hg_call(self, state: Any, copied: bool) -> Call:
        momentum, *copies = state if copied else (state,)
        name = f"multi_{'mp_' * copied}sgd_{'mom_' * (self.momentum > 0)}update"
        if self.momentum > 0:
            return Call(name, (momentum, *copies), self._hg_constant(momentum=self.momentum))
        return Call(name, tuple(copies), self._hg_constant())


@register
class ccSGD(SGD):
    """An old name of ``SGD``."""


@register
class NAG(_Momentum, ByOperator):
    """Nesterov's accelerated gradient: m = momentum * m + g; w -= lr * (g + momentum * m)."""

    _hg_takes_copies = True

    def __init__(self, momentum: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum

    def _hg_call(self, state: Any, copied: bool) -> Call:
        momentum, copy = state if copied else (state, None)
        states = tuple(s for s in (momentum, copy) if s is not None)
        prefix = "mp_" * copied
        if momentum is None:
            return Call(f"{prefix}sgd_update", states, self._hg_constant())
        return Call(f"{prefix}nag_mom_update", states, self._hg_constant(momentum=self.momentum))


@register
class Signum(ByOperator):
    """The gradient's sign only (Bernstein et al., 2018).

    Args:
        wd_lh: decoupled weight decay.
    """

    def __init__(self, learning_rate: float = 0.01, momentum: float = 0.9, wd_lh: float = 0.0, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum, self.wd_lh = momentum, wd_lh

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return None if self.momentum == 0.0 else zeros_like(weight)

    def _hg_call(self, state: Any, copied: bool) -> Call:
        if state is None:
            return Call("signsgd_update", (), self._hg_constant())
        return Call("signum_update", (state,), self._hg_constant(momentum=self.momentum, wd_lh=self.wd_lh))


@register
class LARS(_Momentum, AggregatedUpdate):
    """SGD whose rate is scaled for each layer by norm(w) / norm(g) (You et al., 2017).

    Args:
        eta: the coefficient.
        eps: added to the denominator.
        momentum_correction: scale the momentum with changes of the rate.
    """

    _hg_takes_copies = True
    _hg_decayed = ("_weight",)
    _hg_plain = ("gamma", "beta", "bias")  #: ends of the names whose rate is not scaled

    def __init__(
        self,
        momentum: float = 0.0,
        lazy_update: bool = True,
        eta: float = 0.001,
        eps: float = 0,
        momentum_correction: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.momentum, self.momentum_correction, self.lazy_update = momentum, momentum_correction, lazy_update
        self.aggregate_num = aggregation_size(4)
        self.eta, self.eps = eta, eps
        self.skip = 0
        self.last_lr: float | None = None
        self.cur_lr: float | None = None

    def _get_lrs(self, indices: Any) -> list[float]:
        lr = self.learning_rate
        self.last_lr = lr if self.cur_lr is None else self.cur_lr
        self.cur_lr = lr
        return super()._get_lrs(indices)

    def _hg_is_plain(self, index: Any) -> bool:
        return self.idx2name.get(index, str(index)).endswith(self._hg_plain)

    def _hg_step(self, index: Any, weight: Any, grad: Any, state: Any, copied: bool) -> None:
        indices, weights, grads, states = as_lists(index, weight, grad, state)
        self._update_count(indices)
        lrs, wds = self._get_lrs(indices), self._get_wds(indices)
        # the scaled ones first, so that their rates are one slice
        order = sorted(range(len(indices)), key=lambda k: self._hg_is_plain(indices[k]))
        scaled = sum(not self._hg_is_plain(i) for i in indices)
        weights, grads, states = ([values[k] for k in order] for values in (weights, grads, states))
        ctx = weights[0].context
        rates = nd.array([lrs[k] for k in order], ctx=ctx, dtype="float32")
        decays = nd.array([wds[k] for k in order], ctx=ctx, dtype="float32")
        if scaled:
            adapted = nd.multi_lars(
                rates[:scaled],
                nd.multi_sum_sq(*weights[:scaled], num_arrays=scaled),
                nd.multi_sum_sq(*grads[:scaled], num_arrays=scaled),
                decays[:scaled],
                eta=self.eta,
                eps=self.eps,
                rescale_grad=self.rescale_grad,
            )
            rates = adapted if scaled == len(indices) else nd.concat(adapted, rates[scaled:], dim=0)
        options = self._hg_options(num_weights=len(weights))
        columns: list[Any] = [weights, grads]
        if self.momentum > 0:
            changes = self.momentum_correction and self.last_lr
            options["momentum"] = self.momentum * (self.cur_lr / self.last_lr) if changes else self.momentum  # type: ignore[operator]
        if copied:
            momenta, copies = zip(*states, strict=True)
            columns += [momenta, copies] if self.momentum > 0 else [copies]
            names = ("preloaded_multi_mp_sgd_update", "preloaded_multi_mp_sgd_mom_update")
        else:
            columns += [states] if self.momentum > 0 else []
            names = ("preloaded_multi_sgd_update", "preloaded_multi_sgd_mom_update")
        getattr(nd, names[self.momentum > 0])(*interleave(*columns), rates, decays, out=weights, **options)


@register
class LBSGD(Optimizer):
    """SGD for large batches: gradients of ``batch_scale`` steps are summed, and the rate warms up.

    Args:
        warmup_strategy: 'linear', 'power2', 'sqrt' or 'lars'.
        warmup_epochs, updates_per_epoch, begin_epoch, num_epochs: of the warm-up.
        batch_scale: steps whose gradients are put together.
    """

    def __init__(
        self,
        momentum: float = 0.0,
        multi_precision: bool = False,
        warmup_strategy: str = "linear",
        warmup_epochs: int = 5,
        batch_scale: int = 1,
        updates_per_epoch: int = 32,
        begin_epoch: int = 0,
        num_epochs: int = 60,
        **kwargs: Any,
    ) -> None:
        super().__init__(multi_precision=multi_precision, **kwargs)
        logging.info("Running Large-Batch SGD Algorithm")
        logging.info(
            "(Batch_scale=%f, warmup_epochs=%d, warmup_strategy=%s, updates_per_epoch=%d)",
            batch_scale,
            warmup_epochs,
            warmup_strategy,
            updates_per_epoch,
        )
        self.momentum = momentum
        self.warmup_strategy, self.warmup_epochs = warmup_strategy, warmup_epochs
        self.batch_scale, self.updates_per_epoch = batch_scale, updates_per_epoch
        self.init_updates = begin_epoch * updates_per_epoch
        self.num_epochs = num_epochs
        self.lbmult, self.admult, self.adaptive = 1, 1, False
        self.cumgrads: dict[Any, tuple[Any, int]] = {}  # index -> (sum, number of gradients so far)

    def _get_lbmult(self, nup: int) -> float:
        """The factor of the rate after ``nup`` gradients."""
        steps = self.warmup_epochs * self.updates_per_epoch
        if nup >= steps:
            return float(self.batch_scale)
        if steps <= 1:
            return 1.0
        part = nup / steps
        curve = {"linear": part, "power2": part * part, "sqrt": math.sqrt(part)}.get(self.warmup_strategy, 0.0)
        return 1.0 + (self.batch_scale - 1) * curve

    def _get_lars(self, weight: NDArray, grad: NDArray, wd: float) -> float:
        weight2, grad2 = (float((v * v).sum().asscalar()) for v in (weight, grad))
        return min(max(math.sqrt(weight2 / (grad2 + wd * weight2 + 1e-18)), 0.01), 100)

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return None if self.momentum == 0.0 else zeros_like(weight)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._get_lr(index), self._get_wd(index)
        self._update_count(index)
        total, count = self.cumgrads.get(index, (None, self.init_updates))
        total, count = (grad.copy() if total is None else total + grad), count + 1
        if count % self.batch_scale:
            self.cumgrads[index] = (total, count)
            return
        self.cumgrads[index] = (None, count)
        mean = total / self.batch_scale
        lr *= self._get_lars(weight, mean, wd) if self.warmup_strategy == "lars" else self._get_lbmult(count)
        options = self._hg_options(lr=lr, wd=wd)
        if state is None:
            nd.sgd_update(weight, mean, out=weight, **options)
        else:
            nd.sgd_mom_update(weight, mean, state, out=weight, momentum=self.momentum, **options)


@register
class DCASGD(Optimizer):
    """Delay compensated asynchronous SGD (Zheng et al., 2016): g + lamda * g**2 * (w - previous w)."""

    def __init__(self, momentum: float = 0.0, lamda: float = 0.04, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum, self.lamda = momentum, lamda
        self.weight_previous: dict[Any, Any] = {}

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return None if self.momentum == 0.0 else zeros_like(weight), weight.copy()

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd, _ = self._hg_begin(index)
        grad = self._hg_gradient(grad)
        momentum, previous = state
        step = -lr * (grad + wd * weight + self.lamda * grad * grad * (weight - previous))
        if momentum is not None:
            momentum *= self.momentum
            momentum += step
            step = momentum
        previous[:] = weight
        weight += step


@register
class SGLD(Optimizer):
    """Stochastic gradient Langevin dynamics (Welling and Teh, 2011): half a step, and noise of variance lr."""

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd, _ = self._hg_begin(index)
        weight += -lr / 2 * (self._hg_gradient(grad) + wd * weight)
        noise = normal(0, 1, shape=weight.shape, dtype=weight.dtype, ctx=weight.context)
        weight += noise * math.sqrt(lr)  # a factor of its own: another rate lowers nothing
