# SPDX-License-Identifier: Apache-2.0
"""The step forms: every form that a kernel with reductions may take on gpu(0), at six widths, beside what the model says.

A form says how many threads and blocks share a row (compiler/schedule/cuda/reduction_config.py). Of each kernel and width the
forms that the model finds fastest are timed; the rows tell whether it chose the fastest, and are what its constants can be
fitted to.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bench.gpu_check.bandwidth import ROWS, graph_of
from bench.gpu_check.device import Device, Timer, arguments, open_rows
from hybridgpu.compiler.ir import Graph
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.schedule.cuda import reduction_config as schedule
from hybridgpu.compiler.schedule.cuda.reduction_config import LaunchConfig, Workload

KERNELS = ("softmax", "its derivative", "softmax, inner axis", "sum")  #: of bandwidth.ROWS
WIDTHS = (256, 1024, 4096, 16384, 65536, 262144)
MOST = 10  #: forms of a kernel and width


def label(form: LaunchConfig) -> str:
    """What tells a form from the others of its kernel."""
    return f"{form.threads} threads, {form.team} a row, {form.cluster} blocks, {form.steps} steps"


class Choice:
    """Takes the place of the schedule's choice among forms.

    Args:
        wanted: the label of the form to take, '' for the one that is usually taken.

    Attributes:
        forms: those of the last choice among several, the fastest by the model first.
        taken: the one that was taken then.
    """

    def __init__(self, wanted: str = "") -> None:
        self._best, self._wanted = schedule._fastest, wanted
        self.forms: list[LaunchConfig] = []
        self.taken: LaunchConfig | None = None

    def __call__(self, forms: Sequence[LaunchConfig], work: Workload) -> LaunchConfig:
        usual = self._best(forms, work)
        found = [self._best([f], work) for f in forms if label(f) == self._wanted]
        self.forms = sorted(forms, key=lambda f: (len(f.not_cached), f.seconds))
        self.taken = found[0] if found else usual
        return self.taken

    @contextmanager
    def made(self) -> Iterator[Choice]:
        """Programs are compiled with it."""
        held, schedule._fastest = schedule._fastest, self
        try:
            yield self
        finally:
            schedule._fastest = held


class Forms:
    """Kernels in all their forms."""

    def __init__(self, device: Device, nbytes: int) -> None:
        self._device, self._timer, self._nbytes = device, Timer(device), nbytes
        self._inputs: tuple[tuple[str, int], list[Any]] | None = None

    def graph(self, name: str, width: int) -> Graph:
        return graph_of(ROWS[name], self._nbytes, width, self._device.emulate)

    def parts(self, name: str, width: int) -> list[dict[str, Any]]:
        """The forms of a kernel."""
        with Choice().made() as choice:
            compile_graph(self.graph(name, width), self._device.backend.target)
        labels = list(dict.fromkeys(map(label, choice.forms)))[:MOST]
        return [{"name": name, "width": width, "form": form} for form in labels]

    def measure(self, name: str, width: int, form: str) -> dict[str, Any]:
        """The row of a form."""
        device, graph = self._device, self.graph(name, width)
        with Choice().made() as usual:
            compile_graph(graph, device.backend.target)
        with Choice(form).made() as choice:
            program = compile_graph(graph, device.backend.target)
        assert choice.taken is not None and usual.taken is not None
        loaded = device.backend.load(program)
        if self._inputs is None or self._inputs[0] != (name, width):
            self._inputs = None
            device.release()
            self._inputs = (name, width), [device.random(n.shape, n.dtype) for n in graph.inputs]
        inputs = self._inputs[1]
        outputs = [device.empty(shape, short) for shape, short in program.outputs]
        time = self._timer.times({"form": lambda k: loaded(inputs, outputs)})["form"]
        return {
            "us": time.us,
            "median_us": time.median_us,
            "model_us": choice.taken.seconds * 1e6,
            "chosen": label(usual.taken) == form,
            "gb_per_s": program.bytes_min / time.us / 1e3,
            "shared": choice.taken.shared,
            "why": choice.taken.why,
            **self._resources(program),
        }

    def _resources(self, program: Any) -> dict[str, Any]:
        """Registers of a thread, bytes of local memory (spills), and blocks that a multiprocessor holds."""
        if self._device.emulate:
            return {}
        driver, cuda = self._device.backend.driver, self._device.xp.cuda.driver
        kernel = program.kernels[0]
        function = driver.load([kernel])[kernel.name]
        return {
            "registers": int(cuda.funcGetAttribute(_REGISTERS, function.ptr)),
            "local_bytes": int(cuda.funcGetAttribute(_LOCAL, function.ptr)),
            "blocks": driver.resident(function, kernel.launch["threads"], kernel.launch["shared"]),
        }


_LOCAL, _REGISTERS = 3, 4  # CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, _NUM_REGS


def slower(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Kernels and widths of which another form than the chosen one is faster by a twentieth."""
    best: dict[tuple[str, int], float] = {}
    chosen: dict[tuple[str, int], float] = {}
    for row in rows:
        if row["outcome"] == "ok":
            key = row["name"], row["width"]
            best[key] = min(best.get(key, float("inf")), row["us"])
            if row["chosen"]:
                chosen[key] = row["us"]
    return [f"{n} {w}: {chosen[n, w] / best[n, w]:.2f}" for n, w in chosen if chosen[n, w] > 1.05 * best[n, w]]


def main(arguments_: list[str] | None = None) -> int:
    options = arguments(__doc__).parse_args(arguments_)
    device = Device(options.emulate)
    rows = open_rows(options, device)
    forms = Forms(device, options.bytes)
    parts = [p for n in KERNELS[: 1 if device.emulate else None] for w in WIDTHS for p in forms.parts(n, w)]
    for row in rows.measure(
        "forms", parts, forms.measure, lambda part: "" if " 1 blocks" in part["form"] else "cluster"
    ):
        said = f"{row['name']:<20} {row['width']:>7}  {row['form']:<52}"
        if "us" in row:
            said += f"{row['us']:9.1f} us ({row['model_us']:.1f} by the model){' chosen' if row['chosen'] else ''}"
        print(f"{said} {row.get('problem', '')}".rstrip(), flush=True)
    found = slower(rows.found.lists.get("forms", []))
    if found:
        print(f"another form than the chosen one is faster: {'; '.join(found)}")
    return rows.finish()


if __name__ == "__main__":
    sys.exit(main())
