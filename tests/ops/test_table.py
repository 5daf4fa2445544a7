# SPDX-License-Identifier: Apache-2.0
"""Every record of the operator table: eager, hybridized and reference agree.

Nothing here names an operator: attributes, shapes and values come from the records (``samples``,
``domain``). The reference is the record's own lowering, evaluated by NumPy with all floats in
float64; that the lowering means what MXNet means is test_golden.py's part. All cases of one
operator are one graph, so that each costs the C++ compiler one start.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import hybridgpu as mx
import hybridgpu.ops.numpy  # noqa: F401 - declares the operators of np, which are imported at first use
from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.base import MXNetError
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.reference import evaluate
from hybridgpu.core.dtypes import ALL_DTYPES, dtype_of
from hybridgpu.ndarray.apply import operator_graph
from hybridgpu.ops import OPERATORS
from hybridgpu.ops.params import REQUIRED
from hybridgpu.ops.record import Operator, Sample

# control flow and operators written in Python have tests of their own
RECORDS = [op for op in dict.fromkeys(OPERATORS.values()) if not op.subgraphs and op.python is None]
TYPES = [*(d.name for d in ALL_DTYPES[:8]), "bfloat16"]  # those of MXNet's operators
#: for records that take any shape: ordinary, several axes, one element, no axes, no elements, a view off alignment
SHAPES = [(3, 37), (2, 3, 5), (1,), (1, 1), (), (0, 3), "view"]
TOLERANCE = {"bfloat16": 3e-2, "float16": 4e-3, "float32": 2e-5, "float64": 1e-11}

records = pytest.mark.parametrize("op", RECORDS, ids=lambda op: op.name)


@pytest.fixture(autouse=True)
def _no_compiler_starts_early(monkeypatch):
    """Thousands of calls are refused once their graph is known: a compiler would wait for the text of each."""
    backend = cpu_backend()
    if backend is not None:
        monkeypatch.setattr(backend, "toolchain", replace(backend.toolchain, waits=False))


@dataclass
class Case:
    """One call: the operator with attributes, and its inputs as NumPy arrays and as arrays of the context."""

    op: Operator
    dtype: str
    attributes: dict[str, Any]
    values: Any
    host: list[np.ndarray] = field(default_factory=list)
    arrays: list[Any] = field(default_factory=list)

    def __str__(self) -> str:
        inputs = ", ".join(f"{a.dtype}{list(a.shape)}" for a in self.host)
        return f"{self.op.name}({inputs}, {self.attributes})"

    def run(self, F: Any, inputs: list[Any]) -> list[Any]:
        function = reach(F, self.op.name)
        if self.op.optional is None or self.op.variadic:
            out = function(*inputs, **self.attributes)
        else:  # by name: those left out need not be the last
            names = self.op.input_names(self.values)
            out = function(**dict(zip(names, inputs, strict=True)), **self.attributes)
        several = isinstance(out, (list, tuple)) or (isinstance(out, mx.sym.Symbol) and len(out.list_outputs()) > 1)
        return list(out) if several else [out]


def reach(F: Any, name: str) -> Any:
    """The function of ``nd`` or ``sym`` that an operator's name promises."""
    if name.startswith("_contrib_"):
        return getattr(F.contrib, name[len("_contrib_") :])
    return getattr(F._internal if name.startswith("_") else F, name)


def of_kind(op: Operator, x: Any) -> Any:
    """An array or a Symbol of the interface that the operator belongs to."""
    return x.as_np_ndarray() if op.name.startswith("_np") else x


def drawn(op: Operator, shape: tuple[int, ...], dtype: str, rng: Any) -> np.ndarray:
    """Values within the record's domain; every third is a multiple of a half, so that ties and whole numbers occur."""
    low, high = op.domain
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if not dtype_of(dtype).is_float:
        first, last = math.ceil(low), math.floor(high)
        if dtype == "uint8":
            first = max(first, 0)
        if first > last:
            raise NoSuchValue
        return rng.integers(first, last + 1, shape).astype(dtype)
    x = rng.uniform(low, high, shape)
    halves = np.clip(np.round(x * 2) / 2, low, high)
    return np.where(rng.uniform(size=shape) < 0.33, halves, x).astype(dtype_of(dtype).np)


class NoSuchValue(Exception):
    """The domain holds no whole number: the operator is for floats."""


def samples_of(op: Operator) -> tuple[Sample, ...]:
    if op.samples:
        return op.samples
    assert op.same_shape and all(p.default is not REQUIRED for p in op.params.values()), (
        f"the record of {op.name} has no samples, and tests cannot tell how to call it"
    )
    return (Sample(None, {}, {}),)


def cases(op: Operator, types: list[str], ctx: Any) -> list[Case]:
    """All calls the record asks for."""
    rng = np.random.default_rng(zlib.crc32(op.name.encode()))
    found = []
    for sample in samples_of(op):
        values = op.parse(sample.attributes)
        count = 3 if op.variadic else len(op.input_names(values))
        every = sample.shapes is None
        for shapes in [[s] * count for s in SHAPES] if every else [list(sample.shapes)]:
            for number, dtype in enumerate(types if shapes else ["float32"]):
                case = Case(op, dtype, sample.attributes, values)
                for k, shape in enumerate(shapes):
                    off = shape == "view"
                    shape = (4, 5) if off else shape
                    if k in sample.positions:
                        low, high = sample.positions[k]
                        x = rng.integers(low, high + 1, shape).astype(("int32", "float32")[number % 2])
                    else:
                        try:
                            x = drawn(op, shape, dtype, rng)
                        except NoSuchValue:
                            break
                    array = of_kind(op, mx.nd.array(x, dtype=x.dtype, ctx=ctx))
                    case.host.append(x[1:] if off else x)
                    case.arrays.append(array[1:] if off else array)
                else:
                    found.append(case)
    return found


def reference(case: Case) -> tuple[list[np.ndarray] | None, Any]:
    """(results in float64, or None for random ones; the results' types)."""
    if case.op.eager is not None:  # the extents depend on values: nothing is lowered
        found = case.op.eager(np, case.values, *case.host)
        return list(found), [tensor_type(y.shape, dtype_of(y.dtype)) for y in found]
    graph, draws = operator_graph(case.op, case.values, [a._type.tensor for a in case.arrays], False)
    types = [o.type for o in graph.outputs][: case.op.num_visible(case.values)]
    return (None if draws else evaluate(graph, case.host, wide=True)[: len(types)]), types


def agree(got: list[Any], want: list[np.ndarray] | None, types: Any, computed: str, what: str) -> None:
    """The results have the types, and the values to the precision of ``computed``, the type of the inputs."""
    assert len(got) == len(types), what
    for k, (g, t) in enumerate(zip(got, types, strict=True)):
        g = g.asnumpy()
        assert (g.shape, g.dtype) == (t.shape, t.dtype.np), f"{what} output {k}"
        if want is None:
            assert np.isfinite(g).all() and (g.size < 100 or g.astype("float64").std() > 0), (
                f"{what} output {k}: no random numbers"
            )
        elif t.dtype.is_float:
            tolerance = max(TOLERANCE.get(d, 0) for d in (t.dtype.name, computed))
            wide = g.astype("float64")
            limit = float(t.dtype.finfo.max)
            expected = np.where(np.abs(want[k]) > limit, np.copysign(np.inf, want[k]), want[k])
            np.testing.assert_allclose(wide, expected, tolerance, tolerance, err_msg=f"{what} output {k}")
        else:
            np.testing.assert_array_equal(g, want[k].astype(g.dtype), err_msg=f"{what} output {k}")


def fresh(case: Case) -> list[Any]:
    """The inputs, copied where the operator changes them."""
    return [x.copy() for x in case.arrays] if case.op.mutates else case.arrays


def check(op: Operator, types: list[str], ctx: Any, thin: int = 1) -> None:
    usable, symbols, inputs, refused = [], [], [], 0
    for number, case in enumerate(cases(op, types, ctx)[::thin]):
        variables = [of_kind(op, mx.sym.var(f"x{number}_{k}")) for k in range(len(case.arrays))]
        try:
            want, result_types = reference(case)
        except MXNetError as e:  # the record refuses: everything else must
            refused += 1
            with pytest.raises(MXNetError) as eager:
                case.run(mx.nd, case.arrays)
            assert str(eager.value).splitlines()[0] == str(e).splitlines()[0]
            with pytest.raises(MXNetError):
                out = mx.sym.Group(case.run(mx.sym, variables))
                mx.gluon.SymbolBlock(out, variables)(*case.arrays)
            continue
        with ctx:
            agree(case.run(mx.nd, fresh(case)), want, result_types, case.dtype, f"eager {case}")
        usable.append((case, want, result_types))
        symbols += case.run(mx.sym, variables)[: len(result_types)]
        inputs += [(v, case, k) for k, v in enumerate(variables)]
    assert usable or "bool" not in types, f"{op.name} refuses every call: {refused}"  # some take nothing else
    assert any(c.dtype in ("float32", "int32", "bool") for c, _, _ in usable) or not any(c.arrays for c, _, _ in usable)
    if not symbols:  # an operator without results
        return
    out = mx.sym.Group(symbols)
    for _ in range(2):
        got = out.eval(ctx=ctx, **{v.name: fresh(case)[k] for v, case, k in inputs})
        for case, want, result_types in usable:
            part, got = got[: len(result_types)], got[len(result_types) :]
            agree(part, want, result_types, case.dtype, f"hybridized {case}")
        assert not got


@pytest.mark.usefixtures("compiler")
@pytest.mark.long_table
@records
def test_cpu(op):
    with mx.util.np_shape(op.name.startswith("_np")):
        check(op, TYPES, mx.cpu())


@pytest.mark.long_table
@records
def test_emulated_gpu(op, cuda_driver):
    with mx.util.np_shape(op.name.startswith("_np")):
        check(op, ["float32", "float16", "int32", "bfloat16"], mx.gpu(0), thin=5)


@records
def test_record_is_whole(op):
    """What a record must say for everything to be derived from it."""
    assert op.doc.strip(), "no documentation"
    for s in samples_of(op):
        op.parse(s.attributes)
        assert set(s.positions) <= set(range(len(s.shapes or ())))
    assert op.domain[0] < op.domain[1]
    assert len(set(op.inputs)) == len(op.inputs)
    for name, p in op.params.items():
        if p.default is not REQUIRED and p.default is not None:
            parsed = p.parse(name, p.default)
            assert p.parse(name, str(p.default)) == parsed, f"{name}: the default does not survive a file"
    for F in (mx.nd, mx.sym):
        assert callable(reach(F, op.name))
        assert op.signature().parameters.keys() - {"out", "name"} >= {i.lstrip("*") for i in op.inputs}
