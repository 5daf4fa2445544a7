# SPDX-License-Identifier: Apache-2.0
"""Generated matrix products, and how those of a GPU are configured."""
