# SPDX-License-Identifier: Apache-2.0
"""Automatic mixed precision: which operators compute in the narrow type, the scale of losses, conversion of models."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np

from ... import ndarray, optimizer, symbol
from ...core.dtypes import DType, f32
from ...ndarray.apply import forget_graphs
from ...ops.functions import registered
from ...ops.precision import WIDEST, Policy, use
from . import lists  # noqa: F401  a public name
from .convert import convert_bucketing_module, convert_hybrid_block, convert_model, convert_symbol  # noqa: F401
from .lists.by_type import (
    list_conditional_fp32_ops,
    list_fp32_ops,
    list_loss_output_functions,
    list_lp16_fp32_ops,
    list_lp16_ops,
    list_lp16_use_fp32_params,
    list_widest_type_cast,
    narrow_type,
)
from .loss_scaler import LossScaler

__all__ = [
    "convert_hybrid_block",
    "convert_model",
    "convert_symbol",
    "init",
    "init_trainer",
    "list_conditional_fp32_ops",
    "list_fp32_ops",
    "list_loss_output_functions",
    "list_lp16_fp32_ops",
    "list_lp16_ops",
    "list_lp16_use_fp32_params",
    "list_widest_type_cast",
    "scale_loss",
    "unscale",
]

bfloat16 = np.dtype([("bfloat16", np.uint16)])

Conditions = Sequence[tuple[str, str, Sequence[str]]]

#: of the losses' own gradients and of the first Trainer; None before ``init``
_loss_scaler: LossScaler | None = None
_amp_initialized = False
_amp_loss_scale_initialized = False


# -- the lists


# -- training


def init(
    target_dtype: Any = "float16",
    target_precision_ops: Sequence[str] | None = None,
    conditional_fp32_ops: Conditions | None = None,
    fp32_ops: Sequence[str] | None = None,
) -> None:
    """Compute in mixed precision from now on, in ``nd`` and in graphs that are traced from now on.

    Call it before the net is called: the graph of a ``hybrid_forward`` that was traced before stays as it is, until
    ``hybridize()`` is called again. What is traced on arrays (a ``forward``, a function) is traced again. A second call
    changes nothing.

    Args:
        target_dtype: 'float16' or 'bfloat16'.
        target_precision_ops: operators that compute in this type, in place of ``list_lp16_ops``.
        conditional_fp32_ops: (operator, attribute, texts) of those that compute in float32 where the attribute has one
            of these values, in place of ``list_conditional_fp32_ops``.
        fp32_ops: operators that compute in float32, in place of ``list_fp32_ops``.

    Raises:
        AssertionError: another type.
        AttributeError: a name that is no operator.
    """
    global _amp_initialized, _loss_scaler
    if _amp_initialized:
        return
    try:
        low = narrow_type(target_dtype)
    except AssertionError:
        raise AssertionError("AMP currently supports only float16 or bfloat16 as a target_dtype") from None
    policy = _policy(low, target_precision_ops, conditional_fp32_ops, fp32_ops)
    _amp_initialized = True
    logging.info("Using AMP")
    use(policy)
    forget_graphs()
    _loss_scaler = LossScaler()
    for name in list_loss_output_functions(low):
        setattr(ndarray, name, _with_scale(getattr(ndarray, name), _loss_scaler))
        setattr(symbol, name, _with_warning(getattr(symbol, name)))


def _policy(
    low: DType,
    target_precision_ops: Sequence[str] | None,
    conditional_fp32_ops: Conditions | None,
    fp32_ops: Sequence[str] | None,
) -> Policy:
    rules: dict[str, DType | str] = dict.fromkeys(list_widest_type_cast(low), WIDEST)
    rules |= dict.fromkeys(list_fp32_ops(low) if fp32_ops is None else fp32_ops, f32)
    rules |= dict.fromkeys(list_lp16_ops(low) if target_precision_ops is None else target_precision_ops, low)
    conditions: dict[str, list[tuple[str, Sequence[str]]]] = {}
    conditional_ops = list_conditional_fp32_ops(low) if conditional_fp32_ops is None else conditional_fp32_ops
    for name, attribute, texts in conditional_ops:
        conditions.setdefault(name, []).append((attribute, list(texts)))
    for name in (*(target_precision_ops or ()), *(fp32_ops or ()), *conditions):
        if registered(name) is None:
            raise AttributeError(f"module '{symbol.__name__}' has no attribute '{name}'")
    return Policy(low, rules, conditions, list_lp16_use_fp32_params(low) or {})


def _with_scale(function: Callable[..., Any], scaler: LossScaler) -> Callable[..., Any]:
    @wraps(function)
    def scaled(*args: Any, **kwargs: Any) -> Any:
        kwargs["grad_scale"] = kwargs.get("grad_scale", 1.0) * scaler.loss_scale
        return function(*args, **kwargs)

    return scaled


def _with_warning(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def warned(*args: Any, **kwargs: Any) -> Any:
        logging.warning(
            "%s does not support dynamic loss scaling in symbolic and hybridized execution.", function.__name__
        )
        return function(*args, **kwargs)

    return warned


def init_trainer(optimizer_or_trainer: Any) -> None:
    """Let a Trainer leave out steps whose gradients are not finite, and adapt the scale of losses.

    Raises:
        AssertionError: ``init`` was not called.
        TypeError: no Trainer.
    """
    global _amp_loss_scale_initialized
    assert _amp_initialized, "AMP not initialized, did you forget to call amp.init()?"
    scaler = _loss_scaler
    if _amp_loss_scale_initialized:
        scaler = LossScaler()
    _amp_loss_scale_initialized = True
    _check_trainer(optimizer_or_trainer)
    optimizer_or_trainer._amp_loss_scaler = scaler
    optimizer_or_trainer._amp_original_scale = optimizer_or_trainer._scale


def _check_trainer(trainer: Any) -> None:
    from ...gluon import Trainer

    if isinstance(trainer, optimizer.Optimizer):
        raise TypeError("AMP is currently only compatible with Gluon Trainer")
    if not isinstance(trainer, Trainer):
        raise TypeError(f"optimizer_or_trainer should be a Gluon Trainer or an optimizer, instead is {type(trainer)}")


@contextmanager
def scale_loss(loss: Any, optimizer_or_trainer: Any) -> Iterator[Any]:
    """The loss, or a list of losses, multiplied by the Trainer's scale, which its next step divides by.

    Raises:
        AssertionError: ``init_trainer`` was not called for the Trainer.
    """
    scaler = optimizer_or_trainer._amp_loss_scaler
    assert scaler is not None, "Loss scaler is not initialized, did you forget to call amp.init_trainer()?"
    optimizer_or_trainer._scale = optimizer_or_trainer._amp_original_scale / scaler.loss_scale
    if isinstance(loss, (list, tuple)):
        yield [x * scaler.loss_scale for x in loss]
    else:
        yield loss * scaler.loss_scale


def unscale(optimizer_or_trainer: Any) -> None:
    """Divide the gradients by the scale of the loss now, for programs that clip or look at them before the step.

    Raises:
        TypeError: no Trainer.
    """
    _check_trainer(optimizer_or_trainer)
    for p in optimizer_or_trainer._params:
        for grad in p._grad or ():
            grad[:] *= optimizer_or_trainer._scale
    optimizer_or_trainer._scale = 1.0
