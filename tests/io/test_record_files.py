# SPDX-License-Identifier: Apache-2.0
"""mx.recordio: what is written is, byte for byte, what MXNet 1.9.1 writes."""

from __future__ import annotations

import hashlib
import multiprocessing
import pickle
import struct
from itertools import product

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu.base import MXNetError
from hybridgpu.gluon.data import RecordFileDataset
from hybridgpu.recordio import IRHeader, MXIndexedRecordIO, MXRecordIO

MAGIC = struct.pack("<I", 0xCED7230A)
#: every order of four pieces that puts the magic word, whole or in part, at every remainder of four
RECORDS = [b"".join(pieces) for pieces in product([MAGIC, b"a", MAGIC[:2], b"bcdefg"], repeat=4)] + [b"", MAGIC]
#: digests of what the real MXNet wrote for RECORDS under the keys 0, 1, ...
DIGESTS = {
    ".rec": "2195f5b3bc014bfe119da7e2e2e28b7e76f3f391b14df0be2b2a56cb0fe88f2d",
    ".idx": "d7b92bf824b1e4b4aa49ac21233edce2abbf2ff707397f761b059ea188a498ea",
}


@pytest.fixture
def files(tmp_path):
    writer = MXIndexedRecordIO(tmp_path / "a.idx", tmp_path / "a.rec", "w")
    for k, record in enumerate(RECORDS):
        writer.write_idx(k, record)
    writer.close()
    writer.close()
    return str(tmp_path / "a.idx"), str(tmp_path / "a.rec")


def test_bytes_of_files(files):
    for name in files:
        with open(name, "rb") as f:
            assert hashlib.sha256(f.read()).hexdigest() == DIGESTS[name[-4:]]


def test_records_in_their_order(files):
    reader = MXRecordIO(files[1], "r")
    for _ in range(2):
        assert [reader.read() for _ in RECORDS] == RECORDS
        assert reader.read() is None
        reader.reset()
    found = RecordFileDataset(files[1])
    assert [found[k] for k in range(len(found))] == RECORDS


def test_records_by_key(files):
    reader = MXIndexedRecordIO(*files, "r")
    assert reader.keys == list(reader.idx) == list(range(len(RECORDS)))
    for k in (7, 3, len(RECORDS) - 1, 0):
        assert reader.read_idx(k) == RECORDS[k]
    with pytest.raises(KeyError):
        reader.read_idx(len(RECORDS))


def test_keys_of_other_types(tmp_path):
    names = str(tmp_path / "b.idx"), str(tmp_path / "b.rec")
    writer = MXIndexedRecordIO(*names, "w", key_type=str)
    assert writer.tell() == 0
    writer.write_idx("one", b"1")
    assert writer.tell() == 12 and writer.idx == {"one": 0}
    del writer
    assert MXIndexedRecordIO(*names, "r", key_type=str).read_idx("one") == b"1"


def _read(reader, key, results):
    results.put(reader.read_idx(key))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_other_processes_have_a_position_of_their_own(files, way):
    processes = multiprocessing.get_context(way)
    reader, results = MXIndexedRecordIO(*files, "r"), processes.Queue()
    reader.seek(2)
    child = processes.Process(target=_read, args=(reader, 5, results))
    child.start()
    assert results.get(timeout=60) == RECORDS[5]
    child.join()
    if way == "fork":
        assert reader.read() == RECORDS[2]


def test_a_file_that_is_shared_by_processes_is_refused(files, monkeypatch):
    reader, writer = MXRecordIO(files[1], "r"), MXRecordIO(files[0] + "w", "w")
    monkeypatch.setattr("os.getpid", lambda: -1)
    for call in (reader.read, lambda: writer.write(b"a")):
        with pytest.raises(RuntimeError, match="Forbidden operation in multiple processes"):
            call()


def test_pickles(files):
    reader = MXIndexedRecordIO(*files, "r")
    assert pickle.loads(pickle.dumps(reader)).read_idx(3) == RECORDS[3]
    assert not reader.is_open
    assert not pickle.loads(pickle.dumps(reader)).is_open
    with pytest.raises(MXNetError, match="is closed"):
        reader.read()


@pytest.mark.parametrize(
    ("header", "packed"),
    [
        ((7, 2.5, 3, 4), (0, 2.5, 3, 4)),
        (IRHeader(0, [1, 2, 3], 3, 4), (3, [1, 2, 3], 3, 4)),
        ((0, np.float32(1), 2**64 - 1, 0), (0, 1, 2**64 - 1, 0)),
        ((0, np.arange(300), 0, 1), (300, list(range(300)), 0, 1)),
    ],
)
def test_headers(header, packed):
    record = mx.recordio.pack(header, b"xyz")
    found, rest = mx.recordio.unpack(record)
    assert rest == b"xyz"
    assert (found.flag, np.asarray(found.label).tolist(), found.id, found.id2) == packed
    for length in (0, 23, len(record) - 4):
        if length < 24 or packed[0]:
            with pytest.raises(MXNetError, match="a record of .* bytes"):
                mx.recordio.unpack(record[:length])


def test_bytes_of_a_header():
    record = mx.recordio.pack((0, [1, 2], 3, 4), b"xy")
    assert record.hex() == "0200000000000000030000000000000004000000000000000000803f000000407879"


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda f: MXRecordIO(f, "a"), ValueError, "Invalid flag a"),
        (lambda f: MXRecordIO(f + "/x", "r"), MXNetError, "Open .*: Not a directory"),
        (lambda f: MXRecordIO(f, "r").write(b"a"), AssertionError, "was opened with the flag 'r'"),
        (lambda f: MXRecordIO(f, "w").read(), AssertionError, "was opened with the flag 'w'"),
        (lambda f: MXIndexedRecordIO(f, f, "r"), MXNetError, "is no index of records"),
        (lambda f: MXIndexedRecordIO(f + "x", f, "r"), MXNetError, "Open .*x.*: No such file"),
        (lambda f: MXRecordIO(f, "r").read(), MXNetError, "Invalid record at offset 0"),
    ],
)
def test_wrong_use(call, error, text, tmp_path):
    (tmp_path / "a").write_bytes(b"no record at all")
    with pytest.raises(error, match=text):
        call(str(tmp_path / "a"))


def test_a_record_that_is_too_long(tmp_path):
    class Long(bytes):
        def __len__(self):
            return 1 << 29

    with pytest.raises(MXNetError, match="less than 2\\^29 bytes"):
        MXRecordIO(str(tmp_path / "a"), "w").write(Long())
