# SPDX-License-Identifier: Apache-2.0
"""The public surface against that of MXNet 1.9.1: every name with its arguments, or one plain error about it."""

from __future__ import annotations

from pathlib import Path

import pytest
import surface

from hybridgpu.hints.foreign_names import MXNET, decision

#: lines ``module: name`` or ``module: name: how its arguments differ``; whoever adds what is missing takes its line out
STILL = (Path(__file__).parent / "recorded" / "surface_differences.txt").read_text().splitlines()


def found(path: str) -> list[str]:
    """The lines about a module that the list should have."""
    lines = [name for name in surface.missing(path) if decision(name) is None]
    if surface.module(path) is not None:
        lines += [f"{name}: {how}" for name, how in surface.different(path)]
    return sorted(f"{path}: {line}" for line in lines)


@pytest.mark.parametrize("path", surface.modules(numpy=False))
def test_every_name_is_there_with_its_arguments_or_has_a_decision(path):
    assert found(path) == sorted(line for line in STILL if line.startswith(f"{path}: "))


@pytest.mark.parametrize("entry", MXNET, ids=lambda entry: entry.names.split()[0])
def test_decisions_are_about_names_of_mxnet(entry):
    """One that no name needs any more is to be taken out."""
    missing = {n for path in surface.modules(numpy=False) for n in surface.missing(path)} | set(surface.HIDDEN)
    assert any(decision(name) is entry for name in missing), entry
