# SPDX-License-Identifier: Apache-2.0
"""Generated convolutions: direct, input-dilated, backward by the filter, followed by pooling."""
