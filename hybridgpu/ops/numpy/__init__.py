# SPDX-License-Identifier: Apache-2.0
"""NumPy's interface: records of the operators ``_np_*``, ``_npi_*`` and ``_npx_*``, and the functions of np and npx.

A module is a topic. It declares records with ``operator`` or ``derived_operator``, and beside them the functions that
call them, with ``np_function`` and ``npx_function``. All modules are imported with this package, at the first use of a
name of theirs: ``functions.registered`` and the namespaces see to that.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from .application import NP, NPX, Application, np_function, npx_function
from .derive import derived_operator

__all__ = ["NP", "NPX", "Application", "derived_operator", "np_function", "npx_function"]

for _module in iter_modules(__path__):
    import_module(f".{_module.name}", __name__)
