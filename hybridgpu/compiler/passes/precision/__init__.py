# SPDX-License-Identifier: Apache-2.0
"""Precision: where half types are held in float32, and where values must keep their bits."""
