# SPDX-License-Identifier: Apache-2.0
"""Errors for unknown arguments: the closest one that the class or operator takes."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from ..core.source_location import located_hint

__all__ = ["SPELLED", "TellsArguments", "about_value", "add_taken", "closest", "taken_by", "telling", "unexpected"]

_PACKAGE = __name__.partition(".")[0] + "."

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: arguments of operators and functions elsewhere -> here, of which the first that is taken is told
SPELLED = {
    "dim": ("axis", "axes"),
    "dims": ("axes", "axis"),
    "axis": ("dim", "axes"),
    "axes": ("axis",),
    "keepdim": ("keepdims",),
    "kernel_size": ("kernel",),
    "pool_size": ("kernel",),
    "strides": ("stride",),
    "padding": ("pad",),
    "dilation": ("dilate",),
    "groups": ("num_group",),
    "channels": ("num_filter",),
    "units": ("num_hidden",),
    "num_classes": ("depth",),
    "sections": ("num_outputs",),
    "size": ("shape",),
    "shape": ("size",),
    "min": ("a_min and a_max, of which one may be None,",),
    "max": ("a_min and a_max, of which one may be None,",),
    "rate": ("p",),
    "epsilon": ("eps",),
    "negative_slope": ("slope",),
    "repeats": ("reps",),
    "device": ("ctx",),
    "mean": ("loc",),
    "mu": ("loc",),
    "std": ("scale",),
    "sigma": ("scale",),
    "training": ("mode='always'",),
}


def taken_by(klass: type, hidden: Sequence[str] = ()) -> list[str]:
    """Names of what a class and those above it take when made, but not those in ``hidden``.

    Classes whose names begin with an underscore have arguments for those below them and are left out.
    """
    taken: dict[str, None] = {}
    for kind in klass.__mro__[:-1]:
        if "__init__" in kind.__dict__ and (kind is klass or not kind.__name__.startswith("_")):
            parameters = inspect.signature(kind.__dict__["__init__"]).parameters.values()
            taken |= dict.fromkeys(p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL))
    return [n for n in taken if n != "self" and n not in hidden]


def closest(name: str, names: Iterable[str], spelled: Mapping[str, Sequence[str]]) -> str:
    """What to write instead of the argument ``name``, '' where nothing is like it.

    Args:
        names: the arguments that there are.
        spelled: what other libraries call it -> what to write; of these the first that begins with one of ``names``.
    """
    import difflib  # of use to errors alone

    names = list(names)
    for text in spelled.get(name, ()):
        if re.match(r"\w+", text)[0] in names:  # type: ignore[index]
            return text
    near = difflib.get_close_matches(name, names, 1, 0.7)
    return near[0] if near else ""


def unexpected(klass: type, name: str, spelled: Mapping[str, Sequence[str]], hidden: Sequence[str] = ()) -> TypeError:
    """Python's error for an argument that a class does not take, with what to write instead."""
    names = taken_by(klass, hidden)
    text = closest(name, names, spelled)
    instead = f"Write {text} instead; " if text else ""
    return TypeError(
        f"{klass.__name__}.__init__() got an unexpected keyword argument '{name}'\n"
        + located_hint(f"{instead}{klass.__name__} takes {', '.join(names)}.")
    )


#: arguments of schedulers, metrics, initializers, iterators and modules elsewhere -> here
_OF_CLASSES = {
    "lr": ("base_lr",),
    "learning_rate": ("base_lr",),
    "step_size": ("step",),
    "milestones": ("step",),
    "gamma": ("factor",),
    "T_max": ("max_update",),
    "eta_min": ("final_lr",),
    "k": ("top_k",),
    "gain": ("magnitude",),
    "std": ("sigma",),
    "ctx": ("context",),
    "drop_last": ("last_batch_handle='discard'",),
}


class TellsArguments:
    """Base of classes whose error for an argument that they do not take says which ones they do."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        make = cls.__init__
        if kwargs and getattr(make, "__module__", "").startswith(_PACKAGE):  # else a user's
            parameters = inspect.signature(make).parameters
            if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
                for name in kwargs:
                    if name not in parameters:
                        raise unexpected(cls, name, _OF_CLASSES)
        return super().__new__(cls)


def add_taken(error: TypeError, function: str, names: Sequence[str], given: Iterable[str]) -> None:
    """End Python's error with what a function takes, where one of the names ``given`` in the call is none of its own."""
    for name in given:
        if name not in names and f"unexpected keyword argument '{name}'" in str(error):
            text = closest(name, names, SPELLED)
            instead = f"Write {text} instead; " if text else ""
            taken = located_hint(f"{instead}{function} takes {', '.join(names)}.")
            error.args = (f"{error}\n{taken}",)


def telling(function: _Function) -> _Function:
    """Decorator: Python's error for an argument that a function does not take says what to write instead."""
    names = [n for n in inspect.signature(function).parameters if n != "self"]

    @functools.wraps(function)
    def method(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            return function(*args)
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            add_taken(error, function.__name__, names, kwargs)
            raise

    return cast("_Function", method)


_LEAKY = "F.LeakyReLU(x, act_type={0!r}), or {1} as a layer"
#: names of activations that ``Activation`` lacks -> what to write
_ACTIVATIONS = {
    "gelu": _LEAKY.format("gelu", "nn.GELU()"),
    "elu": _LEAKY.format("elu", "nn.ELU()"),
    "selu": _LEAKY.format("selu", "nn.SELU()"),
    "leaky": _LEAKY.format("leaky", "nn.LeakyReLU(alpha)"),
    "leaky_relu": _LEAKY.format("leaky", "nn.LeakyReLU(alpha)"),
    "prelu": _LEAKY.format("prelu", "nn.PReLU()"),
    "swish": "x * F.sigmoid(x), or nn.Swish() as a layer",
    "silu": "x * F.sigmoid(x), or nn.Swish() as a layer",
    "softplus": "'softrelu'",
    "softmax": "F.softmax(x), or nn.HybridLambda('softmax') as a layer",
    "log_softmax": "F.log_softmax(x), or nn.HybridLambda('log_softmax') as a layer",
}


def about_value(name: str, value: Any, attributes: Mapping[str, Any]) -> str:
    """A line for the error about a value that an attribute of an operator cannot have, or ''."""
    parts = value if isinstance(value, (list, tuple)) else (value,)
    if any(hasattr(part, "list_arguments") for part in parts):
        text = f"Values are not known while tracing: {name} has to be known, such as numbers."
    elif any(hasattr(part, "asnumpy") for part in parts):
        text = f"{name} is no array: write x.asscalar() or x.item() for the number in one."
        if name in ("axis", "dim"):  # the second of the arrays that should be a list
            text = f"{name} is no array: several arrays are given as one list, [a, b]."
    elif name == "act_type" and value in _ACTIVATIONS:
        text = f"Write {_ACTIVATIONS[value]}."
    elif name == "dtype" and isinstance(value, int) and isinstance(attributes.get("shape"), int):
        text = f"Write the extents as one tuple, ({attributes['shape']}, {value})."
    else:
        return ""
    return f"\n{located_hint(text)}"
