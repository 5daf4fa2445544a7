# SPDX-License-Identifier: Apache-2.0
"""How many threads programs use: what is set, the environment, processors and quotas of control groups."""

import pytest

import hybridgpu as mx
from hybridgpu.core import cgroups, num_threads


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """Three processors, and nothing set."""
    for name in ("HYBRIDGPU_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(num_threads, "available_processors", lambda: 3)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, 3),
        ({"OMP_NUM_THREADS": "2"}, 2),
        ({"OMP_NUM_THREADS": "5,2"}, 5),
        ({"OMP_NUM_THREADS": "many"}, 3),  # not ours to judge
        ({"OMP_NUM_THREADS": "0"}, 3),
        ({"OMP_NUM_THREADS": "2", "HYBRIDGPU_NUM_THREADS": "7"}, 7),
        ({"HYBRIDGPU_NUM_THREADS": " 1 "}, 1),
    ],
)
def test_environment(monkeypatch, environment, expected):
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    assert mx.get_num_threads() == expected


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "99999999"])
def test_the_environment_says_no_number(monkeypatch, text):
    monkeypatch.setenv("HYBRIDGPU_NUM_THREADS", text)
    with pytest.raises(mx.MXNetError, match=f"Invalid Input: '{text}'.* in HYBRIDGPU_NUM_THREADS"):
        mx.get_num_threads()


def test_set_for_a_while():
    with mx.set_num_threads(2):
        assert mx.get_num_threads() == 2
        with mx.set_num_threads(5):
            assert mx.get_num_threads() == 5
        assert mx.get_num_threads() == 2
        with pytest.raises(ZeroDivisionError), mx.set_num_threads(1):
            raise ZeroDivisionError
        assert mx.get_num_threads() == 2
    assert mx.get_num_threads() == 3


def test_set_from_now_on(monkeypatch):
    monkeypatch.setenv("HYBRIDGPU_NUM_THREADS", "4")
    mx.set_num_threads(2)
    assert mx.get_num_threads() == 2
    mx.set_num_threads(None)
    assert mx.get_num_threads() == 4


@pytest.mark.parametrize("count", [0, -2, 1.5, "2", True, 1 << 40])
def test_what_is_no_number_of_threads(count):
    with pytest.raises(mx.MXNetError, match="set_num_threads takes a number of threads"):
        mx.set_num_threads(count)
    assert mx.get_num_threads() == 3


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        # a container sees its own group as the root, whatever it is called outside
        ({"proc/self/cgroup": "0::/../docker/1\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/cpu.max": "100000 100000\n",
                "sys/fs/cgroup/a/b/cpu.max": "400000 100000\n",
            },
            1,
        ),
        (
            {
                "proc/self/cgroup": "5:cpu,cpuacct:/jobs\n4:memory:/jobs\n",
                "sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us": "250000\n",
                "sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us": "100000\n",
            },
            2.5,
        ),
        (
            {
                "proc/self/cgroup": "5:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
        ({"proc/self/cgroup": "what is this\n"}, None),
    ],
)
def test_quotas_of_control_groups(tmp_path, files, expected):
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert cgroups.processor_quota(tmp_path) == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, None),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/memory.max": "1000000\n",
                "sys/fs/cgroup/a/b/memory.max": "max\n",
            },
            1000000,
        ),
        (
            {
                "proc/self/cgroup": "5:cpu:/jobs\n4:memory:/docker/1\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "2000000\n",
            },
            2000000,
        ),
    ],
)
def test_memory_of_control_groups(tmp_path, files, expected):
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert cgroups.memory_limit(tmp_path) == expected


def test_a_quota_is_rounded_up(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(num_threads, "processor_quota", lambda: 1.2)
    monkeypatch.setattr(num_threads.os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    assert num_threads.available_processors.__wrapped__() == 2
