# SPDX-License-Identifier: Apache-2.0
"""Random graphs of two dimensions, for any extents of these: axes in any order, products of them, rows, joins, slices."""

from __future__ import annotations

import random

from hybridgpu.compiler.ir import Graph, Node, tensor_type
from hybridgpu.compiler.passes.differentiate import differentiate
from hybridgpu.compiler.primitives import builder
from hybridgpu.core.dtypes import f32

__all__ = ["SIZES", "graphs"]

SIZES = (2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 16, 17, 20, 31, 32, 33, 40, 48)  #: of a dimension
_LITERALS = (3, 8, 11, 16, 20)


class _Steps:
    """A value to which steps are added. What is drawn never depends on the extents, so that every size has the same steps."""

    def __init__(self, seed: int, dims: tuple[int, int]) -> None:
        self.rng, self.b, self.dims = random.Random(seed), builder(), dims
        extents = [self.dim(), *(self.extent() for _ in range(self.rng.choice((1, 2, 2, 3))))]
        self.rng.shuffle(extents)
        self.x = self.new(*extents)

    def dim(self) -> int:
        return self.dims[self.rng.random() < 0.3]

    def extent(self) -> int:
        return self.dim() if self.rng.random() < 0.4 else self.rng.choice(_LITERALS)

    def new(self, *shape: int) -> Node:
        return self.b.input(tensor_type(shape, f32))

    def axis(self) -> int:
        return self.rng.randrange(self.x.ndim)

    def widened(self, part: Node) -> Node:
        return self.b.broadcast(part, self.x.shape)

    def transpose(self) -> Node:
        return self.b.transpose(self.x, tuple(self.rng.sample(range(self.x.ndim), self.x.ndim)))

    def product(self) -> Node:
        """By an operand whose batch may be innermost, and whose rows may be the other one's columns."""
        *batch, _, terms = self.x.shape
        count, turned, innermost, n = self.extent(), *(self.rng.random() < 0.5 for _ in "ab"), len(batch)
        matrix = (count, terms) if turned else (terms, count)
        if innermost:
            y = self.b.transpose(self.new(*matrix, *batch), (*range(2, n + 2), 0, 1))
        else:
            y = self.new(*batch, *matrix)
        return self.b.dot(self.x, self._swapped(y) if turned else y) * 0.3

    def products_of_rows(self) -> Node:
        turned = self._swapped(self.x)
        return self.b.dot(*((self.x, turned) if self.rng.random() < 0.5 else (turned, self.x))) * 0.3

    def _swapped(self, x: Node) -> Node:
        return self.b.transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))

    def softmax(self) -> Node:
        axes = (self.axis(),)
        e = self.b.exp(self.x - self.widened(self.b.reduce("amax", self.x, axes, keepdims=True)))
        return e / self.widened(self.b.sum(e, axes, keepdims=True))

    def normalise(self) -> Node:
        axes = tuple(sorted(self.rng.sample(range(self.x.ndim), self.rng.choice((1, 2)))))
        centred = self.x - self.widened(self.b.mean(self.x, axes, keepdims=True))
        return centred * self.widened(self.b.rsqrt(self.b.mean(centred * centred, axes, keepdims=True) + 0.3))

    def reduce(self) -> Node:
        kind = self.rng.choice(("amax", "amin", "mean"))
        axes = (self.axis(),)
        if self.x.ndim < 3:
            return self.x
        return self.b.mean(self.x, axes) if kind == "mean" else self.b.reduce(kind, self.x, axes)

    def merge(self) -> Node:
        k = self.rng.randrange(self.x.ndim - 1)
        shape = self.x.shape
        if self.x.ndim < 3:
            return self.x
        return self.b.reshape(self.x, (*shape[:k], shape[k] * shape[k + 1], *shape[k + 2 :]))

    def join(self) -> Node:
        k = self.axis()
        shape = list(self.x.shape)
        shape[k] = self.extent()
        parts = [self.x, self.b.tanh(self.new(*shape))]
        return self.b.concat(parts[:: self.rng.choice((1, -1))], k)

    def shift(self) -> Node:
        """Each element and the one before it."""
        k, n = self.axis(), self.x.ndim
        high = tuple(e - 1 if a == k else e for a, e in enumerate(self.x.shape))
        one, none = tuple(int(a == k) for a in range(n)), (0,) * n
        return self.x + self.b.pad(self.b.slice(self.x, none, high, (1,) * n), one, none, 0.0)

    def every_other(self) -> Node:
        k, n = self.axis(), self.x.ndim
        return self.b.slice(self.x, (0,) * n, self.x.shape, tuple(2 if a == k else 1 for a in range(n)))

    def spread(self) -> Node:
        k = self.axis()
        y = self.new(self.x.shape[k])
        return self.x + self.widened(self.b.reshape(y, tuple(e if a == k else 1 for a, e in enumerate(self.x.shape))))

    def map(self) -> Node:
        return self.rng.choice((self.b.tanh, self.b.sin, lambda x: self.b.max(x, 0.0)))(self.x)


_STEPS = [_Steps.transpose, _Steps.product] * 2 + [
    *(_Steps.products_of_rows, _Steps.softmax, _Steps.normalise, _Steps.reduce, _Steps.merge),
    *(_Steps.join, _Steps.shift, _Steps.every_other, _Steps.spread, _Steps.map),
]


def graphs(seed: int, dims: tuple[int, int]) -> list[Graph]:
    """A graph and, of every other seed, that of its gradients."""
    steps = _Steps(seed, dims)
    for step in steps.rng.choices(_STEPS, k=steps.rng.randint(2, 5)):
        if steps.x.ndim >= 2:
            steps.x = step(steps)
    graph = steps.b.finish([steps.b.tanh(steps.x)])
    if seed % 2:
        return [graph]
    return [graph, differentiate(graph, [], [True], [True] * len(graph.inputs)).graph]
