# SPDX-License-Identifier: Apache-2.0
"""From a Program to something that runs: one package a target, one protocol (``base``)."""
