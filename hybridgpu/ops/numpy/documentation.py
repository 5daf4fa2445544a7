# SPDX-License-Identifier: Apache-2.0
"""The documentation of functions of np and npx, with their arguments and results, made from definitions and records."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from ..functions import registered
from ..params import REQUIRED
from ..record import Operator
from .application import NPX, falls_back, is_on_host
from .arguments import ARGUMENTS

__all__ = ["argument", "documentation", "record_of", "signature_of"]

_SECTION = re.compile(r"^(Args|Returns|Raises):\n", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w+): (.*(?:\n     .*)*)", re.MULTILINE)
_PREFIXES = {"image": ("_image_", "_npx__image_"), "random": ("_npi_", "_npx_")}
#: what a function of np does with arguments that no operator takes
_ON_HOST = "Computed on the host by NumPy's function of this name, which has the arguments, from the values of arrays."
_FALLS_BACK = "Arguments that the operators do not take go to NumPy's own function, on the host, without gradients."


def record_of(name: str, table: dict[str, Callable[..., Any]]) -> Operator | None:
    """The operator of a function's name, or of another name of the same definition: its attributes are arguments."""
    definition = table[name]
    for other in (name, *(n for n, d in table.items() if d is definition)):
        part, _, short = other.rpartition(".")
        for prefix in _PREFIXES.get(part, ("_npx_",) if table is NPX else ("_np_", "_npi_")):
            if (record := registered(prefix + short)) is not None:
                return record
    return None


def signature_of(definition: Callable[..., Any]) -> inspect.Signature:
    """A definition's signature without the application."""
    own = inspect.signature(definition)
    return own.replace(parameters=list(own.parameters.values())[1:])


def argument(parameter: inspect.Parameter, record: Operator | None) -> tuple[str, str]:
    """The type of an argument and what it is; '' where nothing says it."""
    kind, text = ARGUMENTS.get(parameter.name, ("", ""))
    attribute = None if record is None else record.params.get(parameter.name)
    if attribute is not None and "Array" not in kind:  # else an operand whose numbers are an attribute
        text = attribute.doc or text
        kind = kind or attribute.annotation
    if parameter.annotation not in (parameter.empty, "Any", Any):
        kind = str(parameter.annotation)
        text = text if "None" in kind else text.partition("; None")[0]
    if kind and parameter.default is None and "None" not in kind and kind != "Any":
        kind = f"{kind} | None"
    return kind, text


def documentation(name: str, table: dict[str, Callable[..., Any]], array: str) -> str:
    """The text of ``help()``.

    Args:
        name: of the function, such as 'linalg.norm'.
        table: ``NP`` or ``NPX``.
        array: what operands are called, 'ndarray' or 'Symbol'.
    """
    definition = table[name]
    text = inspect.cleandoc(definition.__doc__ or "")
    if is_on_host(definition):
        return f"{text}\n\n{_ON_HOST}\n"
    record, signature = record_of(name, table), signature_of(definition)
    if record is not None and text.startswith("numpy."):  # a family's words: the operator's own come first
        text = f"{record.doc.partition(chr(10))[0]}\n\n{text}"
    text, *sections = _SECTION.split(text)
    written = dict(zip(sections[::2], sections[1::2], strict=True))
    lines = [text.rstrip()]
    if falls_back(definition):
        lines += ["", _FALLS_BACK]
    own = dict(_ENTRY.findall(written.pop("Args", "")))
    operator = getattr(definition, "operator", None)  # whose lines have types and defaults
    whole = {}
    if operator is not None:
        whole = {n: own[n] for n in operator.params if n in own} | {
            n: f"{array}. {own[n]}" for n in operator.inputs if n in own
        }
    entries = [
        f"    {p.name}: {whole[p.name]}" if p.name in whole else _line(p, record, array, own)
        for p in signature.parameters.values()
    ]
    if any(entries):
        lines += ["", "Args:", *filter(None, entries)]
    lines += ["", "Returns:", written.pop("Returns", f"    {_returned(signature, record, array)}").rstrip()]
    for title, rest in written.items():
        lines += ["", f"{title}:", rest.rstrip()]
    return "\n".join(lines) + "\n"


def _line(parameter: inspect.Parameter, record: Operator | None, array: str, own: dict[str, str]) -> str:
    """The line about an argument; ``own`` has what the definition says of some. '' for keywords that it says nothing of."""
    kind, text = argument(parameter, record)
    text = own.get(parameter.name, text)
    if parameter.kind is parameter.VAR_KEYWORD:
        return f"    {parameter.name}: {text}" if parameter.name in own else ""
    kind = kind.replace("Array", array).replace(f"{array}Like", "array_like")
    words = [f"{kind}," if kind and parameter.default is not parameter.empty else kind and f"{kind}."]
    if parameter.default is not parameter.empty:
        words.append(f"default {parameter.default!r}.")
    attribute = None if record is None else record.params.get(parameter.name)
    if attribute is not None and attribute.default is REQUIRED and parameter.default is None:
        words[-1] = "required."
    return " ".join(filter(None, (f"    {parameter.name}:", *words, text)))


def _returned(signature: inspect.Signature, record: Operator | None, array: str) -> str:
    kind = signature.return_annotation
    words = {"ArrayOrNumber": f"{array} or number", "ArrayOrList": f"{array}, or list of them"}
    text = array if kind in (signature.empty, "Any", Any) else words.get(kind) or str(kind).replace("Any", array)
    if record is not None:
        text += " of the shape of the first array" if record.same_shape else ""
        text += ". No gradient goes through it" if not record.differentiable else ""
    return f"{text}."
