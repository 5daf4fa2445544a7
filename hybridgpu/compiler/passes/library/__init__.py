# SPDX-License-Identifier: Apache-2.0
"""Library calls: epilogues, backward convolutions and residuals as cuDNN, cuBLAS and BLAS take them."""
