# SPDX-License-Identifier: Apache-2.0
"""Translated templates mean what Jinja means, and are kept beside the templates: used for the same text alone, and no
error where there can be none."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import jinja2
import pytest

from hybridgpu.compiler.codegen import jinja_compiler
from hybridgpu.compiler.codegen import templates as module
from hybridgpu.compiler.codegen.jinja_compiler import UnsupportedTemplate, environment
from hybridgpu.compiler.codegen.templates import Templates

pytestmark = pytest.mark.no_host_code

TEXT = "{% for k in n %}{{ k }};{% endfor %}"


# -- what they mean

THING = SimpleNamespace(
    name="t", on=True, off=False, many=[3, 1, 2], inner=SimpleNamespace(name="d", off=0), none=None, names={"a": "b"}
)
MEANINGS = {
    "text": "a {{ x }} b",
    "lines": "{% if x %}\n  one\n{% endif %}\n  {{ x }}\n\n",
    "attribute": "{{ t.name }} {{ t.inner.name }} {{ t.inner.off }} {{ t.none }}",
    "item": "{{ t.many[0] }} {{ t.many[-1] }} {{ t.many[x] }} {{ t.names['a'] }}",
    "else": "{% if t.off %}a{% elif t.inner.off %}b{% else %}c{% endif %}",
    "elif": "{% if t.off %}a{% elif t.on %}b{% else %}c{% endif %}",
    "inline": "{{ 'a' if t.on else 'b' }}{{ 'a' if t.off else 'b' }}{{ 'a' if t.off }}",
    "concatenation": "{{ 'a' ~ x ~ t.none ~ ('b' if t.off) }}",
    "arithmetic": "{{ 2 + 3 * x }} {{ (2 + 3) * x }} {{ 7 - (3 - x) }} {{ -x }}",
    "comparison": "{{ x == 1 }} {{ 1 < x < 3 }} {{ x >= 1 }} {{ not x > 1 }} {{ x != 1 }} {{ 3 in t.many }} {{ 3 not in t.many }}",
    "logic": "{{ t.off or x }} {{ t.on and x }} {{ not t.on and x or 5 }}",
    "loop": "{% for a in t.many %}{{ loop.first }}{{ loop.last }}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ a }};{% endfor %}",
    "loops": "{% for a in t.many %}{% for b in t.many %}{{ loop.index }}{{ a * b }} {% endfor %}{{ loop.index }}{% endfor %}",
    "pairs": "{% for a, b in pairs %}{{ a }}-{{ b }} {% endfor %}",
    "picked": "{% for a in t.many if a > 1 %}{{ loop.index }}{{ a }} {% endfor %}",
    "shadowed": "{% set a = 7 %}{% for a in t.many %}{{ a }}{% endfor %}{{ a }}",
    "set": "{% set a = x + 1 %}{% if t.on %}{% set a = 9 %}{% endif %}{{ a }}",
    "set inside": "{% set a = 7 %}{% for b in t.many %}{% set a = b %}{{ a }}{% endfor %}{{ a }}",
    "set pair": "{% for p in pairs %}{% set a, b = p %}{{ b }}{{ a }}{% endfor %}",
    "macro": "{% macro m(a, b=5) %}[{{ a }}{{ b }}{{ x }}]{% endmacro %}{{ m(1) }}{{ m(2, 3) }}",
    "macros": "{% macro f(a) %}<{{ a }}>{% endmacro %}{% macro g(a) %}{{ f(a) }}{{ f(a ~ a) }}{% endmacro %}{{ g('x') }}",
    "recursion": "{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}",
    "call": "{% macro m(a) %}({{ caller() }}{{ a }}{{ caller() }}){% endmacro %}{% call m(4) %}<{{ x }}>{% endcall %}",
    "call in call": "{% macro m() %}({{ caller() }}){% endmacro %}{% call m() %}a{% call m() %}b{% endcall %}{% endcall %}",
    "import": "{% from 'other.j2' import wrap %}{{ wrap('a') }}{{ wrap(x) }}",
    "renamed": "{% from 'other.j2' import wrap as w, twice %}{{ w('a') }}{{ twice('b') }}",
    "filters": "{{ t.many | join(', ') }} {{ t.many | length }}",
}
OTHER = "{% macro wrap(a) %}<{{ a }}>{% endmacro %}\n{% macro twice(a) %}{{ wrap(a) }}{{ wrap(a) }}{% endmacro %}\nunused {{ 1 }}"
GIVEN = {"x": 2, "t": THING, "pairs": [(1, 2), (3, 4)]}


@pytest.mark.parametrize("name", MEANINGS)
def test_templates_mean_what_jinja_means(name, tmp_path):
    (tmp_path / "a.j2").write_text(MEANINGS[name])
    (tmp_path / "other.j2").write_text(OTHER)
    jinja = environment().overlay(loader=jinja2.FileSystemLoader(tmp_path), undefined=jinja2.StrictUndefined)
    text = Templates(tmp_path).render("a.j2", GIVEN)
    assert text == jinja.get_template("a.j2").render(**GIVEN) != ""


@pytest.mark.parametrize(
    "text", ["{{ y }}", "{{ t.y }}", "{{ t.inner.y }}", "{% for a in y %}{% endfor %}", "{{ x if t.y }}"]
)
def test_what_is_not_there_is_an_error(text, tmp_path):
    (tmp_path / "a.j2").write_text(text)
    with pytest.raises((KeyError, AttributeError), match="'y'"):
        Templates(tmp_path).render("a.j2", GIVEN)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("\n{{ x | upper }}", "line 2: upper"),
        ("{{ x | join }}", "line 1: join"),
        ("{{ x is defined }}", "line 1: defined"),
        ("{{ t.many[1:] }}", "Getitem"),
        ("{{ x / 2 }}", "Div"),
        ("{% for a in t.many %}{% else %}b{% endfor %}", "with else"),
        ("{% include 'other.j2' %}", "Include"),
        ("{% from 'other.j2' import wrap with context %}", "with context"),
        ("{% set a %}b{% endset %}", "AssignBlock"),
        ("{% macro m(a) %}{% endmacro %}{{ m(a=1) }}", "Call"),
        ("{% macro m(a) %}{% endmacro %}{% call m(a=1) %}{% endcall %}", "named arguments"),
        ("{% set t.name = 1 %}", "NSRef|syntax|assign"),
    ],
)
def test_what_no_template_uses_is_refused(text, what, tmp_path):
    (tmp_path / "a.j2").write_text(text)
    with pytest.raises(
        (UnsupportedTemplate, jinja2.TemplateSyntaxError), match=re.escape(what) if "|" not in what else what
    ):
        jinja_compiler.compile_template(tmp_path / "a.j2")


# -- what is kept of them


@pytest.fixture(autouse=True)
def writing(monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)


@pytest.fixture
def made(monkeypatch):
    """The names of the templates that were translated."""
    found = []
    real = jinja_compiler.compile_template
    monkeypatch.setattr(jinja_compiler, "compile_template", lambda file: found.append(file.name) or real(file))
    return found


def render(folder):
    """As another process would: nothing is remembered."""
    module._translator.cache_clear()
    return Templates(folder).render("a.j2", {"n": range(3)})


def files(folder):
    return [p for p in folder.rglob("*") if p.is_file() and p.suffix != ".j2"]


def test_a_template_is_translated_once(tmp_path, made):
    (tmp_path / "a.j2").write_text(TEXT)
    assert [render(tmp_path) for _ in range(3)] == ["0;1;2;"] * 3
    assert made == ["a.j2"]
    (file,) = files(tmp_path)
    assert file.parent.name == "__pycache__" and file.suffix == ".pyc" and file.name.startswith("a.j2.")


def test_another_text_is_translated(tmp_path, made):
    (tmp_path / "a.j2").write_text(TEXT)
    render(tmp_path)
    (tmp_path / "a.j2").write_text(TEXT.replace(";", ","))
    assert [render(tmp_path) for _ in range(2)] == ["0,1,2,"] * 2
    assert len(made) == 2


@pytest.mark.parametrize("which", ["translation", "jinja", "Python"])
def test_another_translation_is_another_code(tmp_path, made, which, monkeypatch):
    (tmp_path / "a.j2").write_text(TEXT)
    other = tmp_path / "changed" / ("jinja_compiler.py" if which == "translation" else "other.py")
    other.parent.mkdir()
    other.write_text("")
    render(tmp_path)
    if which == "translation":
        monkeypatch.setattr(module, "__file__", str(other))
    elif which == "jinja":
        monkeypatch.setattr(module, "find_spec", lambda name: SimpleNamespace(origin=str(other)))
    else:
        monkeypatch.setattr(module, "MAGIC_NUMBER", b"0000")
    render(tmp_path)
    assert len(made) == 2
    module._translator.cache_clear()


DAMAGE = {
    "cut": lambda data: data[:-7],
    "empty": lambda data: b"",
    "one bit": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "head only": lambda data: data[:64],
    "rubbish": lambda data: b"\0" * len(data),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_damaged_is_translated_again(damage, tmp_path, made):
    (tmp_path / "a.j2").write_text(TEXT)
    render(tmp_path)
    (file,) = files(tmp_path)
    file.write_bytes(DAMAGE[damage](file.read_bytes()))
    assert [render(tmp_path) for _ in range(2)] == ["0;1;2;"] * 2
    assert len(made) == 2, "once more, and then it was whole"


def test_nothing_is_written_where_python_writes_nothing(tmp_path, made, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "a.j2").write_text(TEXT)
    assert [render(tmp_path) for _ in range(2)] == ["0;1;2;"] * 2
    assert len(made) == 2 and not files(tmp_path)


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, made):
    (tmp_path / "a.j2").write_text(TEXT)
    (tmp_path / "__pycache__").write_text("a file in its place")
    assert [render(tmp_path) for _ in range(2)] == ["0;1;2;"] * 2
    assert len(made) == 2


def test_a_folder_of_its_own(tmp_path, made, monkeypatch):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a.j2").write_text(TEXT)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "elsewhere"))
    assert [render(tmp_path / "t") for _ in range(2)] == ["0;1;2;"] * 2
    assert len(made) == 1 and not files(tmp_path / "t") and files(tmp_path / "elsewhere")


_ALL = """
import sys
from hybridgpu.compiler.codegen.templates import Templates
from hybridgpu.cache.package_files import templates_folder
templates = Templates(templates_folder())
for path in sorted(templates_folder().rglob("*.j2")):
    templates._template(path.relative_to(templates_folder()).as_posix())
print("jinja2" in sys.modules)
"""


def test_templates_that_are_kept_need_no_jinja(tmp_path):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONPYCACHEPREFIX": str(tmp_path)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", _ALL]
    said = [subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert [s.strip() for s in said] == ["True", "False"]
