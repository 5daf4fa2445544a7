# SPDX-License-Identifier: Apache-2.0
"""Records what the real MXNet registers for its NumPy interface: names, inputs and attributes of ``_np_``, ``_npi_``, ``_npx_``.

    python record_numpy_operators.py    # writes numpy_operators.json beside this file; runs in a Python that has MXNet

An entry is the canonical name, which files carry (that of the operator itself, or of what it is another name for), the
inputs (a list that ends with ``[]`` takes any number of them, counted by the attribute that follows), and the attributes
with their types and defaults in MXNet's words. Backward operators are left out.
"""

import ctypes
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def registered():
    from mxnet.base import _LIB, c_str, check_call
    from mxnet.operator import get_all_registered_operators

    found = {}
    for name in sorted(get_all_registered_operators()):
        if not name.startswith(("_np_", "_npi_", "_npx_")) or "backward" in name:
            continue
        handle, number = ctypes.c_void_p(), ctypes.c_uint()
        check_call(_LIB.NNGetOpHandle(c_str(name), ctypes.byref(handle)))
        texts = [ctypes.c_char_p() for _ in range(4)]
        lists = [ctypes.POINTER(ctypes.c_char_p)() for _ in range(3)]
        refs = [ctypes.byref(x) for x in (texts[0], texts[1], number, *lists, texts[2], texts[3])]
        check_call(_LIB.MXSymbolGetAtomicSymbolInfo(handle, *refs))
        arguments = [(lists[0][k].decode(), lists[1][k].decode()) for k in range(number.value)]
        inputs = [n + ("[]" if t.endswith("[]") else "") for n, t in arguments if t.startswith("NDArray")]
        attributes = {n: t for n, t in arguments if not t.startswith("NDArray")}
        count = texts[2].value.decode()
        found[name] = [texts[0].value.decode(), [*inputs, *([count] if count else [])], attributes]
    return found


if __name__ == "__main__":
    with open(os.path.join(HERE, "numpy_operators.json"), "w") as f:
        f.write("{\n" + ",\n".join(f"{json.dumps(n)}: {json.dumps(v)}" for n, v in registered().items()) + "\n}\n")
