# SPDX-License-Identifier: Apache-2.0
"""Runs the lines of a parity script with MXNet or hybridgpu and prints what each gives.

    python record.py MODULE SCRIPT        # MODULE: mxnet or hybridgpu

A script holds one Python line after another; a line that starts with '!' resets the names. For each
line the result (or the exception's class and the first line of its message) is printed. What MXNet
1.9.1 prints is kept beside the script as NAME.expected; test_parity.py compares.
"""

import contextlib
import importlib
import io
import re
import sys
import warnings

import numpy as np


def show(value):
    """A short text of a result that does not depend on the library."""
    if hasattr(value, "asnumpy"):
        try:
            data = value.asnumpy()
        except RuntimeError:  # an MXNetError, of a Symbol or of what ran in the background
            return repr(value)
        return f"{np.dtype(value.dtype).name}{list(value.shape)} {np.array2string(data, precision=4, threshold=24).splitlines()}"
    if isinstance(value, (list, tuple)) and any(hasattr(v, "asnumpy") for v in value):
        return f"{type(value).__name__}[{', '.join(map(show, value))}]"
    if isinstance(value, np.ndarray):
        return f"np.{value.dtype}{list(value.shape)} {np.array2string(value, precision=4, threshold=24).splitlines()}"
    if isinstance(value, np.generic):
        return f"np.{value.dtype} {value:.4g}" if value.dtype.kind == "f" else f"np.{value.dtype} {value}"
    return repr(value)


def message(error):
    """Class and first telling line of an error, without what C++ adds."""
    text = str(error).strip()
    text = re.sub(r"^Traceback.*?(?=MXNetError:)", "", text, flags=re.S)
    text = re.sub(r"^(MXNetError: |Traceback \(most recent call last\):\n|\s*(File|\[bt\]).*\n)+", "", text)
    text = re.sub(r"\[\d\d:\d\d:\d\d\] \S+:\d+: ", "", text)
    text = re.sub(r"Check failed: [^:\n]*?([<>=&!]|\w\()[^:\n]*: ", "Check failed: ", text)  # C++ conditions
    text = re.sub(r"\bCheck failed: (?=\S)", "", text)
    text = re.sub(r"^(Check failed: )?!?(AGInfo:)? ?:?:IsNone\(\*.*?\): ", "", text)
    text = re.sub(r"^(\w+\.\w+: |\w+: allow_null: :)", "", text)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("  File ")]
    first = lines[0] if lines else ""
    return f"{type(error).__name__}: {first[:300]}"


def normal(text):
    """Module names and addresses made equal."""
    text = re.sub(r"\b(mxnet|hybridgpu)\.(\w+\.)*", "", text)
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return text.replace("'mxnet'", "'lib'").replace("'hybridgpu'", "'lib'")


def run(module, script):
    """Lines of output."""
    mx = importlib.import_module(module)
    for sub in ("gluon.nn", "gluon", "nd", "sym"):
        with contextlib.suppress(ImportError):
            importlib.import_module(f"{module}.{sub}")
    out = []
    env = {}
    with open(script) as f:
        lines = f.read().splitlines()
    blocks, k = [], 0
    while k < len(lines):  # a line ending in ':' goes on until the next line that is not indented
        block = [lines[k]]
        k += 1
        while k < len(lines) and (lines[k].startswith((" ", "\t")) or (block[-1].startswith("@"))):
            block.append(lines[k])
            k += 1
        blocks.append("\n".join(block))
    for code in blocks:
        if not code.strip() or code.startswith("#"):
            continue
        if code.startswith("!"):
            env = {"mx": mx, "nd": mx.nd, "sym": mx.sym, "np": np, "gluon": mx.gluon, "nn": mx.gluon.nn, "F": mx.nd}
            scope = mx.name.NameManager()
            scope.__enter__()
            continue
        printed = io.StringIO()
        with contextlib.ExitStack() as entered:  # Python 3.8, which MXNet needs, has no with (…)
            caught = entered.enter_context(warnings.catch_warnings(record=True))
            entered.enter_context(contextlib.redirect_stdout(printed))
            entered.enter_context(contextlib.redirect_stderr(io.StringIO()))
            warnings.simplefilter("always")
            try:
                try:
                    compiled = compile(code, "line", "eval")
                except SyntaxError:
                    exec(compile(code, "line", "exec"), env)
                    text = "ok"
                else:
                    text = show(eval(compiled, env))
            except Exception as e:  # noqa: BLE001  (the exception is the result)
                text = message(e)
        said = printed.getvalue()
        if said:
            text = (text if text != "ok" else "") + "\n" + said.rstrip("\n")
        for w in caught:
            if "Deprecat" not in w.category.__name__ and "numpy" not in str(w.message):
                text += f"\n  warns: {str(w.message).strip().splitlines()[0][:120]}"
        first = code.splitlines()[0]
        out.append(normal(f">>> {first}\n{text}"))
    return out


if __name__ == "__main__":
    print("\n".join(run(sys.argv[1], sys.argv[2])))
