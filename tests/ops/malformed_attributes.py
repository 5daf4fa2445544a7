# SPDX-License-Identifier: Apache-2.0
"""Calls every operator with sizes that are out of the question: in a process of its own, with little memory.

    python malformed_attributes.py PART PARTS      # prints what went wrong in a part of the calls, as JSON

A call works or raises MXNetError with the operator's or the node's name, within seconds.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import warnings
from typing import Any

import numpy as np

import hybridgpu.ops.numpy  # noqa: F401 - declares the operators of np
from hybridgpu import nd, sym
from hybridgpu.base import MXNetError
from hybridgpu.ndarray.apply import apply_function
from hybridgpu.ops import OPERATORS
from hybridgpu.ops.functions import make_function
from hybridgpu.ops.params import Bool, Double, Float, Floats, Int, Shape
from hybridgpu.symbol.node_factory import apply_symbol

MEMORY = 1 << 29  #: bytes beyond what is there before the first call
SECONDS = 5.0  #: of the processor for a call
SHAPES = ("()", "(-1,)", "0", "(2147483647,)", "(1099511627776,2)", "(9223372036854775807,9223372036854775807)",
          "(-9223372036854775808,1)", "(2147483647,2147483647)", "(0,0)", "(" + "1," * 100 + ")", "(-1,-1,-1)")  # fmt: skip
INTEGERS = ("-1", "0", "2147483647", "-2147483648", "1048576", "1099511627776", "9223372036854775807")
NUMBERS = ("-1", "0", "1e30", "1e-30", "nan", "inf", "-inf", "1e300", "1e9")
TUPLES = ("()", "(-1,)", "(0,)", "(1e30,)", "(" + "1," * 2000 + ")", "(1e-30,1e-30)")
TEXTS = ((Shape, SHAPES), (Floats, TUPLES), (Int, INTEGERS), ((Float, Double), NUMBERS), (Bool, ("1",)))


def texts_for(param: Any) -> tuple[str, ...]:
    return next((texts for kind, texts in TEXTS if isinstance(param, kind)), ())


def in_time(work: Any) -> Exception | None:
    """What a call raised."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        work()
    except Exception as e:
        return e
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def calls(op: Any) -> list[tuple[str, str, Any]]:
    """(attribute and text, way, call) for one sample of the operator and each of its attributes."""
    sample = op.samples[0] if op.samples else None
    shapes = sample.shapes if sample and sample.shapes is not None else ((2, 3),) * len(op.inputs)
    arrays: list[Any] = [nd.array(np.full(s, 0.5, "float32")) for s in shapes]
    variables: list[Any] = [sym.var(f"v{k}", shape=s) for k, s in enumerate(shapes)]
    if op.name.startswith("_np"):
        arrays, variables = ([x.as_np_ndarray() for x in xs] for xs in (arrays, variables))
    eager, symbolic = make_function(op, op.name, apply_function, "nd"), make_function(op, op.name, apply_symbol, "sym")
    found = []
    for name, param in op.params.items():
        for text in texts_for(param):
            given = {**op.attribute_texts(sample.attributes if sample else {}), name: text}

            def infer(given: Any = given) -> None:
                symbolic(*variables, name="the_node", **given).infer_shape_partial()

            def call(given: Any = given) -> None:
                made = eager(*arrays, **given)
                for x in made if isinstance(made, list) else [made]:
                    x.wait_to_read()

            found += [(f"{name}={text[:40]}", "inferred", infer), (f"{name}={text[:40]}", "called", call)]
    return found


def main() -> None:
    part, parts = map(int, sys.argv[1:])
    used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    warnings.simplefilter("ignore")

    def stop(*_: Any) -> None:
        raise TimeoutError(f"more than {SECONDS:g} s of the processor")

    signal.signal(signal.SIGPROF, stop)
    made, wrong = 0, []
    for name in sorted({op.name for op in OPERATORS.values()}):
        op = OPERATORS[name]
        if op.python or op.subgraphs:
            continue
        for k, (what, way, work) in enumerate(calls(op)):
            if (k + len(name)) % parts != part:
                continue
            made += 1
            error = in_time(work)
            named = isinstance(error, MXNetError) and (name in str(error) or "the_node" in str(error))
            if error is not None and not named:
                wrong.append(f"{name}({what}) {way}: {type(error).__name__}: {str(error)[:200]}")
    print(json.dumps({"calls": made, "wrong": wrong, "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}))


if __name__ == "__main__":
    main()
