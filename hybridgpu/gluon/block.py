# SPDX-License-Identifier: Apache-2.0
"""Block: the base of every layer and model, and what all blocks share."""

from __future__ import annotations

import inspect
import re
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ..base import MXNetError
from ..core.autograd_state import state, traces
from ..core.source_location import located_hint, place, user_frame
from ..hints.arguments import taken_by, telling, unexpected
from ..hints.gluon import ARGUMENTS, attribute_error
from ..hints.misplaced import about_child, no_prefix
from ..initializer import Uniform
from ..ndarray import NDArray
from ..ndarray import load as load_arrays
from ..ndarray.serialization import write_arrays
from ..symbol import Symbol
from ..util import _flags as np_flags
from .block_scope import BlockScope
from .forward import attribute_changed, trace_again, under_mxnets_name
from .parameter import Parameter, ParameterDict
from .parameter.dictionary import shown_names
from .parameter.parameter import take_together

if (
    TYPE_CHECKING
):  # MXNet has all three kinds of blocks here; at run time frontend/module_aliases.py finds the other two
    from .hybrid import HybridBlock as HybridBlock  # noqa: PLC0414
    from .symbol_block import SymbolBlock as SymbolBlock  # noqa: PLC0414

__all__ = ["Block", "HookHandle"]

Made = TypeVar("Made", bound="Block")
_PACKAGE = __name__.partition(".")[0]
_BlockScope = BlockScope  #: the name that programs which make block names of their own know


class HookHandle:
    """Removes a hook again, by ``detach()`` or at the end of a ``with``."""

    _count = 0

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self._hooks: dict[int, Any] | None = None
        self._id, self._changed = 0, changed

    def attach(self, hooks_dict: dict[int, Any], hook: Any) -> None:
        """Add a hook to those of a block, as ``register_forward_hook`` does.

        Raises:
            AssertionError: the handle has one already.
        """
        assert self._hooks is None, "The same handle cannot be attached twice."
        HookHandle._count += 1
        self._hooks, self._id = hooks_dict, HookHandle._count
        hooks_dict[self._id] = hook
        self._changed()

    def detach(self) -> None:
        """Remove the hook; a second time does nothing."""
        if self._hooks is not None:
            self._hooks.pop(self._id, None)
        self._changed()

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, ptype: object, value: object, trace: object) -> None:
        self.detach()


def indent(s_: str, numSpaces: int) -> str:
    """All lines but the first moved to the right."""
    first, *rest = s_.split("\n")
    return "\n".join([first, *(" " * numSpaces + line for line in rest)])


class Block:
    """A layer or model. Subclasses make children in ``__init__`` and define ``forward``.

    Children and parameters are attributes. Parameters come from ``self.params.get(name, ...)``, or are made by
    ``gluon.Parameter(...)``, as in MXNet 2: the block then names them by its prefix and the attribute.

    Args:
        prefix: of the names of its parameters; by default the class name and a number.
        params: take parameters from here where they exist (sharing).
    """

    _hg_transparent = False  #: True for containers, which ``summary`` leaves out
    _hg_fast: Callable[..., Any] | None = None  #: a prepared call that ``__call__`` may use instead of everything else

    def __new__(cls: type[Made], *args: Any, **kwargs: Any) -> Made:
        code = getattr(cls.__init__, "__code__", None)
        foreign = ARGUMENTS.keys() & kwargs.keys()
        if kwargs and code is not None and not code.co_flags & inspect.CO_VARKEYWORDS:
            foreign |= kwargs.keys() - set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        # a layer of ours: Python would say that ``units`` is missing, not that it is here as ``out_features``
        if foreign and cls.__init__.__module__.startswith(f"{_PACKAGE}."):
            for name in kwargs:
                if name in foreign and name not in taken_by(cls):
                    raise unexpected(cls, name, ARGUMENTS)
        return super().__new__(cls)

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None, **others: Any) -> None:
        if others:
            raise unexpected(type(self), next(iter(others)), ARGUMENTS)
        if prefix is not None and not isinstance(prefix, str):
            raise no_prefix(type(self), prefix)
        self._empty_prefix = prefix == ""
        self._prefix, self._params = BlockScope.create(prefix, params, self._alias())
        self._name = self._prefix[:-1] if self._prefix.endswith("_") else self._prefix
        self._scope: BlockScope | dict[str, int] = BlockScope(self)
        self._children: OrderedDict[str, Block] = OrderedDict()
        self._reg_params: dict[str, Parameter] = {}
        self._forward_hooks: OrderedDict[int, Any] = OrderedDict()
        self._forward_pre_hooks: OrderedDict[int, Any] = OrderedDict()

    def _alias(self) -> str:
        return type(self).__name__.lower()

    def __repr__(self) -> str:
        body = "\n".join(
            f"  ({key}): {indent(repr(block), 2)}"
            for key, block in list(self.__dict__.items())
            if isinstance(block, Block)
        )
        return f"{type(self).__name__}(\n{body}\n)"

    if not TYPE_CHECKING:  # which would no longer find names that are not there

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property, whose own error it is
                return object.__getattribute__(self, name)
            raise attribute_error(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        existing = self.__dict__.get(name)
        if isinstance(existing, (Parameter, Block)) and not isinstance(value, type(existing)):
            text = f"Changing attribute type for {name} from {type(existing)} to {type(value)}is not allowed."
            if isinstance(existing, Parameter):
                text += f"\n{located_hint(f'Write net.{name}.set_data(values).')}"
            raise TypeError(text)
        if isinstance(value, Block):
            self.register_child(value, name)
        elif isinstance(value, Parameter):
            assert name not in self._reg_params, (
                f"Overriding Parameter attribute {name} is not allowed. If you want to share parameters between blocks, "
                "please set 'params' at Block construction instead."
            )
            if not under_mxnets_name():  # where such a parameter is the program's to initialize, as in 1.9.1
                value = self._params._hg_adopt(name, value)
            self._reg_params[name] = value
        super().__setattr__(name, value)
        if "_hg_readers" in self.__dict__ or state.trace is not None:
            attribute_changed(self, name, existing, value)

    def __getstate__(self) -> dict[str, Any]:
        """The attributes for copies and pickles: without the prepared call, and without what was traced through this object.

        Of the name scope only the counters are among them: its class is no name for files.
        """
        state = {k: v for k, v in self.__dict__.items() if k not in ("_hg_fast", "_hg_readers")}
        if isinstance(scope := state.get("_scope"), BlockScope):
            state["_scope"] = scope._counter
        return state

    # -- names

    @property
    def prefix(self) -> str:
        """What the names of its parameters start with."""
        return self._prefix

    @property
    def name(self) -> str:
        """The prefix without its last underscore."""
        return self._name

    def name_scope(self) -> BlockScope:
        """Inside, new children and parameters get this block's prefix."""
        if not isinstance(self._scope, BlockScope):  # counters, of a copy or a pickle
            self._scope = BlockScope(self, self._scope)
        return self._scope

    # -- parameters

    @property
    def params(self) -> ParameterDict:
        """Its own parameters, without those of its children."""
        return self._params

    def collect_params(self, select: str | None = None) -> ParameterDict:
        """Its own and its children's parameters; ``select`` is a regular expression at the start of names.

        Raises:
            re.error: it is none.
        """
        self._hg_check_containers()
        params = ParameterDict(self._params.prefix)
        if not select:
            params.update(self.params)
        else:
            pattern = _pattern(select)
            for name, value in self.params.items():
                if pattern.match(name):
                    params._params[name] = value
        for child in self._children.values():
            if not hasattr(child, "collect_params"):
                kind = type(child).__name__
                raise AttributeError(f"'{kind}' object has no attribute 'collect_params'{about_child(child, False)}")
            params.update(child.collect_params(select))
        return params

    def _hg_check_containers(self) -> None:
        children = set(map(id, self._children.values()))

        def holds(value: Any) -> bool:
            if isinstance(value, (list, tuple)):
                return any(holds(v) for v in value)
            if isinstance(value, dict):
                return any(holds(v) for v in value.values())
            return isinstance(value, Block) and id(value) not in children

        for key, value in list(self.__dict__.items()):  # other threads may prepare calls, which lie there, too
            if key[:1] != "_" and isinstance(value, (list, tuple, dict)) and holds(value):
                warnings.warn(
                    f'"{type(self).__name__}.{key}" is an unregistered container with Blocks. Note that Blocks inside the list, tuple '
                    "or dict will not be registered automatically. Make sure to register them using register_child() or "
                    "switching to nn.Sequential/nn.HybridSequential instead. ",
                    stacklevel=user_frame(),
                )

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        """Parameters by structural name, such as 'body.1.gamma'."""
        if prefix:
            prefix += "."
        params = {prefix + key: value for key, value in self._reg_params.items()}
        for name, child in self._children.items():
            params.update(child._collect_params_with_prefix(prefix + name))
        return params

    @telling
    def initialize(self, init: Any = None, ctx: Any = None, verbose: bool = False, force_reinit: bool = False) -> None:
        """Initialise all parameters; the default is Uniform(0.07) for weights."""
        self.collect_params().initialize(Uniform() if init is None else init, ctx, verbose, force_reinit)

    def cast(self, dtype: Any) -> None:
        """Convert all parameters."""
        for child in self._children.values():
            child.cast(dtype)
        for p in self.params.values():
            p.cast(dtype)

    # -- files

    def save_parameters(self, filename: str, deduplicate: bool = False) -> None:
        """Write parameters under structural names; with ``deduplicate`` shared ones once, under the last name."""
        params = self._collect_params_with_prefix()
        if deduplicate:
            last: dict[int, str] = {}
            for name, p in params.items():
                last[id(p)] = name
            params = {name: params[name] for name in last.values()}
        write_arrays(filename, {name: p._reduce() for name, p in params.items()})

    @telling
    def load_parameters(
        self,
        filename: str,
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Read parameters of ``save_parameters`` (or of ``collect_params().save``).

        Raises:
            AssertionError: a missing parameter, or one that does not fit.
            ValueError: one too many.
        """
        loaded = load_arrays(filename)
        if not isinstance(loaded, dict):
            loaded = {}
        params = self._collect_params_with_prefix()
        if not loaded and not params:
            return
        if not any("." in name for name in loaded):  # written by ParameterDict.save: full names without the prefix
            full = self.collect_params()
            prefix = (
                ""
                if any(n.startswith(("arg:", "aux:")) for n in loaded) or (all(n in full for n in loaded) and loaded)
                else self.prefix
            )
            full.load(filename, ctx, allow_missing, ignore_extra, prefix, cast_dtype, dtype_source)
            return
        if not allow_missing:
            by_parameter: dict[int, list[str]] = {}
            for name, p in params.items():
                by_parameter.setdefault(id(p), []).append(name)
            for name, p in params.items():
                assert any(n in loaded for n in by_parameter[id(p)]), (
                    f"Parameter '{name}' is missing in file '{filename}', which contains parameters: {shown_names(list(loaded))}. "
                    "Set allow_missing=True to ignore missing parameters."
                )
        fitting = []
        for name, value in loaded.items():
            if name not in params:
                if not ignore_extra:
                    raise ValueError(
                        f"Parameter '{name}' loaded from file '{filename}' is not present in ParameterDict, which contains parameters "
                        f"{shown_names(list(self._params.keys()))}. Set ignore_extra=True to ignore. "
                    )
                continue
            fitting.append((params[name], params[name]._hg_load_check(value, ctx, cast_dtype, dtype_source)))
        # only now: a load that fails changes nothing
        take_together([(p, p._load_init(value, ctx)) for p, value in fitting])

    def save(self, prefix: str) -> None:
        """Write the model's structure with the graphs of traced blocks, and its parameters, to two files."""
        from .model_files import save_model

        save_model(self, prefix)

    def load(self, prefix: str) -> None:
        """Read what ``save`` wrote, into a model of the same classes."""
        from .model_files import load_model

        load_model(self, prefix)

    def save_params(self, filename: str) -> None:
        """Deprecated: ``save_parameters`` without structural names."""
        warnings.warn(
            "save_params is deprecated. Please use save_parameters. Note that if you want load from SymbolBlock later, please use export instead.",
            stacklevel=2,
        )
        self.collect_params().save(filename, strip_prefix=self.prefix)

    def load_params(
        self, filename: str, ctx: Any = None, allow_missing: bool = False, ignore_extra: bool = False
    ) -> None:
        """Deprecated: ``load_parameters``."""
        warnings.warn("load_params is deprecated. Please use load_parameters.", stacklevel=2)
        self.load_parameters(filename, ctx, allow_missing, ignore_extra)

    # -- children and hooks

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Add a child; its name is by default its number."""
        self._children[str(len(self._children)) if name is None else name] = block
        self._hg_changed()

    def _hg_changed(self) -> None:
        """Drop a prepared call: something that it depends on is different now."""
        self.__dict__.pop("_hg_fast", None)
        trace_again(self, f"{self.name} changed")

    def register_forward_pre_hook(self, hook: Callable[[Block, tuple[Any, ...]], None]) -> HookHandle:
        """``hook(block, inputs)`` before every call."""
        handle = HookHandle(self._hg_changed)
        handle.attach(self._forward_pre_hooks, hook)
        return handle

    def register_forward_hook(self, hook: Callable[[Block, tuple[Any, ...], Any], None]) -> HookHandle:
        """``hook(block, inputs, output)`` after every call."""
        handle = HookHandle(self._hg_changed)
        handle.attach(self._forward_hooks, hook)
        return handle

    def apply(self, fn: Callable[[Block], Any]) -> Block:
        """Call ``fn`` on all children and then on itself; returns itself."""
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Hybridize the children (a Block itself is not traced)."""
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    # -- running

    def __call__(self, *args: Any) -> Any:  # ``**`` would cost each call a dictionary, for the sake of an error
        fast = self._hg_fast
        try:
            if fast is not None:
                return fast(*args)
            return self._hg_call(args)
        except MXNetError as e:
            place(e, self.name)
            raise

    def _hg_call(self, args: tuple[Any, ...], compute: Callable[..., Any] | None = None) -> Any:
        """Hooks, and what they are around: ``forward``, or what computes the same."""
        if traces and state.trace is not None:
            state.trace.blocks[id(self)] = self
        if self._forward_pre_hooks:
            for hook in list(self._forward_pre_hooks.values()):
                hook(self, args)
        out = self.forward(*args) if compute is None else compute(*args)
        if self._forward_hooks:
            for hook in list(self._forward_hooks.values()):
                hook(self, args, out)
        if np_flags.array:
            _refuse_legacy(out)
        return out

    def forward(self, *args: Any) -> Any:
        """What the block computes; to be overridden."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward(self, x, ...)")

    def register_op_hook(self, callback: Callable[..., None], monitor_all: bool = False) -> None:
        """Call ``callback(name, operator, array)`` for results inside hybridized children."""
        for child in self._children.values():
            child.register_op_hook(callback, monitor_all)

    def summary(self, *inputs: Any) -> None:
        """Print a table of layers, output shapes and parameter counts for given inputs."""
        from .summary import print_summary

        print_summary(self, inputs)


def _refuse_legacy(out: Any) -> None:
    """Raise MXNet's error for results of nd where Gluon works on np arrays."""
    if isinstance(out, (list, tuple)):
        for x in out:
            _refuse_legacy(x)
    elif isinstance(out, (NDArray, Symbol)) and out._kind is None:
        raise TypeError(
            "Block's output ndarrays/symbols must be of type `mxnet.numpy.ndarray` or `mxnet.symbol.numpy._Symbol`, "
            f"while got output type {type(out)}\n"
            + located_hint("Give the result of as_np_ndarray() back, or use functions of F.np and F.npx.")
        )


def _pattern(select: str) -> re.Pattern[str]:
    try:
        return re.compile(select)
    except re.error as e:
        instead = re.sub(r"(?<![.)\]])\*", ".*", select)
        text = f"It is a regular expression, not a file's pattern: write {instead!r}, and '.*a|.*b' for two."
        raise re.error(f"{e}\n{located_hint(text)}") from None
