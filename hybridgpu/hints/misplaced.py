# SPDX-License-Identifier: Apache-2.0
"""Errors for values in the wrong place of a call of Gluon's: MXNet's words, then what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..core.source_location import located_hint
from .arguments import taken_by

__all__ = [
    "about_child",
    "about_function",
    "about_initializer",
    "about_learned",
    "grad_req_error",
    "no_mapping",
    "no_optimizer",
    "no_prefix",
]

_PACKAGE = __name__.partition(".")[0] + "."


def _line(text: str) -> str:
    return f"\n{located_hint(text)}" if text else ""


def _made(kind: type) -> str:
    return f"{kind.__name__}(), which makes one"


def no_prefix(kind: type, prefix: Any) -> AttributeError:
    """Where a block is given something else than text as its prefix, such as the blocks of a container."""
    own = f"The first argument is the prefix of names; {kind.__name__} takes {', '.join(taken_by(kind))}."
    text = "A container takes its blocks by net.add(block, ...)." if hasattr(kind, "add") else own
    # a block becomes an attribute first, for which nothing is ready
    lacking = (kind, "_children") if hasattr(prefix, "register_child") else (type(prefix), "endswith")
    return AttributeError(f"'{lacking[0].__name__}' object has no attribute '{lacking[1]}'{_line(text)}")


def about_child(value: Any, is_block: bool) -> str:
    """A line for the error about what cannot be a child of a block."""
    if isinstance(value, (list, tuple)):
        text = "Write net.add(*blocks)."
    elif isinstance(value, type):
        text = f"Write {_made(value)}."
    elif isinstance(value, str):
        text = f"Write nn.Activation({value!r}), or nn.HybridLambda({value!r}) for an operator."
    elif callable(value) and not is_block:
        name = getattr(value, "__name__", "")
        text = "Write nn.HybridLambda(lambda F, x: ...), or nn.HybridLambda(name) for an operator."
        if name.isidentifier():
            text = f"Write nn.HybridLambda(lambda F, x: ...), or nn.HybridLambda({name!r}) for an operator."
    else:
        return ""
    return _line(text)


def about_function(error: TypeError, function: Callable[..., Any], num_inputs: int, with_f: bool) -> None:
    """Where a Lambda's function could not be called with what it gets: end the error with what that is."""
    if (getattr(function, "__module__", None) or "").startswith(_PACKAGE):
        if with_f:  # which no operator takes; what it says of itself is beside the point
            text = f"Write nn.HybridLambda({function.__name__!r}): an operator is given by its name."
            words = str(error).partition("\n")[0]
            error.args = (f"{words}{_line(text)}",)
        return
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    trace = error.__traceback__
    if code is None:  # written in C
        return
    while trace is not None:
        if trace.tb_frame.f_code is code:  # it was called, and is wrong inside
            return
        trace = trace.tb_next
    inputs = "x" if num_inputs == 1 else ", ".join(f"x{k}" for k in range(num_inputs))
    text = f"Write lambda {inputs}: ..., since the function of a Lambda gets the inputs alone."
    if with_f:
        text = f"Write lambda F, {inputs}: ..., since the function of a HybridLambda gets F before the inputs."
    error.args = (f"{error}{_line(text)}",)


def about_initializer(value: Any) -> str:
    """A line for the error about what is no initializer, or ''."""
    if isinstance(value, type):
        return _line(f"Write {_made(value)}.")
    if isinstance(value, (int, float)):
        return _line(f"Write mx.init.Constant({value!r}).")
    if hasattr(value, "asnumpy") or hasattr(value, "__array__"):
        return _line("Write mx.init.Constant(array).")
    if hasattr(value, "device_typeid"):
        return _line(f"Write ctx=mx.{value.device_type}({value.device_id}): the first argument is an initializer.")
    return ""


def grad_req_error(req: Any) -> AssertionError:
    """Where a parameter's ``grad_req`` is none; a shape or False is meant for something."""
    text = ""
    if isinstance(req, (tuple, list)) or (isinstance(req, int) and not isinstance(req, bool)):
        text = f"Write shape={req}: the second argument of Parameter is grad_req."
    elif isinstance(req, bool):
        text = f"Write {'write' if req else 'null'!r}."
    return AssertionError(f"grad_req must be one of 'write', 'add', or 'null', but got '{req}'{_line(text)}")


def about_learned(params: Any, is_block: bool, is_parameter: bool) -> str:
    """A line for the error of a Trainer about what is neither a list nor a dictionary of parameters."""
    if is_block:
        return _line("Write net.collect_params().")
    if is_parameter:
        return _line("Write [parameter].")
    if isinstance(params, Iterable) and not isinstance(params, (str, list, tuple)):
        return _line("Write list(params), or net.collect_params().")
    return _line("Write net.collect_params(), which has names and parameters.")


def no_optimizer(optimizer: Any) -> AttributeError:
    """Where an optimizer is neither a name nor an Optimizer."""
    if isinstance(optimizer, type):
        text = f"Write {optimizer.__name__.lower()!r}, or {_made(optimizer)}."
        return AttributeError(f"type object '{optimizer.__name__}' has no attribute 'lower'{_line(text)}")
    text = "Write a name, such as 'sgd', or an Optimizer of mx.optimizer."
    return AttributeError(f"'{type(optimizer).__name__}' object has no attribute 'lower'{_line(text)}")


def no_mapping(arguments: Any) -> TypeError | None:
    """Where a Trainer's ``optimizer_params`` are no dictionary."""
    if isinstance(arguments, Mapping):
        return None
    text = "Write a dictionary, such as {'learning_rate': 0.1}."
    if isinstance(arguments, (int, float)):
        text = f"Write {{'learning_rate': {arguments!r}}}."
    return TypeError(
        f"create_optimizer() argument after ** must be a mapping, not {type(arguments).__name__}{_line(text)}"
    )
