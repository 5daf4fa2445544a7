# SPDX-License-Identifier: Apache-2.0
"""Imports run one way, those inside functions included; what looks upwards is registered."""

from __future__ import annotations

import importlib

import pytest

import hybridgpu
from hybridgpu.core.late_bindings import LateBindings

#: the imports that close a circle: MXNet has these names in modules that others are made of
PUBLIC_WAYS = {
    ("hybridgpu.context", "hybridgpu.backends.devices"),  # num_gpus(), gpu_memory_info()
    ("hybridgpu.model", "hybridgpu.module.feed_forward"),  # model.FeedForward
}

#: instance of late bindings -> modules of other packages that define functions of it
BINDINGS = {
    "hybridgpu.ndarray": {"hybridgpu.runtime.dispatch.pools", "hybridgpu.runtime.eager_kernels"},
    "hybridgpu.ndarray.numpy": set(),
    "hybridgpu.symbol": {"hybridgpu.executor.bind", "hybridgpu.executor.evaluate"},  # Symbol.bind, simple_bind, eval
    "hybridgpu.tracing": set(),
}


def circles(imports: dict[str, set[str]]) -> list[set[str]]:
    """Sets of several modules each of which reaches all others of its set: Tarjan's, without recursion."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    found = []
    for root in imports:
        stack = [(root, iter(sorted(imports[root])))] if root not in number else []
        while stack:
            module, rest = stack[-1]
            if module not in number:
                number[module] = low[module] = len(number)
                path.append(module)
            for other in rest:
                if other not in number:
                    stack.append((other, iter(sorted(imports[other]))))
                    break
                if other in path:
                    low[module] = min(low[module], low[other])
            else:
                stack.pop()
                if stack:
                    low[stack[-1][0]] = min(low[stack[-1][0]], low[module])
                if low[module] == number[module]:
                    at = path.index(module)
                    if len(path) - at > 1:
                        found.append(set(path[at:]))
                    del path[at:]
    return found


@pytest.mark.parametrize(
    "imports, expected",
    [
        ("ab bc", []),
        ("ab ba", ["ab"]),
        ("ab bc ca cd de", ["abc"]),
        ("ab ac bd cd", []),
        ("ab bc cb da ad", ["bc", "ad"]),
        ("ab bc cd db ea", ["bcd"]),
    ],
)
def test_the_search_finds_circles(imports, expected):
    pairs = imports.split()
    graph = {m: {b for a, b in pairs if a == m} for m in sorted({*"".join(pairs)})}
    assert sorted(map(sorted, circles(graph))) == sorted(map(sorted, expected))


def test_no_import_closes_a_circle():
    grimp = pytest.importorskip("grimp", reason="comes with import-linter")
    graph = grimp.build_graph("hybridgpu", exclude_type_checking_imports=True)
    imports = {m: set(graph.find_modules_directly_imported_by(m)) for m in graph.modules}
    assert len(imports) > 500
    unused = [way for way in PUBLIC_WAYS if way[1] not in imports[way[0]]]
    for importer, imported in PUBLIC_WAYS:
        imports[importer].discard(imported)
    assert circles(imports) == []
    assert not unused, "take these out of PUBLIC_WAYS"


@pytest.mark.parametrize("package", BINDINGS)
def test_what_looks_upwards_is_registered(package):
    late = importlib.import_module(f"{package}.late_bindings").late
    assert set(late.registered()) == set(type(late).__annotations__)
    homes = {importlib.util.resolve_name(*where) for where in late._modules.values()}
    assert {m for m in homes if not m.startswith(package)} == BINDINGS[package]


def test_all_late_bindings_are_looked_at():
    assert {c.__module__.removesuffix(".late_bindings") for c in LateBindings.__subclasses__()} <= set(BINDINGS)


def test_names_that_nobody_registered():
    class Bindings(LateBindings):
        known: int

    late = Bindings()
    with pytest.raises(AttributeError, match=r"no package has registered Bindings\.known"):
        _ = late.known
    with pytest.raises(AssertionError, match="Bindings does not ask for unknown"):
        late.register(hybridgpu.__name__, {".base": "unknown"})
