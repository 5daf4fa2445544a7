# SPDX-License-Identifier: Apache-2.0
"""The shape of a benchmark's result, as it is written with ``--json`` (docs/benchmarks.md describes it)."""

from __future__ import annotations

from typing import Any, TypedDict

__all__ = ["SCHEMA", "CaseResult", "Document", "FirstCall", "Row", "SuiteResult"]

SCHEMA = "hybridgpu-bench/2"  #: changes when a field's meaning changes


class Row(TypedDict):
    """One way of computing a case; times are microseconds a call."""

    mode: str  #: numpy or cupy (not of networks), eager, hybridized, static, bare (not of training), copy
    median_us: float
    min_us: float
    calls: int  #: calls timed together
    rounds: int  #: how often; median and minimum are over rounds
    over_reference: float  #: its time / the reference's, median over rounds of the ratio within a round
    over_copy: float  #: its time / that of a copy of the same bytes, likewise
    over_bare_us: float | None  #: hybridized, static: microseconds beyond the mode bare, likewise
    spread_us: float  #: median - minimum: differences smaller than this are noise


class CaseResult(TypedDict):
    """A workload at one size."""

    name: str
    parameters: dict[str, int]
    elements: int  #: of the result
    bytes: int  #: of arguments, parameters and result: what any program must move
    bare: str | None  #: what the mode bare is: 'foreign call', 'loaded program' (with library calls, or on a GPU)
    rows: list[Row]


class FirstCall(TypedDict):
    """What a new process waits for; milliseconds, of that of ``processes`` whose first call took least."""

    cache: str  #: cold (an empty cache folder) or warm
    processes: int
    import_ms: float  #: import hybridgpu and gluon, NumPy included
    backend_ms: float  #: of the first call, finding the compiler and changes of our files; cold: trying its flags, too
    first_call_ms: float  #: the rest of the first call: tracing, compiling or loading, running
    first_call_cpu_ms: float  #: processor time of that, the compiler's included: not lengthened by other jobs
    modules: int  #: modules that a compiler ran for


class SuiteResult(TypedDict):
    """All sizes of a workload on one device with one number of threads."""

    name: str
    title: str
    device: str
    threads: str  #: 'all' that each library takes by itself, or how many each was given
    reference: str  #: the mode that others are compared with: numpy or cupy; eager of networks
    cases: list[CaseResult]
    first_calls: list[FirstCall]


class Document(TypedDict):
    """What ``--json`` writes."""

    schema: str
    date: str  #: UTC, ISO 8601
    options: dict[str, Any]
    machine: dict[str, Any]
    suites: list[SuiteResult]
