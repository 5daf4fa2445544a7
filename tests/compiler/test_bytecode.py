# SPDX-License-Identifier: Apache-2.0
"""Compiled templates beside the templates: used for the same text alone, and no error where there can be none."""

from __future__ import annotations

import sys

import jinja2
import pytest

from hybridgpu.compiler.codegen.bytecode import Beside

TEXT = "{% for k in range(n) %}{{ k }};{% endfor %}"


@pytest.fixture(autouse=True)
def writing(monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)


@pytest.fixture
def compiled(monkeypatch):
    """The names of the templates that Jinja compiled."""
    found = []
    real = jinja2.Environment.compile

    def compile_(self, source, name=None, filename=None, raw=False, defer_init=False):
        found.append(name)
        return real(self, source, name, filename, raw, defer_init)

    monkeypatch.setattr(jinja2.Environment, "compile", compile_)
    return found


def render(folder, settings="", **more):
    """As another process would: nothing is remembered."""
    loader = jinja2.FileSystemLoader(folder)
    return jinja2.Environment(loader=loader, bytecode_cache=Beside(settings), **more).get_template("a.j2").render(n=3)


def files(folder):
    return [p for p in folder.rglob("*") if p.is_file() and p.suffix != ".j2"]


def test_a_template_is_compiled_once(tmp_path, compiled):
    (tmp_path / "a.j2").write_text(TEXT)
    assert [render(tmp_path) for _ in range(3)] == ["0;1;2;"] * 3
    assert compiled == ["a.j2"]
    (file,) = files(tmp_path)
    assert file.parent.name == "__pycache__" and file.suffix == ".pyc" and file.name.startswith("a.j2.")


def test_another_text_is_compiled(tmp_path, compiled):
    (tmp_path / "a.j2").write_text(TEXT)
    render(tmp_path)
    (tmp_path / "a.j2").write_text(TEXT.replace(";", ","))
    assert [render(tmp_path) for _ in range(2)] == ["0,1,2,"] * 2
    assert len(compiled) == 2


def test_other_settings_are_another_code(tmp_path, compiled):
    (tmp_path / "a.j2").write_text("{% if n %}\n1\n{% endif %}")
    assert render(tmp_path) == "\n1\n"
    assert render(tmp_path, "trim", trim_blocks=True) == "1\n"
    assert len(compiled) == 2


@pytest.mark.parametrize("version", ["0.0", "99.1"])
def test_another_jinja_is_another_code(tmp_path, compiled, version, monkeypatch):
    (tmp_path / "a.j2").write_text(TEXT)
    render(tmp_path)
    monkeypatch.setattr(jinja2, "__version__", version)
    render(tmp_path)
    assert len(compiled) == 2


DAMAGE = {
    "cut": lambda data: data[:-7],
    "empty": lambda data: b"",
    "one bit": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "head only": lambda data: data[:64],
    "rubbish": lambda data: b"\0" * len(data),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_damaged_is_compiled_again(damage, tmp_path, compiled):
    (tmp_path / "a.j2").write_text(TEXT)
    render(tmp_path)
    (file,) = files(tmp_path)
    file.write_bytes(DAMAGE[damage](file.read_bytes()))
    assert [render(tmp_path) for _ in range(2)] == ["0;1;2;"] * 2
    assert len(compiled) == 2, "once more, and then it was whole"


def test_nothing_is_written_where_python_writes_nothing(tmp_path, compiled, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "a.j2").write_text(TEXT)
    assert [render(tmp_path) for _ in range(2)] == ["0;1;2;"] * 2
    assert len(compiled) == 2 and not files(tmp_path)


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, compiled):
    (tmp_path / "a.j2").write_text(TEXT)
    (tmp_path / "__pycache__").write_text("a file in its place")
    assert [render(tmp_path) for _ in range(2)] == ["0;1;2;"] * 2
    assert len(compiled) == 2


def test_a_folder_of_its_own(tmp_path, compiled, monkeypatch):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a.j2").write_text(TEXT)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "elsewhere"))
    assert [render(tmp_path / "t") for _ in range(2)] == ["0;1;2;"] * 2
    assert len(compiled) == 1 and not files(tmp_path / "t") and files(tmp_path / "elsewhere")


def test_a_derived_environment_is_another_code(tmp_path, compiled):
    class Derived(jinja2.Environment):
        """Which may compile in another way."""

    (tmp_path / "a.j2").write_text(TEXT)
    render(tmp_path)
    made = Derived(loader=jinja2.FileSystemLoader(tmp_path), bytecode_cache=Beside(""))
    assert made.get_template("a.j2").render(n=2) == "0;1;"
    assert len(compiled) == 2
