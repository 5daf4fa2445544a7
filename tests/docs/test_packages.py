# SPDX-License-Identifier: Apache-2.0
"""pyproject.toml names every package that is there: a missing one would be missing in the wheel only."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_package_ships():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.findall(r'"([\w.]+)"', re.search(r"^packages = \[(.*?)^\]", text, re.S | re.M)[1])
    folders = {p.parent.relative_to(ROOT) for p in (ROOT / "hybridgpu").rglob("__init__.py")}
    there = {".".join(f.parts) for f in folders} | {"hybridgpu.kernels", "hybridgpu.templates"}
    assert set(listed) == there, "correct the list of packages in pyproject.toml"
