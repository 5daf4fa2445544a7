# SPDX-License-Identifier: Apache-2.0
"""Device tables: a GPU's constants, shipped or stored by ``hybridgpu calibrate``.

Kernels' forms follow from these figures, and the order in which they add up follows from their forms. So nothing is
measured on the way: a figure is used if it ships with the package or if somebody asked for it to be stored, and the
figures are part of every program's key. Stored ones belong to a GPU's name, its multiprocessors and the driver's version.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from ...cache.disk_cache import Store
from ...compiler.devices.gpu import GpuConstants
from ...compiler.devices.record import constants_of

__all__ = ["PLAUSIBLE", "Gpu", "Known", "digest", "forget", "keep", "known", "rounded", "shipped", "stored"]

SCHEMA = 1
_FOLDER = "devices"  #: in the cache's folder; neither trimmed nor cleared with it
_STEPS = 16  #: of a decade: 15 % apart

#: the constants that a table may have, and between which values; anything else is no figure of a GPU
PLAUSIBLE: Mapping[str, tuple[float, float]] = {
    "op_seconds": (1e-15, 1e-11),
    "byte_seconds": (1e-14, 1e-10),
    "launch_seconds": (2e-7, 1e-4),
    "graph_node_seconds": (1e-7, 1e-4),
    "clock": (2e8, 6e9),
    "memory_seconds": (5e-8, 1e-5),
    "l2_seconds": (2e-8, 5e-6),
    "bytes_in_flight": (1024, 1 << 20),
    "product_bytes_in_flight": (1024, 1 << 20),
    "lone_share": (1, 64),
    "l2_cycle_bytes": (2, 512),
    "lanes": (8, 1024),
    "wide_lanes": (0.5, 1024),
    "tensor_lanes": (8, 32768),
    "shuffle_cycles": (2, 500),
    "barrier_cycles": (2, 5000),
    "cluster_barrier_cycles": (20, 50_000),
    "block_cycles": (2, 50_000),
    "grid_barrier_seconds": (1e-7, 1e-4),
    "grid_arrival_seconds": (1e-13, 1e-6),
    "cooperative_seconds": (1e-9, 1e-4),
    "library_share": (0.01, 1),
    "library_seconds": (1e-7, 1e-3),
}
_INTEGERS = frozenset(c.name for c in constants_of(GpuConstants) if isinstance(c.default, int))


class Gpu(NamedTuple):
    """The key of a table; ``driver`` is the version of CUDA that the driver is for, such as 12090."""

    name: str
    multiprocessors: int
    driver: int

    @property
    def file(self) -> str:
        """The name of its stored figures."""
        slug = re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")[:40]
        return f"{slug}-{self.multiprocessors}-{self.driver}-{sha256(repr(tuple(self)).encode()).hexdigest()[:8]}.json"


class Known(NamedTuple):
    """Constants with their sources: 'datasheet: …', 'assumed: …', 'measured …'."""

    values: Mapping[str, float]
    sources: Mapping[str, str]


NOTHING = Known({}, {})


def rounded(name: str, value: float) -> float:
    """The nearest of 16 steps a decade, 15 % apart: what is measured again comes out the same, mostly."""
    near = float(f"{10 ** (round(math.log10(value) * _STEPS) / _STEPS):.3g}")
    return max(1, round(near)) if name in _INTEGERS else near


def checked(values: object) -> dict[str, float]:
    """The constants of a table.

    Raises:
        ValueError: one of them is none that a table may have, or no plausible figure.
    """
    if not isinstance(values, dict):
        raise ValueError("constants are no object")
    for name, value in values.items():
        if name not in PLAUSIBLE:
            raise ValueError(f"{str(name)[:40]!r} is no constant of a table")
        low, high = PLAUSIBLE[name]
        number = isinstance(value, int if name in _INTEGERS else int | float) and not isinstance(value, bool)
        if not number or not low <= value <= high:
            raise ValueError(f"{name} is {str(value)[:40]}, which is not between {low:g} and {high:g}")
    return values


@lru_cache
def _tables() -> list[Any]:
    text = Path(__file__).with_name("known_devices.json").read_text(encoding="utf-8")
    return json.loads(text)["devices"]  # type: ignore[no-any-return]


def shipped(gpu: Gpu) -> Known:
    """Constants of a GPU in the package's tables; none of most."""
    for entry in _tables():
        if gpu.name in entry["names"] and gpu.multiprocessors == entry["multiprocessors"]:
            constants = entry["constants"]
            sources = {name: f"{source}: {note} ({entry['sheet']})" for name, (_, source, note) in constants.items()}
            return Known(checked({name: value for name, (value, _, _) in constants.items()}), sources)
    return NOTHING


def stored(gpu: Gpu, store: Store) -> Known:
    """Constants measured on such a GPU, in the user's cache folder. What is not as it was written counts as not there."""
    data = store.kept(_FOLDER, gpu.file)
    if data is None:
        return NOTHING
    try:
        entry = json.loads(data)
        if entry["schema"] != SCHEMA or entry["device"] != gpu._asdict():
            return NOTHING
        values, date = checked(entry["constants"]), str(entry["date"])[:40]
    except (ValueError, KeyError, TypeError, RecursionError):
        return NOTHING
    return Known(values, dict.fromkeys(values, f"measured on this machine, {date}"))


def known(gpu: Gpu, store: Store) -> Known:
    """Constants that are stored, and of the rest those that ship."""
    ours, theirs = shipped(gpu), stored(gpu, store)
    return Known({**ours.values, **theirs.values}, {**ours.sources, **theirs.sources})


def keep(gpu: Gpu, values: Mapping[str, float], date: str, store: Store) -> Path | None:
    """Store figures in place of earlier ones; the file, None where nothing can be kept."""
    document = {"schema": SCHEMA, "device": gpu._asdict(), "date": date, "constants": checked(dict(values))}
    return store.keep(_FOLDER, gpu.file, json.dumps(document, indent=1).encode())


def forget(gpu: Gpu, store: Store) -> bool:
    """Delete what is stored; whether there was something."""
    return store.drop(_FOLDER, gpu.file)


@lru_cache
def digest(constants: GpuConstants) -> str:
    """A digest that tells records apart in keys."""
    return sha256(repr(constants).encode()).hexdigest()[:12]
