# SPDX-License-Identifier: Apache-2.0
"""Workers of a DataLoader that fail, end, are late, are interrupted, or cannot start; loaders inside loaders."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.gluon import nn
from hybridgpu.gluon.data import ArrayDataset, DataLoader, Dataset

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="datasets here are closures")

WAYS = {"here": {}, "processes": {"num_workers": 2}, "threads": {"num_workers": 2, "thread_pool": True}}


class Samples(Dataset):
    """Sample ``k`` is ``of(k)``."""

    def __init__(self, of, length=8):
        self._of, self._length = of, length

    def __len__(self):
        return self._length

    def __getitem__(self, k):
        return self._of(k)


def values(loader):
    return [v for batch in loader for v in batch.asnumpy().tolist()]


class Unpicklable(BaseException):
    """Cannot be made again of its text, and is no Exception either."""

    def __init__(self, place, number):
        super().__init__(f"{place} {number}")


ERRORS = [
    SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError("m"), OSError(28, "full"), RecursionError("r"),
    TimeoutError("of a server"), mx.MXNetError("m"), Unpicklable("a", 1), IndexError("i"),
]  # fmt: skip


@pytest.mark.long_table
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", ["dataset", "batchify_fn"])
def test_an_error_of_any_kind_arrives_and_the_loader_goes_on(way, place):
    for error in ERRORS:
        armed = multiprocessing.Value("b", True)

        def fail(armed=armed, error=error):
            if armed.value:
                armed.value = False
                raise error

        def sample(k, fail=fail):
            if k == 3 and place == "dataset":
                fail()
            return k

        def together(data, fail=fail):
            if data[0] == 2 and place == "batchify_fn":
                fail()
            return np.array(data)

        loader = DataLoader(Samples(sample), 2, batchify_fn=together, timeout=60, **WAYS[way])
        with pytest.raises(BaseException) as raised:  # noqa: PT011 (whichever it is)
            list(loader)
        told = f"{raised.type.__name__}: {raised.value}"
        assert type(error).__name__ in told and str(error) in told
        assert [v for batch in loader for v in np.array(getattr(batch, "asnumpy", lambda b=batch: b)())] == list(
            range(8)
        )


def test_a_function_of_the_program_puts_batches_together():
    """A closure, which cannot be pickled."""
    scale = 3
    loader = DataLoader(Samples(float), 4, batchify_fn=lambda data: np.array(data) * scale, num_workers=2)
    assert values(loader) == [3.0 * k for k in range(8)]


def test_a_worker_that_ends_between_passes_is_replaced():
    loader = DataLoader(Samples(int), 2, num_workers=2)
    assert values(loader) == list(range(8))
    for _ in range(3):
        victim = next(iter(loader._hg_pool._processes))
        os.kill(victim, signal.SIGKILL)
        until = time.monotonic() + 30
        while not loader._hg_pool._broken and time.monotonic() < until:
            time.sleep(0.01)
        assert values(loader) == list(range(8))


def test_two_passes_at_once_lose_a_worker():
    loader = DataLoader(Samples(lambda k: time.sleep(0.01) or k, 40), 2, num_workers=2)
    one, other = iter(loader), iter(loader)
    next(one), next(other)
    os.kill(next(iter(loader._hg_pool._processes)), signal.SIGKILL)
    for batches in (one, other):
        with pytest.raises(RuntimeError, match="A worker of the DataLoader ended"):
            list(batches)
    assert values(loader) == list(range(40))


@pytest.mark.parametrize("way", ["processes", "threads"])
def test_after_a_batch_that_was_late_the_next_pass_works(way):
    late = multiprocessing.Value("b", True)

    def sample(k):
        if k == 3 and late.value:
            late.value = False
            time.sleep(1.5)
        return k

    loader = DataLoader(Samples(sample), 2, timeout=0.5, **WAYS[way])
    with pytest.raises(RuntimeError, match=r"Worker timed out after 0\.5 seconds"):
        list(loader)
    loader._timeout = 60
    assert values(loader) == list(range(8))


@pytest.mark.parametrize("inner", ["processes", "threads"])
@pytest.mark.parametrize("made", ["by the parent", "by the worker"])
def test_a_loader_inside_a_worker(inner, made):
    """One that was made, and used, before the fork has no workers in the child."""
    of_parent = DataLoader(ArrayDataset(np.arange(6.0)), 2, **WAYS[inner])
    assert values(of_parent) == list(range(6))
    of_parent.refresh()

    def sample(k):
        loader = of_parent if made == "by the parent" else DataLoader(ArrayDataset(np.arange(6.0)), 2, **WAYS[inner])
        return np.array(values(loader)) * k

    got = np.concatenate([b.asnumpy() for b in DataLoader(Samples(sample, 4), 2, num_workers=2, timeout=60)])
    np.testing.assert_array_equal(got, np.outer(range(4), range(6)))
    assert values(of_parent) == list(range(6))


@pytest.mark.parametrize("passes", [20, pytest.param(2000, marks=pytest.mark.exhaustive)])
def test_many_passes_and_loaders_leave_nothing(passes):
    def held():
        return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    loader = DataLoader(Samples(lambda k: np.full((10,), k), 20), 4, num_workers=2)
    values(loader)
    before = held(), len(multiprocessing.active_children()), threading.active_count()
    for _ in range(passes):
        assert len(list(loader)) == 5
    for _ in range(passes // 10):
        other = DataLoader(Samples(int, 4), 2, num_workers=2)
        assert values(other) == list(range(4))
        del other
    until = time.monotonic() + 30
    while time.monotonic() < until:
        after = held(), len(multiprocessing.active_children()), threading.active_count()
        if all(a <= b for a, b in zip(after, before, strict=True)):
            return
        time.sleep(0.02)
    assert after <= before, "files, processes or threads were left"


@pytest.mark.parametrize("size", [1 << 20, pytest.param(600 << 20, marks=pytest.mark.exhaustive)])
def test_large_batches(size):
    """More than a pipe holds; with 2.4 GB more than 32 bits count."""
    loader = DataLoader(Samples(lambda k: np.full((size,), k, "float32"), 2), 1, num_workers=1)
    for k, batch in enumerate(loader):
        assert batch.shape == (1, size) and batch[0, -1].asscalar() == k


def test_nets_arrays_and_gradients_of_the_parent(compiler):
    """Used before the fork: arrays of a tape, a net that was trained; trained on in the workers, whose nets are theirs."""
    x = nd.array(np.linspace(-1, 1, 40).reshape(10, 4))
    x.attach_grad()
    with autograd.record():
        y = x * 2
    net = nn.HybridSequential()
    net.add(nn.Dense(3, activation="relu", in_units=4), nn.BatchNorm(in_channels=3))
    net.initialize(mx.init.One())
    net.hybridize(static_alloc=True, static_shape=True)
    with autograd.record():
        loss = net(x).sum()
    loss.backward()
    before = {k: p.data().asnumpy() for k, p in net.collect_params().items()}

    def trained(sample):
        with autograd.record():
            out = net(sample.reshape((1, -1)))
        out.backward()
        return net(sample.reshape((1, -1)))[0]

    got = np.concatenate([b.asnumpy() for b in DataLoader(ArrayDataset(y).transform(trained), 3, num_workers=2)])
    assert got.shape == (10, 3) and np.isfinite(got).all()
    for name, p in net.collect_params().items():
        np.testing.assert_array_equal(p.data().asnumpy(), before[name])
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), np.full((10, 4), 2.0))


# -- programs of their own

SPAWNS = """
import multiprocessing, sys
import numpy as np
import hybridgpu as mx
from hybridgpu.gluon import nn
from hybridgpu.gluon.data import ArrayDataset, DataLoader

class Features:
    def __init__(self):
        self.net = nn.Dense(2, in_units=3)
        self.net.initialize(mx.init.One())
        self.net.hybridize()
        self.net(mx.nd.ones((1, 3)))

    def __call__(self, x):
        return self.net(mx.nd.array(x).reshape((1, 3)))[0]

if __name__ == "__main__":
    method, default = sys.argv[1:]
    ways = multiprocessing.get_all_start_methods()
    multiprocessing.get_all_start_methods = lambda: sorted(ways, key=lambda way: way != default)
    multiprocessing.set_start_method(method)
    loader = DataLoader(ArrayDataset(np.ones((4, 3), "float32")).transform(Features()), 2, num_workers=1)
    print(sorted({type(p).__name__ for p in multiprocessing.active_children()}))
    print([b.asnumpy().tolist() for b in loader])
"""


def start(tmp_path, text, *args, before=()):
    file = tmp_path / "program.py"
    file.write_text(text)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [*before, sys.executable, str(file), *args],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize(
    ("method", "default", "kind"),
    [
        ("spawn", "fork", "SpawnProcess"),
        ("spawn", "spawn", "SpawnProcess"),  # as on macOS
        pytest.param("forkserver", "fork", "ForkServerProcess", marks=pytest.mark.exhaustive),
        pytest.param(
            "forkserver", "forkserver", "ForkServerProcess", marks=pytest.mark.exhaustive
        ),  # from Python 3.14 on
    ],
)
def test_the_way_to_start_processes_that_was_chosen(method, default, kind, tmp_path):
    """Also where it is the platform's default, which a loader does not take by itself."""
    out, err = start(tmp_path, SPAWNS, method, default).communicate(timeout=120)
    assert out.splitlines() == [f"['{kind}']", str([[[3.0, 3.0]] * 2] * 2)], err


INTERRUPTED = """
import signal
import time
from hybridgpu.gluon.data import DataLoader, Dataset

signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs that a shell has in the background ignore it

class Slow(Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, k):
        time.sleep(0.2 if k else 0)
        return k

loader = DataLoader(Slow(), 1, num_workers=3, prefetch=100)
for batch in loader:
    print("ready", flush=True)
"""


def test_ctrl_c_ends_the_program_at_once_and_is_told_once(tmp_path):
    """100 batches are asked for, which take seven seconds."""
    process = start(tmp_path, INTERRUPTED)
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    began = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert err.count("Traceback") == 1 and err.endswith("KeyboardInterrupt\n"), err
    assert process.returncode == -signal.SIGINT
    assert time.monotonic() - began < 5


NO_ROOM = """
from hybridgpu.gluon.data import DataLoader
print(len(list(DataLoader([1, 2, 3], 1, num_workers=1, thread_pool=True))))
try:
    DataLoader([1, 2, 3], 1, num_workers=1)
except OSError as e:
    print(e)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system of its own")
def test_shared_memory_that_is_full(tmp_path):
    mount = "mount -t tmpfs -o size=4k none /dev/shm && head -c 4096 /dev/zero > /dev/shm/full"
    spaces = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    if subprocess.run([*spaces, "sh", "-c", mount], capture_output=True, check=False).returncode:
        pytest.skip("no mounts here")
    out, err = start(tmp_path, NO_ROOM, before=[*spaces, "sh", "-c", f'{mount} && exec "$@"', "-"]).communicate(
        timeout=60
    )
    assert out.startswith("3\n[Errno 28] No space left on device: the workers of a DataLoader cannot be started\n"), err
    assert "/dev/shm" in out and "thread_pool=True" in out


KILLED = """
import os, time
import numpy as np
from hybridgpu.gluon.data import ArrayDataset, DataLoader, Dataset

class Nested(Dataset):
    def __init__(self):
        self.inner = DataLoader(ArrayDataset(np.arange(4)), 2, num_workers=1)
    def __len__(self):
        return 4
    def __getitem__(self, k):
        return os.getpid(), len(list(self.inner)), next(iter(self.inner._hg_pool._processes))

loader = DataLoader(Nested(), 1, num_workers=2)
seen = [b for batch in loader for b in (batch[0].asnumpy()[0], batch[2].asnumpy()[0])]
print(*sorted({*seen, *loader._hg_pool._processes, *loader._dataset.inner._hg_pool._processes}), flush=True)
{end}
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks for processes")
@pytest.mark.parametrize("end", ["time.sleep(600)", ""], ids=["killed", "ended"])
def test_no_worker_outlives_its_program(end, tmp_path):
    """Workers of workers neither."""
    process = start(tmp_path, KILLED.replace("{end}", end))
    workers = [int(pid) for pid in process.stdout.readline().split()]
    assert len(workers) >= 4
    if end:
        process.kill()
    _, err = process.communicate(timeout=60)  # its workers hold the pipes
    assert (process.returncode, err) == (-signal.SIGKILL if end else 0, "")

    def living():
        return [
            pid for pid in workers if os.path.exists(f"/proc/{pid}/stat") and " Z " not in read(f"/proc/{pid}/stat")
        ]

    def read(file):
        try:
            with open(file) as f:
                return f.read()
        except OSError:
            return " Z "

    until = time.monotonic() + 30
    while living() and time.monotonic() < until:
        time.sleep(0.05)
    assert not living()
