# SPDX-License-Identifier: Apache-2.0
"""The libraries of kernels/math_*.h, made once."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import math_library as ml  # noqa: E402  (of this folder)
from math_accuracy import module_at  # noqa: E402


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("math")


@pytest.fixture(scope="session")
def checker(folder: Path) -> ml.Checker:
    return ml.build_checker(folder)


@pytest.fixture(scope="session")
def library(folder: Path) -> ml.Library:
    return ml.build(folder)


@pytest.fixture(scope="session")
def fast_library(folder: Path) -> ml.Library:
    return ml.build(folder, fast=True)


@pytest.fixture(scope="session")
def fits() -> ModuleType:
    return module_at(ml.KERNELS / "fit" / "fit_math.py")
