# SPDX-License-Identifier: Apache-2.0
"""Programs that see a small file system of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def run_with_small_disk(folder, options, command, **env):
    """A finished program that found a tmpfs with mount ``options`` at ``folder``; skips where nothing can be mounted."""
    spaces = ["unshare", "-m"] if hasattr(os, "geteuid") and os.geteuid() == 0 else ["unshare", "-Urm"]
    mount = f'mount -t tmpfs -o {options} none "{folder}"'
    try:
        if subprocess.run([*spaces, "sh", "-c", mount], capture_output=True, check=False).returncode:
            raise OSError
    except OSError:
        pytest.skip("nothing can be mounted here")
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "HYBRIDGPU_VERIFY": "0", **env}
    return subprocess.run(
        [*spaces, "sh", "-c", f'{mount} && exec "$@"', "-", *command],
        env=settings,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
