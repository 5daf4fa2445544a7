# SPDX-License-Identifier: Apache-2.0
"""Prepared calls are Python that is written as text; its code is kept on disk."""

from __future__ import annotations

import marshal

import pytest

from hybridgpu.backends import code_cache
from hybridgpu.cache.disk_cache import Store

TEXT = "def f(x):\n    return x + 1\n"


@pytest.fixture
def store(tmp_path, monkeypatch):
    made = Store(tmp_path / "cache")
    monkeypatch.setattr(code_cache, "default_store", lambda: made)
    code_cache.code_of.cache_clear()
    yield made
    code_cache.code_of.cache_clear()


def run(text=TEXT, file="here"):
    names: dict = {}
    exec(code_cache.code_of(text, file), names)
    return names["f"](1)


def no_compiler(*_):
    pytest.fail("compiled again")


def test_code_is_found_again(store, monkeypatch):
    assert run() == 2
    code_cache.code_of.cache_clear()  # as in another process
    monkeypatch.setattr(code_cache, "compile", no_compiler, raising=False)
    assert run() == 2


def test_another_text_or_file_is_another_code(store):
    assert run() == 2 and run(TEXT.replace("1", "2")) == 3
    assert code_cache.code_of(TEXT, "there").co_filename == "there"


def test_another_python_finds_no_code_of_this_one(store, monkeypatch):
    """Instructions differ from version to version."""
    run()
    code_cache.code_of.cache_clear()
    monkeypatch.setattr(code_cache.sys, "version", "another")
    compiled = []
    monkeypatch.setattr(code_cache, "compile", lambda *a: compiled.append(a) or compile(*a), raising=False)
    assert run() == 2 and len(compiled) == 1


@pytest.mark.parametrize("data", [b"", b"\xff", b"c", marshal.dumps(3), marshal.dumps({})], ids=repr)
def test_what_is_no_code_is_not_believed(store, monkeypatch, data):
    monkeypatch.setattr(Store, "get", lambda *_: data)
    assert run() == 2
