# SPDX-License-Identifier: Apache-2.0
"""Version counter, bumped when a parameter is rebound.

A prepared call holds addresses of parameters; it checks this number instead of every parameter. ``set_data`` and
loading bump it (versions.py). Writing in place (``p.data()[:] = x``, a Trainer's step) bumps it only where a recorded
call keeps the former memory, and where folded values were computed from the parameter (runtime/folded_parameters.py),
once until they are computed again.
"""

from __future__ import annotations

from itertools import count

__all__ = ["binding_version", "invalidate_bindings"]

binding_version = [0]  #: the number, in a list so that prepared calls can hold it
_numbers = count(1)


def invalidate_bindings() -> None:
    """Invalidate every prepared call."""
    binding_version[0] = next(_numbers)  # two threads at once: no number is there twice
