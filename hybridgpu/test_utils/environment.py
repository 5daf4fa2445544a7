# SPDX-License-Identifier: Apache-2.0
"""The device and the environment variables of a test."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..context import Context, current_context, num_gpus
from ..util import use_np

__all__ = [
    "default_context",
    "default_dtype",
    "discard_stderr",
    "environment",
    "has_tvm_ops",
    "is_aarch64_run",
    "is_cd_run",
    "is_op_runnable",
    "list_gpus",
    "set_default_context",
    "use_np",
]


def default_context() -> Context:
    """The device that tests run on: the current context."""
    return current_context()


def set_default_context(ctx: Context) -> None:
    """Make ``ctx`` the device that tests of this thread run on."""
    stack = getattr(Context._stack, "contexts", None)
    if stack is None:
        stack = Context._stack.contexts = []
    if stack:
        stack[0] = ctx
    else:
        stack.append(ctx)


def default_dtype() -> Any:
    """The element type of tests: float32."""
    return np.float32


@contextlib.contextmanager
def environment(*args: Any) -> Iterator[None]:
    """Environment variables for a block of code: ``environment(name, value)`` or ``environment({name: value})``.

    None removes a variable. What was there comes back afterwards.
    """
    if len(args) == 1:
        changes = dict(args[0])
    elif len(args) == 2:
        changes = {args[0]: args[1]}
    else:
        raise AssertionError("environment() takes a name and a value, or a dict")
    old = {name: os.environ.get(name) for name in changes}

    def put(values: dict[str, Any]) -> None:
        for name, value in values.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = str(value)

    put(changes)
    try:
        yield
    finally:
        put(old)


@contextlib.contextmanager
def discard_stderr() -> Iterator[None]:
    """Send the standard error stream, file descriptor included, nowhere for a block of code."""
    descriptor = 2
    sys.stderr.flush()
    saved = os.dup(descriptor)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, descriptor)
        yield
    finally:
        os.dup2(saved, descriptor)
        os.close(nowhere)
        os.close(saved)


def list_gpus() -> list[int]:
    """Numbers of the CUDA devices."""
    return list(range(num_gpus()))


def has_tvm_ops() -> bool:
    """False: there are no TVM operators."""
    return False


def is_op_runnable() -> bool:
    """True: operators run on every device there is."""
    return True


def is_cd_run() -> bool:
    """True under continuous delivery (environment variable CD_JOB=1)."""
    return os.environ.get("CD_JOB", "0") == "1"


def is_aarch64_run() -> bool:
    """True on 64-bit ARM."""
    import platform

    return platform.machine() in ("aarch64", "arm64")
