# SPDX-License-Identifier: Apache-2.0
"""Writes docs/coming-from-mxnet.md from the tables of names that errors read.

    python docs/make_coming_from_mxnet.py [--check]

``--check`` writes nothing and exits with 1 if the page is not current.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from hybridgpu.hints.foreign_names import MXNET, OTHERS, Decision  # noqa: E402
from hybridgpu.hints.operators import _BINARY, _UNARY  # noqa: E402

PAGE = Path(__file__).resolve().with_name("coming-from-mxnet.md")
SURFACE = ROOT / "tests" / "against_mxnet" / "recorded" / "surface.json.xz"

HEAD = """\
# Coming from MXNet

Made from the tables that errors read, by `python docs/make_coming_from_mxnet.py`; do not edit.

Programs written for MXNet 1.9.1 run unedited: [Programs written for MXNet](run.md) says how. Every name of MXNet's public
modules is here with its arguments ({names:,} names in {modules} modules, {members:,} members of classes, {arguments:,}
arguments, recorded from MXNet and compared by a test), at the module's path in MXNet whatever the file is called here, but
for what this page lists. Names with an underscore that programs are known to import are here, too.

What is not here says so where it is used, and what to write instead:

```python
import hybridgpu as mx

try:
    mx.io.LibSVMIter
except AttributeError as error:
    print(str(error).rpartition(" (")[0])
```
```output
module 'hybridgpu.io' has no attribute 'LibSVMIter'
In MXNet it is an iterator over text files of sparse rows. Write mx.io.NDArrayIter(data, label, batch_size) with a dense array of the file's rows. All arrays are dense.
```

## What MXNet has and what to write instead

`F` stands for `nd` and `sym`, `*` for any letters. A module or class stands for all that is in it.

"""
OPERATORS = """
## Operators and functions of Python

Arrays and Symbols do not have these, as in MXNet, whose errors end with what to write here, too. `x += y` and its like are
for arrays alone: on a Symbol they raise `NotImplementedForSymbol`. So does `x %= y`, of which MXNet makes another node:
where code runs eagerly and traced, one would change the array and the other would not.

"""
OTHER = """
## Names of other libraries

Who comes from another library is told as well. Names of layers, losses, arguments and methods are answered in the same way
(`nn.Linear`, `optimizer.zero_grad()`, `Conv2D(in_channels=...)`).

"""


#: how operators of one operand are written
PYTHON = {
    "pos": "+x",
    "invert": "~x",
    "round": "round(x)",
    "trunc": "math.trunc(x)",
    "floor": "math.floor(x)",
    "ceil": "math.ceil(x)",
}


def spelled(name: str) -> str:
    """A name as users write it."""
    return f"`mx.{name}`" if name.partition(".")[0] not in ("F", "*") else f"`{name}`"


def cell(text: str) -> str:
    """Text in a table."""
    return text.replace("|", "\\|").replace("*", "\\*")


def code(text: str) -> str:
    """Code in a table."""
    return f"`{text}`".replace("|", "\\|")


def decided(entry: Decision) -> str:
    """A row."""
    names = ", ".join(map(spelled, entry.names.split()))
    write = entry.write.format(F="F")
    why = f"{entry.why[:1].upper()}{entry.why[1:]}" if entry.why else ""
    return f"| {names} | {cell(entry.was)} | {cell(write)} | {cell(why)} |"


def page() -> str:
    """The whole text."""
    surface = json.loads(lzma.open(SURFACE, "rt").read())
    classes = surface["classes"].values()
    given = [*surface["functions"].values(), *(c["call"] for c in classes)]
    given += [m for c in classes for m in c["members"].values() if isinstance(m, list)]
    head = HEAD.format(
        modules=len(surface["modules"]),
        names=sum(map(len, surface["modules"].values())),
        members=sum(len(c["members"]) for c in classes),
        arguments=sum(len(a) for a in given if a),
    )
    rows = ["| name | what it is in MXNet | what to write | why |", "|---|---|---|---|", *map(decided, MXNET)]
    operators = ["| | what to write |", "|---|---|"]
    names = {"f": "F", "x": "x", "y": "y", "a": "x", "b": "y"}
    operators += [f"| {code(sign)} | {code(w.format(**names))} |" for sign, w in _BINARY.values()]
    operators += [f"| {code(PYTHON[word])} | {code(w.format(**names))} |" for word, (_, w) in _UNARY.items()]
    others = ["| name | what to write |", "|---|---|"]
    others += [f"| {spelled(n)} | {cell(w.format(F='' if n.startswith('np') else 'F'))} |" for n, w in OTHERS.items()]
    return head + lines(rows) + OPERATORS + lines(operators) + OTHER + lines(others)


def lines(rows: Iterable[str]) -> str:
    """Rows as text."""
    return "".join(f"{row}\n" for row in rows)


def main() -> int:
    """Write the page, or check it."""
    text = page()
    if "--check" in sys.argv:
        current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        if not current:
            print(f"{PAGE.relative_to(ROOT)} is not current: run python docs/make_coming_from_mxnet.py")
        return 0 if current else 1
    PAGE.write_text(text, encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
