# SPDX-License-Identifier: Apache-2.0
"""The public surface against that of MXNet 1.9.1: every name with its arguments, or one plain error about it."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache

import pytest
import surface

import hybridgpu as mx
from hybridgpu.hints.foreign_names import MXNET, decision, full_names

#: name and how its arguments differ -> why they may
DIFFERENT = {
    r".*\.hybrid_forward: no [ih]2[hr]_(weight|bias)": "parameters come by keyword, which the base collects",
    r".*\.Conv[123]D\w+Cell: .*=.*, not .*": "the same default, spelled once for all numbers of axes",
    r"rnn\.rnn_cell\.\w+: prefix=None, not .*": "the same default, of the class",
    r".*plot_network: node_attrs=None, not \{\}": "the same default",
    r".*\.ModulatedDeformableConvolution: op_name=.*": "without effect",
    r".*\.(BatchNorm_v1|IdentityAttachKLSparseReg): \w+ is not argument \d": "states can be given by position",
    r".*\.multi_(mp_)?adamw_update: no name": "arrays have none, and it is passed over",
    r"(image|image\.image|numpy_extension\.image)\.\w+: no \*arguments": "they have names",
    r"numpy\.ndarray\.(broadcast_like|diag|tostype): .*": "AttributeError, in MXNet too",
    r"numpy_extension\.(constraint_check: no x|nonzero: no a)": "the keyword of nd.npx, which is the operator's",
    r"numpy\.ndarray: .*": "made by functions, not of a handle to MXNet's library",
    r"symbol\.numpy\.random\.rayleigh: scale=1\.0, not 0\.0": "of arrays it is 1 in MXNet as well",
    r"symbol\.numpy\.zeros: dtype=None, not float32": "the same default, if none is set",
    r"executor\.Executor: .*|.*\.KVStore: .*|.*\.\w*NDArray: .*|.*\.Symbol: .*|io\.io\.MXDataIter: .*": "made by other "
    "functions, not of a handle to MXNet's library",
}  # fmt: skip


def about(path: str) -> list[str]:
    """What is other than in MXNet's module, in lines."""
    lines = [name for name in surface.missing(path) if decision(name) is None]
    if surface.module(path) is not None:
        lines += [f"{name}: {how}" for name, how in surface.different(path)]
    return lines


@pytest.mark.parametrize("path", surface.modules())
def test_every_name_is_there_with_its_arguments_or_has_a_decision(path):
    assert [line for line in about(path) if not any(re.fullmatch(p, line) for p in DIFFERENT)] == []


def test_every_reason_is_needed():
    lines = [line for path in surface.modules() for line in about(path)]
    assert [p for p in DIFFERENT if not any(re.fullmatch(p, line) for line in lines)] == []


@cache
def missing() -> set[str]:
    """Names of MXNet that are not there; found out when a test asks: every worker imports this file."""
    return {n for path in surface.modules() for n in surface.missing(path)} | set(surface.HIDDEN)


@pytest.mark.parametrize("entry", MXNET, ids=lambda entry: entry.names.split()[0])
def test_decisions_are_about_names_of_mxnet(entry):
    """A pattern that no name needs any more is to be taken out."""
    decided = [name for name in missing() if decision(name) is entry]
    for name in entry.names.split():
        assert any(
            fnmatchcase(".".join(path.split(".")[:k]), pattern)
            for pattern in full_names(name)
            for path in decided
            for k in range(1, path.count(".") + 2)
        ), name


@pytest.mark.parametrize("path", surface.modules())
def test_what_is_said_about_names_that_are_not_there(path):
    module = surface.module(path)
    if module is None:
        return
    for name in surface.surface()["modules"][path]:
        found = decision(f"{path}.{name}".lstrip("."))
        if found is not None and not surface.has(module, name):
            with pytest.raises(AttributeError) as caught:
                getattr(module, name)
            assert str(caught.value).startswith(
                f"module '{module.__name__}' has no attribute '{name}'\nIn MXNet it is "
            )
            with pytest.raises(ImportError, match="\nIn MXNet it is "):
                exec(f"from {module.__name__} import {name}", {})


def absent_members():
    """(class here, name) of what classes of MXNet have and a decision is about."""
    for path in surface.modules():
        found = surface.module(path)
        for name in sorted({*surface.surface()["modules"][path]}.intersection(dir(found))):
            if path and isinstance(getattr(found, name), type):
                for cls, member in surface.missing_members(path, name):
                    yield pytest.param(cls, member, id=f"{path}.{name}.{member}")


@pytest.mark.parametrize(("cls", "member"), list(absent_members()))
def test_what_is_said_about_members_of_classes(cls, member):
    """Of the class and of an object; a subclass may have the name."""
    owners = [(cls, f"type object '{cls.__name__}'")]
    if not issubclass(cls, mx.nd.NDArray):  # of which there are only dense ones
        made = mx.sym.var("x") if cls is mx.sym.Symbol else object.__new__(cls)
        owners.append((made, f"'{cls.__name__}' object"))
    for owner, called in owners:
        assert not hasattr(owner, member)
        with pytest.raises(AttributeError) as caught:
            getattr(owner, member)
        assert str(caught.value).startswith(f"{called} has no attribute '{member}'\nIn MXNet it is ")
    assert getattr(type("Own", (cls,), {member: 3}), member) == 3


#: modules that users look at -> names that only we have
LISTED = {
    "": "NotImplementedForSymbol TracingError Executor allow_tf32 compile_report get_num_threads gpu_memory_info hybridize install_as_mxnet num_gpus set_num_threads",
    "context": "map_gpus_to_cpu",
    "gluon.contrib.estimator": "EventHandler",
    "image": "copyMakeBorder",
    "name": "current",
    "ndarray": "hypot",
    "ndarray.contrib": "",
    "numpy": "bool bool_ finfo float16 float32 float64 int32 int64 int8 uint8",
    "numpy_extension": "cond foreach while_loop np_array np_shape set_np_shape use_np use_np_array use_np_shape",
    "optimizer": "GroupAdaGrad",
    "profiler": "scope start stop",
    "runtime": "compile_report",
    "test_utils": "find_max_violation",
    "symbol.random": "pdf_dirichlet pdf_exponential pdf_gamma pdf_generalized_negative_binomial pdf_negative_binomial "
    "pdf_normal pdf_poisson pdf_uniform",
    **dict.fromkeys(
        "autograd callback contrib contrib.amp contrib.text gluon gluon.data gluon.data.vision gluon.loss gluon.model_zoo "
        "gluon.nn gluon.rnn gluon.utils initializer io kvstore lr_scheduler metric model module monitor ndarray.image "
        "ndarray.linalg numpy.random operator random recordio rnn symbol symbol.contrib symbol.image symbol.linalg "
        "visualization".split(),
        "",
    ),
}
LISTED["ndarray.random"] = LISTED["symbol.random"]


@pytest.mark.parametrize("path", LISTED)
def test_what_dir_shows(path):
    """MXNet's names and a few of ours; none of the modules and helpers that a file imports."""
    module, recorded = surface.module(path), surface.surface()["modules"]
    shown = {name for name in dir(module) if not name.startswith("_")}
    public = {*recorded[path], *(recorded["numpy.fallback"] if path == "numpy" else ()), *LISTED[path].split()}
    assert shown - public == set(), "not MXNet's: names of our own stand in LISTED, the others begin with _"
    assert set(LISTED[path].split()) - shown == set(), "no longer there"
    made_here = {
        name for name, what in recorded[path].items() if what[0] in "fc" and surface.home(what[2:]).startswith(path)
    }
    assert {name for name in made_here - shown if surface.has(module, name)} == set(), "not shown"
    assert all(surface.has(module, name) for name in shown)
