# SPDX-License-Identifier: Apache-2.0
"""Direct convolutions: the numbers of a generated kernel.

The loops live in ``kernels/conv_*.h``. On the CPU a kernel computes a *band* of rows at a time: what
the band reads fits the second-level cache, and where padding, strides or dilations are in the way
it is first copied into rows that are padded with zeros and sorted by the phases of the strides. The
epilogue (bias, activation, residual) is the body of a lambda that gets finished rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from ....core.dataclass import dataclass
from ...devices.cpu import CpuConstants
from ...ir.computed import computed
from ...ir.dims import cached_by_extents, nominal
from ...ir.graph import Node
from ...ir.indexing import Expr, Index, Var
from ...passes.fuse.group import Group, label
from ...primitives.packed_weight import packed_weight
from ...primitives.views import RESHAPES, strip_views
from ...size_buckets import bucket, worth_argument
from ...target import Target
from ..choice import Choice
from ..cuda.index_type import index_type
from ..in_place import in_place_pairs
from ..kernel import CWriter, Kernel, Launch, Statement, unravel
from ..program_kernel import kernel_of_program
from ..prologue import ImagePrologue, image_prologue
from ..scalar import ScalarProgram
from .fields import ConvFields, CpuConvFields, CudaConvFields
from .operand_layout import PlaneLayout, layout_of_copy, plane_layout
from .pool_cuda import PoolingEpilogue, pooling_epilogue

__all__ = [
    "BAND_BYTES",
    "BAND_PIXELS",
    "LANES",
    "MAX_COPY_BYTES",
    "ConvShape",
    "Convolution",
    "band_of",
    "convolution",
    "epilogue_statements",
    "packed_outputs",
    "recompute_factor",
    "schedule_conv",
    "shape_of",
    "swapped_plane_copies",
]

BAND_BYTES = 3 * CpuConstants.l2_bytes // 16  #: bytes of a band's copy that leave room in the second-level cache
MAX_COPY_BYTES = 448 << 10  #: bytes of a copy on the stack, at the very most
BAND_PIXELS = 4 << 10  #: pixels of a band: results of a tile stay in the first-level cache
LANES = CpuConstants.vector_bytes // 4  #: floats of the widest vector
_MIN_REREAD_CHANNELS = 64  #: output channels that read a band so often that it should stay in a cache, …
_MIN_NEAR_PIXELS = 6 * LANES  #: … in the first level if a tile's pixels fit there, …
_MIN_FAR_PIXELS = 512  #: … else in the second, in rows that the hardware fetches ahead
_PACKED_PIXELS = 512  #: of a band beside a packed weight: results of a block of channels stay near
#: terms of a sum that a packed weight is worth the transposition of the results for, if pixels fill their vectors …
_MIN_PACKED_TERMS = 256
_MIN_SPARSE_PACKED_TERMS = 128  #: … and if less of them counts than this:
_SPARSE_UTILIZATION = 0.9
#: pixels of all samples that are not computed beside a packed weight, so that packing it at every call pays: a copied element
#: takes some 0.2 ns, a multiplication and addition 0.008
_MIN_SPARED_PIXELS = 100
_MAX_TAPS = 4096  #: elements of a channel's kernel (CPU)
_THREADS = 128  #: of a block
_MAX_LINE_REGISTERS = 16  #: elements of a line that a thread has at hand
_UNITS = 64  #: units of a sample that a convolution has at least, if it has so many channels (CPU), …
_CHUNKS = 32  #: … and chunks of a step: where there are more, these share few bands
_SLICE_CHANNELS = 16  #: … of so many of which a unit is one, or of four times as many where it copies its band
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
    """How much of the result is computed together, from what."""

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
    def pixels(self) -> int:
        """From the first to the last, gaps between rows included."""
        return (self.rows - 1) * self.pitch + self.columns

    @property
    def utilization(self) -> float:
        """The part of the computed pixels that is wanted."""
        if self.block:
            return 1.0
        return self.rows * self.columns / (-(-self.pixels // LANES) * LANES)


def _even_part(extent: int, most: int) -> int:
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
        rows = _even_part(oh, max(1, min(_direct_pixels(s, itemsize), most_pixels) // (w * s.stride[1])))
        columns = ow if rows > 1 or ow <= most_pixels else _even_part(ow, most_pixels)
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

    def used(rows: int, columns: int) -> float:
        if block:
            return 1.0
        pixels = (rows - 1) * (columns + more_columns) + columns
        return rows * columns / (-(-pixels // LANES) * LANES)

    line = planes * (ow + more_columns)
    most = max(1, min(oh, BAND_BYTES // line - more_rows, most_pixels // (ow + more_columns)))
    # fewer bands copy less; but a band that fills its vectors better may be worth some more
    fewest = -(-oh // most)
    candidates = {-(-oh // count) for count in range(fewest, min(oh, fewest + 3) + 1)}

    def worth(rows: int) -> float:
        new = oh / (-(-oh // rows) * rows)  # of the rows of all bands: the last one reaches back over the one before
        return used(rows, ow) * new * rows / (rows + 0.1 * more_rows)

    rows, columns = max(candidates, key=lambda r: (worth(r), r)), ow
    if taken(rows, columns) > MAX_COPY_BYTES or columns > most_pixels:
        most = BAND_BYTES // (planes * (rows + more_rows)) - more_columns
        columns = _even_part(ow, min(max(most, 4 * LANES), most_pixels))
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
    lanes = CpuConstants.vector_bytes // itemsize
    block = next((v * lanes for v in (2, 1) if s.outputs % (v * lanes) == 0), 0)
    band = band_of(s, itemsize)
    if not block or band is None or band_of(s, itemsize, False, block) is None:
        return 0
    spared = nominal(s.batch * prod(s.result)) * (1 / band.utilization - 1)
    if not is_free and spared < _MIN_SPARED_PIXELS:
        return 0
    least = _MIN_SPARSE_PACKED_TERMS if band.utilization < _SPARSE_UTILIZATION else _MIN_PACKED_TERMS
    return block if s.inputs * prod(s.kernel) >= least else 0


def swapped_plane_copies(node: Node) -> tuple[bool, bool] | None:
    """If the kernel of ``node`` for a GPU reads views that exchange batch and channels where they lie.

    Returns:
        for both operands whether it is no view of an array of planes, and a copy is made to be one; else None.
    """
    groups, (x, w) = node.params["groups"], node.inputs
    a, b = plane_layout(x, groups, True), plane_layout(w, groups, False)
    copied = a is None or any(a.reversed), b is None or any(b.reversed)
    if all(copied):
        return None
    a = layout_of_copy(x, groups, True) if a is None or copied[0] else a
    b = layout_of_copy(w, groups, False) if b is None or copied[1] else b
    return copied if _reduces_batch(node, a, b) else None


def _swapped_layouts(conv: Node) -> tuple[PlaneLayout, PlaneLayout] | None:
    """The planes of the operand and of the kernel, if ``conv`` adds over the batch of another convolution."""
    groups, (x, w) = conv.params["groups"], conv.inputs
    a, b = plane_layout(x, groups, True), plane_layout(w, groups, False)
    return (a, b) if a and b and not any((*a.reversed, *b.reversed)) and _reduces_batch(conv, a, b) else None


def _reduces_batch(conv: Node, a: PlaneLayout, b: PlaneLayout) -> bool:
    groups, (_, w) = conv.params["groups"], conv.inputs
    # channels of one group follow those of another
    joined = groups == 1 or (a.group == a.sample * w.shape[1] and b.group == b.channel * (w.shape[0] // groups))
    outside = a.samples_outside, b.samples_outside  # (of one channel there is no telling)
    return joined and True in outside and False not in outside


def recompute_factor(target: Target, node: Node) -> float | None:
    """How often elements of the operand of the convolution ``node`` would be computed, None if that cannot be."""
    shape = shape_of(node)
    assert shape is not None
    if any(v > 1 for v in shape.base):
        return None
    size = shape.inputs * prod(shape.size)
    if target.name != "cpu":
        return shape.work / (shape.batch * shape.groups * size)
    band = band_of(shape, node.dtype.size, True)
    if band is None:
        return None
    planes, height, width = shape.result
    return planes * -(-height // band.rows) * -(-width // band.columns) * band.scratch / size


def epilogue_statements(
    program: ScalarProgram, conv: Node, writer: CWriter
) -> tuple[list[Var], list[Statement], list[Statement]]:
    """The result's axes, and what follows the convolution: statements of a row of results, and of each of them."""
    axis_of = {v.name: v for v in program.vars}
    axes = [axis_of.get(f"i{k}", Var(f"i{k}", 1)) for k in range(conv.ndim)]
    once: list[Statement] = []
    each: list[Statement] = []
    inner = {program.contraction}
    for s in program.scalars:
        statement = writer.statement(s)
        dependent = axes[-1] in s.vars or any(a in inner for a in s.args)
        if dependent:
            inner.add(s)
        if statement:
            (each if dependent else once).append(statement)
    each += [
        Statement("", f"y{k}[{writer.address_text(s.offset)}]", writer.names[s.value])
        for k, s in enumerate(program.stores)
    ]
    return axes, once, each


@dataclass
class Convolution:
    """A convolution whose kernel is being made.

    Attributes:
        members: the primitives that it computes.
        shape: what its loops know.
        image: how the operand is computed, if it is not in memory.
        windows: the windows that results are reduced in, if they are.
        axes: variables of the result.
        fields: those of ConvFields.
        arrays: the operands in memory.
        counts: how many elements of arrays are read, where all that are read are not ``arrays`` from end to end.
    """

    members: list[Node]
    conv: Node
    writer: CWriter
    shape: ConvShape
    image: ImagePrologue | None
    windows: PoolingEpilogue | None
    axes: list[Var]
    fields: dict[str, Any]
    arrays: list[Node]
    counts: list[dict[Node, int]] | None

    def kernel(
        self,
        fields: ConvFields,
        choice: Choice,
        extents: tuple[int, ...],
        header: str,
        computes_once: bool = True,
        **more: Any,
    ) -> Kernel:
        """The kernel; ``computes_once``: no element is computed twice; the rest is as for :func:`kernel_of_program`."""
        image = self.image
        loaded = [image.elements_read] if image else []
        if image:
            choice = replace(choice, prologue=f"computes {label(strip_views(self.conv.inputs[0]))} as it loads it")
        return kernel_of_program(
            self.writer,
            "conv",
            self.members,
            fields,
            choice,
            extents,
            (*(image.headers if image else ()), *(("reduce.h",) if self.windows else ()), header),
            whole=self.arrays if self.counts is None else (),
            also=loaded if self.counts is None else self.counts,
            in_place=in_place_pairs(self.writer.program, [*self.arrays, *(n for read in loaded for n in read)])
            if computes_once
            else [],
            **more,
        )


def convolution(
    program: ScalarProgram, conv: Node, target: Target, members: list[Node], prologues: Mapping[int, Group], at: Index
) -> Convolution:
    """What kernels of ``conv`` have in common; the arguments are those of :func:`schedule_conv`."""
    shape = shape_of(conv)
    assert shape is not None and program.contraction is not None
    swapped = target.name != "cpu" and _swapped_layouts(conv) is not None
    x, w = (strip_views(i) if swapped else strip_views(i, RESHAPES) for i in conv.inputs)
    packed = packed_weight(conv.inputs[1])
    if packed:
        w = packed[0]
    writer = CWriter(target, program, allows_dynamic=True)
    image = None
    if prologues:
        (producer,) = prologues.values()
        image = image_prologue(producer, conv.inputs[0], writer, shape.stride[2] if target.name == "cpu" else 0)
    arrays = [w] if image else [x, w]
    for node in arrays:
        writer.pointers.setdefault(node, f"x{len(writer.pointers)}")
    windows = None
    once: list[Statement] = []
    each: list[Statement] = []
    if program.reduced:
        windows, axes = pooling_epilogue(program, at, writer)
    else:
        axes, once, each = epilogue_statements(program, conv, writer)
    counts = None
    if target.name != "cpu" and not image and not swapped:
        of_x, of_w = _elements_read(conv, at)
        counts = [{x: of_x}, {w: of_w}]
    fields = {
        "pointers": writer.pointer_list([s.node for s in program.stores]),
        "x": "image" if image else writer.pointers[x],
        "w": writer.pointers[w],
        "axes": [v.name for v in axes],
        "shape": shape,
        "product": (conv.dtype.compute, writer.names[program.contraction]),
        "once": once,
        "each": each,
    }
    return Convolution(members, conv, writer, shape, image, windows, axes, fields, arrays, counts)


def schedule_conv(
    program: ScalarProgram, conv: Node, target: Target, members: list[Node], prologues: Mapping[int, Group], at: Index
) -> Kernel:
    """The kernel of a group around ``conv``; ``program.vars`` are the result's axes above extent 1.

    Args:
        prologues: the group that says how to compute the operand, if it is not in memory.
        at: the index of ``conv`` in ``program.vars``, some of which may be reduced (CUDA).
    """
    c = convolution(program, conv, target, members, prologues, at)
    return _band_kernel(c) if target.name == "cpu" else _thread_kernel(c, target)


def _band_kernel(c: Convolution) -> Kernel:
    """On the CPU: bands of the result, tile after tile."""
    shape = c.shape
    _, block = packed_weight(c.conv.inputs[1]) or (None, 0)
    band = band_of(shape, c.conv.dtype.size, c.image is not None, block)
    assert band is not None
    pixels = shape.is_pointwise and band.direct  # one kernel whatever the number of inputs
    _, height, width = shape.result
    bands = shape.groups * shape.result[0] * -(-height // band.rows) * -(-width // band.columns)
    slices = _slices(shape, band, bands)
    units = c.axes[0].extent * bands * slices
    return c.kernel(
        CpuConvFields(**c.fields, image=c.image, band=band, is_pointwise=pixels, slices=slices),
        Choice(
            {
                "rows": band.rows,
                "columns": band.columns,
                "copies": not band.direct,
                "utilization": round(band.utilization, 2),
                "block": block or None,
            }
        ),
        (units, shape.inputs) if pixels else (units,),
        "conv_cpu.h",
        # a last band that reaches back over the one before computes elements again
        computes_once=height % band.rows == 0 and width % band.columns == 0,
        compile_cost=3,
        # where there are bands enough, a chunk copies none that another one copies, too
        chunk_multiple=_chunk_multiple(units, slices),
    )


@computed
def _chunk_multiple(units: int, slices: int) -> int:
    return max(n for n in range(1, slices + 1) if slices % n == 0 and (n == 1 or units // n >= _CHUNKS))


def _slices(shape: ConvShape, band: Band, bands: int) -> int:
    """Parts of the output channels of a group, where there are too few ``bands`` of a sample for many threads.

    Each makes the copy of its band anew if it is the first that a thread takes at once, so that it should compute much of that.
    """
    most = shape.outputs // (band.block or (_SLICE_CHANNELS if band.direct else 4 * _SLICE_CHANNELS))
    return max(1, min(-(-_UNITS // bands), most))


def _thread_kernel(c: Convolution, target: Target) -> Kernel:
    """On a GPU: a thread has some neighbours of a sample's results, or a lane of a window of them."""
    conv, shape, windows, named = c.conv, c.shape, c.windows, c.writer.runtime_args
    swapped = _swapped_layouts(conv)
    size, taps = prod(shape.size), prod(shape.kernel)
    dynamic = swapped is not None and worth_argument(shape.inputs)
    coordinates: list[Statement] = []
    if windows:
        samples, per_sample, per_thread = windows.samples, windows.count * windows.lanes, 1
    else:
        samples, per_sample = c.axes[0].extent, conv.size // max(conv.shape[0], 1)
        per_thread = _results_per_thread(shape, target, per_sample)
        coordinates = unravel(c.axes, "e")
        if per_thread > 1:
            coordinates[-1] = replace(coordinates[-1], name=f"{coordinates[-1].name}_0")
    programs = [c.writer.program, *([c.image.program] if c.image else [])]
    fields = CudaConvFields(
        **c.fields,
        image=c.image,
        index_type=index_type(programs, [n.size for n in (*c.arrays, conv)]),
        per_sample=per_sample // per_thread,
        per_thread=per_thread,
        channels=f"(int){named.reduction_length(shape.inputs)}" if dynamic else str(shape.inputs),
        # from sample to sample and from channel to channel, and so in the kernel
        sample_stride=swapped[0].channel if swapped else size * shape.inputs * shape.groups,
        channel_stride=swapped[0].sample if swapped else size,
        filter_stride=swapped[1].channel if swapped else taps * shape.inputs,
        filter_channel_stride=swapped[1].sample if swapped else taps,
        threads=_THREADS,
        coordinates=coordinates,
        windows=windows,
    )
    choice = Choice(
        {
            "neighbours": per_thread if per_thread > 1 else None,
            "window": windows.lanes * windows.per_lane if windows else None,
            "lanes": windows.lanes if windows else None,
        },
        why=f"{windows.lanes * windows.per_lane} results are reduced, by {windows.lanes} threads together"
        if windows
        else "",
    )
    launch = Launch(threads=_THREADS, extent=0, scale=per_sample // per_thread, per_block=_THREADS)
    return c.kernel(
        fields, choice, (samples,), "conv_cuda.h", computes_once=windows is None, compile_cost=3, launch=launch
    )


def _results_per_thread(shape: ConvShape, target: Target, per_sample: int) -> int:
    """Results that a thread computes: neighbours share what they load, if threads are left for every multiprocessor."""
    enough = _THREADS * target.gpu.multiprocessors
    width, kernel, stride, dilate = shape.result[2], shape.kernel[2], shape.stride[2], shape.dilate[2]
    for count in (4, 2):
        loaded = (count - 1) * stride + (kernel - 1) * dilate + 1
        if width % count == 0 and loaded <= _MAX_LINE_REGISTERS and bucket(shape.batch) * per_sample >= count * enough:
            return count
    return 1


def _elements_read(conv: Node, index: Sequence[Expr]) -> tuple[int, int]:
    """Elements of its operand and of its kernel that ``conv`` reads for its results at all values of ``index``."""
    (x, w), p = conv.inputs, conv.params
    samples, channels, *places = map(_values, index)
    groups = {o // (w.shape[0] // p["groups"]) for o in channels}
    operand, weights = len(samples) * len(groups) * w.shape[1], len(channels) * w.shape[1]
    for k, positions in enumerate(places):
        extent, base, taps = x.shape[2 + k], p["base_dilate"][k], w.shape[2 + k]
        starts = [at * p["stride"][k] - p["low"][k] for at in positions]
        pairs = ((at + t * p["dilate"][k], t) for at in starts for t in range(taps))
        met = [(at, t) for at, t in pairs if at % base == 0 and 0 <= at < (extent - 1) * base + 1]
        operand *= len({at for at, _ in met})
        weights *= len({t for _, t in met})
    return operand, weights


def _values(e: Expr) -> set[int]:
    """All that an affine expression may be."""
    values = {e.const}
    for atom, c in e.terms:
        values = {at + c * v for at in values for v in range(atom.low, atom.high + 1)}
    return values
