# SPDX-License-Identifier: Apache-2.0
"""``mx.nd.CachedOp``: a Symbol as a function of arrays, compiled as a hybridized block is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..base import MXNetError
from ..core import autograd_state
from ..ndarray.apply import write_out
from ..ndarray.ndarray import NDArray
from ..symbol import Symbol
from . import cached_op
from .hybridize_flags import FLAGS, call_options

__all__ = ["CachedOp"]


class CachedOp:
    """A compiled function of one array for each variable of ``sym``, in the order of ``sym.list_inputs()``.

    Args:
        sym: the graph.
        flags: pairs or a mapping of :meth:`HybridBlock.hybridize`'s flags, with the effect they have there.

    Raises:
        MXNetError: an unknown flag or numeric mode, ``static_shape`` without ``static_alloc``.
    """

    def __init__(self, sym: Symbol, flags: Iterable[tuple[str, Any]] | Mapping[str, Any] = ()) -> None:
        options = dict(flags)
        for name in options:
            if name not in FLAGS:
                raise MXNetError(f"Cannot find argument '{name}', Possible Arguments: {', '.join(FLAGS)}")
        self._names = sym.list_inputs()
        self._run = cached_op.CachedOp(sym, self._names, {}, sym.name or "graph", *call_options(options))

    def __call__(self, *args: NDArray, out: NDArray | list[NDArray] | None = None) -> Any:
        """An array, or a list for a Symbol of several outputs; ``out`` with the results in it where it is given.

        Raises:
            MXNetError: another number of arrays than the graph has variables, shapes that do not fit, an ``out``
                of another shape or element type.
            TypeError: an argument that is no array.
        """
        if len(args) != len(self._names):
            raise MXNetError(
                f"Check failed: inputs.size() == num_inputs() ({len(args)} vs. {len(self._names)}) : \n"
                f"give one array for each of {', '.join(self._names)}"
            )
        for name, x in zip(self._names, args, strict=True):
            if not isinstance(x, NDArray):
                raise TypeError(f"{name} must be an NDArray, not {type(x)}; nd.array makes one")
        trace = autograd_state.state.trace
        results = self._run(args) if trace is None else trace.compose(self._run.symbol, dict(zip(self._names, args)))
        if trace is not None and out is not None:
            raise MXNetError("a graph that becomes part of a traced function has no out=; leave it away")
        if out is None:
            return results[0] if len(results) == 1 else results
        targets = list(out) if isinstance(out, (list, tuple)) else [out]
        if len(targets) != len(results):
            raise MXNetError(f"out has {len(targets)} arrays for {len(results)} results; give one a result")
        write_out([r._data for r in results], targets, exact=True)
        return out
