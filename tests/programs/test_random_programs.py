# SPDX-License-Identifier: Apache-2.0
"""Random Gluon programs, eager and hybridized, on the emulated GPU and by the real MXNet: every state agrees.

A program builds a net (blocks and parameters that are shared, hybridized inside, or not), trains and predicts in turn, freezes,
casts, writes, saves, loads, copies and exports, and observes parameters, gradients, running statistics and states of trainers
after each of these. What fails is shrunk, and printed as a script that can be run.

The examples are the same in every run. A session with others:
``HYBRIDGPU_RANDOM_PROGRAMS=2000 pytest tests/programs/test_random_programs.py --hypothesis-seed=1``; with
``HYBRIDGPU_MXNET_PYTHON`` MXNet runs them, too. ``-m exhaustive`` runs each program in every way.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from programs.actions import ACTIONS, Action
from programs.compare import Difference, Observations, difference, moment, raised
from programs.execute import Agent, execute
from programs.generate import programs
from programs.layers import LAYERS, Layer
from programs.mxnet_defects import DEFECTS, Defect, rules_for
from programs.script import Program, Way, render

from hybridgpu.gluon import trainer
from hybridgpu.ndarray import versions

SESSION = int(os.environ.get("HYBRIDGPU_RANDOM_PROGRAMS", "0"))
MXNET_PYTHON = os.environ.get("HYBRIDGPU_MXNET_PYTHON")
with_mxnet = pytest.mark.skipif(not MXNET_PYTHON, reason="HYBRIDGPU_MXNET_PYTHON names no Python with MXNet 1.9.1")

EAGER = Way("eager")
HYBRIDIZED = (
    Way("hybridized", hybridize=True),
    Way("static", hybridize=True, flags="static_alloc=True, static_shape=True"),
    Way("background", hybridize=True, flags="background=True"),
)
EMULATED = Way("emulated", hybridize=True, flags="static_alloc=True, static_shape=True", context="gpu")
MXNET = Way("MXNet", module="mxnet")


#: programs are drawn until one is found, and not shrunk
GENERATED = settings(max_examples=400, derandomize=True, database=None, deadline=None, phases=[Phase.generate])


def examples(count: int) -> settings:
    """``count`` programs, the same ones each time; a session by hand draws its own."""
    return settings(
        max_examples=SESSION or count,
        derandomize=not SESSION,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def mxnet():
    agent = Agent(MXNET_PYTHON)
    yield agent
    agent.close()


def eager_alone(script: str) -> dict[str, str]:
    """Arguments of ``difference`` for what eager operators do and hybridized nets do not, here as in MXNet.

    Eager operators set the gamma of a BatchNorm that does not scale to 1. One BatchNorm that is called several times, in
    two branches or on both sides of a BlockGrad, writes its averages in another order, on which what follows depends.
    """
    norms = re.findall(r"^(\w+) = nn.BatchNorm\((.*)", script, re.M)
    parted = "= Half(" in script or "= Branches(" in script
    several = [n for n, _ in norms if "= Twice(" in script or len(re.findall(rf"\b{n}\b", script)) > 2]
    return {
        "ignore": "|".join(f"{n}_gamma$" for n, options in norms if "scale=False" in options),
        "until": "|".join(f"{n}_running_(mean|var)$" for n in several) if parted else "",
    }


_BY_FORMULA = re.compile(r"nn\.(\w+Norm|\w*MaxPool\w*|Activation)\(|rnn\.\w+\(")


def beside_mxnet(script: str) -> dict[str, Any]:
    """Arguments of ``difference`` for MXNet: its defects, and one thing that is not the same.

    Gradients of normalizations, recurrent layers, activations and maxima of windows are formulas that hold for the input of
    the call; where it was written since, MXNet's formula gives other numbers than ours. (Those of activations depend on the
    library that computes them: oneDNN's read the input, MXNet's own the result.)
    """
    rules = rules_for(script)
    if re.search(r"# \d+: written input", script) and _BY_FORMULA.search(script):
        rules["until"] = "|".join(filter(None, (rules["until"], "written input")))
    return rules


def check(program: Program, *ways: Way, agent: Agent | None = None) -> None:
    """Run a program eagerly and in other ways; all must observe the same."""
    expected = execute(render(program, EAGER))
    for way in ways:
        found = differs(program, expected, way, agent)
        if found and not rounding_grows(program, expected, way, found):
            note(render(program, way))
            raise AssertionError(f"{way.name}: {found.text}")


def differs(program: Program, expected: Observations, way: Way, agent: Agent | None) -> Difference | None:
    """What differs from the eager way."""
    script = render(program, way)
    if way.module == "mxnet":
        assert agent is not None
        return difference(expected, agent(script), **beside_mxnet(script))
    return difference(expected, execute(script), **eager_alone(script))


def rounding_grows(program: Program, expected: Observations, way: Way, found: Difference) -> bool:
    """Whether the eager way differs from itself by then, and as much, once initial values are changed by a rounding.

    Training that is not stable, or that has converged until only roundings are left of its gradients, enlarges these without
    bound: there a difference says nothing. A rounding is that of the arithmetic, or of the attributes, which are float32
    in MXNet.
    """
    script = render(program, EAGER)
    if "float16" in script:
        nudge = 1e-3
    elif 'dtype = "float32"' in script:
        nudge = 2.4e-7
    else:
        nudge = 6e-8 if way.module == "mxnet" else 1e-14
    rules = beside_mxnet(script) if way.module == "mxnet" else {}
    moved = difference(
        expected, execute(render(program, replace(EAGER, nudge=nudge))), float64=rules.get("float64", 1e-6)
    )
    if moved is None:
        return False
    labels = [label for label, _ in expected]
    together = moment(labels[moved.place]) if moved.place < len(labels) else None
    return moved.place <= found.place or together in map(moment, labels[found.place : found.place + 1])


@pytest.mark.long_table
@pytest.mark.parametrize("way", HYBRIDIZED, ids=lambda way: way.name)
@examples(80)
@given(program=programs)
def test_hybridized(compiler, way, program):
    check(program, way)


@pytest.mark.long_test
@examples(3)
@given(program=programs)
def test_emulated(cuda_driver, program):
    check(program, EMULATED)


@with_mxnet
@examples(300)
@given(program=programs)
def test_mxnet(mxnet, program):
    check(program, MXNET, agent=mxnet)


@pytest.mark.exhaustive
@examples(1000)
@given(program=programs)
def test_every_way(compiler, request, program):
    agent = request.getfixturevalue("mxnet") if MXNET_PYTHON else None
    check(program, *HYBRIDIZED, *([MXNET] if agent else []), agent=agent)


def test_every_layer_and_action_is_written():
    """A kind that never fits would be a row that tests nothing."""
    layers, actions = set(), set()

    def collect(drawn):
        for layer in drawn:
            layers.add(layer.kind)
            collect(layer.inside)

    @GENERATED
    @given(program=programs)
    def draw(program):
        script = render(program, EAGER)
        collect(layer for layer in program.layers if len(script) > 0)
        actions.update(re.findall(r"^# \d+: (.*)$", script, re.M))

    # 400 programs may lack one rare action, by what ran before: Hypothesis draws constants of modules that are imported, too
    for number in range(5):
        hypothesis.seed(number)(draw)()
        if layers == set(LAYERS) and actions == set(ACTIONS):
            break
    assert layers == set(LAYERS)
    assert actions == set(ACTIONS)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("loss.backward()", "(loss * 1.01).backward()"),
        ("nn.LayerNorm(", "nn.LayerNorm(epsilon=0.1, "),
        ("return dy * self.slope", "return dy * self.slope * 1.01"),
        ('net.cast("float16")', "pass"),
        ("nn.Dropout(0.75, ", "nn.Dropout(0.7, "),
    ],
    ids=["gradients", "a layer", "a function's derivative", "halves that are not rounded", "a rate of dropout"],
)
def test_a_planted_fault_is_found(right, wrong):
    def is_seen(program):
        script = render(program, EAGER)
        return right in script and difference(execute(script), execute(script.replace(right, wrong))) is not None

    assert is_seen(hypothesis.find(programs, is_seen, settings=GENERATED))


@pytest.mark.parametrize("action", ["written input", "step between passes"])
def test_writes_that_recorded_calls_do_not_see_are_found(compiler, monkeypatch, action):
    """A backward pass that computes old results again from new values."""

    def is_seen(number):
        program = Program(0, (Layer("scaled", 0), Layer("activation", 1)), (0,), (Action(action, number),))
        expected = execute(render(program, EAGER))
        assert differs(program, expected, HYBRIDIZED[0], None) is None
        with monkeypatch.context() as m:
            for module in (versions, trainer):
                m.setattr(module, "before_writes", lambda arrays: None)
            found = differs(program, expected, HYBRIDIZED[0], None)
            return found is not None and not rounding_grows(program, expected, HYBRIDIZED[0], found)

    assert any(map(is_seen, range(20)))


_IMPORTS = "import {0} as mx\nfrom {0} import autograd, gluon, nd\nobserved = []\n"


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_what_mxnet_does_wrong_is_right_here(defect: Defect):
    assert raised(execute(_IMPORTS.format("hybridgpu") + defect.reproduction)) is None


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_defects_excuse_programs_that_can_meet_them(defect: Defect):
    """An error of MXNet in any other program is a difference."""
    plain = Program(
        0, (Layer("dense", 1),), (0,), tuple(Action(kind, 0) for kind in ("step", "two calls", "autograd.grad"))
    )
    assert not re.search(defect.script, render(plain, MXNET))


@with_mxnet
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_mxnet_has_the_defect(mxnet, defect: Defect):
    said = raised(mxnet(_IMPORTS.format("mxnet") + defect.reproduction))
    assert said is not None and re.search(defect.ends or "AssertionError", said), said
