# SPDX-License-Identifier: Apache-2.0
"""Runs scripts and gives what they observe; as a program, an agent that does so for another interpreter.

Runs under Python 3.8 as well, which MXNet 1.9.1 needs.

python execute.py    # reads scripts from standard input, writes what they observe to standard output (see ``Agent``)
"""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import traceback
import types
import warnings

import numpy as np

__all__ = ["Agent", "execute"]


def execute(script):
    """Run a script; returns its observations, [(label, array)], the last of which says how it ended if it raised.

    The script is a module of its own in ``sys.modules``, so that its classes can be pickled.
    """
    module = types.ModuleType("random_program")
    sys.modules["random_program"] = module
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            exec(compile(script, "random_program.py", "exec"), module.__dict__)
    except Exception as e:
        lines = [f.lineno for f in traceback.extract_tb(e.__traceback__) if f.filename == "random_program.py"]
        line = script.splitlines()[lines[0] - 1].strip() if lines else "no line"
        said = f"{type(e).__name__} at {line!r}: {e}"
        return [*module.__dict__.get("observed", []), ("raised", said)]
    finally:
        del sys.modules["random_program"]
    return module.observed


def _pack(observed):
    stream = io.BytesIO()
    arrays = {f"{i:05d}": np.asarray(a) for i, (_, a) in enumerate(observed)}
    np.savez(stream, labels=np.array([label for label, _ in observed]), **arrays)
    return stream.getvalue()


def _unpack(packed):
    with np.load(io.BytesIO(packed)) as arrays:
        return [(str(label), arrays[f"{i:05d}"]) for i, label in enumerate(arrays["labels"])]


def _read(stream):
    size = stream.read(8)
    if len(size) < 8:
        raise EOFError("the other interpreter has ended")
    return stream.read(struct.unpack("<q", size)[0])


def _write(stream, packed):
    stream.write(struct.pack("<q", len(packed)) + packed)
    stream.flush()


class Agent:
    """Another interpreter, one with MXNet, that executes scripts; started with the first."""

    def __init__(self, interpreter):
        self._interpreter = interpreter
        self._process = None

    def __call__(self, script):
        if self._process is None:
            environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "HYBRIDGPU"))}
            self._process = subprocess.Popen(
                [self._interpreter, os.path.abspath(__file__)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**environment, "OMP_NUM_THREADS": "1", "MXNET_ENGINE_TYPE": "NaiveEngine"},
                cwd=os.path.dirname(os.path.abspath(__file__)),
            )
        _write(self._process.stdin, script.encode())
        return _unpack(_read(self._process.stdout))

    def close(self):
        if self._process is not None:
            self._process.stdin.close()
            self._process.stdout.close()
            self._process.wait()
            self._process = None


def _serve():
    """Every script in a process of its own: one that raised can leave MXNet unable to execute anything."""
    import mxnet  # noqa: F401  # once, in front of all

    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    while True:
        try:
            script = _read(sys.stdin.buffer)
        except EOFError:
            return
        receiver, sender = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(receiver)
            with os.fdopen(sender, "wb") as stream:
                stream.write(_pack(execute(script.decode())))
            os._exit(0)
        os.close(sender)
        with os.fdopen(receiver, "rb") as stream:
            packed = stream.read()
        code = os.waitpid(child, 0)[1]
        _write(answers, packed or _pack([("raised", f"the process ended with {code}")]))


if __name__ == "__main__":
    _serve()
