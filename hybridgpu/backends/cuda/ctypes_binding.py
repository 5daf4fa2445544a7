# SPDX-License-Identifier: Apache-2.0
"""ctypes bindings of NVIDIA's libraries: loading, status codes, descriptors, a lazily made handle."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from ctypes import c_int, c_size_t, c_void_p
from typing import Any, Generic, Protocol, TypeVar

from ...core.fork_safe_lock import Lock
from ..device_errors import DeviceError, retry_after_oom
from .errors import FORKED, lost_by_fork

__all__ = [
    "INT_MAX",
    "SUCCESS",
    "DeviceScope",
    "FailureCache",
    "ForeignBinding",
    "ForeignError",
    "LazyLibrary",
    "Opaque",
    "find_binding",
]

INT_MAX = (1 << 31) - 1  #: extents, offsets, rows and distances of rows are int in these libraries
SUCCESS = 0  #: what a function returns that did what it should
_SMALLER = (
    "The GPU has no memory left for it: take a smaller batch; drop arrays, recorded graphs and results that are no longer "
    "needed."
)


class ForeignError(DeviceError):
    """A function of a library failed.

    Attributes:
        function: its name.
        status: what it returned.
        unsupported: True if the library said that it cannot compute this, having started nothing.
    """

    instead = ""  #: how to go on without the library
    no_memory: Collection[int] = ()  #: statuses which say that there was no memory of the device, with nothing started

    def __init__(self, message: str, function: str, status: int) -> None:
        super().__init__(message, memory=status in self.no_memory)
        self.function, self.status = function, status
        self.unsupported = self.says_unsupported(status)

    @classmethod
    def says_unsupported(cls, status: int) -> bool:
        """Whether a status means that the library cannot compute what it was asked for."""
        raise NotImplementedError

    def at(self, operator: str) -> ForeignError:
        """This error, with the operator that met it."""
        advice = _SMALLER if self.memory else FORKED if lost_by_fork() else self.instead
        return type(self)(f"Error in operator {operator}: {self}\n{advice}", self.function, self.status)


class ForeignBinding:
    """A loaded library, whose functions return a status.

    Attributes:
        version: as text.
        major: of it.
    """

    name = ""  #: of the library, in messages
    functions: Mapping[str, Sequence[Any]] = {}  #: name -> types of the arguments, for those that return a status
    numbers: Sequence[str] = ()  #: functions without arguments that return a number
    texts: Sequence[str] = ()  #: functions from a status to a text; the first one is what errors show
    error: type[ForeignError]  #: what a call raises

    major: int
    version: str

    def __init__(self, path: str) -> None:
        """
        Raises:
            OSError: the file does not load.
            AttributeError: it lacks a function.
        """
        self._library = ctypes.CDLL(path)
        kinds = [
            *((name, types, c_int) for name, types in self.functions.items()),
            *((name, (), c_size_t) for name in self.numbers),
            *((name, (c_int,), ctypes.c_char_p) for name in self.texts),
        ]
        for name, types, result in kinds:
            function = getattr(self._library, name)
            function.argtypes, function.restype = types, result

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            ForeignError: it did not succeed.
        """
        status = getattr(self._library, name)(*arguments)
        if status != SUCCESS:
            raise self.failure(name, status)

    def function(self, name: str) -> Callable[..., int]:
        """A function that returns a status, for those who call it often."""
        return getattr(self._library, name)  # type: ignore[no-any-return]

    def failure(self, name: str, status: int) -> ForeignError:
        """The error of a function that returned ``status``."""
        words = f"{name} of {self.name} {self.version} failed: {self._text(status)}{self._details()}"
        return self.error(words, name, status)

    def _text(self, status: int) -> str:
        text = getattr(self._library, self.texts[0])(status)
        return text.decode("utf-8", "replace") if text else f"status {status}"

    def _details(self) -> str:
        """Details of this thread's last failure."""
        return ""


class FailureCache:
    """The failures of one prepared function's calls. One thread at a time uses it.

    Args:
        operator: which met them.

    Attributes:
        refused: the library said that it cannot compute this, so that it need not be asked again.
    """

    __slots__ = ("_binding", "_operator", "_second", "refused")

    def __init__(self, binding: ForeignBinding, operator: str) -> None:
        self._binding, self._operator, self._second = binding, operator, False
        self.refused = False

    def failed(self, function: str, status: int, start: Callable[[int], bool], stream: int) -> bool:
        """What to give in place of a call that returned ``status``: False where the library refused, having started nothing.
        Where it had no memory ``start(stream)``, which comes here in its turn, is called once more.

        Raises:
            ForeignError: it failed in another way, or a second time.
        """
        failure = self._binding.failure(function, status)
        self.refused = failure.unsupported
        if self.refused:
            return False
        reported = failure.at(self._operator)
        if self._second or not failure.memory:
            raise reported
        self._second = True
        try:
            return retry_after_oom(reported, start, stream)
        finally:
            self._second = False


class Opaque:
    """An opaque description that a library holds, destroyed with this object.

    Args:
        create, destroy: names of the functions.
        arguments: of ``create``, behind the place for the description.
    """

    def __init__(self, binding: ForeignBinding, create: str, destroy: str, *arguments: int) -> None:
        self._binding, self._destroy, self._made = binding, destroy, c_void_p()
        binding.call(create, ctypes.byref(self._made), *arguments)

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:  # sys may be gone by then
        if self._made and not ending():
            getattr(self._binding._library, self._destroy)(self._made)

    @property
    def pointer(self) -> c_void_p:
        """Its address, which lives as long as this object."""
        return self._made

    _as_parameter_ = pointer


class DeviceScope(Protocol):
    """The functions of a device that a library needs."""

    xp: Any

    def address(self, array: Any) -> int:
        """The address of an array's data."""

    def stream(self) -> int:
        """The current stream's handle."""

    def current(self) -> AbstractContextManager[Any]:
        """Makes the device the current one."""

    def cuda_version(self) -> int:
        """Major version of the CUDA run-time library."""


B = TypeVar("B", bound=ForeignBinding)


class LazyLibrary(Generic[B]):
    """A library on one device: its binding, looked for once, and one handle, which lives as long as the process.

    Args:
        place: the device.
        finder: CUDA's major version -> the binding, or why there is none.
        create: name of the function that makes the handle.
        installed: CUDA's major version -> whether the library's wheel is there.

    Attributes:
        lock: over both.
    """

    def __init__(
        self,
        place: DeviceScope,
        finder: Callable[[int], B | str],
        create: str,
        installed: Callable[[int], bool] | None = None,
    ) -> None:
        self.place, self._finder, self._create, self._installed = place, finder, create, installed
        self.lock = Lock()
        self._found: B | str | None = None
        self._handle: c_void_p | None = None

    @property
    def binding(self) -> B | str:
        """The library, or why it is not used."""
        with self.lock:
            if self._found is None:
                self._found = self._finder(self.place.cuda_version())
            return self._found

    def expected(self) -> bool:
        """Whether the library can be used, as far as is known without loading what an installed wheel has.

        Loading one takes longer than the first call of a small program, which may have no use for it. If it then does
        not load after all, the array module computes what it was wanted for.
        """
        if self._found is None and self._installed is not None and self._installed(self.place.cuda_version()):
            return True
        return not isinstance(self.binding, str)

    def handle(self, binding: B) -> c_void_p:
        """The device's, which has to be the current one."""
        with self.lock:
            if self._handle is None:
                handle = c_void_p()
                binding.call(self._create, ctypes.byref(handle))
                self._handle = handle
            return self._handle


def find_binding(
    name: str, paths: Sequence[str], load: Callable[[str], B], problem: str, unfit: Callable[[B], str]
) -> B | str:
    """The first library that loads and is fit, or why there is none.

    Args:
        name: for people.
        paths: what to load it from, the best first.
        problem: why there is none, if there is not even one that does not load.
        unfit: why a binding cannot be used; '' if it can.
    """
    for path in paths:
        try:
            binding = load(path)
        except OSError as e:
            if os.path.isabs(path):
                problem = f"{name} is installed, but does not load: {e}"
            continue
        except AttributeError as e:
            problem = f"{os.path.basename(path)} is no {name} that is known here: {e}"
            continue
        why = unfit(binding)
        if not why:
            return binding
        problem = why
    return problem
