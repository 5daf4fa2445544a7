# SPDX-License-Identifier: Apache-2.0
"""The constants of a host's processor: one record for all of them.

Sizes of parts, and so the order in which sums are taken, follow from these figures. Results of the strict mode are the
same on every processor, so there is no record a processor, and ``hybridgpu calibrate`` shows what it measures without
applying it.
"""

from __future__ import annotations

from ...core.dataclass import dataclass
from .record import DeviceConstants, constant

__all__ = ["CpuConstants"]

_KIB = 1024
_MEASURED = "measured on one core of an EPYC (Zen 5, AVX-512)"
_TUNED = "chosen by measurement on one core of an EPYC (Zen 5)"
_CHOSEN = "chosen with the kernels that it decides about; no figures were kept"
_DATASHEET = "data sheet of Zen 5; Golden Cove has as much, older processors less"


@dataclass(frozen=True)
class CpuConstants(DeviceConstants):
    """A processor with vectors, and caches of three levels."""

    loop_nests = True
    host_memory = True
    scatters_in_result = True

    op_seconds: float = constant(3e-11, "s", "a scalar operation of a fused kernel, vectorised", _MEASURED, True)
    byte_seconds: float = constant(2.5e-11, "s/byte", "a byte to or from memory", _MEASURED, True)
    long_op_seconds: float = constant(
        1.2e-11,
        "s",
        "a scalar operation of a fused kernel that computes much, such as a softmax",
        "measured on one core of an EPYC (Zen 5): softmax of 4096 by 1024 and a chain of functions",
        True,
    )
    product_op_seconds: float = constant(
        5e-12,
        "s",
        "a scalar operation of a convolution or product",
        "measured: a residual block of ResNet-18, Zen 5",
        True,
    )
    chunk_seconds: float = constant(
        5e-6,
        "s",
        "a chunk of a step that a thread takes at once: two of them are over no later on two threads that are awake",
        "measured on two cores of an EPYC (Zen 5): a chain of functions, 4,000 to 8,000 elements",
        True,
    )
    launch_seconds: float = constant(1e-8, "s", "one more kernel of a program: a call of a function", "assumed")
    product_load_ops: float = constant(
        2, "operations", "one more array, for an element of a product's operand", "assumed"
    )
    row_load_ops: int = constant(2, "operations", "loading an element of a row that was just read", _CHOSEN)
    concat_trips: float = constant(
        5,
        "count",
        "trips through memory of what slices of a concat share: written, for which its lines are fetched, read by the "
        "loops of two slices; its operands are read by one more kernel",
        "counted",
    )
    concat_operands: int = constant(64, "count", "arrays that one kernel concatenates", _CHOSEN)
    concat_step_operands: int = constant(32, "count", "arrays of a step where a concat has more", _CHOSEN)
    pointer_alignment: int = constant(64, "bytes", "what kernels take their pointers to be multiples of", "our choice")
    thin_rows: int = constant(4, "count", "rows of a product that is bound by reading its matrix", _CHOSEN)
    small_product_ops: int = constant(
        1 << 19, "operations", "multiplications of a product that take less than copying its operands", _CHOSEN
    )
    tiled_product_ops: int = constant(
        1 << 24, "operations", "multiplications of a product beyond which its operands are copied into blocks", _CHOSEN
    )
    copied_column_bytes: int = constant(
        2 * _KIB, "bytes", "a column of a product's right operand of which some dozens may be copied", _CHOSEN
    )
    wasteful_conv_ops: int = constant(
        1 << 23,
        "operations",
        "multiplications of a direct convolution, those that do not count included, that take less than unfolding",
        _CHOSEN,
    )
    panel_overhead: float = constant(
        1.5, "share", "arithmetic in panels, against loops over all of it that load their constants once", _CHOSEN
    )
    strided_read_bytes: int = constant(
        0, "bytes", "an array that a product may compute from across its rows: never in vectors", _CHOSEN
    )
    contiguous_run: int = constant(256, "count", "neighbours in memory that are worth one more pass", _CHOSEN)
    l1_bytes: int = constant(48 * _KIB, "bytes", "a core's first-level cache for data", _DATASHEET)
    l2_bytes: int = constant(1024 * _KIB, "bytes", "a core's second-level cache", _DATASHEET)
    l3_bytes: int = constant(
        16 * 1024 * _KIB,
        "bytes",
        "the third-level cache, as far as one core counts on it",
        "assumed: half of Zen 5's 32 MiB",
    )
    l2_byte_seconds: float = constant(4e-12, "s/byte", "a byte to or from the second-level cache", _MEASURED, True)
    l3_byte_seconds: float = constant(8e-12, "s/byte", "a byte to or from the third-level cache", _MEASURED, True)
    line_bytes: int = constant(64, "bytes", "a cache line", "the same for all x86-64 processors, and most of Arm")
    vector_bytes: int = constant(64, "bytes", "the widest vector", "AVX-512; narrower ones take several")
    aliased_bytes: int = constant(
        1024, "bytes", "lines whose distances are multiples of it share few sets of a first-level cache", _DATASHEET
    )
    prefetched_bytes: int = constant(4096, "bytes", "between what is in work and what is fetched ahead", _TUNED, True)
    far_prefetched_bytes: int = constant(
        16 * _KIB, "bytes", "the same where memory is streamed past the caches", _TUNED, True
    )
    ordered_byte_cost: int = constant(
        4, "count", "what a byte in order costs, in a unit of quarters of it", "by definition"
    )
    cached_byte_cost: int = constant(5, "count", "the same, across rows whose lines stay in a cache", _CHOSEN)
    tiled_byte_cost: int = constant(6, "count", "the same, through a tile that turns it", _CHOSEN)
    scattered_byte_cost: int = constant(64, "count", "the same, of a line of its own", _CHOSEN)
    prefetch_ops: int = constant(
        10, "operations", "an element of each array, from which on several arrays are fetched ahead", _CHOSEN
    )
    streamed_byte_ops: int = constant(
        4, "operations", "a byte, up to which a kernel is held up by memory and stores past the caches", _CHOSEN
    )
    streams: int = constant(128, "count", "lines that a core follows at once", _TUNED, True)
    load_ops: float = constant(1.25, "operations", "one more array, for an element of a window", _TUNED, True)
    half_ops: int = constant(8, "operations", "an element that float16 is converted to or from", _TUNED, True)
    bfloat16_ops: int = constant(1, "operations", "an element that bfloat16 is converted to or from", _TUNED, True)

    @property
    def in_place_bytes(self) -> int:
        return self.l2_bytes

    def rate(self, blocks: int) -> float:
        return 1 / self.byte_seconds

    def seconds_a_byte(self, nbytes: float) -> float:
        if nbytes <= self.l2_bytes:
            return self.l2_byte_seconds
        return self.l3_byte_seconds if nbytes <= self.l3_bytes else self.byte_seconds
