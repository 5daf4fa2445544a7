# SPDX-License-Identifier: Apache-2.0
"""The host: programs as shared libraries made by its C++ compiler."""
