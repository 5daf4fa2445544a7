# SPDX-License-Identifier: Apache-2.0
"""One call of a compiled graph: key, guard, memory, launch, and the cache of what was prepared."""
