# SPDX-License-Identifier: Apache-2.0
"""Texts with dimensions in them: marks, which size_templates.py fills in, and literals of kernels."""

from __future__ import annotations

from .dims import MARK, Dim, dim_of_mark, symbolic

__all__ = ["is_literal", "literal_text", "report_text", "with_literals"]


def report_text(x: object, spec: str = "") -> str:
    """``repr(x)`` or ``format(x, spec)`` for reports, on which nothing depends: a Dim's is a mark, see size_templates.py."""
    if type(x) is tuple and symbolic[0]:
        return f"({', '.join(map(report_text, x))}{',' if len(x) == 1 else ''})"
    if not issubclass(type(x), Dim):
        return format(x, spec) if spec else repr(x)
    assert isinstance(x, (int, float))
    if x.scope.closed:  # type: ignore[union-attr]
        return format(x.value, spec) if spec else repr(x.value)  # type: ignore[union-attr]
    return f"\x02{x.scope.mark(x)}:{spec}\x03"  # type: ignore[union-attr]


def literal_text(x: int) -> str:
    """``str(x)`` for text that :func:`with_literals` completes, if it is not dropped before."""
    return report_text(x)


def is_literal(text: str) -> bool:
    """Whether a text is a whole number, or a mark for one, rather than the name of an argument."""
    return text.isdigit() or MARK.fullmatch(text) is not None


def with_literals(text: str) -> str:
    """A text of which every size has one of its own: it holds the numbers for which there are marks."""
    if "\x02" not in text:
        return text
    return MARK.sub(lambda mark: format(dim_of_mark(mark)._plain(), mark[3]), text)
