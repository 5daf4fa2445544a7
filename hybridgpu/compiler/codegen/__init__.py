# SPDX-License-Identifier: Apache-2.0
"""Texts from templates."""
