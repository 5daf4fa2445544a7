# SPDX-License-Identifier: Apache-2.0
"""KernelObjects: the machine code of translation units that is kept, and which kernels are in it.

A unit has a dozen kernels, since a compiler that starts for each and reads its headers takes longer than they do. Of a
program that has one other kernel only that is compiled: those that an earlier unit had are linked from there, also under
other names, which say what operators a kernel computes. A kernel's
code does not depend on what stands beside it (nothing but what all of a unit share is a function of its own, and that is
compiled of arguments of which nothing is known), but on what the head of its unit tells the compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...cache.disk_cache import Store
from ...compiler.program import END_OF_KERNEL, kernel_name

if TYPE_CHECKING:
    from .toolchain import Toolchain

__all__ = ["KernelObjects", "UnitPlan"]


class UnitPlan(NamedTuple):
    """How a unit's machine code is come by.

    Attributes:
        objects: what is kept of it, a part of it or all.
        text: what is to be compiled, '' if nothing is.
        aliases: names of kernels that the objects have under others, and those.
    """

    objects: list[bytes]
    text: str
    aliases: dict[str, str]


class KernelObjects:
    """The objects that one compiler has made for a numeric mode, and where each kernel is among them, in a store."""

    def __init__(self, toolchain: Toolchain, numeric: str, store: Store) -> None:
        self._toolchain, self._numeric, self._store = toolchain, numeric, store

    def plan(self, unit: str) -> UnitPlan:
        """What is kept of a unit, and what is left to compile."""
        head, *kernels = unit.split(END_OF_KERNEL)
        whole = self._store.get("o", self._key(unit))
        if whole is not None:
            return UnitPlan([whole], "", {})
        objects: dict[str, bytes] = {}
        aliases: dict[str, str] = {}
        missing = [kernel for kernel in kernels if not self._found(head, kernel, objects, aliases)]
        if len(missing) == len(kernels):
            return UnitPlan([], unit, {})
        return UnitPlan(list(objects.values()), END_OF_KERNEL.join([head, *missing]) if missing else "", aliases)

    def keep(self, text: str, code: bytes) -> None:
        """Keep what was compiled of a plan's text."""
        head, *kernels = text.split(END_OF_KERNEL)
        key = self._key(text)
        self._store.put("o", key, code)
        for kernel in kernels:
            name = kernel_name(kernel)
            self._store.put_json("unit", self._kernel_key(head, kernel, name), [key, name])

    def _found(self, head: str, kernel: str, objects: dict[str, bytes], aliases: dict[str, str]) -> bool:
        """Whether an object has a kernel; it is put into ``objects``, by its key, and another name there into ``aliases``."""
        name = kernel_name(kernel)
        match self._store.get_json("unit", self._kernel_key(head, kernel, name)):
            case [str() as key, str() as own] if self._toolchain.part_options:
                code = objects.get(key) or self._store.get("o", key)
                if code is None:
                    return False
                objects[key] = code
                if own != name:
                    aliases[name] = own
                return True
            case _:
                return False

    def _kernel_key(self, head: str, kernel: str, name: str) -> str:
        """Under which it is kept which object has a kernel: by the head, without headers that others may need, and its text
        without its name, which is all that differs where other operators have the same one."""
        told = [line for line in head.splitlines(keepends=True) if not line.startswith("#include")]
        return self._key("".join([*told, kernel.replace(name, "") if name else kernel]))

    def _key(self, text: str) -> str:
        return self._toolchain.unit_key(self._numeric, text)
