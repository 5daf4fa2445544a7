# SPDX-License-Identifier: Apache-2.0
"""What to write instead of names of layers, losses and methods that other libraries' users have in their fingers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..provenance import advice

__all__ = ["LAYERS", "LOSSES", "METHODS", "attribute_error", "missing"]

LAYERS = {
    "Linear": "nn.Dense(units, in_units=..., flatten=False)",
    "Module": "gluon.HybridBlock, whose forward is hybrid_forward(self, F, x, ...)",
    "Parameter": "self.params.get(name, shape=...) in a block's __init__",
    "ModuleList": "nn.HybridSequential, or self.register_child(block) for each",
    "ModuleDict": "self.register_child(block, name) for each",
    "ReLU": "nn.Activation('relu')",
    "Sigmoid": "nn.Activation('sigmoid')",
    "Tanh": "nn.Activation('tanh')",
    "Softplus": "nn.Activation('softrelu')",
    "SiLU": "nn.Swish()",
    "Softmax": "F.softmax in a hybrid_forward, or nn.HybridLambda('softmax')",
    "LogSoftmax": "F.log_softmax in a hybrid_forward, or nn.HybridLambda('log_softmax')",
    "Identity": "nn.HybridLambda('identity')",
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
    "zero_grad": "nothing: gradients are overwritten, unless grad_req is 'add' (then net.collect_params().zero_grad())",
    "requires_grad_": "net.collect_params().setattr('grad_req', 'null'), or 'write'",
    "compile": "net.hybridize(static_alloc=True, static_shape=True)",
}


def missing(module: str, *tables: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module whose table of names says what to write instead."""

    def refuse(name: str) -> Any:
        for table in tables:
            if name in table:
                raise _error(f"module '{module}' has no attribute '{name}'", table[name])
        raise AttributeError(f"module '{module}' has no attribute '{name}'")

    return refuse


def attribute_error(block: Any, name: str) -> AttributeError:
    """The error for an attribute that a block does not have."""
    text = f"'{type(block).__name__}' object has no attribute '{name}'"
    # with names Python would add a guess at another one behind the advice
    return _error(text, METHODS[name]) if name in METHODS else AttributeError(text, name=name, obj=block)


def _error(text: str, instead: str) -> AttributeError:
    return AttributeError(f"{text}\n{advice(f'Write {instead}.')}")
