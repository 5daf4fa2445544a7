# SPDX-License-Identifier: Apache-2.0
"""Passes: graph to graph, and graph to groups; a module each, whose ``run`` keeps no state. Their table is :mod:`..pipeline`."""
