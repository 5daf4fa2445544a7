# SPDX-License-Identifier: Apache-2.0
"""Temporary folders: whose they are, and what becomes of those of processes that were killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from hybridgpu.core import temp_dirs

HELD = """
import time
from hybridgpu.core import temp_dirs

print(temp_dirs.make(), flush=True)
time.sleep(600)
"""
SWEEPS = "from hybridgpu.core import temp_dirs; temp_dirs.make()"
FORKS = """
import os, time
from hybridgpu.cache.disk_cache import default_store

store, (read, write) = default_store(), os.pipe()
ours = store.put("so", "ab12", b"parent").parent.parent
if os.fork():
    print(ours, flush=True)
    raise SystemExit
os.close(write)
while ours.exists():  # the parent has not ended
    time.sleep(0.05)
kept = store.put("so", "cd34", b"child")
print(kept.parent.parent, ours.exists(), store.get("so", "cd34"), store.get("so", "ab12"), sep="\\n", flush=True)
"""


def environment(folder, **more):
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(folder), **more}


def python(program, folder, **more):
    """What it prints, in lines."""
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment(folder, **more), capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="no locks of folders")
def test_what_a_killed_process_left_goes_when_the_next_one_makes_a_folder(tmp_path):
    def left():
        return {p.name for p in tmp_path.iterdir()}

    def age(folder):
        os.utime(folder, (time.time() - 3600,) * 2)

    ours = f"hybridgpu-held-{temp_dirs._system()}"
    for name in (f"{ours}-old", f"{ours}-new", "another-ones", "others/precious"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / f"{ours}-link").symlink_to(tmp_path / "others")
    (tmp_path / f"{ours}-file").write_text("no folder")
    for name in (f"{ours}-old", "another-ones", "others", f"{ours}-file"):
        age(tmp_path / name)
    before = left()
    with subprocess.Popen([sys.executable, "-c", HELD], env=environment(tmp_path), stdout=subprocess.PIPE) as process:
        try:
            held = process.stdout.readline().decode().strip()
            age(held)
            python(SWEEPS, tmp_path)
            assert left() == before - {f"{ours}-old"} | {os.path.basename(held)}
        finally:
            process.kill()
    python(SWEEPS, tmp_path)
    assert left() == before - {f"{ours}-old"} and (tmp_path / "others/precious").is_dir()


@pytest.mark.skipif(sys.platform == "win32", reason="no locks of folders")
@pytest.mark.parametrize(("days", "stays"), [(9, True), (11, False)])
def test_folders_of_other_systems_are_left_for_days(days, stays, tmp_path):
    """Their locks may not be known here: a process that lives may have such a folder."""
    folder = tmp_path / "hybridgpu-held-00000000-live"
    folder.mkdir()
    os.utime(folder, (time.time() - days * 24 * 3600,) * 2)
    python(SWEEPS, tmp_path)
    assert folder.exists() is stays


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
def test_a_child_that_ends_takes_no_folder_of_its_parent_away(tmp_path):
    program = """
import os, sys
from hybridgpu.core.temp_dirs import scratch

with scratch() as folder:
    child = os.fork()
    if not child:
        sys.exit()  # with all that a process does at its end
    assert os.waitpid(child, 0)[1] == 0
    print(folder.is_dir())
print(folder.is_dir())
"""
    assert python(program, tmp_path) == ["True", "False"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
def test_a_child_that_outlives_its_parent_has_a_store_of_its_own(tmp_path):
    """Where there is no lasting one: the parent's goes with the parent, and does not come back."""
    parents, childs, back, own, others = python(FORKS, tmp_path, HYBRIDGPU_CACHE="0")
    assert (parents != childs, back, own, others) == (True, "False", "b'child'", "None")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
def test_a_child_takes_nothing_from_its_parents_folder(tmp_path):
    """When the parent has ended, it may be another user's folder that has the name."""
    program = """
import os, sys
from hybridgpu.cache.disk_cache import default_store

store = default_store()
store.put("so", "ab12", b"parent")
child = os.fork()
if not child:
    read = store.get("so", "ab12")
    store.put("so", "cd34", b"child")
    sys.exit((read, store.get("so", "cd34")) != (None, b"child"))
print(os.waitpid(child, 0)[1], store.get("so", "ab12"), store.get("so", "cd34"))
"""
    assert python(program, tmp_path, HYBRIDGPU_CACHE="0") == ["0 b'parent' None"]


def test_a_relative_place_for_temporary_files(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    program = f"""
import os, tempfile
from hybridgpu.cache.disk_cache import default_store

os.chdir({str(tmp_path)!r})
tempfile.tempdir = os.curdir
store = default_store()
store.put("so", "ab12", b"one")
os.chdir("elsewhere")
store.put("so", "cd34", b"two")
print(store.get("so", "ab12"), store.get("so", "cd34"))
"""
    assert python(program, tmp_path, HYBRIDGPU_CACHE="0") == ["b'one' b'two'"]
    assert [p.name for p in tmp_path.rglob("*")] == ["elsewhere"]
