# SPDX-License-Identifier: Apache-2.0
"""The constants of devices, which cost models and limits are made of."""
