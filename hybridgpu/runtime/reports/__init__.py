# SPDX-License-Identifier: Apache-2.0
"""Reports: compile events, explanations of compiled graphs."""
