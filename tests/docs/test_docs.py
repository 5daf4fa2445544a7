# SPDX-License-Identifier: Apache-2.0
"""Every page of the documentation: its code runs and prints what is shown, its links lead somewhere, and what is
made by programs is current."""

from __future__ import annotations

import importlib.util
import itertools
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from docs.pages import Block, blocks, run, settled, with_outputs

import hybridgpu as mx
from hybridgpu.base import show_as
from hybridgpu.cache.disk_cache import reset_default_store
from hybridgpu.frontend.module_aliases import ROOTS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CODE = [p for p in PAGES if blocks(p.read_text(encoding="utf-8"))]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    path = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = path
    return module


@pytest.fixture
def empty_caches(compiler, tmp_path_factory, monkeypatch):
    """A function that empties the caches on disk and in memory, as they are for whoever tries a page first."""

    def empty():
        monkeypatch.setenv("HYBRIDGPU_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        reset_default_store()

    yield empty
    monkeypatch.undo()
    reset_default_store()


@pytest.fixture
def no_new_operators():
    """Modules of functions have no names of operators that a page declares, and removes from the table."""
    modules = [mx.nd.contrib, mx.sym.contrib]
    before = [set(vars(m)) for m in modules]
    yield
    for module, names in zip(modules, before, strict=True):
        for name in set(vars(module)) - names:  # others are looked up again
            if not isinstance(vars(module)[name], ModuleType):
                delattr(module, name)


@pytest.fixture
def our_name_alone(monkeypatch):
    """Undoes install_as_mxnet(), which a page calls."""
    for name in ("path", "meta_path"):
        monkeypatch.setattr(sys, name, [*getattr(sys, name)])
    yield
    for name in [m for m in sys.modules if m.split(".")[0] == "mxnet"]:
        del sys.modules[name]
    ROOTS.discard("mxnet")  # or other pages' graphs would break off without an error, as under that name
    show_as("hybridgpu")


@pytest.mark.parametrize("page", CODE, ids=lambda p: p.name)
@pytest.mark.usefixtures("compiler", "our_name_alone", "mixed_precision_ends", "no_new_operators")
def test_code(page, tmp_path, monkeypatch, update_golden, empty_caches):
    text = page.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    if update_golden:  # what is compared does not say where kernels are from, what is written down does
        empty_caches()
    mx.random.seed(0)
    np.random.seed(0)
    names, outputs = {"__name__": "__main__"}, {}
    for block in blocks(text):
        printed = outputs[block] = run(page, block, names)
        if block.output is None or update_golden:
            continue
        assert settled(printed) == settled(block.output), (
            f"{page.name}, line {block.line}: look at it, and write it down with pytest tests/docs --update-golden"
        )
    if update_golden:
        page.write_text(with_outputs(text, outputs), encoding="utf-8")


def test_what_is_written_down_does_not_depend_on_earlier_runs(empty_caches):
    code = (
        "net = mx.gluon.nn.HybridLambda(lambda F, x: F.exp(x) * 3)\n"
        "net.hybridize()\n"
        "net(mx.nd.ones((2, 7)))\n"
        "print(net.explain(mx.nd.ones((2, 7))))\n"
    )
    block = Block(code, 1, False, None, (0, 0))
    for _ in range(2):
        empty_caches()
        assert ", compiled in " in run(ROOT / "page.md", block, {"mx": mx})


def test_pages_have_code():
    assert {"README.md", "tutorial.md", "errors.md", "files.md", "explain.md"} <= {p.name for p in CODE}


def anchors(page):
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", t.lower()).strip().replace(" ", "-") for t in titles}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda p: p.name)
def test_links(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(file), f"{page.name} links to {target}"


def test_every_page_is_linked():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {f"docs/{p.name}" for p in PAGES[1:]} <= set(re.findall(r"\]\(([^)#\s]+)", text))


def test_table_of_operators_is_current():
    maker = load("make_operators")
    assert maker.PAGE.read_text(encoding="utf-8") == maker.page(), "run python docs/make_operators.py"


def test_page_about_names_of_mxnet_is_current():
    maker = load("make_coming_from_mxnet")
    assert maker.PAGE.read_text(encoding="utf-8") == maker.page(), "run python docs/make_coming_from_mxnet.py"


def test_constants_of_devices_are_current():
    maker = load("make_devices")
    text = maker.PAGE.read_text(encoding="utf-8")
    assert text == maker.page(text), "run python docs/make_devices.py"


def test_pictures_are_current():
    maker = load("make_pictures")
    for name, text in maker.pictures().items():
        assert (maker.FOLDER / name).read_text(encoding="utf-8") == text, "run python docs/make_pictures.py"
    assert {p.name for p in maker.FOLDER.iterdir()} == set(maker.pictures())


def test_measured_tables_are_current():
    for page, text in load("make_results").pages().items():
        assert page.read_text(encoding="utf-8") == text, "run python docs/make_results.py"


def test_measured_tables_have_every_workload(monkeypatch, tmp_path):
    """A document with all cases of bench/peers.py, on both devices, becomes tables that name each."""
    maker = load("make_results")
    sizes = maker.beside.SIZES
    assert set(maker.HEADS) == set(sizes)
    numbers = itertools.count(1000)
    document = dict(maker.newest("peers-*.json"), date="2100-01-01T00:00:00+00:00")
    row = {
        "library": "",
        "mode": "",
        "min_us": 1.0,
        "over_hybridgpu": 1.0,
        "calls": 1,
        "rounds": 1,
        "cpu_over_wall": 1.0,
    }
    for device, kinds in (("cpu", ["latency"]), ("gpu", ["latency", "throughput"])):
        cases = [
            {"workload": w, "size": n, "kind": kind, "failed": {}, "rows": [{**row, "name": m, "median_us": next(numbers)} for m in maker.SHOWN]}
            for w in sizes for kind in kinds for n in sizes[w]
        ]  # fmt: skip
        text = json.dumps({**document, "device": device, "cases": cases})
        (tmp_path / f"peers-{device}.json").write_text(text, encoding="utf-8")
    bench = maker.newest("bench-*.json")
    monkeypatch.setattr(maker, "RESULTS", tmp_path)
    cpu, gpu = maker.newest("peers-*.json"), maker.newest("peers-*.json", "gpu")
    assert (cpu["device"], gpu["device"]) == ("cpu", "gpu") and maker.newest("bench-*.json") is None
    readme, page = maker.short(cpu), maker.long(cpu, bench, gpu)
    for workload, head in maker.HEADS.items():
        assert f"\n| {head.format(format(sizes[workload][0], ','))} | **1," in readme, workload
        title = maker.beside.TITLES[workload].partition("{")[0]
        assert len(re.findall(rf"^\*\*{re.escape(title)}", page, re.MULTILINE)) == 3, workload
    assert set(re.findall(r"\b\d,\d{3}\b", page)) >= {
        f"{r['median_us']:,}" for d in (cpu, gpu) for c in d["cases"] for r in c["rows"]
    }


@pytest.mark.parametrize("variable", sorted(set(re.findall(r"HYBRIDGPU_[A-Z_]+[A-Z]", "\n".join(
    p.read_text(encoding="utf-8") for p in (ROOT / "hybridgpu").rglob("*.py"))))))  # fmt: skip
def test_every_variable_is_described(variable):
    assert f"`{variable}" in (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")


def test_the_glossary_names_modules_that_are_there():
    text = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8").split("## Glossary")[1]
    modules = re.findall(r"\| `([\w/.]+)` \|$", text, re.MULTILINE)
    assert len(modules) >= 30
    assert [m for m in modules if not (ROOT / "hybridgpu" / m).exists()] == []
