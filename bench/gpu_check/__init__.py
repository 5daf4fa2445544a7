# SPDX-License-Identifier: Apache-2.0
"""Everything that only a GPU can show: ``python -m bench.gpu_check``, which bench/gpu_check.sh starts.

steps.py is the table of steps. Each step is a process of its own, ``python -m bench.gpu_check.MODULE``, that writes a row
for every part of its work as soon as it has it (rows.py); runner.py starts it, watches it, and starts it again behind a part
that took it down; record.py keeps what all of them found.
"""

import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
for _folder in (_ROOT / "tests", _ROOT):  # the case graphs are those of the tests
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))
