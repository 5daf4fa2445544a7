# SPDX-License-Identifier: Apache-2.0
"""Key-value stores (``mx.kvstore``): gradients of several devices summed, weights handed out again.

One process only: ``local`` and ``device`` and their spellings. Stores for several processes can be
registered by ``KVStoreBase.register``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from .base import MXNetError
from .io.formats.atomic import replace_file
from .ndarray import NDArray
from .optimizer import Optimizer, Updater, get_updater
from .optimizer.updater import load_states

__all__ = ["KVStore", "KVStoreBase", "create"]

_Class = TypeVar("_Class", bound=type)
_SEVERAL_PROCESSES = ("dist", "horovod", "byteps", "p3")


class KVStoreBase:
    """What a store must offer; subclasses are made known by ``KVStoreBase.register``."""

    OPTIMIZER = "optimizer"
    kv_registry: ClassVar[dict[str, type]] = {}

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Make ``value`` the stored one and write it to all of ``out``."""
        raise NotImplementedError

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Push ``value`` and pull into ``out`` (``value`` itself if None)."""
        raise NotImplementedError

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Let the store update what it holds with pushed gradients."""
        raise NotImplementedError

    @staticmethod
    def is_capable(capability: str) -> bool:
        """True if the store can do ``capability`` ('optimizer')."""
        raise NotImplementedError

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the optimizer's states to a file."""
        raise NotImplementedError

    def load_optimizer_states(self, fname: str) -> None:
        """Read the optimizer's states from a file."""
        raise NotImplementedError

    @property
    def type(self) -> str:
        """The store's kind."""
        raise NotImplementedError

    @property
    def rank(self) -> int:
        """The number of this process."""
        raise NotImplementedError

    @property
    def num_workers(self) -> int:
        """How many processes there are."""
        raise NotImplementedError

    @staticmethod
    def register(klass: _Class) -> _Class:
        """Make a store known by its lower-cased name; a name that is taken is overwritten with a warning."""
        assert isinstance(klass, type)
        name = klass.__name__.lower()
        old = KVStoreBase.kv_registry.get(name)
        if old is not None:
            warnings.warn(
                f"WARNING: New kvstore {klass.__module__}.{klass.__name__} is overriding "
                f"existing kvstore {old.__module__}.{old.__name__}",
                stacklevel=2,
            )
        KVStoreBase.kv_registry[name] = klass
        return klass


def _pairs(keys: Any, values: Any) -> list[tuple[Any, list[NDArray]]]:
    """(key, arrays) for one key or a list of them; a repeated key's arrays are put together.

    Raises:
        AssertionError: keys that are neither all integers nor all strings, or values that do not fit them.
    """
    if isinstance(keys, (tuple, list)):
        assert len(keys) == len(values)
        by_key: dict[Any, list[NDArray]] = {}
        for key, value in zip(keys, values, strict=True):
            for k, arrays in _pairs(key, value):
                by_key.setdefault(k, []).extend(arrays)
        assert len({isinstance(k, str) for k in by_key}) <= 1, "inconsistent types of keys detected."
        return list(by_key.items())
    assert isinstance(keys, (int, str)), f"unexpected type for keys: {type(keys)}"
    arrays = [values] if isinstance(values, NDArray) else list(values)
    assert all(isinstance(a, NDArray) for a in arrays)
    return [(keys, [a.as_nd_ndarray() for a in arrays])]


class KVStore(KVStoreBase):
    """A store within one process.

    Pushed arrays of one key are summed. The sum replaces the stored value, or with an updater
    ``updater(key, sum, stored)`` changes it.
    """

    def __init__(self, kind: str = "local") -> None:
        self._hg_type = kind
        self._hg_on_device = "device" in kind or kind == "nccl"
        self._hg_stored: dict[Any, NDArray] = {}
        self._updater: Any = None

    def _hg_check_keys(self, keys: list[Any]) -> None:
        if self._hg_stored and keys and isinstance(next(iter(self._hg_stored)), str) != isinstance(keys[0], str):
            raise MXNetError("Check failed: key_type_ == key_type: Mixed key types are not allowed")

    def _hg_find(self, key: Any) -> NDArray:
        if key not in self._hg_stored:
            raise MXNetError(f"Check failed: !local.is_none(): key {key} has not been inited")
        return self._hg_stored[key]

    def init(self, key: Any, value: Any) -> None:
        """Store the first value of a key (or of each of a list).

        Raises:
            MXNetError: it has one already.
        """
        pairs = _pairs(key, value)
        self._hg_check_keys([k for k, _ in pairs])
        for k, arrays in pairs:
            if k in self._hg_stored:
                raise MXNetError(
                    f"Check failed: local_.find(keys[i]) == local_.end(): duplicate init of key {k}. Please double check if "
                    "you called kv.init or kv.broadcast with this key multiple times"
                )
            self._hg_stored[k] = arrays[0].copy()

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Sum the arrays of each key, and store the sum or update the stored value with it.

        Raises:
            MXNetError: a key without ``init``.
        """
        pairs = _pairs(key, value)
        self._hg_check_keys([k for k, _ in pairs])
        for k, arrays in pairs:
            stored = self._hg_find(k)
            # 'device' and 'nccl' keep the sum where the gradients are
            if self._hg_on_device and self._updater is None and stored.context != arrays[0].context:
                stored = self._hg_stored[k] = stored.as_in_context(arrays[0].context)
            total = arrays[0].as_in_context(stored.context)
            for a in arrays[1:]:
                total = total + a.as_in_context(stored.context)
            if self._updater is None:
                if total.shape != stored.shape or total.dtype != stored.dtype:
                    self._hg_stored[k] = total.copy()
                else:
                    stored[:] = total
            else:
                self._updater(k, total, stored)

    def pull(self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True) -> None:
        """Write the stored value of each key to all arrays of ``out``.

        Raises:
            MXNetError: a key without ``init``.
        """
        assert out is not None
        pairs = _pairs(key, out)
        self._hg_check_keys([k for k, _ in pairs])
        for k, arrays in pairs:
            stored = self._hg_find(k)
            for a in arrays:
                stored.copyto(a)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """``push``, then ``pull`` into ``out`` (into ``value`` if None)."""
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority)

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """``init``, then ``pull``."""
        self.init(key, value)
        self.pull(key, out, priority)

    def row_sparse_pull(self, key: Any, out: Any = None, priority: int = 0, row_ids: Any = None) -> None:
        """Not there: arrays are dense.

        Raises:
            MXNetError: always.
        """
        raise MXNetError("row_sparse arrays are not supported\nUse pull: it writes the whole array.")

    def set_gradient_compression(self, compression_params: dict[str, Any]) -> None:
        """Not there: gradients do not leave the process.

        Raises:
            MXNetError: always.
        """
        raise MXNetError("Gradient compression is not supported\nLeave compression_params out.")

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Update stored values with pushed gradients by ``optimizer``."""
        self._set_updater(get_updater(optimizer))

    def _set_updater(self, updater: Updater | Callable[[Any, NDArray, NDArray], Any]) -> None:
        """``updater(key, sum of the pushed arrays, stored)`` changes the stored value at each push."""
        self._updater = updater

    set_updater = _set_updater

    @staticmethod
    def is_capable(capability: str) -> bool:
        """True for 'optimizer'.

        Raises:
            ValueError: anything else.
        """
        if capability.lower() == KVStoreBase.OPTIMIZER:
            return True
        raise ValueError(f"Unknown capability: {capability}")

    @property
    def type(self) -> str:
        """'local', 'device' and so on."""
        return self._hg_type

    @property
    def rank(self) -> int:
        """0."""
        return 0

    @property
    def num_workers(self) -> int:
        """1."""
        return 1

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the states (and the optimizer) to a file.

        Raises:
            AssertionError: no optimizer was set.
        """
        assert self._updater is not None, "Cannot save states for distributed training"
        replace_file(fname, self._updater.get_states(dump_optimizer))

    def load_optimizer_states(self, fname: str) -> None:
        """Read what ``save_optimizer_states`` wrote.

        Raises:
            AssertionError: no optimizer was set.
        """
        assert self._updater is not None, "Cannot load states for distributed training"
        load_states([self._updater], fname)


@KVStoreBase.register
class TestStore(KVStoreBase):
    """A store without memory: it only sums; for tests."""

    __test__ = False  # not for pytest

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        for o in out if isinstance(out, list) else [out]:
            o[:] = value

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        values = [value] if isinstance(value, NDArray) else list(value)
        if out is None and isinstance(value, NDArray):
            return
        total = values[0]
        for v in values[1:]:
            total = total + v.as_in_context(total.context)
        targets = values if out is None else out if isinstance(out, list) else [out]
        for t in targets:
            t[:] = total

    @staticmethod
    def is_capable(capability: str) -> bool:
        if capability.lower() == KVStoreBase.OPTIMIZER:
            return False
        raise ValueError(f"Unknown capability: {capability}")

    @property
    def type(self) -> str:
        return "teststore"

    @property
    def rank(self) -> int:
        return 0

    @property
    def num_workers(self) -> int:
        return 1


def create(name: str = "local") -> KVStoreBase:
    """A store by name: a registered one, or one within this process ('local', 'device', 'nccl' or, as in MXNet, any).

    Raises:
        TypeError: the name is no string.
        MXNetError: a store for several processes.
    """
    if not isinstance(name, str):
        raise TypeError("name must be a string")
    key = name.lower()
    if key in KVStoreBase.kv_registry:
        return KVStoreBase.kv_registry[key]()  # type: ignore[no-any-return]
    if any(word in key for word in _SEVERAL_PROCESSES):
        raise MXNetError(
            f"kvstore {name!r} is for several processes, which are not supported\n"
            "Use 'device', or write a store and make it known by KVStoreBase.register."
        )
    return KVStore(key)
