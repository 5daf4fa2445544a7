# SPDX-License-Identifier: Apache-2.0
"""Modules without parameters, written in Python."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..initializer import Uniform
from ..io.iterators import DataDesc
from ..ndarray import NDArray
from ..ndarray import array as make_array
from .base_module import SGD_RATE, BaseModule

__all__ = ["PythonLossModule", "PythonModule"]


class PythonModule(BaseModule):
    """Base of modules without parameters; a subclass defines ``forward``, ``backward``, ``get_outputs``,
    ``get_input_grads`` and ``_compute_output_shapes``."""

    def __init__(
        self,
        data_names: Sequence[str],
        label_names: Sequence[str] | None,
        output_names: Sequence[str],
        logger: Any = logging,
    ) -> None:
        super().__init__(logger=logger)
        self._data_names, self._output_names = list(data_names), list(output_names)
        self._label_names = list(label_names) if label_names is not None else None
        self._data_shapes: Any = None
        self._label_shapes: Any = None
        self._output_shapes: Any = None

    @property
    def data_names(self) -> list[str]:
        """Names of the data."""
        return self._data_names

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return self._output_names

    @property
    def data_shapes(self) -> Any:
        """Descriptions of the data."""
        return self._data_shapes

    @property
    def label_shapes(self) -> Any:
        """Descriptions of the labels, None without labels."""
        return self._label_shapes

    @property
    def output_shapes(self) -> Any:
        """Pairs (name, shape) of the outputs."""
        return self._output_shapes

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """No parameters."""
        return {}, {}

    def init_params(
        self,
        initializer: Any = Uniform(0.01),
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Nothing to initialise."""
        self.params_initialized = True

    def update(self) -> None:
        """Nothing to update."""

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Give labels and the last outputs to a metric; nothing without label names.

        Raises:
            RuntimeError: labels that are cut for devices.
        """
        if self._label_shapes is None:
            return
        if pre_sliced:
            raise RuntimeError("PythonModule does not support presliced labels")
        eval_metric.update(labels, self.get_outputs())

    def bind(
        self,
        data_shapes: Any,
        label_shapes: Any = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Any = None,
        grad_req: Any = "write",
    ) -> None:
        """Take batches of these shapes."""
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        assert grad_req == "write", "Python module only support write gradient"
        data = [x if isinstance(x, DataDesc) else DataDesc(*x) for x in data_shapes]
        assert [x.name for x in data] == self._data_names, f"data must be named {self._data_names}"
        self._data_shapes, self._label_shapes = data, label_shapes
        if label_shapes is not None:
            labels = [x if isinstance(x, DataDesc) else DataDesc(*x) for x in label_shapes]
            assert self._label_names == [x.name for x in labels], f"labels must be named {self._label_names}"
            self._label_shapes = labels
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._output_shapes = self._compute_output_shapes()
        self.binded = True

    def _compute_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Pairs (name, shape) from the shapes of the data."""
        raise NotImplementedError

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = SGD_RATE,
        force_init: bool = False,
    ) -> None:
        """Nothing to optimize."""
        self.optimizer_initialized = True


class PythonLossModule(PythonModule):
    """A loss whose gradient is a Python function; its output is its data.

    Args:
        name: of the output, with '_output' behind.
        grad_func: (data, labels) -> gradient of the data, an array.
    """

    def __init__(
        self,
        name: str = "pyloss",
        data_names: Sequence[str] = ("data",),
        label_names: Sequence[str] = ("softmax_label",),
        logger: Any = logging,
        grad_func: Callable[[NDArray, NDArray], Any] | None = None,
    ) -> None:
        super().__init__(data_names, label_names, [f"{name}_output"], logger=logger)
        assert len(data_names) == 1 and len(label_names) == 1, "a loss has one input and one label"
        if grad_func is not None:
            assert callable(grad_func), "grad_func must be a function"
        self._name, self._grad_func = name, grad_func
        self._scores: Any = None
        self._labels: Any = None
        self._scores_grad: Any = None

    def _compute_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        return [(f"{self._name}_output", self._data_shapes[0].shape)]

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Keep the data and, for training, the labels."""
        self._scores = data_batch.data[0]
        if self.for_training if is_train is None else is_train:
            self._labels = data_batch.label[0]

    def get_outputs(self, merge_multi_context: bool = True) -> list[NDArray]:
        """The data."""
        assert merge_multi_context
        return [self._scores]

    def backward(self, out_grads: Any = None) -> None:
        """Ask ``grad_func``.

        Raises:
            AssertionError: gradients of the output, which a loss has none of.
        """
        assert out_grads is None, "For a loss module, out_grads should be None"
        assert self.for_training, "re-bind with for_training=True to run backward"
        self._backward_impl()

    def _backward_impl(self) -> None:
        if self._grad_func is None:
            raise NotImplementedError("pass grad_func, or define _backward_impl in a subclass")
        grad = self._grad_func(self._scores, self._labels)
        self._scores_grad = grad if isinstance(grad, NDArray) else make_array(grad)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[NDArray]:
        """The gradient of the data."""
        assert merge_multi_context
        return [self._scores_grad]

    def install_monitor(self, mon: Any) -> None:
        """Not there: nothing is computed in an executor."""
        raise NotImplementedError
