# SPDX-License-Identifier: Apache-2.0
"""From preprocessed CUDA C++ to C++ that g++ compiles, and what the text declares.

The text is changed as little as can be, line by line in place: ``__shared__`` becomes
``thread_local`` (at block scope that implies ``static``, and ``extern thread_local float x[];`` is
a declaration), ``__global__`` an attribute, inline PTX a call.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from .ptx import replace_asm

__all__ = ["KernelDecl", "Param", "Translation", "orders_memory", "translate"]

GLOBAL = '__attribute__((visibility("default"), used, noinline))'
LINE_MARKER = re.compile(r'^# \d+ "((?:[^"\\]|\\.)*)".*$')
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[A-Za-z_]\w*|\d[\w.]*|::|\S')
BRACE = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[{}]')
ALIGNMENT = re.compile(r"(?:aligned|alignas)\s*\(\s*(\d+)\s*\)")
_ORDERING = re.compile(r"\b__threadfence|\bcoc_fence|\bcoc::ptx::(?:sync|atom)_")  # what orders memory besides barriers
DEFAULT_DYNAMIC_ALIGNMENT = 16  # bytes; what CUDA promises for extern __shared__ arrays


@dataclass(frozen=True)
class Param:
    """A kernel's parameter: its name ('' if it has none) and whether it is __restrict__."""

    name: str
    restrict: bool


@dataclass(frozen=True)
class KernelDecl:
    """A __global__ function as the text declares it."""

    name: str
    qualified: str
    params: tuple[Param, ...]
    template: bool
    max_threads: int | None  # from __launch_bounds__, where that is a plain number
    cluster: tuple[int, int, int] | None  # from __cluster_dims__


@dataclass
class Translation:
    """The C++ text, its kernels by order of definition, and facts about it."""

    text: str
    kernels: list[KernelDecl] = field(default_factory=list)
    dynamic_alignment: int = DEFAULT_DYNAMIC_ALIGNMENT
    fenced: bool = False

    def after(self, common: Translation) -> Translation:
        """With the facts about a text that stands before it."""
        alignment = max(self.dynamic_alignment, common.dynamic_alignment)
        return replace(self, dynamic_alignment=alignment, fenced=self.fenced or common.fenced)


def translate(preprocessed: str, is_user_file: Callable[[str], bool]) -> Translation:
    """Translates what comes from user files; other text (system headers) stays as it is.

    Raises CompileError for inline PTX that is not supported.
    """
    parts = [_translated(chunk) if user else _Part(chunk) for user, chunk in _chunks(preprocessed, is_user_file)]
    declared = [part for part in parts if part.declares]
    return Translation(
        text="".join(part.text for part in parts),
        kernels=list(_kernels("".join(part.declared for part in declared))),
        dynamic_alignment=max([DEFAULT_DYNAMIC_ALIGNMENT, *(n for part in parts for n in part.alignments)]),
        fenced=any(part.fenced for part in parts),
    )


@dataclass(frozen=True)
class _Part:
    """A run of lines of one file, and what it says.

    Attributes:
        text: translated.
        declared: not translated, without directives.
        declares: it has kernels, or braces that close elsewhere.
        alignments: of extern shared arrays.
        fenced: it orders memory.
    """

    text: str
    declared: str = ""
    declares: bool = False
    alignments: tuple[int, ...] = ()
    fenced: bool = False


@functools.lru_cache(256)  # all kernels include the same headers
def _translated(chunk: str) -> _Part:
    chunk = replace_asm(chunk)
    text = re.sub(r"(?m)^#.*$", "", chunk)
    dynamic = re.findall(r"\bextern\b[^;{}()]*(?:\([^;{}]*\))?[^;{}]*\b__shared__\b[^;{}]*;", text)
    dynamic += re.findall(r"\b__shared__\b[^;{}]*\bextern\b[^;{}]*;", text)
    return _Part(
        text=_replace_qualifiers(chunk),
        declared=text,
        declares="__global__" in text or text.count("{") != text.count("}"),
        alignments=tuple(int(n) for d in dynamic for n in ALIGNMENT.findall(d)),
        fenced=_ORDERING.search(text) is not None,
    )


@functools.cache
def orders_memory(text: str) -> bool:
    """Whether a header has what orders memory besides barriers."""
    return _ORDERING.search(replace_asm(text)) is not None


def _chunks(text: str, is_user_file: Callable[[str], bool]) -> Iterator[tuple[bool, str]]:
    """Runs of lines of one user file, and of others; line markers go with what follows them."""
    name, lines = "", []
    for line in text.splitlines(keepends=True):
        if marker := LINE_MARKER.match(line):
            found = marker[1] if is_user_file(marker[1]) else ""
            if found != name:
                yield bool(name), "".join(lines)
                name, lines = found, []
        lines.append(line)
    yield bool(name), "".join(lines)


def _replace_qualifiers(text: str) -> str:
    text = re.sub(r"\b__shared__\b", "thread_local", text)
    text = re.sub(r"\b__global__\b", GLOBAL, text)
    return _drop_calls(text, ("__launch_bounds__", "__cluster_dims__"))


def _drop_calls(text: str, names: Sequence[str]) -> str:
    """Removes 'name(...)' but keeps its line breaks."""
    pattern, at = re.compile(rf"(?:{'|'.join(names)})\b"), 0
    while match := pattern.search(text, at):
        at = match.start()
        end = match.end()
        open_at = text.find("(", end)
        if open_at >= 0 and not text[end:open_at].strip():
            end = _closing(text, open_at)
        newlines = "\n" * text.count("\n", match.start(), end)
        text = text[: match.start()] + newlines + text[end:]
    return text


def _closing(text: str, open_at: int) -> int:
    """The index after the parenthesis that closes the one at open_at."""
    depth = 0
    for match in TOKEN.finditer(text, open_at):
        depth += (match[0] == "(") - (match[0] == ")")
        if depth == 0:
            return match.end()
    return len(text)


# --------------------------------------------------------------------------------- declarations
def _kernels(text: str) -> Iterator[KernelDecl]:
    """The kernel definitions at namespace scope."""
    scopes: list[str] = []  # a name, '' for extern "C" and the like
    statement: list[str] = []
    parens = at = 0
    while match := TOKEN.search(text, at):
        token, at = match[0], match.end()
        if token == "}" and parens == 0:
            if scopes:
                scopes.pop()
            statement = []
        elif token == ";" and parens == 0:
            statement = []
        elif token == "{" and parens == 0:
            if "__global__" in statement:
                yield _declaration(statement, [s for s in scopes if s])
            scope = _scope(statement)
            if scope is None:
                at = _body_end(text, at)
            else:
                scopes.append(scope)
            statement = []
        else:
            parens += (token == "(") - (token == ")")
            statement.append(token)


def _body_end(text: str, at: int) -> int:
    """The index after the brace that closes the one before ``at``."""
    depth = 1
    for match in BRACE.finditer(text, at):
        depth += (match[0] == "{") - (match[0] == "}")
        if depth == 0:
            return match.end()
    return len(text)


def _scope(statement: list[str]) -> str | None:
    """What a brace opens: a namespace of that name, '' for extern "C"; None for a body."""
    if "namespace" in statement:
        return "".join(statement[statement.index("namespace") + 1 :])
    if statement and statement[0] == "extern" and "(" not in statement:
        return ""
    return None


def _declaration(statement: list[str], scopes: list[str]) -> KernelDecl:
    groups = list(_groups(statement))
    bounds = cluster = None
    name, params = "", []
    for at, end in groups:
        before = statement[at - 1]
        inside = statement[at + 1 : end]
        if before == "__launch_bounds__":
            first = next(iter(_split(inside)), [])
            bounds = _number(first)
        elif before == "__cluster_dims__":
            numbers = [_number(part) for part in _split(inside)]
            if None not in numbers:
                cluster = tuple([*numbers, 1, 1, 1][:3])
        elif before not in ("__attribute__", "alignas", "decltype", "__declspec"):
            name, params = before, _split(inside)
    return KernelDecl(
        name=name,
        qualified="::".join([*scopes, name]),
        params=tuple(_param(p) for p in params if p and p != ["void"]),
        template=statement[0] == "template",
        max_threads=bounds,
        cluster=cluster,
    )


def _groups(tokens: list[str]) -> Iterator[tuple[int, int]]:
    """Where the outermost parentheses open and close."""
    depth = start = 0
    for i, token in enumerate(tokens):
        if token == "(":
            if depth == 0:
                start = i
            depth += 1
        elif token == ")":
            depth -= 1
            if depth == 0:
                yield start, i


def _split(tokens: list[str]) -> list[list[str]]:
    """At the commas that lie in no bracket of any kind."""
    parts: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in "([{<") - (token in ")]}>")
        if token == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [p for p in parts if p]


def _param(tokens: list[str]) -> Param:
    restrict = any(t in ("__restrict__", "__restrict") for t in tokens)
    if "=" in tokens:
        tokens = tokens[: tokens.index("=")]
    names = [t for t in tokens if t.isidentifier()]
    has_name = len(names) > 1 and names[-1] not in ("__restrict__", "__restrict", "const", "int")
    return Param(names[-1] if has_name else "", restrict)


def _number(tokens: list[str]) -> int | None:
    """The value of an expression of plain numbers, else None."""
    text = " ".join(tokens)
    if not text or not re.fullmatch(r"[\d\s()+*/-]+", text):
        return None
    try:
        return int(eval(text.replace("/", "//"), {"__builtins__": {}}))
    except (SyntaxError, ZeroDivisionError):
        return None
