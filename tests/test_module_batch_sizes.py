# SPDX-License-Identifier: Apache-2.0
"""Modules compile nothing for another batch size or bucket: executors made from one another have one first signature."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import runtime
from hybridgpu.cache.disk_cache import reset_default_store

EXECUTOR = "hybridgpu.executor.executor"


@pytest.fixture(autouse=True)
def _empty_store(tmp_path, monkeypatch, compiler):
    """Nothing is compiled yet, and executors compile at once."""
    monkeypatch.setenv("HYBRIDGPU_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(f"{EXECUTOR}._COMPILE_AFTER", 0)
    reset_default_store()
    yield
    reset_default_store()


def pictures():
    """A net with what depends on the batch in training: BatchNorm, derivatives of weights, a loss."""
    x = mx.sym.Convolution(mx.sym.var("data"), num_filter=6, kernel=(3, 3), pad=(1, 1), name="conv")
    x = mx.sym.Activation(mx.sym.BatchNorm(x, fix_gamma=False, name="norm"), act_type="relu")
    x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=5, name="out")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def sentences(length):
    """A mean over the words of a sentence; every bucket has its own Symbol of the same structure."""
    x = mx.sym.Embedding(mx.sym.var("data"), input_dim=30, output_dim=12, name="words")
    x = mx.sym.FullyConnected(x, num_hidden=9, flatten=False, name="wide")
    x = mx.sym.mean(mx.sym.Activation(x, act_type="tanh"), axis=1)
    x = mx.sym.FullyConnected(x, num_hidden=5, name="out")
    return mx.sym.SoftmaxOutput(x, name="softmax"), ("data",), ("softmax_label",)


def batch_of(shape, rng, key=None, words=False):
    data = rng.integers(0, 30, shape) if words else rng.normal(size=shape)
    labels = mx.nd.array(rng.integers(0, 5, shape[:1]).astype(np.float32))
    described = [mx.io.DataDesc("data", shape)], [mx.io.DataDesc("softmax_label", shape[:1])]
    return mx.io.DataBatch(
        [mx.nd.array(data.astype(np.float32))],
        [labels],
        bucket_key=key,
        provide_data=described[0],
        provide_label=described[1],
    )


def trained(make, batches, compile_after, monkeypatch):
    """Modules compiled for each batch, and what the parameters are at the end."""
    monkeypatch.setattr(f"{EXECUTOR}._COMPILE_AFTER", compile_after)
    mx.random.seed(1)
    np.random.seed(1)
    module = make()
    module.bind(batches[0].provide_data, batches[0].provide_label)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer_params={"learning_rate": 0.1})
    compiled = []
    for batch in batches:
        before = runtime.compile_report().compiled_modules
        module.forward_backward(batch)
        compiled.append(runtime.compile_report().compiled_modules - before)
        module.update()
    arguments, states = module.get_params()
    return compiled, {k: v.asnumpy() for k, v in {**arguments, **states}.items()}


def check(make, batches, monkeypatch, calls_of_a_compiler):
    """``calls_of_a_compiler``: how many of the first batches have any."""
    expected = trained(make, batches, 10**9, monkeypatch)[1]
    compiled, found = trained(make, batches, 0, monkeypatch)
    assert compiled[0] and not any(compiled[calls_of_a_compiler:]), compiled
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-4, atol=2e-5, err_msg=name)


def test_batches_of_a_module(monkeypatch):
    rng = np.random.default_rng(1)
    batches = [batch_of((n, 3, 12, 12), rng) for n in (16, 12, 7, 3, 2, 32, 16)]
    check(lambda: mx.mod.Module(pictures(), context=mx.cpu()), batches, monkeypatch, 1)


@pytest.mark.parametrize(
    ("sizes", "calls_of_a_compiler"),
    [
        (((9, 20), (9, 7), (9, 33), (9, 2)), 1),
        (((20, 20), (5, 7), (13, 33), (7, 20)), 1),  # lengths and batch sizes at once
        (((9, 10), (9, 7), (9, 13), (9, 11)), 2),  # so short a length decides for no other
    ],
    ids=str,
)
def test_buckets(monkeypatch, sizes, calls_of_a_compiler):
    rng = np.random.default_rng(2)
    batches = [batch_of(s, rng, key=s[1], words=True) for s in sizes]
    make = lambda: mx.mod.BucketingModule(sentences, default_bucket_key=sizes[0][1], context=mx.cpu())  # noqa: E731
    check(make, batches, monkeypatch, calls_of_a_compiler)


def test_predictions_of_a_reshaped_executor():
    symbol = pictures()
    first = symbol.simple_bind(mx.cpu(), grad_req="null", data=(16, 3, 12, 12))
    first.forward()
    before = runtime.compile_report().compiled_modules
    for n in (12, 7, 3, 2):  # of few examples a step is one chunk
        first.reshape(data=(n, 3, 12, 12), softmax_label=(n,)).forward()
    assert runtime.compile_report().compiled_modules == before > 0


def test_an_executor_made_from_a_compiled_one_is_planned_soon(monkeypatch):
    """Its kernels are there, so a few calls are worth it."""
    monkeypatch.setattr(f"{EXECUTOR}._COMPILE_AFTER", 9)
    monkeypatch.setattr(f"{EXECUTOR}._PLAN_AFTER", 2)
    first = pictures().simple_bind(mx.cpu(), grad_req="null", data=(16, 3, 12, 12))
    other = first.reshape(data=(4, 3, 12, 12), softmax_label=(4,))

    def calls(executor):
        signatures = runtime.compile_report().signatures
        for k in range(20):
            executor.forward()
            if runtime.compile_report().signatures > signatures:
                return k
        return None

    assert calls(first) == 9
    assert calls(other) == 2
