# SPDX-License-Identifier: Apache-2.0
"""Names of other libraries: MXNet's class and wording, then what to write instead, which exists."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.gluon import nn
from hybridgpu.gluon.contrib.estimator import Estimator
from hybridgpu.hints import gluon as gluon_hints
from hybridgpu.hints import members
from hybridgpu.hints.foreign_names import OTHERS
from hybridgpu.ops.functions import find
from hybridgpu.ops.numpy.members import _UNSUPPORTED as UNSUPPORTED


def net():
    made = nn.Dense(2, in_units=3)
    made.initialize()
    return made


def module():
    return mx.mod.Module(mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2), name="softmax"))


def on_another_device(hybridized):
    made = net()
    made.collect_params().reset_ctx(mx.cpu(1))
    made.hybridize(hybridized)
    return made(nd.ones((1, 3)))


def more_than_there_is():
    class Outer(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.broadcast_add(x.expand_dims(0), x.expand_dims(1)) * 2

    made = Outer()
    made.hybridize()
    return made(nd.zeros((20_000_000,)))  # more than processors have addresses for


def member(x, names):
    return functools.reduce(getattr, names.split("."), x)


#: what is written -> (error, its first line, what the second one has)
WRITTEN = {
    "layer": (
        lambda: nn.Linear(3),
        AttributeError,
        "module 'hybridgpu.gluon.nn' has no attribute 'Linear'",
        "nn.Dense",
    ),
    "loss": (
        lambda: gluon.loss.CrossEntropyLoss(),
        AttributeError,
        "module 'hybridgpu.gluon.loss' has no attribute 'CrossEntropyLoss'",
        "SoftmaxCrossEntropyLoss()",
    ),
    "loss of nn": (
        lambda: nn.MSELoss(),
        AttributeError,
        "module 'hybridgpu.gluon.nn' has no attribute 'MSELoss'",
        "L2Loss",
    ),
    "array": (
        lambda: nd.matmul(nd.ones((2, 2)), nd.ones((2, 2))),
        AttributeError,
        "module 'hybridgpu.ndarray' has no attribute 'matmul'",
        "Write nd.dot(a, b)",
    ),
    "a mask": (
        lambda: nd.masked_softmax(nd.ones((2, 2)), nd.ones((2, 2))),
        AttributeError,
        "module 'hybridgpu.ndarray' has no attribute 'masked_softmax'",
        "Write nd.softmax(nd.broadcast_add(x, (mask - 1) * 1e4)), or nd.softmax(x, length=lengths, use_length=True).",
    ),
    "a name of np in another library": (
        lambda: mx.np.cat,
        AttributeError,
        "module 'hybridgpu.numpy' has no attribute 'cat'",
        "Write np.concatenate((a, b), axis=0). (",
    ),
    "the same in a graph": (
        lambda: mx.sym.np.cat,
        AttributeError,
        "module 'hybridgpu.symbol.numpy' has no attribute 'cat'",
        "Write sym.np.concatenate((a, b), axis=0). (",
    ),
    "what npx has is not in np": (
        lambda: mx.np.softmax,
        AttributeError,
        "module 'hybridgpu.numpy' has no attribute 'softmax'",
        "Write npx.softmax. (",
    ),
    "what np has is not in npx": (
        lambda: mx.npx.exp,
        AttributeError,
        "module 'hybridgpu.numpy_extension' has no attribute 'exp'",
        "Write np.exp. (",
    ),
    "a layer of another library in np": (
        lambda: mx.np.gelu,
        AttributeError,
        "module 'hybridgpu.numpy' has no attribute 'gelu'",
        "Write npx.leaky_relu(x, act_type='gelu'). (",
    ),
    "what NumPy has and np lacks": (
        lambda: mx.np.gradient,
        AttributeError,
        "module 'hybridgpu.numpy' has no attribute 'gradient'",
        "Write numpy.gradient(...): NumPy's function takes arrays of np where nothing is traced or recorded. MXNet's np does not",
    ),
    "what functions of np make up": (
        lambda: mx.np.median,
        AttributeError,
        "module 'hybridgpu.numpy' has no attribute 'median'",
        "Write np.percentile(x, 50, axis). (",
    ),
    "the same of Symbols": (
        lambda: mx.sym.np.median,
        AttributeError,
        "module 'hybridgpu.symbol.numpy' has no attribute 'median'",
        "Write sym.np.percentile(x, 50, axis). (",
    ),
    "a distribution that NumPy has": (
        lambda: mx.np.random.zipf(2),
        AttributeError,
        "module 'hybridgpu.numpy.random' has no attribute 'zipf'",
        "Write numpy.random.zipf(...): NumPy's function draws numbers that NumPy's seed decides. MXNet's",
    ),
    "a module of MXNet 2": (
        lambda: gluon.metric,
        AttributeError,
        "module 'hybridgpu.gluon' has no attribute 'metric'",
        "Write mx.metric. (",
    ),
    "a generator of NumPy's": (
        lambda: mx.np.random.default_rng(0),
        AttributeError,
        "module 'hybridgpu.numpy.random' has no attribute 'default_rng'",
        "Write mx.random.seed(seed), and functions of np.random. (",
    ),
    "a method of arrays of np": (
        lambda: mx.np.ones(2).unsqueeze(0),
        AttributeError,
        "'ndarray' object has no attribute 'unsqueeze'",
        "Write np.expand_dims(x, axis). (",
    ),
    "an array of NumPy's beside one of np": (
        lambda: mx.np.ones(2) * np.ones(2),
        TypeError,
        "type <class 'numpy.ndarray'> not supported",
        "Make it an array first: mx.np.array(values, dtype=values.dtype). (",
    ),
    "an array of nd beside one of np": (
        lambda: mx.np.ones(2) + nd.ones(2),
        TypeError,
        "type <class 'hybridgpu.ndarray.ndarray.NDArray'> not supported",
        "Write x.as_np_ndarray() for the array of nd, or make it by np",
    ),
    "a function of np without set_np": (
        lambda: net()(mx.np.ones((1, 3))),
        TypeError,
        "and then feed the converted array to this operator.",
        "Call npx.set_np() at the top of the program: layers and losses then compute with arrays of np. (",
    ),
    "a function of nd in np": (
        mx.util.use_np_array(lambda: nd.relu(mx.np.ones(2))),
        TypeError,
        "and then feed the converted array to this operator.",
        "Write npx.relu (npx of F in hybrid_forward). (",
    ),
    "an array of NumPy's in a graph of np": (
        mx.util.use_np_array(lambda: mx.sym.var("x").as_np_ndarray() + np.ones(2)),
        TypeError,
        "type <class 'numpy.ndarray'> not supported",
        "A NumPy array cannot enter a graph: write F.np.ones, F.np.full or F.np.arange, or make it an argument of the block",
    ),
    "a list in a graph of np": (
        mx.util.use_np_array(lambda: mx.sym.np.interp(mx.sym.var("x").as_np_ndarray(), [0.0, 1.0], [1.0, 2.0])),
        NotImplementedError,
        "operators take arrays, not <class 'list'>",
        "A list cannot enter a graph: write F.np.ones, F.np.full or F.np.arange, or make it an argument of the block",
    ),
    "a Symbol in a function of np": (
        lambda: mx.np.exp(mx.sym.var("x")),
        TypeError,
        "type <class 'hybridgpu.symbol.symbol.Symbol'> not supported",
        "A block that is being traced has Symbols: write operators of F in hybrid_forward, there F is mx.sym. (",
    ),
    "a method of arrays that changes nothing": (
        lambda: nd.ones((2, 2)).contiguous(),
        AttributeError,
        "'NDArray' object has no attribute 'contiguous'",
        "Write x alone: arrays are always contiguous.",
    ),
    "a method of arrays that is an attribute": (
        lambda: nd.ones((2, 2)).t(),
        AttributeError,
        "'NDArray' object has no attribute 't'",
        "Write x.T.",
    ),
    "symbol": (
        lambda: mx.sym.cat(mx.sym.var("a")),
        AttributeError,
        "module 'hybridgpu.symbol' has no attribute 'cat'",
        "Write sym.concat(a, b, dim=0).",
    ),
    "method": (
        lambda: net().parameters(),
        AttributeError,
        "'Dense' object has no attribute 'parameters'",
        "Write net.collect_params()",
    ),
    "argument": (
        lambda: gluon.Trainer(net().collect_params(), "sgd", {"lr": 0.1}),
        TypeError,
        "__init__() got an unexpected keyword argument 'lr'",
        "Write learning_rate instead; SGD takes momentum, ",
    ),
    "misspelt argument": (
        lambda: mx.optimizer.create("adam", beta_1=0.1),
        TypeError,
        "__init__() got an unexpected keyword argument 'beta_1'",
        "Write beta1 instead; Adam takes ",
    ),
    "optimizer": (
        lambda: gluon.Trainer(net().collect_params(), "sgdd"),
        ValueError,
        "Cannot find optimizer sgdd",
        "Write 'sgd' or 'sgld'.",
    ),
    "optimizers nearby": (
        lambda: gluon.Trainer(net().collect_params(), "adamax2"),
        ValueError,
        "Cannot find optimizer adamax2",
        "Write 'adamax'",
    ),
    "AdamW": (
        lambda: gluon.Trainer(net().collect_params(), "AdamW"),
        ValueError,
        "Cannot find optimizer AdamW",
        "Write 'adam', whose decay is part of the gradient; one apart from it is nd.contrib.adamw_update",
    ),
    "Trainer before initialize": (
        lambda: gluon.Trainer(nn.Dense(2, prefix="late_").collect_params(), "sgd"),
        RuntimeError,
        "Parameter 'late_bias' has not been initialized",
        "Call net.initialize(), or load its parameters, before",
    ),
    "Parameter of its own": (
        lambda: gluon.Parameter("scale", shape=(1,)).data(),
        RuntimeError,
        "because the later does not include Parameters of nested child Blocks",
        "nor parameters in a list (make each an attribute), nor, under MXNet's name, Parameter(...) (make it by self.params.get",
    ),
    "a parameter as an array": (
        lambda: net().weight.asnumpy(),
        AttributeError,
        "'Parameter' object has no attribute 'asnumpy'",
        "A parameter has arrays: write data().asnumpy.",
    ),
    "rows of several lengths": (
        lambda: nd.array([[1, 2], [3]]),
        TypeError,
        "source_array must be array like object",
        "The requested array has an inhomogeneous shape after 1 dimensions.",
    ),
    "texts": (
        lambda: nd.array(["one", "two"]),
        TypeError,
        "source_array must be array like object",
        "data type dtype('<U3') is not understood; known types: float32, ",
    ),
    "a DataLoader for a Module": (
        lambda: module().fit(gluon.data.DataLoader([0], 1), num_epoch=1),
        AttributeError,
        "'DataLoader' object has no attribute 'provide_data'",
        "Give it mx.contrib.io.DataLoaderIter(loader).",
    ),
    "an array for a Module": (
        lambda: module().fit(np.ones((2, 2)), num_epoch=1),
        AttributeError,
        "'ndarray' object has no attribute 'provide_data'",
        "Give it mx.io.NDArrayIter(data, label).",
    ),
    "data on another device": (
        lambda: on_another_device(False),
        RuntimeError,
        "was not initialized on context cpu(0). It was only initialized on [cpu(1)].",
        "Bring the data there, x.as_in_context(mx.cpu(1)), or the parameters where the data are: "
        "net.collect_params().reset_ctx(mx.cpu(0)). (",
    ),
    "data on another device, hybridized": (
        lambda: on_another_device(True),
        RuntimeError,
        "was not initialized on context cpu(0). It was only initialized on [cpu(1)].",
        "x.as_in_context(mx.cpu(1))",
    ),
    "more than there is memory": (
        lambda: more_than_there_is(),
        MemoryError,
        "Unable to allocate 1,490,116.1 GiB of the host's memory",
        "Take a smaller batch, ",
    ),
    "samples of several shapes": (
        lambda: next(iter(gluon.data.DataLoader([nd.ones((1,)), nd.ones((2,))], 2))),
        mx.MXNetError,
        "expected [1], got [2]",
        "pad them in a batchify_fn; (1,) and (2,) were given.",
    ),
    "samples of several shapes of NumPy": (
        lambda: next(iter(gluon.data.DataLoader([(np.ones((2, 1)), 0), (np.ones((3, 1)), 1)], 2))),
        ValueError,
        "The detected shape was (2,) + inhomogeneous part.",
        "pad them in a batchify_fn; (2, 1) and (3, 1) were given.",
    ),
    "Estimator of MXNet 1.6": (
        lambda: Estimator(net(), gluon.loss.L2Loss(), metrics=mx.metric.MAE()),
        TypeError,
        "__init__() got an unexpected keyword argument 'metrics'",
        "Write train_metrics instead; Estimator takes net, ",
    ),
    "initializer": (
        lambda: mx.init.create("xavierr"),
        AssertionError,
        "xavierr is not registered. Please register with initializer.register first",
        "Write 'xavier'.",
    ),
    "metric": (
        lambda: mx.metric.create("acuracy"),
        AssertionError,
        "acuracy is not registered. Please register with metric.register first",
        "Write 'accuracy'.",
    ),
    "another optimizer": (
        lambda: mx.optimizer.create("x"),
        ValueError,
        "Cannot find optimizer x",
        "There are adadelta, ",
    ),
    "function of arrays with another's argument": (
        lambda: mx.sym.var("x").sum(dim=1),
        mx.MXNetError,
        "Cannot find argument 'dim', Possible Arguments:",
        "Write axis instead of dim.",
    ),
    "the other way round": (
        lambda: nd.concat(nd.ones((2, 3)), nd.ones((2, 3)), axis=0),
        mx.MXNetError,
        "Cannot find argument 'axis', Possible Arguments:",
        "Write dim instead of axis.",
    ),
    "misspelt argument of an operator": (
        lambda: nd.mean(nd.ones((2, 3)), keepdim=True),
        mx.MXNetError,
        "Cannot find argument 'keepdim', Possible Arguments:",
        "Write keepdims instead of keepdim.",
    ),
    "argument of a trainer": (
        lambda: gluon.Trainer(net().collect_params(), "sgd", lr=0.1),
        TypeError,
        "Trainer.__init__() got an unexpected keyword argument 'lr'",
        "Write optimizer_params={'learning_rate': ...} instead; Trainer takes params, ",
    ),
    "a net in place of its parameters": (
        lambda: gluon.Trainer(net(), "sgd"),
        ValueError,
        "got <class 'hybridgpu.gluon.nn.basic.Dense'>.",
        "Write net.collect_params().",
    ),
    "attribute of a trainer": (
        lambda: gluon.Trainer(net().collect_params(), "sgd").zero_grad(),
        AttributeError,
        "'Trainer' object has no attribute 'zero_grad'",
        "Write nothing: gradients are overwritten",
    ),
    "argument of a loader": (
        lambda: gluon.data.DataLoader([1, 2], batch_size=2, drop_last=True),
        TypeError,
        "DataLoader.__init__() got an unexpected keyword argument 'drop_last'",
        "Write last_batch='discard' instead; DataLoader takes dataset, ",
    ),
    "argument of a scheduler": (
        lambda: mx.lr_scheduler.FactorScheduler(step_size=3),
        TypeError,
        "FactorScheduler.__init__() got an unexpected keyword argument 'step_size'",
        "Write step instead; FactorScheduler takes step, factor, ",
    ),
    "argument of a metric": (
        lambda: mx.metric.TopKAccuracy(k=3),
        TypeError,
        "TopKAccuracy.__init__() got an unexpected keyword argument 'k'",
        "Write top_k instead; TopKAccuracy takes top_k, ",
    ),
    "argument of an initializer": (
        lambda: mx.init.Normal(std=0.1),
        TypeError,
        "Normal.__init__() got an unexpected keyword argument 'std'",
        "Write sigma instead; Normal takes sigma.",
    ),
    "argument of an iterator": (
        lambda: mx.io.NDArrayIter(nd.ones(3), batchsize=2),
        TypeError,
        "NDArrayIter.__init__() got an unexpected keyword argument 'batchsize'",
        "Write batch_size instead; NDArrayIter takes data, ",
    ),
    "argument of a module": (
        lambda: mx.mod.Module(mx.sym.var("x"), ctx=mx.cpu()),
        TypeError,
        "Module.__init__() got an unexpected keyword argument 'ctx'",
        "Write context instead; Module takes symbol, ",
    ),
    "argument of a callback": (
        lambda: mx.callback.Speedometer(batchsize=2),
        TypeError,
        "Speedometer.__init__() got an unexpected keyword argument 'batchsize'",
        "Write batch_size instead; Speedometer takes batch_size, ",
    ),
    "argument of a utility": (
        lambda: gluon.utils.clip_global_norm([nd.ones(2)], max_nrm=2),
        TypeError,
        "clip_global_norm() got an unexpected keyword argument 'max_nrm'",
        "Write max_norm instead; clip_global_norm takes arrays, ",
    ),
    "arguments of random numbers": (
        lambda: nd.random.normal(mean=0, shape=(2,)),
        mx.MXNetError,
        "Cannot find argument 'mean', Possible Arguments:",
        "Write loc instead of mean.",
    ),
    "function of random numbers": (
        lambda: nd.random.rand(2),
        AttributeError,
        "module 'hybridgpu.ndarray.random' has no attribute 'rand'",
        "Write mx.nd.random.uniform(shape=...).",
    ),
    "an array in a graph": (
        lambda: mx.sym.array([1]),
        AttributeError,
        "module 'hybridgpu.symbol' has no attribute 'array'",
        "Write sym.ones, sym.full or sym.arange; arrays enter a graph as arguments",
    ),
    "a function's apply": (
        lambda: mx.autograd.Function.apply(nd.ones(2)),
        AttributeError,
        "type object 'Function' has no attribute 'apply'",
        "Write Name(...)(x): an object, called once",
    ),
    "data set": (
        lambda: gluon.data.TensorDataset(),
        AttributeError,
        "module 'hybridgpu.gluon.data' has no attribute 'TensorDataset'",
        "Write gluon.data.ArrayDataset(*arrays).",
    ),
    "utility": (
        lambda: gluon.utils.clip_grad_norm_([], 1),
        AttributeError,
        "module 'hybridgpu.gluon.utils' has no attribute 'clip_grad_norm_'",
        "Write gluon.utils.clip_global_norm(",
    ),
    "no gradients": (
        lambda: autograd.no_grad(),
        AttributeError,
        "module 'hybridgpu.autograd' has no attribute 'no_grad'",
        "Write autograd.pause()",
    ),
    "schedule of rates": (
        lambda: mx.lr_scheduler.StepLR(10),
        AttributeError,
        "module 'hybridgpu.lr_scheduler' has no attribute 'StepLR'",
        "Write mx.lr_scheduler.FactorScheduler(step, factor); step counts updates",
    ),
    "mixed precision": (
        lambda: mx.amp.init(),
        AttributeError,
        "module 'hybridgpu' has no attribute 'amp'",
        "Write mx.contrib.amp.",
    ),
    "of the root": (
        lambda: mx.manual_seed(1),
        AttributeError,
        "module 'hybridgpu' has no attribute 'manual_seed'",
        "Write mx.random.seed(seed).",
    ),
    "of the random numbers": (
        lambda: mx.random.manual_seed(1),
        AttributeError,
        "module 'hybridgpu.random' has no attribute 'manual_seed'",
        "Write mx.random.seed(seed).",
    ),
    "blocks given to a container": (
        lambda: nn.HybridSequential(nn.Dense(2)),
        AttributeError,
        "'HybridSequential' object has no attribute '_children'",
        "A container takes its blocks by net.add(block, ...)",
    ),
    "extents one by one": (
        lambda: nd.zeros(2, 3),
        mx.MXNetError,
        "Invalid context string 3",
        "Write the extents as one tuple, nd.zeros((2, 3)).",
    ),
    "device by name": (
        lambda: nd.zeros((2, 3), ctx="gpu"),
        mx.MXNetError,
        "Invalid context string gpu",
        "Write mx.cpu() or mx.gpu(i).",
    ),
    "device by name, to move there": (
        lambda: nd.zeros((2, 3)).as_in_context("cuda"),
        TypeError,
        "copyto does not support type <class 'str'>",
        "Write mx.cpu() or mx.gpu(i).",
    ),
    "element type": (
        lambda: nd.array([1], dtype="flaot32"),
        TypeError,
        "source_array must be array like object",
        "data type 'flaot32' is not understood; known types: float32, ",
    ),
    "net that has no values": (
        lambda: nn.Dense(2, in_units=3)(nd.ones((1, 3))),
        RuntimeError,
        "does not include Parameters of nested child Blocks",
        "Call net.initialize() before the net",
    ),
    "class in place of an initializer": (
        lambda: nn.Dense(2, in_units=3).initialize(mx.init.Xavier),
        AssertionError,
        "initializer must be of string type",
        "Write Xavier(), which makes one.",
    ),
    "inputs that a layer does not take": (
        lambda: net()(nd.ones((1, 3)), nd.ones((1, 3))),
        TypeError,
        "Dense.hybrid_forward() got multiple values for argument 'weight'",
        "A Dense is called with (x).",
    ),
    "pattern": (
        lambda: net().collect_params("*weight"),
        re.error,
        "nothing to repeat at position 0",
        "write '.*weight'",
    ),
}


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("what", WRITTEN)
def test_what_is_said(what):
    call, error, first, second = WRITTEN[what]
    with pytest.raises(error) as caught:
        call()
    lines = str(caught.value).split("\n")
    one, two = lines[0], lines[-1]
    assert len(lines) == 2 or error is mx.MXNetError
    assert one.endswith(first) and second in two and "test_foreign_names.py" in two


@pytest.mark.parametrize(
    "module", [nn, gluon.loss, gluon.data, gluon.utils, autograd, nd, mx.sym], ids=lambda m: m.__name__
)
def test_other_names_are_told_as_ever(module):
    with pytest.raises(AttributeError, match=rf"^module '{module.__name__}' has no attribute 'quite_another'$"):
        module.quite_another  # noqa: B018
    assert not hasattr(module, "__quite_another__")


def test_other_attributes_are_told_as_ever():
    with pytest.raises(AttributeError, match="^'Dense' object has no attribute 'quite_another'$"):
        net().quite_another  # noqa: B018


def test_a_property_that_fails_says_why():
    class Net(gluon.HybridBlock):
        @property
        def depth(self):
            return self.layers

    with pytest.raises(AttributeError, match="^'Net' object has no attribute 'layers'$"):
        Net().depth  # noqa: B018


def test_what_is_advised_exists():
    for table in (gluon_hints.LAYERS, gluon_hints.LOSSES, gluon_hints.METHODS):
        for name, instead in table.items():
            for owner, path in re.findall(r"\b(contrib\.nn|nn|gluon\.rnn|gluon\.loss|net)\.(\w+)", instead):
                where = {
                    "contrib.nn": gluon.contrib.nn,
                    "nn": nn,
                    "gluon.rnn": gluon.rnn,
                    "gluon.loss": gluon.loss,
                    "net": net(),
                }[owner]
                assert hasattr(where, path), (name, instead)
            for operator in re.findall(r"\bF\.(?:contrib\.)?(\w+)", instead):
                assert find(operator, "contrib" if "F.contrib" in instead else ""), (name, instead)
    for table, owner in ((gluon_hints.OF_DATA, gluon.data), (gluon_hints.UTILITIES, gluon.utils)):
        for name, instead in table.items():
            assert not hasattr(owner, name)
            for path in re.findall(rf"\b{owner.__name__.removeprefix('hybridgpu.')}\.(\w+)", instead):
                assert hasattr(owner, path), (name, instead)
    for name, instead in gluon_hints.TRAINER.items():
        for path in re.findall(r"\btrainer\.(\w+)", instead):
            assert hasattr(gluon.Trainer, path), (name, instead)
    for name, instead in OTHERS.items():
        assert not name.startswith("F.") or find(name.removeprefix("F."), "") is None, name
        if name.startswith(("np.", "npx.")):
            with pytest.raises(AttributeError, match="Write "):
                member(mx, name)
        for found in re.findall(r"\{F\}((?:npx?|np\.random)\.\w+)", instead):
            assert member(mx, found) and member(mx.sym, found), (name, instead)
        for operator in re.findall(r"\{F\}\.(\w+)", instead):
            assert hasattr(mx.nd, operator) and hasattr(mx.sym, operator), (name, instead)


#: what -> one of it, the modules that texts name
OBJECTS = {
    "ARRAYS": (lambda: nd.ones((2, 2)), {"nd": nd, "np": np}),
    "ARRAYS_OF_NP": (lambda: mx.np.ones((2, 2)), {"np": mx.np, "npx": mx.npx}),
    "SYMBOLS": (lambda: mx.sym.var("x"), {"F": mx.sym}),
    "SYMBOLS_OF_NP": (lambda: mx.sym.var("x").as_np_ndarray(), {"F": mx.sym}),
}

#: (what, expression, what is written instead)
MEMBERS = [
    ("ARRAYS", "x.clamp(0, 1)", "Write nd.clip(x, a_min, a_max)."),
    ("ARRAYS", "x.cumsum(dim=0)", "Write nd.cumsum(x)."),
    ("ARRAYS", "x.numel()", "Write x.size."),
    ("ARRAYS", "x.eq(x)", "Write x == y."),
    ("ARRAYS", "x.mul_(2)", "Write x *= y."),
    ("ARRAYS", "x.clip_(0, 1)", "Write x[:] = x.clip(...)."),
    ("ARRAYS", "x.clamp_(0, 1)", "Write x[:] = nd.clip(x, a_min, a_max)."),
    ("ARRAYS", "x.fill_(1)", "Write x[:] = value."),
    ("ARRAYS", "x.squeeze(dim=0)", "Write axis instead; squeeze takes axis, inplace."),
    ("ARRAYS_OF_NP", "x.sum(dim=1)", "Write axis instead; sum takes axis, dtype, out, keepdims."),
    ("ARRAYS_OF_NP", "x.mean(axis=1, keepdim=True)", "Write keepdims instead; mean takes axis, dtype, out, keepdims."),
    ("ARRAYS_OF_NP", "x.data", "Write x.detach(), which has no gradient."),
    ("ARRAYS_OF_NP", "x.isnan()", "Write np.isnan(x)."),
    ("ARRAYS_OF_NP", "x.topk(2)", "Write npx.topk(x)."),
    ("ARRAYS_OF_NP", "x.pow(2)", "Write x ** y."),
    ("ARRAYS_OF_NP", "x.sigmoid_()", "Write x[:] = x.sigmoid(...)."),
    ("ARRAYS_OF_NP", "x.at[0].set(1)", "Write x[indices] = values."),
    ("SYMBOLS", "x.to('cuda')", "Write x.astype(dtype) for another type. Devices are not known while tracing"),
    ("SYMBOLS", "x.float()", "Write x.astype('float32')."),
    ("SYMBOLS", "x.clamp_(0, 1)", "Write x = F.clip(x, a_min, a_max)."),
    ("SYMBOLS", "x.tolist()", "Values are not known while tracing: keep them in the graph"),
    ("SYMBOLS", "x.masked_fill(x, 0)", "Write F.where(mask, values, x)."),
    ("SYMBOLS_OF_NP", "x.sum(dim=1)", "Write axis instead; sum takes axis, dtype, out, keepdims."),
    ("SYMBOLS_OF_NP", "x.isnan()", "Write F.np.isnan(x)."),
    ("SYMBOLS_OF_NP", "x.clamp(0, 1)", "Write F.np.clip(x, a_min, a_max)."),
]


@pytest.mark.parametrize(("what", "written", "advice"), MEMBERS, ids=lambda v: v[:30])
def test_members_of_arrays_and_symbols(what, written, advice):
    with pytest.raises((AttributeError, TypeError)) as caught:
        eval(written, {"x": OBJECTS[what][0]()})
    lines = str(caught.value).split("\n")
    assert len(lines) == 2 and lines[1].startswith(advice)


@pytest.mark.parametrize("what", OBJECTS)
def test_what_is_advised_of_members_exists(what):
    kind, (make, modules) = getattr(members, what), OBJECTS[what]
    x = make()
    for name, text in kind.table.items():
        assert not hasattr(x, name) or name in UNSUPPORTED, name
        advice = text.format(F=kind.functions)
        for found in re.findall(r"\bx\.(\w+)", advice):
            assert hasattr(x, found), (name, advice)
        for module, path in re.findall(r"(?<![\w.])(nd|npx?|F)\.((?:np\.|npx\.|random\.)?[a-zA-Z]\w*)", advice):
            assert member(modules[module], path), (name, advice)


@pytest.mark.parametrize("name", sorted({*gluon_hints.LAYERS, *gluon_hints.LOSSES}))
def test_names_of_the_tables_are_not_taken(name):
    for module in (nn, *([gluon.loss] if name in gluon_hints.LOSSES else [])):
        if name in gluon_hints.LOSSES and name in gluon.loss.__all__:
            continue
        with pytest.raises(AttributeError, match="Write "):
            getattr(module, name)


@pytest.mark.parametrize("name", sorted(gluon_hints.METHODS))
def test_methods_of_the_table_are_not_there(name):
    with pytest.raises(AttributeError, match="Write "):
        getattr(net(), name)
