# SPDX-License-Identifier: Apache-2.0
"""Symbolic dimensions: extents that change from call to call, such as the batch's.

A dimension is known once a second signature differs from the first one in it. While a program is planned for it, it stands
in shapes as a :class:`Dim`: an int to all code that takes one, which knows how it follows from the dimensions of the
signature. So does what is computed from it, the number of elements of a reshape or the stride of an axis: no operator needs
a rule for it. What sizes decide is asked of the *nominal* extent (:func:`nominal`), mostly that of the first signature
(size_buckets.py), so that a further size has the kernels of the first, whose loops take their extents as arguments.

Wherever else a decision is taken on a Dim (a comparison that comes out otherwise at another size, or its use as a plain
number or text), its :class:`Scope` notes a *guard*. What was planned holds for every size at which all guards come out the
same, with other numbers in the place of its Dims: see size_templates.py.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, wraps
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ...core.dtypes import from_short
from ...core.fork_safe_lock import Lock

__all__ = [
    "MARK",
    "OPERATIONS",
    "Constant",
    "Dim",
    "Form",
    "Scope",
    "cached_by_extents",
    "derived",
    "dim_of_mark",
    "form_of",
    "nominal",
    "scope_of",
    "symbolic",
    "symbolic_dims",
    "without_marks",
]

T = TypeVar("T")
#: A polynomial of atoms with whole coefficients: ((numbers of the atoms of a product, coefficient), …), in order.
Form = tuple[tuple[tuple[int, ...], int], ...]
Operand = Any  #: a Form or something plain


class Constant(NamedTuple):
    """A tuple that is no Form."""

    value: Any


LEAST = 2  #: extent of a dimension: those of 0 and 1 are none, see size_buckets.py
symbolic = [0]  #: how many graphs with dimensions are being compiled, by any thread
_counting = Lock()
_scopes: dict[int, Scope] = {}  #: the open ones by their identity
MARK = re.compile("\x02(\\d+)\\.(\\d+):(.*?)\x03")  #: a Dim in a text: its scope, its number and a format


def _bits(number: float, short: str) -> int:
    dtype = from_short(short)
    return int(np.asarray(number, dtype.np).view(f"i{dtype.size}"))


def _rounded(number: float, short: str) -> float:
    return float(from_short(short).np.type(number))


#: what an atom may be, beside a dimension of the signature
OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "bits": _bits,
    "call": lambda function, *values: function(None, *values),
    "ceil": lambda x: -int(-x // 1),
    "eq": operator.eq,
    "floor": lambda x: int(x // 1),
    "floordiv": operator.floordiv,
    "int": int,
    "item": lambda values, k: values[k],
    "le": operator.le,
    "lt": operator.lt,
    "mod": operator.mod,
    "mul": operator.mul,
    "neg": operator.neg,
    "pow": operator.pow,
    "round": round,
    "rounded": _rounded,
    "sub": operator.sub,
    "truediv": operator.truediv,
}


@contextmanager
def symbolic_dims() -> Iterator[Scope]:
    """A scope in which what is planned may have its dimensions; elsewhere nothing looks for them."""
    scope = Scope()
    with _counting:
        symbolic[0] += 1
    _scopes[id(scope)] = scope
    try:
        yield scope
    except Exception as e:
        e.args = tuple(without_marks(x) if type(x) is str else x for x in e.args)
        raise
    finally:
        scope.closed = True
        del _scopes[id(scope)]
        with _counting:
            symbolic[0] -= 1


class Scope:
    """The dimensions of one signature while it is planned for.

    Attributes:
        dimensions: (extent, nominal extent) of each, the first atoms.
        atoms: for each atom its operation and operands, for a dimension its number.
        guards: (operation, operands) -> what came out, of all that was decided.
        functions: what :func:`computed` calls.
        marked: form -> its number in texts for reports.
        types, results: what is interned by shapes with Dims, and results of functions that are cached.
        closed: planning is over.
    """

    def __init__(self) -> None:
        self.dimensions: list[tuple[int, int]] = []
        self.atoms: list[tuple[Any, ...]] = []
        self.guards: dict[tuple[Any, ...], Any] = {}
        self.types: dict[Any, Any] = {}
        self.results: dict[Any, Any] = {}
        self.functions: dict[Any, Callable[..., Any]] = {}
        self.marked: dict[Form, int] = {}
        self.closed = False
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._least: list[int | None] = []  # a lower bound of each atom

    def dim(self, extent: int, at_first: int) -> Dim:
        """The dimension of this extent and nominal extent: those that are alike at a signature are one."""
        key = "dimension", extent, at_first
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.atoms)
            self.atoms.append(("dimension", len(self.dimensions)))
            self.dimensions.append((extent, at_first))
            self._least.append(LEAST)
        return Dim(self, (((number,), 1),), extent, at_first)

    def atom(self, operation: str, operands: tuple[Operand, ...], least: int | None = None) -> Form:
        """The form that is one atom."""
        key = operation, *operands, *(type(x) for x in operands)  # 1 is not 1.0
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.atoms)
            self.atoms.append((operation, *operands))
            self._least.append(least)
        return (((number,), 1),)

    def least(self, form: Form) -> int | None:
        """A number that a form of whole numbers is no less than at any signature; None if none is known."""
        total = 0
        for atoms, c in form:
            if not atoms:
                total += c
                continue
            bounds = [self._least[a] for a in atoms]
            if c < 0 or any(b is None or b < 0 for b in bounds):
                return None
            total += c * prod(b for b in bounds if b is not None)
        return total

    def of_form(self, form: Form) -> Any:
        """What a form of whole numbers is a form of."""
        number = _number(form)
        return Dim(self, form, self.evaluate(form, False), self.evaluate(form, True)) if number is None else number

    def evaluate(self, form: Form, at_first: bool) -> Any:
        """A form's value at this signature, or at the nominal extents."""
        values: dict[int, Any] = {}

        def of_operand(x: Any) -> Any:
            return of_form(x) if type(x) is tuple else x.value if type(x) is Constant else x

        def of_atom(number: int) -> Any:
            if number not in values:
                operation, *operands = self.atoms[number]
                if operation == "dimension":
                    values[number] = self.dimensions[operands[0]][at_first]
                else:
                    values[number] = OPERATIONS[operation](*map(of_operand, operands))
            return values[number]

        def of_form(x: Form) -> Any:
            if len(x) == 1 and x[0][1] == 1 and len(x[0][0]) == 1:
                return of_atom(x[0][0][0])  # which may be a float
            return sum(prod(map(of_atom, atoms)) * c for atoms, c in x)

        return of_form(form)

    def mark(self, dim: Dim) -> str:
        """What stands for a Dim in texts."""
        number = self.marked.setdefault(dim.form, len(self.marked))
        return f"{id(self)}.{number}"

    def decided(self, operation: str, operands: tuple[Any, ...], found: Any) -> Any:
        """Note what came out of an operation on Dims, on which something depends from now on."""
        if self.closed:
            raise RuntimeError("a dimension is asked for its value after the graph has been planned")
        guard = operation, *map(_operand, operands)
        self.guards[guard] = found
        return found


if TYPE_CHECKING:
    _Int = int
else:
    _Int = object  # CPython reads the values of ints without asking them


class Dim(_Int):
    """A number that follows from dimensions: an extent, or what is computed from it.

    Attributes:
        scope: where it is known.
        form: how it follows.
        value: what it is at this signature.
        nominal: what it is at the nominal extents.
    """

    __slots__ = ("form", "nominal", "scope", "value")
    scope: Scope
    form: Form
    value: Any
    nominal: Any

    def __new__(cls, scope: Scope, form: Form, value: Any, at_first: Any) -> Dim:
        dim = object.__new__(cls)
        dim.scope, dim.form, dim.value, dim.nominal = scope, form, value, at_first
        return dim

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # type: ignore[override]
        return type(self.value)

    def __hash__(self) -> int:
        return hash(self.form)  # so that what is found in a table does not depend on the value

    def __reduce__(self) -> Any:
        raise TypeError("a dimension cannot be pickled")

    def __copy__(self) -> Dim:
        return self

    def __deepcopy__(self, memo: Any) -> Dim:
        return self

    # -- plain numbers and texts

    def _plain(self) -> Any:
        return self.scope.decided("eq", (self, self.value), True) and self.value

    def __index__(self) -> int:
        return operator.index(self._plain())

    def __int__(self) -> int:
        if type(self.value) is int:
            return int(self._plain())
        return int(self.scope.decided("int", (self,), int(self.value)))

    def __float__(self) -> float:
        return float(self._plain())

    def __bool__(self) -> bool:
        return self != 0

    def __str__(self) -> str:
        return str(self._plain())

    def __repr__(self) -> str:
        return repr(self.value) if self.scope.closed else repr(self._plain())

    def __format__(self, spec: str) -> str:
        return format(self._plain(), spec)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self._plain(), dtype)

    def __getattr__(self, name: str) -> Any:  # bit_length and others
        if name.startswith("__"):  # a protocol that ints have none of
            raise AttributeError(name)
        return getattr(self._plain(), name)

    def __trunc__(self) -> int:
        return self if type(self.value) is int else derived("int", self)  # type: ignore[no-any-return]

    def __floor__(self) -> int:
        return self if type(self.value) is int else derived("floor", self)  # type: ignore[no-any-return]

    def __ceil__(self) -> int:
        return self if type(self.value) is int else derived("ceil", self)  # type: ignore[no-any-return]

    def __round__(self, digits: Any = None) -> Any:
        if digits is not None:
            return round(self._plain(), digits)
        return self if type(self.value) is int else derived("round", self)

    # -- arithmetic

    def __neg__(self) -> int:
        if type(self.value) is not int:
            return derived("neg", self)  # type: ignore[no-any-return]
        return Dim(self.scope, _scaled(self.form, -1), -self.value, -self.nominal)

    def __pos__(self) -> Dim:
        return self

    def __abs__(self) -> int:
        return -self if self < 0 else self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    # -- comparisons

    def __eq__(self, other: object) -> bool:
        return _compared("eq", self, other)  # type: ignore[no-any-return]

    def __ne__(self, other: object) -> bool:
        result = _compared("eq", self, other)
        return result if result is NotImplemented else not result

    def __lt__(self, other: Any) -> bool:
        return _compared("lt", self, other)  # type: ignore[no-any-return]

    def __le__(self, other: Any) -> bool:
        return _compared("le", self, other)  # type: ignore[no-any-return]

    def __gt__(self, other: Any) -> bool:
        result = _compared("le", self, other)
        return result if result is NotImplemented else not result

    def __ge__(self, other: Any) -> bool:
        result = _compared("lt", self, other)
        return result if result is NotImplemented else not result


def nominal(number: int) -> int:
    """The number as it decides: a dimension's is its nominal extent."""
    return number.nominal if type(number) is Dim else number


def dim_of_mark(mark: re.Match[str]) -> Dim:
    """The Dim of a mark in a text."""
    scope = _scopes[int(mark[1])]
    dim = scope.of_form(list(scope.marked)[int(mark[2])])
    assert type(dim) is Dim
    return dim


def without_marks(text: str) -> str:
    """A text with the numbers of the present size in the place of marks."""
    return MARK.sub(lambda mark: format(dim_of_mark(mark).value, mark[3]), text)


def derived(operation: str, *operands: Any) -> Any:
    """The result of one of ``OPERATIONS``, a Dim if an operand is one."""
    compute = OPERATIONS[operation]
    operands = tuple(_operable(x) if issubclass(type(x), Dim) else x for x in operands)
    scope = next((x.scope for x in operands if type(x) is Dim), None)
    if scope is None:
        return compute(*operands)
    value = compute(*(x.value if type(x) is Dim else x for x in operands))
    try:
        at_first = compute(*map(nominal, operands))
    except ArithmeticError:  # the nominal extents may not allow it: the present ones decide
        return compute(*(x._plain() if type(x) is Dim else x for x in operands))
    form = scope.atom(operation, tuple(map(_operand, operands)), _least_result(scope, operation, operands))
    return Dim(scope, form, value, at_first)


def _least_result(scope: Scope, operation: str, operands: Sequence[Any]) -> int | None:
    """A lower bound of a whole result."""
    if operation == "floordiv" and type(operands[1]) is int and operands[1] > 0 and _whole(operands[0]):
        least = scope.least(form_of(operands[0]))
        return None if least is None else least // operands[1]
    if operation == "mod" and type(operands[1]) is int and operands[1] > 0 and _whole(operands[0]):
        return 0
    return None


def _operand(x: Any) -> Operand:
    return x.form if issubclass(type(x), Dim) else Constant(x) if type(x) is tuple else x


def _whole(x: Any) -> bool:
    return type(x.value if type(x) is Dim else x) is int


def form_of(x: Any) -> Form:
    return x.form if type(x) is Dim else (((), x),) if x else ()


def _scaled(form: Form, factor: int) -> Form:
    return tuple((atoms, c * factor) for atoms, c in form)


def _sum(x: Form, y: Form) -> Form:
    terms = dict(x)
    for atoms, c in y:
        terms[atoms] = terms.get(atoms, 0) + c
    return tuple(sorted((atoms, c) for atoms, c in terms.items() if c))


def _product(x: Form, y: Form) -> Form:
    terms: dict[tuple[int, ...], int] = {}
    for atoms, c in x:
        for others, k in y:
            key = tuple(sorted((*atoms, *others)))
            terms[key] = terms.get(key, 0) + c * k
    return tuple(sorted((atoms, c) for atoms, c in terms.items() if c))


def _quotient(scope: Scope, x: Form, y: Form) -> tuple[Form, Form] | None:
    """(q, r) with ``x = q * y + r``, where ``y`` is one product; None if it is none, or may be zero."""
    if len(y) != 1:
        return None
    (atoms, by) = y[0]
    if any((scope._least[a] or 0) < 1 for a in atoms):
        return None
    whole, rest = [], []
    for others, c in x:
        left = list(others)
        for a in atoms:
            if a in left:
                left.remove(a)
            else:
                break
        else:
            if c % by == 0:
                whole.append((tuple(left), c // by))
                continue
        rest.append((others, c))
    return tuple(sorted(whole)), tuple(rest)


def _number(form: Form) -> int | None:
    """The number that a form is at every signature; None if it is none."""
    if not form:
        return 0
    return form[0][1] if len(form) == 1 and not form[0][0] else None


def _arithmetic(operation: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def compute(x: Any, y: Any) -> Any:
        scope = x.scope if type(x) is Dim else y.scope
        if not (_whole(x) and _whole(y)):
            return derived(operation, x, y)
        a, b = form_of(x), form_of(y)
        if operation == "add":
            form = _sum(a, b)
        elif operation == "sub":
            form = _sum(a, _scaled(b, -1))
        elif operation == "mul":
            form = _product(a, b)
        else:
            parts = _quotient(scope, a, b) if operation in ("floordiv", "mod") and b else None
            if parts is None:
                return derived(operation, x, y)
            whole, rest = parts
            if not rest:
                form = whole if operation == "floordiv" else ()
            elif whole:  # (q * y + r) // y is q + r // y
                left = scope.of_form(rest)
                last = left // y if operation == "floordiv" else left % y
                return last if operation == "mod" else scope.of_form(whole) + last
            else:
                return derived(operation, x, y)
        number = _number(form)
        if number is not None:
            return number
        plain = OPERATIONS[operation]
        return Dim(scope, form, plain(*map(_value, (x, y))), plain(nominal(x), nominal(y)))

    def forward(self: Dim, other: Any) -> Any:
        other = _operable(other)
        return other if other is NotImplemented else compute(_operable(self), other)

    def backward(self: Dim, other: Any) -> Any:
        other = _operable(other)
        return other if other is NotImplemented else compute(other, _operable(self))

    return forward, backward


def _value(x: Any) -> Any:
    return x.value if type(x) is Dim else x


def _operable(x: Any) -> Any:
    """A number as arithmetic takes it; NotImplemented if it is none."""
    cls = type(x)
    if cls in (Dim, int, float):
        return x
    if issubclass(cls, Dim):
        return Dim(x.scope, x.form, x.value, x.nominal)
    if isinstance(x, np.generic):  # asks for the value itself
        return NotImplemented
    return int(x) if isinstance(x, int) else float(x) if isinstance(x, float) else NotImplemented


def _compared(operation: str, x: Dim, y: Any) -> Any:
    y = _operable(y)
    if y is NotImplemented:
        return y
    scope = x.scope
    if type(y) is Dim and y.scope is not scope:
        if operation == "eq":
            return False
        raise RuntimeError("dimensions of two signatures are compared")
    if scope.closed and operation == "eq":
        return False if type(y) is not Dim else x.form == y.form
    result = OPERATIONS[operation](x.value, _value(y))
    if _whole(x) and _whole(y):
        difference = _sum(x.form, _scaled(form_of(y), -1))
        if _number(difference) is not None:
            return result
        least, other = scope.least(difference), scope.least(_scaled(difference, -1))  # of x - y and y - x
        if (least is not None and least > 0) or (other is not None and other > 0):
            return result
        if operation != "eq" and ((least == 0 and operation == "lt") or (other == 0 and operation == "le")):
            return result
    elif type(y) is Dim and x.form == y.form:
        return result
    return scope.decided(operation, (x, y), result)


for _name in ("add", "sub", "mul", "floordiv", "mod", "truediv", "pow"):
    _forward, _backward = _arithmetic(_name)
    setattr(Dim, f"__{_name}__", _forward)
    setattr(Dim, f"__r{_name}__", _backward)


def _on_plain(name: str) -> Callable[..., Any]:
    def method(self: Dim, *others: Any) -> Any:
        return getattr(self._plain(), name)(*(x._plain() if type(x) is Dim else x for x in others))

    return method


for _name in ("and", "or", "xor", "lshift", "rshift"):
    for _side in ("", "r"):
        setattr(Dim, f"__{_side}{_name}__", _on_plain(f"__{_side}{_name}__"))
Dim.__invert__ = _on_plain("__invert__")  # type: ignore[method-assign]


def cached_by_extents(maxsize: int) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """A decorator like ``lru_cache``; but results for dimensions are known within their scope alone."""

    def decorate(function: Callable[..., T]) -> Callable[..., T]:
        memoized = lru_cache(maxsize)(function)

        @wraps(function)
        def cached(*args: Any) -> T:
            scope = scope_of(args) if symbolic[0] else None
            if scope is None:
                return memoized(*args)
            key = function, args
            if key not in scope.results:
                scope.results[key] = function(*args)
            return scope.results[key]  # type: ignore[no-any-return]

        return cached

    return decorate


def scope_of(x: Any) -> Scope | None:
    """The scope of the dimensions in nested tuples and records; None if there are none."""
    if type(x) is Dim:
        return x.scope
    parts = x if isinstance(x, (tuple, list, frozenset)) else vars(x).values() if hasattr(x, "__dict__") else ()
    return next(filter(None, map(scope_of, parts)), None)
