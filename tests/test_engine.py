# SPDX-License-Identifier: Apache-2.0
"""mx.engine: sizes of bulks."""

from __future__ import annotations

import threading

import pytest

import hybridgpu as mx


def test_sizes_of_bulks():
    assert mx.engine.set_bulk_size(3) == 0
    try:
        with pytest.raises(KeyError), mx.engine.bulk(10):
            x = mx.nd.ones(2)
            x *= 2
            x += 1
            assert mx.engine.set_bulk_size(11) == 10
            assert x.asnumpy().tolist() == [3, 3]
            raise KeyError
        elsewhere = []
        thread = threading.Thread(target=lambda: elsewhere.append(mx.engine.set_bulk_size(5)))
        thread.start()
        thread.join()
        assert elsewhere == [0]
    finally:
        assert mx.engine.set_bulk_size(0) == 3
