# SPDX-License-Identifier: Apache-2.0
"""A library in a process of its own (bench/peer_worker.py), as bench/peers.py talks to it."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

__all__ = ["OURS", "Worker", "WorkerFailed", "say"]

HERE = Path(__file__).resolve().parent
OURS = "hybridgpu"
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "MXNET_CPU_WORKER_NTHREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}


class WorkerFailed(RuntimeError):
    """A worker answered with an error, not in time, or not at all."""


class Worker:
    """A library in a process, with one thread ("1") or as many as it takes by itself ("all")."""

    def __init__(
        self,
        label: str,
        python: str,
        library: str,
        device: str,
        more: dict[str, str],
        timeout: float,
        threads: str = "1",
    ) -> None:
        self.label, self.python, self.library, self.threads = label, python, library, threads
        self.device, self.more, self.timeout = device, more, timeout
        # without byte code on disk every process would compile modules and templates that an installed one finds
        dropped = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE")
        environment = {k: v for k, v in os.environ.items() if k not in (*dropped, *ONE_THREAD)}
        environment.update(ONE_THREAD if threads == "1" else {}, PEER_THREADS=threads, **more)
        # packages that were put on the path are those of this interpreter, not of another one
        own = os.environ.get("PYTHONPATH", "") if python == sys.executable else ""
        path = [*([str(HERE.parent)] if library == OURS else []), *([own] if own else [])]
        if path:
            environment["PYTHONPATH"] = os.pathsep.join(path)
        if device == "cpu":
            environment.update(JAX_PLATFORMS="cpu", CUDA_VISIBLE_DEVICES="")
        else:
            environment["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        command = [python, str(HERE / "peer_worker.py"), library, device]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.versions: dict[str, str] = {}
        self.modes: list[str] = []
        self.first: dict[str, bool] = {}
        self.networks: list[str] = []

    def another(self, **more: str) -> Worker:
        """A new process of the same library, with further environment."""
        environment = {**self.more, **more}
        return Worker(self.label, self.python, self.library, self.device, environment, self.timeout, self.threads)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def ask(self, **message: Any) -> dict[str, Any]:
        """Send a command and return the answer.

        Raises:
            WorkerFailed: it cannot do that; a worker that does not answer is ended.
        """
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
            line = self._answers.get(timeout=self.timeout)
        except (OSError, queue.Empty) as e:
            self.close()
            what = f"no answer in {self.timeout:.0f} s" if isinstance(e, queue.Empty) else "the process has ended"
            raise WorkerFailed(what) from None
        if not line:
            self.close()
            raise WorkerFailed(f"the process ended with code {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WorkerFailed(answer["error"])
        return answer

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def say(text: str) -> None:
    """A line for those who wait."""
    print(text, file=sys.stderr, flush=True)
