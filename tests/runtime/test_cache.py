# SPDX-License-Identifier: Apache-2.0
"""The disk cache as other processes meet it: warm, damaged, poisoned, full, read-only, shared."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu.cache import package_files
from hybridgpu.cache.disk_cache import Store, _default_folder

pytestmark = pytest.mark.usefixtures("compiler")

PROGRAM = """
import json, sys, warnings
import numpy as np
caught = []
warnings.showwarning = lambda message, *rest: caught.append(str(message))
warnings.simplefilter("always")
{before}
import hybridgpu as mx
mx.random.seed(1)
net = mx.gluon.nn.HybridSequential()
net.add(mx.gluon.nn.Dense(8, activation="relu"), mx.gluon.nn.HybridLambda(lambda F, x: F.softmax(x) * 2))
net.initialize(mx.init.One())
net.hybridize(static_alloc=True, static_shape=True)
x = mx.nd.array(np.arange(12).reshape(3, 4))
values = [net(x).asnumpy().tolist() for _ in range(3)]
assert values[0] == values[1] == values[2]
report = mx.compile_report()
print(json.dumps({{
    "values": values[0],
    "compiled": report.compiled_modules,
    "caches": [e.cache for e in report.events],
    "targets": sorted({{e.target for e in report.events}}),
    "modules": [m for m in ("jinja2", "cupy", "cupy.cuda.nvrtc", "nvidia", "click", "rich") if m in sys.modules],
    "warnings": caught,
    "explained": str(net.explain(x)),
}}))
"""


def start(folder, before="", **env):
    settings = {**os.environ, "HYBRIDGPU_CACHE_DIR": str(folder), "HYBRIDGPU_VERIFY": "0", **env}
    settings["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(before=before)],
        env=settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err[-3000:]
    return json.loads(out)


def run(folder, before="", **env):
    return result(start(folder, before, **env))


def entries(folder: Path) -> set[str]:
    return {f"{p.parent.name}/{p.name}" for p in folder.glob("*/*")}


@pytest.fixture(scope="module")
def cold(tmp_path_factory):
    """(folder, result) of a first run."""
    folder = tmp_path_factory.mktemp("cache") / "c"
    return folder, run(folder)


@pytest.fixture
def copy(cold, tmp_path):
    """A copy of the filled cache that a test may damage."""
    return Path(shutil.copytree(cold[0], tmp_path / "copy"))


def test_a_cold_process_compiles(cold):
    folder, first = cold
    assert first["compiled"] == 1 and first["caches"] == ["none"] and first["warnings"] == []
    kinds = {Path(e).suffix for e in entries(folder)}
    assert kinds - {".hash"} == {".program", ".so", ".o", ".unit", ".code", ".compiler"}, (
        "(.hash: only of files that lie still)"
    )
    assert not [p for p in folder.glob("*/*") if p.stat().st_mode & 0o077], "others may read or write"


def test_a_warm_process_compiles_nothing_and_imports_no_compiler(cold):
    again = run(cold[0])
    assert again["compiled"] == 0 and again["caches"] == ["disk"]
    assert again["modules"] == []
    assert again["values"] == cold[1]["values"]


def test_processes_at_once_agree(cold, tmp_path):
    folder = tmp_path / "shared"
    results = [result(p) for p in [start(folder) for _ in range(3)]]
    assert [r["values"] for r in results] == [cold[1]["values"]] * 3
    assert all(r["warnings"] == [] for r in results)
    assert entries(folder) == entries(cold[0]), "the keys of two processes differ"
    assert run(folder)["compiled"] == 0


def with_sum(file: Path, data: bytes) -> None:
    """Content that the checksum vouches for."""
    file.write_bytes(data + hashlib.sha256(f"{file.name}\0".encode() + data).digest())


DAMAGE = {
    "cut": lambda f: f.write_bytes(f.read_bytes()[: f.stat().st_size // 2]),
    "empty": lambda f: f.write_bytes(b""),
    "one bit": lambda f: f.write_bytes(f.read_bytes()[:-1] + bytes([f.read_bytes()[-1] ^ 1])),
    "one bit at the beginning": lambda f: f.write_bytes(bytes([f.read_bytes()[0] ^ 1]) + f.read_bytes()[1:]),
    "no checksum": lambda f: f.write_bytes(f.read_bytes()[:-32]),
    "checksum cut": lambda f: f.write_bytes(f.read_bytes()[:-1]),
    "a checksum alone": lambda f: f.write_bytes(f.read_bytes()[-32:]),
    "nothing, with its checksum": lambda f: with_sum(f, b""),
    "poisoned": lambda f: with_sum(f, b"\\x7fELF rubbish" * 50),
    "poisoned JSON": lambda f: with_sum(f, b'{"steps": [1, 2], "kernels": {}, "inputs": "x"}'),
    "poisoned list": lambda f: with_sum(f, b"[]"),
    "deep JSON": lambda f: with_sum(f, b'{"a":' * 50_000),
    "half, with its checksum": lambda f: with_sum(f, f.read_bytes()[: f.stat().st_size // 2]),
    "a link to itself": lambda f: (f.unlink(), f.symlink_to(f)),
    "a pipe": lambda f: (f.unlink(), os.mkfifo(f)),  # which would wait for a writer
    "a dangling link": lambda f: (f.unlink(), f.symlink_to("/nowhere/at/all")),
    "a folder": lambda f: (f.unlink(), f.mkdir()),
    "the kill of a writer": lambda f: (f.unlink(), (f.parent / ".tmpleft").write_bytes(b"half")),
}


@pytest.mark.long_table
@pytest.mark.parametrize("how", DAMAGE)
def test_damaged_entries_are_rebuilt(how, copy, cold):
    for file in list(copy.glob("*/*")):
        DAMAGE[how](file)
    broken = run(copy)
    assert broken["values"] == cold[1]["values"]
    again = run(copy)
    assert again["values"] == cold[1]["values"]
    if how != "a folder":  # which nobody but its owner may remove
        assert again["compiled"] == 0 and again["caches"] == ["disk"] and again["warnings"] == []


def test_entries_of_another_name_do_not_pass(tmp_path):
    """Whole ones, as a careless copy of a cache would leave them: the content of a program, but of another one."""
    store = Store(tmp_path)
    one, other = (store.put_json("program", key * 32, [key]) for key in ("ab", "cd"))
    of_another_kind = store.put("code", "ef" * 32, b"[]").rename(tmp_path / "ef" / f"{'ef' * 32}.program")
    whole = one.read_bytes(), other.read_bytes()
    one.write_bytes(whole[1]), other.write_bytes(whole[0])
    assert [store.get_json("program", key * 32) for key in ("ab", "cd", "ef")] == [None] * 3
    assert not any(f.exists() for f in (one, other, of_another_kind))
    assert store.get_json("program", store.put_json("program", "ab" * 32, 1).stem) == 1


UNUSABLE = {
    "a file in its place": lambda p: p.write_text("no folder"),
    "below a file": lambda p: (p.write_text("no folder"), p / "below")[1],
    "writable by others": lambda p: (p.mkdir(), p.chmod(0o777)),
    "a name too long": lambda p: p / ("x" * 300),
}


@pytest.mark.long_table
@pytest.mark.parametrize("how", UNUSABLE)
def test_unusable_folders_are_said_once_and_the_program_runs(how, tmp_path, cold):
    place = tmp_path / "place"
    made = UNUSABLE[how](place)
    got = run(made if isinstance(made, Path) else place)
    assert got["values"] == cold[1]["values"] and got["compiled"] == 1
    assert len(got["warnings"]) == 1 and "kept for this process only" in got["warnings"][0]
    if place.is_dir():
        assert not list(place.iterdir()), "nothing is written where others can write"


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="the superuser may write anywhere")
def test_a_read_only_folder(copy, cold):
    for p in (*copy.glob("*/*"), *copy.glob("*"), copy):
        p.chmod(0o500)
    got = run(copy)
    assert got["compiled"] == 0 and got["warnings"] == []  # full of what is needed: nothing to write


GONE = """
import os, tempfile
folder = tempfile.mkdtemp()
os.chdir(folder)
os.rmdir(folder)
"""


def test_a_relative_folder_where_the_working_folder_is_gone(cold):
    got = run("relative", before=GONE)
    assert got["values"] == cold[1]["values"] and "kept for this process only" in got["warnings"][0]


def test_the_home_of_nobody_is_a_name_like_others(tmp_path, cold):
    before = f"import os; os.chdir({str(tmp_path)!r})"
    assert run("~nobody-of-this-name/cache", before=before)["values"] == cold[1]["values"]
    assert run("~nobody-of-this-name/cache", before=before)["compiled"] == 0


@pytest.mark.long_table
@pytest.mark.parametrize("name", ["with space", "\u6f22\u00fc", "quo\"te's $(x) `y`;", "-dash", "%s{}", "new\nline"])
def test_names_of_folders(name, tmp_path, cold):
    assert run(tmp_path / name, LANG="C", LC_ALL="C")["values"] == cold[1]["values"]
    assert run(tmp_path / name)["compiled"] == 0


FULL = """
import errno, os
from hybridgpu.cache.disk_cache import Store
real = Store._replace
def replace(file, data):
    if str(file).startswith(os.environ["HYBRIDGPU_CACHE_DIR"]):
        raise OSError({number}, os.strerror({number}))
    real(file, data)
Store._replace = staticmethod(replace)
"""


@pytest.mark.parametrize("caches", [None, "", "/var/tmp/of me", "/var/tmp/", "relative", " ", " /spaces "])
@pytest.mark.parametrize("home", ["/home/me", "/", None])
def test_the_default_folder_is_that_of_platformdirs(caches, home, monkeypatch):
    import platformdirs

    for name, value in (("XDG_CACHE_HOME", caches), ("HOME", home), ("HYBRIDGPU_CACHE_DIR", None)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    monkeypatch.delenv("HYBRIDGPU_CACHE", raising=False)
    assert _default_folder() == Path(platformdirs.user_cache_dir("hybridgpu", appauthor=False))


@pytest.mark.skipif(sys.platform != "linux", reason="asks platformdirs")
def test_the_default_folder_is_found_without_platformdirs():
    """Importing it takes as long as all of a warm first call."""
    env = {k: v for k, v in os.environ.items() if k not in ("HYBRIDGPU_CACHE_DIR", "XDG_CACHE_HOME")}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    asked = "import sys, hybridgpu.cache.disk_cache as s; s._default_folder(); print('platformdirs' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", asked], env=env, capture_output=True, text=True, check=True).stdout
    assert said == "False\n"


def test_a_folder_that_fills_up_while_two_threads_write(tmp_path, monkeypatch):
    """Programs are compiled beside each other: the second one to find out is served by the temporary folder, too."""
    store, replace = Store(tmp_path / "cache"), Store._replace
    others = ["other"]

    def full(file, data):
        if file.is_relative_to(store.folder):
            if others:  # that thread finds out first
                assert store.put("so", "cd34", others.pop().encode())
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(file, data)

    monkeypatch.setattr(Store, "_replace", staticmethod(full))
    with pytest.warns(RuntimeWarning, match="cannot write"):
        assert store.put("so", "ab12", b"code")
    assert (store.get("so", "ab12"), store.get("so", "cd34")) == (b"code", b"other")


def test_a_folder_that_two_threads_look_at(tmp_path, monkeypatch):
    """While one finds out that others may write to it, the other one does not read it."""
    folder, look = tmp_path / "cache", Store._problem
    Store(folder).put("so", "ab12", b"poison")
    folder.chmod(0o777)
    store, found = Store(folder), []

    def another_meanwhile(store):
        monkeypatch.setattr(Store, "_problem", look)
        thread = threading.Thread(target=lambda: found.append(store.get("so", "ab12")))
        thread.start()
        thread.join()
        return look(store)

    monkeypatch.setattr(Store, "_problem", another_meanwhile)
    with pytest.warns(RuntimeWarning, match="can be written by other users"):
        found.append(store.get("so", "ab12"))
    assert found == [None, None]


def test_a_folder_of_others_is_not_used_where_there_is_no_temporary_one_either(tmp_path, monkeypatch):
    def refuse(**_):
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    folder = tmp_path / "cache"
    Store(folder).put("so", "ab12", b"poison")
    folder.chmod(0o777)
    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    store = Store(folder)
    with pytest.warns(RuntimeWarning, match="can be written by other users"):
        assert store.get("so", "ab12") is None
    assert store.put("so", "cd34", b"code") is None
    assert sorted(p.name for p in folder.glob("*/*")) == ["ab12.so"]


@pytest.mark.long_table
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT], ids=errno.errorcode.get)
def test_writes_that_fail(number, tmp_path, cold):
    got = run(tmp_path / "c", before=FULL.format(number=number))
    assert got["values"] == cold[1]["values"] and got["compiled"] == 1
    assert len(got["warnings"]) == 1 and os.strerror(number) in got["warnings"][0]


NOWHERE = """
from hybridgpu.cache.disk_cache import Store
def replace(file, data):
    raise OSError(28, "No space left on device")
Store._replace = staticmethod(replace)
"""


def test_when_nothing_can_be_written_at_all_numpy_runs_the_graph(tmp_path, cold):
    got = run(tmp_path / "c", before=NOWHERE)
    assert got["targets"] == ["reference"]
    np.testing.assert_allclose(got["values"], cold[1]["values"], rtol=1e-5)
    assert sum("NumPy runs" in w for w in got["warnings"]) == 1


LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
"""


DELETES = """
from hybridgpu.cache import disk_cache as store
original = store.Store.put

def put(self, kind, key, data):
    made = original(self, kind, key, data)
    if kind == "so":
        self.forget(kind, key)
    return made

store.Store.put = put
"""


def test_an_entry_that_another_process_deletes_at_once(tmp_path, cold):
    """One that keeps a smaller bound, or clears the folder."""
    again = run(tmp_path / "c", DELETES)
    assert again["values"] == cold[1]["values"] and again["targets"] == ["cpu"] and again["warnings"] == []


@pytest.mark.skipif(sys.platform != "linux", reason="limits of file sizes as Linux has them")
def test_a_process_that_may_only_write_tiny_files(tmp_path, cold):
    """Neither the compiler nor the cache can write: NumPy runs the graph, and it is said."""
    got = run(tmp_path / "c", before=LIMITED)
    np.testing.assert_allclose(got["values"], cold[1]["values"], rtol=1e-5)
    assert "no C++ compiler that works was found" in got["warnings"][0]
    assert "whether it can write to the temporary folder" in got["warnings"][0]
    assert run(tmp_path / "c")["compiled"] == 1


@pytest.mark.skipif(sys.platform != "linux", reason="limits of file sizes as Linux has them")
def test_files_that_are_large_enough_for_what_was_asked_of_the_compiler_and_not_for_the_library(tmp_path, cold):
    """The compiler, which was found before, is ended by a signal and says nothing of it: NumPy runs the graph."""
    for file in cold[0].glob("*/*"):
        if file.suffix in (".compiler", ".code", ".hash"):
            (tmp_path / "c" / file.parent.name).mkdir(parents=True, exist_ok=True, mode=0o700)
            shutil.copy(file, tmp_path / "c" / file.parent.name)
    (tmp_path / "c").chmod(0o700)
    got = run(tmp_path / "c", before=LIMITED.replace("2000", "9000"))
    np.testing.assert_allclose(got["values"], cold[1]["values"], rtol=1e-5)
    assert got["targets"] == ["reference"]
    (said,) = (w for w in got["warnings"] if "NumPy runs" in w)
    where = f"the C++ compiler has no place to work in: {tempfile.gettempdir()}: {os.strerror(errno.EFBIG)}"
    assert where in said and "name a folder in TMPDIR" in said


@pytest.mark.parametrize("size", ["20000", "0", "nonsense"])
def test_the_bound(size, tmp_path, cold):
    folder = tmp_path / "c"
    got = run(folder, HYBRIDGPU_CACHE_SIZE=size)
    assert got["values"] == cold[1]["values"]
    assert (got["warnings"] == []) == (size != "nonsense")


NO_TEMPORARY = """
import tempfile
def refuse(*args, **kwargs):
    raise FileNotFoundError(2, "no usable temporary directory")
tempfile.mkdtemp = refuse
"""


def test_no_lasting_cache(tmp_path, cold):
    got = run(tmp_path / "c", HYBRIDGPU_CACHE="0")
    assert got["values"] == cold[1]["values"] and not (tmp_path / "c").exists()
    nowhere = run(tmp_path / "c", before=NO_TEMPORARY, HYBRIDGPU_CACHE="0")
    assert nowhere["targets"] == ["reference"]
    np.testing.assert_allclose(nowhere["values"], cold[1]["values"], rtol=1e-5)


def test_trim_keeps_what_was_used_last(tmp_path):
    store = Store(tmp_path, limit=1000)
    for k in range(20):
        store.put("so", f"{k:064x}", bytes(100))
        os.utime(store.path("so", f"{k:064x}"), (k, k))
    store.trim()
    assert store.usage().nbytes <= 1000
    assert store.path("so", f"{19:064x}") and not store.path("so", f"{0:064x}")


def test_clear_deletes_nothing_but_entries(tmp_path):
    store = Store(tmp_path)
    store.put("so", "ab" * 32, b"x")
    (tmp_path / "ab" / "mine.txt").write_text("keep")
    (tmp_path / "note").write_text("keep")
    (tmp_path / "ab" / f"{'ab' * 32}.so.sum").write_text("of an earlier version")
    assert store.clear() == 2
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == ["mine.txt", "note"]


@pytest.mark.parametrize("upkeep", ["trim", "clear"])
def test_what_killed_writers_left_is_swept(upkeep, tmp_path):
    store = Store(tmp_path)
    folder = store.put("so", "ab" * 32, b"x").parent
    for name, age in (("old", 7200), ("now", 0)):
        (folder / f".write-{name}").write_bytes(b"half")
        os.utime(folder / f".write-{name}", (time.time() - age,) * 2)
    getattr(store, upkeep)()
    assert [p.name for p in folder.glob(".write-*")] == [".write-now"]


def test_a_changed_lowering_meets_no_old_program(copy, cold):
    """The key covers our own sources: an edited operator must not run the old one's program."""
    changed = "import hybridgpu.cache.package_files as r; real = r.sources_hash; r.sources_hash = lambda notes: 'x' + real(notes)"
    got = run(copy, before=changed)
    assert got["caches"] == ["none"] and got["compiled"] == 0  # the same text: its library is found
    assert got["values"] == cold[1]["values"]


def test_a_process_whose_sources_were_upgraded_leaves_no_program_to_the_new_ones(tmp_path):
    """It runs what it imported, and finds the others' files: its programs would be theirs for ever."""
    package = Path(mx.__file__).resolve().parent
    for name in ("hybridgpu", "templates", "kernels"):
        at = package if name == "hybridgpu" else package_files._folder(name)
        shutil.copytree(at, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    edited = tmp_path / "hybridgpu" / "ops" / "elementwise.py"
    upgrade = f"""
file = {str(edited)!r}
import time
import hybridgpu.ops.elementwise
time.sleep(0.05)  # steps of the file system's clock
old = open(file).read()
new = old.replace("y = b.custom_gradient(b.max(0, x), x,", "y = b.custom_gradient(b.max(100, x), x,")
assert new != old
open(file, "w").write(new)
"""
    command = (
        "import hybridgpu as mx\n"
        "{}\n"
        "net = mx.gluon.nn.HybridLambda('relu')\n"
        "net.hybridize()\n"
        "print(net(mx.nd.array([7])).asscalar())"
    )
    env = {**os.environ, "HYBRIDGPU_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    got = [
        float(
            subprocess.check_output([sys.executable, "-c", command.format(before)], env=env, cwd=tmp_path, timeout=300)
        )
        for before in (upgrade, "", "")
    ]
    assert got == [7, 100, 100]


# -- without a compiler


@pytest.mark.parametrize("command", ["none", " none "])
def test_without_a_compiler_numpy_runs_as_was_asked_for(command, tmp_path, cold):
    got = run(tmp_path / "c", HYBRIDGPU_CXX=command)
    np.testing.assert_allclose(got["values"], cold[1]["values"], rtol=1e-5)
    assert got["targets"] == ["reference"] and got["modules"] == [] and got["warnings"] == []
    said = "NumPy runs the graph operator by operator: HYBRIDGPU_CXX=none asks for it"
    assert said in got["explained"] and "found" not in got["explained"]


@pytest.mark.parametrize("command", ["/nowhere/g++", "false", "cat"])
def test_a_compiler_that_does_not_work_counts_as_none_and_is_told_once(command, tmp_path, cold):
    got = run(tmp_path / "c", HYBRIDGPU_CXX=command)
    np.testing.assert_allclose(got["values"], cold[1]["values"], rtol=1e-5)
    assert got["targets"] == ["reference"] and got["modules"] == []
    said = f"NumPy runs the graph operator by operator: HYBRIDGPU_CXX={command} is no compiler that works"
    assert said in got["explained"]
    assert len(got["warnings"]) == 1 and f"HYBRIDGPU_CXX={command} is no compiler that works" in got["warnings"][0]


def test_the_number_of_entries_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("hybridgpu.cache.disk_cache._MOST_ENTRIES", 3)
    store = Store(tmp_path)
    for k in range(6):
        store.put("x", f"{k:064x}", b"data")
        path = store.path("x", f"{k:064x}")
        os.utime(path, (k, k))
    store.trim()
    assert [store.get("x", f"{k:064x}") is not None for k in range(6)] == [False] * 3 + [True] * 3


def test_a_process_that_goes_on_writing_stays_within_the_number(tmp_path, monkeypatch):
    """And looks at all entries seldom."""
    monkeypatch.setattr("hybridgpu.cache.disk_cache._MOST_ENTRIES", 64)
    looks, entries = [], Store._entries
    monkeypatch.setattr(Store, "_entries", lambda store: looks.append(1) or entries(store))
    Store(tmp_path).put("x", f"{500:064x}", b"another process's")
    store = Store(tmp_path)
    for k in range(200):
        path = store.put("x", f"{k:064x}", b"data")
        os.utime(path, (k, k))
        assert len(list(tmp_path.glob("*/*.x"))) <= 64
    assert len(looks) <= 2 + (200 - 64) // 4 + 1
    assert [store.get("x", f"{k:064x}") is not None for k in range(140, 200)] == [True] * 60
