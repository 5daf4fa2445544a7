# SPDX-License-Identifier: Apache-2.0
"""Inputs that operators write: which, with what, and when."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple, TypeVar

__all__ = ["When", "Write", "backward_order"]

N = TypeVar("N", bound=Hashable)
V = TypeVar("V", bound=Hashable)


class When(Enum):
    """When an operator writes an input.

    Attributes:
        CALL: at every call.
        RECORDED: at every call of the operator alone; in a graph only if the call is recorded. (MXNet writes it together
            with results that only the gradient reads.)
        BACKWARD: when the operator's backward pass runs, so never if no gradient of its inputs is wanted.
    """

    CALL = 0
    RECORDED = 1
    BACKWARD = 2


class Write(NamedTuple):
    """An input that changes: its new value is ``keep`` of the old one and ``1 - keep`` of a result of the lowering.

    So are running averages written, of which several calls between two backward passes all count.
    """

    target: int
    result: int
    keep: float = 0.0
    when: When = When.CALL


_ADDED_ONE_BY_ONE = 8  #: gradients of a value from which on they are added so: MXNET_EXEC_INPLACE_GRAD_SUM_CAP of MXNet


def backward_order(
    order: Sequence[N],
    reads: Callable[[N], Iterable[V]],
    gives: Callable[[N], Iterable[V]],
    variables: Iterable[V],
) -> list[N]:
    """The operators whose backward passes run, in MXNet's order, which several writes of one array show.

    MXNet goes depth first through the graph of the gradients, from those of the variables: before an operator's backward
    pass come those of everything that reads its results, the last reader first. Gradients of a value with many readers
    are added one by one, for which each waits for those before it.

    Args:
        order: the operators, operands first.
        reads: the values that an operator reads, as far as its backward pass computes their gradients.
        gives: the results of an operator.
        variables: values whose gradients are wanted, in order.
    """
    variables = list(variables)
    readers: dict[V, list[N]] = {}
    for node in reversed(order):
        for value in reads(node):
            readers.setdefault(value, []).append(node)
    summed = {*variables, *(v for node in order for v in gives(node))}
    waits: dict[N, list[tuple[V, int]]] = {}  #: for how many of a value's readers
    for value, nodes in readers.items():
        if len(nodes) >= _ADDED_ONE_BY_ONE and value in summed:
            for k, node in enumerate(nodes):
                waits.setdefault(node, []).append((value, k))
    seen = dict.fromkeys(readers, 0)

    def readers_of(values: Iterable[V]) -> Iterator[N]:
        return (n for v in values for n in readers.get(v, ()))

    def before(node: N) -> Iterator[N]:
        yield from readers_of(gives(node))
        for value, count in waits.get(node, ()):
            while seen[value] < count:
                seen[value] += 1
                yield readers[value][seen[value] - 1]

    visited: list[N] = []
    met: set[N] = set()
    for variable in variables:
        path: list[tuple[list[N], Iterator[N]]] = [([], readers_of([variable]))]
        while path:
            finished, left = path[-1]
            for node in left:
                if node not in met:
                    met.add(node)
                    path.append(([node], before(node)))
                    break
            else:
                path.pop()
                visited += finished
    return visited
