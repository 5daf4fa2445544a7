# SPDX-License-Identifier: Apache-2.0
"""The constants of array libraries: what NumPy and CuPy take for primitives, and a compiled program beside them.

They decide which eager operators are compiled (interpreter_cost.py), and so how these round. So there is one record of each
library for all machines, which is not part of a target, and nothing calibrates it.
"""

from __future__ import annotations

from math import inf

from ...core.dataclass import dataclass
from .cpu import CpuConstants
from .record import constant

__all__ = ["ARRAY_LIBRARIES", "CupyConstants", "NumpyConstants"]

_MEASURED = "measured with NumPy 2 on float32, one core of a server with AVX-512"
_PROGRAM = "measured with programs of one operator, one core of a server with AVX-512"
_NO_GPU = "assumed: no GPU was at hand"


@dataclass(frozen=True)
class NumpyConstants:
    """NumPy's functions, which run one after the other.

    Attributes:
        slow_functions: some functions of few operations take far longer than memory does.
        slow_thin_products: kernels compute matrix products of few rows better.
        owns_convolutions: a library computes convolutions, beside which views and sums are little.
    """

    slow_functions = True
    slow_thin_products = True
    owns_convolutions = False

    saved_seconds: float = constant(
        2e-4, "s", "that a call has to save for a program, which takes 0.1 to 0.3 s to make", "chosen for that wait"
    )
    saved_any_size_seconds: float = constant(
        5e-6, "s", "the same if its kernels serve other sizes, too: it is made once an operator", "chosen for that wait"
    )
    call_seconds: float = constant(1.2e-6, "s", "a function", _MEASURED, True)
    reduction_seconds: float = constant(3.5e-6, "s", "more for a reduction, before it begins", _MEASURED, True)
    series_seconds: float = constant(
        2.5e-5, "s", "more for a function that NumPy lacks: a polynomial of some 20 calls", _MEASURED, True
    )
    random_seconds: float = constant(
        3.0e-5, "s", "more for random words: ten rounds of Philox of some eight calls each", _MEASURED, True
    )
    element_seconds: float = constant(
        3.0e-10, "s", "an element of an elementwise function that memory limits", _MEASURED, True
    )
    element_op_seconds: float = constant(6.0e-11, "s", "a scalar operation of an element", _MEASURED, True)
    half_seconds: float = constant(2.5e-9, "s", "more for an element of two bytes, which is converted", _MEASURED, True)
    strided_seconds: float = constant(
        3.5e-9, "s", "an element that is read in another order than it lies in memory", _MEASURED, True
    )
    gathered_seconds: float = constant(
        4.0e-9, "s", "an element of a gather, a scatter, a scan, a random number", _MEASURED, True
    )
    conv_seconds: float = constant(
        3.0e-10, "s", "a multiplication and addition of a convolution, which is unfolded first", _MEASURED, True
    )
    dot_seconds: float = constant(
        3.5e-11,
        "s",
        "that of a matrix product of few rows, for which libraries pack the other operand",
        _MEASURED,
        True,
    )
    program_seconds: float = constant(1.5e-6, "s", "a compiled program, whatever it does", _PROGRAM, True)
    program_byte_seconds: float = constant(
        CpuConstants.byte_seconds, "s/byte", "a byte of its operands and results", "`byte_seconds` of a processor"
    )
    program_op_seconds: float = constant(
        CpuConstants.long_op_seconds, "s", "a scalar operation of it", "`long_op_seconds` of a processor"
    )
    program_product_seconds: float = constant(
        1.3e-11, "s", "a multiplication and addition of a convolution or product in it", _PROGRAM, True
    )


@dataclass(frozen=True)
class CupyConstants(NumpyConstants):
    """CuPy's functions, as far as they differ from NumPy's: each is a launch, which hides what NumPy does besides."""

    slow_functions = False
    slow_thin_products = False
    owns_convolutions = True

    saved_seconds: float = constant(8e-6, "s", "that a call has to save for a program", _NO_GPU)
    saved_any_size_seconds: float = constant(
        inf, "s", "the same if its kernels serve other sizes, too: there is no such program", "chosen"
    )
    call_seconds: float = constant(9e-6, "s", "a function", _NO_GPU)
    reduction_seconds: float = constant(0.0, "s", "more for a reduction, before it begins", _NO_GPU)
    series_seconds: float = constant(0.0, "s", "more for a function that NumPy lacks", _NO_GPU)
    random_seconds: float = constant(0.0, "s", "more for random words", _NO_GPU)


#: by the kind of device
ARRAY_LIBRARIES = {"cpu": NumpyConstants(), "cuda": CupyConstants()}
