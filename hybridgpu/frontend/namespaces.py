# SPDX-License-Identifier: Apache-2.0
"""Namespaces of operator functions, filled at first access."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any

from ..core.source_location import current_block, located_hint
from ..ops.functions import find, make_function, names_in
from ..ops.record import OPERATORS
from .module_aliases import PackageModule, borrowed

__all__ = ["NUMPY_MODULES", "Functions", "Namespace", "importable", "sampler_lookup"]

#: names of nd and sym under which NumPy's interface is found -> its package
NUMPY_MODULES = {
    "np": "numpy",
    "numpy": "numpy",
    "npx": "numpy_extension",
    "numpy_extension": "numpy_extension",
}


class Namespace(PackageModule):
    """``nd.contrib`` and its like, modules that can be imported: attributes are functions made from the operator table.

    Args:
        name: which operators, see ``ops.functions.find``.
        apply: (operator, spelled name, Bound) -> result.
        module: 'ndarray' or 'symbol', for ``__module__`` and messages.
        full_name: of the module, where that is another one.
        repeated: as for ``make_function``.
    """

    def __init__(
        self,
        name: str,
        apply: Callable[..., Any],
        module: str,
        full_name: str = "",
        repeated: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None,
    ) -> None:
        super().__init__(full_name or f"hybridgpu.{module}" + (f".{name}" if name else ""))
        self._name, self._apply, self._module, self._repeated = name, apply, module, repeated

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        op = find(name, self._name)
        if op is None:
            try:
                return super().__getattr__(name)
            except AttributeError as error:
                if "\n" in str(error):
                    raise
            text = f"module '{self.__name__}' has no attribute '{name}'"
            for part in () if self._name else ("contrib", "linalg", "random", "image"):
                if find(name, part):
                    raise AttributeError(f"{text}\n{located_hint(f'Write {_spelled(self._module)}.{part}.{name}.')}")
            near = _similar(name, self._name)
            # with the name alone: Python would add its own guess
            raise AttributeError(f"{text}; did you mean {near}?" if near else text, name=name)
        spelled = f"_{self._name}_{name}" if self._name in ("np", "npi", "npx") else name
        function = make_function(op, spelled, self._apply, self.__name__, self._repeated)
        setattr(self, name, function)
        return function

    def __dir__(self) -> list[str]:
        return sorted({*_public(self), *names_in(self._name)})

    def __repr__(self) -> str:
        return f"<module '{self.__name__}'>"


class Functions(PackageModule):
    """np, npx or a part of one, such as ``np.random``: functions of ``ops.numpy`` with an application filled in.

    Args:
        module: its name below hybridgpu, such as 'numpy.random'.
        application: gives what functions are applied with; called at first access, which imports all definitions.
        table: 'NP' or 'NPX', the definitions in ``ops.numpy``.
        part: what names in the table begin with, such as 'random'.
    """

    def __init__(self, module: str, application: Callable[[], Any], table: str, part: str = "") -> None:
        super().__init__(f"hybridgpu.{module}")
        self._application, self._table, self._prefix = application, table, part and f"{part}."

    def _definitions(self) -> dict[str, Callable[..., Any]]:
        from ..ops import numpy

        definitions: dict[str, Callable[..., Any]] = getattr(numpy, self._table)
        return definitions

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        definition = self._definitions().get(self._prefix + name)
        if definition is None:
            try:
                return super().__getattr__(name)
            except AttributeError as error:
                if "\n" in str(error):
                    raise
            text = f"module '{self.__name__}' has no attribute '{name}'"
            import difflib

            if instead := self._instead(name):
                raise AttributeError(f"{text}\n{instead}")
            near = difflib.get_close_matches(name, self._names(), 1, 0.8)
            raise AttributeError(f"{text}; did you mean {near[0]}?" if near else text, name=name)
        function = _applied(definition, self._application(), name, self.__name__)
        function.__doc__ = self._documentation(name)
        setattr(self, name, function)
        return function

    def _documentation(self, name: str) -> str:
        from ..ops.numpy.documentation import documentation

        array = "Symbol" if self.__name__.startswith("hybridgpu.symbol.") else "ndarray"
        return documentation(self._prefix + name, self._definitions(), array)

    def _instead(self, name: str) -> str:
        """For a name that np lacks: npx has it, or NumPy itself; for one that npx lacks: np has it. Else ''."""
        import numpy

        from ..core.source_location import current_block, located_hint
        from ..ops.numpy import NP, NPX

        symbolic = self.__name__.startswith("hybridgpu.symbol.")
        if not self._prefix and name in (NPX if self._table == "NP" else NP):
            functions = "" if not symbolic else "F." if current_block() else "sym."
            return located_hint(f"Write {functions}{'npx' if self._table == 'NP' else 'np'}.{name}.")
        path = self._prefix + name
        home = getattr(numpy, self._prefix[:-1], None) if self._prefix else numpy
        own = getattr(home, name, None) if self._table == "NP" and not symbolic else None
        if not callable(own) or isinstance(own, type):
            return ""
        what = "draws numbers that NumPy's seed decides"
        if not path.startswith("random."):
            what = "takes arrays of np where nothing is traced or recorded"
        return located_hint(f"Write numpy.{path}(...): NumPy's function {what}. MXNet's np does not have it.")

    def _names(self) -> list[str]:
        start = len(self._prefix)
        names = (n[start:] for n in self._definitions() if n.startswith(self._prefix))
        return sorted(n for n in names if "." not in n)

    def __dir__(self) -> list[str]:
        return sorted({*_public(self), *self._names()})

    def __repr__(self) -> str:
        return f"<module '{self.__name__}'>"


def _public(space: ModuleType) -> list[str]:
    shown = (name for name in space.__dict__ if name.startswith("__") or not name.startswith("_"))
    return [name for name in shown if not borrowed(space.__name__, name)]


def _applied(definition: Callable[..., Any], application: Any, name: str, module: str) -> Callable[..., Any]:
    """A definition with its application filled in, as a function of a module."""

    # names and defaults, as those of nd have: most types are Any, which tells no reader anything
    parameters = [p.replace(annotation=p.empty) for p in inspect.signature(definition).parameters.values()][1:]
    renamed = _input_name(name, module, parameters)
    if renamed:
        first, parameters[0] = parameters[0].name, parameters[0].replace(name=renamed)
    of_nodes = application.symbolic and any(p.name == "name" for p in parameters)
    if of_nodes:
        attr = inspect.Parameter("attr", inspect.Parameter.KEYWORD_ONLY, default=None)
        end = len(parameters) - (parameters[-1].kind is inspect.Parameter.VAR_KEYWORD)
        parameters.insert(end, attr)

    def function(*args: Any, **kwargs: Any) -> Any:
        if renamed and renamed in kwargs:
            kwargs[first] = kwargs.pop(renamed)
        attributes = kwargs.pop("attr", None) if of_nodes else None
        if attributes:
            from ..attribute import AttrScope

            with AttrScope(**attributes):
                return definition(application, *args, **kwargs)
        try:
            return definition(application, *args, **kwargs)
        except TypeError as error:
            if kwargs and parameters[-1:] and parameters[-1].kind is not inspect.Parameter.VAR_KEYWORD:
                from ..hints.arguments import add_taken

                add_taken(error, name, [p.name for p in parameters], kwargs)
            raise

    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function


def _input_name(name: str, module: str, parameters: list[inspect.Parameter]) -> str:
    """What the first input is called in nd.np and sym.np, where MXNet makes functions of the operators ``_np_*``, if it has
    another name in np; ``''`` if not."""
    if module not in ("hybridgpu.ndarray.numpy", "hybridgpu.symbol.numpy") or not parameters:
        return ""
    op = find(name, "np")
    if op is None or not any(n == f"_np_{name}" for n in (op.name, *op.aliases)) or op.inputs[:1] != ("data",):
        return ""
    return "data" if parameters[0].name != "data" else ""


def importable(*spaces: ModuleType) -> None:
    """Let import statements find namespaces, which have no file: ``from hybridgpu.ndarray.contrib import ...``."""
    sys.modules.update((space.__name__, space) for space in spaces)


def _spelled(module: str) -> str:
    """What users call the module of operators: nd, F where a block is traced, or sym."""
    return "nd" if module == "ndarray" else "F" if current_block() else "sym"


def _similar(name: str, namespace: str) -> str:
    return _closest(name, namespace, len(OPERATORS))


@lru_cache(1024)
def _closest(name: str, namespace: str, operators: int) -> str:
    """The name of an operator that is spelled nearly so; ``operators``: how many there are, which may become more."""
    import difflib

    matches = difflib.get_close_matches(name, list(names_in(namespace)), 1, 0.8)
    return matches[0] if matches else ""


def sampler_lookup(samplers: Mapping[str, Any], operators: Namespace, members: dict[str, Any]) -> Callable[[str], Any]:
    """``__getattr__`` of ``nd.random`` and ``sym.random``: a sampler, else the function of an operator.

    Args:
        members: the globals of the module, which keep what was found.
    """

    def find_member(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        sampler = samplers.get(name)
        members[name] = value = sampler if sampler is not None else getattr(operators, name)
        return value

    return find_member
