# SPDX-License-Identifier: Apache-2.0
"""``import mxnet`` in a process of a program that runs under MXNet's name: hybridgpu takes this module's place."""

import sys
from pathlib import Path

del sys.modules[__name__]
try:
    import hybridgpu
except ModuleNotFoundError as error:
    if error.name != "hybridgpu":
        raise
    sys.path.append(str(Path(__file__).resolve().parents[3]))  # a checkout that is not installed, started in its folder
    import hybridgpu

hybridgpu.install_as_mxnet()
