# SPDX-License-Identifier: Apache-2.0
"""mx.image: augmenters of pictures with boxes, ImageDetIter. Numbers were recorded from MXNet 1.9.1."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hybridgpu import image, nd

PICTURE = (np.arange(40 * 50 * 3) * 7 % 251).reshape(40, 50, 3).astype("uint8")
BOXES = np.array([[1, 0.1, 0.2, 0.5, 0.6], [2, 0.4, 0.1, 0.9, 0.8], [3, 0.7, 0.7, 0.75, 0.72]])
SAME = ((40, 50, 3), 124.85, BOXES.tolist())
TWO_CROPS = ([0.1, 0.5], (0.75, 1.33), [(0.1, 1), (0.3, 0.8)], 0.3, 50, 0.3)

# name, arguments, seed, and then shape, mean and boxes
CHANGES = [
    ("DetHorizontalFlipAug", (0.5,), 1, (40, 50, 3), 124.85, [[1.0, 0.5, 0.2, 0.9, 0.6], [2.0, 0.1, 0.1, 0.6, 0.8], [3.0, 0.25, 0.7, 0.3, 0.72]]),
    ("DetHorizontalFlipAug", (0.5,), 2, *SAME),
    ("DetRandomCropAug", (), 1, (38, 31, 3), 124.99, [[1.0, 0.0, 0.211, 0.548, 0.632], [2.0, 0.387, 0.105, 1.0, 0.842], [3.0, 0.871, 0.737, 0.952, 0.758]]),
    ("DetRandomCropAug", (), 2, (36, 47, 3), 124.95, [[1.0, 0.106, 0.222, 0.532, 0.667], [2.0, 0.426, 0.111, 0.957, 0.889], [3.0, 0.745, 0.778, 0.798, 0.8]]),
    ("DetRandomCropAug", (0.7, (0.5, 2), (0.3, 0.9), 0.5, 20), 2, (26, 36, 3), 125.08, [[1.0, 0.0, 0.077, 0.417, 0.692], [2.0, 0.278, 0.0, 0.972, 1.0], [3.0, 0.694, 0.846, 0.764, 0.877]]),
    ("DetRandomCropAug", (0, 1.0, 0.4), 1, *SAME),
    ("DetRandomCropAug", (1.0,), 1, *SAME),
    ("DetRandomPadAug", (), 1, (85, 70, 3), 126.94, [[1.0, 0.186, 0.141, 0.471, 0.329], [2.0, 0.4, 0.094, 0.757, 0.424], [3.0, 0.614, 0.376, 0.65, 0.386]]),
    ("DetRandomPadAug", (1.0, (1, 2.0), 20, [1, 2, 3]), 1, (63, 63, 3), 63.9, [[1.0, 0.143, 0.159, 0.46, 0.413], [2.0, 0.381, 0.095, 0.778, 0.54], [3.0, 0.619, 0.476, 0.659, 0.489]]),
    ("CreateMultiRandCropAugmenter", TWO_CROPS, 1, *SAME),
    ("CreateMultiRandCropAugmenter", TWO_CROPS, 2, (35, 43, 3), 124.87, [[1.0, 0.023, 0.171, 0.488, 0.629], [2.0, 0.372, 0.057, 0.953, 0.857], [3.0, 0.721, 0.743, 0.779, 0.766]]),
]  # fmt: skip


@pytest.mark.parametrize("name, arguments, seed, shape, mean, boxes", CHANGES)
def test_changes(name, arguments, seed, shape, mean, boxes):
    change = getattr(image, name)(*arguments)
    random.seed(seed)
    out, found = change(nd.array(PICTURE, dtype="uint8"), BOXES.copy())
    assert out.shape == shape and out.dtype == np.uint8
    assert out.asnumpy().mean() == pytest.approx(mean, abs=0.01)
    np.testing.assert_allclose(found, boxes, atol=6e-4)


@pytest.mark.parametrize("kind", ["crop", "pad"])
def test_boxes_follow_their_objects(kind):
    """A bright rectangle is where its box says, whatever was cut off or added."""
    picture = np.zeros((60, 80, 3), "uint8")
    picture[15:45, 20:60] = 200
    box = np.array([[7, 20 / 80, 15 / 60, 60 / 80, 45 / 60, 0.5]])
    change = image.DetRandomCropAug(0.2, (0.5, 2), (0.2, 0.9)) if kind == "crop" else image.DetRandomPadAug(pad_val=5)
    seen = set()
    for seed in range(30):
        random.seed(seed)
        out, found = change(nd.array(picture, dtype="uint8"), box.copy())
        height, width = out.shape[:2]
        bright = np.argwhere(out.asnumpy()[..., 0] == 200)
        (top, left), (bottom, right) = bright.min(axis=0), bright.max(axis=0) + 1
        expected = [7, left / width, top / height, right / width, bottom / height, 0.5]
        np.testing.assert_allclose(found, [expected], atol=1e-9)
        seen.add(out.shape)
    assert len(seen) > 10


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: image.DetRandomCropAug(area_range=(0.5, 0.2)), r"Skip DetRandomCropAug due to invalid area_range: \(0.5, 0.2\)"),
        (lambda: image.DetRandomCropAug(aspect_ratio_range=(0, 1)), "Skip DetRandomCropAug due to invalid aspect_ratio_range"),
        (lambda: image.DetRandomPadAug(area_range=1.0), "Skip DetRandomPadAug due to invalid area_range"),
    ],
)  # fmt: skip
def test_bounds_that_allow_nothing(make, text):
    with pytest.warns(UserWarning, match=text):
        change = make()
    out, found = change(nd.array(PICTURE, dtype="uint8"), BOXES)
    assert out.shape == PICTURE.shape and found is BOXES


def test_arguments_and_descriptions():
    with pytest.raises(TypeError, match="Borrowing from invalid Augmenter"):
        image.DetBorrowAug(3)
    with pytest.raises(ValueError, match="Allow DetAugmenter in list only"):
        image.DetRandomSelectAug([image.CastAug()])
    with pytest.raises(AssertionError, match="same length"):
        image.CreateMultiRandCropAugmenter([0.1, 0.2], max_attempts=[1, 2, 3])
    with pytest.raises(NotImplementedError, match="Must override implementation"):
        image.DetAugmenter()(None, None)
    flip = image.DetHorizontalFlipAug(0.25)
    assert flip.dumps() == '["dethorizontalflipaug", {"p": 0.25}]'
    assert image.DetRandomSelectAug(flip, 0.5).dumps() == ["detrandomselectaug", [flip.dumps()]]
    assert image.DetBorrowAug(image.CastAug()).dumps() == ["detborrowaug", '["castaug", {"type": "float32"}]']
    out, found = image.DetRandomSelectAug([], 0)(PICTURE, BOXES)
    assert out is PICTURE and found is BOXES


@pytest.mark.parametrize(
    "kwargs, names",
    [
        ({}, "ForceResize Cast"),
        (
            {"resize": 3, "rand_crop": 0.5, "rand_mirror": True},
            "Resize DetRandomSelect DetHorizontalFlip ForceResize Cast",
        ),
        ({"rand_pad": 1, "hue": 1, "mean": True}, "DetRandomSelect ForceResize Cast HueJitter ColorNormalize"),
        ({"contrast": 0.1, "rand_gray": 1, "pca_noise": 1}, "ForceResize Cast ColorJitter Lighting RandomGray"),
    ],
)
def test_create_det_augmenter(kwargs, names):
    made = image.CreateDetAugmenter((3, 20, 30), inter_method=1, **kwargs)
    kinds = [type(m.augmenter if isinstance(m, image.DetBorrowAug) else m).__name__ for m in made]
    assert kinds == [f"{n}Aug" for n in names.split()]
    x, boxes = nd.array(PICTURE, dtype="uint8"), BOXES.copy()
    for change in made:
        x, boxes = change(x, boxes)
    assert x.shape == (20, 30, 3) and x.dtype == np.float32 and boxes.shape[1] == 5


# -- the iterator: the k-th of seven pictures has k % 3 + 1 objects of class k

ORDERS = {
    "pad": [(0, [0, 1, 2]), (0, [3, 4, 5]), (2, [6, 0, 1])] * 2,
    "discard": [(0, [0, 1, 2]), (0, [3, 4, 5])] * 2,
    "roll_over": [(0, [0, 1, 2]), (0, [3, 4, 5]), (2, [6, 0, 1]), (0, [2, 3, 4])],
}


def labels(k, header=(2, 5), extra=()):
    one = [float(k), 0.1, 0.2, 0.8, 0.9, *extra]
    return [*header, *one * (k % 3 + 1)]


@pytest.fixture
def pictures(tmp_path):
    for k in range(7):
        np.save(tmp_path / f"{k}.npy", np.full((8, 9 + k, 3), k, "uint8"))
    return tmp_path


def iterator(pictures, batch_size=3, entries=None, **kwargs):
    entries = entries or [[*labels(k), f"{k}.npy"] for k in range(7)]
    return image.ImageDetIter(batch_size, (3, 4, 6), imglist=entries, path_root=str(pictures), **kwargs)


@pytest.mark.parametrize("last", ORDERS)
def test_image_det_iter(pictures, last):
    it = iterator(pictures, last_batch_handle=last)
    assert it.label_shape == (3, 5)
    assert it.provide_data == [("data", (3, 3, 4, 6))] and it.provide_label == [("label", (3, 3, 5))]
    found = []
    for _ in range(2):
        for batch in it:
            data, label = batch.data[0].asnumpy(), batch.label[0].asnumpy()
            np.testing.assert_array_equal(data[:, 0, 0, 0], label[:, 0, 0])
            for k, rows in zip(label[:, 0, 0].astype(int), label, strict=True):
                n = k % 3 + 1
                np.testing.assert_allclose(rows[:n], [[k, 0.1, 0.2, 0.8, 0.9]] * n, rtol=1e-6)
                assert (rows[n:] == -1).all()
            found.append((batch.pad, label[:, 0, 0].tolist()))
        it.reset()
    assert found == ORDERS[last]


def test_longer_labels_and_files(pictures):
    entries = [[*labels(k, (4, 6, 11, 12), (0.5,)), f"{k}.npy"] for k in range(4)]
    it = iterator(pictures, 4, entries)
    assert it.label_shape == (3, 6)
    assert it.next().label[0].asnumpy()[2, 2].tolist() == pytest.approx([2, 0.1, 0.2, 0.8, 0.9, 0.5])
    lines = ("\t".join(map(str, [k, *labels(k), f"{k}.npy"])) for k in range(3))
    (pictures / "all.lst").write_text("\n".join(lines) + "\n")
    it = image.ImageDetIter(3, (3, 4, 6), path_imglist=str(pictures / "all.lst"), path_root=str(pictures))
    assert it.next().label[0].asnumpy()[:, 0, 0].tolist() == [0, 1, 2]


def test_pictures_without_boxes_are_left_out(pictures):
    class LoseOdd(image.DetAugmenter):
        def __call__(self, src, label):
            return src, label[label[:, 0] % 2 == 0] if label[0, 0] != 2 else label * -1

    it = iterator(pictures, 3, aug_list=[*image.CreateDetAugmenter((3, 4, 6)), LoseOdd()])
    assert it.next().label[0].asnumpy()[:, 0, 0].tolist() == [0, 4, 6]


@pytest.mark.parametrize(
    "label, text",
    [
        ([1.0], "Label shape is invalid"),
        ([2, 5, 1, 0.5, 0.5, 0.5, 0.5], "no valid label"),
        ([2, 5, 1, 0.1, 0.1, 0.5, 0.5, 0.3], r"Label shape \(8,\) inconsistent with annotation width 5"),
        ([2, 4, 1, 0.1, 0.1, 0.5, 0.5, 1, 2, 3], "inconsistent with annotation width 4"),
    ],
)
def test_labels_of_other_forms(pictures, label, text):
    with pytest.raises(RuntimeError, match=text):
        iterator(pictures, entries=[[*label, "0.npy"]])


def test_shapes_may_change(pictures):
    large, small = iterator(pictures), iterator(pictures, entries=[[*labels(0), "0.npy"]])
    assert (large.label_shape, small.label_shape) == ((3, 5), (1, 5))
    assert large.sync_label_shape(small, verbose=True) is small
    assert small.label_shape == (3, 5) and small.provide_label == [("label", (3, 3, 5))]
    large.reshape((3, 4, 4), (9, 5))
    large.auglist = image.CreateDetAugmenter((3, 4, 4))
    batch = large.next()
    assert batch.data[0].shape == (3, 3, 4, 4) and batch.label[0].shape == (3, 9, 5)
    for shapes, text in [
        ((None, (1, 5)), "Attempts to reduce label count from 9 to 1, not allowed"),
        ((None, (9, 6)), "label_shape object width inconsistent: 5 vs 6"),
        ((None, (9,)), "label_shape should have length 2"),
        (((1, 2, 3), None), "expects inputs to have 3 channels"),
    ]:
        with pytest.raises(ValueError, match=text):
            large.reshape(*shapes)
    with pytest.raises(AssertionError, match="Synchronize with invalid iterator"):
        large.sync_label_shape(3)
