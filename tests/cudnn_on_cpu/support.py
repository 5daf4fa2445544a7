# SPDX-License-Identifier: Apache-2.0
"""A cuDNN for the emulated GPU: fake_cudnn.cpp."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from fake_nvidia_libraries import FakeLibrary

from hybridgpu.backends.cuda.cudnn import Binding


class Fake(FakeLibrary):
    """Computes convolutions, or refuses to."""

    name, source, binding = "cudnn", Path(__file__).with_name("fake_cudnn.cpp"), Binding

    @property
    def runs(self) -> dict[str, int]:
        """Convolutions computed, by kind."""
        kinds = ("Forward", "BiasActivationForward", "BackwardData", "BackwardFilter")
        return {k: n for k in kinds if (n := self.count(f"cudnnConvolution{k}"))}


class Memory:
    """A device that is the host; it stands in for ``CupyDevice``."""

    xp = np

    def __init__(self) -> None:
        self.current_stream, self.entered = 0, 0

    def address(self, array: Any) -> int:
        return int(array.__array_interface__["data"][0])

    def stream(self) -> int:
        return self.current_stream

    def current(self) -> Memory:
        return self

    def __enter__(self) -> None:
        self.entered += 1

    def __exit__(self, *error: object) -> None:
        self.entered -= 1

    def cuda_version(self) -> int:
        return 12
