# SPDX-License-Identifier: Apache-2.0
"""Tools of every layer: element types, settings, random number generators, locks, pytrees."""
