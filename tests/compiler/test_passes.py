# SPDX-License-Identifier: Apache-2.0
"""The table of passes: what each row promises, what is said where a pass is disabled, and programs without each pass."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from inspect import signature

import pytest
from compiler.cases import build
from compiler.one_pass import PASS_BY_NAME

import hybridgpu as mx
from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.compiler.pipeline import PASSES, compile_graph
from hybridgpu.compiler.target import CPU

OPTIONAL = [p for p in PASSES if not p.required]


@pytest.mark.parametrize("row", PASSES, ids=lambda p: p.name)
def test_a_pass_is_a_module_with_one_entry(row):
    module = import_module(f"hybridgpu.compiler.{row.module}")
    assert PASS_BY_NAME[row.name] is row, "two passes have one name"
    assert [*signature(module.run).parameters][1:] == ["ctx"]
    assert "run" in module.__all__
    assert len(module.__doc__.split()) > 10, "why does it exist?"


@pytest.mark.parametrize("row", PASSES, ids=lambda p: p.name)
def test_a_required_pass_cannot_be_disabled(row):
    target = CPU.without_passes((row.name,))
    if row.required:
        with pytest.raises(
            mx.MXNetError, match=rf"^HYBRIDGPU_DISABLE_PASSES={row.name}: this pass is required, since "
        ):
            compile_graph(build("softmax"), target)
    else:
        assert row.name not in [r.name for r in compile_graph(build("softmax"), target).passes]


def test_an_unknown_pass_is_named():
    with pytest.raises(
        mx.MXNetError, match=r"^Invalid Input: 'wellford', valid values are: {'conv_backward', .*PASSES$"
    ):
        compile_graph(build("softmax"), CPU.without_passes(("wellford",)))


_COMPILED = """
import sys
from compiler.cases import build
from hybridgpu.compiler.pipeline import PASSES, compile_graph
from hybridgpu.compiler.target import CPU
ran = {r.name for r in compile_graph(build("dense"), CPU).passes}
print(*(p.name for p in PASSES if p.name not in ran and f"hybridgpu.compiler.{p.module}" in sys.modules))
"""


def test_passes_are_imported_where_they_run():
    """All together would double what the first program waits for."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", _COMPILED], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["exact_extrema"], "(whose predicates fusion asks)"


def normalised(monkeypatch, text):
    """The explanation of a net that is made with a text of the setting."""
    monkeypatch.setenv("HYBRIDGPU_DISABLE_PASSES", text)
    net = mx.gluon.nn.LayerNorm(in_channels=40)
    net.initialize()
    net.hybridize()
    return net.explain(mx.nd.ones((3, 40)))


def test_the_setting_is_part_of_the_key(compiler, monkeypatch):
    keys = set()
    for text, missing in (("", ()), ("welford, transpose_dots", ("welford",)), (" ", ()), ("welford", ("welford",))):
        ran = [r.name for r in normalised(monkeypatch, text).passes]
        assert ("welford" in ran) is ("welford" not in missing)
        keys.add(cpu_backend().key())
    assert len(keys) == 3


def test_the_setting_is_refused_when_a_net_is_made(compiler, monkeypatch):
    with pytest.raises(mx.MXNetError, match="required, since libraries and callers read results from memory"):
        normalised(monkeypatch, "materialize")


@pytest.mark.parametrize("name, text", [("materialize", "required"), ("wellford", "Invalid Input: 'wellford'")])
def test_the_setting_is_refused_without_a_compiler(name, text, monkeypatch):
    monkeypatch.setattr("hybridgpu.backends.devices.HostDevice.backend", lambda self: None)
    with pytest.raises(mx.MXNetError, match=text):
        normalised(monkeypatch, name)


def test_records_tell_what_passes_did(compiler, monkeypatch):
    passes = normalised(monkeypatch, "").passes
    program = compile_graph(build("dense"), CPU)
    assert [r.name for r in program.passes] == [p.name for p in PASSES if p.name in {r.name for r in program.passes}]
    fuse = next(r for r in program.passes if r.name == "fuse")
    assert fuse.changed and fuse.unit == "groups" and fuse.seconds > 0
    assert str(fuse).endswith(f" ms  {fuse.before} -> {fuse.after} groups")
    assert {"simplify", "materialize", "fuse", "schedule"} <= {r.name for r in passes}
    again = type(program).from_bytes(program.to_bytes())
    assert again.passes == program.passes and not any(r.seconds for r in again.passes)
