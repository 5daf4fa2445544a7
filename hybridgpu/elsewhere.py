# SPDX-License-Identifier: Apache-2.0
"""What modules have in other libraries and not here -> what to write. Read by errors alone."""

from __future__ import annotations

from collections.abc import Mapping

from .provenance import advice

__all__ = ["AUTOGRAD", "CONTRIB", "ITERATORS", "OPERATORS", "OPTIMIZERS", "ROOT", "SCHEDULERS", "no_attribute"]


def no_attribute(module: str, name: str, *tables: Mapping[str, str]) -> AttributeError:
    """The error for a name that a module does not have; where a table knows it, with what to write instead."""
    text = f"module '{module}' has no attribute '{name}'"
    for table in tables:
        if name in table:
            return AttributeError(f"{text}\n{advice(f'Write {table[name]}.')}")
    return AttributeError(text)


_PAUSE = "autograd.pause(), though nothing is recorded outside autograd.record()"
_MIXED = (
    "net.cast('float16') or net.cast('bfloat16') and x.astype(...) for its data, and multi_precision=True for the "
    "optimizer; with float16 multiply the loss by a number, and the batch size of trainer.step by the same"
)

_ONNX = "net.export(path), whose files MXNet 1.9.1 reads and its mx.contrib.onnx converts"

#: of the package itself
ROOT = {
    "no_grad": _PAUSE,
    "manual_seed": "mx.random.seed(seed)",
    "cuda": "mx.num_gpus() to see whether there are any, and mx.gpu(i) for one",
    "device": "mx.cpu() or mx.gpu(i)",
    "tensor": "mx.nd.array(values)",
    "save": "mx.nd.save(file, arrays)",
    "load": "mx.nd.load(file)",
    "nn": "mx.gluon.nn",
    "optim": "mx.gluon.Trainer(net.collect_params(), name, parameters)",
    "compile": "net.hybridize(static_alloc=True, static_shape=True)",
    "amp": _MIXED,
    "rtc": "operators of F in a hybridized block, which become kernels, or a mx.operator.CustomOp",
    "log": "logging.getLogger(name), of Python's logging",
    "error": "except mx.MXNetError, without kinds of it",
    "executor_manager": "mx.mod.Module(symbol, data_names, label_names, context=contexts)",
    "library": "mx.operator.CustomOp for an operator of your own: compiled libraries of MXNet's cannot be loaded",
    "libinfo": "mx.__version__, and mx.runtime.Features() for what is there",
    "misc": "mx.lr_scheduler",
    "notebook": "a callback of your own, called with param.epoch, param.nbatch and param.eval_metric",
    "onnx": _ONNX,
    "torch": "mx.operator.CustomOp, whose forward may call another library",
}

#: modules of MXNet's contrib that are not here
CONTRIB = {
    "amp": _MIXED,
    "onnx": _ONNX,
    "quantization": "net.cast('float16') for smaller weights: nothing here computes a net in int8",
    "svrg_optimization": "mx.mod.Module with an optimizer of mx.optimizer: gradients of reduced variance are not here",
}

_RECORDS = "mx.io.ImageRecordIter(path_imgrec, data_shape, batch_size{0})"

#: of ``mx.io``
ITERATORS = {
    "ImageDetRecordIter": "mx.image.ImageDetIter(batch_size, data_shape, path_imgrec), whose labels are (N, objects, width)",
    "ImageRecordInt8Iter": _RECORDS.format(", dtype='int8'"),
    "ImageRecordIter_v1": _RECORDS.format(""),
    "ImageRecordUInt8Iter": _RECORDS.format(", dtype='uint8'"),
    "ImageRecordUInt8Iter_v1": _RECORDS.format(", dtype='uint8'"),
    "LibSVMIter": "mx.io.NDArrayIter(data, label, batch_size) with a dense array of the file's rows: all arrays are dense",
}

AUTOGRAD = {
    "no_grad": _PAUSE,
    "inference_mode": _PAUSE,
    "enable_grad": "autograd.record()",
    "set_grad_enabled": "autograd.set_recording(flag)",
    "GradientTape": "autograd.record()",
}

#: names of optimizers
OPTIMIZERS = {
    "adamw": "'adam', whose decay is part of the gradient; one apart from it is nd.contrib.adamw_update in an Optimizer of yours",
}

_COSINE = "mx.lr_scheduler.CosineScheduler(max_update, base_lr, final_lr)"

#: of learning rates, which here are functions of the number of updates, not of epochs
SCHEDULERS = {
    "StepLR": "mx.lr_scheduler.FactorScheduler(step, factor); step counts updates, not epochs",
    "MultiStepLR": "mx.lr_scheduler.MultiFactorScheduler(steps, factor); steps count updates, not epochs",
    "CosineAnnealingLR": f"{_COSINE}; max_update counts updates, not epochs",
    "PolynomialLR": "mx.lr_scheduler.PolyScheduler(max_update, base_lr, pwr); max_update counts updates, not epochs",
    "LinearLR": "warmup_steps=n, warmup_begin_lr=rate among the arguments of any scheduler",
    "ReduceLROnPlateau": "trainer.set_learning_rate(rate) where an epoch was no better",
}

#: beside operators; the name of their module comes in
OPERATORS = {
    "matmul": "{0}.dot(a, b), or {0}.batch_dot(a, b) of two batches",
    "mm": "{0}.dot(a, b)",
    "mv": "{0}.dot(a, b)",
    "bmm": "{0}.batch_dot(a, b)",
    "addmm": "{0}.dot(a, b) + c",
    "einsum": "{0}.dot, {0}.batch_dot and {0}.transpose",
    "cat": "{0}.concat(a, b, dim=0)",
    "hstack": "{0}.concat(a, b, dim=1)",
    "vstack": "{0}.concat(a, b, dim=0)",
    "tensor": "mx.nd.array(values)",
    "sparse": "{0} without it: all arrays are dense",
    "from_numpy": "mx.nd.array(values)",
    "unsqueeze": "{0}.expand_dims(x, axis)",
    "permute": "{0}.transpose(x, axes)",
    "view": "{0}.reshape(x, shape)",
    "unbind": "{0}.split(x, num_outputs, axis, squeeze_axis=True)",
    "masked_fill": "{0}.where(mask, values, x)",
    "masked_softmax": "{0}.softmax({0}.broadcast_add(x, (mask - 1) * 1e4)), or {0}.softmax(x, length=lengths, use_length=True)",
    "chunk": "{0}.split(x, num_outputs, axis)",
    "linear": "{0}.FullyConnected(x, weight, bias, num_hidden=units, flatten=False)",
    "layer_norm": "{0}.LayerNorm(x, gamma, beta)",
    "cross_entropy": "gluon.loss.SoftmaxCrossEntropyLoss()",
    "clamp": "{0}.clip(x, a_min, a_max)",
    "pow": "{0}.power(a, b), or a ** b",
    "rand": "mx.nd.random.uniform(shape=...)",
    "randn": "mx.nd.random.normal(shape=...)",
    "randint": "mx.nd.random.randint(low, high, shape=...)",
    "std": "{0}.sqrt({0}.moments(x, axes)[1])",
    "var": "{0}.moments(x, axes)[1]",
    "cumprod": "{0}.exp({0}.cumsum({0}.log(x))) where x > 0",
    "gelu": "{0}.LeakyReLU(x, act_type='gelu')",
    "leaky_relu": "{0}.LeakyReLU(x, slope=0.01)",
    "elu": "{0}.LeakyReLU(x, act_type='elu')",
    "tril": "x * {0}.broadcast_greater_equal(rows, columns), {0}.arange(n) as a column and as a row",
    "triu": "x * {0}.broadcast_lesser_equal(rows, columns), {0}.arange(n) as a column and as a row",
    "no_grad": _PAUSE,
}
