# SPDX-License-Identifier: Apache-2.0
"""Copies recorded results of the real MXNet into this folder; see README.md.

    python copy_golden.py SOURCE               # operators and models that hybridgpu has today
    python copy_golden.py SOURCE --all         # everything recorded

SOURCE holds ``ops/manifest.json`` with its .npz files, and one folder a model.
"""

from __future__ import annotations

import argparse
import json
import shutil
import zipfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
STAMP = (1980, 1, 1, 0, 0, 0)  # one input, one output: files that only differ in time would be noise
MODEL_FILES = ("build.py", "data.npz", "manifest.json", "net-0000.params", "net-symbol.json")


def write_npz(file: Path, arrays: dict[str, np.ndarray]) -> None:
    """A compressed .npz whose bytes depend on the arrays only."""
    with zipfile.ZipFile(file, "w") as z:
        for name, value in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy", STAMP)
            info.compress_type = zipfile.ZIP_DEFLATED
            with z.open(info, "w") as f:
                np.lib.format.write_array(f, np.asanyarray(value), allow_pickle=False)


def copy_operators(source: Path, known) -> int:
    """Calls whose operator ``known`` accepts, as ops.json (a call a line) and ops.npz."""
    calls = [c for c in json.loads((source / "ops/manifest.json").read_text())["calls"] if known(c["op"])]
    arrays: dict[str, np.ndarray] = {}
    opened: dict[str, dict[str, np.ndarray]] = {}
    for c in calls:
        if c["file"] not in opened:
            with np.load(source / "ops" / c["file"]) as z:
                opened[c["file"]] = {k: z[k] for k in z.files}
        arrays.update((f"{c['id']}.{a}", opened[c["file"]][f"{c['id']}.{a}"]) for a in c["arrays"])
    keep = ("id", "op", "attrs", "mode", "arrays")
    lines = ",\n".join(json.dumps({k: c[k] for k in keep}, sort_keys=True) for c in calls)
    (HERE / "ops.json").write_text(f"[\n{lines}\n]\n")
    write_npz(HERE / "ops.npz", arrays)
    return len(calls)


def copy_models(source: Path, known) -> list[str]:
    """Folders of the models all of whose operators ``known`` accepts."""
    copied = []
    for manifest in sorted(source.glob("*/manifest.json")):
        folder = manifest.parent
        if not (folder / "build.py").exists():
            continue
        if all(o == "null" or known(o) for o in json.loads(manifest.read_text())["operators"]):
            target = HERE / "models" / folder.name
            target.mkdir(parents=True, exist_ok=True)
            for name in MODEL_FILES:
                shutil.copyfile(folder / name, target / name)
            copied.append(folder.name)
    return copied


def reachable(mx, name: str) -> bool:
    """Whether ``nd.<name>`` exists: 'relu', 'contrib.box_iou', …; or ``name`` is an operator of a graph."""
    from hybridgpu.ops import OPERATORS

    space = mx.nd
    for part in name.split("."):
        space = getattr(space, part, None)
    return space is not None or name in OPERATORS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--all", action="store_true", help="also what hybridgpu does not have yet")
    args = parser.parse_args()
    import hybridgpu as mx

    def known(name: str) -> bool:
        return args.all or reachable(mx, name)

    print(f"{copy_operators(args.source, known)} calls; models: {', '.join(copy_models(args.source, known))}")


if __name__ == "__main__":
    main()
