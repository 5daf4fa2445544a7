# SPDX-License-Identifier: Apache-2.0
"""Datasets, samplers, loaders (in process, threads, processes), picture transforms and files."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import gluon, nd
from hybridgpu.gluon.data import (
    ArrayDataset,
    BatchSampler,
    DataLoader,
    Dataset,
    FilterSampler,
    RandomSampler,
    SequentialSampler,
    SimpleDataset,
)
from hybridgpu.gluon.data.vision import CIFAR10, CIFAR100, MNIST, ImageFolderDataset, transforms

TEN = SimpleDataset(list(range(10)))


class Squares(Dataset):
    """At module level: worker processes may have to import it."""

    def __len__(self):
        return 23

    def __getitem__(self, k):
        return nd.full((3,), k * k), k


class Broken(Squares):
    def __getitem__(self, k):
        if k == 5:
            raise ZeroDivisionError("sample 5 is broken")
        return k


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda d: d.filter(lambda x: x % 2), [1, 3, 5, 7, 9]),
        (lambda d: d.shard(3, 0), [0, 1, 2, 3]),
        (lambda d: d.shard(3, 2), [7, 8, 9]),
        (lambda d: d.take(3), [0, 1, 2]),
        (lambda d: d.take(None), list(range(10))),
        (lambda d: d.sample(SequentialSampler(2, 5)), [5, 6]),
        (lambda d: d.transform(lambda x: -x).take(3), [0, -1, -2]),
        (lambda d: d.transform(lambda x: -x, lazy=False).take(3), [0, -1, -2]),
        (lambda d: d.filter(lambda x: x > 5).shard(2, 1).transform_first(lambda x: x * 10), [80, 90]),
    ],
)
def test_datasets_from_datasets(make, expected):
    d = make(TEN)
    assert [d[k] for k in range(len(d))] == expected


def test_array_dataset_pairs():
    d = ArrayDataset(np.arange(6).reshape(3, 2), nd.array([7, 8, 9]), [1, 2, 3]).transform_first(lambda x: x.sum())
    assert [tuple(map(float, d[k])) for k in range(3)] == [(1, 7, 1), (5, 8, 2), (9, 9, 3)]
    with pytest.raises(AssertionError, match=r"array\[0\] has length 3 while array\[1\] has 2"):
        ArrayDataset([1, 2, 3], [1, 2])


@pytest.mark.parametrize(
    ("last", "first", "second", "lengths"),
    [
        ("keep", [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]], [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]], (3, 3)),
        ("discard", [[0, 1, 2, 3], [4, 5, 6, 7]], [[0, 1, 2, 3], [4, 5, 6, 7]], (2, 2)),
        ("rollover", [[0, 1, 2, 3], [4, 5, 6, 7]], [[8, 9, 0, 1], [2, 3, 4, 5], [6, 7, 8, 9]], (2, 3)),
    ],
)
def test_batch_sampler(last, first, second, lengths):
    s = BatchSampler(SequentialSampler(10), 4, last)
    assert (len(s), list(s)) == (lengths[0], first)
    assert (len(s), list(s)) == (lengths[1], second)


def test_other_samplers():
    assert sorted(RandomSampler(7)) == list(range(7))
    assert list(FilterSampler(lambda x: x > 6, TEN)) == [7, 8, 9]
    for rollover, expected in ((True, [0, 3, 6, 1, 4, 7, 2, 5]), (False, [0, 3, 6])):
        s = gluon.contrib.data.IntervalSampler(8, 3, rollover)
        assert (list(s), len(s)) == (expected, len(expected))
    with pytest.raises(AssertionError, match="Interval 3 must be smaller than or equal to length 2"):
        gluon.contrib.data.IntervalSampler(2, 3)


@pytest.mark.parametrize("options", [{}, {"num_workers": 2}, {"num_workers": 2, "thread_pool": True}])
@pytest.mark.parametrize("reload", [False, True])
def test_loader(options, reload):
    loader = DataLoader(Squares(), batch_size=4, auto_reload=reload, **options)
    for _ in range(2):
        seen = []
        for values, labels in loader:
            assert isinstance(values, nd.NDArray)
            np.testing.assert_array_equal(values.asnumpy()[:, 0], labels.asnumpy() ** 2)
            seen += labels.asnumpy().tolist()
        assert seen == list(range(23))
    assert len(loader) == 6


def test_workers_begin_with_refresh():
    class Counted(gluon.data.Dataset):
        reads = 0

        def __len__(self):
            return 3

        def __getitem__(self, k):
            Counted.reads += 1
            return k

    loader = DataLoader(Counted(), batch_size=1, num_workers=1, thread_pool=True)
    loader.refresh()
    until = time.monotonic() + 30
    while Counted.reads < 3 and time.monotonic() < until:
        time.sleep(0.01)
    assert Counted.reads == 3
    assert [b.asscalar() for b in loader] == [0, 1, 2] and Counted.reads == 3
    assert len(list(loader)) == 3 and Counted.reads == 6
    plain = DataLoader(Counted(), batch_size=1)
    plain.refresh()
    plain.clean()
    assert len(list(plain)) == 3


@pytest.mark.parametrize("options", [{}, {"num_workers": 2}, {"num_workers": 2, "thread_pool": True}])
def test_an_error_in_a_sample_arrives(options):
    with pytest.raises(ZeroDivisionError, match="sample 5 is broken"):
        list(DataLoader(Broken(), batch_size=4, **options))


PROGRAMS = {
    "dropped with batches under way": """
        for _ in range(10):  # batches larger than a pipe holds
            loader = DataLoader(np.ones((400, 4000)), batch_size=8, num_workers=4)
            batches = iter(loader)
            next(batches)
            del batches, loader
        print("done")
    """,
    "a worker that hangs": """
        class Slow(gluon.data.Dataset):
            def __len__(self):
                return 4
            def __getitem__(self, k):
                time.sleep(600)
        try:
            list(DataLoader(Slow(), batch_size=2, num_workers=1, timeout=1))
        except RuntimeError as e:
            print("done" if "Worker timed out after 1 seconds" in str(e) else e)
    """,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_programs_end(program):
    """Workers do not keep a program from its end."""
    head = "import time\nimport numpy as np\nfrom hybridgpu import gluon\nfrom hybridgpu.gluon.data import DataLoader\n"
    run = subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.stdout == "done\n", run.stderr


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8"])
def test_element_types_stay(dtype):
    (batch,) = DataLoader(np.ones((4, 2), dtype), batch_size=4)
    assert batch.dtype == np.dtype(dtype)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("sample", "shapes"),
    [
        ([1, 2.5], (3, 2)),
        ([[1, 2], [3, 4]], (3, 2, 2)),
        ([(1, 2), (3, 4)], (3, 2, 2)),
        ([np.ones(2), np.zeros(2)], (3, 2, 2)),
        ((np.ones(2), [np.float32(1)]), [(3, 2), (3, 1)]),
        (((1, 2), 3), [[(3,), (3,)], (3,)]),
    ],
)
def test_lists_of_numbers_are_one_array_and_tuples_are_parts(sample, shapes, workers):
    def shape(batch):
        return [shape(b) for b in batch] if isinstance(batch, list) else batch.shape

    (batch,) = DataLoader([sample] * 3, 3, num_workers=workers, thread_pool=bool(workers))
    assert shape(batch) == shapes


def test_shuffle_pinned_and_own_batches():
    assert sorted(x for b in DataLoader(TEN, 3, shuffle=True) for x in b.asnumpy()) == list(range(10))
    (batch,) = DataLoader(TEN, 10, pin_memory=True)
    assert batch.context == mx.cpu_pinned(0)
    assert list(DataLoader(TEN, batch_sampler=[[1, 2], [3]], batchify_fn=tuple)) == [(1, 2), (3,)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "batch_size must be specified unless batch_sampler is specified"),
        (
            {"batch_size": 2, "shuffle": True, "sampler": SequentialSampler(3)},
            "shuffle must not be specified if sampler",
        ),
        ({"batch_size": 2, "batch_sampler": [[1]]}, "must not be specified if batch_sampler is specified"),
    ],
)
def test_loader_errors(options, message):
    with pytest.raises(ValueError, match=message):
        DataLoader(TEN, **options)
    with pytest.raises(ValueError, match="last_batch must be one of 'keep', 'discard', or 'rollover', but got x"):
        list(DataLoader(TEN, 3, last_batch="x"))


# -- pictures

RNG = np.random.default_rng(3)
PICTURE = RNG.integers(0, 256, (12, 10, 3)).astype(np.uint8)


def picture():
    return nd.array(PICTURE, dtype="uint8")


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (transforms.ToTensor(), PICTURE.transpose(2, 0, 1).astype(np.float32) / 255),
        (transforms.Cast("float64"), PICTURE.astype(np.float64)),
        (transforms.CropResize(2, 3, 4, 5), PICTURE[3:8, 2:6]),
        (transforms.CenterCrop((4, 6)), PICTURE[3:9, 3:7]),
        (transforms.Resize((10, 12)), PICTURE),
        (transforms.Resize((5, 6), interpolation=0), PICTURE[::2, ::2]),
        (transforms.RandomCrop((10, 12)), PICTURE),
    ],
)
@pytest.mark.parametrize("hybridize", [False, True])
def test_exact_transforms(transform, expected, hybridize):
    if hybridize:
        transform.hybridize()
    y = transform(picture())
    assert y.dtype == expected.dtype
    np.testing.assert_allclose(y.asnumpy(), expected, rtol=1e-6)


def test_normalize():
    x = nd.array(PICTURE.transpose(2, 0, 1))
    y = transforms.Normalize((1.0, 2.0, 3.0), (2.0, 4.0, 5.0))(x).asnumpy()
    want = (PICTURE.transpose(2, 0, 1) - np.array([1, 2, 3]).reshape(3, 1, 1)) / np.array([2, 4, 5]).reshape(3, 1, 1)
    np.testing.assert_allclose(y, want, rtol=1e-6)


def test_bilinear_resize_keeps_a_plane():
    """A picture that grows linearly stays so, away from the border."""
    plane = np.tile(np.arange(16.0)[:, None, None], (1, 8, 1)).astype(np.float32)
    y = transforms.Resize((16, 32))(nd.array(plane)).asnumpy()
    np.testing.assert_allclose(y[2:-2, 0, 0], np.arange(32)[2:-2] / 2 - 0.25, rtol=1e-6)
    assert transforms.Resize(5, keep_ratio=True)(picture()).shape == (6, 5, 3)


@pytest.mark.parametrize(
    "transform",
    [
        transforms.RandomBrightness(0.5),
        transforms.RandomContrast(0.5),
        transforms.RandomSaturation(0.5),
        transforms.RandomHue(0.5),
        transforms.RandomLighting(0.5),
        transforms.RandomColorJitter(0.4, 0.4, 0.4, 0.2),
        transforms.RandomFlipLeftRight(),
        transforms.RandomFlipTopBottom(),
        transforms.RandomResizedCrop(8),
        transforms.RandomCrop(6, pad=2),
    ],
)
def test_random_transforms_vary_within_the_range(transform):
    mx.random.seed(1)
    results = [transform(picture()).asnumpy() for _ in range(12)]
    assert any((r != results[0]).any() for r in results)
    assert all(r.dtype == np.uint8 for r in results)


def test_flips_mirror_or_not():
    seen = {transforms.RandomFlipLeftRight()(picture()).asnumpy().tobytes() for _ in range(30)}
    assert seen == {PICTURE.tobytes(), PICTURE[:, ::-1].tobytes()}


@pytest.mark.parametrize("degrees", [90, 180, 270, 360])
def test_rotation_by_right_angles(degrees):
    square = nd.array(RNG.normal(size=(2, 9, 9)))
    got = transforms.Rotate(degrees)(square).asnumpy()
    np.testing.assert_allclose(got, np.rot90(square.asnumpy(), degrees // 90, (1, 2)), atol=1e-5)


@pytest.mark.parametrize("name", ["zoom_in", "zoom_out"])
def test_rotation_with_zoom(name):
    ones = nd.ones((1, 21, 21))
    got = transforms.Rotate(45, **{name: True})(ones).asnumpy()
    assert got.min() > 0.9 if name == "zoom_in" else got.sum() < 0.6 * 441
    with pytest.raises(ValueError, match="cannot be both True"):
        transforms.Rotate(10, True, True)(ones)
    with pytest.raises(TypeError, match="Only `float32` dtype is supported"):
        transforms.Rotate(10)(ones.astype("float64"))


def test_compose_hybridizes_runs():
    t = transforms.Compose(
        [transforms.Resize(8), transforms.ToTensor(), lambda_block(), transforms.Normalize(0.5, 2.0)]
    )
    assert len(t) == 3
    assert t(picture()).shape == (3, 8, 8)
    with pytest.raises(ValueError, match="is not a HybridBlock"):
        transforms.HybridCompose([transforms.CenterCrop(3)])


def lambda_block():
    return gluon.nn.Lambda(lambda x: x * 2)


# -- files


def idx(array):
    return struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def test_mnist(tmp_path):
    pictures, labels = RNG.integers(0, 256, (5, 28, 28)).astype(np.uint8), np.arange(5, dtype=np.uint8)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(pictures)))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(labels))
    d = MNIST(str(tmp_path), transform=lambda x, y: (x, int(y) + 1))
    assert len(d) == 5
    np.testing.assert_array_equal(d[3][0].asnumpy()[:, :, 0], pictures[3])
    assert d[3][1] == 4
    with pytest.raises(mx.MXNetError, match="Nothing is downloaded"):
        MNIST(str(tmp_path), train=False)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(labels)[:-2])
    with pytest.raises(mx.MXNetError, match="cut short"):
        MNIST(str(tmp_path))


def test_cifar(tmp_path):
    rows = RNG.integers(0, 256, (4, 3073)).astype(np.uint8)
    (tmp_path / "test_batch.bin").write_bytes(rows.tobytes())
    d = CIFAR10(str(tmp_path), train=False)
    np.testing.assert_array_equal(d[2][0].asnumpy(), rows[2, 1:].reshape(3, 32, 32).transpose(1, 2, 0))
    assert d[2][1] == rows[2, 0]
    rows = RNG.integers(0, 256, (4, 3074)).astype(np.uint8)
    (tmp_path / "test.bin").write_bytes(rows.tobytes())
    for fine in (False, True):
        assert CIFAR100(str(tmp_path), fine, train=False)[1][1] == rows[1, int(fine)]


def test_image_folder(tmp_path):
    for name in ("cats", "dogs"):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "a.npy", PICTURE)
    (tmp_path / "cats" / "notes.txt").write_text("no picture")
    with pytest.warns(UserWarning, match="Ignoring"):
        d = ImageFolderDataset(str(tmp_path))
    assert d.synsets == ["cats", "dogs"]
    assert len(d) == 2
    np.testing.assert_array_equal(d[1][0].asnumpy(), PICTURE)
    assert d[1][1] == 1


def test_records(tmp_path):
    records = [b"first", b"", b"x" * 1000]
    data, lines = b"", []
    for k, r in enumerate(records):
        lines.append(f"{k}\t{len(data)}")
        data += struct.pack("<II", 0xCED7230A, len(r)) + r + b"\0" * (-len(r) % 4)
    (tmp_path / "a.rec").write_bytes(data)
    (tmp_path / "a.idx").write_text("\n".join(lines))
    d = gluon.data.RecordFileDataset(str(tmp_path / "a.rec"))
    assert [d[k] for k in range(len(d))] == records
    (tmp_path / "a.rec").write_bytes(data[:-500])
    with pytest.raises(mx.MXNetError, match="Invalid record at offset"):
        gluon.data.RecordFileDataset(str(tmp_path / "a.rec"))[2]
