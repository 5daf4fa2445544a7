# SPDX-License-Identifier: Apache-2.0
"""The disk cache of compiled programs, and the hash of the package's own files in its keys."""
