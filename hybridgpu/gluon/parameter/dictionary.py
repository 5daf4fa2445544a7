# SPDX-License-Identifier: Apache-2.0
"""Parameters by name: made for blocks, shared between them, initialised, saved and loaded together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ... import initializer
from ...context import Context
from ...hints.arguments import telling
from ...ndarray import NDArray
from ...ndarray import load as load_arrays
from ...ndarray.serialization import write_arrays
from .constant import Constant
from .parameter import Parameter, same_dtype, take_together

__all__ = ["ParameterDict", "shown_names"]


def shown_names(keys: Sequence[str], limit: int = 8) -> str:
    """Names for a message: the first and last few."""
    quoted = [f"'{k}'" for k in keys]
    if len(quoted) > limit:
        half = limit // 2
        quoted = [*quoted[: half - 1], "...", *quoted[-half:]]
    return ", ".join(quoted)


class ParameterDict:
    """Parameters by full name, in order of creation.

    Args:
        prefix: put before every name that ``get`` makes.
        shared: another dictionary in which ``get`` looks first.
    """

    def __init__(self, prefix: str = "", shared: ParameterDict | None = None) -> None:
        self._prefix, self._shared = prefix, shared
        self._params: dict[str, Parameter] = {}

    def __repr__(self) -> str:
        name = f"{self._prefix} " if self._prefix else ""
        body = "\n".join("  " + repr(p).replace("\n", "\n  ") for p in self.values())
        return f"{name}(\n{body}\n)"

    def __getitem__(self, key: str) -> Parameter:
        return self._params[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __contains__(self, key: object) -> bool:
        return key in self._params

    def items(self) -> Any:
        return self._params.items()

    def keys(self) -> Any:
        return self._params.keys()

    def values(self) -> Any:
        return self._params.values()

    @property
    def prefix(self) -> str:
        """The prefix of new names."""
        return self._prefix

    def _hg_find(self, name: str) -> Parameter | None:
        if name in self._params:
            return self._params[name]
        if self._shared is not None and name in self._shared._params:
            self._params[name] = self._shared._params[name]
            return self._params[name]
        return None

    def get(self, name: str, **kwargs: Any) -> Parameter:
        """The parameter ``prefix + name``, made if necessary.

        Raises:
            AssertionError: it exists with other attributes.
        """
        full = self.prefix + name
        parameter = self._hg_find(full)
        if parameter is None:
            parameter = self._params[full] = Parameter(full, **kwargs)
            parameter._hg_origin = "get"
            return parameter
        for key, value in kwargs.items():
            if getattr(parameter, key, None) is None:
                setattr(parameter, key, value)
                continue
            existing = getattr(parameter, key)
            if key == "shape" and value is not None and existing is not None:
                shape = (value,) if isinstance(value, int) else tuple(value)
                if len(shape) == len(existing):
                    merged = tuple(a if a > 0 else max(b, 0) for a, b in zip(existing, shape, strict=True))
                    if all(
                        a in (0, -1, m) and b in (0, -1, m) for a, b, m in zip(existing, shape, merged, strict=True)
                    ):
                        parameter._shape = merged
                        continue
            elif key == "dtype" and same_dtype(value, existing):
                continue
            if key in ("init", "allow_deferred_init", "differentiable", "stype", "grad_stype"):
                continue
            assert value is None or value == existing, (
                f"Cannot retrieve Parameter '{full}' because desired attribute does not match with stored for attribute '{key}': "
                f"desired '{value}' vs stored '{existing}'."
            )
        return parameter

    def get_constant(self, name: str, value: Any = None) -> Constant:
        """The constant ``prefix + name``, made from ``value`` if necessary.

        Raises:
            KeyError: there is none and no value.
        """
        full = self.prefix + name
        parameter = self._hg_find(full)
        if parameter is None:
            if value is None:
                raise KeyError(
                    f"No constant named '{full}'. Please specify value if you want to create a new constant."
                )
            constant = self._params[full] = Constant(full, value)
            constant._hg_origin = "get"
            return constant
        assert isinstance(parameter, Constant), f"Parameter '{full}' already exists but it is not a constant."
        if value is not None:
            expected = value.asnumpy() if isinstance(value, NDArray) else np.asarray(value)
            assert parameter.shape == expected.shape and (parameter.value.asnumpy() == expected).all(), (
                f"Constant '{full}' already exists but it's value doesn't match new value"
            )
        return parameter

    def update(self, other: ParameterDict) -> None:
        """Add the parameters of another dictionary.

        Raises:
            AssertionError: another parameter has the same name.
        """
        for key, value in other.items():
            if key in self._params:
                assert self._params[key] is value, (
                    f"Cannot update self with other because they have different Parameters with the same name '{key}'"
                )
            elif value._hg_origin == "attribute" and value.name in self._params and self._params[value.name] is value:
                # a program names it itself: twice here, a Trainer would step it twice
                del self._params[value.name]
            self._params[key] = value

    def _hg_adopt(self, name: str, parameter: Parameter) -> Parameter:
        """Take a parameter that a program made for an attribute of the block; the shared one of that name in its place.

        One that ``get`` of any dictionary made stays where it is: as in MXNet 1.9.1, blocks may hold those of others.
        """
        if parameter._hg_origin == "get" or any(p is parameter for p in self._params.values()):
            return parameter
        if parameter._hg_origin == "attribute":  # of two blocks
            self._params[parameter.name] = parameter
            return parameter
        own, same = name, 0
        while self.prefix + own in self._params:  # 'weight' of ``get``, in another attribute
            same += 1
            own = f"{name}{same}"
        full = self.prefix + own
        if self._hg_find(full) is not None:
            if isinstance(parameter, Constant):
                return self.get_constant(own, parameter.value)
            return self.get(own, shape=parameter.shape, dtype=parameter.dtype)
        parameter._hg_named(full, "attribute")
        self._params[full] = parameter
        return parameter

    @telling
    def initialize(self, init: Any = None, ctx: Any = None, verbose: bool = False, force_reinit: bool = False) -> None:
        """Initialise all; see ``Parameter.initialize``."""
        init = initializer.Uniform() if init is None else initializer.create(init)
        if verbose:
            init.set_verbosity(verbose=verbose)
        for p in self.values():
            p.initialize(None, ctx, init, force_reinit=force_reinit)

    def zero_grad(self) -> None:
        """Set all gradients to zero."""
        for p in self.values():
            p.zero_grad()

    def reset_ctx(self, ctx: Any) -> None:
        """Move all to other devices."""
        for p in self.values():
            p.reset_ctx(ctx)

    def list_ctx(self) -> list[Context]:
        """All contexts that any parameter lies on."""
        contexts: dict[Context, None] = {}
        for p in self.values():
            contexts.update(dict.fromkeys(p.list_ctx()))
        return list(contexts)

    def setattr(self, name: str, value: Any) -> None:
        """Set one attribute of every parameter."""
        for p in self.values():
            setattr(p, name, value)

    def save(self, filename: str, strip_prefix: str = "") -> None:
        """Write values under their full names, without ``strip_prefix``.

        Raises:
            ValueError: a name that does not start with the prefix.
        """
        out = {}
        for p in self.values():
            value = p._reduce()
            if not p.name.startswith(strip_prefix):
                raise ValueError(
                    f"Prefix '{strip_prefix}' is to be striped before saving, but Parameter's name '{p.name}' does not start with "
                    f"'{strip_prefix}'. this may be due to your Block shares parameters from other Blocks or you forgot to use "
                    "'with name_scope()' when creating child blocks. For more info on naming, please see "
                    "https://mxnet.io/api/python/docs/tutorials/packages/gluon/blocks/naming.html"
                )
            out[p.name[len(strip_prefix) :]] = value
        write_arrays(filename, out)

    def load(
        self,
        filename: str,
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Read values of ``save`` or of an export (``arg:`` and ``aux:`` are dropped)."""
        loaded = load_arrays(filename)
        self.load_dict(
            loaded, ctx, allow_missing, ignore_extra, restore_prefix, f"file '{filename}'", cast_dtype, dtype_source
        )

    def load_dict(
        self,
        param_dict: Mapping[str, NDArray],
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        filename: str | None = None,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Take values from a dictionary, all together: a hybridized call of another thread sees all of them or none.

        Raises:
            AssertionError: a missing parameter, or one that does not fit.
            ValueError: one too many.
        """
        if not isinstance(param_dict, Mapping):  # a file without arrays reads as an empty list
            assert not param_dict, "the file holds a list of arrays without names"
            param_dict = {}
        where = "file: " + filename[6:-1] if filename and filename.startswith("file '") else filename or "param_dict"
        values = {restore_prefix + (k[4:] if k.startswith(("arg:", "aux:")) else k): v for k, v in param_dict.items()}
        if not allow_missing:
            for name in self.keys():
                assert name in values, (
                    f"Parameter '{name.removeprefix(restore_prefix)}' is missing in {where}, which contains parameters: {shown_names(list(values))}. "
                    "Please make sure source and target networks have the same prefix."
                    "For more info on naming, please see https://mxnet.io/api/python/docs/tutorials/packages/gluon/blocks/naming.html"
                )
        fitting = []
        for name, value in values.items():
            if name not in self._params:
                assert ignore_extra, (
                    f"Parameter '{name[len(restore_prefix) :]}' loaded from {where} is not present in ParameterDict, "
                    f"choices are: {shown_names(list(self.keys()))}. Set ignore_extra to True to ignore. "
                    "Please make sure source and target networks have the same prefix."
                    "For more info on naming, please see https://mxnet.io/api/python/docs/tutorials/packages/gluon/blocks/naming.html"
                )
                continue
            fitting.append((self[name], self[name]._hg_load_check(value, ctx, cast_dtype, dtype_source)))
        # only now: a load that fails changes nothing
        take_together([(p, p._load_init(value, ctx)) for p, value in fitting])
