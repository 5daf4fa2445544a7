# SPDX-License-Identifier: Apache-2.0
"""What a first call does and does not do: with a filled cache nearly nothing, with an empty one no more than it must."""

from __future__ import annotations

import json
import marshal
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.backends import library
from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.cache import package_files
from hybridgpu.compiler.codegen import math_headers
from hybridgpu.compiler.host_copy import host_copy_program
from hybridgpu.compiler.ir.graph import Builder
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.primitives import TABLE
from hybridgpu.compiler.program import LibraryStep, Program
from hybridgpu.compiler.reference import Interpreter
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import f32
from hybridgpu.gluon import nn

pytestmark = pytest.mark.as_shipped

LARGE, SMALL = (1 << 11, 1 << 10), (6, 4)


def dense(**flags):
    """A layer whose weight is kept in panels, where the processor gains by them."""
    if not cpu_backend().target.panels:
        pytest.skip("this processor gains nothing by panels")
    net = nn.Dense(128, in_units=12)
    net.initialize()
    net.weight.set_data(nd.array(np.random.RandomState(0).standard_normal((128, 12))))
    net.hybridize(**flags)
    return net, nd.array(np.random.RandomState(1).standard_normal((3, 12)))


# -- a filled cache

_WARM = """
import json, sys
import hybridgpu as mx
before = set(sys.modules)
net = mx.gluon.nn.HybridSequential()
net.add(mx.gluon.nn.Dense(128, activation="relu"), mx.gluon.nn.HybridLambda(lambda F, x: F.softmax(x) * 2))
net.initialize(mx.init.One())
net.hybridize(static_alloc=True, static_shape=True)
y = net(mx.nd.ones((3, 12)))
loaded = sorted(set(sys.modules) - before)
print(json.dumps([mx.compile_report().compiled_modules, loaded, float(y.sum().asscalar())]))
"""
#: what makes programs: none of it is wanted where they are there
COMPILING = (
    "hybridgpu.backends.cpu.compile",
    "hybridgpu.compiler.codegen",
    "subprocess",
    "hybridgpu.compiler.pipeline",
    "hybridgpu.compiler.passes.fuse",
    "hybridgpu.compiler.schedule",
)


def test_a_warm_start_loads_nothing_that_makes_programs(compiler, tmp_path):
    env = {**os.environ, "HYBRIDGPU_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", _WARM]
    cold, warm = (
        json.loads(subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=300).stdout)
        for _ in range(2)
    )
    assert cold[0] == 1 and set(COMPILING) <= set(cold[1])
    assert warm[0] == 0 and warm[2] == cold[2]
    assert not [m for m in warm[1] if m in COMPILING or m.startswith(("jinja2.", "hybridgpu.compiler.codegen"))]


class Notes(dict):
    """What a store does, in memory."""

    def get(self, kind, key):
        return super().get((kind, key))

    def put(self, kind, key, data):
        self[kind, key] = data


@pytest.fixture
def files(tmp_path):
    """A folder with two files that were written long ago, as far as their times tell."""
    (tmp_path / "inner").mkdir()
    for name in ("a.h", "inner/b.h"):
        (tmp_path / name).write_text(name)
    return tmp_path


def hashed(folder, notes, record=None):
    (found,), _ = package_files._hash([[(str(folder), ".h")]], notes, lambda: record)
    return found


def test_files_that_lie_still_are_read_once(files, monkeypatch):
    monkeypatch.setattr(package_files, "_STABLE_AFTER", -10)
    notes = Notes()
    first = hashed(files, notes)
    assert len(notes) == 1 and first == hashed(files, None)
    monkeypatch.setattr("pathlib.Path.read_bytes", lambda path: pytest.fail(f"{path} was read again"))
    assert hashed(files, notes) == first


def test_all_files_are_found(files):
    (files / "inner" / "deeper").mkdir()
    (files / "inner" / "deeper" / "link.h").symlink_to(files / "a.h")
    (files / "other.txt").write_text("")
    found = package_files._found_at([[(str(files), ".h")], [(str(files), "other.txt")]])
    headers = [files / name for name in ("a.h", "inner/b.h", "inner/deeper/link.h")]
    assert found.sets == [[*map(str, headers)], [str(files / "other.txt")]]
    assert set(found.folders) == {str(files), str(files / "inner"), str(files / "inner" / "deeper")}
    assert found.states[-1] == (files / "other.txt").stat().st_ino
    assert found.states[-5] == found.states[-13] == (files / "a.h").stat().st_ino
    assert set(found.times(1)) == {(files / "other.txt").stat().st_mtime_ns, (files / "other.txt").stat().st_ctime_ns}
    assert max(found.times()) == max(p.stat().st_ctime_ns for p in [*headers, files / "other.txt"])
    assert max(found.listed) == max(Path(p).stat().st_ctime_ns for p in found.folders)


def test_hidden_files_are_no_sources(files):
    """As an editor's lock and backup, while one of us writes: a link to nothing, and what nobody includes."""
    before = hashed(files, None)
    (files / ".#a.h").symlink_to("somebody@host.1:1")
    (files / "inner" / "._b.h").write_text("")
    (files / ".history").mkdir()
    (files / ".history" / "a.h").write_text("")
    assert hashed(files, None) == before


def test_what_else_comes_into_a_folder_is_no_reason_to_read_the_files_again(files, monkeypatch):
    """Python's and our own ``__pycache__`` come with the first use."""
    notes = Notes()
    for path in (files / "a.h", files / "inner" / "b.h"):
        os.utime(path, ns=(0, 0))
    monkeypatch.setattr(package_files, "_is_stable", lambda times: max(times) < began)  # the folders change from now on
    began = time.time_ns()
    first = hashed(files, notes)
    time.sleep(0.02)
    (files / "inner" / "__pycache__").mkdir()
    monkeypatch.setattr(package_files, "_read", lambda *_: pytest.fail("files were read again"))
    assert hashed(files, notes) == first
    monkeypatch.undo()
    (files / "new.h").write_text("")
    assert hashed(files, notes) == hashed(files, None) != first


@pytest.mark.parametrize("place", ["elsewhere", "else/where"])
def test_the_hash_is_that_of_the_same_files_elsewhere(place, files, tmp_path):
    """Where they lie is no part of it: a cache on a shared home serves all installations."""
    other = tmp_path.parent / f"{tmp_path.name} {place}" / files.name
    shutil.copytree(files, other)
    assert hashed(other, None) == hashed(files, None)


def copy_needed_modules(package):
    """What ``cache.package_files`` imports, and nothing else, as a package of its own."""
    ours = Path(mx.__file__).parent
    (package / "cache").mkdir()
    for name in ("base.py", "cache/package_files.py"):
        shutil.copy(ours / name, package / name)
    for folder in (package, package / "cache"):
        (folder / "__init__.py").write_text("")


def link_modules(package, folder):
    for file in package.rglob("*.py"):
        link = folder / file.relative_to(package)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(file)


@pytest.mark.parametrize("linked", ["nothing", "the package", "its files"])
@pytest.mark.parametrize("inside", [False, True], ids=["a checkout", "an installed package"])
def test_texts_are_found_beside_the_package_and_inside_it(linked, inside, tmp_path):
    """Through links, too, and not beside these: folders of such names are anybody's there."""
    package = tmp_path / "real" / "hybridgpu"
    texts = package if inside else package.parent
    for folder in (package, texts / "kernels", texts / "templates", tmp_path / "site" / "kernels"):
        folder.mkdir(parents=True, exist_ok=True)
    copy_needed_modules(package)
    at = tmp_path / "site"
    if linked == "the package":
        (at / "hybridgpu").symlink_to(package)
    elif linked == "its files":
        link_modules(package, at / "hybridgpu")
    else:
        at = package.parent
    command = "from hybridgpu.cache.package_files import kernels_folder as f; print(f().resolve())"
    found = subprocess.check_output(
        [sys.executable, "-c", command], cwd=at, text=True, env={**os.environ, "PYTHONPATH": ""}
    )
    assert found.strip() == str((texts / "kernels").resolve())


def test_files_that_have_just_changed_are_read_again(files):
    """Another change within the same step of the clock would leave no trace."""
    notes = Notes()
    hashed(files, notes)
    assert not notes


def swapped(folder, *names):
    """Another folder in its place, with a file of the same content and more."""
    new = folder.with_name("new")
    new.mkdir()
    for name in names:
        (new / name).hardlink_to(folder / "b.h")
    shutil.copystat(folder, new)
    folder.rename(folder.with_name("old"))
    new.rename(folder)
    shutil.rmtree(folder.with_name("old"))


def relinked(file, to):
    file.unlink()
    file.symlink_to(to)


def in_its_old_time(file, text):
    info = file.stat()
    assert info.st_size >= len(text)
    file.write_text(text)
    os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "a.h").write_text("longer than it was"),
        lambda folder: (folder / "inner" / "b.h").write_text("as long!!"),
        lambda folder: (folder / "c.h").write_text("another"),
        lambda folder: (folder / "a.h").unlink(),
        lambda folder: (folder / "a.h").rename(folder / "d.h"),
        lambda folder: (folder / "inner" / "more").mkdir() or (folder / "inner" / "more" / "e.h").write_text(""),
        lambda folder: (folder / "inner").rename(folder / "other"),
        lambda folder: swapped(folder / "inner", "b.h", "c.h"),
        lambda folder: shutil.rmtree(folder / "inner"),
        lambda folder: relinked(folder / "a.h", folder / "inner" / "b.h"),
        lambda folder: in_its_old_time(folder / "a.h", "b.h"),
    ],
    ids=[
        *("size", "content", "one more", "one less", "name", "one more folder", "a folder's name"),
        *("another folder of that name", "one folder less", "a link in its place", "content, but not the time"),
    ],
)
def test_every_change_of_a_file_changes_the_hash(files, change, monkeypatch):
    monkeypatch.setattr(package_files, "_STABLE_AFTER", -10)
    notes = Notes()
    before = hashed(files, notes)
    time.sleep(0.02)  # a step of the file system's clock
    change(files)
    after = hashed(files, notes)
    assert after != before and after == hashed(files, None)
    assert hashed(files, notes) == after


@pytest.fixture
def installed(files, tmp_path_factory, monkeypatch):
    """Files that an installer wrote, with those that Python compiled, and its record of them."""
    monkeypatch.setattr(package_files, "_STABLE_AFTER", -10)
    (files / "inner" / "__pycache__").mkdir()
    record = tmp_path_factory.mktemp("dist-info") / "RECORD"
    record.write_text("a.h\ninner/b.h\n")
    return files, str(record)


def test_files_of_an_installer_are_known_by_its_record(installed, monkeypatch):
    files, record = installed
    notes, seen = Notes(), []
    first = hashed(files, notes, record)
    real = os.stat
    monkeypatch.setattr(os, "stat", lambda path: seen.append(path) or real(path))
    monkeypatch.setattr(package_files, "_read", lambda *_: pytest.fail("files were read again"))
    assert hashed(files, notes, record) == first
    assert sorted(seen) == sorted([*map(str, (files, files / "inner", files / "inner" / "__pycache__")), record])


def upgraded(folder, record):
    (folder / "inner" / "b.h").write_text("new")
    Path(record).write_text("a.h\ninner/b.h\n")


def recompiled(folder, record):
    """As Python does for a module that somebody edited, when it is imported."""
    (folder / "inner" / "b.h").write_text("new")
    (folder / "inner" / "__pycache__" / "new").write_text("")
    (folder / "inner" / "__pycache__" / "new").rename(folder / "inner" / "__pycache__" / "b.pyc")


@pytest.mark.parametrize(
    "change",
    [
        upgraded,
        recompiled,
        lambda folder, record: (folder / "c.h").write_text("another"),
        lambda folder, record: (folder / "a.h").unlink(),
        lambda folder, record: in_its_old_time(folder / "a.h", "b.h") or Path(record).write_text("a.h\ninner/b.h\n"),
        lambda folder, record: (folder / "a.h").write_text("by hand") and Path(record).unlink(),
    ],
    ids=["an upgrade", "by hand, and imported", "one more", "one less", "in its old time", "no record any more"],
)
def test_an_upgrade_changes_the_hash(installed, change):
    files, record = installed
    notes = Notes()
    before = hashed(files, notes, record)
    time.sleep(0.02)  # a step of the file system's clock
    change(files, record)
    record = record if Path(record).exists() else None
    after = hashed(files, notes, record)
    assert after != before and after == hashed(files, None)
    assert hashed(files, notes, record) == after


def test_a_record_that_was_just_written_is_not_noted(files, tmp_path_factory, monkeypatch):
    """The installer may still be at work."""
    record = tmp_path_factory.mktemp("dist-info") / "RECORD"
    time.sleep(0.02)  # a step of the file system's clock
    record.write_text("")
    written = record.stat().st_ctime_ns
    monkeypatch.setattr(package_files, "_is_stable", lambda times: max(times, default=0) < written)
    notes = Notes()
    hashed(files, notes)
    assert len(notes) == 1
    notes.clear()
    hashed(files, notes, str(record))
    assert not notes


@pytest.mark.parametrize(
    ("inside", "linked", "records", "found"),
    [
        (True, "nothing", ["hybridgpu-1.0"], True),
        (True, "nothing", ["hybridgpu-1.0", "hybridgpu-0.9"], False),  # an installer at work
        (True, "nothing", ["hybridgpu_more-1.0"], False),
        (False, "nothing", ["hybridgpu-1.0"], False),  # a checkout whose folder was an installer's
        (True, "the package", ["hybridgpu-1.0"], False),
        (True, "its files", ["hybridgpu-1.0"], False),
    ],
    ids=["installed", "two versions", "another package", "a checkout", "a link", "links in the package"],
)
def test_whose_record_is_believed(inside, linked, records, found, tmp_path):
    package = tmp_path / "real" / "hybridgpu"
    package.mkdir(parents=True)
    for folder in ("kernels", "templates"):
        ((package if inside else package.parent) / folder).mkdir()
    copy_needed_modules(package)
    at = package.parent
    if linked != "nothing":
        at = tmp_path / "site"
        at.mkdir()
        if linked == "the package":
            (at / "hybridgpu").symlink_to(package)
        else:
            for name in ("kernels", "templates"):
                shutil.copytree(package / name, at / "hybridgpu" / name)
            link_modules(package, at / "hybridgpu")
    for name in records:
        record = at / f"{name}.dist-info" / "RECORD"
        record.parent.mkdir()
        record.write_text("")
    command = "from hybridgpu.cache.package_files import _record as f; print(f())"
    got = subprocess.check_output(
        [sys.executable, "-c", command], cwd=at, text=True, env={**os.environ, "PYTHONPATH": ""}
    )
    assert got.strip() == (str(record) if found else "None")


def test_the_hash_covers_what_makes_programs(monkeypatch):
    """Modules of runtime/ that give graphs to the compiler: a program of older ones on disk is not taken."""
    places: list = []
    monkeypatch.setattr(package_files, "_found", {})
    real = package_files._found_at
    monkeypatch.setattr(
        package_files, "_found_at", lambda sets: places.extend(p for s in sets for p in s) or real(sets)
    )
    package_files.sources_hash()
    folder = Path(mx.__file__).parent
    makers = [
        p for p in (folder / "runtime").glob("*.py") if re.search(r"[ =]Compilation\(", p.read_text(encoding="utf-8"))
    ]
    assert {p.name for p in makers} >= {"compilation.py", "recorded_program.py", "optimizer_programs.py"}
    assert {(str(folder / "runtime"), p.name) for p in makers} <= set(places)
    assert {(str(folder / name), ".py") for name in ("ops", "compiler", "symbol")} <= set(places)


WRONG = {
    "nothing": lambda note: b"",
    "a number": lambda note: marshal.dumps(3),
    "cut": lambda note: note[:-1],
    "another form": lambda note: marshal.dumps({}),
    "no hash": lambda note: marshal.dumps(marshal.loads(note)[:4]),
    "a short hash": lambda note: marshal.dumps([*marshal.loads(note)[:4], "0" * 63]),
    "a number as hash": lambda note: marshal.dumps([*marshal.loads(note)[:4], 3]),
    "two hashes": lambda note: marshal.dumps([*marshal.loads(note)[:4], *["0" * 64] * 2]),
    "numbers as files": lambda note: marshal.dumps(["", 0.5, *marshal.loads(note)[2:]]),
    "no file": lambda note: marshal.dumps(["", "/nowhere/at/all", *marshal.loads(note)[2:]]),
    "another state": lambda note: marshal.dumps([*marshal.loads(note)[:3], marshal.dumps([0], 0), "0" * 64]),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_note_that_is_none_is_not_believed(files, wrong, monkeypatch):
    monkeypatch.setattr(package_files, "_STABLE_AFTER", -10)
    notes = Notes()
    right = hashed(files, notes)
    ((key, note),) = notes.items()
    notes[key] = WRONG[wrong](note)
    assert hashed(files, notes) == right
    assert notes[key] == note


# -- an empty one


def test_a_prelude_of_copies_compiles_nothing(compiler):
    net, x = dense()
    before = mx.compile_report().compiled_modules
    want = x.asnumpy() @ net.weight.data().asnumpy().T
    np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-5, atol=1e-5)
    (made,) = [e.program for e in net._cached_op.entries.values()]
    prelude = made.program.prelude
    assert prelude.source == "" and not prelude.kernels and not prelude.segments
    assert [type(s) for s in prelude.steps] == [LibraryStep]
    assert mx.compile_report().compiled_modules - before <= 1, "more than the program itself"
    assert Program.from_bytes(prelude.to_bytes()) == prelude


def test_what_was_copied_is_copied_again(compiler):
    """Prepared calls of before hold what they read."""
    net, x = dense(static_alloc=True, static_shape=True)
    for _ in range(3):
        net(x)
    (kept,) = net._cached_op._folded.values()
    held, before = kept._values, [v.copy() for v in kept._values]
    for factor in (2, -3):
        net.weight.set_data(net.weight.data() * factor)
        want = x.asnumpy() @ net.weight.data().asnumpy().T
        for _ in range(3):
            np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-5, atol=1e-5)
    assert kept.runs == 3
    for a, b in zip(held, before, strict=True):
        np.testing.assert_array_equal(a, b)


def graph_of(shape, *views):
    b = Builder(TABLE)
    x = b.input(tensor_type(shape, f32), "x")
    results = []
    for view in views:
        node = view(b, x)
        results.append(b.apply(TABLE["copy"], (node,), {}))
    return b.finish(results, "g")


VIEWS = {
    "transposed": lambda b, x: b.transpose(x, (1, 0)),
    "panels": lambda b, x: b.transpose(b.reshape(x, (2, 3, 4)), (0, 2, 1)),
    "every other row": lambda b, x: b.slice(x, (1, 0), (6, 4), (2, 1)),
    "backwards": lambda b, x: b.reverse(x, axes=(0, 1)),
    "repeated": lambda b, x: b.broadcast(b.reshape(x, (1, 6, 4)), (5, 6, 4)),
    "as it is": lambda b, x: x,
}


@pytest.mark.parametrize("name", VIEWS)
def test_copies_through_views(name, compiler):
    graph = graph_of(SMALL, VIEWS[name], VIEWS["transposed"])
    program = host_copy_program(graph, CPU)
    x = np.arange(24, dtype="f").reshape(SMALL)
    want = Interpreter(graph, np)(x)
    results = [np.full(t.shape, np.nan, "f") for t in want]
    loaded = cpu_backend().load(program)
    assert loaded.info.compiled == 0
    loaded([x], results)
    for y, w in zip(results, want, strict=True):
        np.testing.assert_array_equal(y, w)


@pytest.mark.parametrize(
    ("shape", "order", "dtype", "in_strips"),
    [
        ((2, 128, 512), (0, 2, 1), "f4", True),
        ((70, 512), (1, 0), "f4", True),  # the last strip is short
        ((33, 512), (1, 0), "f8", True),
        ((64, 1024), (1, 0), "f2", True),
        ((4, 128, 256), (2, 0, 1), "f4", True),
        ((70, 500), (1, 0), "f4", False),  # lines spread over the cache
        ((40, 256), (1, 0), "f4", False),  # small
        ((1024, 16), (1, 0), "f8", False),  # more calls than it is worth
        ((128, 512), (0, 1), "f4", False),  # as it lies
    ],
)
def test_copies_in_strips(shape, order, dtype, in_strips):
    """Weights in another order, which first calls wait for: the same elements, wherever strips begin and end."""
    x = (np.arange(np.prod(shape)) % 2039).reshape(shape).astype(dtype)
    for seen in (x.transpose(order), x[::-1].transpose(order)):
        assert library._needs_im2col(seen) is in_strips
        out = np.zeros(seen.shape, dtype)
        library._copy(np, out, seen)
        np.testing.assert_array_equal(out, seen)


def test_what_is_repeated_is_copied_at_once():
    x = np.arange(512, dtype="f")
    seen = np.broadcast_to(x[:, None], (512, 4096))
    assert not library._needs_im2col(seen) and not library._needs_im2col(np.float32(1))


@pytest.mark.parametrize(
    ("graph", "target"),
    [
        (graph_of(SMALL, lambda b, x: b.add(x, x)), CPU),
        (graph_of(SMALL, lambda b, x: b.pad(x, low=(1, 0), high=(0, 0), value=0)), CPU),
        (graph_of(SMALL, VIEWS["transposed"], lambda b, x: b.exp(x)), CPU),
        (graph_of(LARGE, VIEWS["transposed"]), CPU),
        (graph_of(SMALL, VIEWS["transposed"]), CUDA),
    ],
    ids=["computed", "padded", "one of them", "large", "GPU"],
)
def test_what_else_is_compiled(graph, target):
    assert host_copy_program(graph, target) is None


# -- what a program includes of the mathematics

BASIC, EXP, LOG = "math_cpu_basic.h", "math_cpu_exp.h", "math_cpu_log.h"


@pytest.mark.parametrize(
    ("text", "numeric", "included"),
    [
        ("v1 = hg::maximum(0.0f, v0)", "strict", [BASIC]),
        ("v1 = hg::maximum(0.0f, v0)", "fast", [BASIC]),
        ("v1 = v0 + 1", "strict", [BASIC]),
        ("v1 = hg::exp(v0)", "strict", [EXP]),
        ("v1 = hg::exp(v0)", "fast", ["math.h"]),
        ("v1 = hg::sqrt(hg::log1p(v0))", "strict", [BASIC, LOG]),
        ("v1 = hg::lgamma(v0)", "strict", ["math.h"]),
        ("v1 = hg::exp(hg::cbrt(v0))", "strict", ["math.h"]),
        ("const double v1 = hg::exp(v0)", "strict", ["math.h"]),
    ],
)
def test_parts_of_the_mathematics(text, numeric, included):
    assert math_headers.required_headers(["half.h", "math.h", "reduce.h"], [text], numeric) == [
        "half.h",
        *included,
        "reduce.h",
    ]
    assert math_headers.required_headers(["half.h"], [text], numeric) == ["half.h"]


def test_every_function_is_found_in_a_part_or_beyond():
    parts, beyond = math_headers._functions()
    names = {n for found in parts.values() for n in found}
    assert {"maximum", "exp", "tanh", "log", "pow", "sin", "atan2", "erf"} <= names
    assert {"cbrt", "hypot", "tgamma", "digamma"} <= beyond and not names & beyond
