# SPDX-License-Identifier: Apache-2.0
"""``python -m hybridgpu.cli``: the command line."""

from . import main

if __name__ == "__main__":
    main(prog_name="hybridgpu")
