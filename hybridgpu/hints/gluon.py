# SPDX-License-Identifier: Apache-2.0
"""Errors for other libraries' names of layers, losses and methods: what Gluon calls them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ..core.source_location import located_hint

__all__ = [
    "ARGUMENTS",
    "LAYERS",
    "LOSSES",
    "METHODS",
    "OF_DATA",
    "OF_LOADERS",
    "OF_OPTIMIZERS",
    "TRAINER",
    "UTILITIES",
    "about_arguments",
    "attribute_error",
    "missing",
]

LAYERS = {
    "Linear": "nn.Dense(units, in_units=..., flatten=False)",
    "Module": "gluon.HybridBlock, whose forward is hybrid_forward(self, F, x, ...)",
    "Parameter": "gluon.Parameter(name, shape=...), or self.params.get(name, shape=...), in a block's __init__",
    "ModuleList": "nn.HybridSequential, or self.register_child(block) for each",
    "ModuleDict": "self.register_child(block, name) for each",
    "ReLU": "nn.Activation('relu')",
    "Sigmoid": "nn.Activation('sigmoid')",
    "Tanh": "nn.Activation('tanh')",
    "Softplus": "nn.Activation('softrelu')",
    "SiLU": "nn.Swish()",
    "Softmax": "F.softmax in a hybrid_forward, or nn.HybridLambda('softmax')",
    "LogSoftmax": "F.log_softmax in a hybrid_forward, or nn.HybridLambda('log_softmax')",
    "Identity": "nn.HybridLambda(lambda F, x: x)",
    "Concatenate": "gluon.contrib.nn.HybridConcurrent(axis=1), or F.concat in a hybrid_forward",
    "HybridConcurrent": "gluon.contrib.nn.HybridConcurrent(axis=1)",
    "HybridConcatenate": "gluon.contrib.nn.HybridConcurrent(axis=1)",
    "Conv1d": "nn.Conv1D(channels, kernel_size)",
    "Conv2d": "nn.Conv2D(channels, kernel_size)",
    "Conv3d": "nn.Conv3D(channels, kernel_size)",
    "ConvTranspose1d": "nn.Conv1DTranspose(channels, kernel_size)",
    "ConvTranspose2d": "nn.Conv2DTranspose(channels, kernel_size)",
    "ConvTranspose3d": "nn.Conv3DTranspose(channels, kernel_size)",
    "BatchNorm1d": "nn.BatchNorm()",
    "BatchNorm2d": "nn.BatchNorm()",
    "BatchNorm3d": "nn.BatchNorm()",
    "InstanceNorm1d": "nn.InstanceNorm()",
    "InstanceNorm2d": "nn.InstanceNorm()",
    "MaxPool1d": "nn.MaxPool1D(pool_size)",
    "MaxPool2d": "nn.MaxPool2D(pool_size)",
    "MaxPool3d": "nn.MaxPool3D(pool_size)",
    "AvgPool1d": "nn.AvgPool1D(pool_size)",
    "AvgPool2d": "nn.AvgPool2D(pool_size)",
    "AvgPool3d": "nn.AvgPool3D(pool_size)",
    "AdaptiveAvgPool2d": "nn.GlobalAvgPool2D() for one number a channel, or F.contrib.AdaptiveAvgPooling2D",
    "AdaptiveMaxPool2d": "nn.GlobalMaxPool2D()",
    "ReflectionPad2d": "nn.ReflectionPad2D(padding)",
    "MultiHeadAttention": "nn.Dense layers, F.batch_dot and F.softmax in a hybrid_forward",
    "SyncBatchNorm": "gluon.contrib.nn.SyncBatchNorm(in_channels)",
    "MultiheadAttention": "nn.Dense layers, F.batch_dot and F.softmax in a hybrid_forward",
    "TransformerEncoderLayer": "nn.LayerNorm, nn.Dense, F.batch_dot and F.softmax in a hybrid_forward",
    "functional": "npx.relu, npx.softmax and the like in forward, F.relu in a hybrid_forward",
    "Dropout2d": "nn.Dropout(rate, axes=(2, 3))",
    "LSTM": "gluon.rnn.LSTM(hidden_size)",
    "GRU": "gluon.rnn.GRU(hidden_size)",
    "RNN": "gluon.rnn.RNN(hidden_size)",
    "LSTMCell": "gluon.rnn.LSTMCell(hidden_size)",
    "GRUCell": "gluon.rnn.GRUCell(hidden_size)",
}

LOSSES = {
    "CrossEntropyLoss": "gluon.loss.SoftmaxCrossEntropyLoss()",
    "NLLLoss": "gluon.loss.SoftmaxCrossEntropyLoss(from_logits=True)",
    "MSELoss": "2 * gluon.loss.L2Loss(), which is half the square",
    "BCELoss": "gluon.loss.SigmoidBCELoss(from_sigmoid=True)",
    "BCEWithLogitsLoss": "gluon.loss.SigmoidBCELoss()",
    "SmoothL1Loss": "gluon.loss.HuberLoss()",
    "TripletMarginLoss": "gluon.loss.TripletLoss()",
    "CosineEmbeddingLoss": "gluon.loss.CosineEmbeddingLoss()",
}

METHODS = {
    "parameters": "net.collect_params(), which Trainer takes as it is",
    "named_parameters": "net.collect_params().items()",
    "state_dict": "net.save_parameters(file), or net.collect_params()",
    "load_state_dict": "net.load_parameters(file, ctx=...)",
    "modules": "net.apply(function), which visits all blocks",
    "named_children": "net._children.items()",
    "children": "net._children.values()",
    "add_module": "net.register_child(block, name)",
    "append": "add(block), of nn.HybridSequential",
    "extend": "add(*blocks), of nn.HybridSequential",
    "register_buffer": "self.params.get_constant(name, values), or self.params.get(name, grad_req='null')",
    "register_parameter": "self.params.get(name, shape=...)",
    "to": "net.collect_params().reset_ctx(ctx), or net.cast(dtype)",
    "cuda": "net.collect_params().reset_ctx(mx.gpu())",
    "cpu": "net.collect_params().reset_ctx(mx.cpu())",
    "half": "net.cast('float16')",
    "float": "net.cast('float32')",
    "double": "net.cast('float64')",
    "train": "with autograd.record(): around the call, or autograd.train_mode()",
    "eval": "nothing: outside autograd.record() blocks predict (autograd.predict_mode() inside it)",
    "training": "autograd.is_training()",
    "share_parameters": "params=other.params where the block is made",
    "reset_ctx": "net.collect_params().reset_ctx(ctx)",
    "setattr": "net.collect_params().setattr(name, value)",
    "zero_grad": "nothing: gradients are overwritten, unless grad_req is 'add' (then net.collect_params().zero_grad())",
    "requires_grad_": "net.collect_params().setattr('grad_req', 'null'), or 'write'",
    "backward": "loss.backward() of what a call gives under autograd.record(), such as loss = loss_fn(net(x), label)",
    "list_arguments": "net(mx.sym.var('data')), which gives the Symbol",
    "compile": "net.hybridize(static_alloc=True, static_shape=True)",
}

#: arguments of layers, cells and losses -> here, of which the first that the class takes is told
ARGUMENTS = {
    "bias": ("use_bias",),
    "in_features": ("in_units",),
    "out_features": ("units",),
    "in_dim": ("in_units",),
    "num_features": ("in_channels",),
    "normalized_shape": ("in_channels, or nothing, since sizes are inferred,",),
    "out_channels": ("channels",),
    "filters": ("channels",),
    "kernel_size": ("pool_size",),
    "stride": ("strides",),
    "eps": ("epsilon",),
    "affine": ("center and scale",),
    "elementwise_affine": ("center and scale",),
    "track_running_stats": ("use_global_stats",),
    "negative_slope": ("alpha",),
    "p": ("rate",),
    "num_embeddings": ("input_dim",),
    "embedding_dim": ("output_dim",),
    "batch_first": ("layout='NTC'",),
    "input_dim": ("input_size",),
    "sparse": ("sparse_label",),
    "reduction": ("weight or nothing, and mean() or sum() of the result, which has a number for each sample,",),
}


#: what is an attribute of optimizers elsewhere -> of a Trainer
TRAINER = {
    "share_parameters": "params=other.params where the block is made",
    "reset_ctx": "net.collect_params().reset_ctx(ctx)",
    "setattr": "net.collect_params().setattr(name, value)",
    "zero_grad": METHODS["zero_grad"],
    "param_groups": "trainer.set_learning_rate(rate), or trainer.optimizer",
    "state_dict": "trainer.save_states(file)",
    "load_state_dict": "trainer.load_states(file)",
    "lr": "trainer.learning_rate",
}

#: arguments of optimizers, which a Trainer takes as a dictionary
OF_OPTIMIZERS = {
    "lr": ("optimizer_params={'learning_rate': ...}",),
    "learning_rate": ("optimizer_params={'learning_rate': ...}",),
    "momentum": ("optimizer_params={'momentum': ...}",),
    "wd": ("optimizer_params={'wd': ...}",),
    "weight_decay": ("optimizer_params={'wd': ...}",),
    "betas": ("optimizer_params={'beta1': ..., 'beta2': ...}",),
}


OF_LOADERS = {"drop_last": ("last_batch='discard'",), "collate_fn": ("batchify_fn",)}

#: of Estimator, as it was in MXNet 1.6
OF_ESTIMATORS = {"metrics": ("train_metrics",), "val_metric": ("val_metrics",), "ctx": ("context",)}

OF_DATA = {
    "TensorDataset": "gluon.data.ArrayDataset(*arrays)",
    "Subset": "dataset.take(count), dataset.shard(parts, index), or gluon.data.SimpleDataset of the examples",
    "IterableDataset": "gluon.data.Dataset, with __getitem__ and __len__",
}

UTILITIES = {
    "clip_grad_norm_": "gluon.utils.clip_global_norm([p.grad() for p in net.collect_params().values()], max_norm)",
    "clip_grad_norm": "gluon.utils.clip_global_norm([p.grad() for p in net.collect_params().values()], max_norm)",
    "clip_grad_value_": "gluon.Trainer(..., {'clip_gradient': value})",
}


def missing(module: str, *tables: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module whose table of names says what to write instead."""

    def refuse(name: str) -> Any:
        text = f"module '{module}' has no attribute '{name}'"
        for table in tables:
            if name in table:
                raise AttributeError(f"{text}\n{located_hint(f'Write {table[name]}.')}")
        raise AttributeError(text)

    return refuse


def attribute_error(owner: Any, name: str, table: Mapping[str, str] = METHODS) -> AttributeError:
    """The error for an attribute that a block (or what ``table`` is about) does not have."""
    text = f"'{type(owner).__name__}' object has no attribute '{name}'"
    if name == "_children":
        first = (
            "Call super().__init__(**kwargs) first in __init__; a container takes its blocks by net.add(block, ...)."
        )
        return AttributeError(f"{text}\n{located_hint(first)}")
    # with names Python would add a guess at another one behind the advice
    if name in table:
        return AttributeError(f"{text}\n{located_hint(f'Write {table[name]}.')}")
    return AttributeError(text, name=name, obj=owner)


def about_arguments(error: TypeError, block: Any, num_inputs: int) -> None:
    """Where ``hybrid_forward`` could not be called with so many inputs: end the error with what it has to take."""
    function = type(block).hybrid_forward
    trace = error.__traceback__
    if trace is not None and trace.tb_next is not None and trace.tb_next.tb_frame.f_code is function.__code__:
        trace = (
            trace.tb_next if hasattr(function, "__wrapped__") else trace
        )  # ours is called through gluon/operators.py
    if trace is None or trace.tb_next is not None:  # it was called, and is wrong inside
        return
    if function.__module__.startswith(__name__.split(".")[0] + "."):
        names = list(inspect.signature(function).parameters)[2:]
        text = f"A {type(block).__name__} is called with ({', '.join(n for n in names if n not in block._reg_params)})."
    else:
        inputs = ["x"] if num_inputs == 1 else [f"x{k}" for k in range(num_inputs)]
        signature = ", ".join(("self", "F", *inputs, *block._reg_params))
        text = f"It gets F, the inputs, and the block's parameters by their names: def hybrid_forward({signature})."
        names = list(inspect.signature(function).parameters)
        if (
            names[1:2] == ["F"] and names[2:] and block._reg_params.keys() <= set(names)
        ):  # the call may be what is wrong
            own = ", ".join(n for n in names[2:] if n not in block._reg_params)
            text = (
                f"Call the block with ({own}), or let it take what it is called with: def hybrid_forward({signature})."
            )
    error.args = (f"{error}\n{located_hint(text)}",)
