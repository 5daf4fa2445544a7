# SPDX-License-Identifier: Apache-2.0
"""The text of a graph, for one-line programs that MXNet runs, too; Python 3.8 runs this module.

    python graphs.py              # with MXNet: brings the digests of graphs.txt up to date
    python graphs.py FILE         # with MXNet: writes what each program gives to a JSON file
    python graphs.py FILE TEXTS   # with MXNet: writes what it makes of the graphs of a JSON file, old ones perhaps

A line of graphs.txt is the digest of what MXNet 1.9.1 makes of a program, and the program: an expression of
``mx``, ``sym``, ``nn``, ``zoo``, ``np`` and the variables ``x``, ``y``, ``z``, ``w``, ``v``.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys

import numpy as np

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "graphs.txt")


def rows():
    """(digest, program) of each line."""
    with open(TABLE, encoding="utf-8") as f:
        return [tuple(line.rstrip("\n").split(" ", 1)) for line in f]


def evaluate(mx, program):
    """The Symbol of a program."""
    names = {"mx": mx, "sym": mx.sym, "nn": mx.gluon.nn, "zoo": mx.gluon.model_zoo.vision, "np": np}
    mx.AttrScope._subgraph_names.clear()
    with mx.name.NameManager():  # automatic names from 0 on
        names.update((k, mx.sym.var(k)) for k in "xyzwv")
        found = eval(program, names)  # expressions of the table beside this file
        return mx.sym.Group(list(found)) if isinstance(found, (list, tuple)) else found


def describe(mx, program):
    """What the Symbol of a program says of itself, as text."""
    found = evaluate(mx, program)
    again = mx.sym.load_json(found.tojson())
    facts = {
        "arguments": found.list_arguments(),
        "states": found.list_auxiliary_states(),
        "outputs": found.list_outputs(),
        "internals": found.get_internals().list_outputs(),
        "attributes": found.attr_dict(),
        "name": found.name,
        "stable": again.tojson() == found.tojson() and again.list_outputs() == found.list_outputs(),
    }
    return found.tojson() + "\n" + json.dumps(facts, indent=1, sort_keys=True)


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


if __name__ == "__main__":
    import mxnet

    if len(sys.argv) > 2:
        with open(sys.argv[2]) as f, open(sys.argv[1], "w") as out:
            json.dump({k: mxnet.sym.load_json(text).tojson() for k, text in json.load(f).items()}, out)
        sys.exit()
    made = {program: describe(mxnet, program) for _, program in rows()}
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as out:
            json.dump(made, out)
    else:
        with open(TABLE, "w", encoding="utf-8") as out:
            out.writelines(f"{digest(text)} {program}\n" for program, text in made.items())
