# SPDX-License-Identifier: Apache-2.0
"""Records that the templates of direct convolutions read."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ....core.dataclass import dataclass
from ..blocks import Line
from ..kernel import FlatFields, Statement, TemplateFields
from ..prologue import ImagePrologue
from .pool_cuda import PoolingEpilogue

if TYPE_CHECKING:
    from .bands import Band, ConvShape

__all__ = ["ConvFields", "CpuConvFields", "CudaConvFields"]


@dataclass(frozen=True, kw_only=True)
class ConvFields(TemplateFields):
    """Fields of a convolution that both targets read.

    Attributes:
        x, w: C text of the operand and of the weights.
        axes: variables of the result.
        shape: what the loops know.
        product: type and name of an element of the convolution.
    """

    x: str
    w: str
    axes: list[str]
    shape: ConvShape
    product: tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class CpuConvFields(ConvFields):
    """A convolution on the CPU.

    Attributes:
        image: how the operand is computed, if it is not in memory.
        band: how much of the result is computed together.
        is_pointwise: the number of input channels is an argument.
        slices: parts of the output channels of a group, each of which is a unit of work.
        flat: the epilogue gets all rows of a band as one.
        epilogue: what follows for a row, or all of them.
    """

    template: ClassVar[str] = "cpu/conv.j2"
    image: ImagePrologue | None
    band: Band
    is_pointwise: bool
    slices: int
    flat: bool
    epilogue: list[Line]

    @property
    def computes_flat(self) -> bool:
        """Whether whole planes of a computed operand are computed as one row."""
        return self.image is not None and self.image.flat


@dataclass(frozen=True, kw_only=True)
class CudaConvFields(ConvFields, FlatFields):
    """A convolution on CUDA.

    Attributes:
        once, each: the epilogue: statements of some neighbours and of each element.
        image: as for one on the CPU.
        index_type: of positions.
        per_sample, per_thread: elements (or windows' lanes) of a sample, in units of what a thread computes.
        channels: C text of the number of input channels.
        sample_stride, channel_stride: of the operand, in elements, …
        filter_stride, filter_channel_stride: … and of the weights.
        coordinates: definitions from the position ``e`` of an element.
        windows: the windows that results are reduced in, if they are.
    """

    template: ClassVar[str] = "cuda/conv.j2"
    once: list[Statement]
    each: list[Statement]
    image: ImagePrologue | None
    index_type: str
    per_sample: int
    per_thread: int
    channels: str
    sample_stride: int
    channel_stride: int
    filter_stride: int
    filter_channel_stride: int
    coordinates: list[Statement]
    windows: PoolingEpilogue | None
