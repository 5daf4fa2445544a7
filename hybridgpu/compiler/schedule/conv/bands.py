# SPDX-License-Identifier: Apache-2.0
"""Bands: the rows of a convolution's result that the CPU computes together, and what they read.

What a band reads fits the second-level cache. Where padding, strides or dilations are in the way it is first copied into rows
that are padded with zeros and sorted by the phases of the strides. The loops are in ``kernels/conv_cpu.h``.
"""

from __future__ import annotations

from math import prod

from ....core.dataclass import dataclass
from ...devices.cpu import CpuConstants
from ...ir.dims import cached_by_extents, nominal
from ...ir.graph import Node
from ...primitives.packed_weight import block_sizes

__all__ = [
    "BAND_BYTES",
    "BAND_PIXELS",
    "LANES",
    "MAX_COPY_BYTES",
    "Band",
    "ConvShape",
    "band_of",
    "even_part",
    "packed_outputs",
    "shape_of",
    "utilization",
]

BAND_BYTES = 3 * CpuConstants.l2_bytes // 16  #: bytes of a band's copy that leave room in the second-level cache
MAX_COPY_BYTES = 448 << 10  #: bytes of a copy on the stack, at the very most
BAND_PIXELS = 4 << 10  #: pixels of a band: results of a tile stay in the first-level cache
LANES = CpuConstants.vector_bytes // 4  #: floats of the widest vector
_MIN_REREAD_CHANNELS = 64  #: output channels that read a band so often that it should stay in a cache, …
_MIN_NEAR_PIXELS = 6 * LANES  #: … in the first level if a tile's pixels fit there, …
_MIN_FAR_PIXELS = 512  #: … else in the second, in rows that the hardware fetches ahead
#: rows that are moved together so that an epilogue has whole vectors: what was just stored is read late
_MIN_MOVED_ROWS = 4
_PACKED_PIXELS = 512  #: of a band beside a packed weight: results of a block of channels stay near
#: terms of a sum that a packed weight is worth the transposition of the results for, if pixels fill their vectors …
_MIN_PACKED_TERMS = 256
_MIN_SPARSE_PACKED_TERMS = 128  #: … and if less of them counts than this:
_SPARSE_UTILIZATION = 0.9
#: pixels of all samples that are not computed beside a packed weight, so that packing it at every call pays: a copied element
#: takes some 0.2 ns, a multiplication and addition 0.008
_MIN_SPARED_PIXELS = 100
_MAX_TAPS = 4096  #: elements of a channel's kernel (CPU)
_MIN_DYNAMIC_CHANNELS = 128  #: channels whose number may be an argument: fewer are faster as a loop of known length


@dataclass(frozen=True)
class ConvShape:
    """A convolution with exactly three spatial axes, leading ones of extent 1; see kernels/conv_cpu.h."""

    batch: int
    groups: int
    inputs: int  #: channels of a group
    outputs: int
    size: tuple[int, ...]
    result: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    low: tuple[int, ...]
    dilate: tuple[int, ...]
    base: tuple[int, ...]

    @property
    def is_pointwise(self) -> bool:
        """Whether every pixel is a product on its own: one element of many channels, where constants gain little."""
        return prod(self.kernel) == 1 and self.inputs >= _MIN_DYNAMIC_CHANNELS

    @property
    def work(self) -> int:
        """Multiplications."""
        return self.batch * self.groups * self.outputs * self.inputs * prod(self.kernel) * prod(self.result)


def shape_of(node: Node) -> ConvShape | None:
    """The shape of the convolution ``node``, None if it has more than three spatial axes."""
    x, w = node.inputs[:2]
    rank = node.ndim - 2
    if rank > 3:
        return None

    def three(values: tuple[int, ...], missing: int) -> tuple[int, ...]:
        return (missing,) * (3 - rank) + tuple(values)

    p = node.params
    return ConvShape(
        x.shape[0],
        p["groups"],
        w.shape[1],
        w.shape[0] // p["groups"],
        three(x.shape[2:], 1),
        three(node.shape[2:], 1),
        three(w.shape[2:], 1),
        three(p["stride"], 1),
        three(p["low"], 0),
        three(p["dilate"], 1),
        three(p["base_dilate"], 1),
    )


@dataclass(frozen=True)
class Band:
    """A part of the result that is computed together, and what it is computed from."""

    rows: int
    columns: int
    direct: bool
    pitch: int
    channel: int  #: distance of channels
    copied_rows: int
    phases: tuple[int, int]
    taps: tuple[int, ...]
    scratch: int  #: elements of the copy
    step: int = 1  #: distance of columns
    block: int = 0  #: output channels whose weights lie side by side; 0: they do not

    @property
    def can_flatten(self) -> bool:
        """Whether its results can be one row: they lie so, or in rows so short and many that these are moved together."""
        return bool(self.block) or self.pitch == self.columns or (self.columns < LANES and self.rows > _MIN_MOVED_ROWS)

    @property
    def pixels(self) -> int:
        """From the first to the last, gaps between rows included."""
        return (self.rows - 1) * self.pitch + self.columns

    @property
    def utilization(self) -> float:
        """The part of the computed pixels that is wanted."""
        return 1.0 if self.block else utilization(self.rows, self.columns, self.pitch)


def utilization(rows: int, columns: int, pitch: int) -> float:
    """The part of the computed pixels that is wanted of rows that are ``pitch`` apart."""
    pixels = (rows - 1) * pitch + columns
    return rows * columns / (-(-pixels // LANES) * LANES)


def even_part(extent: int, most: int) -> int:
    """The part size of a division of ``extent`` into as few parts of at most ``most`` as possible."""
    count = -(-extent // max(1, most))
    return -(-extent // count)


def _direct_pixels(s: ConvShape, itemsize: int) -> int:
    """Pixels of a band at most that is no copy: it is read once for each block of output channels, so that it stays in a cache."""
    pixel, operand = s.inputs * s.kernel[0] * itemsize, s.inputs * prod(s.size) * itemsize  # bytes
    if s.outputs < _MIN_REREAD_CHANNELS or operand <= CpuConstants.l2_bytes // 2:
        return BAND_PIXELS
    near = 2 * CpuConstants.l1_bytes // 3 // pixel
    if near >= _MIN_NEAR_PIXELS:
        return min(near, BAND_PIXELS)
    if operand <= CpuConstants.l2_bytes:
        return BAND_PIXELS
    return max(CpuConstants.l2_bytes // 2 // pixel, _MIN_FAR_PIXELS)


@cached_by_extents(1024)
def band_of(s: ConvShape, itemsize: int, computed: bool = False, block: int = 0) -> Band | None:
    """The band of a convolution on the CPU, None if none fits.

    Args:
        computed: the operand is, and what a band reads is a copy.
        block: output channels of a packed weight's block, 0 for one that is not packed.
    """
    _, oh, ow = s.result
    _, kh, kw = s.kernel
    if prod(s.kernel) > _MAX_TAPS:
        return None
    reach = [(k - 1) * d for k, d in zip(s.kernel, s.dilate, strict=True)]
    ends = all(
        low == 0 and (out - 1) * step + r < d
        for low, out, step, r, d in zip(s.low, s.result, s.stride, reach, s.size, strict=True)
    )
    most_pixels = _PACKED_PIXELS if block else BAND_PIXELS
    if not computed and ends and all(v == 1 for v in s.base) and (block or all(v == 1 for v in s.stride)):
        d, h, w = s.size
        rows = even_part(oh, min(_direct_pixels(s, itemsize), most_pixels) // (w * s.stride[1]))
        columns = ow if rows > 1 or ow <= most_pixels else even_part(ow, most_pixels)
        taps = tuple(
            (k * s.dilate[0] * h + i * s.dilate[1]) * w + j * s.dilate[2]
            for k in range(s.kernel[0])
            for i in range(kh)
            for j in range(kw)
        )
        pitch, step = s.stride[1] * w, s.stride[2]
        band = Band(rows, columns, True, pitch, d * h * w, 0, (1, 1), taps, 0, step, block)
        if band.pixels >= LANES or block:
            return band
    ph, pw = (
        1 if k == 1 else min(k, step) if dilate == 1 else step
        for k, step, dilate in zip(s.kernel[1:], s.stride[1:], s.dilate[1:], strict=True)
    )
    more_rows, more_columns = reach[1] // s.stride[1], reach[2] // s.stride[2]
    planes = s.inputs * s.kernel[0] * ph * pw * itemsize

    def taken(rows: int, columns: int) -> int:
        return planes * (rows + more_rows) * (columns + more_columns)

    line = planes * (ow + more_columns)
    most = max(1, min(oh, BAND_BYTES // line - more_rows, most_pixels // (ow + more_columns)))
    # fewer bands copy less; but a band that fills its vectors better may be worth some more
    fewest = -(-oh // most)
    candidates = {-(-oh // count) for count in range(fewest, min(oh, fewest + 3) + 1)}

    def worth(rows: int) -> float:
        new = oh / (-(-oh // rows) * rows)  # of the rows of all bands: the last one reaches back over the one before
        used = 1.0 if block else utilization(rows, ow, ow + more_columns)
        return used * new * rows / (rows + 0.1 * more_rows)

    rows, columns = max(candidates, key=lambda r: (worth(r), r)), ow
    if taken(rows, columns) > MAX_COPY_BYTES or columns > most_pixels:
        most = BAND_BYTES // (planes * (rows + more_rows)) - more_columns
        columns = even_part(ow, min(max(most, 4 * LANES), most_pixels))
        if taken(rows, columns) > MAX_COPY_BYTES:
            return None
    pitch, copied = columns + more_columns, rows + more_rows
    plane = copied * pitch
    places: list[int] = []
    for k in range(s.kernel[0]):
        for i in range(0, kh * s.dilate[1], s.dilate[1]):
            for j in range(0, kw * s.dilate[2], s.dilate[2]):
                phase = (k * ph + i % s.stride[1]) * pw + j % s.stride[2]
                places.append(phase * plane + i // s.stride[1] * pitch + j // s.stride[2])
    channel = s.kernel[0] * ph * pw * plane
    scratch = s.inputs * channel + 64
    return Band(rows, columns, False, pitch, channel, copied, (ph, pw), tuple(places), scratch, block=block)


def packed_outputs(s: ConvShape, itemsize: int, is_free: bool) -> int:
    """The output channels of a block in which a weight is packed best, 0 if it stays as it is.

    Args:
        is_free: see ``Selector.packed_outputs``.
    """
    block = next((n for n in block_sizes(itemsize) if s.outputs % n == 0), 0)
    band = band_of(s, itemsize)
    if prod(s.base) > 1 or not block or band is None or band_of(s, itemsize, False, block) is None:
        return 0
    spared = nominal(s.batch * prod(s.result)) * (1 / band.utilization - 1)
    if not is_free and spared < _MIN_SPARED_PIXELS:
        return 0
    least = _MIN_SPARSE_PACKED_TERMS if band.utilization < _SPARSE_UTILIZATION else _MIN_PACKED_TERMS
    return block if s.inputs * prod(s.kernel) >= least else 0
