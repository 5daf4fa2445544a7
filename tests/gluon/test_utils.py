# SPDX-License-Identifier: Apache-2.0
"""gluon.utils: splitting, clipping, files."""

from __future__ import annotations

import hashlib
import re

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.gluon import utils


@pytest.mark.parametrize(
    ("shape", "parts", "axis", "even", "sizes"),
    [
        ((6, 2), 3, 0, True, [2, 2, 2]),
        ((5, 2), 2, 0, False, [3, 2]),
        ((8, 2), 3, 0, False, [3, 3, 2]),
        ((2, 5), 2, 1, False, [3, 2]),
        ((2, 4), 1, 1, True, [4]),
    ],
)
def test_split_data(shape, parts, axis, even, sizes):
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    slices = utils.split_data(nd.array(x), parts, axis, even)
    assert [s.shape[axis] for s in slices] == sizes
    np.testing.assert_array_equal(np.concatenate([s.asnumpy() for s in slices], axis), x)


def test_uneven_split_is_refused():
    text = "data with shape (5, 2) cannot be evenly split into 2 slices along axis 0. Use a batch size that's multiple of 2"
    with pytest.raises(ValueError, match=re.escape(text)):
        utils.split_data(nd.ones((5, 2)), 2)


def test_split_and_load():
    contexts = [mx.cpu(0), mx.cpu(1)]
    parts = utils.split_and_load(np.arange(6).reshape(6, 1), contexts)
    assert [p.context for p in parts] == contexts
    assert all(p.dtype == np.float32 and p.shape == (3, 1) for p in parts)
    (whole,) = utils.split_and_load([[1, 2], [3, 4]], [mx.cpu()])
    assert whole.shape == (2, 2)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(("limit", "factor"), [(1.0, 1 / 5), (100.0, 1.0)])
def test_clip_global_norm(check, limit, factor):
    arrays = [nd.array([[3.0]]), nd.array([0.0, 4.0], ctx=mx.cpu(1))]
    norm = utils.clip_global_norm(arrays, limit, check_isfinite=check)
    assert float(norm if check else norm.asscalar()) == 5
    assert check or norm.shape == (1,)
    np.testing.assert_allclose(arrays[0].asnumpy(), [[3 * factor]], rtol=1e-6)
    np.testing.assert_allclose(arrays[1].asnumpy(), [0, 4 * factor], rtol=1e-6)


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_clip_global_norm_of_np_arrays(shape):
    norm = np.sqrt(9 * np.prod(shape) + 16)
    with mx.util.np_shape():
        arrays = [mx.np.full(shape, 3.0), mx.np.array([4.0, 0.0])]
        assert utils.clip_global_norm(arrays, 1.0) == pytest.approx(norm)
    np.testing.assert_allclose(arrays[0].asnumpy(), np.full(shape, 3 / norm), rtol=1e-6)
    np.testing.assert_allclose(arrays[1].asnumpy(), [4 / norm, 0], rtol=1e-6)


def test_clip_global_norm_warns():
    with pytest.warns(UserWarning, match="nan or inf is detected. Clipping results will be undefined."):
        utils.clip_global_norm([nd.array([np.inf])], 1.0)


def test_files(tmp_path, capsys):
    source, text = tmp_path / "source.txt", b"some text"
    source.write_bytes(text)
    digest = hashlib.sha1(text).hexdigest()
    assert utils.check_sha1(str(source), digest) and not utils.check_sha1(str(source), "0")
    url = source.as_uri()
    folder = tmp_path / "folder"
    folder.mkdir()
    got = utils.download(url, str(folder), sha1_hash=digest)
    assert (folder / "source.txt").read_bytes() == text and got == str(folder / "source.txt")
    assert "Downloading" in capsys.readouterr().out
    utils.download(url, str(folder), sha1_hash=digest)  # it is there
    assert capsys.readouterr().out == ""
    with pytest.raises(UserWarning, match="the content hash does not match"):
        utils.download(url, str(tmp_path / "other"), sha1_hash="0")
    with pytest.raises(RuntimeError, match="Failed downloading url .*nothing.*\nPut the file at .*missing by hand"):
        utils.download((tmp_path / "nothing").as_uri(), str(tmp_path / "missing"), retries=1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "source.txt"]
    with pytest.raises(OSError, match="Moving downloaded temp file"):
        utils.replace_file(str(source), str(folder))
