# SPDX-License-Identifier: Apache-2.0
"""Optimizers with a rate of its own for every entry of a weight: Adam and its relatives."""

from __future__ import annotations

import math
from typing import Any

from .. import ndarray as nd
from ..ndarray import NDArray
from .base import Optimizer, register, zeros_like
from .sgd import aggregation_size
from .single_op import ByOperator, Call, ManyByOperator, as_lists

__all__ = ["FTML", "LAMB", "AdaDelta", "AdaGrad", "Adam", "Adamax", "Ftrl", "Nadam", "RMSProp", "Test"]


class _States(Optimizer):
    """Optimizers whose state is a tuple of arrays like the weight."""

    _hg_number = 2

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return tuple(zeros_like(weight) for _ in range(self._hg_number))


@register
class Adam(_States, ByOperator):
    """m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g**2; w -= lr * sqrt(1 - b2**t) / (1 - b1**t) * m / (sqrt(v) + eps).

    Args:
        lazy_update: accepted; arrays are dense.
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        lazy_update: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon, self.lazy_update = beta1, beta2, epsilon, lazy_update

    def _hg_numbers(self, index: Any) -> dict[str, Any]:
        lr, wd, t = self._hg_begin(index)
        lr *= math.sqrt(1.0 - self.beta2**t) / (1.0 - self.beta1**t)
        return {"lr": lr, "wd": wd, "rescale_grad": self.rescale_grad}

    def _hg_call(self, state: Any, copied: bool) -> Call:
        betas = {"beta1": self.beta1, "beta2": self.beta2}
        constants = self._hg_constant(**betas, epsilon=self.epsilon, lazy_update=self.lazy_update)
        return Call("adam_update", state, constants)


@register
class AdaGrad(Optimizer):
    """h += g**2; w -= lr * (g / sqrt(h + eps) + wd * w) (Duchi et al., 2011)."""

    def __init__(self, eps: float = 1e-7, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return zeros_like(weight)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd, _ = self._hg_begin(index)
        g = self._hg_gradient(grad)
        state += nd.square(g)
        weight += (g / nd.sqrt(state + self.float_stable_eps) + weight * wd) * -lr


@register
class RMSProp(_States, ByOperator):
    """n = g1 n + (1 - g1) g**2; w -= lr * g / sqrt(n + eps) (Tieleman and Hinton, 2012).

    Args:
        centered: subtract the squared mean, with momentum ``gamma2`` (Graves, 2013).
        clip_weights: clip weights to +-this after the step.
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        gamma1: float = 0.9,
        gamma2: float = 0.9,
        epsilon: float = 1e-8,
        centered: bool = False,
        clip_weights: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.gamma1, self.gamma2, self.epsilon = gamma1, gamma2, epsilon
        self.centered, self.clip_weights = centered, clip_weights
        self._hg_number = 3 if centered else 1

    def _hg_call(self, state: Any, copied: bool) -> Call:
        constants = self._hg_constant(gamma1=self.gamma1, epsilon=self.epsilon)
        if self.clip_weights:
            constants["clip_weights"] = self.clip_weights
        if self.centered:
            return Call("rmspropalex_update", state, {**constants, "gamma2": self.gamma2})
        return Call("rmsprop_update", state, constants)


@register
class AdaDelta(_States):
    """Steps measured in units of former steps; there is no learning rate (Zeiler, 2012)."""

    def __init__(self, rho: float = 0.90, epsilon: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rho, self.epsilon = rho, epsilon

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        _, wd, _ = self._hg_begin(index)
        g = self._hg_gradient(grad)
        mean_g, mean_step = state
        mean_g *= self.rho
        mean_g += (1.0 - self.rho) * g * g
        step = nd.sqrt(mean_step + self.epsilon) / nd.sqrt(mean_g + self.epsilon) * g
        mean_step *= self.rho
        mean_step += (1.0 - self.rho) * step * step
        weight -= step + wd * weight


@register
class Ftrl(_States, ByOperator):
    """Follow the regularised leader (McMahan et al., 2013).

    Args:
        lamda1: L1 regularisation.
        beta: of the rate.
    """

    def __init__(self, lamda1: float = 0.01, learning_rate: float = 0.1, beta: float = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lamda1, self.beta = lamda1, beta
        self.lr = learning_rate

    def _hg_call(self, state: Any, copied: bool) -> Call:
        return Call("ftrl_update", state, self._hg_constant(lamda1=self.lamda1, beta=self.beta))


@register
class FTML(_States, ByOperator):
    """Follow the moving leader (Zheng and Kwok, 2017)."""

    _hg_number = 3

    def __init__(self, beta1: float = 0.6, beta2: float = 0.999, epsilon: float = 1e-8, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def _hg_numbers(self, index: Any) -> dict[str, Any]:
        lr, wd, t = self._hg_begin(index)
        return {"lr": lr, "wd": wd, "t": t, "rescale_grad": self.rescale_grad}

    def _hg_call(self, state: Any, copied: bool) -> Call:
        constants: dict[str, Any] = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}
        if self.clip_gradient:
            constants["clip_grad"] = self.clip_gradient
        return Call("ftml_update", state, constants)


@register
class Adamax(_States):
    """Adam with the infinity norm (Kingma and Ba, 2014)."""

    def __init__(self, learning_rate: float = 0.002, beta1: float = 0.9, beta2: float = 0.999, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2 = beta1, beta2

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd, t = self._hg_begin(index)
        lr /= 1.0 - self.beta1**t
        g = self._hg_gradient(grad, wd * weight)
        mean, norm = state
        mean *= self.beta1
        mean += (1.0 - self.beta1) * g
        norm[:] = nd.maximum(self.beta2 * norm, nd.abs(g))
        weight -= lr * mean / norm


@register
class Nadam(_States):
    """Adam with Nesterov's momentum (Dozat, 2016).

    The product of the momenta so far is one number for all weights, as in MXNet.
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        schedule_decay: float = 0.004,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon, self.schedule_decay = beta1, beta2, epsilon, schedule_decay
        self.m_schedule = 1.0

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd, t = self._hg_begin(index)
        g = self._hg_gradient(grad, wd * weight)
        now, then = (self.beta1 * (1.0 - 0.5 * 0.96 ** (k * self.schedule_decay)) for k in (t, t + 1))
        self.m_schedule *= now
        mean, square = state
        mean *= self.beta1
        mean += (1.0 - self.beta1) * g
        square *= self.beta2
        square += (1.0 - self.beta2) * g * g
        g_part = g / (1.0 - self.m_schedule)
        mean_part = mean / (1.0 - self.m_schedule * then)
        step = (1.0 - now) * g_part + then * mean_part
        weight -= lr * step / (nd.sqrt(square / (1.0 - self.beta2**t)) + self.epsilon)


@register
class LAMB(_States, ManyByOperator):
    """Adam whose step is scaled for each layer by norm(w) / norm(step) (You et al., 2019).

    A list of weights takes one operator; a single weight takes two, with norms computed between them.

    Args:
        lower_bound, upper_bound: of norm(w).
        bias_correction: divide the averages by 1 - beta**t.
    """

    _hg_count, _hg_least, _hg_exact = "num_tensors", 2, False

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        lower_bound: float | None = None,
        upper_bound: float | None = None,
        bias_correction: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.lower_bound, self.upper_bound, self.bias_correction = lower_bound, upper_bound, bias_correction
        self.aggregate_num = max(1, min(45, aggregation_size(45)))

    def _hg_numbers(self, index: Any) -> dict[str, Any]:
        rows = [self._hg_begin(i) for i in index]
        numbers = dict(zip(("learning_rates", "wds", "step_count"), map(list, zip(*rows, strict=True)), strict=True))
        return {**numbers, "rescale_grad": self.rescale_grad}

    def _hg_call(self, state: Any, copied: bool) -> Call:
        betas = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}
        constants = self._hg_constant(**betas, bias_correction=self.bias_correction, **self._hg_bounds)
        if copied:
            master, averages = state
            return Call("_multi_mp_lamb_update", (*averages, master), constants)
        return Call("_multi_lamb_update", state, constants)

    @property
    def _hg_bounds(self) -> dict[str, Any]:
        bounds = {"lower_bound": self.lower_bound, "upper_bound": self.upper_bound}
        return {k: v for k, v in bounds.items() if v}

    def _hg_step(self, index: Any, weight: Any, grad: Any, state: Any, copied: bool) -> None:
        if isinstance(index, (list, tuple)) and self.aggregate_num > 1:
            super()._hg_step(index, weight, grad, state, copied)
            return
        for i, w, g, s in zip(*as_lists(index, weight, grad, state), strict=True):
            lr, wd, t = self._hg_begin(i)
            options = self._hg_options(
                beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon, bias_correction=self.bias_correction, t=t
            )
            if copied:
                master, (mean, var) = s
                step = nd.mp_lamb_update_phase1(w, g, mean, var, master, wd=wd, **options)
                nd.mp_lamb_update_phase2(w, step, master.norm(), step.norm(), master, lr=lr, out=w, **self._hg_bounds)
            else:
                mean, var = s
                step = nd.lamb_update_phase1(w, g, mean, var, wd=wd, **options)
                nd.lamb_update_phase2(w, step, w.norm(), step.norm(), lr=lr, out=w, **self._hg_bounds)


@register
class Test(Optimizer):
    """Adds the gradient to the weight; for tests of key-value stores."""

    __test__ = False  # not for pytest

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return zeros_like(weight)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        weight += grad * self.rescale_grad
        state[:] = weight
