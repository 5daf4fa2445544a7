# SPDX-License-Identifier: Apache-2.0
"""Records variations of the calls in ops.json with the real MXNet: other extents, element types and attributes.

    python record_variations.py [--seed 1] [--count 900]     # a Python that has mxnet 1.9.1 (3.8, numpy 1.23)

Writes variations.json and variations.npz in the format of ops.json and ops.npz. Calls that MXNet refuses are
dropped; each batch of calls runs in a process of its own, because some of them end it.
"""

import argparse
import ctypes
import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from copy_golden import write_npz

HERE = Path(__file__).parent
BATCH = 50
MOST = 400  #: elements of the inputs of a call
EXTENTS = (1, 2, 4, 5, 7, 8, 9, 16, 17)
DTYPES = ("float64", "float64", "float16", "float16", "int32", "int64", "int8", "uint8")
#: attributes that say how many inputs or results there are, or do nothing on a CPU
FIXED = {"ctx", "name", "num_args", "no_bias", "cudnn_off", "cudnn_tune", "workspace", "state_outputs", "init_output"}
FIXED |= {"use_sequence_length", "use_length", "use_data_lengths", "use_label_lengths", "num_outputs", "num_weights"}
NUMBERS = (0.0, 0.5, 1.0, 2.0, -1.0, 0.1, 1e-3)


def attribute_types():
    """operator -> {attribute: type in MXNet's words}."""
    import mxnet.base as base

    count, names = ctypes.c_uint(), ctypes.POINTER(ctypes.c_char_p)()
    base.check_call(base._LIB.MXListAllOpNames(ctypes.byref(count), ctypes.byref(names)))
    found = {}
    for operator in [names[k] for k in range(count.value)]:  # the library reuses the list's memory
        handle = base.OpHandle()
        base.check_call(base._LIB.NNGetOpHandle(operator, ctypes.byref(handle)))
        name, text, key, result = (ctypes.c_char_p() for _ in range(4))
        size, lists = ctypes.c_uint(), [ctypes.POINTER(ctypes.c_char_p)() for _ in range(3)]
        base.check_call(
            base._LIB.MXSymbolGetAtomicSymbolInfo(handle, *map(ctypes.byref, (name, text, size, *lists, key, result)))
        )
        pairs = [(lists[0][i].decode(), lists[1][i].decode()) for i in range(size.value)]
        found[operator.decode()] = {n: t for n, t in pairs if not re.match("NDArray-or|ndarray-or", t)}
    return found


def types_of(call, types):
    """The attribute types of a call's operator, which ``nd`` names by its module."""
    last = call["op"].split(".")[-1]
    return next((types[n] for n in (call["op"], "_contrib_" + last, "_linalg_" + last, last) if n in types), {})


def other_value(rng, kind, value, ndim):
    """Another value of an attribute of this type."""
    if kind.startswith("{"):
        return rng.choice([n for n in re.findall(r"'([^']*)'", kind.split("}")[0]) if n not in ("None", "bfloat16")])
    if kind.startswith("boolean"):
        return rng.choice([True, False])
    if kind.startswith(("int", "long")):
        return rng.choice([rng.randint(-ndim, ndim - 1) if ndim else 0, rng.randint(0, 4), -1])
    if kind.startswith(("float", "double")):
        return rng.choice(NUMBERS)
    if kind.startswith("Shape") and isinstance(value, list) and value:
        return [v + rng.choice([-1, 0, 0, 1]) if isinstance(v, int) else v for v in value]
    return value


def vary(rng, call, inputs, types):
    """A variation of a call: (attributes, inputs, mode)."""
    attrs, mode = dict(call["attrs"]), call["mode"]
    if rng.random() < 0.6 and inputs:
        other = {d: rng.choice(EXTENTS) for i in inputs for d in i.shape if rng.random() < 0.5}
        numbers = np.random.RandomState(rng.randrange(1 << 31))
        wide = []
        for i in inputs:
            shape = tuple(other.get(d, d) for d in i.shape)
            if shape != i.shape and i.size:
                i = numbers.choice(i.reshape(-1), size=shape).astype(i.dtype)
            wide.append(i)
        inputs = wide
    if rng.random() < 0.4:
        dtype = rng.choice(DTYPES)
        inputs = [i.astype(dtype) if i.dtype == np.float32 else i for i in inputs]
    if rng.random() < 0.6:
        candidates = [(n, t) for n, t in sorted(types_of(call, types).items()) if n not in FIXED]
        for name, kind in rng.sample(candidates, min(len(candidates), rng.randint(1, 2))):
            attrs[name] = other_value(rng, kind, attrs.get(name), inputs[0].ndim if inputs else 1)
            if attrs[name] is None:
                del attrs[name]
    if rng.random() < 0.1 and call["op"] != "Dropout":
        mode = "train" if mode == "predict" else "predict"
    return attrs, inputs, mode


def is_random(call):
    """Whether a call draws numbers: two runs that happen to agree (a small p) would not show it."""
    return call["op"] == "Dropout" and call["mode"] == "train" and call["attrs"].get("p", 0.5) != 0.0


def tuples(value):
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def run(mx, call, inputs, heads):
    """Arrays of a call by name: results, gradients where everything is a floating point number, changed inputs."""
    function = mx.nd
    for part in call["op"].split("."):
        function = getattr(function, part)
    attrs = {k: tuples(v) for k, v in call["attrs"].items()}
    train = call["mode"] == "train"

    def once(arrays):
        with mx.autograd.record(train_mode=train):
            out = function(*arrays, **attrs)
        return list(out) if isinstance(out, (list, tuple)) else [out]

    arrays = [mx.nd.array(x, dtype=x.dtype) for x in inputs]
    found = {f"out{k}": o.asnumpy() for k, o in enumerate(once(arrays))}
    after = [a.asnumpy() for a in arrays]
    if any(not np.array_equal(a, x) for a, x in zip(after, inputs)):
        return None  # state: ops.json has those
    again = once([mx.nd.array(x, dtype=x.dtype) for x in inputs])
    if any(not np.array_equal(found[f"out{k}"], o.asnumpy()) for k, o in enumerate(again)):
        return None  # random, or never written
    wanted = [k for k, x in enumerate(inputs) if x.dtype.kind == "f"]
    if not wanted or any(o.dtype.kind != "f" for o in found.values()):
        return found
    try:
        for k in wanted:
            arrays[k].attach_grad()
        out = once(arrays)
        given = [heads.normal(size=o.shape).astype(o.dtype) for o in out]
        mx.autograd.backward(out, [mx.nd.array(h, dtype=h.dtype) for h in given], train_mode=train)
        gradients = {f"grad{k}": arrays[k].grad.asnumpy() for k in wanted}
    except mx.base.MXNetError:  # no gradient
        return found
    return {**found, **{f"hg{k}": h for k, h in enumerate(given)}, **gradients}


def work(seed, count, start, folder):
    """Record a batch of the variations into ``folder``, a file a call."""
    import mxnet as mx

    bases = [c for c in json.loads((HERE / "ops.json").read_text()) if not any("after" in a for a in c["arrays"])]
    with np.load(HERE / "ops.npz") as z:
        arrays = {k: z[k] for k in z.files}
    types = attribute_types()
    by_operator = {}
    for c in bases:
        by_operator.setdefault(c["op"], []).append(c)
    for k in range(start, min(start + BATCH, count)):
        (folder / "last").write_text(str(k))
        rng = random.Random(f"{seed} {k}")
        call = dict(rng.choice(by_operator[rng.choice(sorted(by_operator))]))
        inputs = [arrays[f"{call['id']}.{n}"] for n in call["arrays"] if n.startswith("in")]
        call["attrs"], inputs, call["mode"] = vary(rng, call, inputs, types)
        if sum(i.size for i in inputs) > MOST or is_random(call):
            continue
        call["id"] = f"{call['op'].split('.')[-1].strip('_')}_{seed}_{k}"
        try:
            found = run(mx, call, inputs, np.random.RandomState(k))
        except (mx.base.MXNetError, TypeError, ValueError, IndexError, AssertionError):
            continue
        if found is None or any(not np.isfinite(v).all() or v.size > 4 * MOST for v in found.values()):
            continue
        found.update((f"in{i}", x) for i, x in enumerate(inputs))
        call["arrays"] = sorted(found)
        (folder / f"{k:06}.json").write_text(json.dumps(call, sort_keys=True))
        np.savez(folder / f"{k:06}.npz", **found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=900, help="variations tried")
    parser.add_argument("--batch", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.batch:
        work(args.seed, args.count, int(args.batch[0]), Path(args.batch[1]))
        return
    with tempfile.TemporaryDirectory() as name:
        folder, start = Path(name), 0
        while start < args.count:
            command = [sys.executable, __file__, "--seed", str(args.seed), "--count", str(args.count)]
            try:
                subprocess.run([*command, "--batch", str(start), name], check=False, timeout=30)
            except subprocess.TimeoutExpired:  # its handler of crashes may hang
                pass
            start = int((folder / "last").read_text()) + 1
        files = sorted(folder.glob("*.json"))
        calls = [json.loads(f.read_text()) for f in files]
        arrays = {}
        for call, file in zip(calls, files):
            with np.load(file.with_suffix(".npz")) as z:
                arrays.update((f"{call['id']}.{n}", z[n]) for n in call["arrays"])
    lines = ",\n".join(json.dumps(c, sort_keys=True) for c in calls)
    (HERE / "variations.json").write_text(f"[\n{lines}\n]\n")
    write_npz(HERE / "variations.npz", arrays)
    print(f"{len(calls)} calls")


if __name__ == "__main__":
    main()
