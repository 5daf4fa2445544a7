# SPDX-License-Identifier: Apache-2.0
"""One library in a process of its own, measured by bench/peers.py: ``peer_worker.py LIBRARY DEVICE``.

Runs under any Python from 3.8 on, with nothing but that library (and NumPy). Commands come as JSON
objects, one a line, and each is answered by one:

    {"do": "hello"}                                        -> {"versions": {...}, "modes": [...], "import_ms": ...,
                                                               "first": {mode: whether it keeps compiled code},
                                                               "networks": [mode, ...]}
    {"do": "prepare", "workload": ..., "size": n}          -> {"modes": {mode: null or why it does not run}}
    {"do": "prepare", "workload": ..., "size": n, "mode": of "networks"}
                                                           -> {"modes": ..., "losses": of three steps of training}
    {"do": "memory"}                                       -> {"peak_mib": most resident memory since "hello"}
    {"do": "time", "mode": ..., "calls": n, "warm": n, "wait": bool}
                                                           -> {"us": per call, "cpu": processor time / wall time}
    {"do": "first", "workload": ..., "size": n, "mode": ...}
                                                           -> {"first_ms": ..., "first_cpu_ms": ...}

``wait`` waits for every result before the next call; without it only for the last one of the batch. ``warm`` calls come
before those that are timed. Of the largest arrays (LARGE) the ways that a library names are measured, the others are not:
memory is filled by all libraries at the same time. Failures answer {"error": sentence}.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import warnings
from itertools import repeat

import numpy as np
import peer_workloads as workloads
from peer_libraries import LIBRARIES, bytes_moved, expected
from peer_networks import NETWORKS

LARGE = 1 << 26  # elements


def check(mode, want):
    """Raise ValueError where a result is not what is ``expected``."""
    start = time.perf_counter()
    for k in range(3):  # compilers prepare during the first calls
        out = mode.call(mode.argument)
        if mode.wait is not None:
            mode.wait(out)
        if k and time.perf_counter() - start > 1:
            break
    if mode.see is not None:
        compare(mode, out, want)


def first_losses(mode, want):
    """The losses of three steps of training; ValueError where the first is not what is ``expected``."""
    losses = []
    for k in range(3):
        out = mode.call(mode.argument)
        if k == 0:
            compare(mode, out, want)
        losses.append(float(mode.see(out)[0]))
    return losses


def compare(mode, out, want):
    """Raise ValueError where a result is not what is ``expected``."""
    got = mode.see(out)
    for rows, part in want:
        if got[rows].shape != part.shape or got.dtype != np.float32 or not np.allclose(got[rows], part, 1e-4, 1e-4):
            raise ValueError("wrong results")


def batch(mode, calls, warm, wait_each):
    """(seconds, processor seconds) of a batch."""
    call, argument, wait = mode.call, mode.argument, mode.wait
    out = None
    for _ in range(warm):  # others have had the processor and its caches
        out = call(argument)
        if wait is not None:
            wait(out)
    gc.collect()
    gc.disable()
    used, start = time.process_time(), time.perf_counter()
    if wait is not None and wait_each:
        for _ in repeat(None, calls):
            out = call(argument)
            wait(out)
    else:
        for _ in repeat(None, calls):
            out = call(argument)
        if wait is not None:
            wait(out)
    end, used_end = time.perf_counter(), time.process_time()
    gc.enable()
    return end - start, used_end - used


def processor_seconds():
    """What this process, and those it has started and waited for, have used."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def resident(kind):
    """Resident memory in MiB: "VmRSS", what it is, or "VmHWM", the most that it was; 0 where no system says."""
    try:
        with open("/proc/self/status") as f:
            return next(int(line.split()[1]) / 1024 for line in f if line.startswith(kind))
    except (OSError, StopIteration):
        return 0.0


def one_line(e):
    lines = str(e).strip().splitlines()
    return type(e).__name__ + (": " + lines[0][:300] if lines else "")


class Server:
    """Answers the commands."""

    def __init__(self, name, device):
        self.name, self.device = name, device
        self.library, self.ready, self.imported = None, {}, 0.0

    def hello(self, message):
        start = time.perf_counter()
        self.library = LIBRARIES[self.name](self.device)
        seconds = time.perf_counter() - start
        first = {mode: kept for mode, (_, kept) in self.library.first.items()}
        versions, modes = self.library.versions, list(self.library.modes)
        self.imported = resident("VmRSS")
        networks = list(self.library.networks)
        return {"versions": versions, "modes": modes, "first": first, "networks": networks, "import_ms": seconds * 1e3}

    def memory(self, message):
        return {"peak_mib": resident("VmHWM") - self.imported}

    def prepare(self, message):
        self.ready = {}
        answer = {}
        workload, size = message["workload"], message["size"]
        if workload in NETWORKS:
            return self.network(NETWORKS[workload], workload, size, message["mode"])
        if workload not in ("mlp", "chain", *workloads.FUNCTIONS):
            raise ValueError(f"there is no workload {workload}")
        want = expected(workload, size)
        large = bytes_moved(workload, size) >= 8 * LARGE
        for name, make in self.library.modes.items():
            try:
                if large and name not in self.library.large:
                    raise NotImplementedError("left out where arrays are that large")
                mode = make(workload, size)
                check(mode, want)
                self.ready[name] = mode
                answer[name] = None
            except Exception as e:  # whatever a library raises becomes a line of the table
                answer[name] = one_line(e)
        return {"modes": answer}

    def network(self, network, workload, size, name):
        want = expected(workload, size)
        mode = self.library.networks[name](network, size)
        losses = []
        if mode.trains:
            losses = first_losses(mode, want)
        else:
            check(mode, want)
        self.ready = {name: mode}
        return {"modes": {name: None}, "losses": losses}

    def first(self, message):
        (make, _), make_network = self.library.first[message["mode"]], self.library.networks.get(message["mode"])
        workload, size = message["workload"], message["size"]
        mode = make_network(NETWORKS[workload], size) if workload in NETWORKS else make(workload, size)
        before, start = processor_seconds(), time.perf_counter()
        out = mode.call(mode.argument)
        if mode.wait is not None:
            mode.wait(out)
        end, after = time.perf_counter(), processor_seconds()
        compare(mode, out, expected(workload, size))
        return {"first_ms": (end - start) * 1e3, "first_cpu_ms": (after - before) * 1e3}

    def time(self, message):
        calls = message["calls"]
        seconds, used = batch(self.ready[message["mode"]], calls, message["warm"], message["wait"])
        return {"us": seconds / calls * 1e6, "cpu": used / max(seconds, 1e-9)}


def main():
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    server = Server(sys.argv[1], sys.argv[2])
    for line in sys.stdin:
        message = json.loads(line)
        try:
            answer = getattr(server, message["do"])(message)
        except Exception as e:
            answer = {"error": one_line(e)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
