# SPDX-License-Identifier: Apache-2.0
"""Template loader: compiled templates, cached in files as Python caches its own modules.

Jinja reads a template once (``jinja_compiler.py``). What comes of it lies in ``__pycache__`` beside the template (or where
``sys.pycache_prefix`` says), is written where Python may write its own, and is used for the same text, translation,
Jinja and Python alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib.util import MAGIC_NUMBER, cache_from_source, find_spec
from pathlib import Path
from types import CodeType
from typing import Any

__all__ = ["Templates"]

_DIGEST_BYTES = 64  #: bytes of a file that vouch for the rest


class Templates:
    """The templates of a folder, by their paths in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._compiled: dict[str, Callable[[dict[str, Any]], tuple[str, dict[str, Any]]]] = {}

    def render(self, name: str, given: dict[str, Any]) -> str:
        """The text of a template for the values that it is given.

        Raises:
            KeyError, AttributeError: it asks for what is not given.
            FileNotFoundError: there is no such template.
        """
        return self._template(name)(given)[0]

    def _template(self, name: str) -> Callable[[dict[str, Any]], tuple[str, dict[str, Any]]]:
        compiled = self._compiled.get(name)
        if compiled is None:
            space: dict[str, Any] = {"macros": self._macros, "enumerate_loop": _enumerate_loop, "join": _join}
            exec(_code(self._folder / name), space)
            compiled = self._compiled[name] = space["template"]
        return compiled

    def _macros(self, name: str) -> dict[str, Any]:
        """The macros of another template."""
        return self._template(name)({})[1]


# -- what translated templates call


class _Loop:
    """The state of a loop."""

    __slots__ = ("index0", "length")
    index0: int
    length: int

    def __init__(self, index0: int, length: int) -> None:
        self.index0, self.length = index0, length

    index = property(lambda self: self.index0 + 1)
    revindex = property(lambda self: self.length - self.index0)
    first = property(lambda self: self.index0 == 0)
    last = property(lambda self: self.index0 == self.length - 1)


def _enumerate_loop(items: Iterable[Any]) -> Iterator[tuple[_Loop, Any]]:
    elements = list(items)
    for k, item in enumerate(elements):
        yield _Loop(k, len(elements)), item


def _join(items: Iterable[Any], between: str) -> str:
    return between.join(map(str, items))


# -- their code


def _code(file: Path) -> CodeType:
    """The compiled translation of a template: the file beside it if that is of this very text, else a new one."""
    text = file.read_bytes()
    identity = f"{file}\0".encode() + _translator() + text
    cache_file = Path(cache_from_source(f"{file}.py"))
    with contextlib.suppress(OSError):
        data = cache_file.read_bytes()
        head, body = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
        if head == hashlib.sha512(identity + body).digest():
            cached = marshal.loads(body)
            assert isinstance(cached, CodeType)
            return cached
    from .jinja_compiler import compile_template

    code = compile(compile_template(file), f"{file}, translated", "exec")
    if not sys.dont_write_bytecode:
        _write(cache_file, identity, marshal.dumps(code))
    return code


@lru_cache
def _translator() -> bytes:
    """The identity of a translation: Python, Jinja, and the module beside this one."""
    jinja = find_spec("jinja2")
    files = [
        Path(__file__).with_name("jinja_compiler.py"),
        Path(jinja.origin) if jinja and jinja.origin else Path(__file__),
    ]
    states = [(str(f), s.st_size, s.st_mtime_ns) for f in files for s in [f.stat()]]
    return MAGIC_NUMBER + repr(states).encode()


def _write(file: Path, identity: bytes, body: bytes) -> None:
    """Keep the code; where that cannot be, the next process translates the template again."""
    with contextlib.suppress(OSError):
        os.makedirs(file.parent, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=".write-")
        try:
            with os.fdopen(handle, "wb") as f:
                f.write(hashlib.sha512(identity + body).digest() + body)
            os.chmod(name, 0o644)
            os.replace(name, file)
        except BaseException:
            os.unlink(name)
            raise
