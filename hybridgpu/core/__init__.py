# SPDX-License-Identifier: Apache-2.0
"""Small tools of every layer: element types, settings, random number states, locks, nested structures."""
