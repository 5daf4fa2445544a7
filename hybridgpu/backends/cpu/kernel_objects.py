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
from ...compiler.program import Unit, kernel_head

if TYPE_CHECKING:
    from .toolchain import Toolchain

__all__ = ["KernelObjects", "UnitPlan"]


class UnitPlan(NamedTuple):
    """The origin of a unit's machine code: what is kept, what is compiled.

    Attributes:
        text: what is to be compiled, '' if nothing is.
        kernels: the names of those in it, by the keys under which it is kept where they are.
        objects: what is kept of the other ones, by key.
        aliases: names of kernels that the objects have under others, and those.
        may_keep: whether other programs may have what is compiled.
    """

    text: str
    kernels: dict[str, str]
    objects: dict[str, bytes]
    aliases: dict[str, str]
    may_keep: bool = False


class KernelObjects:
    """The objects that one compiler has made for a numeric mode, and where each kernel is among them, in a store."""

    def __init__(self, toolchain: Toolchain, numeric: str, store: Store) -> None:
        self._toolchain, self._numeric, self._store = toolchain, numeric, store

    def plan(self, unit: Unit, anew: bool = False) -> UnitPlan:
        """The plan of a unit: what is kept, and what is left to compile: entries in any case, where they call what is kept.

        Nothing is left of an entry in what is kept where a program has its own; a second one would be linked into programs
        that have none, with calls of kernels that they lack.

        Args:
            anew: all is left.
        """
        if not unit.kernels:
            return UnitPlan(unit.text, {}, {}, {})
        whole = None if unit.entries or anew else self._store.get("o", self._key(unit.text))
        if whole:  # (to a linker an empty file is one that says nothing)
            return UnitPlan("", {}, {self._key(unit.text): whole}, {})
        left, missing = Unit(unit.head, entries=unit.entries), dict[str, str]()
        objects: dict[str, bytes] = {}
        aliases: dict[str, str] = {}
        for name, text in unit.kernels:
            key = self._kernel_key(unit.head, text, name)
            if anew or not self._found(key, name, objects, aliases):
                left.kernels.append((name, text))
                missing[key] = name
            elif unit.entries:
                left.kernels.append((name, f"{kernel_head(text)};\n"))
        text = left.text if missing or unit.entries else ""
        return UnitPlan(text, missing, objects, aliases, may_keep=unit.entry_count < 2)

    def keep(self, plan: UnitPlan, code: bytes) -> None:
        """Keep what was compiled of a plan's text."""
        if not plan.kernels or not plan.may_keep:
            return
        key = self._key(plan.text)
        self._store.put("o", key, code)
        for kernel_key, name in plan.kernels.items():
            self._store.put_json("unit", kernel_key, [key, name])

    def _found(self, kernel_key: str, name: str, objects: dict[str, bytes], aliases: dict[str, str]) -> bool:
        """Whether an object has a kernel; it is put into ``objects``, by its key, and another name there into ``aliases``."""
        match self._store.get_json("unit", kernel_key) if self._toolchain.part_options else None:
            case [str() as key, str() as own]:
                code = objects.get(key) or self._store.get("o", key)
                if not code:
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
