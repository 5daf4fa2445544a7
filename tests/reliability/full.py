# SPDX-License-Identifier: Apache-2.0
"""Writes every kind of file while a disk has room, fills it, writes them again, and makes room again.

A program of its own: ``python full.py FOLDER``, with a small file system mounted at the folder. It prints what failed, as JSON.
"""

from __future__ import annotations

import json
import logging
import os
import sys

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd, profiler
from hybridgpu.gluon import nn
from hybridgpu.gluon.contrib.estimator import CheckpointHandler

WIDTH = 200
written = [0]


def profiled():
    profiler.set_config(filename="profile.json", profile_all=True)
    profiler.start()
    nd.ones((2, 2)) + 1
    profiler.stop()
    profiler.dump()


def records(indexed):
    """Each time more than before: opening such a file makes room."""
    written.append(len(written) * 40)
    if indexed:
        file = mx.recordio.MXIndexedRecordIO("indexed.idx", "indexed.rec", "w")
        write = lambda k: file.write_idx(k, bytes(10_000))  # noqa: E731
    else:
        file = mx.recordio.MXRecordIO("plain.rec", "w")
        write = lambda k: file.write(bytes(10_000))  # noqa: E731
    try:
        for k in range(written[-1]):
            write(k)
    finally:
        file.close()


class Estimator:
    """As much of one as a handler of checkpoints asks for."""

    max_epoch, max_batch, logger = 1, None, logging.getLogger()

    def __init__(self, net, trainer):
        self.net, self.trainer = net, trainer


def writers(net, trainer):
    """name -> (what it writes, what its errors name, whether the former file stays)."""
    module = mx.mod.Module(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=WIDTH, name="fc"), label_names=None)
    module.bind([("data", (2, WIDTH))], for_training=False)
    module.init_params()
    handler = CheckpointHandler("checkpoints", max_checkpoints=2)
    estimator = Estimator(net, trainer)

    def checkpoint():
        handler.current_epoch += 1
        handler._hg_save(estimator)

    def dump():
        os.environ["HYBRIDGPU_DUMP"] = "dump"
        try:
            other = nn.Dense(3 + len(os.listdir(".")), in_units=9)
            other.initialize()
            other.hybridize()
            other(nd.ones((2, 9)))
        finally:
            del os.environ["HYBRIDGPU_DUMP"]

    a = nd.ones((WIDTH, WIDTH))
    return {
        "nd.save": (lambda: nd.save("a.params", [a]), "a.params", True),
        "safetensors": (lambda: nd.save("a.safetensors", {"a": a}), "a.safetensors", True),
        "save_parameters": (lambda: net.save_parameters("net.params"), "net.params", True),
        "ParameterDict.save": (lambda: net.collect_params().save("dict.params"), "dict.params", True),
        "export": (lambda: net.export("exported"), "exported-0000.params", True),
        "Block.save": (lambda: net.save("block"), "block-model.params", True),
        "Trainer.save_states": (lambda: trainer.save_states("net.states"), "net.states", True),
        "Symbol.save": (lambda: mx.sym.var("x" * 5000).save("s.json"), "s.json", True),
        "save_checkpoint": (
            lambda: mx.model.save_checkpoint("old", 3, mx.sym.var("x" * 5000), {"x": a}, {}),
            "old-symbol.json",
            True,
        ),
        "Module.save_params": (lambda: module.save_params("module.params"), "module.params", True),
        "profiler": (profiled, "profile.json", True),
        "CheckpointHandler": (checkpoint, "model-epoch", True),
        "MXRecordIO": (lambda: records(False), "plain.rec", False),
        "MXIndexedRecordIO": (lambda: records(True), "indexed.", False),
        "HYBRIDGPU_DUMP": (dump, "HYBRIDGPU_DUMP=dump", False),
    }


def files():
    found = {}
    for root, _, names in os.walk("."):
        for name in names:
            with open(os.path.join(root, name), "rb") as f:
                found[os.path.normpath(os.path.join(root, name))] = f.read()
    return found


def fill(file):
    try:
        with open(file, "wb", buffering=0) as f:
            while True:
                f.write(bytes(4096))
    except OSError:
        pass


def main(folder):
    os.chdir(folder)
    net = nn.HybridSequential(prefix="net_")
    net.add(nn.Dense(WIDTH, in_units=WIDTH, prefix="dense_"))
    net.initialize()
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    with autograd.record():
        loss = net(nd.ones((2, WIDTH))).sum()
    loss.backward()
    trainer.step(1)
    all_of_them, failed = writers(net, trainer), {}
    for write, _, _ in all_of_them.values():
        write()
    for name, (write, named, stays) in all_of_them.items():
        before = files()
        fill("filler")
        try:
            write()
        except Exception as e:
            assert named in str(e) and "No space left on device" in str(e), f"{name}: {e}"
            failed[name] = type(e).__name__
        os.unlink("filler")
        after = files()
        if stays:
            assert after == before, f"{name} changed {[f for f in {*before, *after} if before.get(f) != after.get(f)]}"
        write()  # there is room again
    print(json.dumps(failed))


if __name__ == "__main__":
    main(sys.argv[1])
