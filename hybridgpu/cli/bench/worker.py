# SPDX-License-Identifier: Apache-2.0
"""The measuring process of ``hybridgpu bench``: ``python -m hybridgpu.cli.bench.worker OPTIONS``.

It is a process of its own because the number of threads that NumPy's BLAS uses is fixed when NumPy is
imported. OPTIONS is a JSON object (suite, device, quick, large, rounds, threads); it writes one JSON object a
line: ``{"steps": n}``, then ``{"done": label}`` after every step, then ``{"result": SuiteResult}``, or
``{"error": sentence}``.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ... import ndarray as nd
from ...backends.devices import device_of
from ...base import MXNetError
from ...context import Context, cpu, gpu
from .results import CaseResult, Row, SuiteResult
from .timing import Clock, CudaClock, HostClock, Loop, Samples, compare, loop
from .workloads import SUITES, Case, Suite

__all__ = ["WrongResult", "clock_for", "context_of", "measure_case", "measure_suite"]

BATCH_SECONDS, QUICK_BATCH_SECONDS = 0.05, 0.01


class WrongResult(RuntimeError):
    """A way of computing that gives other numbers than the reference."""


def context_of(device: str) -> Context:
    """The context of 'cpu' or 'gpu'."""
    return gpu(0) if device == "gpu" else cpu()


def clock_for(ctx: Context) -> Clock:
    """CUDA events for a GPU, else the processor's clock."""
    if ctx.device_type != "gpu":
        return HostClock()
    return CudaClock(device_of(ctx).xp)


def measure_suite(
    suite: Suite,
    device: str,
    quick: bool,
    rounds: int,
    report: Callable[[dict[str, Any]], None],
    large: bool = False,
    threads: str = "all",
) -> SuiteResult:
    """Measure all cases of a suite; first calls are left to the parent process.

    Args:
        threads: what this process was started with, for the result.
        report: takes the progress messages of the module's protocol.

    Raises:
        MXNetError: the device is not there.
        WrongResult: a result differs from the reference's.
    """
    ctx = context_of(device)
    clock = clock_for(ctx)
    cases = suite.large if large else suite.cases[: suite.quick] if quick else suite.cases
    report({"steps": len(cases) * rounds})
    results = [measure_case(case, ctx, clock, quick, rounds, partial(report, {"done": case.name})) for case in cases]
    return {
        "name": suite.name,
        "title": suite.title,
        "device": str(ctx),
        "threads": threads,
        "reference": suite.cases[0].reference_mode(_library(ctx)),
        "cases": results,
        "first_calls": [],
    }


def _library(ctx: Context) -> str:
    return "cupy" if ctx.device_type == "gpu" else "numpy"


def measure_case(
    case: Case, ctx: Context, clock: Clock, quick: bool, rounds: int, progress: Callable[[], object] = lambda: None
) -> CaseResult:
    """Time NumPy (CuPy) if the case is written for it, a copy of the same bytes, and the block eager, hybridized, static
    and bare."""
    xp = device_of(ctx).xp
    eager, x = case.make(ctx)
    hybridized, static = case.again(eager), case.again(eager)
    hybridized.hybridize()
    static.hybridize(static_alloc=True, static_shape=True)
    blocks = {
        "eager": eager if case.eager is None else case.eager(eager, ctx),
        "hybridized": hybridized,
        "static": static,
    }
    parameters = [p.data(ctx)._data for p in eager.collect_params().values()]
    result = _check(case, blocks, x, parameters, _library(ctx), xp)
    reference = case.reference_mode(_library(ctx))

    nbytes = x._data.nbytes + sum(p.nbytes for p in parameters) + result._data.nbytes
    loops: dict[str, Loop] = {}
    if case.reference is not None:
        loops[reference] = loop(case.reference, xp, x._data, *parameters)
    loops.update((name, loop(block, x)) for name, block in blocks.items())
    bare, kind = bare_loop(static, x, ctx)
    if bare is not None:
        loops["bare"] = bare
    loops["copy"] = copy_loop(xp, nbytes, ctx)
    for run in loops.values():
        run(2)
    seconds = QUICK_BATCH_SECONDS if quick else BATCH_SECONDS
    samples = compare(loops, clock, rounds, seconds, case.calls, progress)
    return {
        "name": case.name,
        "parameters": case.parameters,
        "elements": result.size,
        "bytes": nbytes,
        "bare": kind,
        "rows": [_row(name, s, samples, reference) for name, s in samples.items()],
    }


def _row(name: str, s: Samples, samples: dict[str, Samples], reference: str) -> Row:
    bare = samples.get("bare") if name in ("hybridized", "static") else None
    return {
        "mode": name,
        "median_us": s.median,
        "min_us": s.minimum,
        "calls": s.calls,
        "rounds": len(s.rounds),
        "over_reference": s.over(samples[reference]),
        "over_copy": s.over(samples["copy"]),
        "over_bare_us": None if bare is None else s.beyond(bare),
        "spread_us": s.median - s.minimum,
    }


def _check(
    case: Case,
    blocks: dict[str, Callable[[nd.NDArray], nd.NDArray]],
    x: nd.NDArray,
    parameters: list[Any],
    library: str,
    xp: Any,
) -> nd.NDArray:
    """Compare two calls of every way with float64, of NumPy or of eager code; the result of the last.

    The second call of a hybridized block is the prepared one, and the second step of training shows what the first learned.

    Raises:
        WrongResult: they differ by more than float32 explains.
    """
    to_host = device_of(x.context).to_host
    results_by_name: dict[str, list[Any]] = {}
    if case.reference is None:
        wide, _ = case.make(x.context)
        wide.cast("float64")
        want = [wide(x.astype("float64")).asnumpy() for _ in range(2)]
    else:
        want = [case.reference(np, *(to_host(a).astype(np.float64) for a in (x._data, *parameters)))] * 2
        results_by_name[library] = [to_host(case.reference(xp, x._data, *parameters))]
    out = x
    for name, block in blocks.items():
        results_by_name[name] = []
        for _ in range(2):
            out = block(x)
            results_by_name[name].append(out.asnumpy())
    for name, results in results_by_name.items():
        for got, expected in zip(results, want, strict=False):
            scale = max(1.0, float(np.abs(expected).max()))
            if got.shape != expected.shape or not np.allclose(got, expected, case.tolerance, case.tolerance * scale):
                raise WrongResult(f"{name} gives wrong results for {case.name}; `pytest` in a checkout finds out more")
    return out


def bare_loop(block: Any, x: nd.NDArray, ctx: Context) -> tuple[Loop | None, str | None]:
    """(calls of the block's program without the Python around it, what that is).

    Where the whole program is one function, that is a *foreign call* with prepared addresses. Else (library
    calls in between, or a GPU) it is the *loaded program*, called on arrays that are there. None where
    NumPy interprets the graph, and of steps of training, which are several programs.
    """
    op = getattr(block, "_cached_op", None)
    if op is None:
        return None, None
    inputs = op.inputs([x], ctx)
    call_program = op.program_for(inputs, ctx)
    if call_program.program is None:
        return None, None
    xp, address = device_of(ctx).xp, device_of(ctx).address
    outputs = [xp.empty(t.shape, t.dtype.np) for t in call_program.outputs]
    folded = op.folded_for(call_program, inputs, ctx)
    assert folded is not None  # nobody else has the parameters' memory
    arrays = [*(a._data for a in inputs), *folded]
    if call_program.program.target == "cuda" or call_program.loaded.single is None:
        return loop(call_program.loaded, arrays, outputs), "loaded program"
    program = call_program.program
    bound = call_program.loaded.bind([address(arrays[k]) for k in program.pinned_inputs])
    moving = [address(a) for k, a in enumerate(arrays) if k not in program.pinned_inputs]
    addresses = [*moving, *map(address, outputs)]

    def run(calls: int, _alive: Any = (arrays, outputs)) -> None:
        with bound.held() as call:
            loop(call, *addresses)(calls)

    return run, "foreign call"


def copy_loop(xp: Any, nbytes: int, ctx: Context) -> Loop:
    """Copies that read and write ``nbytes`` together."""
    source = xp.ones(max(1, nbytes // 8), np.float32)
    target = xp.empty_like(source)
    if xp is np:
        return loop(np.copyto, target, source)
    stream = xp.cuda.get_current_stream()
    return loop(target.data.copy_from_device_async, source.data, source.nbytes, stream)


def main() -> None:
    """Run what the first argument asks for."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a word: the parent speaks
    out = sys.stdout
    options = json.loads(sys.argv[1])

    def report(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=out, flush=True)

    with contextlib.redirect_stdout(sys.stderr):  # whatever a library prints is no message
        try:
            result = measure_suite(
                SUITES[options["suite"]],
                options["device"],
                options["quick"],
                options["rounds"],
                report,
                options["large"],
                options["threads"],
            )
        except (MXNetError, WrongResult) as e:
            report({"error": str(e).strip().splitlines()[0]})
            sys.exit(1)
        except Exception as e:  # a library that fails: the sentence goes on, the rest is for those who mend it
            traceback.print_exc()
            report({"error": f"{type(e).__name__}: {str(e).strip().splitlines()[0] if str(e).strip() else ''}"})
            sys.exit(1)
        report({"result": result})


if __name__ == "__main__":
    main()
