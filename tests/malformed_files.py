# SPDX-License-Identifier: Apache-2.0
"""Files that lie: builders of .params bytes and graph texts, and a seeded mutator."""

from __future__ import annotations

import json
import struct
import tracemalloc
from random import Random

LIST, V1, V2, V3 = 0x112, 0xF993FAC8, 0xF993FAC9, 0xF993FACA


def array(shape=(2,), flag=0, data=None, magic=V2, stype=0, ndim=None, context=(1, 0)):
    """The bytes of one array; every field can be made wrong."""
    size = 1
    for d in shape:
        size *= max(d, 0)
    sizes = {0: 4, 1: 8, 2: 2, 3: 1, 4: 4, 5: 1, 6: 8, 7: 1}
    if data is None:
        data = bytes(min(size, 1 << 16) * sizes.get(flag, 4))
    out = struct.pack("<I", magic)
    if magic in (V2, V3):
        out += struct.pack("<i", stype)
        out += struct.pack("<i", len(shape) if ndim is None else ndim)
    elif magic == V1:
        out += struct.pack("<I", len(shape) if ndim is None else ndim)
    out += struct.pack(f"<{len(shape)}q", *shape)
    return out + struct.pack("<iii", *context, flag) + data


def params(arrays, names=(), magic=LIST, count=None, named=None):
    """The bytes of a file."""
    out = struct.pack("<QQQ", magic, 0, len(arrays) if count is None else count) + b"".join(arrays)
    out += struct.pack("<Q", len(names) if named is None else named)
    for n in names:
        out += struct.pack("<Q", len(n)) + n
    return out


def graph(nodes, heads=None, **fields):
    """The text of a graph; a node is (op, name, inputs, attrs)."""
    listed = [
        {"op": op, "name": name, "inputs": inputs, **({"attrs": attrs} if attrs else {})}
        for op, name, inputs, attrs in nodes
    ]
    return json.dumps({"nodes": listed, "heads": [[len(nodes) - 1, 0, 0]] if heads is None else heads, **fields})


NUMBERS = [0, 1, -1, 2, 7, 32, 255, 2**31 - 1, -(2**31), 2**32, 2**40, 2**63 - 1, -(2**63)]


def mutate_bytes(data: bytes, rng: Random) -> bytes:
    """One to four changes: flips, cuts, copies, numbers of every size at any place."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(6)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del out[at:]
        elif kind == 2:
            out[at:at] = rng.randbytes(rng.randint(1, 16))
        elif kind == 3:
            out[at:at] = out[at : at + rng.randint(1, 64)]
        elif kind == 4:
            del out[at : at + rng.randint(1, 32)]
        else:
            size, number = rng.choice([("<i", 4), ("<q", 8)]), rng.choice(NUMBERS)
            out[at : at + size[1]] = struct.pack(size[0], (number + 2**31) % 2**32 - 2**31 if size[1] == 4 else number)
    return bytes(out)


def mutate_json(value, rng: Random):
    """A copy of a JSON value with one part replaced, removed, doubled or moved."""
    places = []

    def visit(v, path):
        places.append(path)
        items = v.items() if isinstance(v, dict) else enumerate(v) if isinstance(v, list) else ()
        for k, child in items:
            visit(child, (*path, k))

    value = json.loads(json.dumps(value))
    visit(value, ())
    path = rng.choice(places[1:])
    parent = value
    for k in path[:-1]:
        parent = parent[k]
    key = path[-1]
    kind = rng.randrange(5)
    if kind == 0:
        parent[key] = rng.choice(
            [None, True, [], {}, "", "x" * 50, "((((", "(1,", "-1", "1e400", "nan", "\ud800", 0.5, [[]], *NUMBERS]
        )
    elif kind == 1:
        del parent[key]
    elif kind == 2 and isinstance(parent, list):
        parent.insert(key, parent[rng.randrange(len(parent))])
    elif kind == 3 and isinstance(parent, list):
        parent[key] = parent[rng.randrange(len(parent))]
    elif isinstance(parent[key], str):
        text = parent[key]
        at = rng.randrange(len(text) + 1)
        parent[key] = text[:at] + rng.choice(["9" * 30, ",", "(", ")", "-", "\x00", "e", "'", "None"]) + text[at + 1 :]
    return value


def bounded(function, size):
    """Run ``function``; its memory stays in proportion to a file of ``size`` bytes."""
    tracemalloc.start()
    try:
        return function()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 64 * max(size, 1 << 16) + (1 << 20), f"{peak} bytes for a file of {size}"
