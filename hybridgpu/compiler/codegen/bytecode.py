# SPDX-License-Identifier: Apache-2.0
"""The templates' Python code, compiled, in files as Python keeps its own beside each module.

Jinja turns a template into Python, which takes longer than all that the first program of a process needs of the
compiler otherwise. The result lies in ``__pycache__`` beside the template (or where ``sys.pycache_prefix`` says), is
written where Python may write its own, and is used for the same text, Python, Jinja and settings alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import sys
import tempfile
from importlib.util import MAGIC_NUMBER, cache_from_source
from types import CodeType

import jinja2
from jinja2.bccache import Bucket

__all__ = ["Beside"]


class Beside(jinja2.BytecodeCache):
    """Compiled templates beside the templates.

    Args:
        settings: everything of the environment that its compiled templates depend on.
    """

    def __init__(self, settings: str) -> None:
        own = (MAGIC_NUMBER.hex(), jinja2.__version__, settings)
        self._identity = "\0".join(own)

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        """The template's path."""
        return filename or name

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill in the code if there is one for this very text."""
        try:
            with open(_file(bucket), "rb") as f:
                data = f.read()
        except OSError:
            return
        head, body = data[:64], data[64:]
        if head == self._head(bucket, body):
            code = marshal.loads(body)
            bucket.code = code if isinstance(code, CodeType) else None

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write the code; where that cannot be, the next process compiles the template again."""
        if sys.dont_write_bytecode:
            return
        file = _file(bucket)
        body = marshal.dumps(bucket.code)
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(file), exist_ok=True)
            handle, name = tempfile.mkstemp(dir=os.path.dirname(file), prefix=".write-")
            try:
                with os.fdopen(handle, "wb") as f:
                    f.write(self._head(bucket, body) + body)
                os.chmod(name, 0o644)
                os.replace(name, file)
            except BaseException:
                os.unlink(name)
                raise

    def _head(self, bucket: Bucket, body: bytes) -> bytes:
        """What vouches for a file's content, 64 bytes."""
        environment = type(bucket.environment).__qualname__  # a derived one may compile in another way
        identity = f"{self._identity}\0{environment}\0{bucket.key}\0{bucket.checksum}\0".encode()
        return hashlib.sha512(identity + body).digest()


def _file(bucket: Bucket) -> str:
    return cache_from_source(f"{bucket.key}.py")
