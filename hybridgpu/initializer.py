# SPDX-License-Identifier: Apache-2.0
"""Initial values of parameters (``mx.init``).

An initializer is called with a description of the parameter and the array to fill. Which of its
methods runs is decided by the end of the parameter's name (weight, bias, gamma …), unless the
parameter has an initializer of its own.
"""

from __future__ import annotations

import json
import logging
import math
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import registry
from .core.source_location import user_frame
from .hints.arguments import TellsArguments
from .hints.misplaced import about_initializer

__all__ = [
    "Bilinear", "Constant", "FusedRNN", "InitDesc", "Initializer", "LSTMBias", "Load", "MSRAPrelu", "Mixed", "Normal", "One",
    "Orthogonal", "Uniform", "Xavier", "Zero", "alias", "create", "register",
]  # fmt: skip


class InitDesc(str):
    """A parameter's name with its attributes and the initializer used for those without one."""

    attrs: dict[str, Any]
    global_init: Any

    def __new__(cls, name: str, attrs: dict[str, Any] | None = None, global_init: Any = None) -> InitDesc:
        self = super().__new__(cls, name)
        self.attrs, self.global_init = attrs or {}, global_init
        return self


class Initializer(TellsArguments):
    """Base class; subclasses define ``_init_weight(name, array)``."""

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs
        self._verbose = False
        self._print_func: Callable[[Any], str] | None = None

    def set_verbosity(self, verbose: bool = False, print_func: Callable[[Any], str] | None = None) -> Initializer:
        """Log a statistic of every array that is initialised; by default its root mean square."""
        self._verbose = verbose
        self._print_func = print_func or (lambda x: str(np.linalg.norm(x.asnumpy()) / math.sqrt(x.size)))
        return self

    def _hg_report(self, name: str, how: Any, arr: Any) -> None:
        if self._verbose and self._print_func:
            logging.info("Initialized %s as %s: %s", name, how, self._print_func(arr))

    def dumps(self) -> str:
        """JSON text of the class and its arguments."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self._kwargs.items())})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Initializer) and self._kwargs == other._kwargs

    __hash__ = object.__hash__

    def __call__(self, desc: Any, arr: Any) -> None:
        """Fill ``arr`` as the name in ``desc`` (an ``InitDesc``; a plain string is deprecated) asks for.

        Raises:
            ValueError: a name that says nothing about how to initialise.
        """
        if not isinstance(desc, InitDesc):
            self._hg_by_plain_name(desc, arr)
            return
        if desc.global_init is None:
            desc.global_init = self
        init = desc.attrs.get("__init__", "")
        if hasattr(init, "asnumpy") and init.size > 1:
            text = "The truth value of an NDArray with multiple elements is ambiguous."
            raise ValueError(text + about_initializer(init))
        if init:
            create(init)._init_weight(desc, arr)
            self._hg_report(desc, init, arr)
            return
        for ending, method in _BY_ENDING:
            if desc.endswith(ending):
                getattr(self, method)(desc, arr)
                self._hg_report(desc, ending, arr)
                return
        self._init_default(desc, arr)

    def _hg_by_plain_name(self, name: Any, arr: Any) -> None:
        """What a name without a description means: also the statistics and layers of old symbols."""
        warnings.warn(
            "Calling initializer with init(str, NDArray) has been deprecated."
            "please use init(mx.init.InitDesc(...), NDArray) instead.",
            DeprecationWarning,
            stacklevel=user_frame(),
        )
        if not isinstance(name, str):
            raise TypeError("name must be string")
        if not hasattr(arr, "asnumpy"):
            raise TypeError("arr must be NDArray")
        if name.startswith("upsampling"):
            self._init_bilinear(name, arr)
        elif name.startswith("stn_loc") and name.endswith("weight"):
            self._init_zero(name, arr)
        elif name.startswith("stn_loc") and name.endswith("bias"):
            self._init_loc_bias(name, arr)
        else:
            for ending, method in (*_BY_ENDING[:4], *_STATISTICS, *_BY_ENDING[4:6]):
                if name.endswith(ending):
                    getattr(self, method)(name, arr)
                    return
            self._init_default(name, arr)

    def _init_bilinear(self, name: str, arr: Any) -> None:
        """A kernel (out, in, height, width) that upsamples by interpolation."""
        shape = arr.shape
        f = math.ceil(shape[3] / 2.0)
        c = (2 * f - 1 - f % 2) / (2.0 * f)
        y, x = np.mgrid[: shape[2], : shape[3]]
        _fill(arr, np.broadcast_to((1 - np.abs(x / f - c)) * (1 - np.abs(y / f - c)), shape))

    def _init_loc_bias(self, name: str, arr: Any) -> None:
        assert arr.shape[0] == 6
        _fill(arr, [1.0, 0, 0, 0, 1.0, 0])

    def _init_quantized_weight(self, name: str, arr: Any) -> None:
        from .ndarray import random

        _fill(arr, random.randint(-127, 127, shape=arr.shape).asnumpy())

    def _init_zero(self, name: str, arr: Any) -> None:
        _set(arr, 0.0)

    def _init_one(self, name: str, arr: Any) -> None:
        _set(arr, 1.0)

    _init_bias = _init_beta = _init_quantized_bias = _init_zero
    _init_gamma = _init_one

    def _init_weight(self, name: str, arr: Any) -> None:
        raise NotImplementedError("Must override it")

    def _init_default(self, name: str, arr: Any) -> None:
        raise ValueError(
            f"Unknown initialization pattern for {name}. "
            'Default initialization is now limited to "weight", "bias", "gamma" (1.0), and "beta" (0.0).'
            "Please use mx.sym.Variable(init=mx.init.*) to set initialization pattern"
        )


#: the end of a name, and the method that fills such parameters
_BY_ENDING = (
    ("weight", "_init_weight"),
    ("bias", "_init_bias"),
    ("gamma", "_init_gamma"),
    ("beta", "_init_beta"),
    ("min", "_init_zero"),
    ("max", "_init_one"),
    ("weight_quantize", "_init_quantized_weight"),
    ("bias_quantize", "_init_quantized_bias"),
)
_STATISTICS = (
    ("moving_mean", "_init_zero"),
    ("moving_var", "_init_one"),
    ("moving_inv_var", "_init_zero"),
    ("moving_avg", "_init_zero"),
)

_register = registry.get_register_func(Initializer, "initializer")
alias = registry.get_alias_func(Initializer, "initializer")
_create = registry.get_create_func(Initializer, "initializer")


def register(klass: Any) -> Any:
    """Make an initializer known by its lower-cased name."""
    return _register(klass)


def create(init: Any, **kwargs: Any) -> Any:
    """An initializer from an instance, a name or a ``dumps()`` text.

    Raises:
        AssertionError: an unknown name, or something else.
    """
    if not isinstance(init, (str, dict, Initializer, Load, Mixed)) and (instead := about_initializer(init)):
        raise AssertionError(f"initializer must be of string type{instead}")
    # Load and Mixed choose among initializers; they may stand wherever an initializer does
    return init if isinstance(init, (Load, Mixed)) else _create(init, **kwargs)


def _set(arr: Any, value: Any) -> None:
    """Write into all of an array; a scalar of np has no elements to slice."""
    arr[slice(None) if arr.shape else ()] = value


def _fill(arr: Any, values: Any) -> None:
    _set(arr, np.asarray(values, dtype=arr.dtype).reshape(arr.shape))


def _draw(kind: str, arr: Any, *args: float) -> None:
    from .ndarray import random

    getattr(random, kind)(*args, shape=arr.shape, dtype="float32").astype(arr.dtype).as_in_context(arr.context).copyto(
        arr
    )


@register
@alias("zeros")
class Zero(Initializer):
    """Zeros."""

    def __init__(self) -> None:
        super().__init__()

    _init_weight = Initializer._init_zero


@register
@alias("ones")
class One(Initializer):
    """Ones."""

    def __init__(self) -> None:
        super().__init__()

    _init_weight = Initializer._init_one


@register
class Constant(Initializer):
    """One value, or an array of values."""

    def __init__(self, value: Any) -> None:
        super().__init__(value=value)
        self.value = value

    def _init_weight(self, name: str, arr: Any) -> None:
        _set(arr, self.value)

    def dumps(self) -> str:
        value = self.value
        if hasattr(value, "asnumpy"):
            value = value.asnumpy()
        self._kwargs["value"] = value if np.isscalar(value) else np.asarray(value).tolist()
        return super().dumps()


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

    _init_weight = Initializer._init_bilinear


@register
class LSTMBias(Initializer):
    """Zeros, with ``forget_bias`` in the forget gate's quarter."""

    def __init__(self, forget_bias: float = 1.0) -> None:
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, name: str, arr: Any) -> None:
        _set(arr, 0.0)
        quarter = arr.shape[0] // 4
        arr[quarter : 2 * quarter] = self.forget_bias


_GATES = {"rnn_relu": ("",), "rnn_tanh": ("",), "lstm": ("_i", "_f", "_c", "_o"), "gru": ("_r", "_z", "_o")}


@register
class FusedRNN(Initializer):
    """Fills the one vector of a recurrent operator gate by gate.

    Args:
        init: for every gate's weights and biases; None means the initializer of the whole network.
        num_hidden, num_layers, mode, bidirectional: as for the operator.
        forget_bias: both biases of an LSTM's forget gate.
    """

    def __init__(
        self,
        init: Any,
        num_hidden: int,
        num_layers: int,
        mode: str,
        bidirectional: bool = False,
        forget_bias: float = 1.0,
    ) -> None:
        if isinstance(init, str):
            init = create(init)
        super().__init__(
            init=None if init is None else init.dumps(),
            num_hidden=num_hidden,
            num_layers=num_layers,
            mode=mode,
            bidirectional=bidirectional,
            forget_bias=forget_bias,
        )
        self._init = init
        self._num_hidden, self._num_layers, self._mode = num_hidden, num_layers, mode
        self._hg_directions = ("l", "r") if bidirectional else ("l",)
        self._forget_bias = forget_bias

    def _hg_blocks(self, size: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Name and shape of every gate's weights, then of its biases, as they lie in the vector."""
        hidden, gates, directions = self._num_hidden, _GATES[self._mode], self._hg_directions
        per_row = size // len(directions) // hidden // len(gates)
        inputs = per_row - (self._num_layers - 1) * (hidden + len(directions) * hidden + 2) - hidden - 2
        places = [(layer, d) for layer in range(self._num_layers) for d in directions]
        for layer, d in places:
            columns = {"i2h": inputs if layer == 0 else hidden * len(directions), "h2h": hidden}
            for kind, n in columns.items():
                for gate in gates:
                    yield f"{d}{layer}_{kind}{gate}_weight", (hidden, n)
        for layer, d in places:
            for kind in ("i2h", "h2h"):
                for gate in gates:
                    yield f"{d}{layer}_{kind}{gate}_bias", (hidden,)

    def _init_weight(self, desc: Any, arr: Any) -> None:
        from .ndarray import zeros

        parts = []
        for name, shape in self._hg_blocks(arr.size):
            block = zeros(shape, dtype=arr.dtype)
            if self._mode == "lstm" and name.endswith("_f_bias"):
                block[:] = self._forget_bias
            else:
                (desc.global_init if self._init is None else self._init)(
                    InitDesc(name, global_init=desc.global_init), block
                )
            parts.append(block.asnumpy().reshape(-1))
        _fill(arr, np.concatenate(parts))


class _Chooser:
    """What Load and Mixed share: they may be given where an initializer is, also to ``net.initialize``."""

    def _init_weight(self, desc: Any, arr: Any) -> None:
        self(desc, arr)

    def _own(self, desc: Any) -> Any:
        """The initializer that a parameter was made with, None if it is left to this object."""
        own = getattr(desc, "attrs", {}).get("__init__")
        return None if own is None or own is self else own

    def __call__(self, name: Any, arr: Any) -> None:
        raise NotImplementedError


class Load(_Chooser):
    """Values by name from a file or a dict; ``arg:`` and ``aux:`` are dropped from names.

    Args:
        param: the file's name, or name -> array.
        default_init: for names that are not there.
        verbose: log where each parameter came from.
    """

    def __init__(self, param: Any, default_init: Any = None, verbose: bool = False) -> None:
        if isinstance(param, str):
            from .ndarray import load

            param = load(param)
        assert isinstance(param, dict)
        self.param = {k[4:] if k.startswith(("arg:", "aux:")) else k: v for k, v in param.items()}
        self.default_init, self.verbose = default_init, verbose

    def __call__(self, name: Any, arr: Any) -> None:
        """Copy the value of this name, or call ``default_init``.

        Raises:
            AssertionError: another shape, or neither a value nor ``default_init``.
        """
        loaded = self.param.get(str(name))
        if loaded is not None:
            assert arr.shape == loaded.shape, (
                f"Parameter {name} cannot be initialized from loading. "
                f"Shape mismatch, target {arr.shape} vs loaded {loaded.shape}"
            )
            arr[:] = loaded
        elif self._own(name) is not None:
            create(self._own(name))._init_weight(name, arr)
        else:
            assert self.default_init is not None, (
                f"Cannot Initialize {name}. Not found in loaded param and no default Initializer is provided."
            )
            create(self.default_init)(InitDesc(name), arr)
        if self.verbose:
            logging.info("Initialized %s by %s", name, "default" if loaded is None else "loading")


class Mixed(_Chooser):
    """The first pattern that matches the name decides.

    Args:
        patterns: regular expressions, matched from the start of the name.
        initializers: one for each.
    """

    def __init__(self, patterns: list[str], initializers: list[Any]) -> None:
        assert len(patterns) == len(initializers)
        self.map = [(re.compile(p), init) for p, init in zip(patterns, initializers, strict=True)]

    def __call__(self, name: Any, arr: Any) -> None:
        """Fill ``arr`` by the initializer of the first pattern that matches.

        Raises:
            ValueError: none matches.
        """
        if self._own(name) is not None:
            create(self._own(name))._init_weight(name, arr)
            return
        for pattern, init in self.map:
            if pattern.match(name):
                create(init)(InitDesc(name), arr)
                return
        raise ValueError(
            f'Parameter name {name} did not match any pattern. Consider add a ".*" pattern at the and with default Initializer.'
        )
