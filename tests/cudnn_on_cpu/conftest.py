# SPDX-License-Identifier: Apache-2.0
"""A cuDNN that stands in, and the library of convolutions that calls it."""

from __future__ import annotations

import pytest
from cudnn_on_cpu.support import Fake, Memory

from hybridgpu.backends.cuda.cudnn_conv import ConvolutionLibrary


@pytest.fixture
def fake(tmp_path):
    return Fake(tmp_path)


@pytest.fixture
def place():
    return Memory()


@pytest.fixture
def library(fake, place):
    return ConvolutionLibrary(place, fake.find)
