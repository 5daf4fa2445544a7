# SPDX-License-Identifier: Apache-2.0
"""Every differentiable record: first and second derivatives against central differences, in float64.

The derivative of a random projection along a random direction is compared with the difference of two
evaluations. Operators whose gradient is by definition not that of their formula are recognised by the
rule that their lowering names; what these give is checked in the tests of their families.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
from ops.test_table import RECORDS, samples_of

from hybridgpu.backends.devices import device_of
from hybridgpu.base import MXNetError
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.primitives.custom_gradient import INEXACT_RULES
from hybridgpu.context import cpu
from hybridgpu.core.dtypes import dtype_of, f32, f64, i32
from hybridgpu.ndarray.apply import operator_graph
from hybridgpu.ndarray.tape import DifferentiableGraph
from hybridgpu.ops.record import Operator

CPU = device_of(cpu())
STEP = 1e-5
SHAPES = [(3, 7), (2, 3, 4)]


def differentiable() -> list[Operator]:
    return [op for op in RECORDS if op.differentiable and op.eager is None and op.python is None and op.inputs]


def calls(op: Operator) -> list[tuple[Any, list[np.ndarray], list[int]]]:
    """(attributes, inputs, numbers of those that are differentiated) of every sample with elements."""
    rng = np.random.default_rng(zlib.crc32(op.name.encode()))
    found = []
    for sample in samples_of(op):
        values = op.parse(sample.attributes)
        count = 3 if op.variadic else len(op.input_names(values))
        for shapes in [[s] * count for s in SHAPES] if sample.shapes is None else [list(sample.shapes)]:
            if any(0 in s for s in shapes) or not shapes:
                continue
            inputs = []
            for k, shape in enumerate(shapes):
                if k in sample.positions:
                    low, high = sample.positions[k]
                    inputs.append(rng.integers(low, high + 1, shape).astype(np.float64))
                else:
                    inputs.append(rng.uniform(*op.domain, shape))
            found.append((values, inputs, [k for k in range(len(shapes)) if k not in sample.positions]))
    return found


def function_of(op: Operator, values: Any, inputs: list[np.ndarray]) -> DifferentiableGraph | None:
    """The operator as a function in float64; None where it draws, or its gradient is no derivative."""
    types = [tensor_type(x.shape, dtype_of(x.dtype)) for x in inputs]
    graph, draws = operator_graph(op, values, types, True)
    rules = {n.params["rule"] for n in graph.nodes if n.prim.name == "custom_gradient"}
    stopped = any(n.prim.name == "stop_gradient" for n in graph.nodes)
    if draws or stopped or rules & INEXACT_RULES or any(o.dtype is not f64 for o in graph.outputs):
        return None
    return DifferentiableGraph(graph)


def along(run: Any, inputs: list[np.ndarray], directions: dict[int, np.ndarray]) -> float:
    """The central difference of a scalar function along a direction."""

    def at(step: float) -> float:
        return float(run([x + step * directions[k] if k in directions else x for k, x in enumerate(inputs)]))

    # two steps and Richardson's extrapolation: errors of the fourth order
    first = (at(STEP) - at(-STEP)) / (2 * STEP)
    second = (at(2 * STEP) - at(-2 * STEP)) / (4 * STEP)
    return (4 * first - second) / 3


@pytest.mark.parametrize("op", differentiable(), ids=lambda op: op.name)
def test_derivatives(op: Operator) -> None:
    checked = 0
    for values, inputs, floats in calls(op):
        function = function_of(op, values, inputs)
        if function is None:
            continue
        rng = np.random.default_rng(7)
        weights = [rng.normal(size=o.shape) for o in function.graph.outputs]
        directions = {k: rng.normal(size=inputs[k].shape) for k in floats}
        wanted = tuple(k in directions for k in range(len(inputs)))
        given = tuple(True for _ in weights)
        if op.name == "_contrib_RROIAlign":  # the one operator of MXNet's without a gradient whose use is an error
            with pytest.raises(MXNetError, match="is non-differentiable because it didn't register FGradient"):
                function.derivative(given, wanted)
            continue
        backward, takes, gives = function.derivative(given, wanted)

        def projected(xs: list[np.ndarray], f: Any = function, w: Any = weights) -> float:
            return sum(float((y * v).sum()) for y, v in zip(f.run(CPU, xs), w, strict=True))

        def gradient(
            xs: list[np.ndarray], f: Any = function, b: Any = backward, t: Any = takes, w: Any = weights
        ) -> Any:
            every = [*xs, *f.run(CPU, xs), *w]
            return b.run(CPU, [every[k] for k in t])

        slopes = gradient(inputs)
        got = sum(float((slopes[g] * directions[k]).sum()) for k, g in zip(floats, gives, strict=True) if g is not None)
        want = along(projected, inputs, directions)
        scale = 1 + max(abs(want), abs(got))
        assert abs(got - want) <= 2e-6 * scale, f"{op.name} {values}: derivative {got}, difference {want}"
        checked += 1

        # once more, of a projection of the gradient
        if not backward.graph.outputs:
            continue
        turns = [rng.normal(size=o.shape) for o in backward.graph.outputs]
        arguments = [*inputs, *function.run(CPU, inputs), *weights]
        second, takes2, gives2 = backward.derivative(
            tuple(True for _ in turns), tuple(k < len(inputs) and wanted[k] for k in takes)
        )
        of_backward = [arguments[k] for k in takes]
        of_second = [*of_backward, *backward.run(CPU, of_backward), *turns]
        parts = second.run(CPU, [of_second[k] for k in takes2]) if second.graph.outputs else []
        if any(len(inputs) <= k < len(inputs) + len(weights) for k in takes):
            continue  # it reads the results, through which the chain goes on: test_autograd follows it
        names = [k for k in takes if k < len(inputs) and wanted[k]]
        got = sum(float((parts[g] * directions[k]).sum()) for k, g in zip(names, gives2, strict=True) if g is not None)

        def turned(xs: list[np.ndarray], t: Any = turns, g: Any = gradient) -> float:
            return sum(float((y * v).sum()) for y, v in zip(g(xs), t, strict=True))

        want = along(turned, inputs, directions)
        scale = 1 + max(abs(want), abs(got))
        assert abs(got - want) <= 2e-5 * scale, f"{op.name} {values}: second derivative {got}, difference {want}"
    if not checked:
        pytest.skip("draws, or its gradient is by definition no derivative")


#: values of which a derivative by parts easily takes what the operator leaves out
FAR = [-1e3, -100, -1, 0, 0, 1, 100, 1e3]
#: slopes that are infinite there, and quotients that are 0 / 0 in MXNet, too
POLES = """
cbrt sqrt _rmod_scalar prod nanprod _power broadcast_power norm _linalg_gelqf _npi_cbrt _npi_sqrt _npi_rmod_scalar _np_prod
_npi_nanprod _npi_power _npi_norm _npi_qr _npi_svd _contrib_RROIAlign
""".split()


@pytest.mark.parametrize("op", [op for op in differentiable() if op.name not in POLES], ids=lambda op: op.name)
def test_gradients_are_finite_where_results_are(op: Operator) -> None:
    for values, inputs, floats in calls(op):
        function = function_of(op, values, inputs)
        if function is None or not floats:
            continue
        for fill in (FAR, [0.0]):
            given = [np.resize(fill, x.shape) if k == floats[0] else x for k, x in enumerate(inputs)]
            try:
                with np.errstate(all="ignore"):
                    results = function.run(CPU, given)
            except MXNetError:  # no matrix that it takes
                continue
            if not all(np.isfinite(y).all() for y in results):
                continue
            heads = [np.ones(o.shape) for o in function.graph.outputs]
            backward, takes, _ = function.derivative(
                (True,) * len(heads), tuple(k in floats for k in range(len(given)))
            )
            every = [*given, *results, *heads]
            with np.errstate(all="ignore"):
                slopes = backward.run(CPU, [every[k] for k in takes])
            assert all(np.isfinite(g).all() for g in slopes), f"{op.name} {values} of {fill}"


@pytest.mark.parametrize(
    "op", [op for op in RECORDS if not op.differentiable or op.no_gradient], ids=lambda op: op.name
)
def test_inputs_without_gradient(op: Operator) -> None:
    """No gradient is lost because the record says that there is none."""
    for sample in samples_of(op) if op.eager is None else ():
        values = op.parse(sample.attributes)
        shapes = sample.shapes if sample.shapes is not None else (SHAPES[0],) * len(op.input_names(values, 3))
        try:
            graph, _ = operator_graph(op, values, [tensor_type(s, f32) for s in shapes], True)
        except MXNetError:  # for integers only, which have no gradient
            operator_graph(op, values, [tensor_type(s, i32) for s in shapes], True)
            continue
        given = tuple(k < op.num_visible(values) for k in range(len(graph.outputs)))
        _, _, gives = DifferentiableGraph(graph).derivative(given, (True,) * len(shapes))
        having = op.inputs_with_gradient(values, len(shapes))
        assert [k for k, g in enumerate(gives) if g is not None and k not in having] == []
