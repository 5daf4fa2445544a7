# SPDX-License-Identifier: Apache-2.0
"""Writes the table of errors into docs/numbers.md: each function over all 2^32 floats, in both numeric modes.

    python docs/make_numbers.py             every function (an hour or so of a core)
    python docs/make_numbers.py exp tanh    these only; the others keep their rows

The table stands between ``<!-- errors -->`` and ``<!-- end of errors -->``. It holds for processors with FMA, whose
results agree to the last bit. `pytest -m exhaustive` measures it again.
"""

from __future__ import annotations

import math
import os
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "numbers.md"
FUNCTIONS = ("exp", "log", "log2", "log10", "tanh", "sigmoid", "softplus", "erf")
_HEAD = ("function of float32", "strict: largest error in ulp", "fast: largest relative error")
_MARKED = re.compile(r"(?<=<!-- errors -->\n).*?(?=<!-- end of errors -->)", re.S)


def strict_cell(result: Any) -> str:
    """How a strict function's error is written."""
    return f"{result.max_ulp:.2f}"


def fast_cell(result: Any) -> str:
    """How a fast function's error is written: a power of two, rounded up."""
    return f"2^{math.ceil(math.log2(result.max_relative) * 10) / 10:.1f}"


def rows(text: str) -> dict[str, tuple[str, str]]:
    """Function -> its cells, of the page's text."""
    found = re.search(_MARKED, text)
    assert found is not None, f"{PAGE.name} has lost its markers"
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in found[0].splitlines()[2:]]
    return {name: (strict, fast) for name, strict, fast in cells}


def table(cells: dict[str, tuple[str, str]]) -> str:
    """The table of all functions that have cells."""
    lines = ["| " + " | ".join(_HEAD) + " |", "|---|---|---|"]
    lines += [f"| {name} | {cells[name][0]} | {cells[name][1]} |" for name in FUNCTIONS if name in cells]
    return "\n".join(lines) + "\n"


def measure(names: list[str]) -> dict[str, tuple[str, str]]:
    """The cells of some functions."""
    sys.path.insert(0, str(ROOT / "tests" / "kernels"))
    import math_library as ml

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        checker = ml.build_checker(Path(folder))
        libraries = [ml.build(Path(folder), names=names, keys=("f32",), fast=fast) for fast in (False, True)]
        pending = {n: [pool.submit(checker.sweep, library, n) for library in libraries] for n in names}
        found = {}
        for name, (strict, fast) in pending.items():
            print(f"{name}: strict {strict.result()}; fast {fast.result().max_relative:.3g}", flush=True)
            found[name] = strict_cell(strict.result()), fast_cell(fast.result())
        return found


def main(names: list[str]) -> None:
    measured = measure(names or list(FUNCTIONS))
    text = PAGE.read_text(encoding="utf-8")
    cells = {**rows(text), **measured}
    PAGE.write_text(re.sub(_MARKED, lambda _: table(cells), text), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
