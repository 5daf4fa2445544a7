# SPDX-License-Identifier: Apache-2.0
"""mx.image: augmenters, rotation, frames, ImageIter. Numbers and orders were recorded from MXNet 1.9.1."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from hybridgpu import image, nd, recordio
from hybridgpu.base import MXNetError

PICTURE = (np.arange(90) * 7 % 256).reshape(5, 6, 3).astype("float32")
AXES = np.eye(3) + 0.1

# name: arguments, shape, pixel (1, 1), mean, each with both random generators seeded with 3
AUGMENTERS = {
    "ResizeAug": ((4, 1), (4, 4, 3), [114.0, 121.0, 128.0], 113.5),
    "ForceResizeAug": (((3, 2), 1), (2, 3, 3), [142.0, 149.0, 156.0], 155.056),
    "RandomCropAug": (((4, 3), 1), (3, 4, 3), [143.0, 150.0, 157.0], 96.5),
    "CenterCropAug": (((4, 3), 1), (3, 4, 3), [38.0, 45.0, 52.0], 140.833),
    "RandomSizedCropAug": (((4, 3), 0.3, (0.8, 1.2), 1), (3, 4, 3), [101.0, 108.0, 115.0], 118.5),
    "BrightnessJitterAug": ((0.4,), (5, 6, 3), [116.18, 121.72, 127.25], 91.077),
    "ContrastJitterAug": ((0.4,), (5, 6, 3), [140.4, 145.93, 151.47], 115.293),
    "SaturationJitterAug": ((0.4,), (5, 6, 3), [148.2, 153.73, 159.26], 115.293),
    "HueJitterAug": ((0.4,), (5, 6, 3), [150.94, 151.2, 165.09], 118.409),
    "ColorJitterAug": ((0.1, 0.2, 0.3), (5, 6, 3), [148.67, 155.9, 163.13], 118.157),
    "LightingAug": ((0.5, np.array([55.46, 4.794, 1.148]), AXES), (5, 6, 3), [201.67, 160.12, 166.13], 137.203),
    "ColorNormalizeAug": ((np.array([1.0, 2, 3]), np.array([2.0, 4, 8])), (5, 6, 3), [73.0, 38.0, 19.75], 33.354),
    "RandomGrayAug": ((0.9,), (5, 6, 3), [153.02, 153.02, 153.02], 115.448),
    "HorizontalFlipAug": ((0.5,), (5, 6, 3), [210.0, 217.0, 224.0], 115.233),
}


@pytest.mark.parametrize("name", AUGMENTERS)
def test_augmenters(name):
    arguments, shape, pixel, mean = AUGMENTERS[name]
    change = getattr(image, name)(*arguments)
    random.seed(3)
    np.random.seed(3)
    out = change(nd.array(PICTURE)).asnumpy()
    assert out.shape == shape
    np.testing.assert_allclose(out[1, 1], pixel, atol=0.01)
    assert np.abs(out).mean() == pytest.approx(mean, abs=1e-3)


@pytest.mark.parametrize(
    "change, text",
    [
        (image.ResizeAug(4, 1), '["resizeaug", {"size": 4, "interp": 1}]'),
        (image.CastAug(), '["castaug", {"type": "float32"}]'),
        (image.LightingAug(0.5, np.ones(3), np.eye(1)), '["lightingaug", {"alphastd": 0.5, "eigval": [1.0, 1.0, 1.0], "eigvec": [[1.0]]}]'),
        (image.ColorNormalizeAug(nd.array([1.0]), None), '["colornormalizeaug", {"mean": [1.0], "std": null}]'),
        (image.ColorJitterAug(0.5, 0, 0), ["colorjitteraug", ['["brightnessjitteraug", {"brightness": 0.5}]']]),
        (image.SequentialAug([image.RandomGrayAug(0.5)]), ["sequentialaug", ['["randomgrayaug", {"p": 0.5}]']]),
    ],
)  # fmt: skip
def test_descriptions(change, text):
    assert change.dumps() == text
    assert not isinstance(text, str) or json.loads(text)


def test_several_augmenters():
    x = nd.array(PICTURE)
    chain = image.SequentialAug([image.CastAug("float64"), image.HorizontalFlipAug(1)])
    assert chain(x).dtype == np.float64
    np.testing.assert_array_equal(chain(x).asnumpy(), PICTURE[:, ::-1])
    orders = set()
    for k in range(20):
        random.seed(k)
        seen = []

        class Note(image.Augmenter):
            def __init__(self, name):
                super().__init__()
                self.name = name

            def __call__(self, src):
                seen.append(self.name)
                return src

        image.RandomOrderAug([Note("a"), Note("b")])(x)
        orders.add("".join(seen))
    assert orders == {"ab", "ba"}
    with pytest.raises(NotImplementedError, match="Must override implementation"):
        image.Augmenter()(x)


@pytest.mark.parametrize(
    "kwargs, names",
    [
        ({}, "CenterCrop Cast"),
        ({"resize": 3, "rand_crop": True}, "Resize RandomCrop Cast"),
        ({"rand_crop": True, "rand_resize": True, "rand_mirror": True}, "RandomSizedCrop HorizontalFlip Cast"),
        ({"hue": 1, "contrast": 1, "pca_noise": 1, "rand_gray": 1}, "CenterCrop Cast ColorJitter HueJitter Lighting RandomGray"),
        ({"mean": True}, "CenterCrop Cast ColorNormalize"),
        ({"std": np.ones(3)}, "CenterCrop Cast ColorNormalize"),
    ],
)  # fmt: skip
def test_create_augmenter(kwargs, names):
    made = image.CreateAugmenter((3, 2, 4), **kwargs)
    assert [type(m).__name__ for m in made] == [f"{n}Aug" for n in names.split()]
    x = nd.array(PICTURE, dtype="uint8")
    for change in made:
        x = change(x)
    assert x.shape == (2, 4, 3) and x.dtype == np.float32


@pytest.mark.parametrize("kwargs", [{"rand_resize": True}, {"mean": 3}, {"std": np.ones(2)}])
def test_create_augmenter_errors(kwargs):
    with pytest.raises(AssertionError):
        image.CreateAugmenter((3, 2, 4), **kwargs)


# -- turning and framing

ROTATED = {
    (30, False, False): [
        [0.2, 1.32, 3.75, 7.12, 5.18],
        [0.85, 4.22, 7.58, 10.95, 14.32],
        [4.68, 8.05, 11.42, 14.78, 18.15],
        [4.66, 11.88, 15.25, 12.0, 3.61],
    ],
    (30, True, False): [
        [1.29, 3.39, 5.65, 7.9, 10.16],
        [3.7, 5.96, 8.22, 10.47, 12.73],
        [6.27, 8.53, 10.78, 13.04, 15.3],
        [8.84, 11.1, 13.35, 15.61, 16.92],
    ],
    (-30, False, True): [
        [0.0, 0.91, 0.5, 0.0, 0.0],
        [0.52, 8.34, 5.9, 3.46, 1.15],
        [4.31, 15.54, 13.1, 10.66, 0.33],
        [0.0, 0.0, 10.2, 10.31, 0.0],
    ],
}


@pytest.mark.parametrize("arguments", ROTATED)
def test_imrotate(arguments):
    x = nd.array(np.arange(20, dtype="float32").reshape(1, 4, 5))
    np.testing.assert_allclose(image.imrotate(x, *arguments).asnumpy()[0], ROTATED[arguments], atol=0.01)
    angle, *zoom = arguments
    both = image.imrotate(nd.stack(x, x), nd.array([0, angle]), *zoom).asnumpy()
    np.testing.assert_allclose(both[1, 0], ROTATED[arguments], atol=0.01)
    np.testing.assert_allclose(
        image.imrotate(nd.stack(x, x), angle, *zoom).asnumpy()[0, 0], ROTATED[arguments], atol=0.01
    )


def test_random_rotate():
    x = nd.random.uniform(shape=(2, 3, 6, 6))
    np.random.seed(3)
    angles = np.random.uniform(-20, 20, size=2)
    np.random.seed(3)
    expected = image.imrotate(x, nd.array(angles)).asnumpy()
    np.testing.assert_allclose(image.random_rotate(x, (-20, 20)).asnumpy(), expected, atol=1e-5)
    np.testing.assert_allclose(
        image.random_rotate(x[0], (5, 5)).asnumpy(), image.imrotate(x[0], 5).asnumpy(), atol=1e-5
    )


@pytest.mark.parametrize(
    "src, arguments, error, text",
    [
        (nd.ones((1, 3, 3)), (3, True, True), ValueError, "`zoom_in` and `zoom_out` cannot be both True"),
        (nd.ones((1, 3, 3), dtype="uint8"), (3,), TypeError, "Only `float32` images are supported"),
        (nd.ones((1, 3, 3)), (nd.array([3]),), TypeError, "the rotation angle is required to be a scalar"),
        (nd.ones((3, 3)), (3,), ValueError, "Only 3D and 4D are supported"),
        (nd.ones((2, 1, 3, 3)), (nd.ones((3,)),), ValueError, "must be equal to the number of rotation angles"),
    ],
)
def test_imrotate_errors(src, arguments, error, text):
    with pytest.raises(error, match=text):
        image.imrotate(src, *arguments)


@pytest.mark.parametrize(
    "kind, row", [(1, "aaabcdddd"), (2, "baabcddcb"), (3, "cdabcdabc"), (4, "cbabcdcba"), (0, "..abcd...")]
)
def test_copy_make_border(kind, row):
    x = nd.array([[[ord(c), 1] for c in "abcd"]] * 2, dtype="uint8")
    out = image.copyMakeBorder(x, 0, 1, 2, 3, type=kind, values=[ord("."), 9])
    assert out.dtype == np.uint8 and out.shape == (3, 9, 2)
    assert bytes(out.asnumpy()[0, :, 0]).decode() == row
    assert (out.asnumpy()[2, :, 1] == (9 if kind == 0 else 1)).all()
    given = nd.zeros((3, 9, 2), dtype="uint8")
    assert image.copyMakeBorder(x, 0, 1, 2, 3, kind, values=[ord("."), 9], out=given) is given
    np.testing.assert_array_equal(given.asnumpy(), out.asnumpy())
    assert (image.copyMakeBorder(x, 1, 0, 0, 0, value=5).asnumpy()[0] == 5).all()
    with pytest.raises(MXNetError, match="border type 5 is not there"):
        image.copyMakeBorder(x, 1, 1, 1, 1, 5)


def test_resizing_into_an_array():
    x, given = nd.array(PICTURE), nd.zeros((2, 3, 3))
    assert image.imresize(x, 3, 2, out=given) is given
    np.testing.assert_array_equal(given.asnumpy(), image.imresize(x, 3, 2).asnumpy())


@pytest.mark.parametrize(
    "old, new, expected",
    [
        (5, 3, [0, 1, 3]),
        (26, 10, [0, 2, 5, 7, 10, 12, 15, 18, 20, 23]),  # 5 * 2.6 is a little less than 13 in OpenCV
        (26, 20, [0, 1, 2, 3, 5, 6, 7, 9, 10, 11, 12, 14, 15, 16, 18, 19, 20, 22, 23, 24]),
    ],
)
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
def test_nearest_pixels(old, new, expected, dtype):
    out = image.imresize(nd.arange(old, dtype=dtype).reshape((1, old, 1)), new, 1, 0)
    assert out.asnumpy()[0, :, 0].tolist() == expected


# -- records of pictures


@pytest.mark.parametrize("form, exact", [(".npy", True), (".png", True), (".jpg", False), (".JPEG", False)])
@pytest.mark.parametrize("shape", [(8, 9, 3), (8, 9)], ids=["colours", "grey"])
def test_pack_img(form, exact, shape):
    if form != ".npy":
        pytest.importorskip("PIL")
    picture = np.add.outer(np.arange(8), np.arange(9)).astype("uint8") * 4
    picture = np.stack([picture, picture + 60, picture + 120], axis=-1) if len(shape) == 3 else picture
    record = recordio.pack_img(recordio.IRHeader(0, [1.0, 2.0], 5, 0), picture, img_fmt=form)
    header, out = recordio.unpack_img(record)
    assert header.label.tolist() == [1, 2] and header.id == 5
    assert out.shape == shape and out.dtype == np.uint8
    assert np.abs(out.astype(int) - picture).max() <= (0 if exact else 12)
    rgb = image.imdecode(recordio.unpack(record)[1], flag=-1).asnumpy()  # mx.image has red first
    np.testing.assert_array_equal(rgb[..., ::-1] if len(shape) == 3 else rgb[..., 0], out)


def test_unknown_forms():
    with pytest.raises(MXNetError, match="failed to encode image: .gif is no known form"):
        recordio.pack_img((0, 1.0, 0, 0), np.zeros((2, 2), "uint8"), img_fmt=".gif")


# -- iterators: seven pictures, three a batch; the k-th picture is grey k

THREE_PASSES = {
    ("pad", False): [(0, [0, 1, 2]), (0, [3, 4, 5]), (2, [6, 0, 1])] * 3,
    ("pad", True): [
        (0, [6, 3, 1]), (0, [0, 5, 2]), (2, [4, 6, 3]), (0, [0, 1, 5]), (0, [4, 3, 6]), (2, [2, 0, 1]), (0, [6, 3, 5]),
        (0, [0, 4, 1]), (2, [2, 6, 3]),
    ],
    ("discard", False): [(0, [0, 1, 2]), (0, [3, 4, 5])] * 3,
    ("discard", True): [
        (0, [6, 3, 1]), (0, [0, 5, 2]), (0, [0, 1, 5]), (0, [4, 3, 6]), (0, [6, 3, 5]), (0, [0, 4, 1]),
    ],
    ("roll_over", False): [
        (0, [0, 1, 2]), (0, [3, 4, 5]), (2, [6, 0, 1]), (0, [2, 3, 4]), (1, [5, 6, 0]), (0, [1, 2, 3]), (0, [4, 5, 6]),
    ],
    ("roll_over", True): [
        (0, [6, 3, 1]), (0, [0, 5, 2]), (2, [4, 0, 1]), (0, [5, 4, 3]), (1, [6, 2, 6]), (0, [3, 5, 0]), (0, [4, 1, 2]),
    ],
}  # fmt: skip


@pytest.fixture
def files(tmp_path):
    for k in range(7):
        np.save(tmp_path / f"{k}.npy", np.full((6 + k, 8, 3), k, "uint8"))
    records = recordio.MXIndexedRecordIO(str(tmp_path / "all.idx"), str(tmp_path / "all.rec"), "w")
    for k in range(7):
        header = recordio.IRHeader(0, float(k), k, 0)
        records.write_idx(k, recordio.pack(header, (tmp_path / f"{k}.npy").read_bytes()))
    records.close()
    (tmp_path / "all.lst").write_text("".join(f"{10 + k}\t{k}\t{k}.npy\n" for k in range(7)))
    return tmp_path


def source(files, kind):
    """Arguments of an ImageIter."""
    return {
        "list": {"imglist": [[float(k), f"{k}.npy"] for k in range(7)], "path_root": str(files)},
        "file": {"path_imglist": str(files / "all.lst"), "path_root": str(files), "dtype": "int32"},
        "records": {"path_imgrec": str(files / "all.rec")},
        "indexed": {"path_imgrec": str(files / "all.rec"), "path_imgidx": str(files / "all.idx")},
    }[kind]


def passes(it, count=3):
    found = []
    for _ in range(count):
        for batch in it:
            data, label = batch.data[0].asnumpy(), batch.label[0].asnumpy()
            assert data.shape == (it.batch_size, 3, 4, 5) and data.dtype == np.float32
            np.testing.assert_array_equal(data.min(axis=(1, 2, 3)), label)
            np.testing.assert_array_equal(data.max(axis=(1, 2, 3)), label)
            found.append((batch.pad, label.tolist()))
        it.reset()
    return found


@pytest.mark.parametrize("kind", ["list", "file", "records", "indexed"])
@pytest.mark.parametrize("last, shuffle", THREE_PASSES)
def test_image_iter(files, kind, last, shuffle):
    if kind == "records" and shuffle:
        with pytest.raises(AssertionError, match="path_imgidx must be given to shuffle records"):
            image.ImageIter(3, (3, 4, 5), shuffle=True, **source(files, kind))
        return
    random.seed(5)
    it = image.ImageIter(3, (3, 4, 5), shuffle=shuffle, last_batch_handle=last, **source(files, kind))
    assert it.provide_data == [("data", (3, 3, 4, 5))] and it.provide_label == [("softmax_label", (3,))]
    assert passes(it) == THREE_PASSES[last, shuffle]


@pytest.mark.parametrize("entry", [lambda k: [k, 2.0, f"{k}.npy"], lambda k: [[k, 2.0], f"{k}.npy"]])
def test_several_labels(files, entry):
    it = image.ImageIter(7, (3, 4, 5), 2, imglist=[entry(k) for k in range(7)], path_root=str(files))
    assert it.provide_label == [("softmax_label", (7, 2))]
    assert it.next().label[0].asnumpy().tolist() == [[k, 2] for k in range(7)]


def test_parts_and_hard_reset(files):
    it = image.ImageIter(2, (3, 4, 5), part_index=1, num_parts=2, **source(files, "indexed"))
    assert passes(it, 1) == [(0, [3, 4]), (1, [5, 3])]
    it = image.ImageIter(3, (3, 4, 5), last_batch_handle="roll_over", **source(files, "list"))
    assert passes(it, 1) == [(0, [0, 1, 2]), (0, [3, 4, 5])]
    it.hard_reset()
    assert it.next().label[0].asnumpy().tolist() == [0, 1, 2]


def test_own_steps(files):
    class Own(image.ImageIter):
        def check_valid_image(self, data):
            if data.asnumpy().max() == 3:
                raise RuntimeError("no threes")

        def augmentation_transform(self, data):
            return super().augmentation_transform(data) * 2

    batch = Own(3, (3, 4, 5), aug_list=[image.ForceResizeAug((5, 4), 1), image.CastAug()], **source(files, "list"))
    got = [b.data[0].asnumpy()[:, 0, 0, 0].tolist() for b in batch]
    assert got == [[0, 2, 4], [8, 10, 12]]


@pytest.mark.parametrize(
    "kwargs, error, text",
    [
        ({}, AssertionError, "one of path_imgrec, path_imglist and imglist must be given"),
        ({"imglist": [], "dtype": "uint8"}, AssertionError, "uint8 label not supported"),
        ({"imglist": [], "data_shape": (3, 4)}, ValueError, "data_shape should have length 3, with dimensions CxHxW"),
        ({"imglist": [], "data_shape": (1, 4, 4)}, ValueError, "expects inputs to have 3 channels"),
        ({"imglist": [], "num_parts": 2, "part_index": 2}, AssertionError, "there are parts 0 to 1"),
    ],
)
def test_image_iter_errors(kwargs, error, text):
    with pytest.raises(error, match=text):
        image.ImageIter(3, **{"data_shape": (3, 4, 5), **kwargs})


def test_broken_pictures(files):
    (files / "bad.npy").write_bytes(b"\x93NUMPY")
    it = image.ImageIter(1, (3, 4, 5), imglist=[[0.0, "bad.npy"]], path_root=str(files))
    with pytest.raises(RuntimeError, match="Broken image filename: bad.npy, "):
        it.next()
    records = recordio.MXRecordIO(str(files / "bad.rec"), "w")
    records.write(recordio.pack(recordio.IRHeader(0, 1.0, 0, 0), b""))
    records.close()
    with pytest.raises(RuntimeError, match="Broken image index: 0, .*empty buffer"):
        image.ImageIter(1, (3, 4, 5), path_imgrec=str(files / "bad.rec")).next()
