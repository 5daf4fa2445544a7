# SPDX-License-Identifier: Apache-2.0
"""A disk that is full, as the system tells it: a small file system of the program's own.

``tests/io/test_whole_files.py`` has the same for files that may not grow, within this process.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from small_disk import run_with_small_disk

HERE = Path(__file__).parent


def test_every_writer(tmp_path, compiler):
    """The error names the file, the former file stays as it was, nothing lies beside it, and later writing works."""
    run = run_with_small_disk(tmp_path, "size=16m", [sys.executable, str(HERE / "full.py"), str(tmp_path)])
    assert run.returncode == 0, run.stderr[-3000:]
    failed = json.loads(run.stdout)
    print(failed)
    assert len(failed) == 15
    assert {
        kind for name, kind in failed.items() if name not in ("Trainer.save_states", "profiler", "CheckpointHandler")
    } == {"MXNetError"}


#: what the disk holds, the settings, what is computed by, and what is said
PLACES = {
    "the cache is full": ("size=4k", {"HYBRIDGPU_CACHE_DIR": "{disk}/c"}, "cpu", "No space left on device; compiled kernels are kept for this process only"),
    "no file more": ("nr_inodes=3", {"HYBRIDGPU_CACHE_DIR": "{disk}/c"}, "cpu", "No space left on device; compiled kernels are kept for this process only"),
    "the cache is read-only": ("ro", {"HYBRIDGPU_CACHE_DIR": "{disk}/c"}, "cpu", "Read-only file system; compiled kernels are kept"),
    "no place to compile in": ("size=4k", {"HYBRIDGPU_CACHE_DIR": "{disk}/c", "TMPDIR": "{disk}"}, "reference", "whether it can write to the temporary folder"),
    "code may not be loaded from there": ("noexec", {"HYBRIDGPU_CACHE": "0", "TMPDIR": "{disk}"}, "reference", "compiled code cannot be loaded"),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [n if k < 1 else pytest.param(n, marks=pytest.mark.exhaustive) for k, n in enumerate(PLACES)]
)
def test_the_cache(name, tmp_path, compiler):
    options, settings, target, said = PLACES[name]
    settings = {k: v.format(disk=tmp_path) for k, v in settings.items()}
    command = [sys.executable, str(HERE / "small_program.py")]
    if options.startswith("size"):
        command = ["sh", "-c", f'head -c 4096 /dev/zero > "{tmp_path}/full"; exec "$@"', "-", *command]
    run = run_with_small_disk(tmp_path, options, command, **settings)
    assert run.returncode == 0, run.stderr[-3000:]
    assert json.loads(run.stdout) == {"result": "as eager", "targets": [target]}
    assert run.stderr.count(said) == 1 and run.stderr.count("Warning") <= 2, run.stderr
