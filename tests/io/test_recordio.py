# SPDX-License-Identifier: Apache-2.0
"""Files of records: what is in them comes back; those that lie end in an MXNetError."""

from __future__ import annotations

import struct
from random import Random

import pytest
from malformed_files import bounded, mutate_bytes

from hybridgpu.base import MXNetError
from hybridgpu.gluon.data import RecordFileDataset

MAGIC = 0xCED7230A


def part(data, kind=0, magic=MAGIC, length=None):
    """A record (kind 0) or the first (1), a middle (2) or the last (3) part of one."""
    word = kind << 29 | (len(data) if length is None else length)
    return struct.pack("<II", magic, word) + data + bytes(-len(data) % 4)


def write(folder, records, offsets=None):
    """A file of records and its index; returns the name."""
    starts, at = [], 0
    for r in records:
        starts.append(at)
        at += len(r)
    (folder / "a.rec").write_bytes(b"".join(records))
    lines = (f"{k}\t{at}\n" for k, at in enumerate(starts if offsets is None else offsets))
    (folder / "a.idx").write_text("".join(lines))
    return str(folder / "a.rec")


def test_records_of_every_length(tmp_path):
    values = [bytes(range(n)) for n in range(9)]
    found = RecordFileDataset(write(tmp_path, [part(v) for v in values]))
    assert [found[k] for k in range(len(found))] == values


def test_the_magic_word_within_a_record(tmp_path):
    """A writer leaves it out and cuts the record there."""
    parts = part(b"abcd", 1) + part(b"", 2) + part(b"ef", 3)
    magic = struct.pack("<I", MAGIC)
    assert RecordFileDataset(write(tmp_path, [parts]))[0] == magic.join([b"abcd", b"", b"ef"])


HOSTILE = {
    "empty": ([b""], [0], "lies outside"),
    "cut header": ([part(b"abcd")[:7]], [0], "lies outside"),
    "cut data": ([part(b"abcdefgh")[:-5]], [0], "Invalid record at offset 0"),
    "magic": ([part(b"abcd", magic=1)], [0], "Invalid record at offset 0"),
    "length": ([part(b"abcd", length=(1 << 29) - 1)], [0], "Invalid record at offset 0"),
    "no last part": ([part(b"abcd", 1), part(b"efgh", 2)], [0], "at offset 24 .* outside"),
    "offset behind the end": ([part(b"abcd")], [10**30], "lies outside"),
    "negative offset": ([part(b"abcd")], [-4], "lies outside"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_records(name, tmp_path):
    records, offsets, expected = HOSTILE[name]
    with pytest.raises(MXNetError, match=expected):
        RecordFileDataset(write(tmp_path, records, offsets))[0]


@pytest.mark.parametrize("index", [b"x", b"0 0\n", b"0\tzero\n", b"\xff\xfe\t1\n", b"0\t" + b"9" * 5000])
def test_no_index(index, tmp_path):
    file = write(tmp_path, [part(b"abcd")])
    (tmp_path / "a.idx").write_bytes(index)
    with pytest.raises(MXNetError, match="no index of records"):
        RecordFileDataset(file)


def test_missing_files(tmp_path):
    with pytest.raises(MXNetError, match=r'Open ".*nope\.rec": No such file'):
        RecordFileDataset(str(tmp_path / "nope.rec"))


def test_mutated_files(tmp_path, pytestconfig):
    records = [part(b"abcd"), part(b"ab", 1) + part(b"cdefg", 2) + part(b"h", 3), part(bytes(70))]
    name = write(tmp_path, records)
    rec, index = (tmp_path / "a.rec").read_bytes(), (tmp_path / "a.idx").read_bytes()
    read = refused = 0

    def everything():
        dataset = RecordFileDataset(name)
        return [dataset[k] for k in range(len(dataset))]

    for k in range(pytestconfig.getoption("--fuzz")):
        rng = Random(k)
        (tmp_path / "a.rec").write_bytes(mutate_bytes(rec, rng) if k % 3 else rec)
        (tmp_path / "a.idx").write_bytes(index if k % 3 else mutate_bytes(index, rng))
        try:
            found = bounded(everything, len(rec)) if k % 8 == 1 else everything()
        except MXNetError:
            refused += 1
            continue
        read += 1
        assert sum(map(len, found)) <= 64 * len(rec), f"mutation {k}"
    assert read and refused
