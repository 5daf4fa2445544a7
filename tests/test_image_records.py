# SPDX-License-Identifier: Apache-2.0
"""mx.io.ImageRecordIter. Orders, sizes and normalisation were recorded from MXNet 1.9.1."""

from __future__ import annotations

import colorsys
import random

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import recordio
from hybridgpu.base import MXNetError
from hybridgpu.io.formats.recordio import record_offsets

SIZES = [(6, 9), (7, 7), (5, 8), (9, 6), (6, 6), (8, 8), (7, 5)]


def picture(k):
    h, w = SIZES[k]
    return np.add.outer(np.arange(h) * 3, np.arange(w))[..., None] + np.array([0, 50, 100]) + k


@pytest.fixture
def records(tmp_path):
    file = recordio.MXRecordIO(str(tmp_path / "all.rec"), "w")
    for k in range(7):
        header = recordio.IRHeader(0, float(k), 10 + k, 0)
        file.write(recordio.pack_img(header, picture(k).astype("uint8")[..., ::-1], img_fmt=".npy"))
    file.close()
    return str(tmp_path / "all.rec")


def middle(k, h, w):
    rows, columns = SIZES[k]
    y, x = (rows - h) // 2, (columns - w) // 2
    return picture(k)[y : y + h, x : x + w].transpose(2, 0, 1)


def read(it, epochs=2):
    found = []
    for _ in range(epochs):
        found.append([(b.pad, b.label[0].asnumpy().tolist()) for b in it])
        it.reset()
    return found


@pytest.mark.parametrize(
    "kwargs, epochs",
    [
        ({}, [[(0, [0, 1, 2]), (0, [3, 4, 5]), (2, [6, 0, 1])], [(0, [2, 3, 4]), (1, [5, 6, 0])]]),
        ({"round_batch": False}, [[(0, [0, 1, 2]), (0, [3, 4, 5]), (2, [6, 4, 5])]] * 2),
        ({"num_parts": 2, "part_index": 0}, [[(0, [0, 1, 2])]] * 2),
    ],
)
def test_order(records, kwargs, epochs):
    it = mx.io.ImageRecordIter(path_imgrec=records, data_shape=(3, 5, 5), batch_size=3, preprocess_threads=2, **kwargs)
    assert [d[:] for d in it.provide_data] == [("data", (3, 3, 5, 5))]
    assert [d[:] for d in it.provide_label] == [("softmax_label", (3,))]
    assert read(it) == epochs


def test_pixels(records):
    it = mx.io.ImageRecordIter(records, (3, 5, 4), 7, data_name="x", label_name="y")
    batch = it.next()
    assert it.provide_data[0].name == "x" and it.provide_label[0].name == "y"
    assert batch.data[0].dtype == np.float32
    for k, got in enumerate(batch.data[0].asnumpy()):
        np.testing.assert_array_equal(got, middle(k, 5, 4))


def test_normalisation_and_types(records):
    options = {"mean_r": 10, "mean_g": 20, "std_r": 2, "std_b": 4, "scale": 0.5}
    (got,) = mx.io.ImageRecordIter(records, (3, 5, 5), 7, **options).next().data
    expected = (middle(0, 5, 5) - np.array([10, 20, 0])[:, None, None]) * 0.5 / np.array([2, 1, 4])[:, None, None]
    np.testing.assert_allclose(got.asnumpy()[0], expected, rtol=1e-6)
    (got,) = mx.io.ImageRecordIter(records, (3, 5, 5), 7, dtype="uint8").next().data
    assert got.dtype == np.uint8
    np.testing.assert_array_equal(got.asnumpy()[4], middle(4, 5, 5))
    (got,) = mx.io.ImageRecordIter(records, (3, 5, 5), 7, dtype="int8", mean_r=128, mean_g=128, mean_b=128).next().data
    assert got.dtype == np.int8
    np.testing.assert_array_equal(got.asnumpy()[4], middle(4, 5, 5) - 128)


@pytest.mark.parametrize(
    "options, shape",
    [
        ({"resize": 12}, (3, 10, 10)),
        ({}, (3, 20, 30)),  # enlarged
        ({"random_resized_crop": True, "min_random_area": 0.3, "rand_mirror": True}, (3, 4, 5)),
        ({"rand_crop": True, "brightness": 0.2, "contrast": 0.2, "saturation": 0.2, "pca_noise": 0.1}, (3, 4, 5)),
    ],
)
def test_changes_of_size_and_colour(records, options, shape):
    (got,) = mx.io.ImageRecordIter(records, shape, 7, **options).next().data
    assert got.shape == (7, *shape) and np.isfinite(got.asnumpy()).all()
    assert len({v.tobytes() for v in got.asnumpy()}) == 7


@pytest.mark.parametrize(
    ("shape", "options", "sums"),
    [  # recorded: the sums of the first three pictures, and the first row of the first
        ((3, 9, 9), {"pad": 2}, [30618, 33741, 38745, 255 * 9]),
        ((3, 5, 5), {"pad": 2, "fill_value": 7}, [4500, 4725, 4575, 20]),
        ((3, 7, 14), {"pad": 3, "fill_value": 9}, [11151, 10673, 8946, 9 * 14]),
    ],
)
def test_frame(records, shape, options, sums):
    got = mx.io.ImageRecordIter(records, shape, 3, **options).next().data[0].asnumpy()
    assert [*got.sum((1, 2, 3)), got[0, 0, 0].sum()] == sums


@pytest.mark.parametrize(
    "reach", [{"random_h": 36}, {"random_s": 50}, {"random_l": 50}, {"random_h": 90, "random_s": 255, "random_l": 255}]
)
def test_changes_of_hue_lightness_and_saturation(records, monkeypatch, reach):
    monkeypatch.setattr(random, "uniform", lambda low, high: high)
    got = mx.io.ImageRecordIter(records, (3, 5, 5), 7, **reach).next().data[0].asnumpy()[0]
    for pixel, before in zip(got.reshape(3, -1).T, middle(0, 5, 5).reshape(3, -1).T, strict=True):
        reaches = (reach.get("random_h", 0) / 180, reach.get("random_l", 0) / 255, reach.get("random_s", 0) / 255)
        moved = np.clip(np.add(colorsys.rgb_to_hls(*(before / 255)), reaches), 0, 1)
        np.testing.assert_allclose(pixel, np.multiply(colorsys.hls_to_rgb(*moved), 255), atol=1e-3)


def test_mirror_and_random_crop(records):
    (got,) = mx.io.ImageRecordIter(records, (3, 5, 5), 7, mirror=True).next().data
    np.testing.assert_array_equal(got.asnumpy()[0], middle(0, 5, 5)[:, :, ::-1])
    corners = set()
    for seed in range(20):
        random.seed(seed)
        (got,) = mx.io.ImageRecordIter(records, (3, 5, 5), 7, rand_crop=True).next().data
        corner = int(got.asnumpy()[0, 0, 0, 0])
        corners.add(corner)
    assert corners <= {3 * y + x for y in range(2) for x in range(5)} and len(corners) > 4


def test_shuffling(records):
    def orders(seed):
        it = mx.io.ImageRecordIter(records, (3, 5, 5), 7, shuffle=True, seed=seed)
        return [labels for epoch in read(it, 3) for _, labels in epoch]

    first = orders(1)
    assert first == orders(1) != orders(2)
    assert all(sorted(labels) == list(range(7)) for labels in first) and len(set(map(tuple, first))) == 3


def test_several_labels_and_lists(tmp_path, records):
    (tmp_path / "two.lst").write_text("".join(f"{10 + k}\t{k}\t{-k}\tx.png\n" for k in range(7)))
    it = mx.io.ImageRecordIter(records, (3, 5, 5), 7, label_width=2, path_imglist=str(tmp_path / "two.lst"))
    assert it.provide_label[0].shape == (7, 2)
    assert it.next().label[0].asnumpy().tolist() == [[k, -k] for k in range(7)]
    with pytest.raises(MXNetError, match="record 10 has 1 labels, not label_width=2"):
        mx.io.ImageRecordIter(records, (3, 5, 5), 7, label_width=2).next()
    (tmp_path / "other.lst").write_text("1\t2\tx.png\n")
    with pytest.raises(MXNetError, match="fail to find imagelabel for id 10"):
        mx.io.ImageRecordIter(records, (3, 5, 5), 7, path_imglist=str(tmp_path / "other.lst")).next()


@pytest.mark.parametrize(
    "kwargs, text",
    [
        ({"path_imgrec": "nowhere.rec"}, 'Open "nowhere.rec"'),
        ({"data_shape": (4, 5, 5)}, "1 or 3 channels, not 4"),
        ({"dtype": "float64"}, "float32, uint8 and int8, not float64"),
        ({"data_shape": (1, 5, 5), "random_l": 3}, "data_shape must have 3 channels"),
        ({"part_index": 2, "num_parts": 2}, "part_index must be between 0 and 1, got 2"),
        ({"max_rotate_angle": 10}, "the argument max_rotate_angle=10 is not there\nWrite the change as an augmenter"),
        ({"misspelt": 1}, "the argument misspelt=1 is not there"),
        ({"batch_size": 8}, "number of input must be bigger than batch size"),
    ],
)
def test_errors(records, kwargs, text):
    with pytest.raises(MXNetError, match=text):
        mx.io.ImageRecordIter(**{"path_imgrec": records, "data_shape": (3, 5, 5), "batch_size": 2, **kwargs})


def test_grey_pictures(tmp_path):
    file = recordio.MXRecordIO(str(tmp_path / "grey.rec"), "w")
    file.write(recordio.pack_img((0, 1.0, 0, 0), np.arange(20, dtype="uint8").reshape(4, 5), img_fmt=".npy"))
    file.close()
    (got,) = (
        mx.io.ImageRecordIter(str(tmp_path / "grey.rec"), (1, 4, 5), 1, max_rotate_angle=0, verbose=False).next().data
    )
    assert got.asnumpy().ravel().tolist() == list(range(20))


def test_offsets_of_records(tmp_path):
    magic = (0xCED7230A).to_bytes(4, "little")
    values = [b"", b"abc", b"1234" + magic + b"more" + magic + b"x", b"y" * 9]
    file = recordio.MXRecordIO(str(tmp_path / "f.rec"), "w")
    for value in values:
        file.write(value)
    file.close()
    raw = (tmp_path / "f.rec").read_bytes()
    with open(tmp_path / "f.rec", "rb") as f:
        offsets = record_offsets(f, len(raw), "f")
    reader = recordio.MXRecordIO(str(tmp_path / "f.rec"), "r")
    for at, value in zip(offsets, values, strict=True):
        reader._hg_file.seek(at)
        assert reader.read() == value
    reader.close()
    for broken in (raw[:-4], raw[:5], b"\0" + raw[1:], raw[offsets[2] + 16 :]):
        (tmp_path / "broken").write_bytes(broken)
        with open(tmp_path / "broken", "rb") as f, pytest.raises(MXNetError, match="Invalid record at offset"):
            record_offsets(f, len(broken), "broken")
