# SPDX-License-Identifier: Apache-2.0
"""File formats: parameters, records, safetensors, written atomically."""
