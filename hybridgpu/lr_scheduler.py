# SPDX-License-Identifier: Apache-2.0
"""Learning rates as functions of the number of updates (``mx.lr_scheduler``)."""

from __future__ import annotations

import logging
import math

from .hints.arguments import TellsArguments

__all__ = ["CosineScheduler", "FactorScheduler", "LRScheduler", "MultiFactorScheduler", "PolyScheduler"]


class LRScheduler(TellsArguments):
    """Base class; ``scheduler(num_update)`` is the rate of that update.

    Args:
        base_lr: the rate after the warm-up.
        warmup_steps: updates before that.
        warmup_begin_lr: the rate of update 0.
        warmup_mode: 'linear' rises to ``base_lr``, 'constant' stays at ``warmup_begin_lr``.

    Raises:
        ValueError: arguments that contradict each other.
    """

    def __init__(
        self,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        assert isinstance(warmup_steps, int)
        self.base_lr = self.warmup_final_lr = base_lr
        self.warmup_steps, self.warmup_begin_lr, self.warmup_mode = warmup_steps, warmup_begin_lr, warmup_mode
        if warmup_begin_lr > base_lr:
            raise ValueError("Base lr has to be higher than warmup_begin_lr")
        if warmup_steps < 0:
            raise ValueError("Warmup steps has to be positive or 0")
        if warmup_mode not in ("linear", "constant"):
            raise ValueError("Supports only linear and constant modes of warmup")

    def get_warmup_lr(self, num_update: int) -> float:
        """The rate of an update during the warm-up."""
        assert num_update < self.warmup_steps
        if self.warmup_mode == "constant":
            return self.warmup_begin_lr
        rise = (self.warmup_final_lr - self.warmup_begin_lr) * float(num_update) / float(self.warmup_steps)
        return self.warmup_begin_lr + rise

    def __call__(self, num_update: int) -> float:
        """The rate of update ``num_update``."""
        return self.get_warmup_lr(num_update) if num_update < self.warmup_steps else self._hg_rate(num_update)

    def _hg_rate(self, num_update: int) -> float:
        """The rate after the warm-up; to be overridden."""
        raise NotImplementedError("must override this")


def _check_factor(factor: float) -> None:
    if factor > 1.0:
        raise ValueError("Factor must be no more than 1 to make lr reduce")


class FactorScheduler(LRScheduler):
    """Multiplies the rate by ``factor`` after every ``step`` updates, down to ``stop_factor_lr``."""

    def __init__(
        self,
        step: int,
        factor: float = 1,
        stop_factor_lr: float = 1e-8,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if step < 1:
            raise ValueError("Schedule step must be greater or equal than 1 round")
        _check_factor(factor)
        self.step, self.factor, self.stop_factor_lr = step, factor, stop_factor_lr
        self.count = 0

    def _hg_rate(self, num_update: int) -> float:
        while num_update > self.count + self.step:
            self.count += self.step
            self.base_lr *= self.factor
            if self.base_lr < self.stop_factor_lr:
                self.base_lr = self.stop_factor_lr
                logging.info(
                    "Update[%d]: now learning rate arrived at %0.5e, will not change in the future",
                    num_update,
                    self.base_lr,
                )
            else:
                logging.info("Update[%d]: Change learning rate to %0.5e", num_update, self.base_lr)
        return self.base_lr


class MultiFactorScheduler(LRScheduler):
    """Multiplies the rate by ``factor`` after each of the updates in ``step``, an increasing list."""

    def __init__(
        self,
        step: list[int],
        factor: float = 1,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        assert isinstance(step, list) and len(step) >= 1
        for k, s in enumerate(step):
            if k and s <= step[k - 1]:
                raise ValueError("Schedule step must be an increasing integer list")
            if s < 1:
                raise ValueError("Schedule step must be greater or equal than 1 round")
        _check_factor(factor)
        self.step, self.factor = step, factor
        self.cur_step_ind = self.count = 0

    def _hg_rate(self, num_update: int) -> float:
        while self.cur_step_ind < len(self.step) and num_update > self.step[self.cur_step_ind]:
            self.count = self.step[self.cur_step_ind]
            self.cur_step_ind += 1
            self.base_lr *= self.factor
            logging.info("Update[%d]: Change learning rate to %0.5e", num_update, self.base_lr)
        return self.base_lr


class _Decay(LRScheduler):
    """From ``base_lr`` to ``final_lr`` in ``max_update`` updates along a curve from 1 to 0."""

    def __init__(
        self,
        max_update: int,
        base_lr: float,
        final_lr: float,
        warmup_steps: int,
        warmup_begin_lr: float,
        warmup_mode: str,
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        assert isinstance(max_update, int)
        if max_update < 1:
            raise ValueError("maximum number of updates must be strictly positive")
        self.base_lr_orig, self.final_lr = base_lr, final_lr
        self.max_update, self.max_steps = max_update, max_update - warmup_steps

    def _hg_rate(self, num_update: int) -> float:
        if num_update <= self.max_update:
            left = self._hg_curve((num_update - self.warmup_steps) / self.max_steps)
            self.base_lr = self.final_lr + (self.base_lr_orig - self.final_lr) * left
        return self.base_lr

    def _hg_curve(self, part: float) -> float:
        raise NotImplementedError


class PolyScheduler(_Decay):
    """Falls as a power ``pwr`` of the updates left."""

    def __init__(
        self,
        max_update: int,
        base_lr: float = 0.01,
        pwr: float = 2,
        final_lr: float = 0,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.power = pwr

    def _hg_curve(self, part: float) -> float:
        return float(pow(1 - part, self.power))


class CosineScheduler(_Decay):
    """Falls as half a wave of the cosine (Loshchilov and Hutter, 2016)."""

    def __init__(
        self,
        max_update: int,
        base_lr: float = 0.01,
        final_lr: float = 0,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode)

    def _hg_curve(self, part: float) -> float:
        return (1 + math.cos(math.pi * part)) / 2
