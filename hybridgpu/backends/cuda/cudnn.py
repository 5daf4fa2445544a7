# SPDX-License-Identifier: Apache-2.0
"""A binding of cuDNN 9 (or 8): where the library is, its functions, its errors.

The functions are those for convolutions alone, which both versions have. Nothing is loaded before
:func:`find` is called, and what keeps cuDNN from being used is a sentence, not an error.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Sequence
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_size_t, c_void_p
from typing import Any

from ...core.settings import use_cudnn
from .ctypes_binding import ForeignBinding, ForeignError, Opaque, find_binding
from .nvidia_wheels import files, library_folders, places

__all__ = ["Binding", "CudnnError", "Descriptor", "Performance", "find", "installed"]

MAJORS = (9, 8)  #: versions whose functions are these, the one that is preferred first

FLOAT, DOUBLE, HALF, BFLOAT16 = 0, 1, 2, 9  # cudnnDataType_t
DEFAULT_MATH, TENSOR_OP_MATH, FMA_MATH = 0, 1, 3  # cudnnMathType_t
NCHW = 0  # cudnnTensorFormat_t
CROSS_CORRELATION = 1  # cudnnConvolutionMode_t: the kernel is not reversed
DETERMINISTIC = 1  # cudnnDeterminism_t
RELU, IDENTITY = 1, 5  # cudnnActivationMode_t
NAN_TO_ZERO = 0  # cudnnNanPropagation_t: what the fused call demands
_NOT_SUPPORTED_8, _NOT_SUPPORTED_9 = 9, range(3000, 4000)  # cudnnStatus_t
_NO_MEMORY_8, _NO_MEMORY_9 = 2, 4004  # of the latter: no memory of the device; that of the host has another number


class Performance(ctypes.Structure):
    """The performance that cuDNN expects of an algorithm: cudnnConvolutionFwdAlgoPerf_t, and alike for both gradients."""

    _fields_ = (
        ("algorithm", c_int),
        ("status", c_int),
        ("time", c_float),
        ("memory", c_size_t),
        ("determinism", c_int),
        ("math", c_int),
        ("reserved", c_int * 3),
    )


_INTS = POINTER(c_int)
_DESCRIPTOR = {
    "cudnnCreate{}Descriptor": (POINTER(c_void_p),),
    "cudnnDestroy{}Descriptor": (c_void_p,),
}
_ALGORITHM = (*(c_void_p,) * 5, c_int, _INTS, POINTER(Performance))  # handle, four descriptors, wanted, found, results
_WORKSPACE = (*(c_void_p,) * 5, c_int, POINTER(c_size_t))  # handle, four descriptors, algorithm, bytes
#: handle, alpha, three descriptors and two arrays, algorithm, workspace, its size, beta, descriptor, result
_RUN = (*(c_void_p,) * 7, c_int, c_void_p, c_size_t, c_void_p, c_void_p, c_void_p)
#: handle, alpha, two descriptors and arrays, descriptor, algorithm, workspace, its size, alpha, then descriptor and array of
#: what is added, of the bias, and, behind the descriptor of the activation, of the result
_FUSED = (*(c_void_p,) * 7, c_int, c_void_p, c_size_t, *(c_void_p,) * 8)
#: name -> types of the arguments, for the functions that return a status
_FUNCTIONS: dict[str, Sequence[Any]] = {
    "cudnnCreate": (POINTER(c_void_p),),
    "cudnnDestroy": (c_void_p,),
    "cudnnSetStream": (c_void_p, c_void_p),
    **{
        name.format(kind): types
        for kind in ("Tensor", "Filter", "Convolution", "Activation")
        for name, types in _DESCRIPTOR.items()
    },
    "cudnnSetTensorNdDescriptor": (c_void_p, c_int, c_int, _INTS, _INTS),
    "cudnnSetFilterNdDescriptor": (c_void_p, c_int, c_int, c_int, _INTS),
    "cudnnSetConvolutionNdDescriptor": (c_void_p, c_int, _INTS, _INTS, _INTS, c_int, c_int),
    "cudnnSetConvolutionGroupCount": (c_void_p, c_int),
    "cudnnSetConvolutionMathType": (c_void_p, c_int),
    "cudnnSetActivationDescriptor": (c_void_p, c_int, c_int, c_double),
    **{f"cudnnGetConvolution{kind}Algorithm_v7": _ALGORITHM for kind in ("Forward", "BackwardData", "BackwardFilter")},
    **{f"cudnnGetConvolution{kind}WorkspaceSize": _WORKSPACE for kind in ("Forward", "BackwardData", "BackwardFilter")},
    **{f"cudnnConvolution{kind}": _RUN for kind in ("Forward", "BackwardData", "BackwardFilter")},
    "cudnnConvolutionBiasActivationForward": _FUSED,
}


class CudnnError(ForeignError):
    """A function of cuDNN failed; see :class:`~.ctypes_binding.ForeignError`."""

    instead = "With HYBRIDGPU_CUDNN=0 in the environment convolutions are computed without cuDNN."
    no_memory = (_NO_MEMORY_8, _NO_MEMORY_9)

    @classmethod
    def says_unsupported(cls, status: int) -> bool:
        return status == _NOT_SUPPORTED_8 or status in _NOT_SUPPORTED_9


class Binding(ForeignBinding):
    """A loaded libcudnn.

    Attributes:
        cuda: major version of the CUDA it was built for.
    """

    name, functions, error = "cuDNN", _FUNCTIONS, CudnnError
    numbers, texts = ("cudnnGetVersion", "cudnnGetCudartVersion"), ("cudnnGetErrorString",)

    def __init__(self, path: str) -> None:
        super().__init__(path)
        number = int(self._library.cudnnGetVersion())
        unit = 10_000 if number >= 90_000 else 1_000  # of the major version, from 9 on
        self.major = number // unit
        self.version = f"{self.major}.{number % unit // 100}.{number % 100}"
        self.cuda = int(self._library.cudnnGetCudartVersion()) // 1000

    def _details(self) -> str:
        """The details that cuDNN 9 has of this thread's last failure."""
        last = getattr(self._library, "cudnnGetLastErrorString", None)
        if last is None:
            return ""
        last.argtypes, last.restype = (c_char_p, c_size_t), None
        buffer = ctypes.create_string_buffer(1024)
        last(buffer, len(buffer))
        text = " ".join(buffer.value.decode("utf-8", "replace").split())
        return f" ({text})" if text else ""


class Descriptor(Opaque):
    """A description that cuDNN holds; it is set once, then only read.

    Args:
        kind: Tensor, Filter, Convolution or Activation.
    """

    def __init__(self, binding: Binding, kind: str) -> None:
        super().__init__(binding, f"cudnnCreate{kind}Descriptor", f"cudnnDestroy{kind}Descriptor")


def ints(values: Iterable[int]) -> Any:
    """A C array of int."""
    items = list(values)
    return (c_int * len(items))(*items)


def _names(major: int) -> list[str]:
    if sys.platform == "win32":
        return [f"cudnn64_{major}.dll"]
    return [f"libcudnn.so.{major}"]


def _wheel() -> list[str]:
    return library_folders("nvidia.cudnn")


def _all_names() -> list[str]:
    return [n for major in MAJORS for n in _names(major)]


def candidates() -> list[str]:
    """Paths where the library may be, the best first."""
    return places(_all_names(), _wheel())


def installed(cuda: int) -> bool:
    """Whether there is a wheel with the library, which may be of another CUDA; nothing is loaded."""
    return use_cudnn() and bool(files(_all_names(), _wheel()))


def find(cuda: int) -> Binding | str:
    """The library, or why there is none.

    Args:
        cuda: major version of the CUDA run-time library that arrays use.
    """
    if not use_cudnn():
        return "HYBRIDGPU_CUDNN=0"
    problem = f"cuDNN is not installed: pip install nvidia-cudnn-cu{cuda}"

    def unfit(binding: Binding) -> str:
        if binding.major not in MAJORS:
            return f"cuDNN {binding.version} is not known here, only {' and '.join(map(str, sorted(MAJORS)))}"
        if binding.cuda == cuda:
            return ""
        return (
            f"cuDNN {binding.version} is built for CUDA {binding.cuda}, the arrays use CUDA {cuda}: "
            f"pip uninstall nvidia-cudnn-cu{binding.cuda}; pip install nvidia-cudnn-cu{cuda}"
        )

    return find_binding("cuDNN", candidates(), Binding, problem, unfit)
