# SPDX-License-Identifier: Apache-2.0
"""Fourteen threads that call, train, hybridize anew, write, save, load and explain the same nets.

Parameters are filled with one number each, and every result shows them: a call that saw a half-written one, or
parameters of which some were written together with others and some not, is found at once. Seconds in the daily run;
``pytest -m exhaustive`` takes minutes, and so does ``python tests/programs/test_threads.py --minutes 5``.
"""

from __future__ import annotations

import argparse
import copy
import pickle
import random
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.gluon import nn

SIDE = 256  #: of the square parameters: their copies take longer than a change of threads
FILES = 4


class Shown(nn.HybridBlock):
    """Results that show the parameters: two as they are, one that a product takes in its own order, and a function of it
    alone, which is kept between calls."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.u = self.params.get("u", shape=(SIDE, SIDE), init="zeros")
            self.v = self.params.get("v", shape=(SIDE, SIDE), init="zeros")

    def hybrid_forward(self, F, x, u, v):
        ones = F.full((4, SIDE), 1 / SIDE)
        product = F.FullyConnected(ones, v, None, num_hidden=SIDE, no_bias=True)
        return F.broadcast_add(u, x), F.broadcast_add(v, x), product, F.log(F.exp(u * 0)) + u


class Normalised(nn.HybridSequential):
    """A convolution and running statistics, which are folded into its weight outside training."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.add(nn.Conv2D(64, 1, in_channels=128, use_bias=False, weight_initializer="zeros"))
            self.add(nn.BatchNorm(in_channels=64, scale=False, center=False))


def number_of(values):
    low, high = float(values.min()), float(values.max())
    if low != high:
        raise AssertionError(f"a mixture of {low} and {high}")
    return low


class Threads:
    """The nets, and what each thread does with them again and again."""

    def __init__(self, folder, seed=0):
        self.folder, self.seed = Path(folder), seed
        self.counts, self.errors, self.stop = Counter(), [], threading.Event()
        self.x = nd.zeros((1, SIDE))
        self.pixels = nd.full((1, 128, 4, 4), 1 / 128)
        self.changing = self._ready(Shown())  # other threads hybridize it, or make it eager
        self.stable = self._ready(Shown())
        self.trained = self._ready(Shown())
        self.folded = self._ready(Normalised(), self.pixels)
        self.stable.export(str(self.folder / "stable"))
        files = str(self.folder / "stable-symbol.json"), ["data"], str(self.folder / "stable-0000.params")
        self.imported = gluon.SymbolBlock.imports(*files)
        for k in range(FILES):
            self._write(self.stable, k)
            self.stable.save_parameters(str(self.folder / f"{k}.params"))
        self.trainer = gluon.Trainer(self.trained.collect_params(), "sgd", {"learning_rate": 1.0})

    def _ready(self, net, x=None):
        net.initialize(mx.init.Zero())
        net.hybridize()
        for _ in range(2):
            net(self.x if x is None else x)
        return net

    @staticmethod
    def _write(net, number):
        params = net.collect_params()
        params.load_dict({name: nd.full(p.shape, number) for name, p in params.items()})

    # -- what is seen

    def _check(self, results, together):
        numbers = [number_of(y.asnumpy()) for y in results]
        assert not together or len(set(numbers)) == 1, f"one call saw {numbers}"

    def call_stable(self, rng):
        self._check(self.stable(self.x), together=True)

    def call_changing(self, rng):
        self._check(self.changing(self.x), together=False)  # by operators, where it is not hybridized

    def call_imported(self, rng):
        self._check(self.imported(self.x), together=True)

    def call_recorded(self, rng):
        with autograd.record():
            results = self.stable(self.x)
            loss = sum(y.sum() for y in results)
        self._check(results, together=True)
        if rng.random() < 0.5:
            loss.backward()

    def call_folded(self, rng):
        number_of(self.folded(self.pixels).asnumpy())

    def call_in_batches(self, rng):
        rows = nd.zeros((rng.choice([1, SIDE]), SIDE))
        self._check(self.stable(rows), together=True)

    # -- what is changed

    def set_one(self, rng):
        net = rng.choice([self.changing, self.imported, self.folded])
        p = rng.choice([p for p in net.collect_params().values() if "running" not in p.name])
        if net is not self.imported:
            p.set_data(nd.full(p.shape, rng.randrange(100)))
        else:  # whose calls are checked for what is written together
            self._write(net, rng.randrange(100))

    def set_all(self, rng):
        self._write(rng.choice([self.stable, self.changing]), rng.randrange(100))

    def load(self, rng):
        net = rng.choice([self.stable, self.changing])
        net.load_parameters(str(self.folder / f"{rng.randrange(FILES)}.params"))

    def save(self, rng):
        file = str(self.folder / "saved.params")
        net = rng.choice([self.stable, self.changing])
        net.save_parameters(file)
        for values in nd.load(file).values():
            number_of(values.asnumpy())

    def files(self, rng):
        rng.choice([self.load, self.save, self.export])(rng)

    def export(self, rng):
        try:
            self.stable.export(str(self.folder / "exported"))
        except RuntimeError as e:
            if "first call block.hybridize()" not in str(e):  # true, where another thread has just done so
                raise
            return
        files = str(self.folder / "exported-symbol.json"), ["data"], str(self.folder / "exported-0000.params")
        self._check(gluon.SymbolBlock.imports(*files)(self.x), together=False)

    def train(self, rng):
        """Steps of one net, whose values another one is given after each."""
        with autograd.record():
            loss = sum(y.sum() for y in self.trained(self.x)[:2])
        loss.backward()
        self.trainer.step(1)
        pairs = zip(self.stable.collect_params(), self.trained.collect_params().values(), strict=True)
        self.stable.collect_params().load_dict({name: p.data() for name, p in pairs})

    def hybridize(self, rng):
        flags = {"active": rng.random() < 0.8, "clear": rng.random() < 0.5}
        static = rng.random() < 0.5
        self.changing.hybridize(**flags, static_alloc=static, static_shape=static, background=rng.random() < 0.2)
        if rng.random() < 0.3:
            self.stable.hybridize(static_alloc=static)
        if rng.random() < 0.2:
            self.folded.hybridize()
        self.stop.wait(rng.random() / 50)  # so that some calls are prepared

    def explain(self, rng):
        assert self.stable.explain(self.x).kernels
        try:
            assert self.changing.explain(self.x).kernels
        except RuntimeError as e:
            if "is not hybridized" not in str(e):
                raise

    def copy(self, rng):
        net = rng.choice([self.stable, self.changing])
        other = copy.deepcopy(net) if rng.random() < 0.5 else pickle.loads(pickle.dumps(net))
        for p in other.collect_params().values():
            number_of(p.data().asnumpy())
        self._check(other(self.x), together=False)

    # -- the run

    def run(self, seconds):
        work = [self.call_stable, self.call_stable, self.call_changing, self.call_imported, self.call_recorded]
        work += [self.call_folded, self.call_in_batches, self.set_one, self.set_all, self.train]
        work += [self.hybridize, self.explain]
        # two threads do what takes longest
        work += [self.files, self.copy]
        kinds = {w.__name__ for w in work}
        threads = [threading.Thread(target=self._body, args=(k, w), daemon=True) for k, w in enumerate(work)]
        old = sys.getswitchinterval()
        sys.setswitchinterval(1e-4)
        try:
            for t in threads:
                t.start()
            self.stop.wait(seconds)
            until = time.monotonic() + 60  # each does something, on a busy machine too
            while kinds - set(self.counts) and time.monotonic() < until and not self.stop.wait(0.05):
                pass
            self.stop.set()
            for t in threads:
                t.join(120)
        finally:
            sys.setswitchinterval(old)
        assert not any(t.is_alive() for t in threads), "a thread does not end"
        assert not self.errors, self.errors[0]
        assert set(self.counts) == kinds, f"nothing was done by {kinds - set(self.counts)}"
        return self.counts

    def _body(self, number, work):
        rng = random.Random(self.seed * 100 + number)
        try:
            while not self.stop.is_set():
                work(rng)
                self.counts[work.__name__] += 1
        except BaseException:
            self.errors.append(traceback.format_exc())
            self.stop.set()


def fourteen(seconds, seed=0):
    with tempfile.TemporaryDirectory() as folder:
        return Threads(folder, seed).run(seconds)


def test_fourteen_threads():
    counts = fourteen(2)
    assert len(counts) == 13, counts  # two threads do the same


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(3))
def test_fourteen_threads_for_minutes(seed):
    fourteen(60, seed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    start = time.time()
    found = fourteen(given.minutes * 60, given.seed)
    print(f"{time.time() - start:.0f} s, {sum(found.values())} rounds: {dict(found)}")
