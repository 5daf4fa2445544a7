# SPDX-License-Identifier: Apache-2.0
"""A parameter of a block: one array on one or several devices, with its gradient, whose shape may come later."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ... import initializer, ndarray
from ...backends.write_tracking import is_exported
from ...base import MXNetError
from ...context import Context, cpu, current_context
from ...core import autograd_state
from ...core.dtypes import dtype_of
from ...core.source_location import located_hint, user_frame
from ...hints.arguments import telling, unexpected
from ...hints.misplaced import grad_req_error
from ...initializer import InitDesc
from ...ndarray import NDArray
from ...ndarray.binding_version import invalidate_bindings
from ...ndarray.device_scope import zeros_on
from ...ndarray.mode import of_mode
from ...ndarray.ndarray import allocate
from ...ndarray.versions import exchange, versioned
from ...runtime.host_numbers import untracked_draws
from ...symbol import Symbol
from ...symbol import var as make_var
from ...util import is_np_array, is_np_shape

__all__ = ["DeferredInitializationError", "Parameter", "contexts", "same_dtype", "shape_is_known", "take_together"]  # fmt: skip


#: arguments' names elsewhere -> here
_SPELLED = {"requires_grad": ("grad_req='null'",), "trainable": ("grad_req='null'",), "initializer": ("init",)}


class DeferredInitializationError(MXNetError):
    """A parameter is used before its shape is known."""


def contexts(ctx: Any) -> list[Context]:
    """None, one context or several as a list."""
    if ctx is None:
        return [current_context()]
    return [ctx] if isinstance(ctx, Context) else list(ctx)


def shape_is_known(shape: Sequence[int] | None) -> bool:
    """True if no extent is 0 or negative (unknown)."""
    return shape is not None and all(d > 0 for d in shape)


def same_dtype(a: Any, b: Any) -> bool:
    return dtype_of(a) is dtype_of(b)


class Parameter:
    """An array that a block learns.

    Args:
        name: full name; as an attribute of a block it gets another one, and need not have one here, as in MXNet 2.
        grad_req: 'write', 'add' or 'null'.
        shape: extents; 0 marks those that follow from the first input.
        dtype: element type.
        lr_mult, wd_mult: factors for the optimizer.
        init: initializer of its own.
        allow_deferred_init: may wait for its shape.
        differentiable: False means grad_req 'null'.
    """

    def __init__(
        self,
        name: str = "weight",
        grad_req: str = "write",
        shape: Any = None,
        dtype: Any = np.float32,
        lr_mult: float = 1.0,
        wd_mult: float = 1.0,
        init: Any = None,
        allow_deferred_init: bool = False,
        differentiable: bool = True,
        stype: str = "default",
        grad_stype: str = "default",
        **others: NoReturn,
    ) -> None:
        if others:
            raise unexpected(type(self), next(iter(others)), _SPELLED)
        self._var: Symbol | None = None
        self._trainer: Any = None
        self._data: list[NDArray] | None = None
        self._grad: list[NDArray] | None = None
        self._deferred_init: tuple[Any, list[Context], Any, Any] | None = None
        self._differentiable = differentiable
        self._allow_deferred_init = allow_deferred_init
        self._grad_req: str | None = None
        if isinstance(shape, (int, np.integer)):
            shape = (int(shape),)
        if shape is not None:
            for d in shape:
                if d < -1:
                    raise ValueError(f"shape dimension size cannot be less than 0, while received {d}")
        self._shape: tuple[int, ...] | None = None if shape is None else tuple(int(d) for d in shape)
        self.name = name
        self._dtype = dtype
        self.lr_mult, self.wd_mult = lr_mult, wd_mult
        self.grad_req = grad_req
        self.init = init
        valid = ("default", "row_sparse", "csr")
        for what, value in (("stype", stype), ("grad_stype", grad_stype)):
            assert value in valid, (
                f"{what} for Parameter '{name}' must be one of 'default', 'row_sparse', or 'csr', but got '{value}'"
            )
        self._stype, self._grad_stype = stype, grad_stype

    if not TYPE_CHECKING:  # which would no longer find names that are not there

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property, whose own error it is
                return object.__getattribute__(self, name)
            text = f"'{type(self).__name__}' object has no attribute '{name}'"
            if not name.startswith("_") and hasattr(NDArray, name):
                raise AttributeError(f"{text}\n{located_hint(f'A parameter has arrays: write data().{name}.')}")
            raise AttributeError(text, name=name, obj=self)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_trainer": None}  # which does not step copies

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy has gradients of its own where there are gradients."""
        self.__dict__.update(state)
        if self._data is not None:
            self._data = [versioned(d) for d in self._data]
        if self._data is not None and self._grad is not None:
            autograd_state.mark_variables(self._data, self._grad, self.grad_req)

    #: what to do before it is used, for errors
    _hg_without_values = (
        "Call net.initialize() before the net, or load its parameters. It does not reach blocks in a list (register each: "
        "self.register_child(block)), nor parameters in a list (make each an attribute), nor, under MXNet's name, "
        "Parameter(...) (make it by self.params.get(name, ...))."
    )
    _hg_origin = ""  #: 'get' of a ParameterDict, 'attribute' of a block, '' if a program made it

    def _hg_named(self, name: str, origin: str) -> None:
        """Become a block's, under a name in which the block's prefix is."""
        if name != self.name:
            self.name, self._var = name, None
        self._hg_origin = origin

    def __repr__(self) -> str:
        return f"Parameter {self.name} (shape={self.shape}, dtype={self.dtype})"

    # -- description

    @property
    def grad_req(self) -> str:
        """How gradients are written: 'write', 'add' or 'null'."""
        return self._grad_req or "null"

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req not in ("write", "add", "null"):
            raise grad_req_error(req)
        if not self._differentiable:
            req = "null"
        if self._grad_req == req:
            return
        self._grad_req = req
        if req == "null" and self._grad is not None:
            self._grad = None
            self._data = [versioned(d.detach()) for d in self._data or []]
            invalidate_bindings()
        elif self._data is not None:
            self._init_grad()

    @property
    def dtype(self) -> Any:
        """The element type as it was given."""
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        self.cast(dtype)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The extents; where unknown 0, or -1 under NumPy shape semantics."""
        if self._shape is None or not is_np_shape():
            return self._shape
        return tuple(d or -1 for d in self._shape)  # a parameter has no extent of 0: it is one that is to follow

    @shape.setter
    def shape(self, new: Sequence[int]) -> None:
        new = tuple(new)
        if self._shape is None:
            self._shape = new
            return
        fits = len(self._shape) == len(new) and all(a in (0, -1, b) for a, b in zip(self._shape, new, strict=True))
        assert fits, f"Expected shape {new} is incompatible with given shape {self._shape}."
        self._shape = new

    @property
    def stype(self) -> str:
        return self._stype

    # -- initialisation

    @telling
    def initialize(
        self, init: Any = None, ctx: Any = None, default_init: Any = None, force_reinit: bool = False
    ) -> None:
        """Make and fill the arrays, one on each context of ``ctx``.

        ``self.init`` comes first, then ``init``, then ``default_init``.

        Raises:
            ValueError: an unknown shape without ``allow_deferred_init``.
        """
        if self._data is not None and not force_reinit:
            warnings.warn(
                f"Parameter '{self.name}' is already initialized, ignoring. Set force_reinit=True to re-initialize.",
                stacklevel=user_frame(),
            )
            return
        default = initializer.Uniform() if default_init is None else default_init
        where = contexts(ctx)
        if init is None:
            init = default if self.init is None else self.init
        if not shape_is_known(self._shape) and not self._allow_deferred_init:
            text = f"Cannot initialize Parameter '{self.name}' because it has invalid shape: {self.shape}."
            if not isinstance(self.name, str):
                text += f"\n{located_hint('The first argument of Parameter is its name: write Parameter(name, shape=...).')}"
            raise ValueError(text)
        before = self._data, self._grad
        self._data = self._grad = None
        self._deferred_init = (init, where, default, None)
        if not shape_is_known(self._shape):
            return
        try:
            self._finish_deferred_init()
        except BaseException:
            if before[0] is not None:  # what it held before it keeps
                self._data, self._grad = before
                self._deferred_init = None
            raise

    def _finish_deferred_init(self) -> None:
        if self._deferred_init is None:
            return
        init, where, default, data = self._deferred_init
        assert shape_is_known(self._shape), (
            f"Cannot initialize Parameter '{self.name}' because it has invalid shape: {self.shape}. "
            "Please specify in_units, in_channels, etc for `Block`s."
        )
        assert self._shape is not None
        with autograd_state.pause(), autograd_state.untraced(), untracked_draws():
            if data is None:
                data = of_mode(allocate(tuple(self._shape), cpu(), self._dtype))  # programs set _shape to lists, too
                # an initializer of the parameter's own fills it whatever its name is
                initializer.create(default)(InitDesc(self.name, {"__init__": init}), data)
            self._init_impl(data, where)
        self._deferred_init = None  # only now: what failed can be tried again

    def _init_impl(self, data: NDArray, where: list[Context]) -> None:
        self._data = [versioned(data.copyto(ctx)) for ctx in where]
        invalidate_bindings()
        self._hg_tell_trainer()
        self._init_grad()

    def _init_grad(self) -> None:
        if self.grad_req == "null":
            self._grad = None
            return
        assert self._data is not None
        # where programs write gradients and optimizers read them: aligned
        self._grad = [zeros_on(d.context, d.shape, d._data.dtype, d._kind) if d.size else d for d in self._data]
        autograd_state.mark_variables(self._data, self._grad, self.grad_req)

    def _hg_load_check(
        self, data: NDArray, ctx: Any, cast_dtype: bool = False, dtype_source: str = "current"
    ) -> NDArray:
        """The values of a file in the parameter's type; changes nothing.

        Raises:
            AssertionError: they do not fit.
        """
        if cast_dtype:
            assert dtype_source in ("current", "saved")
        fits = self._shape is None or (
            len(self._shape) == len(data.shape)
            and all(own in (0, -1, saved) for own, saved in zip(self._shape, data.shape, strict=True))
        )
        assert fits, (
            f"Failed loading Parameter '{self.name}' from saved params: shape incompatible expected {self.shape} vs saved {data.shape}"
        )
        if not same_dtype(self._dtype, data.dtype):
            assert cast_dtype, (
                f"Failed loading Parameter '{self.name}' from saved params: dtype incompatible expected {self._dtype} vs saved {data.dtype}. "
                "Set cast_dtype=True to cast the dtype of saved params."
            )
            if dtype_source == "current":
                data = data.astype(self._dtype)
        if self._data is not None or self._deferred_init:
            assert ctx is None or set(contexts(ctx)) == set(self.list_ctx()), (
                f"Failed to load Parameter '{self.name}' on {ctx} because it was previous initialized on {self.list_ctx()}."
            )
        return data

    def _load_init(self, data: NDArray, ctx: Any) -> list[tuple[NDArray, Any]]:
        """Take values that ``_hg_load_check`` returned, initialising if necessary.

        Returns:
            The arrays that are still to be given them, with the memory where they lie.
        """
        self._shape = data.shape
        if not same_dtype(self._dtype, data.dtype):
            self.cast(data.dtype)
        data = of_mode(data)
        if self._data is None:
            self._init_impl(
                data, self._deferred_init[1] if self._deferred_init else contexts(cpu() if ctx is None else ctx)
            )
            self._deferred_init = None
            return []
        self._deferred_init = None
        return self._hg_new_values(data)

    def reset_ctx(self, ctx: Any) -> None:
        """Move to other devices.

        Raises:
            ValueError: not initialised.
        """
        where = contexts(ctx)
        if self._data is not None:
            data = self._reduce()
            with autograd_state.pause():
                self._init_impl(data, where)
        elif self._deferred_init:
            init, _, default, data = self._deferred_init
            self._deferred_init = (init, where, default, data)
        else:
            raise ValueError(f"Cannot reset context for Parameter '{self.name}' because it has not been initialized.")

    def cast(self, dtype: Any) -> None:
        """Convert values and gradients, accumulated ones too.

        Raises:
            TypeError: an unknown type; nothing is changed.
        """
        dtype_of(dtype)
        self._dtype = dtype
        self._var = None
        if self._data is None:
            return
        old = self._grad
        with autograd_state.pause():
            # copied: memory of a result is given out again
            self._data = [versioned(d.astype(dtype).copyto(d.context)) for d in self._data]
            invalidate_bindings()
            self._init_grad()
            for new, gradient in zip(self._grad or (), old or (), strict=True):
                if gradient.size:
                    gradient.astype(dtype).copyto(new)

    # -- values

    def _hg_check_initialized(self) -> None:
        if self._deferred_init:
            raise DeferredInitializationError(
                f"Parameter '{self.name}' has not been initialized yet because initialization was deferred. "
                "Actual initialization happens during the first forward pass. Please pass one batch of data through the network "
                "before accessing Parameters. You can also avoid deferred initialization by specifying in_units, num_features, "
                "etc., for network layers."
            )
        raise RuntimeError(
            f"Parameter '{self.name}' has not been initialized. Note that you should initialize parameters and create Trainer "
            "with Block.collect_params() instead of Block.params because the later does not include Parameters of nested child Blocks\n"
            + located_hint(self._hg_without_values)
        )

    def _hg_on(self, arrays: Sequence[NDArray] | None, ctx: Context | None) -> NDArray:
        if arrays is None:
            self._hg_check_initialized()
        assert arrays is not None
        if ctx is None:
            if len(arrays) == 1:
                return arrays[0]
            ctx = current_context()
        for a in arrays:
            own = a._type.ctx
            if own is ctx or own == ctx:
                return a
        raise RuntimeError(
            f"Parameter '{self.name}' was not initialized on context {ctx}. It was only initialized on {[a.context for a in arrays]}.\n"
            + located_hint(
                f"Bring the data there, x.as_in_context(mx.{arrays[0].context}), or the parameters where the data are: "
                f"net.collect_params().reset_ctx(mx.{ctx})."
            )
        )

    def data(self, ctx: Context | None = None) -> NDArray:
        """The array on a context (the only one, or the current context's).

        Raises:
            RuntimeError: not initialised, or not there.
            DeferredInitializationError: still waiting for its shape.
        """
        if autograd_state.state.trace is not None:
            return autograd_state.state.trace.parameter(self, ctx)  # type: ignore[no-any-return]
        return self._hg_on(self._data, ctx)

    def row_sparse_data(self, row_id: Any) -> NDArray:
        """Rows of a row_sparse parameter.

        Raises:
            RuntimeError: always, since values are dense.
        """
        raise RuntimeError(
            f"Cannot return a copy of Parameter {self.name} via row_sparse_data() because its storage type is "
            f"default. Please use data() instead."
        )

    def list_row_sparse_data(self, row_id: Any) -> list[NDArray]:
        """Rows of a row_sparse parameter on all devices.

        Raises:
            RuntimeError: always, since values are dense.
        """
        raise RuntimeError(
            f"Cannot return copies of Parameter '{self.name}' on all contexts via list_row_sparse_data() because its "
            f"storage type is default. Please use data() instead."
        )

    def list_data(self) -> list[NDArray]:
        """The arrays on all contexts."""
        if autograd_state.state.trace is not None:
            return [autograd_state.state.trace.parameter(self)]
        if self._data is None:
            self._hg_check_initialized()
        assert self._data is not None
        return list(self._data)

    def grad(self, ctx: Context | None = None) -> NDArray:
        """The gradient on a context.

        Raises:
            RuntimeError: as ``data``, or grad_req is 'null'.
        """
        if self._data is not None and self._grad is None:
            raise RuntimeError(f"Cannot get gradient array for Parameter '{self.name}' because grad_req='null'")
        return self._hg_on(self._grad, ctx)

    def list_grad(self) -> list[NDArray]:
        """The gradients on all contexts."""
        if self._data is not None and self._grad is None:
            raise RuntimeError(f"Cannot get gradient array for Parameter '{self.name}' because grad_req='null'")
        if self._grad is None:
            self._hg_check_initialized()
        assert self._grad is not None
        return list(self._grad)

    def list_ctx(self) -> list[Context]:
        """The contexts it lies on, or will.

        Raises:
            RuntimeError: not initialised.
        """
        if self._data is None:
            if self._deferred_init:
                return self._deferred_init[1]
            raise RuntimeError(
                f"Parameter '{self.name}' has not been initialized\n"
                + located_hint(
                    "Call net.initialize(), or load its parameters, before it is asked where they lie, as a Trainer does."
                )
            )
        return [d.context for d in self._data]

    def set_data(self, data: Any) -> None:
        """Give every copy new values; shapes must agree. A call of another thread sees the old ones or the new ones.

        Raises:
            AssertionError: the shape differs.
        """
        if autograd_state.state.trace is not None:
            self.data()[:] = data
            return
        if not isinstance(data, NDArray):
            data = of_mode(ndarray.array(data, dtype=self._dtype))
        self.shape = data.shape
        if self._data is None:
            assert self._deferred_init, f"Parameter '{self.name}' has not been initialized"
            init, where, default, _ = self._deferred_init
            self._deferred_init = (init, where, default, data)
            self._finish_deferred_init()
            return
        take_together([(self, self._hg_new_values(data))])

    def _hg_new_values(self, data: NDArray) -> list[tuple[NDArray, Any]]:
        """The arrays that are to be given new values, with the memory where these lie.

        What others may read without asking (DLPack, a NumPy array without a copy) is written where it is.
        """
        pairs = []
        with autograd_state.pause():
            for own in self._data or ():
                if is_exported(own._data):
                    data.as_nd_ndarray().copyto(own.as_nd_ndarray())
                    continue
                fresh = allocate(own.shape, own.context, own.dtype)
                data.as_nd_ndarray().copyto(fresh)
                pairs.append((own, fresh._data))
        return pairs

    def _set_trainer(self, trainer: Any) -> None:
        """Say which Trainer learns the parameter.

        Raises:
            RuntimeError: a second one for a parameter that is not dense.
        """
        if self._stype != "default" and self._trainer and trainer and self._trainer is not trainer:
            raise RuntimeError(
                f"Failed to set the trainer for Parameter '{self.name}' because it was already set. "
                f"More than one trainers for a {self._stype} Parameter is not supported."
            )
        self._trainer = trainer

    def _hg_tell_trainer(self) -> None:
        """Values came from elsewhere: a store that keeps a copy must take them."""
        if self._trainer is not None:
            self._trainer._hg_values_were_set(self)

    def zero_grad(self) -> None:
        """Set the gradients to zero."""
        for g in self._grad or []:
            g.as_nd_ndarray()[:] = 0

    def _reduce(self) -> NDArray:
        """One copy on the host: the mean of the arrays of several contexts, whose running statistics differ."""
        if not self._data:
            return self.data()
        with autograd_state.pause():
            copies = [x.copyto(cpu()) for x in self.list_data()]
            return copies[0] if len(copies) == 1 else sum(copies[1:], copies[0]) / len(copies)

    def var(self) -> Symbol:
        """The variable that stands for it in graphs; always the same one."""
        if self._var is None:
            self._var = make_var(
                self.name,
                shape=self.shape,
                dtype=self._dtype,
                lr_mult=self.lr_mult,
                wd_mult=self.wd_mult,
                init=self.init if not isinstance(self.init, np.ndarray) else None,
                stype=self._stype,
            )
            if is_np_array():
                self._var = self._var.as_np_ndarray()
        return self._var


def take_together(parameters: Sequence[tuple[Parameter, list[tuple[NDArray, Any]]]]) -> None:
    """Give parameters the values of ``_hg_new_values``: a call sees all of them or none."""
    exchange([pair for _, pairs in parameters for pair in pairs])
    for p, _ in parameters:
        p._hg_tell_trainer()
