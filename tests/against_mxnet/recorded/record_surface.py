# SPDX-License-Identifier: Apache-2.0
"""Records the public surface of the real MXNet: modules, classes, functions, their arguments and defaults.

    python record_surface.py       # writes surface.json.xz beside this file; runs in a Python that has MXNet

``modules``: path below ``mxnet`` -> name -> what it is: ``m PATH`` a module, ``f KEY`` a function, ``c KEY`` a class,
``v TYPE`` a value. ``functions``: key -> arguments. ``classes``: key -> ``bases``, ``call`` (the arguments of the
constructor) and ``members``: name -> arguments, or ``property``, or ``v TYPE``, those of bases of MXNet's included.

Arguments are a list of texts: ``name``, ``name=default``, ``*args``, ``**kwargs``, and ``*`` before those that only have
a keyword. Defaults that have no short text are ``<TYPE>``; ``<absent>`` is MXNet's mark of an attribute not given.

Left out: what begins with an underscore (but functions of ``_internal`` modules), and what a module imports from other
libraries without naming it in ``__all__``.
"""

import importlib
import inspect
import json
import lzma
import os
import pkgutil
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
OUTPUT = os.path.join(HERE, "surface.json.xz")
ROOT = "mxnet"
NOT_MODULES = ("mxnet.libmxnet", "mxnet.onnx.setup")  # a library, and a program that runs when it is imported
SCALARS = (type(None), bool, int, float, str, bytes)


def text_of(value):
    """A default as text."""
    if type(value).__name__ == "_NullType":
        return "<absent>"
    if isinstance(value, str) and value.startswith(os.path.expanduser("~")):
        return "<path>"
    if isinstance(value, SCALARS):
        return repr(value)
    if isinstance(value, (tuple, list)) and all(isinstance(v, SCALARS) for v in value) and len(value) < 8:
        return repr(value)
    if isinstance(value, dict) and not value:
        return "{}"
    if isinstance(value, type):
        return value.__name__
    return f"<{type(value).__name__}>"


def arguments(function, skip=0):
    """The arguments of what can be called; None where Python does not know them."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[skip:]
    except (ValueError, TypeError):
        return None
    found, star = [], False
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            found.append("*" + p.name)
            star = True
        elif p.kind is p.VAR_KEYWORD:
            found.append("**" + p.name)
        else:
            if p.kind is p.KEYWORD_ONLY and not star:
                found.append("*")
                star = True
            found.append(p.name if p.default is p.empty else f"{p.name}={text_of(p.default)}")
    return found


def below(name):
    """Whether a module is MXNet's."""
    return isinstance(name, str) and (name == ROOT or name.startswith(ROOT + "."))


class Surface:
    """What was found, each object once."""

    def __init__(self):
        self.modules, self.functions, self.classes = {}, {}, {}
        self._keys = {}

    def key(self, value, table):
        """A text that names an object, the same for the same object."""
        known = self._keys.get(id(value))
        if known is None:
            key = "{}.{}".format(getattr(value, "__module__", ""), getattr(value, "__qualname__", value.__name__))
            key = key[len(ROOT) + 1 :] if below(key) else key
            while key in table:
                key += "'"
            self._keys[id(value)] = known = (key, value)  # the value, so that no other object gets its id
        return known[0]

    def module(self, path, module):
        """Record one module."""
        names = self.modules.setdefault(path[len(ROOT) + 1 :], {})
        internal = path.rpartition(".")[2] == "_internal"
        listed = getattr(module, "__all__", ())
        for name in dir(module):
            value = getattr(module, name, None)
            if name.startswith("__") or name.startswith("_") and not (internal and callable(value)):
                continue
            text = self.value(value, name in listed)
            if text is not None:
                names[name] = text

    def value(self, value, listed):
        """What a name of a module is; None for what is not recorded."""
        if isinstance(value, types.ModuleType):
            return "m " + value.__name__[len(ROOT) + 1 :] if below(value.__name__) else None
        if not listed and not below(getattr(value, "__module__", None)) and callable(value):
            return None
        if type(value).__module__ == "__future__":
            return None
        if isinstance(value, type):
            if not below(value.__module__):
                return "v type"
            key = self.key(value, self.classes)
            if key not in self.classes:
                self.classes[key] = None
                self.classes[key] = self.a_class(value)
            return "c " + key
        if callable(value) and hasattr(value, "__name__"):
            key = self.key(value, self.functions)
            self.functions[key] = arguments(value)
            return "f " + key
        return "v " + type(value).__name__

    def a_class(self, cls):
        """Constructor and members."""
        members = {}
        for name in dir(cls):
            if name.startswith("_") and name not in ("__call__", "__getitem__", "__setitem__", "__enter__", "__exit__"):
                continue
            owner = next((c for c in cls.__mro__ if name in c.__dict__), None)
            if owner is None or not below(owner.__module__):
                continue
            raw = owner.__dict__[name]
            if isinstance(raw, (staticmethod, classmethod)):
                members[name] = arguments(getattr(cls, name))
            elif isinstance(raw, property):
                members[name] = "property"
            elif inspect.isfunction(raw):
                members[name] = arguments(raw, 1)
            else:
                members[name] = "v " + type(raw).__name__
        own = next((c for c in cls.__mro__ if "__init__" in c.__dict__), object)
        call = arguments(own.__init__, 1) if below(own.__module__) else None
        bases = [c.__name__ for c in cls.__mro__[1:] if below(c.__module__)]
        return {"bases": bases, "call": call, "members": members}


def main():
    """Walk the modules and write the file."""
    mxnet = importlib.import_module(ROOT)
    for found in pkgutil.walk_packages(mxnet.__path__, ROOT + ".", onerror=lambda name: None):
        if found.name not in NOT_MODULES:
            importlib.import_module(found.name)
    surface = Surface()
    for path in sorted(p for p in sys.modules if below(p)):
        if not any(part.startswith("_") and part != "_internal" for part in path.split(".")):
            surface.module(path, sys.modules[path])
    content = {
        "version": mxnet.__version__,
        "modules": surface.modules,
        "functions": surface.functions,
        "classes": surface.classes,
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    with lzma.open(OUTPUT, "wt", preset=9) as file:
        file.write(text)
    names = sum(map(len, surface.modules.values()))
    members = sum(len(c["members"]) for c in surface.classes.values())
    given = [c["call"] for c in surface.classes.values()] + list(surface.functions.values())
    given += [m for c in surface.classes.values() for m in c["members"].values() if isinstance(m, list)]
    count = sum(len(a) for a in given if a)
    print(
        len(surface.modules),
        "modules,",
        names,
        "names,",
        members,
        "members,",
        count,
        "arguments;",
        len(text),
        "characters",
    )


if __name__ == "__main__":
    main()
