# SPDX-License-Identifier: Apache-2.0
"""``mx.rtc``: kernels that a program writes in CUDA, compiled when it runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from .backends.cuda.backend import CudaBackend
from .backends.cuda.user_kernels import UserModule, compile_module
from .backends.device_errors import call_with_retry
from .backends.devices import device_of
from .backends.write_tracking import notify_write
from .base import MXNetError, numeric_types, string_types
from .context import Context
from .core import autograd_state
from .ndarray import NDArray
from .ndarray.ndarray import refuse_in_place
from .ndarray.versions import before_write

__all__ = ["CudaKernel", "CudaModule"]

#: types of arguments in CUDA
_TYPES: dict[str, Any] = {
    "float": np.float32,
    "double": np.float64,
    "__half": np.float16,
    "uint8_t": np.uint8,
    "int": np.int32,
    "int32_t": np.int32,
    "int8_t": np.int8,
    "char": np.int8,
    "int64_t": np.int64,
}
_ARGUMENT = re.compile(r"(const)?\s?(\w+)\s?(\*)?\s?(\w+)?")


class _Handle(NamedTuple):
    """What a kernel is made of: its module, and which of its arguments it only reads."""

    module: UserModule
    is_const: Sequence[bool]


class CudaModule:
    """Kernels of a text in CUDA.

    No GPU is needed to compile it; NVRTC, which comes with CuPy, is.

    Args:
        source: the text.
        options: of NVRTC.
        exports: names of kernels that are not declared ``extern "C"``, with their template arguments.

    Raises:
        MXNetError: NVRTC refuses the text, with its words, or is not installed.
    """

    def __init__(self, source: str, options: str | Sequence[str] = (), exports: str | Sequence[str] = ()) -> None:
        self._module = compile_module(source, _tuple(options), _tuple(exports))

    def get_kernel(self, name: str, signature: str) -> CudaKernel:
        """A kernel by name.

        Args:
            signature: its arguments as they are declared, with or without names, such as
                ``const float *x, double *y, int n``: arrays have a ``*``, those that it only reads are ``const``.

        Raises:
            ValueError: an argument that is not of this form.
            TypeError: an argument of another type than arrays and numbers have.
        """
        is_const, dtypes, is_ndarray = zip(*map(_parse, signature.split(",")), strict=True)
        return CudaKernel(_Handle(self._module, is_const), name, is_ndarray, dtypes)


def _tuple(texts: str | Sequence[str]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, string_types) else tuple(texts)


def _parse(text: str) -> tuple[bool, Any, bool]:
    """Whether an argument is only read, its element type, and whether it is an array."""
    text = " ".join(text.split())
    match = _ARGUMENT.fullmatch(text)
    if match is None or match[2] == "const":
        raise ValueError(f'Invalid function prototype "{text}". Must be in the form of "(const) type (*) (name)"')
    if match[2] not in _TYPES:
        raise TypeError(f"Unsupported kernel argument type {text}. Supported types are: {','.join(_TYPES)}.")
    return match[1] is not None, _TYPES[match[2]], match[3] is not None


class CudaKernel:
    """A kernel of a :class:`CudaModule`, which makes it."""

    def __init__(self, handle: Any, name: str, is_ndarray: Sequence[bool], dtypes: Sequence[Any]) -> None:
        self.handle, self._name = handle, name
        self._is_ndarray, self._dtypes = list(is_ndarray), [np.dtype(d) for d in dtypes]
        self._functions: dict[Context, Any] = {}

    def launch(
        self,
        args: Sequence[Any],
        ctx: Context,
        grid_dims: Sequence[int],
        block_dims: Sequence[int],
        shared_mem: int = 0,
    ) -> None:
        """Start the kernel on CuPy's current stream.

        Args:
            args: arrays on ``ctx``, and numbers.
            grid_dims, block_dims: numbers of blocks, and of threads in each, along three axes.
            shared_mem: bytes of dynamic shared memory.

        Raises:
            AssertionError: arguments of another number or kind.
            MXNetError: an array of another element type or on another device, no kernel of this name, no GPU.
        """
        assert ctx.device_type == "gpu", "Cuda kernel can only be launched on GPU"
        assert len(grid_dims) == 3, "grid_dims must be a tuple of 3 integers"
        assert len(block_dims) == 3, "block_dims must be a tuple of 3 integers"
        assert len(args) == len(self._dtypes), (
            f"CudaKernel({self._name}) expects {len(self._dtypes)} arguments but got {len(args)}"
        )
        device = device_of(ctx)
        arguments: list[Any] = []
        changed: list[NDArray] = []
        rows = zip(args, self._is_ndarray, self._dtypes, self.handle.is_const, strict=True)
        for k, (value, is_array, dtype, is_const) in enumerate(rows):
            if not is_array:
                assert isinstance(value, numeric_types), (
                    f"The {k}-th argument is expected to be a number, but got {type(value)}"
                )
                arguments.append(np.array(value, dtype))
                continue
            assert isinstance(value, NDArray), f"The {k}-th argument is expected to be a NDArray but got {type(value)}"
            _check(k, value, dtype, ctx)
            if not is_const:
                changed.append(value)
            arguments.append(value)
        if autograd_state.state.recording:
            for array in changed:
                refuse_in_place(array)
        for array in changed:
            before_write(array)
        dimensions = tuple(map(int, grid_dims)), tuple(map(int, block_dims))
        arrays = [x._data if isinstance(x, NDArray) else x for x in arguments]
        driver = cast(CudaBackend, device.backend()).driver
        with device.current():
            function = self._functions.get(ctx)
            if function is None:
                function = self._functions[ctx] = call_with_retry(driver.user_function, self.handle.module, self._name)
            call_with_retry(driver.start_user_function, function, *dimensions, int(shared_mem), arrays)
        for array in changed:
            notify_write(array._data)


def _check(k: int, value: NDArray, dtype: Any, ctx: Context) -> None:
    expected, got = dtype.name, np.dtype(value.dtype).name
    if expected != got:
        raise MXNetError(
            f"The i-th argument is expected to be an NDArray of {expected} type, but got {got} instead.\n"
            f"It is argument {k}: cast it with astype('{expected}')."
        )
    if value.context != ctx:
        raise MXNetError(
            f"argument {k} of the kernel is on {value.context}, and the kernel is started on {ctx}\n"
            f"Move it with as_in_context({ctx})."
        )
