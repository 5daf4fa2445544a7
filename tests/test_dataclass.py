# SPDX-License-Identifier: Apache-2.0
"""Quickly made dataclasses behave as the standard library's do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any

import pytest

from hybridgpu.core.dataclass import dataclass, field


def _classes(decorator: Any) -> dict[str, type]:
    """The same classes, made by ``decorator``."""

    @decorator
    class Open:
        """Changeable."""

        x: int
        y: list[int] = dataclasses.field(default_factory=list)

    @decorator(frozen=True)
    class Shut:
        """Not changeable."""

        x: int
        y: tuple[int, ...] = ()
        hidden: int = dataclasses.field(default=7, repr=False, compare=False)

    @decorator(frozen=True)
    class Derived(Shut):
        """More fields."""

        z: int = 3
        named: int = dataclasses.field(default=4, kw_only=True)
        set_later: int = dataclasses.field(init=False)
        fixed: str = dataclasses.field(default="f", init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "set_later", self.x + 1)

    @decorator(frozen=True, kw_only=True)
    class Named:
        """By keywords alone, defaults first."""

        x: int = 1
        y: int

    @decorator(eq=False)
    class Same:
        """Equal to itself alone."""

        x: int

    @decorator(frozen=True)
    class Own:
        """With methods of its own."""

        x: int

        def __repr__(self) -> str:
            return "mine"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 5

    @decorator(frozen=True, eq=False, slots=True)
    class Slots:
        """Without a dictionary."""

        x: int

    @decorator
    class Nothing:
        """No fields."""

    return {k: v for k, v in locals().items() if isinstance(v, type)}


OURS, STANDARD = _classes(dataclass), _classes(dataclasses.dataclass)

MAKE = [
    ("Open", (1,), {}),
    ("Open", (), {"x": 2, "y": [3]}),
    ("Shut", (1,), {}),
    ("Shut", (1, (2,), 9), {}),
    ("Derived", (1, (2,)), {"named": 8}),
    ("Derived", (1, (2,), 3, 4), {}),
    ("Named", (), {"y": 2}),
    ("Same", (1,), {}),
    ("Own", (1,), {}),
    ("Slots", (1,), {}),
    ("Nothing", (), {}),
]


def _seen(x: Any, other: Any) -> list[Any]:
    """Everything that can be told of an object of either making."""
    found: list[Any] = [repr(x), x == x, x == copy.copy(x), x == other, x != 1, dataclasses.asdict(x)]
    found.append([(f.name, f.type, f.init, f.repr) for f in dataclasses.fields(x)])
    found += [type(x).__match_args__, type(x).__doc__, list(inspect.signature(type(x)).parameters)]
    for attempt in (lambda: hash(x) == hash(copy.copy(x)), lambda: setattr(x, "x", 5), lambda: delattr(x, "x")):
        try:
            found.append(attempt())
        except Exception as e:  # its kind and words are compared
            found.append((type(e), str(e)))
    return found


@pytest.mark.parametrize(("name", "args", "more"), MAKE)
def test_as_the_standard_ones(name: str, args: tuple[Any, ...], more: dict[str, Any]) -> None:
    ours, standard = OURS[name](*args, **more), STANDARD[name](*args, **more)
    assert _seen(ours, OURS["Nothing"]()) == _seen(standard, STANDARD["Nothing"]())


@pytest.mark.parametrize(("name", "args"), [("Open", ()), ("Shut", (1, 2, 3, 4)), ("Derived", (1, (), 2, 3, 4))])
def test_wrong_arguments(name: str, args: tuple[Any, ...]) -> None:
    said = []
    for made in (OURS, STANDARD):
        with pytest.raises(TypeError) as caught:
            made[name](*args)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_each_object_has_a_list_of_its_own() -> None:
    a, b = OURS["Open"](1), OURS["Open"](1)
    a.y.append(1)
    assert b.y == [] and a != b


def test_replace_and_order_of_comparison() -> None:
    x = OURS["Shut"](1, (2,), 9)
    assert dataclasses.replace(x, x=4) == OURS["Shut"](4, (2,))
    assert x == OURS["Shut"](1, (2,), 10) and x != OURS["Derived"](1, (2,), 9)
    assert {x: "found"}[OURS["Shut"](1, (2,))] == "found"


@dataclass(frozen=True)
class Outer:
    """Where pickle finds it."""

    x: int
    inner: Any = field(default=None)


def test_pickled_and_printed_within_itself() -> None:
    held: list[Any] = []
    made = Outer(1, held)
    assert pickle.loads(pickle.dumps(made)) == made
    held.append(made)
    assert repr(made) == "Outer(x=1, inner=[...])"
