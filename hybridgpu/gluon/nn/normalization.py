# SPDX-License-Identifier: Apache-2.0
"""Normalisation layers: over the batch, over layers, groups and instances."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import dtype_of
from ...util import is_np_array
from ..hybrid import HybridBlock

__all__ = ["BatchNorm", "BatchNormReLU", "GroupNorm", "InstanceNorm", "LayerNorm"]


class _Norm(HybridBlock):
    """What all normalisations share: a scale ``gamma``, a shift ``beta``, and how they print."""

    _kwargs: dict[str, Any]

    def _hg_scale_and_shift(self, size: int, scale: bool, center: bool, gamma: Any, beta: Any, **options: Any) -> None:
        self.gamma = self.params.get(
            "gamma",
            grad_req="write" if scale else "null",
            shape=(size,),
            init=gamma,
            allow_deferred_init=True,
            **({"differentiable": scale} if options.get("fixed") else {}),
        )
        self.beta = self.params.get(
            "beta",
            grad_req="write" if center else "null",
            shape=(size,),
            init=beta,
            allow_deferred_init=True,
            **({"differentiable": center} if options.get("fixed") else {}),
        )

    def _hg_channels(self) -> str:
        return f", in_channels={self.gamma.shape[0]}" if self.gamma.shape else ""

    def __repr__(self) -> str:
        content = ", ".join(f"{k}={v!r}" for k, v in self._kwargs.items())
        return f"{type(self).__name__}({content}{self._hg_channels()})"


class BatchNorm(_Norm):
    """Each channel scaled to mean 0 and variance 1 over the batch in training, by running averages otherwise
    (Ioffe and Szegedy, 2015).

    Args:
        axis: of the channels.
        momentum: how much of the running averages stays at each step.
        epsilon: added to the variance.
        center: add ``beta``.
        scale: multiply by ``gamma``; if not, ``gamma`` is fixed at 1.
        use_global_stats: use the running averages in training, too.
        in_channels: 0 takes them from the first call.
    """

    def __init__(
        self,
        axis: int = 1,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        running_mean_initializer: Any = "zeros",
        running_variance_initializer: Any = "ones",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._kwargs = {
            "axis": axis,
            "eps": epsilon,
            "momentum": momentum,
            "fix_gamma": not scale,
            "use_global_stats": use_global_stats,
        }
        if in_channels != 0:
            self.in_channels = in_channels
        self._hg_scale_and_shift(in_channels, scale, center, gamma_initializer, beta_initializer, fixed=True)
        running = {
            "grad_req": "null",
            "shape": (in_channels,),
            "allow_deferred_init": True,
            "differentiable": False,
        }
        self.running_mean = self.params.get("running_mean", init=running_mean_initializer, **running)
        self.running_var = self.params.get("running_var", init=running_variance_initializer, **running)

    def cast(self, dtype: Any) -> None:
        """Convert; the four parameters stay float32 when the network is cast to float16 or bfloat16."""
        super().cast("float32" if dtype_of(dtype).is_half else dtype)

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any, running_mean: Any, running_var: Any) -> Any:
        return F.BatchNorm(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)

    def _hg_channels(self) -> str:
        return f", in_channels={self.gamma.shape[0] or None}" if self.gamma.shape else ""


class BatchNormReLU(BatchNorm):
    """Batch normalisation and then max(x, 0), as one operator."""

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any, running_mean: Any, running_var: Any) -> Any:
        if is_np_array():  # as in MXNet, where np mode leaves relu away
            return super().hybrid_forward(F, x, gamma, beta, running_mean, running_var)
        return F.contrib.BatchNormWithReLU(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)


class InstanceNorm(_Norm):
    """Each channel of each sample scaled to mean 0 and variance 1 (Ulyanov et al., 2016).

    Args:
        axis: of the channels.
        scale: learn ``gamma``; by default it stays as it is initialised.
    """

    def __init__(
        self,
        axis: int = 1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis, self._epsilon = axis, epsilon
        self._hg_scale_and_shift(in_channels, scale, center, gamma_initializer, beta_initializer)

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any) -> Any:
        if self._axis == 1:
            return F.InstanceNorm(x, gamma, beta, name="fwd", eps=self._epsilon)
        moved = F.InstanceNorm(x.swapaxes(1, self._axis), gamma, beta, name="fwd", eps=self._epsilon)
        return moved.swapaxes(1, self._axis)


class LayerNorm(_Norm):
    """Scaled to mean 0 and variance 1 along one axis (Ba et al., 2016)."""

    def __init__(
        self,
        axis: int = -1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        in_channels: int = 0,
        prefix: str | None = None,
        params: Any = None,
        **others: Any,
    ) -> None:
        super().__init__(prefix=prefix, params=params, **others)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis, self._epsilon, self._center, self._scale = axis, epsilon, center, scale
        self._hg_scale_and_shift(in_channels, scale, center, gamma_initializer, beta_initializer)

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> Any:
        return F.LayerNorm(data, gamma=gamma, beta=beta, axis=self._axis, eps=self._epsilon)


class GroupNorm(_Norm):
    """Groups of channels of each sample scaled to mean 0 and variance 1 (Wu and He, 2018).

    ``gamma`` and ``beta`` have one entry for each group.
    """

    def __init__(
        self,
        num_groups: int = 1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        prefix: str | None = None,
        params: Any = None,
        **others: Any,
    ) -> None:
        super().__init__(prefix=prefix, params=params, **others)
        self._kwargs = {"eps": epsilon, "num_groups": num_groups, "center": center, "scale": scale}
        self._num_groups, self._epsilon, self._center, self._scale = num_groups, epsilon, center, scale
        self._hg_scale_and_shift(num_groups, scale, center, gamma_initializer, beta_initializer)

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> Any:
        return F.GroupNorm(data, gamma=gamma, beta=beta, num_groups=self._num_groups, eps=self._epsilon)

    def _hg_channels(self) -> str:
        return ""
