# SPDX-License-Identifier: Apache-2.0
"""A binding of cuBLASLt 12 and 13: where the library is, the functions for products of matrices, its errors.

Nothing is loaded before :func:`find` is called, and what keeps cuBLASLt from being used is a sentence, not an error.
Where CuPy has loaded it already, that is the library which is found.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from ctypes import POINTER, c_float, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

from ...core.settings import use_cublaslt
from .ctypes_binding import ForeignBinding, ForeignError, Opaque, find_binding
from .nvidia_wheels import files, library_folders, places

__all__ = ["Binding", "CublasLtError", "Descriptor", "Heuristic", "find", "installed"]

MAJORS = (12, 13)  #: versions whose functions are these

R_32F, R_64F, R_16F, R_16BF = 0, 1, 2, 14  # cudaDataType_t
COMPUTE_32F, COMPUTE_64F, COMPUTE_32F_FAST_TF32 = 68, 70, 77  # cublasComputeType_t; nothing is emulated
OP_N, OP_T = 0, 1  # cublasOperation_t
BATCH_COUNT, BATCH_OFFSET = 5, 6  # cublasLtMatrixLayoutAttribute_t
TRANSPOSE_A, TRANSPOSE_B, EPILOGUE, BIAS_POINTER = 3, 4, 7, 8  # cublasLtMatmulDescAttributes_t
MAX_WORKSPACE, REDUCTIONS = 1, 3  # cublasLtMatmulPreferenceAttributes_t …
ALIGNMENTS = (5, 6, 7, 8)  # … of A, B, C and D
REDUCE_IN_COMPUTE_TYPE = 2  # cublasLtReductionScheme_t: in a step of its own, in a fixed order
EPILOGUE_DEFAULT, EPILOGUE_RELU, EPILOGUE_BIAS = 1, 2, 4  # cublasLtEpilogue_t
_NO_MEMORY, _NOT_SUPPORTED = 3, (8, 15)  # cublasStatus_t; of the latter: the architecture, or the configuration

#: types of attributes that are set
INT32, UINT32, INT64, UINT64, POINTER_VALUE = c_int, c_uint32, c_int64, c_uint64, c_void_p


class Heuristic(ctypes.Structure):
    """An algorithm that cuBLASLt proposes: cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", c_uint64 * 8),
        ("workspace", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    )


_SET = (c_void_p, c_int, c_void_p, c_size_t)
#: name -> types of the arguments, for the functions that return a status
_FUNCTIONS: dict[str, Sequence[Any]] = {
    "cublasLtCreate": (POINTER(c_void_p),),
    "cublasLtDestroy": (c_void_p,),
    "cublasLtMatrixLayoutCreate": (POINTER(c_void_p), c_int, c_uint64, c_uint64, c_int64),
    "cublasLtMatmulDescCreate": (POINTER(c_void_p), c_int, c_int),
    "cublasLtMatmulPreferenceCreate": (POINTER(c_void_p),),
    **{f"cublasLt{kind}Destroy": (c_void_p,) for kind in ("MatrixLayout", "MatmulDesc", "MatmulPreference")},
    **{f"cublasLt{kind}SetAttribute": _SET for kind in ("MatrixLayout", "MatmulDesc", "MatmulPreference")},
    # handle, description, layouts of A, B, C and D, preference, wanted, results, found
    "cublasLtMatmulAlgoGetHeuristic": (*(c_void_p,) * 7, c_int, POINTER(Heuristic), POINTER(c_int)),
    # handle, description, alpha, A and B with their layouts, beta, C and D with theirs, algorithm, workspace, its size,
    # stream
    "cublasLtMatmul": (*(c_void_p,) * 14, c_size_t, c_void_p),
}


class CublasLtError(ForeignError):
    """A function of cuBLASLt failed; see :class:`~.ctypes_binding.ForeignError`."""

    instead = "With HYBRIDGPU_CUBLASLT=0 in the environment products are computed by CuPy."
    no_memory = (_NO_MEMORY,)

    @classmethod
    def says_unsupported(cls, status: int) -> bool:
        return status in _NOT_SUPPORTED


class Binding(ForeignBinding):
    """A loaded libcublasLt; its major version is that of the CUDA it was built for."""

    name, functions, error = "cuBLASLt", _FUNCTIONS, CublasLtError
    numbers, texts = ("cublasLtGetVersion",), ("cublasLtGetStatusString",)

    def __init__(self, path: str) -> None:
        super().__init__(path)
        number = int(self._library.cublasLtGetVersion())
        self.major = number // 10_000
        self.version = f"{self.major}.{number % 10_000 // 100}.{number % 100}"


class Descriptor(Opaque):
    """A description that cuBLASLt holds.

    Args:
        kind: MatrixLayout, MatmulDesc or MatmulPreference.
        arguments: of the function that creates it.
    """

    def __init__(self, binding: Binding, kind: str, *arguments: int) -> None:
        super().__init__(binding, f"cublasLt{kind}Create", f"cublasLt{kind}Destroy", *arguments)
        self._set = f"cublasLt{kind}SetAttribute"

    def set(self, attribute: int, type: Any, value: int) -> None:
        """Give an attribute a value of a C type."""
        c_value = type(value)
        self._binding.call(self._set, self._made, attribute, ctypes.byref(c_value), ctypes.sizeof(c_value))


def _name(cuda: int) -> str:
    return f"cublasLt64_{cuda}.dll" if sys.platform == "win32" else f"libcublasLt.so.{cuda}"


def _wheel(cuda: int) -> list[str]:
    return library_folders("nvidia.cublas", f"nvidia.cu{cuda}")


def candidates(cuda: int) -> list[str]:
    """Paths where the library may be, the best first."""
    return places([_name(cuda)], _wheel(cuda))


def installed(cuda: int) -> bool:
    """Whether there is a wheel with the library; nothing is loaded."""
    return use_cublaslt() and cuda in MAJORS and bool(files([_name(cuda)], _wheel(cuda)))


def find(cuda: int) -> Binding | str:
    """The library, or why there is none.

    Args:
        cuda: major version of the CUDA run-time library that arrays use.
    """
    if not use_cublaslt():
        return "HYBRIDGPU_CUBLASLT=0"
    if cuda not in MAJORS:
        return f"cuBLASLt of CUDA {cuda} is not known here, only of {' and '.join(map(str, MAJORS))}"
    problem = f"cuBLASLt was not found: pip install nvidia-cublas{'-cu12' if cuda == 12 else ''}"

    def unfit(binding: Binding) -> str:
        other = f"cuBLASLt {binding.version} is not that of CUDA {cuda}, which the arrays use"
        return "" if binding.major == cuda else other

    return find_binding("cuBLASLt", candidates(cuda), Binding, problem, unfit)
