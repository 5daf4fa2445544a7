# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of devices' constants into docs/devices.md: the records of hybridgpu/compiler/devices, what ships.

    python docs/make_devices.py [--check]

A table stands between ``<!-- cpu -->`` and ``<!-- end of cpu -->``, others between those of ``gpu``,
``numpy``, ``cupy`` and ``shipped``.
"""

from __future__ import annotations

import json
import re
import sys
from math import inf
from pathlib import Path
from typing import Any

from hybridgpu.compiler.devices.array_library import ARRAY_LIBRARIES
from hybridgpu.compiler.devices.gpu import GpuConstants
from hybridgpu.compiler.devices.record import constants_of
from hybridgpu.compiler.target import CPU, CUDA

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "devices.md"
KNOWN = ROOT / "hybridgpu" / "backends" / "cuda" / "known_devices.json"
RECORDS = {
    "cpu": CPU.device,
    "gpu": CUDA.device,
    "numpy": ARRAY_LIBRARIES["cpu"],
    "cupy": ARRAY_LIBRARIES["cuda"],
}
#: of which only what differs is shown
BASES = {"cupy": "numpy"}


def value_text(value: Any, unit: str) -> str:
    """A value with its unit, in the multiple that people use."""
    if value == inf:
        return "never"
    if unit == "flag":
        return "yes" if value else "no"
    if unit == "bytes" and value and value % 1024 == 0:
        return f"{value >> 20} MiB" if value % (1 << 20) == 0 else f"{value >> 10} KiB"
    text = str(value) if isinstance(value, int) else f"{value:.4g}"
    if unit.startswith("1/"):
        return f"{text} a {unit[2:]}"
    return text if unit in ("count", "share") else f"{text} {unit}"


def table(record: Any, base: Any = None) -> str:
    """The constants of a record, or those in which it differs from ``base``."""
    lines = ["| constant | value | what it is | source | measured |", "|---|---|---|---|---|"]
    known = constants_of(type(base)) if base is not None else ()
    for c in [c for c in constants_of(type(record)) if c not in known]:
        value, measured = value_text(getattr(record, c.name), c.unit), "yes" if c.measured else "no"
        lines.append(f"| `{c.name}` | {value} | {c.about} | {c.source} | {measured} |")
    return "\n".join(lines) + "\n"


def shipped() -> str:
    """What ships of single GPUs."""
    units = {c.name: c.unit for c in constants_of(GpuConstants)}
    lines = ["| GPU | constant | value | source |", "|---|---|---|---|"]
    for entry in json.loads(KNOWN.read_text(encoding="utf-8"))["devices"]:
        gpu = f"{', '.join(entry['names'])} ({entry['multiprocessors']} multiprocessors)"
        for name, (value, source, note) in entry["constants"].items():
            lines.append(f"| {gpu} | `{name}` | {value_text(value, units[name])} | {source}: {note} |")
            gpu = ""
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """The page with its tables as they should be."""
    for name, made in {
        **{name: table(record, RECORDS.get(BASES.get(name, ""))) for name, record in RECORDS.items()},
        "shipped": shipped(),
    }.items():
        marked = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)", re.S)
        assert marked.search(text), f"{PAGE.name} has lost its markers of {name}"
        text = marked.sub(lambda _, made=made: made, text)
    return text


def main() -> int:
    text = PAGE.read_text(encoding="utf-8")
    made = page(text)
    if "--check" in sys.argv[1:]:
        if text != made:
            print("docs/devices.md is not current: run python docs/make_devices.py", file=sys.stderr)
        return int(text != made)
    PAGE.write_text(made, encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
