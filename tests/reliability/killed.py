# SPDX-License-Identifier: Apache-2.0
"""Children that compile or write files without end and are killed; what they leave is looked at after each kill.

A program of its own: ``python killed.py FOLDER KILLS``. It prints what it did as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import warnings
from pathlib import Path
from random import Random

import numpy as np

import hybridgpu as mx
from hybridgpu import gluon, nd, profiler
from hybridgpu.gluon import nn

WIDTH = 200


def filled(k):
    """A net that was trained, all of whose parameters are ``k``."""
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(WIDTH, in_units=WIDTH, use_bias=False), nn.Dense(2, in_units=WIDTH, use_bias=False))
    net.initialize()
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9, "learning_rate": 0.0})
    with mx.autograd.record():
        loss = net(nd.ones((1, WIDTH))).sum()
    loss.backward()
    trainer.step(1)
    for p in net.collect_params().values():
        p.set_data(nd.full(p.shape, k))
    for state in trainer._updaters[0].states.values():
        state[:] = k
    return net, trainer


def constant(arrays):
    """The number that all elements of all arrays are."""
    found = {float(v) for a in arrays for v in (a.asnumpy().min(), a.asnumpy().max())}
    assert len(found) == 1, f"half old, half new: {found}"
    return found.pop()


def loaded_states(file):
    net, trainer = filled(-1)
    trainer.load_states(str(file))
    return constant(trainer._updaters[0].states.values())


def loaded_model(prefix):
    net, _ = filled(-1)
    net.load(str(prefix))
    return constant(p.data() for p in net.collect_params().values())


def profiled(file):
    profiler.set_config(filename=file, profile_all=True)
    profiler.start()
    nd.ones((2,)) + 1
    profiler.stop()
    profiler.dump()


#: file -> (what writes it, what reads it)
FILES = {
    "a.params": (lambda net, trainer, to, k: nd.save(to, [nd.full((400, 500), k)] * 3), lambda f: constant(nd.load(f))),
    "a.safetensors": (
        lambda net, trainer, to, k: nd.save(to, {"w": nd.full((400, 500), k)}),
        lambda f: constant(nd.load(f).values()),
    ),
    "net.params": (
        lambda net, trainer, to, k: net.save_parameters(to),
        lambda f: constant(nd.load(f).values()),
    ),
    "net.states": (lambda net, trainer, to, k: trainer.save_states(to), loaded_states),
    "block-model.params": (
        lambda net, trainer, to, k: net.save(to.removesuffix("-model.params")),
        lambda f: loaded_model(f.removesuffix("-model.params")),
    ),
    "exported-0000.params": (
        lambda net, trainer, to, k: net.export(to.removesuffix("-0000.params")),
        lambda f: gluon.SymbolBlock.imports(f.replace("-0000.params", "-symbol.json"), ["data"], f) and 1,
    ),
    "profile.json": (lambda net, trainer, to, k: profiled(to), lambda f: json.loads(Path(f).read_text()) and 1),
}
BESIDE = {"block-model.json", "exported-symbol.json"}


def write_files(folder, name, rng):
    write = FILES[name][0]
    pairs = [(k, *filled(k)) for k in (1, 2, 3)]
    while True:
        for k, net, trainer in pairs:
            write(net, trainer, str(folder / name), k)


def compiled(units):
    """A net of its own, hybridized; (its result, what it should be)."""
    net = nn.HybridSequential()
    net.add(nn.Dense(units, activation="tanh", in_units=3), nn.Dense(1, in_units=units))
    net.initialize(mx.init.Constant(0.1))
    x = nd.array(np.linspace(-1, 1, 6).reshape(2, 3))
    want = net(x).asnumpy()
    net.hybridize()
    return net(x).asnumpy(), want


def compile_nets(rng):
    while True:
        got, want = compiled(rng.randint(4, 60))
        np.testing.assert_allclose(got, want, rtol=1e-5)


def child(work, *args):
    """The number of a process that does ``work``."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            work(*args)
        except BaseException:
            import traceback

            traceback.print_exc()
        os._exit(1)
    os.setpgid(pid, pid)  # whichever comes first: it may be killed at once
    return pid


def kill_after(seconds, pid):
    time.sleep(seconds)
    os.killpg(pid, signal.SIGKILL)  # its compilers, too
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), "the child ended before it was killed"


def main(folder, kills):
    warnings.simplefilter("error")
    folder, done = Path(folder), {"files": 0, "compiling": 0, "read": 0, "beside": 0}
    names = sorted(FILES)
    for seed in range(kills):
        rng = Random(seed)
        if seed % 3 == 2:
            pid = child(compile_nets, rng)
            kill_after(rng.uniform(0.05, 0.6), pid)
            done["compiling"] += 1
            continue
        name = names[rng.randrange(len(names))]
        pid = child(write_files, folder, name, rng)
        until = time.monotonic() + 60
        while not (folder / name).exists() and time.monotonic() < until:
            time.sleep(0.005)
        kill_after(rng.uniform(0.0, 0.05), pid)
        done["files"] += 1
        for file in sorted(folder.iterdir()):
            if file.name in FILES:
                if file.name.startswith("exported") and not (folder / "exported-symbol.json").exists():
                    continue  # killed between the two files of the first export
                if file.name.startswith("block") and not (folder / "block-model.json").exists():
                    continue
                assert FILES[file.name][1](str(file)) in (1, 2, 3)
                done["read"] += 1
            elif file.name not in BESIDE:
                done["beside"] += 1
                file.unlink()
    for units in range(4, 61, 1 if kills >= 100 else 14):  # a cache that killed processes wrote
        got, want = compiled(units)
        np.testing.assert_allclose(got, want, rtol=1e-5)
    done["targets"] = sorted({e.target for e in mx.compile_report().events})
    print(json.dumps(done))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
