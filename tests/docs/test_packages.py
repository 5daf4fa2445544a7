# SPDX-License-Identifier: Apache-2.0
"""pyproject.toml names every package that is there, and every file: a missing one would be missing in the wheel only."""

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


def test_every_file_ships_that_is_read():
    """What lies in a package beside its modules is among its data."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    section = re.search(r"^\[tool.setuptools.package-data\]\n(.*?)^\[", text, re.S | re.M)[1]
    folders = {"hybridgpu": "hybridgpu", "hybridgpu.kernels": "kernels", "hybridgpu.templates": "templates"}
    listed = set()
    for package, patterns in re.findall(r'^"?([\w.]+)"? = \[(.*?)\]', section, re.M):
        folder = ROOT / folders.get(package, package.replace(".", "/"))
        for pattern in re.findall(r'"(.*?)"', patterns):
            found = {p for p in folder.glob(pattern) if p.is_file()}
            assert found, f"{package} has no {pattern}"
            listed |= found
    there = {p for top in ("hybridgpu", "kernels", "templates") for p in (ROOT / top).rglob("*") if p.is_file()}
    there = {p for p in there if p.suffix not in (".py", ".pyc")} | {
        p for p in (ROOT / "hybridgpu").rglob("*.py") if not (p.parent / "__init__.py").exists()
    }
    assert there == listed, "correct package-data in pyproject.toml"


def test_an_editable_installation_is_a_path():
    """With setuptools' finder, which comes last, Python would take the folder of a checkout called hybridgpu, as it lies
    beside a user's program, for the package."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(r'^\[tool.distutils.editable_wheel\]\n(#.*\n)*mode = "compat"$', text, re.M)
