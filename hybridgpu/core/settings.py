# SPDX-License-Identifier: Apache-2.0
"""Settings from the environment, read when they are needed.

HYBRIDGPU_DEBUG  1 compile events; 2 also kernels with their traffic; 3 also fusion decisions; 4 also sources
HYBRIDGPU_DUMP   a folder for every stage of every compilation
HYBRIDGPU_CXX, HYBRIDGPU_CACHE_DIR, HYBRIDGPU_CACHE_SIZE, HYBRIDGPU_CACHE: see toolchain and store
HYBRIDGPU_NUM_THREADS how many threads compiled programs use on the CPU: see num_threads.py
HYBRIDGPU_NUMERIC strict or fast: how hybridized graphs round (docs/numbers.md)
HYBRIDGPU_CUDNN  0 computes convolutions on a GPU without cuDNN
HYBRIDGPU_CUBLASLT 0 computes matrix products on a GPU without cuBLASLt
HYBRIDGPU_TF32   1 lets these libraries multiply float32 as TF32, 0 never does; else the numeric mode fast does
HYBRIDGPU_CUDA_GRAPHS never, auto or always: what static_shape=True makes a CUDA graph of (docs/how-it-works.md)
HYBRIDGPU_GRAPH_KERNELS never, auto or always: whether small kernels on a GPU become one (docs/how-it-works.md)
HYBRIDGPU_EAGER_KERNELS never, auto or always: which eager operators are compiled (docs/how-it-works.md)
HYBRIDGPU_FUSED_UPDATES never, auto or always: whether a Trainer compiles its updates (docs/how-it-works.md)
HYBRIDGPU_GPU_AS_CPU 1: under MXNet's name, GPUs are the CPU (hybridgpu run --cpu)
HYBRIDGPU_VERIFY 1 checks the graph after every pass
HYBRIDGPU_DISABLE_PASSES names of passes of the compiler that do not run, with commas between them

A variable of this prefix that is none of these is said once, when the first setting is read.

What is on or off may be written as 1 or 0, true or false, yes or no, on or off; an empty text is the default.
"""

from __future__ import annotations

import os
import warnings

from ..base import MXNetError
from .source_location import user_frame

__all__ = [
    "GRAPH_KERNELS",
    "NUMERIC_MODES",
    "VARIABLES",
    "cuda_graphs",
    "debug_level",
    "disabled_passes",
    "dump_folder",
    "eager_kernels",
    "flag",
    "fused_updates",
    "graph_kernels",
    "lasting_cache",
    "numeric_mode",
    "set_tf32",
    "text_of",
    "tf32",
    "use_cublaslt",
    "use_cudnn",
    "verifying",
]

#: strict: as the operators say, one rounding each; fast: contraction and approximations (docs/numbers.md)
NUMERIC_MODES = ("strict", "fast")
#: never; where a model of their costs says that it pays; wherever it is possible
GRAPH_KERNELS = ("never", "auto", "always")


#: all that there are
VARIABLES = frozenset({
    "HYBRIDGPU_CACHE", "HYBRIDGPU_CACHE_DIR", "HYBRIDGPU_CACHE_SIZE", "HYBRIDGPU_CUBLASLT", "HYBRIDGPU_CUDA_GRAPHS",
    "HYBRIDGPU_CUDNN", "HYBRIDGPU_CXX", "HYBRIDGPU_DEBUG", "HYBRIDGPU_DISABLE_PASSES", "HYBRIDGPU_DUMP",
    "HYBRIDGPU_EAGER_KERNELS", "HYBRIDGPU_FUSED_UPDATES", "HYBRIDGPU_GPU_AS_CPU", "HYBRIDGPU_GRAPH_KERNELS",
    "HYBRIDGPU_NUMERIC", "HYBRIDGPU_NUM_THREADS", "HYBRIDGPU_TF32", "HYBRIDGPU_VERIFY",
})  # fmt: skip
_looked = False
_tf32: bool | None = None  #: what the program said last

_WORDS = {"0": False, "false": False, "no": False, "off": False, "1": True, "true": True, "yes": True, "on": True}


def text_of(name: str) -> str:
    """The text of one of VARIABLES without white space around it, '' if it is not set.

    The first call warns of variables that look like settings and are none.
    """
    assert name in VARIABLES, name
    if not _looked:
        _look()
    return os.environ.get(name, "").strip()


def _look() -> None:
    global _looked
    _looked = True
    for name in sorted(os.environ):
        if name.startswith("HYBRIDGPU_") and name not in VARIABLES:
            import difflib

            near = difflib.get_close_matches(name, VARIABLES, 1, 0.8)
            instead = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(VARIABLES))}"
            warnings.warn(f"hybridgpu: there is no setting {name}; {instead}", stacklevel=user_frame())


def flag(name: str, default: bool) -> bool:
    """Whether a variable of the environment is on.

    Raises:
        MXNetError: its text says neither.
    """
    text = text_of(name)
    value = _WORDS.get(text.lower()) if text else default
    if value is None:
        folder = "\nA folder belongs in HYBRIDGPU_CACHE_DIR." if name == "HYBRIDGPU_CACHE" else ""
        raise MXNetError(f"Invalid Input: '{text}', valid values are: {{'0', '1'}}, in {name}{folder}")
    return value


def debug_level() -> int:
    """The level of what to print, 0 … 4; a word counts as 1, unless it says off."""
    value = text_of("HYBRIDGPU_DEBUG")
    return int(value) if value.isdecimal() else int(_WORDS.get(value.lower(), bool(value)))


def dump_folder() -> str:
    """The folder to write every stage to, '' for none."""
    return text_of("HYBRIDGPU_DUMP")


def use_cudnn() -> bool:
    """Whether cuDNN is looked for, which happens once a device."""
    return flag("HYBRIDGPU_CUDNN", True)


def use_cublaslt() -> bool:
    """Whether cuBLASLt is looked for, which happens once a device."""
    return flag("HYBRIDGPU_CUBLASLT", True)


def tf32() -> bool | None:
    """Whether libraries on a GPU may multiply float32 as TF32; None: in the numeric mode fast alone.

    Raises:
        MXNetError: the variable's text says neither.
    """
    if _tf32 is not None or not text_of("HYBRIDGPU_TF32"):
        return _tf32
    return flag("HYBRIDGPU_TF32", False)


def set_tf32(allowed: bool | None) -> bool | None:
    """What :func:`tf32` gives from now on, None for what the environment says; what was set before."""
    global _tf32
    before, _tf32 = _tf32, allowed
    return before


def lasting_cache() -> bool:
    """Whether compiled programs are kept for other processes."""
    return flag("HYBRIDGPU_CACHE", True)


def graph_kernels() -> str:
    """Whether small kernels on a GPU become one kernel, one of GRAPH_KERNELS, which is read once a device.

    Raises:
        MXNetError: another word.
    """
    return _choice("HYBRIDGPU_GRAPH_KERNELS", GRAPH_KERNELS)


def cuda_graphs() -> str:
    """What of a program that is to be replayed becomes a CUDA graph, read when it is loaded: never anything; auto: steps that
    follow each other; always: single ones, too.

    Raises:
        MXNetError: another word.
    """
    return _choice("HYBRIDGPU_CUDA_GRAPHS", ("never", "auto", "always"))


def eager_kernels() -> str:
    """The eager operators that are compiled: never any; auto: those that gain by it; always: all that can be.

    Raises:
        MXNetError: another word.
    """
    return _choice("HYBRIDGPU_EAGER_KERNELS", ("never", "auto", "always"))


def fused_updates() -> str:
    """Whether a Trainer compiles its updates: never, auto or always (see gluon/compiled_step.py).

    Raises:
        MXNetError: another word.
    """
    return _choice("HYBRIDGPU_FUSED_UPDATES", ("never", "auto", "always"))


def _choice(name: str, choices: tuple[str, ...]) -> str:
    """The word that a variable of the environment holds, 'auto' if it is not set."""
    value = text_of(name) or "auto"
    if value not in choices:
        valid = ", ".join(map(repr, sorted(choices)))
        raise MXNetError(f"Invalid Input: '{value}', valid values are: {{{valid}}}, in {name}")
    return value


def numeric_mode(given: object = None) -> str:
    """The numeric mode ``given``, or that of the environment for None.

    Raises:
        MXNetError: a word that is none of NUMERIC_MODES.
    """
    value = text_of("HYBRIDGPU_NUMERIC") or NUMERIC_MODES[0] if given is None else given
    if value not in NUMERIC_MODES:
        where = "HYBRIDGPU_NUMERIC" if given is None else "numeric"
        valid = ", ".join(map(repr, sorted(NUMERIC_MODES)))
        raise MXNetError(f"Invalid Input: '{value}', valid values are: {{{valid}}}, in {where}")
    return str(value)


def disabled_passes() -> tuple[str, ...]:
    """Names of the compiler's passes that do not run, sorted; whether there are such passes is for the compiler to say."""
    text = text_of("HYBRIDGPU_DISABLE_PASSES")
    return tuple(sorted({name for part in text.split(",") if (name := part.strip())})) if text else ()


def verifying() -> bool:
    """Whether to check the graph after every pass."""
    return flag("HYBRIDGPU_VERIFY", False)
