# SPDX-License-Identifier: Apache-2.0
"""The CPU backend: programs as shared libraries made by the C++ compiler."""
