# SPDX-License-Identifier: Apache-2.0
"""Processes that are killed at random moments: their files are old or new, and the next process works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")


def environment(tmp_path):
    (tmp_path / "temporary").mkdir()
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "HYBRIDGPU_CACHE_DIR": str(tmp_path / "cache"),
        "HYBRIDGPU_VERIFY": "0",
        "TMPDIR": str(tmp_path / "temporary"),
    }


@pytest.mark.parametrize("kills", [9, pytest.param(300, marks=pytest.mark.exhaustive)])
def test_kills_at_random_moments(kills, tmp_path, compiler):
    env = environment(tmp_path)
    (tmp_path / "files").mkdir()
    command = [sys.executable, str(Path(__file__).with_name("killed.py")), str(tmp_path / "files"), str(kills)]
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60 + 10 * kills, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    done = json.loads(run.stdout)
    print(done)
    assert done["files"] + done["compiling"] == kills and done["read"] >= done["files"]
    assert done["targets"] == ["cpu"]
    # between getting a name and being moved into place there is a moment, in which few are met
    assert done["beside"] <= 1 + kills // 20

    # what killed compilers and writers left goes with the first process that comes later
    places = [*(tmp_path / "temporary").iterdir(), *(tmp_path / "cache").glob("*/.write-*")]
    for place in places:
        os.utime(place, (time.time() - 4000,) * 2)
    later = "from hybridgpu.cache import disk_cache; from hybridgpu.core import temp_dirs; temp_dirs.make(); disk_cache.default_store().trim()"
    subprocess.run([sys.executable, "-c", later], env=env, check=True, timeout=60)
    left = [*(tmp_path / "temporary").glob("hybridgpu-held-*"), *(tmp_path / "cache").glob("*/.write-*")]
    assert not left
