# SPDX-License-Identifier: Apache-2.0
"""Kernels that users write in CUDA: compiled to PTX, which the driver makes machine code of for each device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...base import MXNetError
from ...core.extras import INSTALL_CUDA
from .nvrtc import log_of, with_last_byte

__all__ = ["UserModule", "compile_module", "missing_kernel"]


class UserModule(NamedTuple):
    """A text with what NVRTC made of it.

    Attributes:
        code: PTX, or machine code where the options name an architecture of a device.
        lowered: exported names as the text writes them -> as the code has them.
    """

    source: str
    options: tuple[str, ...]
    code: bytes
    lowered: Mapping[str, str]


def compile_module(source: str, options: Sequence[str], exports: Sequence[str]) -> UserModule:
    """Compile a user's text. No device is needed.

    Raises:
        MXNetError: NVRTC's words about it, or NVRTC is not there.
    """
    try:
        from cupy.cuda import nvrtc  # type: ignore[import-untyped,import-not-found,unused-ignore]

        program = nvrtc.createProgram(source, "source.cu", [], [])
    except (ImportError, RuntimeError, OSError) as e:
        raise MXNetError(f"There is no CUDA runtime compilation: {e}\nNVRTC comes with CuPy: {INSTALL_CUDA}.") from e
    try:
        try:
            for name in exports:
                nvrtc.addNameExpression(program, name)
            nvrtc.compileProgram(program, tuple(options))
        except nvrtc.NVRTCError as e:
            raise MXNetError(log_of(nvrtc, program) or str(e)) from None
        lowered = {name: _text(nvrtc.getLoweredName(program, name)) for name in exports}
        binary = any("arch" in o and "=sm_" in o for o in options)
        if binary:
            code = with_last_byte(bytes(nvrtc.getCUBIN(program)))
        else:
            ptx = nvrtc.getPTX(program)
            code = ptx.encode() if isinstance(ptx, str) else bytes(ptx)
        return UserModule(source, tuple(options), code, lowered)
    finally:
        nvrtc.destroyProgram(program)


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


def missing_kernel(name: str) -> MXNetError:
    """The error for a name that a module does not have."""
    return MXNetError(
        f"Cannot find cuda kernel with name '{name}'. Please either prepend kernel definition with 'extern \"C\"' or add "
        "its name to exports when creating CudaModule."
    )
