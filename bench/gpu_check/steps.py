# SPDX-License-Identifier: Apache-2.0
"""The table of steps: what each command goes through, in which order, and in how many seconds.

A step's seconds are its share of the command's time: whatever earlier steps leave over is shared out among later ones in
the same proportion (runner.share). The first command's add up to less than ten minutes, and so do the second's.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["COMMANDS", "SECONDS", "STEPS", "Step", "of_command", "table"]

SECONDS = 570.0  #: that a command takes at most


@dataclass(frozen=True)
class Step:
    """A step.

    Attributes:
        command: that goes through it; '' if only ``--steps`` does.
        module: of this folder, which runs as a process.
        runs, writes: what it does, and what is in its rows, for people.
        arguments: of the module.
        needs: packages besides those that every step imports.
        always: it is run again in every command.
    """

    name: str
    command: str
    seconds: int
    module: str
    runs: str
    writes: str
    arguments: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    always: bool = False


_OF_TESTS = ("pytest", "hypothesis")
_UNDER_TOOL = "every case graph, fewer where the time is short, under compute-sanitizer"


def _sanitizer(name: str, command: str, seconds: int) -> Step:
    return Step(name, command, seconds, "sanitizer", f"{_UNDER_TOOL} --tool {name}", "cases; errors; first", (name,))


STEPS = (
    Step("facts", "", 8, "facts", "what the machine is; one kernel", "machine, GPU, tools; first kernel", always=True),
    Step("kernels", "first", 70, "kernels", "every case graph once against float64: fresh, as a CUDA graph with NaN and "
         "infinities, as that graph with other addresses", "cases: kinds of kernels", ("--compilers", "6")),
    Step("constants", "first", 30, "constants", "`hybridgpu calibrate`: the device's constants", "constants"),
    Step("bandwidth", "first", 85, "bandwidth", "every kind of memory-bound kernel, and rows of 128 to 262,144, beside a copy",
         "bandwidth, rows: GB/s, part of a copy's"),
    Step("tests", "first", 90, "device_tests", "pytest -m gpu tests/gpu, several at a time", "tests: seconds", (), _OF_TESTS),
    Step("persistent", "first", 45, "persistent", "nets whose small kernels become one never, auto or always, each call "
         "fresh and as a CUDA graph", "calls: microseconds"),
    Step("forms", "first", 60, "forms", "every form of reduction kernels at six widths", "forms: microseconds, the model's"),
    Step("products", "first", 55, "products", "matrix products in every form, by cuBLASLt and by CuPy", "cases, times"),
    Step("convolutions", "first", 55, "convolutions", "convolutions by the direct kernel, cuDNN and unfolded", "cases, times"),
    Step("counters", "first", 55, "counters", "ncu on five kernels: chain, softmax of 131,072 and of 262,144, column sum, "
         "LeNet", "kernels: metrics"),
    _sanitizer("memcheck", "second", 110),
    _sanitizer("racecheck", "second", 90),
    Step("bench", "second", 150, "suites", "hybridgpu bench: networks, and arrays far beyond the L2", "suites"),
    Step("peers", "second", 190, "peer_cases", "bench/peers.py: PyTorch, JAX and CuPy, those that are here", "workloads"),
    _sanitizer("initcheck", "", 100),
    _sanitizer("synccheck", "", 100),
)  # fmt: skip
COMMANDS = ("first", "second")


def of_command(command: str) -> list[str]:
    """The names of its steps."""
    return [s.name for s in STEPS if s.command == command or s.always]


def table() -> str:
    """The steps for people."""
    lines = [f"{'step':<13}{'command':<9}{'seconds':>7}  runs -> writes"]
    for s in STEPS:
        lines.append(f"{s.name:<13}{'each' if s.always else s.command or '-':<9}{s.seconds:>7}  {s.runs} -> {s.writes}")
    return "\n".join(lines) + "\n"
