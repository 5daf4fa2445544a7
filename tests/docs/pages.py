# SPDX-License-Identifier: Apache-2.0
"""The code of documentation pages: finding it, running it, comparing what it prints.

A block fenced as ``python`` is run; the blocks of a page share their names. One fenced as ``python raises`` must
raise. A block fenced as ``output`` that follows is what was printed, of an exception its class and its text. Blocks
in other languages are not looked at. Times, the digits of kernel names and such change from run to run and are
compared as if they did not.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_BLOCK = re.compile(r"^```(python(?: raises)?)\n(.*?)^```\n(?:\n*^```output\n(.*?)^```\n)?", re.M | re.S)
#: what differs between runs and machines -> what stands for it
_CHANGING = (
    (re.compile(r"\d+(\.\d+)? ms\b"), "N ms"),
    (re.compile(r"\b(compiled|found in the cache and loaded|planned with known kernels) in N ms"), "ready in N ms"),
    (re.compile(r"(?<=_)[0-9a-f]{8}\b"), "#" * 8),
    (re.compile(r"\d+ modules? compiled|from (memory|disk|none)|\bcompiled\b"), "compiled or cached"),
    # processors with AVX-512 keep weights packed
    (re.compile(r"^ *computed once,.*\n.*: (?:products|convolutions) read it faster in .*\n", re.M), ""),
    (re.compile(r" +$", re.M), ""),
    (re.compile(r" {2,}"), "  "),
)


@dataclass(frozen=True)
class Block:
    """One piece of code: its text, the line it begins on, whether it raises, and what it prints (None: not shown)."""

    code: str
    line: int
    raises: bool
    output: str | None
    span: tuple[int, int]


def blocks(text: str) -> list[Block]:
    """The code of a page in order."""
    found = []
    for m in _BLOCK.finditer(text):
        line = text.count("\n", 0, m.start(2)) + 1
        found.append(Block(m[2], line, m[1].endswith("raises"), m[3], m.span()))
    return found


def run(page: Path, block: Block, names: dict[str, Any]) -> str:
    """What a block prints; of one that raises, the exception follows.

    Raises:
        AssertionError: it should have raised.
    """
    # lines count from the top of the block, so that an edit further up changes no message
    file = f"{page.stem}.py"
    linecache.cache[file] = (len(block.code), None, block.code.splitlines(keepends=True), file)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        if not block.raises:
            exec(compile(block.code, file, "exec"), names)
        else:
            try:
                exec(compile(block.code, file, "exec"), names)
            except Exception as e:
                print(f"{type(e).__name__}: {e}")
            else:
                raise AssertionError(f"{page.name}, line {block.line}: nothing was raised")
    return printed.getvalue()


def settled(text: str) -> str:
    """An output without what changes from run to run."""
    for pattern, word in _CHANGING:
        text = pattern.sub(word, text)
    return text.strip()


def with_outputs(text: str, outputs: dict[Block, str]) -> str:
    """The page with new outputs, where it shows one."""
    parts, at = [], 0
    for b in blocks(text):
        kind = "python raises" if b.raises else "python"
        parts.append(text[at : b.span[0]] + f"```{kind}\n{b.code}```\n")
        if b.output is not None:
            body = "\n".join(line.rstrip() for line in outputs[b].strip("\n").splitlines())
            parts.append(f"```output\n{body}\n```\n")
        at = b.span[1]
    return "".join(parts) + text[at:]
