# SPDX-License-Identifier: Apache-2.0
"""Backends: load a Program so that it runs; one package a target, one protocol (``base``)."""

from importlib import import_module

from .device_errors import ERRORS_OF

ERRORS_OF["cuda"] = lambda: import_module(".cuda.errors", __name__)
