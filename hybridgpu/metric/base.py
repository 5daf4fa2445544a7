# SPDX-License-Identifier: Apache-2.0
"""What metrics share: sums, names, registration; several metrics at once; functions as metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from .. import registry
from ..base import numeric_types
from ..hints.arguments import TellsArguments
from ..hints.undefined import undefined
from ..ndarray import NDArray
from ..ndarray.mode import legacy

__all__ = ["CompositeEvalMetric", "CustomMetric", "EvalMetric", "PerArray", "alias", "check_label_shapes", "create", "np", "plain", "register"]  # fmt: skip


def check_label_shapes(labels: Any, preds: Any, wrap: bool = False, shape: bool = False) -> tuple[Any, Any]:
    """Labels and predictions, as lists of arrays of nd if ``wrap``.

    Raises:
        ValueError: their numbers (with ``shape`` their shapes) differ.
    """
    ours, theirs = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if ours != theirs:
        raise ValueError(f"Shape of labels {ours} does not match shape of predictions {theirs}")
    if wrap:
        labels = [labels] if isinstance(labels, NDArray) else labels
        preds = [preds] if isinstance(preds, NDArray) else preds
        labels, preds = list(map(legacy, labels)), list(map(legacy, preds))
    return labels, preds


def plain(value: Any) -> Any:
    """A Python number instead of a NumPy scalar, which NumPy 2 prints with its type. Others stay as they are."""
    return value.item() if isinstance(value, numpy.generic) else value


class EvalMetric(TellsArguments):
    """Base class; subclasses define ``update``.

    Args:
        name: what is printed.
        output_names, label_names: which entries ``update_dict`` takes, None for all.
    """

    num_inst: Any
    sum_metric: Any
    global_num_inst: Any
    global_sum_metric: Any

    def __init__(
        self, name: str, output_names: list[str] | None = None, label_names: list[str] | None = None, **kwargs: Any
    ) -> None:
        self.name = str(name)
        self.output_names, self.label_names = output_names, label_names
        self._has_global_stats = kwargs.pop("has_global_stats", False)
        self._kwargs = kwargs
        self.reset()

    def __str__(self) -> str:
        return f"EvalMetric: {dict(self.get_name_value())}"

    def get_config(self) -> dict[str, Any]:
        """What ``create`` makes an equal metric from."""
        return {
            **self._kwargs,
            "metric": type(self).__name__,
            "name": self.name,
            "output_names": self.output_names,
            "label_names": self.label_names,
        }

    def update_dict(self, label: dict[str, NDArray], pred: dict[str, NDArray]) -> None:
        """``update`` with arrays by name."""
        preds = list(pred.values()) if self.output_names is None else [pred[n] for n in self.output_names]
        labels = list(label.values()) if self.label_names is None else [label[n] for n in self.label_names]
        self.update(labels, preds)

    def update(self, labels: Any, preds: Any) -> None:
        """Count a batch: lists of labels and of predictions."""
        raise undefined(self, "update(self, labels, preds)")

    def _hg_add(self, total: Any, count: Any) -> None:
        self.sum_metric += total
        self.global_sum_metric += total
        self.num_inst += count
        self.global_num_inst += count

    def reset(self) -> None:
        """Forget everything."""
        self.num_inst = self.global_num_inst = 0
        self.sum_metric = self.global_sum_metric = 0.0

    def reset_local(self) -> None:
        """Forget what ``get`` shows, keep what ``get_global`` shows."""
        self.num_inst, self.sum_metric = 0, 0.0

    def _hg_value(self, total: Any, count: Any) -> Any:
        return plain(total / count)

    def get(self) -> tuple[Any, Any]:
        """(name, value); not-a-number before any batch."""
        if self.num_inst == 0:
            return self.name, float("nan")
        return self.name, self._hg_value(self.sum_metric, self.num_inst)

    def get_global(self) -> tuple[Any, Any]:
        """(name, value) since ``reset``."""
        if not self._has_global_stats:
            return self.get()
        if self.global_num_inst == 0:
            return self.name, float("nan")
        return self.name, self._hg_value(self.global_sum_metric, self.global_num_inst)

    def get_name_value(self) -> list[tuple[str, Any]]:
        """``get`` as a list of pairs."""
        return _zip(*self.get())

    def get_global_name_value(self) -> list[tuple[str, Any]]:
        """``get_global`` as a list of pairs."""
        return _zip(*self.get_global()) if self._has_global_stats else self.get_name_value()


def _zip(names: Any, values: Any) -> list[tuple[str, Any]]:
    names = names if isinstance(names, list) else [names]
    values = values if isinstance(values, list) else [values]
    return list(zip(names, values, strict=False))


register = registry.get_register_func(EvalMetric, "metric")
alias = registry.get_alias_func(EvalMetric, "metric")
_create = registry.get_create_func(EvalMetric, "metric")


def create(metric: Any, *args: Any, **kwargs: Any) -> Any:
    """A metric from a name, a function (label, pred) -> number, a configuration, or a list of these.

    Raises:
        AssertionError: an unknown name.
    """
    if callable(metric):
        return CustomMetric(metric, *args, **kwargs)
    if isinstance(metric, list):
        composite = CompositeEvalMetric()
        for child in metric:
            composite.add(create(child, *args, **kwargs))
        return composite
    return _create(metric, *args, **kwargs)


@register
@alias("composite")
class CompositeEvalMetric(EvalMetric):
    """Several metrics at once; ``get`` gives lists."""

    def __init__(
        self,
        metrics: list[Any] | None = None,
        name: str = "composite",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        self.metrics: list[Any] = []
        super().__init__(name, output_names, label_names, has_global_stats=True)
        self.metrics = [create(m) for m in metrics or []]

    def add(self, metric: Any) -> None:
        """Add a metric."""
        self.metrics.append(create(metric))

    def get_metric(self, index: int) -> Any:
        """The metric at a position; a ValueError (returned, as in MXNet, not raised) out of range."""
        try:
            return self.metrics[index]
        except IndexError:
            return ValueError(f"Metric index {index} is out of range 0 and {len(self.metrics)}")

    def update_dict(self, labels: dict[str, NDArray], preds: dict[str, NDArray]) -> None:
        """Each metric's ``update_dict``."""
        if self.label_names is not None:
            labels = {k: v for k, v in labels.items() if k in self.label_names}
        if self.output_names is not None:
            preds = {k: v for k, v in preds.items() if k in self.output_names}
        for m in self.metrics:
            m.update_dict(labels, preds)

    def update(self, labels: Any, preds: Any) -> None:
        for m in self.metrics:
            m.update(labels, preds)

    def reset(self) -> None:
        for m in self.metrics:
            m.reset()

    def reset_local(self) -> None:
        for m in self.metrics:
            m.reset_local()

    def get(self) -> tuple[Any, Any]:
        return self._hg_gather([m.get() for m in self.metrics])

    def get_global(self) -> tuple[Any, Any]:
        return self._hg_gather([m.get_global() for m in self.metrics])

    @staticmethod
    def _hg_gather(results: Sequence[tuple[Any, Any]]) -> tuple[list[str], list[Any]]:
        names: list[str] = []
        values: list[Any] = []
        for name, value in results:
            names += [name] if isinstance(name, str) else name
            values += [value] if isinstance(value, numeric_types) else value
        return names, values

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "metrics": [m.get_config() for m in self.metrics]}


class PerArray(EvalMetric):
    """Metrics that look at one label array and one prediction array at a time."""

    def __init__(self, name: str, output_names: Any, label_names: Any, **kwargs: Any) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True, **kwargs)

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds, strict=True):
            self._hg_add(*self._hg_count(label, pred))

    def _hg_count(self, label: NDArray, pred: NDArray) -> tuple[Any, Any]:
        """(sum, number of instances) of one array."""
        raise NotImplementedError


@register
class CustomMetric(EvalMetric):
    """A function of NumPy arrays (label, pred) that gives a value, or (sum, number of instances).

    Args:
        feval: the function.
        name: by default the function's.
        allow_extra_outputs: there may be more predictions than labels.
    """

    def __init__(
        self,
        feval: Callable[[Any, Any], Any],
        name: str | None = None,
        allow_extra_outputs: bool = False,
        output_names: Any = None,
        label_names: Any = None,
    ) -> None:
        if name is None:
            name = feval.__name__
            if "<" in name:
                name = f"custom({name})"
        super().__init__(
            name,
            output_names,
            label_names,
            feval=feval,
            allow_extra_outputs=allow_extra_outputs,
            has_global_stats=True,
        )
        self._feval, self._allow_extra_outputs = feval, allow_extra_outputs

    def update(self, labels: Any, preds: Any) -> None:
        if not self._allow_extra_outputs:
            labels, preds = check_label_shapes(labels, preds, True)
        for pred, label in zip(preds, labels, strict=False):
            value = self._feval(label.asnumpy(), pred.asnumpy())
            self._hg_add(*(value if isinstance(value, tuple) else (value, 1)))

    def get_config(self) -> dict[str, Any]:
        """Not there: a function has no text.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("CustomMetric cannot be serialized")


def np(
    numpy_feval: Callable[[Any, Any], Any], name: str | None = None, allow_extra_outputs: bool = False
) -> CustomMetric:
    """A ``CustomMetric`` of a function of NumPy arrays."""

    def feval(label: Any, pred: Any) -> Any:
        return numpy_feval(label, pred)

    feval.__name__ = numpy_feval.__name__
    return CustomMetric(feval, name, allow_extra_outputs)
