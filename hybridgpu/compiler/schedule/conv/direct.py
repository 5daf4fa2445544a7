# SPDX-License-Identifier: Apache-2.0
"""Direct convolutions: the numbers of a generated kernel.

The loops live in ``kernels/conv_*.h``. On the CPU a kernel computes a *band* of rows at a time (:mod:`.bands`). The epilogue
(bias, activation, residual) is the body of a lambda that gets finished rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from ....core.dataclass import dataclass
from ...ir.computed import computed
from ...ir.graph import Node
from ...ir.indexing import Expr, Index, Var
from ...passes.fuse.group import Group, label
from ...primitives.packed_weight import packed_weight
from ...primitives.views import RESHAPES, strip_views
from ...size_buckets import bucket, worth_argument
from ...target import Target
from ..blocks import Block, Line, for_head, texts
from ..choice import Choice
from ..cuda.index_type import index_type
from ..in_place import in_place_pairs
from ..kernel import CWriter, Kernel, Launch, Statement, unravel
from ..program_kernel import TargetOptions, kernel_of_program
from ..prologue import ImagePrologue, image_prologue
from ..scalar import ScalarProgram
from .bands import Band, ConvShape, band_of, shape_of
from .fields import ConvFields, CpuConvFields, CudaConvFields
from .operand_layout import PlaneLayout, layout_of_copy, plane_layout
from .pool_cuda import PoolingEpilogue, pooling_epilogue

if TYPE_CHECKING:
    from typing_extensions import Unpack  # which checkers know without the package

__all__ = [
    "Convolution",
    "convolution",
    "epilogue_lines",
    "epilogue_statements",
    "recompute_factor",
    "schedule_conv",
    "swapped_planes",
]

_THREADS = 128  #: of a block
_MAX_LINE_REGISTERS = 16  #: elements of a line that a thread has at hand
_UNITS = 64  #: units of a sample that a convolution has at least, if it has so many channels (CPU), …
_CHUNKS = 32  #: … and chunks of a step: where there are more, these share few bands
_COMPUTED_CHUNKS = 8  #: … the same, where a band is computed
_SLICE_CHANNELS = 16  #: … of so many of which a unit is one, or of four times as many where it copies its band


def swapped_planes(conv: Node) -> tuple[tuple[bool, bool], PlaneLayout, PlaneLayout] | None:
    """How a GPU's kernel of ``conv`` reads views that exchange batch and channels; None if it does not.

    Returns:
        (whether the first operand is copied, and the second: to views of arrays of planes), the planes of both.
    """
    groups, (x, w) = conv.params["groups"], conv.inputs
    a, b = plane_layout(x, groups, True), plane_layout(w, groups, False)
    copied = a is None or any(a.reversed), b is None or any(b.reversed)
    if all(copied):
        return None
    a = layout_of_copy(x, groups, True) if a is None or copied[0] else a
    b = layout_of_copy(w, groups, False) if b is None or copied[1] else b
    # channels of one group follow those of another
    joined = groups == 1 or (a.group == a.sample * w.shape[1] and b.group == b.channel * (w.shape[0] // groups))
    outside = a.samples_outside, b.samples_outside  # (of one channel there is no telling)
    return (copied, a, b) if joined and True in outside and False not in outside else None


def recompute_factor(target: Target, node: Node) -> float | None:
    """The times that elements of the operand of the convolution ``node`` would be computed, None if that cannot be."""
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


def epilogue_lines(
    product: tuple[str, str],
    var: str,
    extent: int,
    once: Sequence[Statement],
    each: Sequence[Statement],
    place: Sequence[str] = (),
) -> list[Line]:
    """The epilogue of results that lie in ``line``, on the CPU; ``place``: what each begins with."""
    element = [*place, f"const {product[0]} {product[1]} = line[{var}];", *texts(each)]
    return [*texts(once), Block(["HG_SIMD", for_head(var, "0", str(extent))], element)]


@dataclass
class Convolution:
    """A convolution whose kernel is being made.

    Attributes:
        members: the primitives that it computes.
        shape: what its loops know.
        image: how the operand is computed, if it is not in memory.
        windows: the windows that results are reduced in, if they are.
        axes: variables of the result.
        swapped: the planes of both operands, where it adds over the batch of another convolution (CUDA).
        fields: what all records of a convolution have.
        once, each: the epilogue, as of :func:`epilogue_statements`.
        arrays: the operands in memory.
        block: output channels of a packed weight that lie side by side, 0 for one that is not packed.
        counts: how many elements of arrays are read, where all that are read are not ``arrays`` from end to end.
    """

    members: list[Node]
    conv: Node
    writer: CWriter
    shape: ConvShape
    image: ImagePrologue | None
    windows: PoolingEpilogue | None
    axes: list[Var]
    swapped: tuple[PlaneLayout, PlaneLayout] | None
    fields: ConvFields
    once: list[Statement]
    each: list[Statement]
    arrays: list[Node]
    block: int
    counts: list[dict[Node, int]] | None

    def kernel(
        self,
        fields: ConvFields,
        choice: Choice,
        extents: tuple[int, ...],
        header: str,
        computes_once: bool = True,
        **more: Unpack[TargetOptions],
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
    """The record that all kernels of ``conv`` begin with; the arguments are those of :func:`schedule_conv`."""
    shape = shape_of(conv)
    assert shape is not None and program.contraction is not None
    planes = None if target.name == "cpu" else swapped_planes(conv)
    swapped = planes[1:] if planes and not any(planes[0]) else None
    x, w = (strip_views(i) if swapped else strip_views(i, RESHAPES) for i in conv.inputs)
    packed = packed_weight(conv) if target.name == "cpu" else None
    w, block = packed or (w, 0)
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
    fields = ConvFields(
        pointers=writer.pointer_list([s.node for s in program.stores]),
        x="image" if image else writer.pointers[x],
        w=writer.pointers[w],
        axes=[v.name for v in axes],
        shape=shape,
        product=(conv.dtype.compute, writer.names[program.contraction]),
    )
    return Convolution(
        members, conv, writer, shape, image, windows, axes, swapped, fields, once, each, arrays, block, counts
    )


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
    band = band_of(shape, c.conv.dtype.size, c.image is not None, c.block)
    assert band is not None
    pixels = shape.is_pointwise and band.direct  # one kernel whatever the number of inputs
    _, height, width = shape.result
    bands = shape.groups * shape.result[0] * -(-height // band.rows) * -(-width // band.columns)
    slices = _slices(shape, band, bands)
    units = c.axes[0].extent * bands * slices
    flat = _is_flat(c, band)
    run = band.rows * band.columns if flat else band.columns
    place = [f"const Index {c.axes[-1].name} = first + j;"]
    return c.kernel(
        CpuConvFields(
            **vars(c.fields),
            image=c.image,
            band=band,
            is_pointwise=pixels,
            slices=slices,
            flat=flat,
            epilogue=epilogue_lines(c.fields.product, "j", run, c.once, c.each, place),
        ),
        Choice(
            {
                "rows": band.rows,
                "columns": band.columns,
                "copies": not band.direct,
                "utilization": round(band.utilization, 2),
                "block": c.block or None,
            }
        ),
        (units, shape.inputs) if pixels else (units,),
        "conv_cpu.h",
        # a last band that reaches back over the one before computes elements again
        computes_once=height % band.rows == 0 and width % band.columns == 0,
        compile_cost=3,
        # where there are bands enough, a chunk copies none that another one copies, too
        chunk_multiple=_chunk_multiple(units, slices, _COMPUTED_CHUNKS if c.image else _CHUNKS),
    )


def _is_flat(c: Convolution, band: Band) -> bool:
    """Whether the epilogue of a band of whole rows sees no end of a row: what it reads and writes goes on in the next one."""
    height, width = c.shape.result[1:]
    if len(c.axes) < 4 or not (band.can_flatten and band.columns == width and height > 1 < width):
        return False
    row, column = c.axes[-2:]
    return c.writer.program.runs_on(row, column)


@computed
def _chunk_multiple(units: int, slices: int, chunks: int) -> int:
    return max(n for n in range(1, slices + 1) if slices % n == 0 and (n == 1 or units // n >= chunks))


def _slices(shape: ConvShape, band: Band, bands: int) -> int:
    """Parts of the output channels of a group, where there are too few ``bands`` of a sample for many threads.

    Each makes the copy of its band anew if it is the first that a thread takes at once, so that it should compute much of that.
    """
    most = shape.outputs // (band.block or (_SLICE_CHANNELS if band.direct else 4 * _SLICE_CHANNELS))
    return max(1, min(-(-_UNITS // bands), most))


def _thread_kernel(c: Convolution, target: Target) -> Kernel:
    """On a GPU: a thread has some neighbours of a sample's results, or a lane of a window of them."""
    conv, shape, windows, swapped, named = c.conv, c.shape, c.windows, c.swapped, c.writer.runtime_args.named
    size, taps = prod(shape.size), prod(shape.kernel)
    dynamic = swapped is not None and worth_argument(shape.inputs)
    if windows:
        samples, per_sample, per_thread = windows.samples, windows.count * windows.lanes, 1
        coordinates = windows.before
    else:
        samples, per_sample = c.axes[0].extent, conv.size // max(conv.shape[0], 1)
        per_thread = _results_per_thread(shape, target, per_sample)
        coordinates = unravel(c.axes, "e")
        if per_thread > 1:
            coordinates[-1] = replace(coordinates[-1], name=f"{coordinates[-1].name}_0")
    programs = [c.writer.program, *([c.image.program] if c.image else [])]
    fields = CudaConvFields(
        **vars(c.fields),
        once=c.once,
        each=c.each,
        image=c.image,
        index_type=index_type(programs, [n.size for n in (*c.arrays, conv)]),
        per_sample=per_sample // per_thread,
        per_thread=per_thread,
        channels=f"(int){named('depth', shape.inputs)}" if dynamic else str(shape.inputs),
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
