# SPDX-License-Identifier: Apache-2.0
"""``gluon.contrib.nn``: parallel branches, pixel shuffling, batch normalisation over devices."""

from __future__ import annotations

import warnings
from typing import Any

from .... import ndarray as nd_module
from ....context import num_gpus
from ...block import Block
from ...hybrid import HybridBlock
from ...nn import BatchNorm, HybridSequential, Sequential
from ...operators import space_of

__all__ = [
    "Concurrent", "HybridConcurrent", "Identity", "PixelShuffle1D", "PixelShuffle2D", "PixelShuffle3D", "SparseEmbedding",
    "SyncBatchNorm",
]  # fmt: skip


class Concurrent(Sequential):
    """Blocks side by side: each gets the input, their results are concatenated along ``axis``."""

    def __init__(self, axis: int = -1, prefix: str | None = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def forward(self, x: Any) -> Any:
        F = space_of(nd_module)
        return F.concat(*[block(x) for block in self._children.values()], dim=self.axis)


class HybridConcurrent(HybridSequential):
    """HybridBlocks side by side: each gets the input, their results are concatenated along ``axis``."""

    def __init__(self, axis: int = -1, prefix: str | None = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.concat(*[block(x) for block in self._children.values()], dim=self.axis)


class Identity(HybridBlock):
    """The input itself."""

    def __init__(self, prefix: str | None = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return x


class SparseEmbedding(Block):
    """Rows of a learned table by index.

    MXNet keeps table and gradient as sparse arrays; here both are dense, with the same values.
    """

    def __init__(
        self, input_dim: int, output_dim: int, dtype: Any = "float32", weight_initializer: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self._kwargs = {"input_dim": input_dim, "output_dim": output_dim, "dtype": dtype, "sparse_grad": True}
        self.weight = self.params.get("weight", shape=(input_dim, output_dim), init=weight_initializer, dtype=dtype)

    def forward(self, x: Any) -> Any:
        return nd_module.Embedding(x, self.weight.data(x.context), name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        return "{}({input_dim} -> {output_dim}, {dtype})".format(type(self).__name__, **self._kwargs)


class SyncBatchNorm(BatchNorm):
    """Batch normalisation whose statistics are meant to span several devices.

    Args:
        num_devices: how many; by default the number of GPUs, with a warning.

    The others as for ``nn.BatchNorm``.
    """

    def __init__(
        self,
        in_channels: int = 0,
        num_devices: int | None = None,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        running_mean_initializer: Any = "zeros",
        running_variance_initializer: Any = "ones",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            1, momentum, epsilon, center, scale, use_global_stats, beta_initializer, gamma_initializer,
            running_mean_initializer, running_variance_initializer, in_channels, **kwargs,
        )  # fmt: skip
        if num_devices is None:
            warnings.warn(
                "Caution using SyncBatchNorm: if not using all the GPUs, please mannually set num_devices",
                UserWarning,
                stacklevel=2,
            )
            num_devices = max(num_gpus(), 1)
        self._kwargs = {
            "eps": epsilon,
            "momentum": momentum,
            "fix_gamma": not scale,
            "use_global_stats": use_global_stats,
            "ndev": num_devices,
            "key": self.prefix,
        }

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any, running_mean: Any, running_var: Any) -> Any:
        return F.contrib.SyncBatchNorm(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)


class _PixelShuffle(HybridBlock):
    """Channels turned into finer pixels in two or three dimensions."""

    _hg_ndim: int
    _factors: tuple[int, ...]

    def _hg_set_factors(self, factor: Any) -> None:
        try:
            self._factors = (int(factor),) * self._hg_ndim
        except TypeError:
            self._factors = tuple(int(f) for f in factor)
            assert len(self._factors) == self._hg_ndim, f"wrong length {len(self._factors)}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._factors})"


class PixelShuffle1D(HybridBlock):
    """(N, f*C, W) -> (N, C, f*W) (Shi et al., 2016)."""

    def __init__(self, factor: int) -> None:
        super().__init__()
        self._factor = int(factor)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        x = F.reshape(x, (0, -4, -1, self._factor, 0))  # N, C, f, W
        return F.reshape(F.transpose(x, (0, 1, 3, 2)), (0, 0, -3))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._factor})"


class PixelShuffle2D(_PixelShuffle):
    """(N, f1*f2*C, H, W) -> (N, C, f1*H, f2*W); ``factor`` is a number or (f1, f2)."""

    _hg_ndim = 2

    def __init__(self, factor: Any) -> None:
        super().__init__()
        self._hg_set_factors(factor)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        f1, f2 = self._factors
        x = F.reshape(x, (0, -4, -1, f1 * f2, 0, 0))
        x = F.reshape(x, (0, 0, -4, f1, f2, 0, 0))  # N, C, f1, f2, H, W
        return F.reshape(F.transpose(x, (0, 1, 4, 2, 5, 3)), (0, 0, -3, -3))


class PixelShuffle3D(_PixelShuffle):
    """(N, f1*f2*f3*C, D, H, W) -> (N, C, f1*D, f2*H, f3*W); ``factor`` is a number or (f1, f2, f3)."""

    _hg_ndim = 3

    def __init__(self, factor: Any) -> None:
        super().__init__()
        self._hg_set_factors(factor)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        # factors meet their axes one after the other: no array has more than six axes
        f1, f2, f3 = self._factors
        x = F.swapaxes(F.reshape(x, (0, -4, -1, f1 * f2 * f3, 0, 0, 0)), 2, 3)  # N, C, D, f1 f2 f3, H, W
        x = F.reshape(x, (0, 0, 0, -4, f1, f2 * f3, 0, 0))
        x = F.swapaxes(F.reshape(x, (0, 0, -3, 0, 0, 0)), 3, 4)  # N, C, f1 D, H, f2 f3, W
        x = F.reshape(x, (0, 0, 0, 0, -4, f2, f3, 0))
        x = F.swapaxes(F.reshape(x, (0, 0, 0, -3, 0, 0)), 4, 5)  # N, C, f1 D, f2 H, W, f3
        return F.reshape(x, (0, 0, 0, 0, -3))
