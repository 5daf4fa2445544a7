# SPDX-License-Identifier: Apache-2.0
"""Compiler of Jinja templates to plain Python, which needs nothing of Jinja when it runs.

Importing Jinja takes longer than all that the first program of a process needs of the compiler otherwise. A template
becomes the text of a module with one function ``template(given)``, which writes it, and returns its macros. It means
what Jinja means by it, as far as our templates go; of anything else :func:`compile_template` says that it cannot be
translated. ``tests/compiler/test_template_coverage.py`` compares both on every branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, nodes

__all__ = ["compile_template", "environment"]

_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "lteq": "<=", "gt": ">", "gteq": ">=", "in": "in", "notin": "not in"}
_BINARY = {nodes.Add: "+", nodes.Sub: "-", nodes.Mul: "*", nodes.And: "and", nodes.Or: "or"}
_FILTERS = {("join", 1): "join", ("length", 0): "len"}
_LOOP = "loop"


class UnsupportedTemplate(Exception):
    """A template uses something of Jinja's that no template of ours did; add it here."""


def environment() -> Environment:
    """The Jinja environment of our templates."""
    return Environment(trim_blocks=True, lstrip_blocks=True, autoescape=False, keep_trailing_newline=True)


def compile_template(file: Path) -> str:
    """The Python text of a template.

    Raises:
        UnsupportedTemplate: with the line.
        jinja2.TemplateSyntaxError: it is no template.
    """
    tree = environment().parse(file.read_text(encoding="utf-8"), file.name, str(file))
    writer = _Writer(file.name)
    writer.line("def template(given):")
    writer.function(tree.body, _Scope(None))
    return "\n".join(writer.lines) + "\n"


class _Scope:
    """Names of a template that are Python's local variables: those of a loop are gone behind it."""

    def __init__(self, outer: _Scope | None) -> None:
        self.outer, self.names = outer, {}  # type: tuple[_Scope | None, dict[str, str]]

    def find(self, name: str) -> str | None:
        python_name = self.names.get(name)
        return python_name if python_name is not None or self.outer is None else self.outer.find(name)


class _Writer:
    """Printer of Python from Jinja's syntax tree: a method ``_NAME`` for each kind of statement and expression.

    What has no method is refused with the template's line.
    """

    def __init__(self, name: str) -> None:
        self.lines: list[str] = []
        self._name, self._depth, self._count = name, 0, 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    def fresh(self, name: str) -> str:
        """A variable that nothing else has."""
        self._count += 1
        return f"{name}_{self._count}"

    def refuse(self, node: nodes.Node, what: str) -> UnsupportedTemplate:
        return UnsupportedTemplate(f"{self._name}, line {node.lineno}: {what} cannot be translated")

    # -- statements

    def function(self, body: Sequence[nodes.Node], scope: _Scope) -> None:
        """The inside of a function that returns what ``body`` writes; that of a template its macros, too."""
        self._depth += 1
        self.line("out = []")
        self.line("write = out.append")
        self.block(body, scope)
        if scope.outer is None:
            macros = [n.name for n in body if isinstance(n, nodes.Macro)]
            exported = ", ".join(f"{name!r}: {scope.names[name]}" for name in macros)
            self.line(f"return ''.join(out), {{{exported}}}")
        else:
            self.line("return ''.join(out)")
        self._depth -= 1

    def block(self, body: Sequence[nodes.Node], scope: _Scope) -> None:
        for node in body:
            write = getattr(self, f"_{type(node).__name__.lower()}", None)
            if write is None:
                raise self.refuse(node, type(node).__name__)
            write(node, scope)

    def inside(self, body: Sequence[nodes.Node], scope: _Scope) -> None:
        self._depth += 1
        self.block(body, scope)
        self.line("pass")
        self._depth -= 1

    def _output(self, node: nodes.Output, scope: _Scope) -> None:
        for part in node.nodes:
            if isinstance(part, nodes.TemplateData):
                self.line(f"write({part.data!r})")
            else:
                self.line(f"write(str({self.value(part, scope)}))")

    def _if(self, node: nodes.If, scope: _Scope) -> None:
        for word, branch in [("if", node), *(("elif", other) for other in node.elif_)]:
            self.line(f"{word} {self.value(branch.test, scope)}:")
            self.inside(branch.body, scope)
        if node.else_:
            self.line("else:")
            self.inside(node.else_, scope)

    def _for(self, node: nodes.For, scope: _Scope) -> None:
        if node.recursive or node.else_:
            raise self.refuse(node, "a recursive loop, or one with else,")
        items = self.value(node.iter, scope)
        inner = _Scope(scope)
        if node.test is not None:
            tested = _Scope(scope)
            one = self.target(node.target, tested)
            items = f"[{one} for {one} in {items} if {self.value(node.test, tested)}]"
        inner.names[_LOOP] = counter = self.fresh(_LOOP)
        target = self.target(node.target, inner)
        if any(n.name == _LOOP for part in node.body for n in _names(part)):
            self.line(f"for {counter}, {target} in enumerate_loop({items}):")
        else:
            self.line(f"for {target} in {items}:")
        self.inside(node.body, inner)

    def target(self, node: nodes.Node, scope: _Scope) -> str:
        """The variables that are assigned, as Python writes them."""
        if isinstance(node, nodes.Tuple):
            return f"({', '.join(self.target(part, scope) for part in node.items)},)"
        if not isinstance(node, nodes.Name):
            raise self.refuse(node, f"an assignment to {type(node).__name__}")
        python_name = scope.names.setdefault(node.name, "")
        if not python_name:
            python_name = scope.names[node.name] = self.fresh(node.name)
        return python_name

    def _assign(self, node: nodes.Assign, scope: _Scope) -> None:
        value = self.value(node.node, scope)
        self.line(f"{self.target(node.target, scope)} = {value}")

    def _macro(self, node: nodes.Macro, scope: _Scope) -> None:
        name = self.target(nodes.Name(node.name, "store"), scope)
        self.definition(name, node, scope, caller=True)

    def definition(self, name: str, node: nodes.Macro | nodes.CallBlock, scope: _Scope, caller: bool) -> None:
        """A function with the parameters and the body of a macro or a call block."""
        inner = _Scope(scope)
        parameters = [self.target(arg, inner) for arg in node.args]
        first = len(parameters) - len(node.defaults)
        for k, default in enumerate(node.defaults):
            parameters[first + k] += f"={self.value(default, scope)}"
        if caller:  # no other variable ends without a number
            inner.names["caller"] = "caller"
            parameters.append("caller=None")
        self.line(f"def {name}({', '.join(parameters)}):")
        self.function(node.body, inner)

    def _callblock(self, node: nodes.CallBlock, scope: _Scope) -> None:
        caller = self.fresh("caller")
        self.definition(caller, node, scope, caller=False)
        arguments = [self.value(a, scope) for a in node.call.args]
        if node.call.kwargs or node.call.dyn_args or node.call.dyn_kwargs:
            raise self.refuse(node, "a call with named arguments")
        self.line(f"write({self.value(node.call.node, scope)}({''.join(a + ', ' for a in arguments)}caller={caller}))")

    def _fromimport(self, node: nodes.FromImport, scope: _Scope) -> None:
        if not isinstance(node.template, nodes.Const) or node.with_context:
            raise self.refuse(node, "an import with context, or of no fixed name,")
        for name in node.names:
            own, alias = name if isinstance(name, tuple) else (name, name)
            variable = self.target(nodes.Name(alias, "store"), scope)
            self.line(f"{variable} = macros({node.template.value!r})[{own!r}]")

    # -- expressions

    def value(self, node: nodes.Node, scope: _Scope) -> str:
        """A Python expression, in parentheses where it needs them."""
        if isinstance(node, nodes.Const):
            return repr(node.value)
        if isinstance(node, nodes.Name):
            return scope.find(node.name) or f"given[{node.name!r}]"
        if isinstance(node, nodes.Getattr):
            return f"{self.value(node.node, scope)}.{node.attr}"  # of a record: templates are given no dicts
        if isinstance(node, nodes.Getitem) and not isinstance(node.arg, nodes.Slice):
            return f"{self.value(node.node, scope)}[{self.value(node.arg, scope)}]"
        if isinstance(node, nodes.Call) and not (node.kwargs or node.dyn_args or node.dyn_kwargs):
            return f"{self.value(node.node, scope)}({', '.join(self.value(a, scope) for a in node.args)})"
        if isinstance(node, nodes.Concat):
            return f"''.join(({''.join(f'str({self.value(n, scope)}), ' for n in node.nodes)}))"
        if isinstance(node, nodes.CondExpr):
            other = "''" if node.expr2 is None else self.value(node.expr2, scope)
            return f"({self.value(node.expr1, scope)} if {self.value(node.test, scope)} else {other})"
        if isinstance(node, nodes.Compare):
            tests = "".join(f" {_COMPARED[o.op]} {self.value(o.expr, scope)}" for o in node.ops)
            return f"({self.value(node.expr, scope)}{tests})"
        if isinstance(node, nodes.BinExpr) and type(node) in _BINARY:
            return f"({self.value(node.left, scope)} {_BINARY[type(node)]} {self.value(node.right, scope)})"
        if isinstance(node, nodes.Not):
            return f"(not {self.value(node.node, scope)})"
        if isinstance(node, nodes.Test) and node.name == "string":
            return f"isinstance({self.value(node.node, scope)}, str)"
        if isinstance(node, nodes.Neg):
            return f"(-{self.value(node.node, scope)})"
        if isinstance(node, nodes.Tuple):
            return f"({''.join(f'{self.value(n, scope)}, ' for n in node.items)})"
        if isinstance(node, nodes.Filter) and node.node is not None and not (node.kwargs or node.dyn_args):
            function = _FILTERS.get((node.name, len(node.args)))
            if function is not None:
                arguments = [self.value(n, scope) for n in (node.node, *node.args)]
                return f"{function}({', '.join(arguments)})"
        raise self.refuse(node, getattr(node, "name", type(node).__name__))


def _names(node: nodes.Node) -> list[nodes.Name]:
    return [node] if isinstance(node, nodes.Name) else list(node.find_all(nodes.Name))
