# SPDX-License-Identifier: Apache-2.0
"""Memory planning: step order, buffer reuse, donation, and offsets in the arena."""
