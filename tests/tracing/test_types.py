# SPDX-License-Identifier: Apache-2.0
"""What a type checker sees of a hybridized function: the arguments and the result of the function itself."""

import subprocess
import sys

import pytest

PROGRAM = """
import hybridgpu as mx
from hybridgpu.ndarray import NDArray

@mx.hybridize
def plain(x: NDArray, k: int = 2) -> tuple[NDArray, int]:
    return x, k

@mx.hybridize(static_argnames="k")
def flagged(x: NDArray, k: int = 2) -> NDArray:
    return x

class Model:
    @mx.hybridize
    def method(self, x: NDArray) -> NDArray:
        return x

x = mx.nd.ones((2,))
reveal_type(plain(x, k=3))
reveal_type(flagged(x))
reveal_type(Model().method(x))
plain("x")
flagged(x, k="3")
Model().method(3)
"""


def test_a_checker_sees_the_function(tmp_path):
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", str(program)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    array = "hybridgpu.ndarray.ndarray.NDArray"
    assert [line.partition(": ")[2] for line in said if "note" in line] == [
        f'note: Revealed type is "{kind}"' for kind in (f"tuple[{array}, int]", array, array)
    ]
    assert [line.split(":")[1] for line in said if "[arg-type]" in line] == ["22", "23", "24"]
