# SPDX-License-Identifier: Apache-2.0
"""``hybridgpu bench``: the command (``command``), and what its child processes run (``worker``, ``first_call``)."""
