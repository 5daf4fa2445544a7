# SPDX-License-Identifier: Apache-2.0
"""A few generated texts that people read, byte for byte; and the same bytes in every process.

After a change of the generated code: ``pytest tests/compiler/test_golden.py --update-golden``, and read the diff.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from compiler.cases import build

from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.target import CPU, CUDA

pytestmark = pytest.mark.no_host_code

FOLDER = Path(__file__).parents[1] / "golden_kernels"
NAMES = [
    *("chain", "half", "bfloat16", "integers", "transposed_sum", "concats", "joined_rows", "odd_rows", "random_mask"),
    *("softmax", "softmax_long", "normalised_columns", "many_axes", "cross_entropy", "mean_cross_entropy", "take"),
    *(
        "dense",
        "batched",
        "dense_with_prologue",
        "convolved_with_prologue",
        "pooled_and_kept",
        "slope",
        "input_dilated",
        "disjoint_windows",
    ),
    *("windows_over_the_border", "windows_over_each_other", "scatter_of_means"),
]


def text_of(name: str, target) -> str:
    """The graph as a comment, then what a compiler gets to see."""
    program = compile_graph(build(name), target)
    graph = "".join(f"// {line}\n" for line in program.graph.splitlines())
    return graph + (program.source or "\n".join(k.text for k in program.kernels))


@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
@pytest.mark.parametrize("name", NAMES)
def test_text_is_as_stored(name, target, update_golden):
    path = FOLDER / f"{name}.{'cpp' if target is CPU else 'cu'}"
    text = text_of(name, target)
    if update_golden:
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.exists(), f"{path.name} is missing: run with --update-golden"
    assert text == path.read_text(), (
        f"{path.name} differs; if that is meant, run with --update-golden and read the diff"
    )


def test_nothing_is_stored_that_is_not_compared():
    assert {p.name for p in FOLDER.iterdir()} == {f"{n}.{end}" for n in NAMES for end in ("cpp", "cu")}


_COMPILE_ALL = """
import hashlib
from compiler.cases import CASES, build, cuda_of
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.target import CPU, CUDA
for name in CASES:
    for target in (CPU, CUDA):
        program = compile_graph(build(name), target)
        print(name, target.name, hashlib.sha256(program.to_bytes()).hexdigest())
"""

_RUN_NET = """
import hybridgpu as mx
from hybridgpu.gluon import nn
net = nn.HybridSequential()
net.add(nn.Dense(8, activation="relu"), nn.Dense(3))
net.initialize(mx.init.One())
net.hybridize()
print(net(mx.nd.ones((4, 5))).asnumpy().tolist())
"""


def in_process(script: str, seed: str, cache: Path) -> str:
    root = Path(__file__).parents[2]
    env = {
        **os.environ,
        "PYTHONHASHSEED": seed,
        "HYBRIDGPU_CACHE_DIR": str(cache),
        "PYTHONPATH": os.pathsep.join([str(root), str(root / "tests")]),
    }
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_programs_do_not_depend_on_the_process(tmp_path):
    first, second = (in_process(_COMPILE_ALL, seed, tmp_path) for seed in ("1", "12345"))
    assert first.count("\n") > 50
    assert first == second


def test_store_keys_do_not_depend_on_the_process(compiler, tmp_path):
    kept = []
    for seed in ("1", "12345"):
        folder = tmp_path / seed
        in_process(_RUN_NET, seed, folder)
        kept.append({str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()})
    assert len(kept[0]) >= 2
    assert kept[0] == kept[1]
