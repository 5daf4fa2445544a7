# SPDX-License-Identifier: Apache-2.0
"""Records how the real MXNet reads attributes: the type of every attribute of every operator, and which texts it takes.

    python record_attributes.py       # writes attributes.json beside this file; runs in a Python that has MXNet

``types``: operator -> attribute -> type, in MXNet's words. ``verdicts``: what becomes of each of ``texts`` as the value of an
attribute, a letter a text, with the attributes that have these letters:

    .  taken            f  Invalid Parameter format     b  a bound           r  Out of range
    t  Some trailing    i  Invalid Input                o  another error     x  MXNet crashes

``bounds``: the end of the message, for attributes with a bound. ``values``: what a text becomes, for one attribute a type.
"""

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TEXTS = """3|-1|0|1|2|+3| 3|3 |3L|3l|007|1_0|\uff13|3.0|3.|.5|0x10|1e3|1e|0.1f|1e39|1e-46|1e400|1e-400|nan|inf|-inf|Infinity|True|true|
TRUE|False|None| None|None |none||  |2147483647|2147483648|-2147483648|-2147483649|4294967296|1099511627776|9223372036854775807|
9223372036854775808|18446744073709551615|18446744073709551616|()|[]|(,)|(3)|(3,|(3,)|(3,4)|[3, 4]|[3 4]|(3,4]|(3,4,)|(3,,4)|((1))|
(3L, 4L)|(3.0, 4)|(0.5,1.5)|(None,3)|(-3,-4)|(2147483648,1)|(9223372036854775808,1)|(nan,1)|(1e39,1)|(1e-46,1)|(3,4)x|3,4|--3|+-3|
float32|float64|int32| float32|f4""".replace("\n", "").split("|")
FIRST = {
    "int": "1",
    "int (non-negative)": "1",
    "long": "1",
    "Shape(tuple)": "(1,)",
    "float": "1",
    "double": "1",
    "string": "s",
}
SKIPPED = ("_backward", "_sg_", "_np_", "_npi_", "_npx_", "_image_", "_cvimread", "_Custom", "_CrossDevice", "_Native")
#: an attribute of each type, whose value is seen in the shape of a result or in its only element
SEEN = {
    "int": ("slice_axis", "begin", {"axis": "0", "end": "None"}, lambda shape, size: size - shape[0]),
    "int or None": ("slice_axis", "end", {"axis": "0", "begin": "0"}, lambda shape, size: shape[0]),
    "int (non-negative)": ("Convolution", "num_filter", {"kernel": "(1,)"}, lambda shape, size: shape[1]),
    "long": ("_eye", "N", {}, lambda shape, size: shape[0]),
    "Shape(tuple)": ("_zeros", "shape", {}, lambda shape, size: list(shape)),
    "float": ("clip", "a_min", {"a_max": "inf"}, None),
    "double": ("_plus_scalar", "scalar", {}, None),
}


def creators():
    """Operator -> (handle, attribute -> type as MXNet describes it)."""
    from mxnet.base import _LIB, check_call

    handles, count = ctypes.POINTER(ctypes.c_void_p)(), ctypes.c_uint()
    check_call(_LIB.MXSymbolListAtomicSymbolCreators(ctypes.byref(count), ctypes.byref(handles)))
    found = {}
    for k in range(count.value):
        texts = [ctypes.c_char_p() for _ in range(4)]
        lists = [ctypes.POINTER(ctypes.c_char_p)() for _ in range(3)]
        number, handle = ctypes.c_uint(), ctypes.c_void_p(handles[k])
        refs = [ctypes.byref(x) for x in (texts[0], texts[1], number, *lists, texts[2], texts[3])]
        check_call(_LIB.MXSymbolGetAtomicSymbolInfo(handle, *refs))
        name = texts[0].value.decode()
        if not name.startswith(SKIPPED) or name in (
            "_image_resize",
            "_image_normalize",
            "_image_crop",
            "_image_to_tensor",
        ):
            types = {lists[0][j].decode(): lists[1][j].decode() for j in range(number.value)}
            found[name] = (handle, {n: t for n, t in types.items() if "NDArray" not in t and "Symbol" not in t and t})
    return found


def required(types):
    """Values for the attributes that have no default."""
    found = {}
    for name, text in types.items():
        if text.endswith("required"):
            kind = text[: text.rindex(",")]
            found[name] = kind[1:].split(",")[0].strip("}' ") if kind[0] == "{" else FIRST.get(kind, "(1,)")
    return found


def create(handle, attributes):
    """What MXNet says of an operator with attributes; '' where it takes them."""
    from mxnet.base import _LIB, MXNetError, check_call

    keys = (ctypes.c_char_p * len(attributes))(*[k.encode() for k in attributes])
    values = (ctypes.c_char_p * len(attributes))(*[v.encode() for v in attributes.values()])
    out = ctypes.c_void_p()
    try:
        check_call(_LIB.MXSymbolCreateAtomicSymbol(handle, len(attributes), keys, values, ctypes.byref(out)))
    except MXNetError as e:
        return str(e)
    return ""


def letter(message, name):
    for sign, begin in (
        ("f", f"MXNetError: Invalid Parameter format for {name} "),
        ("r", f"MXNetError: Out of range value for {name},"),
        ("t", "MXNetError: Some trailing characters"),
        ("i", "MXNetError: Invalid Input: "),
    ):
        if begin in message:
            return sign
    words = message.partition(f"for Parameter {name} ")[2]
    return "b" if words.startswith(("should be", "exceed bound")) else "o"


def child(rows):
    """Prints a line for every (operator, attribute, text) of the rows."""
    found = creators()
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    for op, name, k in rows:
        signal.alarm(2)  # SliceChannel with 2147483647 results
        handle, types = found[op]
        message = create(handle, dict(required(types), **{name: TEXTS[k]}))
        bound = message.split(f"for Parameter {name} ")[1].split("\n")[0] if letter(message, name) == "b" else ""
        print(json.dumps([letter(message, name) if message else ".", bound]), flush=True)


def value_child(rows):
    """Prints what MXNet makes of the text of every (type, text)."""
    import mxnet as mx
    import numpy as np

    size = 2**31 - 1
    for kind, k in rows:
        op, name, others, seen = SEEN[kind]
        given = dict(others, **{name: TEXTS[k]})
        try:
            if seen is None:
                low = mx.nd.array([-np.inf if op == "clip" and not TEXTS[k].startswith("-") else 0], dtype="float64")
                low = low.astype("float32") if op == "clip" else low
                found = repr(float(getattr(mx.nd._internal if op[0] == "_" else mx.nd, op)(low, **given).asscalar()))
            else:
                data = [] if op in ("_eye", "_zeros") else [mx.sym.var("data")]
                made = getattr(mx.sym._internal if op[0] == "_" else mx.sym, op)(*data, **given)
                shape = (1, 1, 1) if op == "Convolution" else (size,)
                found = seen(made.infer_shape(**({"data": shape} if data else {}))[1][0], size)
        except (mx.base.MXNetError, TypeError):  # it is refused, or no shape follows from it
            found = None
        print(json.dumps(found), flush=True)


def survive(what, rows):
    """The lines of a child for the rows; None where it died."""
    found = []
    while len(found) < len(rows):
        given = json.dumps(rows[len(found) :]).encode()
        done = subprocess.run(
            [sys.executable, __file__, what], input=given, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        found += [
            json.loads(line)
            for line in done.stdout.decode().splitlines()
            if line.startswith(("[", '"', "t", "f", "n", "-")) or line[:1].isdigit()
        ]
        if done.returncode:
            found.append(None)
    return found


def main():
    types = {op: t for op, (_, t) in creators().items() if t}
    rows = [(op, name, k) for op, t in sorted(types.items()) for name in t for k in range(len(TEXTS))]
    letters, bounds = {}, {}
    for (op, name, _), line in zip(rows, survive("child", rows)):
        sign, bound = line or ("x", "")
        key = f"{op}.{name}"
        letters[key] = letters.get(key, "") + sign
        if bound:
            bounds[key] = bound
    patterns = {}
    for key, found in letters.items():
        patterns.setdefault(found, []).append(key)
    seen = [(kind, k) for kind in sorted(SEEN) for k in range(len(TEXTS))]
    values = {}
    for (kind, k), line in zip(seen, survive("values", seen)):
        if line is not None:
            values.setdefault(kind, {})[TEXTS[k]] = line
    found = {"texts": TEXTS, "bounds": bounds, "values": values, "types": types, "verdicts": patterns}
    with open(os.path.join(HERE, "attributes.json"), "w") as f:
        f.write(
            "{\n"
            + ",\n".join(
                "{}: {}".format(
                    json.dumps(k),
                    json.dumps(v)
                    if k == "texts"
                    else "{\n" + ",\n".join(f"{json.dumps(a)}: {json.dumps(b)}" for a, b in sorted(v.items())) + "\n}",
                )
                for k, v in found.items()
            )
            + "\n}\n"
        )


if __name__ == "__main__":
    if sys.argv[1:]:
        {"child": child, "values": value_child}[sys.argv[1]](json.load(sys.stdin))
    else:
        main()
