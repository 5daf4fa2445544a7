# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs through the driver API: built node by node, changed in place, started by one call.

A kernel is a node, whose arguments are set. A call of a library is captured on a stream of our own and becomes a node that is
a graph; with other addresses it is captured again, and takes the place of the old one, which CUDA allows as long as
the library starts the same kernels in the same order. The capture is of the calling thread's mode: other threads do as they
like meanwhile, and what a library must not do then is an error of that call.

CuPy captures streams into graphs but cannot change a node's arguments, so some functions of libcuda
are called by ctypes. Their names and structures are those of CUDA 12 and 13.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import POINTER, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from typing import Any

from ..device_errors import DeviceError
from .driver import Launch, LibraryStart, NoGraphError, NotCapturedError
from .libcuda import ERROR_TEXTS, PATH, bind, failure

__all__ = ["Captures", "CudaGraph", "GraphFunctions", "KernelNode", "graph_functions"]


_COOPERATIVE = 2  #: CU_LAUNCH_ATTRIBUTE_COOPERATIVE
_NON_BLOCKING = 1  #: CU_STREAM_NON_BLOCKING: the default stream does not wait for it
_OF_THREAD = 1  #: CU_STREAM_CAPTURE_MODE_THREAD_LOCAL


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
    # graph's new node, graph, nodes it waits for, their number, the graph of which it becomes a copy
    "cuGraphAddChildGraphNode": (POINTER(c_void_p), c_void_p, POINTER(c_void_p), c_size_t, c_void_p),
    "cuGraphExecChildGraphNodeSetParams": (c_void_p, c_void_p, c_void_p),
    "cuStreamCreate": (POINTER(c_void_p), c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, POINTER(c_void_p)),
    "cuGraphInstantiateWithFlags": (POINTER(c_void_p), c_void_p, c_ulonglong),
    "cuGraphExecKernelNodeSetParams_v2": (c_void_p, c_void_p, c_void_p),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphExecDestroy": (c_void_p,),
    "cuGraphDestroy": (c_void_p,),
    **ERROR_TEXTS,
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
            self._functions = bind(_FUNCTIONS, path)
        except OSError as e:
            raise NoGraphError(f"{path} cannot be loaded ({e})") from e
        except AttributeError as e:
            raise NoGraphError(f"{e}; CUDA graphs need a driver for CUDA 12") from None
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

    def status(self, name: str, *arguments: Any) -> int:
        """Call a function; what it returned."""
        return int(self._functions[name](*arguments))

    def error(self, name: str, status: int) -> DeviceError:
        """The error of a function that returned ``status``."""
        advice = "Without static_shape=True in hybridize() no CUDA graphs are used."
        return failure(self._functions, name, status, advice)

    def destroy(self, graph: c_void_p, executable: c_void_p) -> None:
        """Free a graph; one that is running is freed when it has ended."""
        if not sys.is_finalizing():
            if executable:
                self._functions["cuGraphExecDestroy"](executable)
            self._functions["cuGraphDestroy"](graph)

    def destroy_stream(self, stream: c_void_p) -> None:
        """Free a stream."""
        if not sys.is_finalizing():
            self._functions["cuStreamDestroy_v2"](stream)


@functools.lru_cache(maxsize=1)
def graph_functions() -> GraphFunctions:
    """The functions of this machine's driver.

    Raises:
        NoGraphError: see :class:`GraphFunctions`.
    """
    return GraphFunctions(PATH)


class Captures:
    """Streams of one device on which libraries' calls are captured, one a thread."""

    def __init__(self) -> None:
        self._own = threading.local()

    def capture(self, functions: GraphFunctions, start: LibraryStart, node: int) -> c_void_p:
        """A graph of what ``start`` starts, which the caller destroys.

        Args:
            node: number for the error.

        Raises:
            NotCapturedError: it was not captured, with the library's words or CUDA's.
            DeviceError: there is no memory for it, or the device computes nothing any more.
        """
        stream = getattr(self._own, "stream", None)
        if stream is None:
            stream = self._own.stream = _Stream(functions)
        captured, refused, failure = c_void_p(), False, None
        functions.call("cuStreamBeginCapture_v2", stream.handle, _OF_THREAD)
        try:
            refused = not start(stream.handle.value or 0)
        except DeviceError as e:
            failure = e
        finally:  # whatever happened, the stream is no longer captured then
            status = functions.status("cuStreamEndCapture", stream.handle, ctypes.byref(captured))
        if failure is None and status:
            failure = functions.error("cuStreamEndCapture", status)
        if failure is None and not refused:
            return captured
        if captured:
            functions.call("cuGraphDestroy", captured)
        if failure is not None and (failure.memory or failure.lost):
            raise failure
        if failure is None:
            raise NotCapturedError(node, "the library refuses it")
        raise NotCapturedError.of(node, failure) from failure


class _Stream:
    def __init__(self, functions: GraphFunctions) -> None:
        self.handle = c_void_p()
        functions.call("cuStreamCreate", ctypes.byref(self.handle), _NON_BLOCKING)
        weakref.finalize(self, functions.destroy_stream, self.handle).atexit = False


class CudaGraph:
    """Kernels and libraries' calls in a chain: each waits for the one before.

    Args:
        functions: of the driver.
        steps: the kernels, with their arguments' blocks, which whoever holds the graph keeps alive; and the calls.
        handles: the kernels' functions (CUfunction); of calls nothing.
        captures: where calls are captured.

    Raises:
        NoGraphError: CUDA refuses to make it; the message has CUDA's words.
        NotCapturedError: it refuses to capture one of the calls.
        DeviceError: there is no memory for it, or the device computes nothing any more.
    """

    def __init__(
        self,
        functions: GraphFunctions,
        steps: Sequence[Launch | LibraryStart],
        handles: Sequence[int],
        captures: Captures | None = None,
    ) -> None:
        self._functions, self._launch, self._set = functions, functions.launch, functions.set_params
        self._steps, self._captures = list(steps), captures or Captures()
        graph, executable = c_void_p(), c_void_p()
        #: of kernels; None stands for a call
        self._parameters = [
            KernelNode(k, *step.grid, 1, step.threads, 1, 1, step.shared, step.parameters, None, None, None)
            if isinstance(step, Launch)
            else None
            for k, step in zip(handles, steps, strict=True)
        ]
        try:
            functions.call("cuGraphCreate", ctypes.byref(graph), 0)
            weakref.finalize(self, functions.destroy, graph, executable).atexit = False
            nodes: list[c_void_p] = []
            for k in range(len(self._steps)):
                nodes.append(self._added(k, graph, nodes))
            functions.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, 0)
        except DeviceError as e:
            if e.memory or e.lost:
                raise
            raise NoGraphError(str(e).splitlines()[0]) from e
        self._executable = executable.value
        self._nodes = [
            (node.value, ctypes.addressof(p) if p is not None else 0)
            for node, p in zip(nodes, self._parameters, strict=True)
        ]

    def _added(self, k: int, graph: c_void_p, nodes: Sequence[c_void_p]) -> c_void_p:
        """A new node of ``graph`` behind the others."""
        functions, step, parameters, node = self._functions, self._steps[k], self._parameters[k], c_void_p()
        behind = graph, ctypes.byref(nodes[-1]) if nodes else None, 1 if nodes else 0
        if parameters is None:
            with self._captured(k) as child:
                functions.call("cuGraphAddChildGraphNode", ctypes.byref(node), *behind, child)
            return node
        functions.call("cuGraphAddKernelNode_v2", ctypes.byref(node), *behind, ctypes.byref(parameters))
        if isinstance(step, Launch) and step.cooperative:
            together = (c_int * 16)(1)  # CUlaunchAttributeValue has 64 bytes
            functions.call("cuGraphKernelNodeSetAttribute", node, _COOPERATIVE, together)
        return node

    @contextmanager
    def _captured(self, k: int) -> Iterator[c_void_p]:
        """The graph of a call, as long as it is copied; what CUDA refuses then is told of that call."""
        functions, step = self._functions, self._steps[k]
        assert not isinstance(step, Launch)
        child = self._captures.capture(functions, step, k)
        try:
            yield child
        except DeviceError as e:
            if e.memory or e.lost:
                raise
            raise NotCapturedError.of(k, e) from e
        finally:
            functions.call("cuGraphDestroy", child)

    def update(self, node: int) -> None:
        """See :class:`KernelGraph`.

        Raises:
            DeviceError: CUDA reports an error.
        """
        handle, parameters = self._nodes[node]
        if not parameters:
            with self._captured(node) as child:
                self._functions.call("cuGraphExecChildGraphNodeSetParams", self._executable, handle, child)
            return
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
