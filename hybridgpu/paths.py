# SPDX-License-Identifier: Apache-2.0
"""Names that MXNet's modules have, for packages here that are divided in another way."""

from __future__ import annotations

import sys

__all__ = ["also_named"]


def also_named(package: str, *names: str) -> None:
    """Let a package be found as modules of its own, by attributes and by import statements.

    Args:
        package: its ``__name__``; that of ``gluon.nn``, with 'conv_layers' among the names, makes
            ``from hybridgpu.gluon.nn.conv_layers import Conv2D`` find the package's ``Conv2D``.
    """
    module = sys.modules[package]
    for name in names:
        setattr(module, name, module)
        sys.modules[f"{package}.{name}"] = module
