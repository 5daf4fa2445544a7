# SPDX-License-Identifier: Apache-2.0
"""What lasts on disk: compiled programs by key, and the package's own files as part of their keys."""
