# SPDX-License-Identifier: Apache-2.0
"""mx.io: batches of arrays and files. Expected batches were recorded from MXNet 1.9.1."""

from __future__ import annotations

import gzip
import logging
import pickle
import struct
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hybridgpu as mx
from hybridgpu import nd, rnn
from hybridgpu.base import MXNetError

io = mx.io


def samples(batches):
    return [b.data[0].asnumpy().astype(int).ravel().tolist() for b in batches]


# -- descriptions and batches


def test_descriptions():
    d = io.DataDesc("a", (2, 3))
    assert d == ("a", (2, 3)) and len(d) == 2
    assert repr(d) == "DataDesc[a,(2, 3),<class 'numpy.float32'>,NCHW]"
    again = pickle.loads(pickle.dumps(io.DataDesc("a", (2,), "int32", "N")))
    assert (again.name, again.shape, again.dtype, again.layout) == ("a", (2,), "int32", "N")
    listed = io.DataDesc.get_list([("a", (1, 2))], [("a", np.int32)])
    assert listed == [("a", (1, 2))] and listed[0].dtype is np.int32
    assert io.DataDesc.get_list([("a", (1, 2))], None)[0].dtype is np.float32


@pytest.mark.parametrize(("layout", "axis"), [("NCHW", 0), ("TNC", 1), (None, 0), ("CHW", -1)])
def test_batch_axis(layout, axis):
    assert io.DataDesc.get_batch_axis(layout) == axis


def test_batch():
    b = io.DataBatch([nd.ones((2, 3))], bucket_key=4)
    assert (b.label, b.pad, b.index, b.bucket_key, b.provide_data) == (None, None, None, 4, None)
    assert str(b) == "DataBatch: data shapes: [(2, 3)] label shapes: None"
    b = io.DataBatch([nd.ones((2, 3)), nd.ones(4)], [nd.ones(2)])
    assert str(b) == "DataBatch: data shapes: [(2, 3), (4,)] label shapes: [(2,)]"
    with pytest.raises(AssertionError, match="Data must be list of NDArrays"):
        io.DataBatch(nd.ones(3))
    with pytest.raises(AssertionError, match="Label must be list of NDArrays"):
        io.DataBatch([nd.ones(3)], nd.ones(3))


def test_the_base_has_no_batches():
    source = io.DataIter(3)
    assert source.batch_size == 3 and source.getdata() is None and source.getindex() is None
    assert list(source) == []


def test_names_of_the_module():
    assert "NDArrayIter" in dir(io)
    with pytest.raises(AttributeError, match="no attribute 'Nope'"):
        _ = io.Nope


# -- arrays

EPOCHS = [
    # samples, batch, what to do with the rest; batches of three epochs; padding or samples carried over
    (5, 2, "pad", [[[0, 1], [2, 3], [4, 0]]] * 3, [[0, 0, 1]] * 3),
    (4, 2, "pad", [[[0, 1], [2, 3]]] * 3, [[0, 0]] * 3),
    (2, 5, "pad", [[[0, 1, 0, 1, 0]]] * 3, [[3]] * 3),
    (5, 2, "discard", [[[0, 1], [2, 3]]] * 3, [[0, 0]] * 3),
    (2, 5, "discard", [[]] * 3, [[]] * 3),
    (4, 2, "roll_over", [[[0, 1], [2, 3]]] * 3, [[0, 0]] * 3),
    (5, 2, "roll_over", [[[0, 1], [2, 3]], [[4, 0], [1, 2], [3, 4]], [[0, 1], [2, 3]]], [[0, 0], [1, 0, 0], [0, 0]]),
    (
        11, 5, "roll_over",
        [[[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]], [[10, 0, 1, 2, 3], [4, 5, 6, 7, 8]], [[9, 10, 0, 1, 2], [3, 4, 5, 6, 7]]],
        [[0, 0], [1, 0], [2, 0]],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("size", "batch", "rest", "epochs", "pads"), EPOCHS)
def test_the_last_batch(size, batch, rest, epochs, pads):
    source = io.NDArrayIter(np.arange(size), np.arange(size) + 100, batch, last_batch_handle=rest)
    for expected, pad in zip(epochs, pads, strict=True):
        batches = list(source)
        assert samples(batches) == expected
        assert [b.pad for b in batches] == pad
        assert [(b.label[0].asnumpy() - 100).astype(int).tolist() for b in batches] == expected
        with pytest.raises(StopIteration):
            source.next()
        source.reset()


def test_a_hard_reset_carries_nothing_over():
    source = io.NDArrayIter(np.arange(5), None, 2, last_batch_handle="roll_over")
    list(source)
    source.hard_reset()
    assert samples(source) == [[0, 1], [2, 3]]


def test_shuffled_as_mxnet_shuffles():
    np.random.seed(2)
    source = io.NDArrayIter(np.arange(9), None, 2, shuffle=True, last_batch_handle="discard")
    first = SHUFFLED[0]
    assert samples(source) == first[0] and source.idx.tolist() == first[1]
    for expected, index in SHUFFLED[1:]:
        source.reset()
        assert samples(source) == expected and source.idx.tolist() == index


SHUFFLED = [
    ([[4, 1], [6, 2], [3, 0], [5, 7]], [4, 1, 6, 2, 3, 0, 5, 7, 8]),
    ([[7, 2], [0, 3], [8, 4], [6, 1]], [7, 3, 5, 4, 8, 0, 2, 1, 6]),
    ([[3, 1], [6, 0], [4, 5], [8, 2]], [3, 7, 6, 2, 5, 8, 4, 1, 0]),
]


def test_shuffled_data_and_labels_lie_in_the_order_of_the_batches():
    np.random.seed(0)
    source = io.NDArrayIter(np.arange(10), np.arange(10), 4, shuffle=True)
    assert source.data[0][1].asnumpy().tolist() == [2, 8, 4, 9, 1, 6, 7, 3, 0, 5]  # MXNet's
    for _ in range(2):
        seen = [x for batch in source for x in batch.label[0].asnumpy()[: 4 - batch.pad].tolist()]
        assert seen == source.label[0][1].asnumpy().tolist() == source.data[0][1].asnumpy().tolist()
        source.reset()


def test_a_subclass_that_orders_its_data_itself():
    """MXNet's capsule network: its reset, which the constructor calls, shuffles `data` by `idx` and moves the cursor."""

    class Reversed(io.NDArrayIter):
        def reset(self):
            self.idx = self.idx[::-1]
            self.data = [(name, nd.array(x.asnumpy()[self.idx])) for name, x in self.data]
            seen.append(self.cursor)
            self.cursor = -self.batch_size

    seen = []
    source = Reversed(np.arange(5), batch_size=2)
    assert [b.data[0].asnumpy().tolist() for b in source] == [[4, 3], [2, 1], [0, 4]]
    source.reset()
    assert seen == [-2, 6]


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 12), st.integers(1, 8), st.booleans(), st.sampled_from(["pad", "discard", "roll_over"]))
def test_nothing_is_lost(size, batch, shuffle, rest):
    source = io.NDArrayIter(np.arange(size), np.arange(size), batch, shuffle, rest)
    seen = []
    for _ in range(4):
        source.reset()
        for b in source:
            values = b.data[0].asnumpy().astype(int).tolist()
            assert len(values) == batch and b.label[0].asnumpy().astype(int).tolist() == values
            seen += values[: batch - b.pad] if rest == "pad" else values
    counts = np.bincount(seen, minlength=size)
    if rest == "pad":
        assert (counts == 4).all()
    elif rest == "roll_over":  # what is left after the last epoch may be missing
        assert len(seen) > 4 * size - batch and counts.max() <= 4 and counts.min() >= 3 - batch // size
    else:
        assert len(seen) == 4 * (size - size % batch)


INPUTS = [
    (np.ones((5, 2)), np.ones(5), ["data"], ["softmax_label"]),
    ([np.ones((5, 2))], None, ["data"], []),
    ([nd.ones((5, 2)), nd.ones((5, 3))], [np.ones(5)] * 2, ["_0_data", "_1_data"], ["_0_softmax_label", "_1_softmax_label"]),
    ({"b": np.ones((5, 2)), "a": nd.ones((5, 3))}, {"l": np.ones(5)}, ["a", "b"], ["l"]),
    (np.ones((5, 2)), [], ["data"], []),
]  # fmt: skip


@pytest.mark.parametrize(("data", "label", "names", "labels"), INPUTS, ids=range(len(INPUTS)))
def test_inputs(data, label, names, labels):
    source = io.NDArrayIter(data, label, 2, layout="NC")
    assert [d.name for d in source.provide_data] == names and [d.name for d in source.provide_label] == labels
    assert all(d.shape[0] == 2 and d.layout == "NC" for d in [*source.provide_data, *source.provide_label])
    batch = source.next()
    assert [x.shape for x in batch.data] == [d.shape for d in source.provide_data]
    assert [x.shape for x in batch.label] == [d.shape for d in source.provide_label]


@pytest.mark.parametrize("shuffle", [False, True])
def test_types_stay(shuffle):
    source = io.NDArrayIter(nd.ones((5, 2), dtype="float16"), nd.ones(5, dtype="int32"), 3, shuffle)
    assert source.provide_data[0].dtype is np.float16 and source.provide_label[0].dtype is np.int32
    for batch in source:
        assert batch.data[0].dtype is np.float16 and batch.label[0].dtype is np.int32
    assert io.NDArrayIter(np.ones((5, 2), "int64")).provide_data[0].dtype is np.float32


WRONG = [
    (3, None, {}, TypeError, "Input must be NDArray, numpy.ndarray, h5py.Dataset a list of them or dict"),
    ({"a": "text"}, None, {}, TypeError, "Invalid type '<class 'str'>' for a"),
    (None, None, {}, AssertionError, "needs data"),
    ([], None, {}, AssertionError, "needs data"),
    ({}, None, {}, AssertionError, "needs data"),
    (np.ones(5), np.ones(4), {}, AssertionError, "softmax_label has 4 samples, but data has 5"),
    (np.ones(5), None, {"last_batch_handle": "drop"}, AssertionError, "must be 'pad', 'discard' or 'roll_over'"),
]


@pytest.mark.parametrize(("data", "label", "options", "error", "text"), WRONG, ids=range(len(WRONG)))
def test_what_is_refused(data, label, options, error, text):
    with pytest.raises(error, match=text):
        io.NDArrayIter(data, label, **options)


# -- iterators around iterators


def test_resized():
    resized = io.ResizeIter(io.NDArrayIter(np.arange(5), None, 2), 5)
    assert resized.batch_size == 2 and resized.provide_data == [("data", (2,))]
    for _ in range(2):
        assert samples(resized) == [[0, 1], [2, 3], [4, 0], [0, 1], [2, 3]]
        resized.reset()
    going_on = io.ResizeIter(io.NDArrayIter(np.arange(5), None, 2), 2, reset_internal=False)
    assert samples(going_on) == [[0, 1], [2, 3]]
    going_on.reset()
    assert samples(going_on) == [[4, 0], [0, 1]]


def test_read_ahead():
    sources = [io.NDArrayIter(np.arange(5), np.arange(5), 2), io.NDArrayIter(np.arange(5) * 2, None, 2)]
    both = io.PrefetchingIter(sources, [{"data": "x"}, {"data": "y"}], [{"softmax_label": "l"}, {}])
    assert both.batch_size == 2
    assert both.provide_data == [("x", (2,)), ("y", (2,))] and both.provide_label == [("l", (2,))]
    for _ in range(2):
        batches = list(both)
        assert samples(batches) == [[0, 1], [2, 3], [4, 0]]
        assert [b.data[1].asnumpy().tolist() for b in batches] == [[0, 2], [4, 6], [8, 0]]
        assert [b.pad for b in batches] == [0, 0, 1] and len(batches[0].label) == 1
        with pytest.raises(StopIteration):
            both.next()
        both.reset()
    assert both.iter_next() and both.getdata()[0].asnumpy().tolist() == [0, 1] and both.getpad() == 0


def test_read_ahead_of_unequal_iterators():
    both = io.PrefetchingIter([io.NDArrayIter(np.arange(4), None, 2), io.NDArrayIter(np.arange(6), None, 2)])
    both.next(), both.next()
    with pytest.raises(AssertionError, match="Number of entry mismatches between iterators"):
        both.next()


def test_errors_in_the_thread_come_out():
    class Broken(io.DataIter):
        provide_data = provide_label = [io.DataDesc("data", (1,))]

        def next(self):
            raise RuntimeError(f"in {threading.current_thread().name}")

    with pytest.raises(RuntimeError, match="in hybridgpu-prefetch"):
        io.PrefetchingIter(Broken()).next()


# -- files


@pytest.fixture
def table(tmp_path):
    (tmp_path / "d.csv").write_text("".join(f"{k},{k}.5\n" for k in range(7)))
    (tmp_path / "l.csv").write_text("".join(f"{k}\n" for k in range(7)))
    return tmp_path


CSV = [
    ({}, [[[0, 1, 2], [3, 4, 5], [6, 0, 1]], [[2, 3, 4], [5, 6, 0]], [[1, 2, 3], [4, 5, 6]]], [[0, 0, 2], [0, 1], [0, 0]]),
    ({"round_batch": False}, [[[0, 1, 2], [3, 4, 5], [6, 4, 5]]] * 3, [[0, 0, 2]] * 3),
]  # fmt: skip


@pytest.mark.parametrize(("options", "epochs", "pads"), CSV, ids=["round", "not"])
def test_csv(options, epochs, pads, table):
    source = io.CSVIter(str(table / "d.csv"), (2,), 3, label_csv=str(table / "l.csv"), **options)
    assert source.provide_data == [("data", (3, 2))] and source.provide_label == [("softmax_label", (3,))]
    for expected, pad in zip(epochs, pads, strict=True):
        batches = list(source)
        assert [b.data[0].asnumpy()[:, 0].astype(int).tolist() for b in batches] == expected
        assert [b.data[0].asnumpy()[0, 1] % 1 for b in batches] == [0.5] * len(batches)
        assert [b.label[0].asnumpy().astype(int).tolist() for b in batches] == expected
        assert [b.index.tolist() for b in batches] == expected
        assert [b.pad for b in batches] == pad
        source.reset()


@pytest.mark.parametrize(("dtype", "entry"), [("int32", "200000001"), ("int64", "9007199254740993"), ("float32", "1")])
def test_csv_types(dtype, entry, tmp_path):
    (tmp_path / "d.csv").write_text(f"{entry},{entry}\n" * 4)
    batch = io.CSVIter(str(tmp_path), (1, 2), 2, dtype=dtype).next()  # a folder
    assert np.dtype(batch.data[0].dtype).name == dtype == np.dtype(batch.label[0].dtype).name
    assert batch.data[0].asnumpy().tolist() == [[[float(entry) if dtype == "float32" else int(entry)] * 2]] * 2


CSV_ERRORS = [
    ({"data_shape": (3,)}, r"row.length == shape.Size\(\) \(2 vs. 3\).*\nLine 1 of"),
    ({"batch_size": 10}, "number of input must be bigger than batch size"),
    ({"data_csv": "nope.csv"}, 'Open "nope.csv": No such file'),
    ({"dtype": "float16"}, "CSVIter reads float32, int32 and int64, not float16"),
    ({"data_csv": "words.csv"}, "Line 2 of .*words.csv has an entry that is no number"),
    ({"data_csv": "large.csv", "dtype": "int32"}, "too large for int32"),
    ({"label_csv": "words.csv", "label_shape": (2,)}, "no number"),
    ({"label_csv": "large.csv", "label_shape": (2,)}, "has 1 rows, but"),
]


@pytest.mark.parametrize(("options", "text"), CSV_ERRORS, ids=range(len(CSV_ERRORS)))
def test_csv_errors(options, text, table, monkeypatch):
    monkeypatch.chdir(table)
    (table / "words.csv").write_text("1,2\n3,four\n")
    (table / "large.csv").write_text("99999999999,1\n")
    with pytest.raises(MXNetError, match=text):
        io.CSVIter(**{"data_csv": "d.csv", "data_shape": (2,), "batch_size": 3, **options})


def mnist(folder, pack=bytes, count=7):
    (folder / "im").write_bytes(pack(struct.pack(">IIII", 0x803, count, 2, 3) + bytes(range(count * 6))))
    (folder / "lb").write_bytes(pack(struct.pack(">II", 0x801, count) + bytes(range(count))))
    return {"image": str(folder / "im"), "label": str(folder / "lb"), "batch_size": 3, "silent": True}


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_mnist(pack, tmp_path):
    options = mnist(tmp_path, pack)
    source = io.MNISTIter(**options, shuffle=False)
    assert source.provide_data == [("data", (3, 1, 2, 3))]
    for _ in range(2):
        batches = list(source)
        assert [b.label[0].asnumpy().tolist() for b in batches] == [[0, 1, 2], [3, 4, 5]]  # the seventh is left out
        np.testing.assert_array_equal(batches[1].data[0].asnumpy().ravel(), np.arange(18, 36) / 256)
        source.reset()
    assert io.MNISTIter(**options, flat=True).provide_data == [("data", (3, 6))]
    part = io.MNISTIter(**options, shuffle=False, num_parts=2, part_index=1)
    assert [b.label[0].asnumpy().tolist() for b in part] == [[3, 4, 5]]


def test_what_iterators_say_leaves_the_root_logger_to_the_program(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logging.root, "handlers", [])  # as in a program that has not called basicConfig yet
    monkeypatch.setattr(logging.getLogger("hybridgpu"), "handlers", [caplog.handler])
    with caplog.at_level(logging.INFO):
        io.MNISTIter(**{**mnist(tmp_path), "silent": False}, flat=True)
        rnn.BucketSentenceIter([[1, 2], [1] * 9], 1, buckets=[3])
    assert logging.root.handlers == []
    assert caplog.messages == [
        "MNISTIter: load 7 images, shuffle=1, shape=(3, 6)",
        "discarded 1 sentences longer than the largest bucket.",
    ]


def test_mnist_shuffled_keeps_pairs(tmp_path):
    options = mnist(tmp_path)
    orders = []
    for seed in (1, 1, 2):
        batch = io.MNISTIter(**options, seed=seed).next()
        labels = batch.label[0].asnumpy()
        np.testing.assert_array_equal(batch.data[0].asnumpy()[:, 0, 0, 0] * 256, labels * 6)
        orders.append(labels.tolist())
    assert orders[0] == orders[1] != orders[2]


def test_mnist_errors(tmp_path):
    options = mnist(tmp_path)
    for change, text in [
        ({"image": str(tmp_path / "nope")}, "No such file"),
        ({"image": options["label"]}, "no file of MNIST's format with 3 dimensions"),
        ({"part_index": 1}, "part_index must be between 0 and 0"),
    ]:
        with pytest.raises(MXNetError, match=text):
            io.MNISTIter(**{**options, **change})
    (tmp_path / "lb").write_bytes(struct.pack(">II", 0x801, 2**31) + bytes(9))
    with pytest.raises(MXNetError, match="cut short"):
        io.MNISTIter(**options)
    (tmp_path / "lb").write_bytes(struct.pack(">II", 0x801, 2) + bytes(2))
    with pytest.raises(MXNetError, match="has 7 pictures, but .* has 2 labels"):
        io.MNISTIter(**options)
    (tmp_path / "lb").write_bytes(b"\x1f\x8b" + bytes(9))
    with pytest.raises(MXNetError, match="no valid gzip"):
        io.MNISTIter(**options)
