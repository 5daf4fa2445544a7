# SPDX-License-Identifier: Apache-2.0
"""Containers around the arrays of a hybridized function: what it sees, and what its caller gets."""

import dataclasses
from collections import OrderedDict, defaultdict, namedtuple

import pytest

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.core.pytree import Named


class Table(dict):
    pass


class Attribute:
    def __init__(self, x):
        self.held = x


@dataclasses.dataclass
class Outcome:
    loss: object
    more: object = None
    count: int = 3


#: classes of containers that functions give back and take
CONTAINERS = {
    "ordered": lambda x: OrderedDict(b=x * 2, a=[x]),
    "with defaults": lambda x: defaultdict(list, {0: x * 2, 1: 3}),
    "of ones own": lambda x: Table(a=x + 1),
    "dataclass": lambda x: Outcome(x * 2, (x, Outcome(x + 1))),
    "dataclasses in a list": lambda x: [Outcome(x, None, 5)],
}


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("name", CONTAINERS)
def test_results_come_back_in_the_containers_that_the_function_made(name):
    make = CONTAINERS[name]
    compiled, x = mx.hybridize(make), nd.array([1, 2])
    for _ in range(3):
        assert repr(compiled(x)) == repr(make(x))
    assert compiled._calls.fast is not None


def test_arguments_are_in_the_containers_that_they_were_given_in():
    look = mx.hybridize(lambda d: (sum(d.values()), type(d).__name__, list(d)))
    x, y = nd.ones((2,)), nd.zeros((2,))
    for _ in range(3):
        for d in ({"a": x, "b": y}, OrderedDict(a=x, b=y), OrderedDict(b=x, a=y), defaultdict(int, a=x), Table(b=y)):
            total, *names = look(d)
            assert names == [type(d).__name__, list(d)]
            assert total.asnumpy().tolist() == sum(d.values()).asnumpy().tolist()
    assert look._settings.names([Named(OrderedDict, [{"a": 0}])]) == ["d_a"]


@pytest.mark.usefixtures("compiler")
def test_a_named_tuple_of_one_dictionary():
    one = namedtuple("One", ["held"])
    doubled, x = mx.hybridize(lambda t: t.held["a"] * 2), nd.ones((2,))
    for _ in range(2):
        assert doubled(one({"a": x})).asnumpy().tolist() == [2, 2]
    doubled._calls._graph = None  # prepared calls look for none
    assert doubled(one({"a": x})).asnumpy().tolist() == [2, 2]
    assert doubled._settings.names([Named(one, [{"a": 0}])]) == ["t0_a"]


@pytest.mark.parametrize(
    "kind", [namedtuple("Pair", ["a", "b"]), lambda a, b: OrderedDict(b=b, a=a), lambda a, b: [(b, a)]]
)
def test_arrays_behind_a_container_stay_behind_it(kind):
    """At prepared calls, too: the array that follows a named tuple was taken for the tuple's first."""
    flat = mx.hybridize(lambda p, x, q: [*arrays_of(p), x, *arrays_of(q)])
    a, b, c, d, e = (nd.array([k]) for k in range(5))
    want = repr([*arrays_of(kind(a, b)), c, *arrays_of(kind(d, e))])
    for _ in range(3):
        assert repr(flat(kind(a, b), c, kind(d, e))) == want


def arrays_of(value):
    if isinstance(value, nd.NDArray):
        return [value]
    return [x for v in (value.values() if isinstance(value, dict) else value) for x in arrays_of(v)]


def test_a_result_that_is_no_container_holds_no_array():
    with pytest.raises(
        mx.TracingError, match="of type Attribute, holds an array that is computed, in its attribute held"
    ):
        mx.hybridize(lambda x: Attribute(x * 2))(nd.ones((2,)))
