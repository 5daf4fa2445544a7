# SPDX-License-Identifier: Apache-2.0
"""mx.image and records of pictures. Numbers were recorded from MXNet 1.9.1."""

from __future__ import annotations

import io
import logging
import random

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import gluon, image, nd
from hybridgpu.base import MXNetError

COLOURS = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)

BICUBIC = {
    (3, 2): [[6.67, 17.594, 34.74], [176.404, 225.406, 280.631]],
    (7, 4): [
        [-0.079, 0.265, 1.682, 4.0, 7.047, 12.464, 16.551],
        [24.134, 30.017, 39.977, 49.0, 58.752, 72.711, 82.338],
        [98.347, 109.77, 128.271, 144.0, 160.458, 182.959, 198.125],
        [222.56, 239.522, 266.566, 289.0, 312.163, 343.207, 363.913],
    ],
    (5, 6): [
        [-2.17, -2.038, 0.094, 4.226, 10.358],
        [5.469, 10.531, 17.594, 26.656, 37.719],
        [35.764, 48.894, 64.023, 81.153, 100.282],
        [78.819, 97.69, 118.56, 141.43, 166.301],
        [169.531, 196.469, 225.406, 256.344, 289.281],
        [235.851, 267.719, 301.587, 337.455, 375.323],
    ],
}


@pytest.mark.parametrize("size", BICUBIC)
def test_bicubic(size):
    x = nd.array(np.arange(20).reshape(4, 5, 1) ** 2)
    np.testing.assert_allclose(image.imresize(x, *size, 2).asnumpy()[..., 0], BICUBIC[size], atol=2e-3)
    layer = gluon.data.vision.transforms.Resize(size, interpolation=2)
    layer.hybridize()
    np.testing.assert_allclose(layer(x).asnumpy()[..., 0], BICUBIC[size], atol=2e-3)


BYTES = {
    (3, 2): [[64, 176, 78], [107, 93, 121]],
    (7, 6): [
        [0, 38, 86, 134, 182, 122, 17],
        [42, 80, 128, 176, 134, 92, 59],
        [98, 136, 172, 190, 88, 77, 115],
        [154, 192, 180, 79, 97, 133, 171],
        [85, 123, 135, 93, 141, 135, 102],
        [1, 39, 87, 135, 183, 123, 18],
    ],
    (5, 3): [[14, 81, 148, 173, 31], [126, 193, 135, 76, 143], [29, 96, 121, 188, 46]],
    (9, 4): [
        [0, 22, 60, 97, 134, 171, 181, 78, 17],
        [84, 106, 144, 181, 218, 116, 41, 79, 101],
        [168, 190, 228, 153, 51, 88, 125, 163, 185],
        [1, 23, 61, 98, 135, 172, 182, 79, 18],
    ],
}


@pytest.mark.parametrize("size", BYTES)
def test_bilinear_of_bytes_is_opencvs_to_the_last_bit(size):
    x = nd.array(np.arange(20).reshape(4, 5, 1) * 67 % 251, dtype="uint8")
    layer = gluon.data.vision.transforms.Resize(size)
    for hybridized in (False, True):
        layer.hybridize(hybridized)
        for found in (layer(x), layer(nd.stack(x, x))[1], image.imresize(x, *size)):
            assert found.dtype is np.uint8
            assert found.asnumpy()[..., 0].tolist() == BYTES[size]


def test_bicubic_of_bytes():
    x = nd.array(np.arange(20).reshape(4, 5, 1) * 97 % 256, dtype="uint8")
    found = image.imresize(x, 3, 2, 2)
    assert found.dtype is np.uint8
    assert np.abs(found.asnumpy()[..., 0].astype(int) - [[102, 183, 73], [130, 124, 126]]).max() <= 1


def test_bicubic_gradient():
    """Resizing is linear: its gradient is that of the sum of all pixels with their weights."""
    rng = np.random.default_rng(0)
    x, head, step = (nd.array(rng.normal(size=s)) for s in ((4, 5, 1), (6, 3, 1), (4, 5, 1)))
    x.attach_grad()
    with mx.autograd.record():
        y = image.imresize(x, 3, 6, 2)
    y.backward(head)
    expected = (image.imresize(step, 3, 6, 2) * head).sum().asscalar()
    assert (x.grad * step).sum().asscalar() == pytest.approx(expected, rel=1e-4)


def test_parts_of_a_picture():
    y = nd.array(COLOURS, dtype="uint8")
    assert [image.scale_down((5, 4), s) for s in ((10, 2), (3, 8), (2, 2))] == [(5, 1), (1, 4), (2, 2)]
    assert [image.resize_short(x, 2).shape for x in (y, y.transpose((1, 0, 2)))] == [(2, 2, 3)] * 2
    assert image.fixed_crop(y, 1, 1, 2, 3).asnumpy()[..., 0].tolist() == [[18, 21], [33, 36], [48, 51]]
    assert image.fixed_crop(y, 1, 1, 2, 3, (4, 6)).shape == (6, 4, 3)
    for size, place in (((3, 2), (1, 1, 3, 2)), ((10, 2), (0, 1, 5, 1))):
        part, found = image.center_crop(y, size)
        assert (found, part.shape) == (place, (*size[::-1], 3))
    np.testing.assert_array_equal(image.center_crop(y, (3, 2))[0].asnumpy(), COLOURS[1:3, 1:4])


@pytest.mark.parametrize(
    "crop",
    [
        lambda x: image.random_crop(x, (3, 2)),
        lambda x: image.random_crop(x, (8, 2), 1),
        lambda x: image.random_size_crop(x, (3, 2), 0.2, (0.5, 2)),
        lambda x: image.random_size_crop(x, (3, 2), (0.2, 0.3), (0.5, 2), interp=10),
        lambda x: image.random_size_crop(x, (3, 2), (4, 5), (1, 1), interp=9),  # never fits: the middle
    ],
)
def test_random_parts(crop):
    random.seed(0)
    x = nd.array(COLOURS, dtype="uint8")
    places = set()
    for _ in range(20):
        part, (left, top, width, height) = crop(x)
        assert 0 <= left <= left + width <= 5 and 0 <= top <= top + height <= 4 and part.shape[0] == 2
        if part.shape == (height, width, 3):
            np.testing.assert_array_equal(part.asnumpy(), COLOURS[top : top + height, left : left + width])
        places.add((left, top, width, height))
    assert len(places) > 1 or places == {(1, 1, 3, 2)}


def test_color_normalize():
    x = nd.array(COLOURS)
    assert image.color_normalize(x, nd.array([1, 2, 3]), 2) is x
    np.testing.assert_allclose(x.asnumpy(), (COLOURS - np.array([1.0, 2, 3])) / 2)
    assert image.color_normalize(x, None) is x


def encoded(form, picture=COLOURS):
    buffer = io.BytesIO()
    if form == "npy":
        np.save(buffer, picture)
    else:
        pytest.importorskip("PIL.Image").fromarray(picture).save(buffer, form)
    return buffer.getvalue()


@pytest.mark.parametrize("form", ["npy", "png"])
def test_reading(form, tmp_path):
    data = encoded(form)
    (tmp_path / "a").write_bytes(data)
    for found in (
        image.imread(tmp_path / "a"), image.imdecode(data), image.imdecode(bytearray(data)),
        image.imdecode(np.frombuffer(data, np.uint8)), image.imdecode(nd.array(np.frombuffer(data, np.uint8), dtype="uint8")),
    ):  # fmt: skip
        assert found.dtype is np.uint8
        np.testing.assert_array_equal(found.asnumpy(), COLOURS)
    np.testing.assert_array_equal(mx.img.imdecode(data, to_rgb=False).asnumpy(), COLOURS[..., ::-1])
    if form == "png":
        assert image.imdecode(data, flag=0).shape == (4, 5, 1)


@pytest.mark.parametrize(
    ("pixels", "grey"),
    [
        (
            np.array([[[20, 210, 68], [255, 255, 255], [0, 0, 255]], [[255, 0, 0], [0, 255, 0], [9, 9, 9]]], np.uint8),
            [[136, 255, 29], [76, 149, 9]],
        ),
        (np.array([[0, 255, 256], [511, 33000, 65535]], np.uint16), [[0, 0, 1], [1, 128, 255]]),
    ],
    ids=["colours", "16 bits"],
)
def test_grey_of_png(pixels, grey):
    """libpng cuts off what follows the binary point, and the low byte of 16 bits."""
    data = encoded("png", pixels)
    assert image.imdecode(data, flag=0).asnumpy()[..., 0].tolist() == grey
    if pixels.ndim == 2:
        assert image.imdecode(data).asnumpy().tolist() == [[[v] * 3 for v in row] for row in grey]


def test_grey_of_jpeg_is_its_luma():
    pillow = pytest.importorskip("PIL.Image")
    data = encoded("jpeg", np.random.default_rng(0).integers(0, 256, (16, 24, 3), dtype=np.uint8))
    with pillow.open(io.BytesIO(data)) as picture:
        picture.draft("YCbCr", None)
        luma = np.asarray(picture)[..., 0]
    np.testing.assert_array_equal(image.imdecode(data, flag=0).asnumpy()[..., 0], luma)


def test_a_program_that_logs_its_debug_lines_gets_none_of_pillows(caplog, monkeypatch):
    picture = encoded("png")
    monkeypatch.setattr(logging.getLogger("PIL"), "level", logging.NOTSET)
    with caplog.at_level(logging.DEBUG):
        image.imdecode(picture)
    assert caplog.messages == []


def test_records_of_pictures(tmp_path):
    names = str(tmp_path / "a.idx"), str(tmp_path / "a.rec")
    writer = mx.recordio.MXIndexedRecordIO(*names, "w")
    for k in range(3):
        writer.write_idx(k, mx.recordio.pack((0, k + 0.5, k, 0), encoded("npy", COLOURS + np.uint8(k))))
    writer.write_idx(3, mx.recordio.pack((0, [1, 2], 3, 0), b"\x93NUMPY"))
    writer.close()
    found = gluon.data.vision.ImageRecordDataset(names[1])
    for k in range(3):
        picture, label = found[k]
        np.testing.assert_array_equal(picture.asnumpy(), COLOURS + k)
        assert label == k + 0.5
    loader = gluon.data.DataLoader(found.take(3), 3, num_workers=2)
    ((pictures, labels),) = list(loader)
    assert pictures.shape == (3, 4, 5, 3) and labels.asnumpy().tolist() == [0.5, 1.5, 2.5]
    assert gluon.data.vision.ImageRecordDataset(names[1], transform=lambda x, y: y)[1] == 1.5
    with pytest.raises(MXNetError, match="record 3 is no array file"):
        found[3]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: image.imread("nope.jpg"), MXNetError, "'nope.jpg' couldn't open file: No such file"),
        (lambda: image.imdecode(b""), MXNetError, "Input cannot be an empty buffer"),
        (lambda: image.imdecode("a"), ValueError, "buf must be of type bytes, bytearray or numpy.ndarray"),
        (lambda: image.fixed_crop(nd.ones((4, 4, 3)), 0, 0, 2, 2, (3, 3), 7), ValueError, "Unknown interp method 7"),
        (lambda: image.imresize(nd.ones((4, 4, 3)), 0, 2), MXNetError, "size must be one or two positive numbers"),
        (lambda: image.imresize(nd.ones((4, 4, 3)), 2, 2, 5), MXNetError, "interp must be one of .*, not 5"),
    ],
)
def test_wrong_use(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_a_file_that_is_no_picture():
    pytest.importorskip("PIL.Image")
    with pytest.raises(MXNetError, match="Decoding failed. Invalid image file."):
        image.imdecode(b"no picture")


def test_without_pillow(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(MXNetError, match="needs the package Pillow to be read\nInstall it"):
        image.imdecode(b"\x89PNG")
