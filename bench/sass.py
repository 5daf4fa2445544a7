# SPDX-License-Identifier: Apache-2.0
"""What the assembler makes of the benchmark's CUDA kernels: instructions, registers, resident blocks. No GPU needed.

    python bench/sass.py [--arch sm_90] [--json FILE] [--markdown FILE] [--compare FILE] [--text FOLDER] [CASE ...]

Every case is compiled as for a GPU with 132 multiprocessors, by NVRTC, and read with nvdisasm (the wheel
nvidia-cuda-nvdisasm). ``--compare`` prints what differs from the figures in FILE; ``--text`` leaves the kernels' texts
and their SASS. CASE is a part of a case's name. Exits with 1 if ``--compare`` finds a difference, 2 without the tools.

Figures are of the text, not of a run:

- ``all`` counts instructions without padding, subroutines (the rare cases of a division) with the rest;
- ``an element``: of map and reduce kernels the instructions of the innermost loop with the widest global accesses, over
  the elements that it stores (loads, if it stores none); of kernels that go over rows the same summed over their innermost
  loops that access memory most widely. A kernel without such a loop counts from end to end. Code for rare cases that
  the loop jumps around is in it, but for subroutines and loops around their calls. Other kinds of kernels have no such
  figure;
- ``blocks`` is how many an SM holds at once, ``occupancy`` its threads over the most it can hold.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "bench")]

import numpy as np  # noqa: E402
from cuda_calls import NullDriver  # noqa: E402
from cuda_on_cpu.static_checks import nvdisasm, resident_blocks, resources  # noqa: E402
from disassembly import Function, Loop, disassemble  # noqa: E402

import hybridgpu as mx  # noqa: E402
from hybridgpu import autograd, nd  # noqa: E402
from hybridgpu.backends.cuda.backend import CudaBackend  # noqa: E402
from hybridgpu.backends.cuda.driver import module_source  # noqa: E402
from hybridgpu.backends.cuda.nvrtc import compile_reported, compiler_version  # noqa: E402
from hybridgpu.backends.devices import HostDevice, use_gpu_devices  # noqa: E402
from hybridgpu.cli.bench.workloads import SUITES  # noqa: E402
from hybridgpu.compiler.program import KernelInfo, KernelStep, LibraryStep, Program  # noqa: E402
from hybridgpu.core.dtypes import from_short  # noqa: E402
from hybridgpu.gluon import HybridBlock, nn, rnn  # noqa: E402
from hybridgpu.gluon.loss import SoftmaxCrossEntropyLoss  # noqa: E402

COUNTED = ("ldg128", "ldg64", "ldg32", "stg128", "stg64", "stg32", "mufu", "fchk", "call", "bar", "membar", "branch")
COMPARED = ("all", "an_element", "registers", "stack", "spills", "shared", "blocks", *COUNTED)
MULTIPROCESSORS = 132  #: of an H100 or H200


# -- what is compiled


class RecordingDriver(NullDriver):
    """A driver that starts nothing; small kernels may become steps of one."""

    cooperative = True

    def __init__(self, arch: str) -> None:
        self.arch, self.multiprocessors, self.identity = arch, MULTIPROCESSORS, f"sass {arch}"

    def resident(self, kernel: Any, threads: int, shared: int) -> int:
        return 1


class RecordingBackend(CudaBackend):
    """Keeps the programs that it is given."""

    def __init__(self, driver: Any, address: Any) -> None:
        super().__init__(driver, np, address)
        self.programs: list[Program] = []

    def load(self, program: Program, *rest: Any) -> Any:
        self.programs.append(program)
        return super().load(program, *rest)


class RecordingDevice(HostDevice):
    """A GPU with the host's memory."""

    def __init__(self, arch: str) -> None:
        self._backend = RecordingBackend(RecordingDriver(arch), self.address)

    def backend(self) -> Any:
        return self._backend


class FunctionBlock(HybridBlock):
    """A block of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def hybrid_forward(self, F: Any, *args: Any) -> Any:
        return self._function(F, *args)


@dataclass(frozen=True)
class Work:
    """A case: the blocks and inputs of a program, whether it is trained, the modes that it is compiled in."""

    build: Callable[[], HybridBlock]
    shapes: tuple[tuple[int, ...], ...]
    modes: tuple[str, ...] = ("strict",)
    trained: bool = False
    dtype: str = "float32"


def _benchmark(suite: str, k: int) -> Callable[[], HybridBlock]:
    """The net of the benchmark's own case."""
    return lambda: SUITES[suite].cases[k].again(None)


def _function(function: Callable[..., Any]) -> Callable[[], HybridBlock]:
    return lambda: FunctionBlock(function)


def _perceptron() -> HybridBlock:
    net = nn.HybridSequential()
    net.add(nn.Dense(256, activation="relu"), nn.Dense(128, activation="relu"), nn.Dense(10))
    return net


class Cell(HybridBlock):
    """A step of an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.cell = rnn.LSTMCell(128, input_size=128)

    def hybrid_forward(self, F: Any, x: Any, h: Any, c: Any) -> Any:
        y, states = self.cell(x, [h, c])
        return y, states[1]


_BOTH = ("strict", "fast")
#: W1 … W9 of the benchmark, then more sizes and kinds that go other ways
WORK: dict[str, Work] = {
    "W1 perceptron, batch 1": Work(_benchmark("mlp", 0), ((1, 512),)),
    "W1 perceptron, batch 16": Work(_benchmark("mlp", 1), ((16, 512),)),
    "W2 chain of 10^7": Work(_benchmark("chain", 3), ((10_000_000,),), _BOTH),
    "W3 normalise 4096 x 1024": Work(_benchmark("broadcast", 2), ((4096, 1024),), _BOTH),
    "W4 softmax 4096 x 1024": Work(_benchmark("rows", 0), ((4096, 1024),), _BOTH),
    "W5 norm + gelu 4096 x 1024": Work(_benchmark("rows", 1), ((4096, 1024),), _BOTH),
    "W6 gelu 4096 x 1024": Work(_benchmark("broadcast", 3), ((4096, 1024),), _BOTH),
    "W7 lenet, batch 1": Work(_benchmark("lenet", 1), ((1, 1, 28, 28),)),
    "W7 lenet, batch 16": Work(_benchmark("lenet", 0), ((16, 1, 28, 28),)),
    "W8 resnet, batch 1": Work(_benchmark("resnet", 0), ((1, 3, 64, 64),)),
    "W8 resnet, batch 8": Work(_benchmark("resnet", 1), ((8, 3, 64, 64),)),
    "W9 training step, batch 64": Work(_perceptron, ((64, 784),), trained=True),
    "softmax 32768 x 128": Work(_benchmark("rows", 2), ((32_768, 128),)),
    "softmax 4096 x 1024, float16": Work(_benchmark("rows", 0), ((4096, 1024),), _BOTH, dtype="float16"),
    "softmax 512 x 8192": Work(_benchmark("rows", 4), ((512, 8192),)),
    "softmax 64 x 65536": Work(_benchmark("rows", 6), ((64, 65_536),)),
    "softmax 32 x 131072": Work(_benchmark("rows", 0), ((32, 131_072),), _BOTH),
    "softmax 16 x 262144": Work(_benchmark("rows", 8), ((16, 262_144),), _BOTH),
    "norm + gelu 16 x 262144": Work(_benchmark("rows", 9), ((16, 262_144),)),
    "column sum of 65536 x 1024": Work(_function(lambda F, x: F.sum(x, axis=0)), ((65_536, 1024),)),
    "quotient of 10^7": Work(_function(lambda F, x, y: x / y), ((10_000_000,),) * 2, _BOTH),
    "lstm cell, batch 16": Work(Cell, ((16, 128),) * 3),
}


def programs(work: Work, numeric: str, device: RecordingDevice, ctx: Any) -> list[Program]:
    """The programs that a case's calls compile."""
    found = device.backend().programs
    found.clear()
    net = work.build()
    net.initialize(ctx=ctx)
    net.hybridize(numeric=numeric)
    inputs = [nd.zeros(shape, ctx=ctx, dtype=work.dtype) for shape in work.shapes]
    if not work.trained:
        net(*inputs)
        return list(found)
    loss = SoftmaxCrossEntropyLoss()
    loss.hybridize(numeric=numeric)
    with autograd.record():
        value = loss(net(*inputs), nd.zeros(inputs[0].shape[:1], ctx=ctx))
    value.backward()
    return list(found)


# -- what is read


def kernels(found: Sequence[Program]) -> Iterator[tuple[KernelInfo, str, int]]:
    """Each kernel of some programs once, with the type of its elements and its dynamic shared memory."""
    seen: set[str] = set()
    for program in found:
        for step in program.steps:
            if isinstance(step, LibraryStep):
                if step.body is not None:
                    yield from kernels([step.body])
                continue
            kernel = program.kernels[step.kernel]
            if kernel.name in seen:
                continue
            seen.add(kernel.name)
            yield kernel, _element(program, step), int((kernel.launch or {}).get("shared", 0))


def _element(program: Program, step: KernelStep) -> str:
    """The type of the largest array that a step meets, of equal ones the last."""
    return max((program.buffers[b] for b in reversed(step.buffers)), key=lambda b: b.nbytes).dtype


def an_element(function: Function, kind: str, size: int) -> float | None:
    """Instructions for each element of ``size`` bytes, None where that is no question for the kind of kernel."""
    if kind not in ("map", "reduce", "rows"):
        return None
    loops = function.loops()
    used = [a for a in loops if a.bytes_of("LDG", "STG")]
    widest = max((a.widest("LDG", "STG") for a in used), default=0)
    whole = function.straight()
    if not used or widest < whole.widest("LDG", "STG"):
        return _share(whole, size)
    if kind != "rows":
        return max(_share(a, size) for a in used if a.widest("LDG", "STG") == widest)
    most = max(a.widest("LDG", "STG", "LDS", "STS") for a in loops)
    return sum(_share(a, size) for a in loops if a.widest("LDG", "STG", "LDS", "STS") == most)


def _share(loop: Loop, size: int) -> float:
    """Instructions over elements that are stored, or loaded."""
    moved = loop.bytes_of("STG") or loop.bytes_of("LDG") or loop.bytes_of("STS") or loop.bytes_of("LDS")
    return len(loop.instructions) / max(1, moved / size)


def figures(kernel: KernelInfo, dtype: str, shared: int, arch: str, texts: Path | None) -> dict[str, Any]:
    """A kernel's row."""
    source = module_source([kernel])
    code, log = compile_reported(source, arch, kernel.numeric)
    tool = nvdisasm()
    assert tool is not None
    function = disassemble(tool, code + b"\0" * (-len(code) % 8))[kernel.name]
    if texts is not None:
        texts.mkdir(parents=True, exist_ok=True)
        (texts / f"{kernel.name}.cu").write_text(source)
        lines = (f"{i.at:05x} {i.operation} {i.target}\n" for i in function.instructions)
        (texts / f"{kernel.name}.sass").write_text("".join(lines))
    needs = resources(log)[kernel.name]
    assert kernel.launch is not None
    threads = kernel.launch["threads"]
    blocks = resident_blocks(arch, needs.registers, threads, needs.shared + shared)
    each = an_element(function, kernel.kind, from_short(dtype).size)
    counts = function.counts()
    return {
        "kernel": kernel.name.rpartition("_")[0],
        "kind": kernel.kind,
        "all": len(function.instructions),
        "an_element": None if each is None else round(each, 2),
        "registers": needs.registers,
        "stack": needs.stack,
        "spills": needs.spills,
        "shared": needs.shared + shared,
        "threads": threads,
        "blocks": blocks,
        "occupancy": round(blocks * threads / resident_threads(arch), 3),
        **{kind: counts.pop(kind, 0) for kind in COUNTED},
        "other": counts,
    }


def resident_threads(arch: str) -> int:
    """Threads that an SM can hold."""
    from hybridgpu.compiler.target import cuda_target

    return cuda_target(arch, MULTIPROCESSORS).gpu.resident_threads


def table(names: Sequence[str], arch: str, texts: Path | None = None) -> list[dict[str, Any]]:
    """The rows of some cases."""
    device = RecordingDevice(arch)

    def factory(number: int) -> RecordingDevice:
        return device

    factory.count = 1  # type: ignore[attr-defined]
    use_gpu_devices(factory)
    try:
        rows = []
        for name in names:
            for numeric in WORK[name].modes:
                found = programs(WORK[name], numeric, device, mx.gpu(0))
                for k, (kernel, dtype, shared) in enumerate(kernels(found)):
                    row = {"case": name, "numeric": numeric, "number": k}
                    rows.append(row | figures(kernel, dtype, shared, arch, texts))
        return rows
    finally:
        use_gpu_devices(None)


# -- what is shown


def _key(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["case"], row["numeric"], row["number"]


def markdown(document: dict[str, Any]) -> str:
    """A table of the figures."""
    head = ("case", "mode", "kernel", "all", "an element", "registers", "stack + spills", "shared", "threads")
    head += ("blocks", "occupancy", "LDG 128/64/32", "STG 128/64/32", "MUFU", "FCHK", "CALL", "BAR", "MEMBAR", "BRA")
    lines = [
        f"{document['arch']}, NVRTC {document['nvrtc']}; written by `python bench/sass.py`, which says what is counted.",
        "",
        "| " + " | ".join(head) + " |",
        "|" + "|".join(["---"] * 3 + ["---:"] * (len(head) - 3)) + "|",
    ]
    for r in document["kernels"]:
        each = "" if r["an_element"] is None else f"{r['an_element']:.1f}"
        cells = [r["case"], r["numeric"], f"{r['kind']}: {r['kernel']}", r["all"], each, r["registers"]]
        cells += [f"{r['stack']} + {r['spills']}", r["shared"], r["threads"], r["blocks"], f"{r['occupancy']:.2f}"]
        cells += [f"{r[f'{op}128']}/{r[f'{op}64']}/{r[f'{op}32']}" for op in ("ldg", "stg")]
        cells += [r[k] for k in ("mufu", "fchk", "call", "bar", "membar", "branch")]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def differences(old: dict[str, Any], new: dict[str, Any], names: Sequence[str]) -> list[str]:
    """A line for each kernel of these cases whose figures differ, with what they were and are."""
    before = {_key(r): r for r in old["kernels"] if r["case"] in names}
    after = {_key(r): r for r in new["kernels"]}
    lines = []
    for key in [*after, *(k for k in before if k not in after)]:
        a, b = before.get(key), after.get(key)
        label = f"{key[0]}, {key[1]}, {(b or a or {})['kernel']}"
        if a is None or b is None:
            lines.append(f"{label}: {'no such kernel before' if a is None else 'no longer there'}")
            continue
        changed = [f"{k.replace('_', ' ')} {a[k]} -> {b[k]}" for k in COMPARED if a[k] != b[k]]
        if changed:
            lines.append(f"{label}: {', '.join(changed)}")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="parts of names of cases (default: all)")
    parser.add_argument("--arch", default="sm_90", help="default: %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="of --json: print what differs from it")
    parser.add_argument("--text", type=Path, metavar="FOLDER", help="leave the kernels' texts and SASS there")
    options = parser.parse_args(arguments)
    names = [n for n in WORK if not options.cases or any(c in n for c in options.cases)]
    if not names:
        parser.error(f"no such case; there are {'; '.join(WORK)}")
    if nvdisasm() is None:
        print("error: there is no nvdisasm: pip install nvidia-cuda-nvdisasm", file=sys.stderr)
        return 2
    old = json.loads(options.compare.read_text()) if options.compare is not None else {}
    document = {
        "arch": options.arch,
        "nvrtc": ".".join(map(str, compiler_version())),
        "kernels": table(names, options.arch, options.text),
    }
    if options.json is not None:
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    text = markdown(document)
    if options.markdown is not None:
        options.markdown.write_text(text)
    if not old:
        print(text, end="")
        return 0
    for what in ("arch", "nvrtc"):
        if old[what] != document[what]:
            print(f"{what}: {old[what]} -> {document[what]}")
    lines = differences(old, document, names)
    print("\n".join(lines) or "no figure differs")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
