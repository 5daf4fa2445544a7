# SPDX-License-Identifier: Apache-2.0
"""From fusion groups to kernels: index expressions, scalar programs, choices, one module a kind."""
