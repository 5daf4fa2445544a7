# SPDX-License-Identifier: Apache-2.0
"""Our bindings against what NVIDIA's headers say (headers.json, recorded by record.py with a compiler)."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path

import pytest
from abi.names import FUNCTIONS, NO_MEMORY, STRUCTURES, UNSUPPORTED, VALUES

from hybridgpu.backends.cuda.cudnn import CudnnError

RECORDS = json.loads(Path(__file__).with_name("headers.json").read_text())
_KINDS = {
    **{ctypes.c_int: "i4", ctypes.c_uint: "u4", ctypes.c_int64: "i8", ctypes.c_uint64: "u8", ctypes.c_size_t: "u8"},
    **{ctypes.c_ulonglong: "u8", ctypes.c_float: "f4", ctypes.c_double: "f8", ctypes.c_void_p: "p", ctypes.c_char_p: "p"},
}  # fmt: skip


def kind(type):
    return "p" if issubclass(type, ctypes._Pointer) else _KINDS[type]


@pytest.fixture(params=RECORDS)
def record(request):
    return RECORDS[request.param]


def test_versions_that_are_supported_are_recorded():
    assert {text.split(",")[0].removeprefix("CUDA ")[:2] for text in RECORDS} == {"12", "13"}
    assert {text.rpartition(" ")[2][0] for text in RECORDS} == {"8", "9"}  # of cuDNN


@pytest.mark.parametrize("name", [f for functions in FUNCTIONS.values() for f in functions])
def test_functions(record, name):
    types = next(functions[name] for functions in FUNCTIONS.values() if name in functions)
    assert " ".join([*map(kind, types), "-> i4"]) == record["functions"][name]


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures(record, name):
    ours, fields = STRUCTURES[name]
    assert ctypes.sizeof(ours) == record["values"][f"sizeof({name})"]
    assert set(fields) == {field for field, _ in ours._fields_}
    offsets = {f"{name}.{theirs}": getattr(ours, mine).offset for mine, theirs in fields.items()}
    assert offsets == {k: record["structures"][k] for k in offsets}


def test_values(record):
    assert {name: record["values"][name] for name in VALUES} == VALUES


def test_what_cudnn_calls_unsupported(record):
    assert CudnnError.says_unsupported(record["values"][UNSUPPORTED])


def test_what_cudnn_calls_no_memory(record):
    (value,) = (record["values"][name] for name in NO_MEMORY.values() if name in record["values"])
    assert CudnnError("", "", value).memory
