# SPDX-License-Identifier: Apache-2.0
"""The largest thread block cluster of a GPU: 8 on every one with clusters, more on request.

The driver answers for a function, so an empty one of a few lines of PTX is loaded; CuPy does not name what it takes.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_int, c_uint, c_void_p
from typing import Any

from ...compiler.devices.gpu import PORTABLE_CLUSTER
from .libcuda import bind

__all__ = ["allow_large", "largest_cluster"]

_ALLOWED = 14  #: CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
_THREADS = 1024  #: of a block, the most there are: blocks of smaller ones fit wherever these do
_PROBE = b".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry probe()\n{\n\tret;\n}\n\0"


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("gridDimX", c_uint),
        ("gridDimY", c_uint),
        ("gridDimZ", c_uint),
        ("blockDimX", c_uint),
        ("blockDimY", c_uint),
        ("blockDimZ", c_uint),
        ("sharedMemBytes", c_uint),
        ("hStream", c_void_p),
        ("attrs", c_void_p),
        ("numAttrs", c_uint),
    )


#: name -> types of the arguments; a CUresult is returned
_FUNCTIONS: dict[str, Any] = {
    # the size, the function, how it would be started
    "cuOccupancyMaxPotentialClusterSize": (POINTER(c_int), c_void_p, POINTER(LaunchConfig)),
}


def largest_cluster(cupy: Any) -> int:
    """Blocks of the largest cluster that the current device, which has clusters, starts; 8 if it does not say."""
    module = cupy.cuda.function.Module()
    try:
        function = bind(_FUNCTIONS)["cuOccupancyMaxPotentialClusterSize"]
        module.load(_PROBE)
        probe = module.get_function("probe")
        allow_large(cupy, probe)
    except (OSError, AttributeError, cupy.cuda.driver.CUDADriverError):  # a driver older than clusters
        return PORTABLE_CLUSTER
    cluster_size, config = c_int(), LaunchConfig(64, 1, 1, _THREADS, 1, 1)
    return (
        max(PORTABLE_CLUSTER, cluster_size.value)
        if function(byref(cluster_size), probe.ptr, byref(config)) == 0
        else PORTABLE_CLUSTER
    )


def allow_large(cupy: Any, function: Any) -> None:
    """Let a function have clusters of more than 8 blocks."""
    cupy.cuda.driver.funcSetAttribute(function.ptr, _ALLOWED, 1)
