# SPDX-License-Identifier: Apache-2.0
"""Model zoo: names, shapes and structure of all architectures as in MXNet 1.9.1, and files of trained parameters."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from against_mxnet.recorded.record import draw

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import from_short
from hybridgpu.gluon.model_zoo import model_store, vision
from hybridgpu.symbol.lowering import lower_symbol

#: name -> digest of what MXNet 1.9.1 has: repr, full names with shapes and grad_req, structural names
MODELS = {
    "alexnet": "0835ede947cb365e",
    "densenet121": "ee416a5651445b2b",
    "densenet161": "b160edefbccbf738",
    "densenet169": "0d595f8d304b0014",
    "densenet201": "5d042be3a2e724dd",
    "inceptionv3": "7f0e6a43b1c37e70",
    "mobilenet1.0": "23ad110066c925d0",
    "mobilenet0.75": "d9b58b798728445b",
    "mobilenet0.5": "2fb3d83f941406d4",
    "mobilenet0.25": "0ab6caa8a6da36b7",
    "mobilenetv2_1.0": "2263051ce0a0f455",
    "mobilenetv2_0.75": "556a7f920ccee930",
    "mobilenetv2_0.5": "bc921a23322923b4",
    "mobilenetv2_0.25": "8bebf4d265575633",
    "resnet18_v1": "96be47e6c82cdfd1",
    "resnet34_v1": "f9c1ac29c83469a2",
    "resnet50_v1": "006bdfdfe823ebc2",
    "resnet101_v1": "06eab64d90f5c424",
    "resnet152_v1": "dff0355a2a28ea97",
    "resnet18_v2": "dd5a875be39101a3",
    "resnet34_v2": "77e568820a63e487",
    "resnet50_v2": "70570c8cb42a9b88",
    "resnet101_v2": "c7f3deade422f803",
    "resnet152_v2": "679ad5fc2023fbc5",
    "squeezenet1.0": "09a81c693645a1b5",
    "squeezenet1.1": "f10c327a721cadeb",
    "vgg11": "2bda3513932161c1",
    "vgg13": "d5b3c444d5803994",
    "vgg16": "5adc36319a359797",
    "vgg19": "674006a4afb3b891",
    "vgg11_bn": "7f5d2a4c5bc133ae",
    "vgg13_bn": "0df1ab2608d3f5aa",
    "vgg16_bn": "1221a52d4ea49eb9",
    "vgg19_bn": "39f5de8c1cf29033",
}


def digest(net):
    params = [[k, list(p.shape), p.grad_req] for k, p in net.collect_params().items()]
    text = json.dumps([repr(net), params, list(net._collect_params_with_prefix())])
    return hashlib.sha1(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", MODELS)
def test_structure(name):
    assert digest(vision.get_model(name)) == MODELS[name]


def test_all_of_them_are_there():
    assert set(vision._MODELS) == set(MODELS)


#: the least height and width that an architecture allows, for those that need more than 32
LEAST = {"alexnet": 63, "densenet": 221, "inceptionv3": 299, "squeezenet": 213}
EXHAUSTIVE = pytest.mark.exhaustive
#: the smallest of every family; the others take minutes together
FAMILIES = (
    "alexnet",
    "densenet121",
    "mobilenet0.25",
    "mobilenetv2_0.25",
    "resnet18_v1",
    "resnet18_v2",
    "squeezenet1.1",
    "vgg11_bn",
)


@pytest.mark.long_table
@pytest.mark.as_shipped
@pytest.mark.parametrize("name", [n if n in FAMILIES else pytest.param(n, marks=EXHAUSTIVE) for n in MODELS])
def test_eager_and_hybridized_agree(name):
    size = next((least for family, least in LEAST.items() if name.startswith(family)), 32)
    mx.random.seed(0)
    net = vision.get_model(name, classes=10)
    net.initialize(mx.init.Xavier())
    x = nd.array(draw((1, 3, size, size), 0))
    eager = net(x).asnumpy()
    assert eager.shape == (1, 10) and np.isfinite(eager).all()
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), eager, rtol=1e-3, atol=1e-4 * np.abs(eager).max())


def test_unknown_name():
    with pytest.raises(ValueError, match="Model foo is not supported. Available options are\n\talexnet\n\tdensenet121"):
        vision.get_model("foo")


@pytest.mark.long_table
@pytest.mark.unsanitized("measures how blocks share memory, which they do not there")
@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
@pytest.mark.parametrize("name", ["densenet121", "inceptionv3", "mobilenetv2_0.5", "resnet50_v2", "squeezenet1.1"])
def test_memory_plan(name, target):
    """Intermediate results take at most a tenth more than what lives at once at the fullest step."""
    symbol = vision.get_model(name)(mx.sym.var("data"))
    arguments, _, states = symbol.infer_shape(data=(1, 3, 299, 299))
    names = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    types = {n: tensor_type(tuple(s), from_short("f32")) for n, s in zip(names, [*arguments, *states], strict=True)}
    program = compile_graph(lower_symbol(symbol, types, False, name), target)
    assert 0 < program.peak_live_bytes <= program.arena_bytes <= 1.1 * program.peak_live_bytes


def test_missing_file_says_where_to_put_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"alexnet-44335d1f.params into {tmp_path}"):
        vision.alexnet(pretrained=True, root=str(tmp_path))
    with pytest.raises(ValueError, match="Pretrained model for foo is not available."):
        model_store.get_model_file("foo", root=str(tmp_path))


def test_default_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    assert model_store.default_root() == str(tmp_path / "models")


def test_file_is_checked_and_loaded(monkeypatch, tmp_path):
    net = vision.get_model("mobilenet0.25", classes=3)
    net.initialize()
    net(nd.zeros((1, 3, 32, 32)))
    path = tmp_path / "mobilenet0.25-9f83e440.params"
    net.save_parameters(str(path))
    with pytest.raises(OSError, match="is not the file of MXNet's model zoo"):
        vision.get_model("mobilenet0.25", pretrained=True, root=str(tmp_path))
    true = hashlib.sha1(path.read_bytes()).hexdigest()
    monkeypatch.setitem(model_store._model_sha1, "mobilenet0.25", true)
    path.rename(tmp_path / f"mobilenet0.25-{true[:8]}.params")
    again = vision.get_model("mobilenet0.25", pretrained=True, root=str(tmp_path), classes=3)
    for ours, theirs in zip(again.collect_params().values(), net.collect_params().values(), strict=True):
        np.testing.assert_array_equal(ours.data().asnumpy(), theirs.data().asnumpy())
    model_store.purge(str(tmp_path))
    assert not list(tmp_path.iterdir())
