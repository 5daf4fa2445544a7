# SPDX-License-Identifier: Apache-2.0
"""Wrong settings, flags and files: the class of error that MXNet has, and a text that says what is wrong with what."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.cache.disk_cache import default_store, reset_default_store
from hybridgpu.core import settings
from hybridgpu.gluon import nn

# -- settings

SWITCHES = {
    "HYBRIDGPU_CACHE": (settings.lasting_cache, True),
    "HYBRIDGPU_CUDNN": (settings.use_cudnn, True),
    "HYBRIDGPU_CUBLASLT": (settings.use_cublaslt, True),
    "HYBRIDGPU_TF32": (settings.tf32, None),
    "HYBRIDGPU_VERIFY": (settings.verifying, False),
}


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize(
    ("texts", "found"),
    [(("0", "false", "False", "no", "OFF", " 0 "), False), (("1", "true", "YES", "on"), True), (("", "  "), None)],
    ids=["off", "on", "default"],
)
def test_switches(monkeypatch, name, texts, found):
    read, default = SWITCHES[name]
    for text in texts:
        monkeypatch.setenv(name, text)
        assert read() is (default if found is None else found)


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_that_says_neither(monkeypatch, name):
    monkeypatch.setenv(name, "perhaps")
    with pytest.raises(mx.MXNetError, match=f"'perhaps', valid values are: {{'0', '1'}}, in {name}"):
        SWITCHES[name][0]()


def test_a_folder_for_the_switch(monkeypatch):
    monkeypatch.setenv("HYBRIDGPU_CACHE", "/folder")
    with pytest.raises(mx.MXNetError, match=r"in HYBRIDGPU_CACHE\nA folder belongs in HYBRIDGPU_CACHE_DIR\.$"):
        settings.lasting_cache()


def test_no_lasting_cache_in_words(monkeypatch, tmp_path):
    monkeypatch.setenv("HYBRIDGPU_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("HYBRIDGPU_CACHE", "no")
    reset_default_store()
    try:
        assert default_store().folder != tmp_path
    finally:
        reset_default_store()


@pytest.fixture
def unusable_cache(monkeypatch, tmp_path):
    place = tmp_path / "file"
    place.write_text("no folder")
    monkeypatch.setenv("HYBRIDGPU_CACHE_DIR", str(place))
    monkeypatch.setenv("HYBRIDGPU_CACHE", "1")
    reset_default_store()
    yield
    monkeypatch.undo()
    reset_default_store()


def a_cache_that_cannot_be_used():
    default_store().put("so", "0" * 64, b"code")


def a_size_that_is_none():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYBRIDGPU_CACHE_SIZE", "much")
        reset_default_store()
        default_store()


def a_rate_beside_a_schedule():
    schedule = mx.lr_scheduler.FactorScheduler(10, base_lr=0.5)
    mx.optimizer.create("adam", learning_rate=0.1, lr_scheduler=schedule)


def the_same_through_a_trainer():
    schedule = mx.lr_scheduler.FactorScheduler(10, base_lr=0.5)
    mx.gluon.Trainer({}, "sgd", {"learning_rate": 0.1, "lr_scheduler": schedule})


@pytest.mark.parametrize(
    "call", [a_cache_that_cannot_be_used, a_size_that_is_none, a_rate_beside_a_schedule, the_same_through_a_trainer]
)
def test_warnings_point_at_the_line_of_the_user(unusable_cache, call):
    with pytest.warns(Warning) as said:
        call()
    assert [w.filename for w in said] == [__file__] * len(said)


# -- hybridize


def dense():
    net = nn.Dense(2, in_units=3)
    net.initialize()
    return net


@pytest.mark.parametrize("flag", ["static_alloc", "static_shape", "background"])
@pytest.mark.parametrize("value", ["a", 2, None, ""])
def test_flags_that_are_neither(flag, value):
    net = dense()
    with pytest.raises(mx.MXNetError, match=f"Invalid Parameter format for {flag} expect boolean but value='{value}'"):
        net.hybridize(**{flag: value})
    assert not net._active


@pytest.mark.parametrize("flag", ["inline_limit", "forward_bulk_size", "backward_bulk_size"])
def test_sizes_that_are_none(flag):
    with pytest.raises(mx.MXNetError, match=rf"for {flag} expect int \(non-negative\) but value='a'"):
        dense().hybridize(**{flag: "a"})
    dense().hybridize(**{flag: "3"})


@pytest.mark.parametrize("value", [True, "True", 1, "1", "true"])
def test_flags_as_text(value, compiler):
    net = dense()
    net.hybridize(static_alloc=value, static_shape=value, background="0")
    assert net(nd.ones((1, 3))).shape == (1, 2)


def test_a_backend_that_is_not_there():
    net = nn.HybridSequential()
    net.add(dense(), dense())
    with pytest.warns(UserWarning, match="Error optimizing for backend 'x' cannot be found") as said:
        net.hybridize(backend="x")
    assert len(said) == 1 and said[0].filename == __file__
    with pytest.raises(AssertionError, match="expected a string"):
        net.hybridize(backend=3)
    net.hybridize(backend_opts={"a": 1})


@pytest.mark.parametrize(
    ("name", "hint"), [("static_aloc", "did you mean static_alloc?"), ("foo", "there are static_alloc,")]
)
def test_a_flag_that_is_not_there(name, hint):
    net = nn.HybridSequential()
    net.add(dense())
    with pytest.warns(UserWarning) as said:
        net.hybridize(**{name: True})
    assert [f"{w.message}".startswith(f"hybridize() has no flag {name}; {hint}") for w in said] == [True]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gluom", "has no attribute 'gluom'; did you mean gluon?"),
        ("relu", r"^module 'hybridgpu' has no attribute 'relu'\nWrite mx.nd.relu. \(test_error_messages.py:"),
        ("array", "Write mx.nd.array"),
        ("nothing_like_it", "has no attribute 'nothing_like_it'$"),
    ],
)
def test_names_that_are_not_there(name, text):
    with pytest.raises(AttributeError, match=text):
        getattr(mx, name)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("HYBRIDGPU_NUMERICS", "did you mean HYBRIDGPU_NUMERIC?"),
        ("HYBRIDGPU_CACHEDIR", "did you mean HYBRIDGPU_CACHE_DIR?"),
        ("HYBRIDGPU_SOMETHING", "there are HYBRIDGPU_CACHE, HYBRIDGPU_CACHE_DIR,"),
    ],
)
def test_variables_that_are_no_settings_are_said_once(monkeypatch, name, hint):
    monkeypatch.setattr(settings, "_looked", False)
    monkeypatch.setenv(name, "1")
    with pytest.warns(UserWarning) as said:
        for _ in range(2):
            settings.verifying()
            settings.debug_level()
    assert [f"{w.message}".startswith(f"hybridgpu: there is no setting {name}; {hint}") for w in said] == [True]
    assert said[0].filename == __file__


# -- files


def trained(tmp_path):
    parameter = mx.gluon.Parameter("w", shape=(2,))
    parameter.initialize()
    trainer = mx.gluon.Trainer([parameter], "sgd", {"momentum": 0.9})
    trainer.save_states(str(tmp_path / "whole"))
    return trainer


@pytest.mark.parametrize(
    ("part", "error"), [(0.0, EOFError), (0.5, pickle.UnpicklingError)], ids=["empty", "cut short"]
)
def test_states_that_are_not_whole(tmp_path, part, error):
    trainer = trained(tmp_path)
    data = (tmp_path / "whole").read_bytes()
    (tmp_path / "rest").write_bytes(data[: int(len(data) * part)])
    with pytest.raises(error, match=r"rest does not hold an optimizer's states, or not all of them: "):
        trainer.load_states(str(tmp_path / "rest"))
    store = mx.kv.create("local")
    store.set_optimizer(mx.optimizer.SGD())
    with pytest.raises(error, match="rest does not hold"):
        store.load_optimizer_states(str(tmp_path / "rest"))
    trainer.load_states(str(tmp_path / "whole"))


def test_an_empty_file_of_records(tmp_path):
    (tmp_path / "none.rec").touch()
    with pytest.raises(mx.MXNetError, match=r"matches the URI pattern .*none.rec\nThe file is empty: write records"):
        mx.io.ImageRecordIter(path_imgrec=str(tmp_path / "none.rec"), data_shape=(3, 8, 8), batch_size=1)


@pytest.mark.parametrize("text", ["", "header 3\n"], ids=["empty", "a header"])
@pytest.mark.filterwarnings("ignore:.*likely a header")
def test_a_file_of_vectors_without_any(tmp_path, text):
    file = tmp_path / "vectors.txt"
    file.write_text(text)
    with pytest.raises(
        ValueError, match=r"vectors.txt has no vectors: each line must be a token and at least two numbers"
    ):
        mx.contrib.text.embedding.CustomEmbedding(str(file))


PICTURE = nd.array(np.arange(192).reshape(8, 8, 3), dtype="uint8")


@pytest.mark.parametrize(
    "crop",
    [
        lambda: mx.image.fixed_crop(PICTURE, 0, 0, 0, 4),
        lambda: mx.image.fixed_crop(PICTURE, 2, 2, 3, 0, (4, 4)),
        lambda: mx.image.center_crop(PICTURE, (0, 0)),
        lambda: mx.image.random_size_crop(PICTURE, (4, 4), (0.0, 0.0), (0.9, 1.1)),
    ],
    ids=["no columns", "no rows", "of the centre", "no area"],
)
def test_a_part_without_pixels(crop):
    with pytest.raises(
        mx.MXNetError, match=r"a part of \d x \d pixels cannot be cut out\nAsk for a size of at least one"
    ):
        crop()


def test_bounds_of_a_ratio():
    with pytest.raises(ValueError, match=r"ratio has to be two positive numbers, .*not \(0.0, 1.1\)"):
        mx.image.random_size_crop(PICTURE, (4, 4), 0.1, (0.0, 1.1))


# -- numbers in words


@pytest.mark.parametrize(("number", "text"), [(0, "0 kernels"), (1, "1 kernel"), (2, "2 kernels")])
def test_counted(number, text):
    from hybridgpu.runtime.reports.explain import counted

    assert counted(number, "kernel") == text
