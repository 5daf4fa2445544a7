# SPDX-License-Identifier: Apache-2.0
"""Parameters of prepared calls: their addresses, and what was computed from them, as of one binding version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...context import Context
from ...ndarray.ndarray import NDArray
from ...ndarray.types import ArrayType
from ...ndarray.versions import exchanging, pinned
from ..compilation import Compiled

if TYPE_CHECKING:
    from ..cached_op import CachedOp

__all__ = ["BoundParameters", "argument_types", "bind_parameters"]


class BoundParameters(NamedTuple):
    """The parameters of a prepared call, which no call changes.

    Attributes:
        live: the parameters' arrays by position.
        params: the same in one version, which stays while a call reads it.
        folded: what was computed from them.
        addresses: of both.
    """

    live: dict[int, NDArray]
    params: dict[int, NDArray]
    folded: list[Any]
    addresses: list[int]


def argument_types(op: CachedOp, types: Sequence[ArrayType]) -> tuple[Context, list[ArrayType]]:
    """The device of a call whose inputs have these types, and the types of its arguments in order."""
    types_by_position = {s: t for s, t in zip(op.sources, types, strict=True) if isinstance(s, int)}
    return types_by_position[0].ctx, [types_by_position[k] for k in range(len(op.data))]


def bind_parameters(
    op: CachedOp, types: Sequence[ArrayType], program: Compiled, ctx: Context
) -> BoundParameters | None:
    """The parameters for all calls of one binding version; None where their addresses cannot be relied on.

    Args:
        types: of the inputs that ``program`` is for; another thread may have cast parameters since.
    """
    with exchanging:
        live = {k: op.sources[k].data(ctx) for k in sorted(op.fixed)}
        params = {k: pinned(p) for k, p in live.items()}
    if any(p._type is not types[k] for k, p in params.items()):
        return None
    folded = op.folded_for(program, params, ctx)
    if folded is None:
        return None
    addresses = [p.address for p in params.values()] + [program.device.address(v) for v in folded]
    return BoundParameters(live, params, list(folded), addresses)
