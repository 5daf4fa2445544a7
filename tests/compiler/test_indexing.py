# SPDX-License-Identifier: Apache-2.0
"""Positions as expressions of loop variables: however they are simplified, they are the numbers that they stand for."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridgpu.compiler.ir.indexing import (
    ZERO,
    Condition,
    Quotient,
    Remainder,
    Var,
    const,
    delinearize,
    divide,
    linearize,
    modulo,
    of_var,
    substitute,
)

pytestmark = pytest.mark.no_host_code

VARIABLES = (Var("a", 3), Var("b", 4), Var("c", 6), Var("d", 2, start=5))
POINTS = [dict(zip(VARIABLES, at)) for at in product(*(range(v.low, v.high + 1) for v in VARIABLES))]


def value(e, at):
    """The definition."""
    total = e.const
    for atom, c in e.terms:
        if isinstance(atom, Quotient):
            total += c * (value(atom.expr, at) // atom.by)
        elif isinstance(atom, Remainder):
            total += c * (value(atom.expr, at) % atom.by)
        else:
            total += c * at[atom]
    return total


def operands(e):
    """What C divides in it."""
    for atom, _ in e.terms:
        if isinstance(atom, (Quotient, Remainder)):
            yield atom.expr
            yield from operands(atom.expr)


LEAVES = [(of_var(v), [at[v] for at in POINTS]) for v in VARIABLES] + [(const(k), [k] * len(POINTS)) for k in (0, 1, 7)]
BY = st.sampled_from((1, 2, 3, 4, 5, 6, 8, 12))


def made(of):
    """Larger expressions, each with its numbers at all points."""
    return st.one_of(
        st.builds(lambda p, q: (p[0] + q[0], [x + y for x, y in zip(p[1], q[1])]), of, of),
        st.builds(lambda p, k: (p[0] * k, [x * k for x in p[1]]), of, st.sampled_from((-1, 2, 3, 4, 6, 12))),
        st.builds(lambda p, k: (p[0] + k, [x + k for x in p[1]]), of, st.integers(-9, 9)),
        st.builds(lambda p, k: (divide(p[0], k), [x // k for x in p[1]]), of, BY),
        st.builds(lambda p, k: (modulo(p[0], k), [x % k for x in p[1]]), of, BY),
    )


@settings(max_examples=200)
@given(st.recursive(st.sampled_from(LEAVES), made, max_leaves=8))
def test_simplified_positions_are_the_same_numbers(pair):
    e, numbers = pair
    assert [value(e, at) for at in POINTS] == numbers
    assert e.low <= min(numbers) and max(numbers) <= e.high
    assert all(x.low >= 0 for x in operands(e)), "C rounds towards zero"
    seen: dict[tuple[int, ...], int] = {}
    for at, number in zip(POINTS, numbers):
        assert seen.setdefault(tuple(at[v] for v in VARIABLES if v in e.vars), number) == number
    where = {VARIABLES[0]: of_var(VARIABLES[1]) * 2 + 1, VARIABLES[2]: ZERO}
    moved = [{**at, VARIABLES[0]: 2 * at[VARIABLES[1]] + 1, VARIABLES[2]: 0} for at in POINTS]
    assert [value(substitute(e, where), at) for at in POINTS] == [value(e, at) for at in moved]


A, B, C, D = map(of_var, VARIABLES)

#: sums whose low part carries, or is negative, and what they are
CARRIES = [
    (divide(C * 5 + A + B, 20), lambda a, b, c: (5 * c + a + b) // 20),
    (modulo(C * 5 + A + B, 20), lambda a, b, c: (5 * c + a + b) % 20),
    (divide(A * 12 + B * 6 + C * -1, 12), lambda a, b, c: (12 * a + 6 * b - c) // 12),
    (modulo(A * 12 + B * 6 + C * -1, 12), lambda a, b, c: (12 * a + 6 * b - c) % 12),
    (divide(B * -6 + C, 12), lambda a, b, c: (c - 6 * b) // 12),
    (modulo(B * -6 + C, 12), lambda a, b, c: (c - 6 * b) % 12),
]


@pytest.mark.parametrize("k", range(len(CARRIES)))
def test_low_parts_that_carry(k):
    e, wanted = CARRIES[k]
    assert [value(e, at) for at in POINTS] == [wanted(*(at[v] for v in VARIABLES[:3])) for at in POINTS]


#: what is compared, with what, and the same with fewer terms
CONDITIONS = [
    (A * 12 + C * 2 + -9, 24, "12*a + 2*c + -9", 24),
    (divide(A * 7 + C, 5), 3, "7*a + c", 15),
    (divide(A * 7 + C, 5) + -2, 1, "7*a + c + -10", 5),
    (divide(A * 7 + C, 5) * 2, 3, "2*(7*a + c)//5", 3),
    (modulo(A * 7 + C, 5), 3, "(7*a + c)%5", 3),
    (A * 7 + C, 14, "a", 2),
    (A * 5 + C, 14, "5*a + c", 14),
]


@pytest.mark.parametrize("k", range(len(CONDITIONS)))
def test_plain_conditions_hold_at_the_same_points(k):
    e, bound, text, limit = CONDITIONS[k]
    found = Condition(e, bound).simplified()
    assert (repr(found.expr), found.bound) == (text, limit)
    wanted = [0 <= value(e, at) < bound for at in POINTS]
    assert [0 <= value(found.expr, at) < limit for at in POINTS] == wanted


@pytest.mark.parametrize(
    ("e", "always", "never"),
    [(C, True, False), (C + 1, False, False), (C + -1, False, False), (C + -6, False, True), (C + 6, False, True),
     (C + -5, False, False), (C + 5, False, False), (C * 0, True, False)],
    ids=str,
)  # fmt: skip
def test_conditions_that_always_hold_or_never(e, always, never):
    assert (Condition(e, 6).always, Condition(e, 6).never) == (always, never)


@pytest.mark.parametrize("shape", [(12,), (3, 4), (2, 1, 6), (1, 12), (2, 3, 2), (1,)], ids=str)
def test_positions_and_indices(shape):
    size = prod(shape)
    at = Var("at", size)
    index = delinearize(of_var(at), shape)
    assert len(index) == len(shape)
    for k in range(size):
        assert tuple(value(e, {at: k}) for e in index) == np.unravel_index(k, shape)
        assert value(linearize(index, shape), {at: k}) == k


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (divide(A * 24 + B * 6 + C, 6), "4*a + b"),
        (modulo(A * 24 + B * 6 + C, 6), "c"),
        (divide(modulo(A * 24 + B * 6 + C, 24), 6), "b"),
        (divide(divide(A + C * 3, 5), 4), "0"),
        (divide(divide(A * 7 + C, 2), 3), "(7*a + c)//6"),
        (divide(modulo(A * 7 + C * 5, 12), 4), "((7*a + 5*c)//4)%3"),
        (modulo(modulo(A * 7 + C * 5, 12), 4), "(7*a + 5*c)%4"),
        (divide(A * 7 + C, 5) * 10 + modulo(A * 7 + C, 5) * 2, "14*a + 2*c"),
        (divide(divide(A * 7 + C, 2) + B, 3), "((7*a + c)//2 + b)//3"),
        (divide(modulo(A * 7 + C, 12) + B, 3), "((7*a + c)%12 + b)//3"),
        (modulo(modulo(A * 7 + C, 12) + B, 3), "((7*a + c)%12 + b)%3"),
        (divide(A + -4, 3), "(a + 2)//3 + -2"),
        (modulo(D, 4), "d + -4"),
    ],
    ids=str,
)
def test_what_is_simplified(e, text):
    assert repr(e) == text
