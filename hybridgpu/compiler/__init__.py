# SPDX-License-Identifier: Apache-2.0
"""The compiler: graphs in, plans and kernel texts out. It touches no device, and no disk but its templates and headers."""
