# SPDX-License-Identifier: Apache-2.0
"""Everything that only a GPU can show: ``python -m bench.gpu_check``, which bench/gpu_check.sh starts.

steps.py is the table of steps. Each step is a process of its own, ``python -m bench.gpu_check.MODULE``, that writes a row
for every part of its work as soon as it has it (rows.py); runner.py starts it, watches it, and starts it again behind a part
that took it down; record.py keeps what all of them found.
"""
