# SPDX-License-Identifier: Apache-2.0
"""Optimizer: base class with learning rates, weight decays, update counts and the registry."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from ..core.dtypes import dtype_of
from ..core.source_location import located_hint, user_frame
from ..hints.arguments import closest, taken_by, unexpected
from ..hints.foreign_names import OPTIMIZERS
from ..hints.misplaced import no_optimizer
from ..hints.undefined import undefined
from ..ndarray import NDArray, clip
from ..ndarray.device_scope import zeros_on
from ..util import is_np_array

__all__ = ["Optimizer", "create", "register"]

_Class = TypeVar("_Class", bound=type)

#: arguments' names elsewhere -> here
_SPELLED = {
    "lr": ("learning_rate",),
    "weight_decay": ("wd",),
    "betas": ("beta1 and beta2",),
    "eps": ("epsilon",),
    "max_grad_norm": ("clip_gradient (of each element), or gluon.utils.clip_global_norm before the step,",),
    "scheduler": ("lr_scheduler",),
}
_FILLED_IN = ("param_idx2name", "sym", "begin_num_update", "param_dict")  #: by Trainer or Module


class Optimizer:
    """Base class; subclasses define ``create_state`` and ``update``.

    Args:
        rescale_grad: every gradient is multiplied by it first (1 / batch size, say).
        param_idx2name: names of parameters by index. Only names ending in ``_weight`` or ``_gamma`` are decayed.
        wd: weight decay.
        clip_gradient: gradients are clipped to +-this.
        learning_rate: 0.01 by default; with ``lr_scheduler``, the rate that it starts from.
        lr_scheduler: the rate as a function of the number of updates.
        sym: Symbol whose variables carry ``__lr_mult__`` and ``__wd_mult__``.
        begin_num_update: number of updates before the first.
        multi_precision: keep a float32 copy of float16 and bfloat16 weights and update that.
        param_dict: Gluon parameters by index, whose ``lr_mult`` and ``wd_mult`` count.
    """

    opt_registry: ClassVar[dict[str, type]] = {}

    def __init__(
        self,
        rescale_grad: float = 1.0,
        param_idx2name: dict[Any, str] | None = None,
        wd: float = 0.0,
        clip_gradient: float | None = None,
        learning_rate: float | None = None,
        lr_scheduler: Any = None,
        sym: Any = None,
        begin_num_update: int = 0,
        multi_precision: bool = False,
        param_dict: dict[Any, Any] | None = None,
        **others: Any,
    ) -> None:
        if others:
            raise unexpected(type(self), next(iter(others)), _SPELLED, _FILLED_IN)
        self.rescale_grad = rescale_grad
        self.allow_np_array = is_np_array()
        self.lr_scheduler = lr_scheduler
        if lr_scheduler is None:
            self.lr: Any = 0.01 if learning_rate is None else learning_rate
        else:
            self.lr = learning_rate
            if learning_rate is not None and lr_scheduler.base_lr != learning_rate:
                warnings.warn(
                    "learning rate from ``lr_scheduler`` has been overwritten by ``learning_rate`` in optimizer.\n"
                    f"Its base_lr is now {learning_rate}, not {lr_scheduler.base_lr} (where learning_rate is not given, the "
                    "optimizer's default counts): give both the same value.",
                    UserWarning,
                    stacklevel=user_frame(),
                )
                lr_scheduler.base_lr = learning_rate
        self.wd = wd
        self.lr_mult: dict[Any, float] = {}
        self.wd_mult: dict[Any, float] = {}
        self.begin_num_update = self.num_update = begin_num_update
        # counts of updates are kept for each device, so that copies of a parameter count alike
        self._all_index_update_counts: dict[int, dict[Any, int]] = {0: {}}
        self._index_update_count = self._all_index_update_counts[0]
        self.clip_gradient = clip_gradient
        self.multi_precision = multi_precision
        self.aggregate_num = 0
        names = {} if param_idx2name is None else param_idx2name
        assert isinstance(names, dict), "param_idx2name should be a dict of param indexes to names."
        self.idx2name = names.copy()
        self.sym_info = () if sym is None else (sym.attr_dict(), sym.list_arguments())
        self.param_dict = param_dict or {}
        self.set_lr_mult({})
        self.set_wd_mult({})

    # -- names

    @staticmethod
    def register(klass: _Class) -> _Class:
        """Make an optimizer known by its lower-cased name; a name that is taken is overwritten with a warning."""
        assert isinstance(klass, type)
        name = klass.__name__.lower()
        old = Optimizer.opt_registry.get(name)
        if old is not None:
            warnings.warn(
                f"WARNING: New optimizer {klass.__module__}.{klass.__name__} is overriding "
                f"existing optimizer {old.__module__}.{old.__name__}",
                stacklevel=2,
            )
        Optimizer.opt_registry[name] = klass
        return klass

    @staticmethod
    def create_optimizer(name: str, **kwargs: Any) -> Any:
        """An optimizer by name, of either case.

        Raises:
            ValueError: an unknown name.
            TypeError: an argument that the optimizer does not take.
        """
        if not isinstance(name, str):
            raise no_optimizer(name)
        klass = Optimizer.opt_registry.get(name.lower())
        if klass is None:
            names = sorted(Optimizer.opt_registry)
            near = difflib.get_close_matches(name.lower(), names, 3, 0.7)
            suggestion = OPTIMIZERS.get(name.lower()) or " or ".join(map(repr, near))
            instead = f"Write {suggestion}." if suggestion else f"There are {', '.join(names)}."
            raise ValueError(f"Cannot find optimizer {name}\n{located_hint(instead)}")
        try:
            return klass(**kwargs)
        except TypeError as e:
            wrong = next((n for n in kwargs if str(e).endswith(f"unexpected keyword argument '{n}'")), None)
            if wrong is None:
                raise
            raise TypeError(f"{e}\n{located_hint(_instead_of(wrong, klass))}") from None

    # -- state

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """What ``update`` remembers of a weight from step to step: None, an array, or a tuple of arrays."""

    def create_state_multi_precision(self, index: Any, weight: NDArray) -> Any:
        """The state of a weight; for float16 and bfloat16 under ``multi_precision`` (float32 copy, its state)."""
        if self._hg_keeps_copy(weight):
            copy = weight.astype(np.float32)
            return copy, self.create_state(index, copy)
        self._hg_warn_of_half(weight)
        return self.create_state(index, weight)

    def _hg_keeps_copy(self, weight: NDArray) -> bool:
        return self.multi_precision and dtype_of(weight.dtype).is_half

    def _hg_warn_of_half(self, weight: NDArray) -> None:
        dtype = dtype_of(weight.dtype)
        if dtype.is_half:
            warnings.warn(
                f"Accumulating with {dtype.name} in optimizer can lead to poor accuracy or slow convergence. "
                "Consider using multi_precision=True option of the optimizer",
                stacklevel=user_frame(),
            )

    # -- updating

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Change ``weight`` and ``state`` in place by one step along ``grad``.

        An optimizer with ``aggregate_num`` above 0 takes lists of all four, too.
        """
        raise undefined(self, "update(self, index, weight, grad, state)")

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """``update`` for a state of ``create_state_multi_precision``."""
        if self._hg_keeps_copy(weight):
            copy, own = state
            self.update(index, copy, grad.astype(np.float32), own)
            weight[:] = copy.astype(weight.dtype)
        else:
            self.update(index, weight, grad, state)

    def _hg_options(self, **options: Any) -> dict[str, Any]:
        """Attributes that all update operators take."""
        options["rescale_grad"] = self.rescale_grad
        if self.clip_gradient:
            options["clip_gradient"] = self.clip_gradient
        return options

    def _hg_gradient(self, grad: NDArray, decay: NDArray | None = None) -> NDArray:
        """The gradient rescaled, with the decay added, clipped."""
        g = grad * self.rescale_grad
        if decay is not None:
            g = g + decay
        return g if self.clip_gradient is None else clip(g, -self.clip_gradient, self.clip_gradient)  # type: ignore[no-any-return]

    def _hg_begin(self, index: Any) -> tuple[float, float, int]:
        """Count an update of one weight; its learning rate, weight decay, and number."""
        self._update_count(index)
        return self._get_lr(index), self._get_wd(index), self._index_update_count[index]

    # -- learning rates and decays

    @property
    def learning_rate(self) -> float:
        """The rate now, before the multipliers of parameters."""
        return self.lr if self.lr_scheduler is None else self.lr_scheduler(self.num_update)  # type: ignore[no-any-return]

    def set_learning_rate(self, lr: float) -> None:
        """Set the rate.

        Raises:
            UserWarning: there is a scheduler, which decides it.
        """
        if self.lr_scheduler is not None:
            raise UserWarning(
                "LRScheduler of the optimizer has already been defined. Note that set_learning_rate can mutate the value of "
                "the learning rate of the optimizer only when the LRScheduler of the optimizer is undefined."
            )
        self.lr = lr

    def set_lr_scale(self, args_lrscale: Any) -> None:
        """Deprecated: use ``set_lr_mult``."""
        raise DeprecationWarning

    def _hg_multipliers(self, attribute: str) -> dict[Any, float]:
        """Multipliers that the Symbol's variables carry."""
        if not self.sym_info:
            return {}
        attributes, names = self.sym_info
        return {n: float(attributes[n][attribute]) for n in names if attribute in attributes.get(n, {})}

    def set_lr_mult(self, args_lr_mult: dict[Any, float]) -> None:
        """Factors of the learning rate by name or index."""
        self.lr_mult = {**self._hg_multipliers("__lr_mult__"), **args_lr_mult}

    _hg_decayed: tuple[str, ...] = ("_weight", "_gamma")  #: ends of the names that are decayed

    def set_wd_mult(self, args_wd_mult: dict[Any, float]) -> None:
        """Factors of the weight decay by name or index; by default 0 for biases and shifts."""
        plain = {n: 0.0 for n in self.idx2name.values() if not n.endswith(self._hg_decayed)}
        self.wd_mult = {**plain, **self._hg_multipliers("__wd_mult__"), **args_wd_mult}

    def _set_current_context(self, device_id: int) -> None:
        """Say whose updates are counted now."""
        self._index_update_count = self._all_index_update_counts.setdefault(device_id, {})

    def _update_count(self, index: Any) -> None:
        for i in index if isinstance(index, (list, tuple)) else [index]:
            count = self._index_update_count.get(i, self.begin_num_update) + 1
            self._index_update_count[i] = count
            self.num_update = max(count, self.num_update)

    def _hg_scaled(self, value: float, indices: Sequence[Any], attribute: str) -> list[float]:
        """``value`` times each parameter's own factor."""
        table: dict[Any, float] = getattr(self, attribute)
        out = []
        for i in indices:
            if i in self.param_dict:
                factor = getattr(self.param_dict[i], attribute)
            elif i in table:
                factor = table[i]
            else:
                factor = table.get(self.idx2name.get(i), 1.0)
            out.append(value * factor)
        return out

    def _get_lrs(self, indices: Sequence[Any]) -> list[float]:
        return self._hg_scaled(self.learning_rate, indices, "lr_mult")

    def _get_lr(self, index: Any) -> float:
        return self._get_lrs([index])[0]

    def _get_wds(self, indices: Sequence[Any]) -> list[float]:
        return self._hg_scaled(self.wd, indices, "wd_mult")

    def _get_wd(self, index: Any) -> float:
        return self._get_wds([index])[0]

    # -- pickling: the parameters stay with their Trainer

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["param_dict"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state
        self.param_dict = {}


def _instead_of(name: str, klass: type) -> str:
    """What to write instead of an argument that an optimizer does not take."""
    names = taken_by(klass, _FILLED_IN)
    text = closest(name, names, _SPELLED)
    instead = f"Write {text} instead; " if text else ""
    return f"{instead}{klass.__name__} takes {', '.join(names)}."


register = Optimizer.register
create = Optimizer.create_optimizer


def zeros_like(weight: NDArray) -> NDArray:
    """An array for a state: zeros of the weight's shape and type on its device."""
    return zeros_on(weight.context, weight.shape, weight._data.dtype)
