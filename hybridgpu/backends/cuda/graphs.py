# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs of kernels through the driver API: built node by node, changed in place, started by one call.

CuPy captures streams into graphs but cannot change a node's arguments, so ten functions of libcuda
are called by ctypes. Their names and structures are those of CUDA 12 and 13.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import weakref
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from typing import Any

from ..failures import DeviceError
from .driver import Launch, NoGraphError
from .errors import driver_error

__all__ = ["CudaGraph", "GraphFunctions", "KernelNode", "graph_functions"]


_COOPERATIVE = 2  #: CU_LAUNCH_ATTRIBUTE_COOPERATIVE


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS (its second version)."""

    _fields_ = (
        ("func", c_void_p),
        ("gridDimX", c_uint),
        ("gridDimY", c_uint),
        ("gridDimZ", c_uint),
        ("blockDimX", c_uint),
        ("blockDimY", c_uint),
        ("blockDimZ", c_uint),
        ("sharedMemBytes", c_uint),
        ("kernelParams", c_void_p),
        ("extra", c_void_p),
        ("kern", c_void_p),
        ("ctx", c_void_p),
    )


#: name -> types of the arguments; all return a CUresult
_FUNCTIONS: dict[str, Sequence[Any]] = {
    "cuGraphCreate": (POINTER(c_void_p), c_uint),
    # graph's new node, graph, nodes it waits for, their number, parameters
    "cuGraphAddKernelNode_v2": (POINTER(c_void_p), c_void_p, POINTER(c_void_p), c_size_t, POINTER(KernelNode)),
    # a node, which attribute, its value
    "cuGraphKernelNodeSetAttribute": (c_void_p, c_int, c_void_p),
    "cuGraphInstantiateWithFlags": (POINTER(c_void_p), c_void_p, c_ulonglong),
    "cuGraphExecKernelNodeSetParams_v2": (c_void_p, c_void_p, c_void_p),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphExecDestroy": (c_void_p,),
    "cuGraphDestroy": (c_void_p,),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
}


class GraphFunctions:
    """The functions of libcuda that graphs need.

    Args:
        path: of the library.

    Raises:
        NoGraphError: there is no such library, or it is older than CUDA 12.
    """

    def __init__(self, path: str) -> None:
        try:
            library = ctypes.CDLL(path)
        except OSError as e:
            raise NoGraphError(f"{path} cannot be loaded ({e})") from e
        self._functions: dict[str, Any] = {}
        for name, types in _FUNCTIONS.items():
            try:
                function = getattr(library, name)
            except AttributeError:
                raise NoGraphError(f"the CUDA driver has no {name}; CUDA graphs need a driver for CUDA 12") from None
            function.argtypes, function.restype = types, c_int
            self._functions[name] = function
        self.launch = self._functions["cuGraphLaunch"]
        self.set_params = self._functions["cuGraphExecKernelNodeSetParams_v2"]

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            DeviceError: CUDA reports an error.
        """
        status = self._functions[name](*arguments)
        if status:
            raise self.error(name, status)

    def error(self, name: str, status: int) -> DeviceError:
        """The error of a function that returned ``status``."""

        def said(ask: str) -> str:
            text = c_char_p()
            known = self._functions[ask](status, ctypes.byref(text)) == 0
            return (text.value or b"").decode("utf-8", "replace") if known else ""

        advice = "Without static_shape=True in hybridize() no CUDA graphs are used."
        return driver_error(status, name, said("cuGetErrorName"), said("cuGetErrorString"), advice)

    def destroy(self, graph: c_void_p, executable: c_void_p) -> None:
        """Free a graph; one that is running is freed when it has ended."""
        if not sys.is_finalizing():
            if executable:
                self._functions["cuGraphExecDestroy"](executable)
            self._functions["cuGraphDestroy"](graph)


@functools.lru_cache(maxsize=1)
def graph_functions() -> GraphFunctions:
    """The functions of this machine's driver.

    Raises:
        NoGraphError: see :class:`GraphFunctions`.
    """
    return GraphFunctions("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


class CudaGraph:
    """Kernels in a chain: each waits for the one before.

    Args:
        functions: of the driver.
        launches: the kernels, with their arguments' blocks; whoever holds the graph keeps these alive.
        handles: their functions (CUfunction).

    Raises:
        NoGraphError: CUDA refuses to make it; the message has CUDA's words.
        DeviceError: there is no memory for it, or the device computes nothing any more.
    """

    def __init__(self, functions: GraphFunctions, launches: Sequence[Launch], handles: Sequence[int]) -> None:
        self._functions, self._launch, self._set = functions, functions.launch, functions.set_params
        graph, executable = c_void_p(), c_void_p()
        self._parameters = [
            KernelNode(k, *launch.grid, 1, launch.threads, 1, 1, launch.shared, launch.parameters, None, None, None)
            for k, launch in zip(handles, launches, strict=True)
        ]
        try:
            functions.call("cuGraphCreate", ctypes.byref(graph), 0)
            weakref.finalize(self, functions.destroy, graph, executable).atexit = False
            nodes: list[c_void_p] = []
            for parameters in self._parameters:
                node = c_void_p()
                before = ctypes.byref(nodes[-1]) if nodes else None
                functions.call(
                    "cuGraphAddKernelNode_v2",
                    ctypes.byref(node),
                    graph,
                    before,
                    1 if nodes else 0,
                    ctypes.byref(parameters),
                )
                nodes.append(node)
                if launches[len(nodes) - 1].cooperative:
                    together = (c_int * 16)(1)  # CUlaunchAttributeValue has 64 bytes
                    functions.call("cuGraphKernelNodeSetAttribute", node, _COOPERATIVE, together)
            functions.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, 0)
        except DeviceError as e:
            if e.memory or e.lost:
                raise
            raise NoGraphError(str(e).splitlines()[0]) from e
        self._executable = executable.value
        self._nodes = [(node.value, ctypes.addressof(p)) for node, p in zip(nodes, self._parameters, strict=True)]

    def update(self, node: int) -> None:
        """See :class:`KernelGraph`.

        Raises:
            DeviceError: CUDA reports an error.
        """
        handle, parameters = self._nodes[node]
        status = self._set(self._executable, handle, parameters)
        if status:
            raise self._functions.error("cuGraphExecKernelNodeSetParams", status)

    def launch(self, stream: int) -> None:
        """See :class:`KernelGraph`.

        Raises:
            DeviceError: CUDA reports an error.
        """
        status = self._launch(self._executable, stream)
        if status:
            raise self._functions.error("cuGraphLaunch", status)
