# SPDX-License-Identifier: Apache-2.0
"""Files that cannot be written to their end, as on a full disk: the former ones stay, and nothing lies beside them."""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
from contextlib import contextmanager

import pytest

import hybridgpu as mx
from hybridgpu import nd, profiler
from hybridgpu.base import MXNetError
from hybridgpu.gluon import Trainer, nn
from hybridgpu.io.formats.atomic import replace_file

resource = pytest.importorskip("resource")


@pytest.fixture
def net():
    net = nn.HybridSequential()
    net.add(nn.Dense(20, in_units=30))
    net.initialize()
    net.hybridize()
    return net


def stepped(net, **options):
    trainer = Trainer(net.collect_params(), "adam", **options)
    with mx.autograd.record():
        loss = net(nd.ones((2, 30))).sum()
    loss.backward()
    trainer.step(1)
    return trainer


def bound():
    out = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=20), name="softmax")
    module = mx.mod.Module(out)
    module.bind([("data", (2, 30))], [("softmax_label", (2,))])
    module.init_params()
    module.init_optimizer(optimizer="adam")
    return module


def profiled(file):
    profiler.set_config(filename=file)
    profiler.start()
    try:
        profiler.dump(finished=False)
    finally:
        profiler.set_config(filename=os.devnull)
        profiler.dump()


#: what writes a file whose name is given, and the error where that fails
WRITERS = {
    "nd.save": (lambda file, net: nd.save(file, [nd.ones((100,))]), MXNetError),
    "symbol.save": (lambda file, net: mx.sym.var("x" * 200).save(file), MXNetError),
    "save_parameters": (lambda file, net: net.save_parameters(file), MXNetError),
    "safetensors": (lambda file, net: net.save_parameters(file + ".safetensors"), MXNetError),
    "Block.save": (lambda file, net: net.save(file), MXNetError),
    "Trainer": (lambda file, net: stepped(net).save_states(file), OSError),
    "Trainer with a store": (
        lambda file, net: stepped(net, kvstore="local", update_on_kvstore=True).save_states(file),
        OSError,
    ),
    "Module": (lambda file, net: bound().save_optimizer_states(file), OSError),
    "profiler": (lambda file, net: profiled(file), OSError),
}


@contextmanager
def no_file_longer_than(nbytes):
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


@pytest.mark.parametrize("name", WRITERS)
def test_the_former_file_stays(name, net, tmp_path, monkeypatch):
    write, error = WRITERS[name]
    monkeypatch.setenv("HYBRIDGPU_CACHE", "0")  # whose entries would not fit, either
    file = str(tmp_path / "file")
    write(file, net)
    before = {f: f.read_bytes() for f in tmp_path.iterdir()}
    assert any(len(data) > 3 for data in before.values())
    with no_file_longer_than(3), pytest.raises(error, match="file") as raised:
        write(file, net)
    assert "too large" in str(raised.value) and "None" not in str(raised.value)
    assert {f: f.read_bytes() for f in tmp_path.iterdir()} == before


def test_a_link_leads_to_what_was_written(tmp_path):
    (tmp_path / "latest").symlink_to("first")
    nd.save(str(tmp_path / "latest"), [nd.ones((3,))])
    assert (tmp_path / "latest").is_symlink()
    assert nd.load(str(tmp_path / "first"))[0].shape == (3,)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")
def test_a_pipe_is_written_to_and_stays(tmp_path):
    pipe, found = str(tmp_path / "pipe"), []
    os.mkfifo(pipe)

    def read():
        with open(pipe, "rb") as f:
            found.append(f.read())

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    nd.save(pipe, [nd.ones((3,))])
    reader.join(60)
    nd.save(str(tmp_path / "same"), [nd.ones((3,))])
    assert found == [(tmp_path / "same").read_bytes()]
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="open files have no names")
def test_an_open_pipe_is_written_to_by_its_number():
    source, to = os.pipe()
    try:
        replace_file(f"/dev/fd/{to}", b"some bytes")
        assert os.read(source, 100) == b"some bytes"
    finally:
        os.close(source)
        os.close(to)


@pytest.mark.skipif(sys.platform != "linux", reason="files that were deleted have no names")
def test_a_deleted_file_gets_no_name(tmp_path):
    with open(tmp_path / "gone", "w+b") as f:
        os.unlink(tmp_path / "gone")
        replace_file(f"/proc/self/fd/{f.fileno()}", b"some bytes")
        assert f.read() == b"some bytes"
    assert not list(tmp_path.iterdir())


def test_a_link_to_itself_stays(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="loop"):
        replace_file(tmp_path / "loop", b"some bytes")
    assert (tmp_path / "loop").is_symlink()


@pytest.mark.skipif(sys.platform == "win32", reason="files have no such permissions")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_who_may_read_a_file_stays(mode, tmp_path):
    file = tmp_path / "file"
    replace_file(file, b"first")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~mask
    file.chmod(mode)
    replace_file(file, b"second")
    assert file.read_bytes() == b"second"
    assert stat.S_IMODE(file.stat().st_mode) == mode


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_a_file_keeps_its_owner(tmp_path):
    file = tmp_path / "file"
    replace_file(file, b"first")
    os.chown(file, 1234, 1235)
    replace_file(file, b"second")
    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 1235)


def test_a_long_name_is_written(tmp_path):
    replace_file(tmp_path / ("n" * 255), b"some bytes")
    assert [f.name for f in tmp_path.iterdir()] == ["n" * 255]


@pytest.mark.parametrize(("call", "code"), [("replace", errno.EBUSY), ("open", errno.EROFS), ("open", errno.EACCES)])
def test_a_file_that_nothing_can_be_moved_to_is_written_where_it_is(call, code, tmp_path, monkeypatch):
    """A file that is a mount of its own, or that lies in a folder in which it is the only one this user may change."""
    file = tmp_path / "file"
    file.write_bytes(b"the former one, which is longer")
    number = file.stat().st_ino

    def refuse(name, *args):
        raise OSError(code, os.strerror(code), name)

    monkeypatch.setattr(f"hybridgpu.io.formats.atomic.os.{call}", refuse)
    replace_file(file, b"some bytes")
    monkeypatch.undo()
    assert (file.read_bytes(), file.stat().st_ino) == (b"some bytes", number)
    assert [f.name for f in tmp_path.iterdir()] == ["file"]
    monkeypatch.setattr(f"hybridgpu.io.formats.atomic.os.{call}", refuse)
    with pytest.raises(OSError, match="other") as raised:
        replace_file(tmp_path / "other", b"some bytes")
    monkeypatch.undo()
    assert raised.value.errno == code
    assert [f.name for f in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files have names as soon as there are bytes of them")
@pytest.mark.parametrize("linked", [True, False], ids=["here", "where the file system has no files without names"])
def test_a_file_has_no_name_before_it_is_whole(linked, tmp_path, monkeypatch):
    """So a process that is killed while it writes leaves nothing that anybody would have to delete."""
    file, real, seen = tmp_path / "file", os.link, []
    replace_file(file, b"first")

    def link(*args, **kwargs):
        seen.append([f.name for f in tmp_path.iterdir()])
        if not linked:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        real(*args, **kwargs)

    monkeypatch.setattr("hybridgpu.io.formats.atomic.os.link", link)
    replace_file(file, b"second")
    assert seen == [["file"]]
    assert file.read_bytes() == b"second" and [f.name for f in tmp_path.iterdir()] == ["file"]
