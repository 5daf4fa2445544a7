# SPDX-License-Identifier: Apache-2.0
"""Templates and their records agree: a template reads fields that exist, and every field is read.

Templates are checked as a type checker checks functions: ``k`` is the record that names the template, ``f`` the function
that it prints; attributes, items, loops and macros are followed through the annotations.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import pkgutil
import re
import sys
import types
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jinja2 import nodes

from hybridgpu.cache.package_files import templates_folder
from hybridgpu.compiler import codegen, schedule
from hybridgpu.compiler.codegen.jinja_compiler import environment
from hybridgpu.compiler.codegen.render import EntryFields, Function, UnitFields
from hybridgpu.compiler.codegen.templates import _Loop
from hybridgpu.compiler.schedule import choice
from hybridgpu.compiler.schedule.kernel import TemplateFields

pytestmark = pytest.mark.no_host_code

Scope = dict[str, Any]
MAX_BRANCHES = 12  #: of a template: if and elif, and choices within a line


def modules() -> Iterator[types.ModuleType]:
    for package in (schedule, codegen):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(found.name)


#: classes by name, for annotations that only type checkers import
CLASSES = {n: x for m in modules() for n, x in vars(m).items() if isinstance(x, type)}


def records(cls: type = TemplateFields) -> Iterator[type[TemplateFields]]:
    """The records that name a template."""
    for sub in cls.__subclasses__():
        if "template" in vars(sub):
            yield sub
        yield from records(sub)


def hints(of: Any) -> dict[str, Any]:
    """Annotations of a class with those of its bases, or of a function."""
    found: dict[str, Any] = {}
    for one in reversed(of.__mro__) if isinstance(of, type) else [of]:
        space = CLASSES | vars(sys.modules[one.__module__])
        for name, text in (
            vars(one).get("__annotations__", {}).items() if isinstance(one, type) else one.__annotations__.items()
        ):
            found[name] = eval(text, space) if isinstance(text, str) else text
    return found


def members(kind: Any) -> list[Any]:
    """What a value of a type may be, None apart."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return [m for arg in typing.get_args(kind) for m in members(arg)]
    if typing.get_origin(kind) is typing.ClassVar:
        return members(typing.get_args(kind)[0])
    if isinstance(kind, typing.ForwardRef):
        return members(eval(kind.__forward_arg__, dict(CLASSES)))
    return [] if kind is type(None) else [kind]


def union(kinds: Iterable[Any]) -> Any:
    found = list(dict.fromkeys(kinds))
    return typing.Union[tuple(found)] if found else type(None)  # noqa: UP007


def names_read(code: types.CodeType) -> set[str]:
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return set(code.co_names).union(*map(names_read, inner))


class Checker:
    """Follows one template with all that it imports.

    Attributes:
        problems: what does not agree.
        read: names of attributes that are read, by class.
        files: the files that it reads.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.read: dict[type, set[str]] = {}
        self.files: set[str] = set()
        self._bound: set[Any] = set()
        self._file = ""

    def template(self, file: str, **given: Any) -> None:
        self.files.add(file)
        self._file = file
        self.block(self.parse(file).body, dict(given))

    def parse(self, file: str) -> nodes.Template:
        return environment().parse((templates_folder() / file).read_text(encoding="utf-8"), file)

    def problem(self, node: nodes.Node, text: str) -> Any:
        self.problems.append(f"{self._file}:{node.lineno}: {text}")
        return str

    # -- statements

    def block(self, body: Iterable[nodes.Node], scope: Scope) -> None:
        for node in body:
            getattr(self, f"_{type(node).__name__.lower()}")(node, scope)

    def _output(self, node: nodes.Output, scope: Scope) -> None:
        for part in node.nodes:
            if not isinstance(part, nodes.TemplateData):
                self.of(part, scope)

    def _if(self, node: nodes.If, scope: Scope) -> None:
        if isinstance(node.test, nodes.Test) and node.test.name == "string":
            assert isinstance(node.test.node, nodes.Name)
            name, kinds = node.test.node.name, members(self.of(node.test.node, scope))
            self.block(node.body, scope | {name: str})
            if others := [m for m in kinds if m is not str]:
                self.block(node.else_, scope | {name: union(others)})
            return
        for branch in (node, *node.elif_):
            self.of(branch.test, scope)
            self.block(branch.body, dict(scope))
            scope.update({n: x for n, x in self.assigned(branch.body, scope).items() if n not in scope})
        self.block(node.else_, dict(scope))
        scope.update({n: x for n, x in self.assigned(node.else_, scope).items() if n not in scope})

    def assigned(self, body: Iterable[nodes.Node], scope: Scope) -> Scope:
        """Names that a branch gives to the block that it is in."""
        return {
            n.target.name: self.of(n.node, scope)
            for n in body
            if isinstance(n, nodes.Assign) and isinstance(n.target, nodes.Name)
        }

    def _for(self, node: nodes.For, scope: Scope) -> None:
        inner = scope | {"loop": _Loop}
        self.assign(node.target, union(m for kind in members(self.of(node.iter, scope)) for m in items(kind)), inner)
        if node.test is not None:
            self.of(node.test, inner)
        self.block(node.body, inner)

    def assign(self, target: nodes.Node, kind: Any, scope: Scope) -> None:
        if isinstance(target, nodes.Name):
            scope[target.name] = kind
            return
        assert isinstance(target, nodes.Tuple)
        for one in members(kind) or [tuple]:
            parts = typing.get_args(one)
            if len(parts) != len(target.items):
                self.problem(target, f"{len(target.items)} names for {one}")
                parts = (str,) * len(target.items)
            for name, part in zip(target.items, parts, strict=True):
                self.assign(name, part, scope)

    def _assign(self, node: nodes.Assign, scope: Scope) -> None:
        if isinstance(node.target, nodes.Tuple) and isinstance(node.node, (nodes.Tuple, nodes.CondExpr)):
            self.of(node.node, scope)
            for name in node.target.items:
                self.assign(name, str, scope)
            return
        self.assign(node.target, self.of(node.node, scope), scope)

    def _macro(self, node: nodes.Macro, scope: Scope) -> None:
        scope[node.name] = (self._file, node, scope)

    def _fromimport(self, node: nodes.FromImport, scope: Scope) -> None:
        file, outer = node.template.value, self._file
        self.files.add(file)
        space: Scope = {}
        self._file = file
        for one in self.parse(file).body:
            if isinstance(one, (nodes.Macro, nodes.FromImport)):
                self.block([one], space)
        self._file = outer
        for name in node.names:
            own, alias = name if isinstance(name, tuple) else (name, name)
            scope[alias] = space[own]

    def _callblock(self, node: nodes.CallBlock, scope: Scope) -> None:
        self.of(node.call, scope)
        self.block(node.body, dict(scope))

    # -- expressions

    def of(self, node: nodes.Node | None, scope: Scope) -> Any:
        """The type of an expression."""
        if node is None:
            return str
        found = getattr(self, f"_{type(node).__name__.lower()}", None)
        if found is not None:
            return found(node, scope)
        kinds = [self.of(child, scope) for child in node.iter_child_nodes()]
        if isinstance(node, (nodes.And, nodes.Or)):
            return union(m for kind in kinds for m in members(kind))
        return int if isinstance(node, nodes.BinExpr) else bool if isinstance(node, (nodes.Not, nodes.Compare)) else str

    def _const(self, node: nodes.Const, scope: Scope) -> Any:
        return type(node.value)

    def _name(self, node: nodes.Name, scope: Scope) -> Any:
        return scope[node.name] if node.name in scope else self.problem(node, f"{node.name} is given by nobody")

    def _condexpr(self, node: nodes.CondExpr, scope: Scope) -> Any:
        self.of(node.test, scope)
        return union(m for part in (node.expr1, node.expr2) for m in members(self.of(part, scope)))

    def _add(self, node: nodes.Add, scope: Scope) -> Any:
        return union(m for part in (node.left, node.right) for m in members(self.of(part, scope)))

    def _getattr(self, node: nodes.Getattr, scope: Scope) -> Any:
        kind = self.of(node.node, scope)
        found = [x for m in members(kind) if (x := self.attribute(m, node.attr)) is not None]
        return union(found) if found else self.problem(node, f"{kind} has no {node.attr}")

    def attribute(self, cls: Any, name: str) -> Any:
        if not isinstance(cls, type):
            return None
        self.read.setdefault(cls, set()).add(name)
        own = next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), None)
        if isinstance(own, property):
            assert own.fget is not None
            self.read[cls] |= names_read(own.fget.__code__)
            return hints(own.fget).get("return", int)
        return union(members(hints(cls).get(name))) if name in hints(cls) else None

    def _getitem(self, node: nodes.Getitem, scope: Scope) -> Any:
        kind, number = self.of(node.node, scope), node.arg
        self.of(number, scope)
        found: list[Any] = []
        for m in members(kind):
            args, at = typing.get_args(m), number
            if isinstance(at, nodes.Neg):
                at = nodes.Const(-at.node.value)
            if typing.get_origin(m) is tuple and Ellipsis not in args:
                if not isinstance(at, nodes.Const) or not -len(args) <= at.value < len(args):
                    return self.problem(node, f"{m} has no such item")
                found.append(args[at.value])
            elif typing.get_origin(m) is dict:
                found.append(args[1])
            else:
                found += items(m)
        return union(found) if found else self.problem(node, f"{kind} has no items")

    def _filter(self, node: nodes.Filter, scope: Scope) -> Any:
        kind = self.of(node.node, scope)
        for m in members(kind):
            if not items(m):
                self.problem(node, f"{m} has no items")
        return {"join": str, "length": int}.get(node.name, kind)

    def _call(self, node: nodes.Call, scope: Scope) -> Any:
        given = [self.of(a, scope) for a in node.args]
        assert isinstance(node.node, nodes.Name)
        if node.node.name == "caller":
            return str
        file, macro, outer = scope[node.node.name]
        key = (file, macro.name, *map(str, given))
        if key in self._bound:
            return str
        self._bound.add(key)
        inner = dict(outer)
        names = [a.name for a in macro.args]
        for name, default in zip(names[len(names) - len(macro.defaults) :], macro.defaults, strict=True):
            inner[name] = self.of(default, outer)
        if len(given) > len(names) or set(names[len(given) :]) - set(inner):
            self.problem(node, f"{macro.name} takes {names}")
        inner.update(zip(names, given, strict=False))
        where, self._file = self._file, file
        self.block(macro.body, inner)
        self._file = where
        return str


def items(kind: Any) -> list[Any]:
    """What one goes through."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is str:
        return [str]
    if origin is tuple:
        return [a for a in args if a is not Ellipsis]
    return [args[0]] if origin is not None and args else []


def checked(record: type) -> Checker:
    checker = Checker()
    given = {"k": record} | ({"f": Function} if issubclass(record, TemplateFields) else {})
    checker.template(record.template, **given)  # type: ignore[attr-defined]
    return checker


RECORDS = [*dict.fromkeys(records()), UnitFields, EntryFields]


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: r.template)
def test_a_template_reads_fields_of_its_record(record: type) -> None:
    found = checked(record)
    assert not found.problems, "\n".join(found.problems)


def read_of(record: type, checker: Checker) -> set[str]:
    """The fields that a template reads, those that a property of the record needs among them."""
    found = set().union(*(names for cls, names in checker.read.items() if issubclass(record, cls)))
    for name in ("uses_pool", "shared_bytes"):
        if isinstance(getter := getattr(record, name, None), property) and getter.fget is not None:
            found |= names_read(getter.fget.__code__)
    return found


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: r.template)
def test_every_field_is_read(record: type) -> None:
    dead = {f.name for f in dataclasses.fields(record)} - read_of(record, checked(record))
    assert not dead, f"templates/{record.template} does not read {sorted(dead)}"  # type: ignore[attr-defined]


def test_every_template_has_one_record() -> None:
    named = [r.template for r in RECORDS]
    assert len(named) == len(set(named)) > 12
    reached = set().union(*(checked(r).files for r in RECORDS))
    assert reached == {p.relative_to(templates_folder()).as_posix() for p in templates_folder().rglob("*.j2")}


@pytest.mark.parametrize("file", sorted(templates_folder().rglob("*.j2")), ids=lambda p: p.name)
def test_a_template_branches_a_dozen_times_at_most(file: Path) -> None:
    """More are two templates, or a record that a schedule computes, such as the blocks of schedule/blocks.py."""
    count = sum(1 for _ in environment().parse(file.read_text(encoding="utf-8")).find_all((nodes.If, nodes.CondExpr)))
    assert count <= MAX_BRANCHES, f"{file.relative_to(templates_folder())} has {count} branches"


def test_a_missing_and_a_dead_field_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclasses.dataclass
    class Statement:
        text: str

    @dataclasses.dataclass
    class Fields:
        template: typing.ClassVar[str] = "some.j2"
        pairs: list[tuple[int, Statement]]
        spare: int

        @property
        def first(self) -> str:
            return str(self.pairs[0])

    (tmp_path / "some.j2").write_text(
        "{% macro line(s) %}{{ s.text }}{{ s.tex }}{% endmacro %}"
        "{% for n, s in k.pairs if n %}\n{{ line(s) }}{% endfor %}{{ k.first }}{{ k.frist }}{% for s in k.pairs %}{{ s.text }}{% endfor %}"
    )
    monkeypatch.setattr(f"{__name__}.templates_folder", lambda: tmp_path)
    monkeypatch.setitem(CLASSES, "Statement", Statement)
    found = Checker()
    found.template("some.j2", k=Fields)
    assert [p.split(": ")[1].rpartition(" has ")[2] for p in found.problems] == ["no tex", "no frist", "no text"]
    assert {f.name for f in dataclasses.fields(Fields)} - found.read[Fields] == {"spare"}


def test_nothing_compiles_by_what_reports_say() -> None:
    """Schedules write a choice, ``assemble`` puts it into the program; nothing else of the compiler looks at one."""

    def is_choice(x: ast.AST) -> bool:
        return (isinstance(x, ast.Attribute) and x.attr == "choice") or (isinstance(x, ast.Name) and x.id == "choice")

    found = [
        f"{path.name}:{x.lineno}"
        for path in sorted(Path(schedule.__path__[0]).parent.rglob("*.py"))
        for x in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(x, ast.Attribute) and is_choice(x.value) and x.attr != "report")
        or (isinstance(x, ast.Subscript) and is_choice(x.value) and "primitives" not in path.parts)
    ]
    assert not found, "\n".join(found)


def test_the_names_of_numbers_that_reports_show_are_explained():
    """The docstring of ``choice.py`` says what each is, and no other."""
    told = set(re.findall(r"\*(\w+)\*", choice.__doc__))
    given = {"form"}  # of with_form
    for file in Path(schedule.__path__[0]).rglob("*.py"):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Choice":
                given |= {key.value for numbers in call.args for key in numbers.keys}
    assert given == told
