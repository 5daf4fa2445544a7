# SPDX-License-Identifier: Apache-2.0
"""A machine with a null GPU: any Python that has CuPy finds a device, and libraries of NVIDIA's, that compute nothing.

    python tests/cupy_on_null/rehearsal.py PYTHON COMMAND …     # such as bench/gpu_check.sh --installed first --out FOLDER

The driver and the run-time are null_cuda.cpp; cuBLAS has the functions that CuPy wants, which do nothing; cuBLASLt and cuDNN
are the stand-ins of tests/cublaslt_on_cpu and cudnn_on_cpu, which do compute, since the null device's memory is the host's.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
#: what is said of a CuPy: its wheel's CUDA, and where its binding of cuBLAS is
_FACTS = """
import importlib.util as u, json, os
root = os.path.dirname(u.find_spec("cupy").origin)
print(json.load(open(os.path.join(root, ".data", "_wheel.json")))["cuda"].split(".")[0])
libs = os.path.join(os.path.dirname(u.find_spec("cupy_backends").origin), "cuda", "libs")
print(next(os.path.join(libs, f) for f in os.listdir(libs) if f.startswith("cublas.")))
"""


class Machine:
    """The null machine for a Python.

    Args:
        folder: for libraries and caches.
        cxx: the C++ compiler.

    Attributes:
        cuda: the major version of CUDA that this Python's CuPy is made for.
        environment: with which any program of that Python finds it.
    """

    def __init__(self, python: str, folder: Path, cxx: str = "g++") -> None:
        self.python, self._folder, self._cxx = python, folder, cxx
        said = subprocess.run([python, "-c", _FACTS], capture_output=True, text=True, check=True).stdout.split()
        self.cuda = int(said[0])
        driver = self._built("libcuda.so.1", [str(HERE / "null_cuda.cpp")])
        libraries = [
            self._built(
                f"libcublasLt.so.{self.cuda}",
                [str(TESTS / "cublaslt_on_cpu" / "fake_cublaslt.cpp"), f"-DFAKE_MAJOR={self.cuda}"],
            ),
            self._null_cublas(Path(said[1])),
            self._built("libcudnn.so.9", [str(TESTS / "cudnn_on_cpu" / "fake_cudnn.cpp"), f"-DFAKE_CUDA={self.cuda}"]),
        ]
        dropped = ("HYBRIDGPU_VERIFY", "PYTHONPATH", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST")
        self.environment = {k: v for k, v in os.environ.items() if k not in dropped} | {
            "PYTHON": python,
            "PYTHONPATH": str(HERE / "everywhere"),
            "NULL_CUDA_LIBRARY": driver,
            "NULL_CUDA_LIBRARIES": os.pathsep.join(libraries),
            "CUPY_CACHE_DIR": os.path.join(tempfile.gettempdir(), f"hybridgpu-tests-cupy-{os.getuid()}"),
            "HYBRIDGPU_CACHE_DIR": os.environ.get("HYBRIDGPU_CACHE_DIR", str(folder / "cache")),
        }

    def _built(self, name: str, sources: Sequence[str]) -> str:
        made = self._folder / name
        options = ["-std=c++17", "-O1", "-shared", "-fPIC", "-pthread", f"-Wl,-soname,{name}"]
        subprocess.run([self._cxx, *options, *sources, "-o", str(made)], check=True)
        return str(made)

    def _null_cublas(self, binding: Path) -> str:
        """A library with all the functions that CuPy's binding names, under the version by which it wants them."""
        name = f"libcublas.so.{self.cuda}"
        functions = sorted(set(re.findall(rb"\0(cublas[A-Z]\w+)(?=\0)", binding.read_bytes())))
        source, versions = self._folder / "null_cublas.cpp", self._folder / "null_cublas.map"
        lines = [f"int {f.decode()}() {{ return 0; }}" for f in functions]
        source.write_text('extern "C" {\n' + "\n".join(lines) + "\n}\n", encoding="utf-8")
        versions.write_text(f"{name} {{ *; }};\n", encoding="utf-8")
        return self._built(name, [str(source), f"-Wl,--version-script={versions}"])


def main() -> int:
    python, *command = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="hybridgpu-null-") as folder:
        return subprocess.call(command, env=Machine(python, Path(folder)).environment)


if __name__ == "__main__":
    sys.exit(main())
