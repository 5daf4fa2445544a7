# SPDX-License-Identifier: Apache-2.0
"""Executor group: a Symbol bound once a device, each with its slice of the batch."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from ..context import Context, cpu
from ..executor import Executor
from ..hints.absent_member import AbsentMember
from ..io.iterators import DataDesc
from ..ndarray import NDArray, concat
from ..symbol import Symbol

__all__ = ["DataParallelExecutorGroup", "split"]

_KEPT = 16  #: sets of executors for other shapes that a group keeps


def split(batch_size: int, workload: Sequence[float]) -> list[slice]:
    """Slices of a batch in proportion to ``workload``.

    Raises:
        ValueError: there are fewer samples than slices.
    """
    total = sum(workload)
    counts = [round(w * batch_size / total) for w in workload]
    counts[-1] += max(0, batch_size - sum(counts))
    slices, end = [], 0
    for count in counts:
        begin, end = min(end, batch_size), min(end + count, batch_size)
        if begin >= end:
            raise ValueError("Too many slices. Some splits are empty.")
        slices.append(slice(begin, end))
    return slices


def _cut(array: NDArray, axis: int, part: slice) -> NDArray:
    if axis < 0 or (part.start == 0 and part.stop == array.shape[axis]):
        return array
    return array[(slice(None),) * axis + (part,)]


def _merge(parts: Sequence[NDArray | None], axis: int) -> NDArray | None:
    """The devices' arrays along the batch axis; without one they are all the same. None of what has no gradient."""
    arrays = [x for x in parts if x is not None]
    if len(parts) == 1 or axis < 0 or not arrays:
        return parts[0]
    joined: NDArray = concat(*[x.as_in_context(arrays[0].context) for x in arrays], dim=axis)
    return joined


class DataParallelExecutorGroup:
    """Executors of one Symbol on several devices.

    Args:
        workload: how much each device does, in proportion.
        data_shapes, label_shapes: ``DataDesc`` of whole batches.
        param_names: arguments that are parameters.
        shared_group: another group whose arrays are used: parameters by name, memory of inputs where it fits.
        fixed_param_names: parameters without gradients.
        grad_req: 'write', 'add' or 'null', one for all arguments, a list or a dict.
        state_names: arguments that are states.
        group2ctxs: devices of groups, see ``Module``.

    Raises:
        AssertionError: inputs with different batch sizes.
        ValueError: fewer samples than devices.
        RuntimeError: shapes that do not fit.
    """

    bind_exec = AbsentMember("module.executor_group.DataParallelExecutorGroup")
    decide_slices = AbsentMember("module.executor_group.DataParallelExecutorGroup")

    def __init__(
        self,
        symbol: Symbol,
        contexts: Sequence[Context],
        workload: Sequence[float],
        data_shapes: Sequence[DataDesc],
        label_shapes: Sequence[DataDesc] | None,
        param_names: Sequence[str],
        for_training: bool,
        inputs_need_grad: bool,
        shared_group: DataParallelExecutorGroup | None = None,
        logger: Any = logging,
        fixed_param_names: Sequence[str] | None = None,
        grad_req: Any = "write",
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
    ) -> None:
        self.symbol, self.contexts, self.workload = symbol, list(contexts), list(workload)
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self.logger = logger
        self.group2ctxs = _groups_of(group2ctxs, len(self.contexts))
        self.arg_names, self.aux_names = symbol.list_arguments(), symbol.list_auxiliary_states()
        self.output_names = symbol.list_outputs()
        self.param_names = list(param_names)
        self.fixed_param_names, self.state_names = list(fixed_param_names or ()), list(state_names or ())
        self._describe(_pairs(data_shapes), _pairs(label_shapes) if label_shapes else None)
        self.grad_req = self._requests(grad_req)
        heads = [symbol[k].attr("__layout__") for k in range(len(self.output_names))]
        self.output_layouts = [DataDesc.get_batch_axis(h) for h in heads]
        shared = shared_group.shared_data_arrays if shared_group is not None else [{} for _ in self.contexts]
        #: memory of inputs by name, for each device
        self.shared_data_arrays: list[dict[str, NDArray]] = shared
        self.execs = [self._bind(k, shared_group) for k in range(len(self.contexts))]
        self._first_execs = self.execs
        self._by_shapes = {self._key(): self.execs}
        self._collect()

    def _requests(self, grad_req: Any) -> dict[str, str]:
        """What is to be done with the gradient of each argument."""
        data = [x.name for x in self.data_shapes]
        chosen: Mapping[str, str] = {}
        if isinstance(grad_req, str):
            kind = grad_req
        elif isinstance(grad_req, (list, tuple)):
            kind, chosen = "write", dict(zip(self.arg_names, grad_req, strict=True))
        elif isinstance(grad_req, dict):
            kind, chosen = "write", grad_req
        else:
            raise ValueError("grad_req must be one of str, list, tuple, or dict.")
        requests = {}
        for name in self.arg_names:
            if name in self.param_names:
                requests[name] = "null" if name in self.fixed_param_names else kind
            else:
                requests[name] = kind if name in data and self.inputs_need_grad else "null"
        requests.update({k: v for k, v in chosen.items() if k in requests})
        return requests if self.for_training else dict.fromkeys(requests, "null")

    # -- shapes

    def _describe(self, data_shapes: list[DataDesc], label_shapes: list[DataDesc] | None) -> None:
        axes, batch_size = [], None
        for x in [*data_shapes, *(label_shapes or ())]:
            axis = DataDesc.get_batch_axis(x.layout)
            axes.append(axis)
            if axis < 0:
                continue
            size = x.shape[axis]
            assert batch_size in (None, size), (
                f"all data must have the same batch size: batch_size = {batch_size}, but {x.name} has shape {x.shape}"
            )
            batch_size = size
        self.data_shapes, self.label_shapes = data_shapes, label_shapes
        self.data_layouts, self.label_layouts = axes[: len(data_shapes)], axes[len(data_shapes) :]
        whole = slice(0, batch_size)
        self.batch_size = batch_size
        self.slices = split(batch_size, self.workload) if batch_size is not None else [whole] * len(self.contexts)
        self.data_names = [x.name for x in data_shapes]
        self.label_names = [x.name for x in label_shapes] if label_shapes is not None else None

    def _inputs(self) -> list[tuple[DataDesc, int]]:
        """Data and labels with their batch axes."""
        return list(
            zip([*self.data_shapes, *(self.label_shapes or ())], [*self.data_layouts, *self.label_layouts], strict=True)
        )

    def _sliced(self, k: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs of device ``k``."""
        shapes = {}
        for x, axis in self._inputs():
            shape = list(x.shape)
            if axis >= 0:
                shape[axis] = self.slices[k].stop - self.slices[k].start
            shapes[x.name] = tuple(shape)
        return shapes

    def _key(self) -> Any:
        return tuple(tuple(sorted(self._sliced(k).items())) for k in range(len(self.contexts)))

    def _bind(self, k: int, shared_group: DataParallelExecutorGroup | None) -> Executor:
        executor = self.symbol.simple_bind(
            self.contexts[k],
            grad_req=self.grad_req,
            type_dict={x.name: x.dtype for x, _ in self._inputs()},
            shared_arg_names=self.param_names,
            shared_exec=shared_group._first_execs[k] if shared_group is not None else None,
            shared_buffer=self.shared_data_arrays[k],
            group2ctx=self.group2ctxs[k],
            **self._sliced(k),
        )
        assert isinstance(executor, Executor)
        return executor

    def reshape(self, data_shapes: Any, label_shapes: Any) -> None:
        """Take batches of other shapes; parameters stay.

        Raises:
            AssertionError: a parameter's shape would change.
        """
        data, labels = _pairs(data_shapes), _pairs(label_shapes) if label_shapes else None
        if data == self.data_shapes and labels == self.label_shapes:
            return
        self._describe(data, labels)
        key = self._key()
        if key not in self._by_shapes:
            # executors that come again must not be compiled again
            while len(self._by_shapes) >= _KEPT:
                del self._by_shapes[next(k for k, v in self._by_shapes.items() if v is not self._first_execs)]
            self._by_shapes[key] = [
                e.reshape(False, True, **dict[str, Any](self._sliced(k))) for k, e in enumerate(self._first_execs)
            ]
            for monitor in getattr(self, "_monitors", ()):
                for e in self._by_shapes[key]:
                    monitor.install(e)
        self.execs = self._by_shapes[key]
        self._collect()

    # -- arrays: outer lists by name, inner ones by device

    def _collect(self) -> None:
        arguments = [e.arg_dict for e in self.execs]
        gradients = [e.grad_dict for e in self.execs]
        states = [e.aux_dict for e in self.execs]
        names = [n for n in self.param_names if n in self.arg_names]
        self.data_arrays = [[a[n] for a in arguments] for n in self.data_names]
        self.label_arrays = (
            [[a[n] for a in arguments] for n in self.label_names] if self.label_names is not None else None
        )
        self.state_arrays = [[a[n] for a in arguments] for n in self.state_names]
        self.param_arrays = [[a[n] for a in arguments] for n in names]
        self.grad_arrays = [[g[n] for g in gradients] for n in names]
        self.aux_arrays = [[s[n] for s in states] for n in self.aux_names]
        self.input_grad_arrays = [[g[n] for g in gradients] for n in self.data_names] if self.inputs_need_grad else []

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays the executors hold, memory of inputs included."""
        sizes: dict[int, int] = {}
        for shared, e in zip(self.shared_data_arrays, self.execs, strict=True):
            gradients = [g for g in e.grad_dict.values() if g is not None]
            for x in [*shared.values(), *e.arg_arrays, *gradients, *e.aux_arrays]:
                base = x._data
                while getattr(base, "base", None) is not None and hasattr(base.base, "nbytes"):
                    base = base.base
                sizes[id(base)] = base.nbytes
        return sum(sizes.values())

    def set_params(
        self, arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray], allow_extra: bool = False
    ) -> None:
        """Copy parameters to all devices.

        Raises:
            ValueError: an unknown name, unless ``allow_extra``.
        """
        for e in self.execs:
            e.copy_params_from(arg_params, aux_params, allow_extra_params=allow_extra)

    def get_params(self, arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray]) -> None:
        """Write the average over the devices of each parameter and auxiliary state into the given arrays."""
        for names, blocks, targets in (
            (self.param_names, self.param_arrays, arg_params),
            (self.aux_names, self.aux_arrays, aux_params),
        ):
            for name, block in zip(names, blocks, strict=True):
                mean = block[0].as_in_context(cpu())
                if len(block) > 1:
                    for x in block[1:]:
                        mean = mean + x.as_in_context(cpu())
                    mean = mean / len(block)
                mean.astype(targets[name].dtype).copyto(targets[name])

    # -- running

    def _load(self, arrays: Sequence[Any], targets: Sequence[Sequence[NDArray]], axes: Sequence[int]) -> None:
        assert len(arrays) == len(targets), f"the batch has {len(arrays)} arrays where {len(targets)} are expected"
        for array, target, axis in zip(arrays, targets, axes, strict=True):
            for k, (t, part) in enumerate(zip(target, self.slices, strict=True)):
                x = array[k] if isinstance(array, (list, tuple)) else _cut(array, axis, part)
                if x.dtype != t.dtype:
                    x = x.astype(t.dtype)
                x.copyto(t)

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Run a batch on all devices.

        Args:
            data_batch: has ``data`` and ``label``, or is a list of such, one for each device.
            is_train: by default what the group was bound for.
        """
        is_train = self.for_training if is_train is None else is_train
        several = isinstance(data_batch, list)
        data = list(zip(*[b.data for b in data_batch], strict=True)) if several else data_batch.data
        self._load(data, self.data_arrays, self.data_layouts)
        if self.label_arrays is not None:
            labels: Any = getattr(data_batch, "label", None)
            if several:
                every = [getattr(b, "label", None) for b in data_batch]
                labels = list(zip(*(e for e in every if e), strict=True)) if all(every) else None
            if labels:
                self._load(labels, self.label_arrays, self.label_layouts)
        for e in self.execs:
            e.forward(is_train=is_train)

    def backward(self, out_grads: Any = None) -> None:
        """Gradients of the last batch.

        Args:
            out_grads: gradients of the outputs for the whole batch; only losses go without.

        Raises:
            AssertionError: not bound for training.
        """
        assert self.for_training, "re-bind with for_training=True to run backward"
        gradients = [out_grads] if isinstance(out_grads, NDArray) else out_grads
        for e, part in zip(self.execs, self.slices, strict=True):
            if not gradients:
                e.backward(is_train=True)
                continue
            e.backward(
                [
                    _cut(g, axis, part).as_in_context(e._ctx)
                    for g, axis in zip(gradients, self.output_layouts, strict=True)
                ],
                is_train=True,
            )

    def get_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the outputs for the whole batch."""
        shapes = []
        for k, (name, axis) in enumerate(zip(self.output_names, self.output_layouts, strict=True)):
            shape = list(self.execs[0].outputs[k].shape)
            if axis >= 0 and shape:
                shape[axis] = sum(e.outputs[k].shape[axis] for e in self.execs)
            shapes.append((name, tuple(shape)))
        return shapes

    def get_outputs(self, merge_multi_context: bool = True, begin: int = 0, end: int | None = None) -> list[Any]:
        """Outputs of the last batch; a list over devices each unless merged."""
        parts = [[e.outputs[k] for e in self.execs] for k in range(len(self.output_names))][begin:end]
        if not merge_multi_context:
            return parts
        return [_merge(p, axis) for p, axis in zip(parts, self.output_layouts[begin:end], strict=True)]

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Gradients of the data; a list over devices each unless merged."""
        assert self.inputs_need_grad
        if not merge_multi_context:
            return self.input_grad_arrays
        return [_merge(p, axis) for p, axis in zip(self.input_grad_arrays, self.data_layouts, strict=True)]

    def get_states(self, merge_multi_context: bool = True) -> list[list[NDArray]]:
        """States, a list over devices each."""
        assert not merge_multi_context, "merge_multi_context=True is not supported for get_states yet."
        return self.state_arrays

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the states to arrays (as ``get_outputs(False)`` gives them, or whole ones), or all to one number."""
        if states is None:
            assert value is not None, "At least one of states & value must be specified."
            for block in self.state_arrays:
                for x in block:
                    x[:] = value
        else:
            assert value is None, "Only one of states & value can be specified."
            self._load(states, self.state_arrays, [0] * len(self.state_arrays))

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Give each device's labels and outputs to a metric.

        Args:
            labels: of the whole batch, or with ``pre_sliced`` a list of them for each device.
        """
        axes = self.label_layouts or [0] * len(labels or ())
        for k, (e, part) in enumerate(zip(self.execs, self.slices, strict=True)):
            own = labels[k] if pre_sliced else [_cut(x, a, part) for x, a in zip(labels or (), axes, strict=False)]
            named = OrderedDict(zip(self.label_names or (), own, strict=False))
            eval_metric.update_dict(named, OrderedDict(zip(self.output_names, e.outputs, strict=True)))

    def install_monitor(self, mon: Any) -> None:
        """Watch all executors, those for shapes to come included."""
        self._monitors = [*getattr(self, "_monitors", ()), mon]
        for execs in self._by_shapes.values():
            for e in execs:
                mon.install(e)


def _pairs(descriptions: Any) -> list[DataDesc]:
    return [x if isinstance(x, DataDesc) else DataDesc(*x) for x in descriptions]


def _groups_of(group2ctxs: Any, count: int) -> list[dict[str, Context] | None]:
    """For each context the devices of the groups.

    Raises:
        ValueError: lists of another length than there are contexts, or neither a dict nor a list.
    """
    if group2ctxs is None:
        return [None] * count
    if isinstance(group2ctxs, list):
        if len(group2ctxs) != count:
            raise ValueError(f"group2ctxs needs a dict for each of the {count} contexts, but has {len(group2ctxs)}")
        return list(group2ctxs)
    if not isinstance(group2ctxs, dict):
        raise ValueError("group2ctxs must be a list of dicts or a dict of devices")
    groups: list[dict[str, Context] | None] = [{} for _ in range(count)]
    for name, places in group2ctxs.items():
        spread = [places] * count if isinstance(places, Context) else list(places)
        if len(spread) == 1:
            spread *= count
        if len(spread) != count:
            raise ValueError(f"group2ctxs: group {name!r} needs a device for each of the {count} contexts")
        for own, place in zip(groups, spread, strict=True):
            assert own is not None
            own[name] = place
    return groups
