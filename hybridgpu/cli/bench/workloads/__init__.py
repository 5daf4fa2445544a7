# SPDX-License-Identifier: Apache-2.0
"""What is measured. Each workload is written as a user writes it: a HybridBlock, and (networks aside) the
same as NumPy (CuPy) code."""

from .case import Case, Suite
from .dense import MLP
from .elementwise import BROADCAST, CHAIN
from .networks import NETWORKS
from .operators import EAGER
from .pictures import LENET, RESNET
from .rows import ROWS

__all__ = ["SUITES", "Case", "Suite"]

SUITES = {s.name: s for s in (MLP, CHAIN, BROADCAST, ROWS, LENET, RESNET, EAGER, NETWORKS)}
