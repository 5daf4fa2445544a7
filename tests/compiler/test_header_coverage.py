# SPDX-License-Identifier: Apache-2.0
"""Every function and structure of kernels/*.h is called by a kernel that the tests execute, or by one that is.

The cases of ``test_graphs.py`` are executed on both targets; here their texts say which names they call. What a header
calls itself counts where its caller does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from compiler.cases import CASES, build, cuda_of

from hybridgpu.cache.package_files import kernels_folder
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.target import CPU

pytestmark = pytest.mark.no_host_code

Items = dict[str, set[str]]  # name -> words of whatever defines it

_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
#: headers that no kernel includes: programs of their own
_APART = {"thread_pool.h"}
#: what begins at the left margin
_BEGIN = re.compile(
    r"^(?:HG_DEVICE|HG_APART|HG_IN_LIBRARY|HG_MATH_\w+|struct|constexpr|static|extern|#define)\b", re.MULTILINE
)
_NAME = re.compile(
    r"struct +(\w+)|HG_MATH_\w+\((\w+)|(\w+)\(|\(\*(\w+)\)\(|const[\w ]* (\w+)(?:\[\w*\])? =|#define (\w+)"
)
_TEMPLATE = re.compile(r"^template <.*?>\s(?=HG_|struct|constexpr|static)", re.MULTILINE)


def defined(text: str) -> Items:
    """Everything that a header defines; macros count among it."""
    text = re.sub(r"//.*", "", text).replace("\\\n", " ")
    text = re.sub(r"__attribute__\(\(.*?\)\)|__asm__|alignas\([^{]*\)", "", text)
    text = _TEMPLATE.sub("", text)
    starts = [m.start() for m in _BEGIN.finditer(text)]
    found: Items = {}
    for start, end in zip(starts, [*starts[1:], len(text)]):
        item = text[start:end]
        match = _NAME.search(item)
        assert match, f"a header defines something without a name: {item[:80]}"
        name = next(g for g in match.groups() if g)
        found.setdefault(name, set()).update(_WORD.findall(item))
    return found


def reached(texts: Iterable[str], items: Items) -> set[str]:
    """The names which ``texts`` mention, and those that these are made of."""
    waiting = {w for text in texts for w in _WORD.findall(text)} & set(items)
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= items[name] & set(items) - found
    return found


def unused(texts: dict[str, list[str]], headers: dict[str, str]) -> list[str]:
    """``header: name`` of what no target reaches; headers named ``…_cuda`` or ``…_cpu…`` are of one target."""
    each = {name: defined(text) for name, text in headers.items()}
    missing = {f"{h}: {n}" for h, items in each.items() for n in items if not n.startswith("HG_")}
    for target, other in (("cpu", "cuda"), ("cuda", "cpu")):
        of_target = {h: items for h, items in each.items() if other not in h}
        merged: Items = {}
        for items in of_target.values():
            for name, words in items.items():
                merged.setdefault(name, set()).update(words)
        found = reached(texts[target], merged)
        missing -= {f"{h}: {n}" for h, items in of_target.items() for n in items if n in found}
    return sorted(missing)


@pytest.fixture(scope="module")
def texts() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"cpu": [], "cuda": []}
    for name in CASES:
        for target in (CPU, cuda_of(name)):
            program = compile_graph(build(name), target)
            found[target.name] += [re.sub(r"//.*", "", t) for t in (program.source, *(k.text for k in program.kernels))]
    return found


@pytest.fixture(scope="module")
def headers() -> dict[str, str]:
    return {p.name: p.read_text(encoding="utf-8") for p in sorted(kernels_folder().glob("*.h")) if p.name not in _APART}


def test_every_function_is_called(texts, headers):
    assert sum(len(defined(text)) for text in headers.values()) > 200
    left = unused(texts, headers)
    assert not left, "no case calls these:\n" + "\n".join(left)


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ("core.h", "template <typename T>\nHG_DEVICE T nobody(const T x) {\n  return x;\n}\n"),
        ("reduce_cuda.h", "HG_DEVICE float nobody(const float x) { return plus(x, x); }\n"),
        ("tile_cpu.h", "template <int N>\nstruct nobody {\n  int a[N];\n};\n"),
        ("math_cuda.h", "HG_MATH_ONE(nobody, fabsf, fabs)\n"),
    ],
)
def test_a_function_that_nothing_calls_is_named(texts, headers, header, text):
    assert f"{header}: nobody" in unused(texts, {**headers, header: headers[header] + text})
