# SPDX-License-Identifier: Apache-2.0
"""What users import: namespaces of operators, MXNet's module paths, functions of this package itself."""
