# SPDX-License-Identifier: Apache-2.0
"""Backends: load a Program so that it runs; one package a target, one protocol (``base``)."""
