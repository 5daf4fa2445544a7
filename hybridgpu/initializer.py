# SPDX-License-Identifier: Apache-2.0
"""Initial values of parameters (``mx.init``).

An initializer is called with a description of the parameter and the array to fill. Which of its
methods runs is decided by the end of the parameter's name (weight, bias, gamma …), unless the
parameter has an initializer of its own.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

__all__ = [
    "Bilinear", "Constant", "InitDesc", "Initializer", "LSTMBias", "Load", "MSRAPrelu", "Mixed", "Normal", "One", "Orthogonal",
    "Uniform", "Xavier", "Zero", "create", "register",
]  # fmt: skip

_REGISTRY: dict[str, type[Any]] = {}
_Any = TypeVar("_Any")


class InitDesc(str):
    """A parameter's name with its attributes and the initializer used for those without one."""

    attrs: dict[str, Any]
    global_init: Any

    def __new__(cls, name: str, attrs: dict[str, Any] | None = None, global_init: Any = None) -> InitDesc:
        self = super().__new__(cls, name)
        self.attrs, self.global_init = attrs or {}, global_init
        return self


def register(klass: type[_Any]) -> type[_Any]:
    """Make an initializer known by its lower-cased name."""
    _REGISTRY[klass.__name__.lower()] = klass
    return klass


def create(init: Any, **kwargs: Any) -> Any:
    """An initializer from an instance, a class, a name or a ``dumps()`` text.

    Raises:
        AssertionError: an unknown name.
    """
    if isinstance(init, Initializer):
        return init
    if isinstance(init, type):
        return init(**kwargs)
    if isinstance(init, str):
        if init.startswith("["):
            name, kwargs = json.loads(init)
        else:
            name = init
        key = name.lower()
        assert key in _REGISTRY, f"{name} is not registered. Please register with initializer.register first"
        return _REGISTRY[key](**kwargs)
    return init


class Initializer:
    """Base class; subclasses define ``_init_weight(name, array)``."""

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs
        self._verbose = False
        self._print_func: Callable[[Any], str] | None = None

    def set_verbosity(self, verbose: bool = False, print_func: Callable[[Any], str] | None = None) -> Initializer:
        """Print a statistic of every array that is initialised."""
        self._verbose = verbose
        self._print_func = print_func or (lambda x: str((np.linalg.norm(x.asnumpy()) / math.sqrt(x.size)).item()))
        return self

    def dumps(self) -> str:
        """JSON text of the class and its arguments."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self._kwargs.items())})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Initializer) and self._kwargs == other._kwargs

    __hash__ = object.__hash__

    def __call__(self, desc: Any, arr: Any) -> None:
        """Fill ``arr`` as the name in ``desc`` asks for.

        Raises:
            ValueError: a name that says nothing about how to initialise.
        """
        if not isinstance(desc, InitDesc):
            desc = InitDesc(desc)
        if desc.global_init is None:
            desc.global_init = self
        init = desc.attrs.get("__init__", "")
        if init:
            create(init)._init_weight(desc, arr)
        else:
            self._by_name(desc, arr)
        if self._verbose and self._print_func:
            print(f"Initialized {desc} as {init or type(self).__name__.lower()}: {self._print_func(arr)}")

    def _by_name(self, name: str, arr: Any) -> None:
        if name.endswith("weight"):
            self._init_weight(name, arr)
        elif name.endswith(("bias", "beta")):
            self._init_bias(name, arr) if name.endswith("bias") else self._init_beta(name, arr)
        elif name.endswith("gamma"):
            self._init_gamma(name, arr)
        elif name.endswith("min"):
            self._init_zero(name, arr)
        elif name.endswith("max"):
            self._init_one(name, arr)
        else:
            self._init_default(name, arr)

    def _init_zero(self, name: str, arr: Any) -> None:
        arr[:] = 0.0

    def _init_one(self, name: str, arr: Any) -> None:
        arr[:] = 1.0

    _init_bias = _init_beta = _init_zero
    _init_gamma = _init_one

    def _init_weight(self, name: str, arr: Any) -> None:
        raise NotImplementedError("Must override it")

    def _init_default(self, name: str, arr: Any) -> None:
        raise ValueError(
            f"Unknown initialization pattern for {name}. "
            'Default initialization is now limited to "weight", "bias", "gamma" (1.0), and "beta" (0.0).'
            "Please use mx.sym.Variable(init=mx.init.*) to set initialization pattern"
        )


def _fill(arr: Any, values: Any) -> None:
    arr[:] = np.asarray(values, dtype=arr.dtype).reshape(arr.shape)


def _draw(kind: str, arr: Any, *args: float) -> None:
    from .ndarray import random

    getattr(random, kind)(*args, shape=arr.shape, dtype="float32").astype(arr.dtype).as_in_context(arr.context).copyto(
        arr
    )


@register
class Zero(Initializer):
    """Zeros."""

    def __init__(self) -> None:
        super().__init__()

    _init_weight = Initializer._init_zero


@register
class One(Initializer):
    """Ones."""

    def __init__(self) -> None:
        super().__init__()

    _init_weight = Initializer._init_one


_REGISTRY["zeros"], _REGISTRY["ones"] = Zero, One


@register
class Constant(Initializer):
    """One value, or an array of values."""

    def __init__(self, value: Any = 0.0) -> None:
        super().__init__(value=value)
        self.value = value

    def _init_weight(self, name: str, arr: Any) -> None:
        arr[:] = self.value

    def dumps(self) -> str:
        value = self._kwargs["value"]
        plain = (
            value.tolist()
            if isinstance(value, np.ndarray)
            else value.asnumpy().tolist()
            if hasattr(value, "asnumpy")
            else value
        )
        return json.dumps([type(self).__name__.lower(), {"value": plain}])


@register
class Uniform(Initializer):
    """Uniform within +-scale."""

    def __init__(self, scale: float = 0.07) -> None:
        super().__init__(scale=scale)
        self.scale = scale

    def _init_weight(self, name: str, arr: Any) -> None:
        _draw("uniform", arr, -self.scale, self.scale)


@register
class Normal(Initializer):
    """Normal with standard deviation ``sigma``."""

    def __init__(self, sigma: float = 0.01) -> None:
        super().__init__(sigma=sigma)
        self.sigma = sigma

    def _init_weight(self, name: str, arr: Any) -> None:
        _draw("normal", arr, 0, self.sigma)


@register
class Orthogonal(Initializer):
    """Orthonormal rows times ``scale`` (Saxe et al., 2013)."""

    def __init__(self, scale: float = 1.414, rand_type: str = "uniform") -> None:
        super().__init__(scale=scale, rand_type=rand_type)
        self.scale, self.rand_type = scale, rand_type

    def _init_weight(self, name: str, arr: Any) -> None:
        from .ndarray import random

        rows, columns = arr.shape[0], int(np.prod(arr.shape[1:]))
        draw = (
            random.uniform(-1.0, 1.0, shape=(rows, columns))
            if self.rand_type == "uniform"
            else random.normal(0.0, 1.0, shape=(rows, columns))
        )
        u, _, v = np.linalg.svd(draw.asnumpy(), full_matrices=False)
        _fill(arr, self.scale * (u if u.shape == (rows, columns) else v))


@register
class Xavier(Initializer):
    """Scaled by the fans in and out (Glorot and Bengio, 2010)."""

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3) -> None:
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        self.rnd_type, self.factor_type, self.magnitude = rnd_type, factor_type, float(magnitude)

    def _init_weight(self, name: str, arr: Any) -> None:
        shape = arr.shape
        if len(shape) < 2:
            raise ValueError(f"Xavier initializer cannot be applied to vector {name}. It requires at least 2D.")
        receptive = float(np.prod(shape[2:])) if len(shape) > 2 else 1.0
        fan_in, fan_out = shape[1] * receptive, shape[0] * receptive
        try:
            factor = {"avg": (fan_in + fan_out) / 2.0, "in": fan_in, "out": fan_out}[self.factor_type]
        except KeyError:
            raise ValueError("Incorrect factor type") from None
        scale = math.sqrt(self.magnitude / factor)
        if self.rnd_type == "uniform":
            _draw("uniform", arr, -scale, scale)
        elif self.rnd_type == "gaussian":
            _draw("normal", arr, 0, scale)
        else:
            raise ValueError("Unknown random type")


@register
class MSRAPrelu(Xavier):
    """Xavier for rectifiers with slope ``slope`` (He et al., 2015)."""

    def __init__(self, factor_type: str = "avg", slope: float = 0.25) -> None:
        super().__init__("gaussian", factor_type, 2.0 / (1 + slope**2))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


@register
class Bilinear(Initializer):
    """A kernel that upsamples by interpolation; 4-d weights."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, name: str, arr: Any) -> None:
        shape = arr.shape
        f = math.ceil(shape[3] / 2.0)
        c = (2 * f - 1 - f % 2) / (2.0 * f)
        y, x = np.mgrid[: shape[2], : shape[3]]
        kernel = (1 - np.abs(x / f - c)) * (1 - np.abs(y / f - c))
        _fill(arr, np.broadcast_to(kernel, shape))


@register
class LSTMBias(Initializer):
    """Zeros, with ``forget_bias`` in the forget gate's quarter."""

    def __init__(self, forget_bias: float = 1.0) -> None:
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, name: str, arr: Any) -> None:
        arr[:] = 0.0
        quarter = arr.shape[0] // 4
        arr[quarter : 2 * quarter] = self.forget_bias


@register
class Load:
    """Values by name from a file or a dict; ``arg:`` and ``aux:`` are dropped from names."""

    def __init__(self, param: Any, default_init: Any = None, verbose: bool = False) -> None:
        if isinstance(param, str):
            from .ndarray import load

            param = load(param)
        assert isinstance(param, dict)
        self.param = {k[4:] if k.startswith(("arg:", "aux:")) else k: v for k, v in param.items()}
        self.default_init, self.verbose = default_init, verbose

    def __call__(self, name: str, arr: Any) -> None:
        if name in self.param:
            assert arr.shape == self.param[name].shape, (
                f"Parameter {name} cannot be initialized from loading. Shape mismatch, target {arr.shape} vs loaded {self.param[name].shape}"
            )
            arr[:] = self.param[name]
            return
        assert self.default_init is not None, (
            f"Cannot Initialize parameter {name}. Not found in loaded param and no default Initializer is provided."
        )
        self.default_init(name, arr)


@register
class Mixed:
    """The first pattern that matches the name decides.

    Raises:
        ValueError: no pattern matches.
    """

    def __init__(self, patterns: list[str], initializers: list[Any]) -> None:
        assert len(patterns) == len(initializers)
        self.map = [(re.compile(p), init) for p, init in zip(patterns, initializers, strict=True)]

    def __call__(self, name: str, arr: Any) -> None:
        for pattern, init in self.map:
            if pattern.match(name):
                init(name, arr)
                return
        raise ValueError(
            f'Parameter name {name} did not match any pattern. Consider adding a ".*" pattern at the and with default Initializer.'
        )
