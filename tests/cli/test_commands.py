# SPDX-License-Identifier: Apache-2.0
"""The command line but for the benchmark: what it prints, its exit codes, what importing it costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import hybridgpu
from hybridgpu.backends.devices import use_gpu_devices
from hybridgpu.cache.disk_cache import default_store, reset_default_store
from hybridgpu.cli import main
from hybridgpu.cli.bench import children

ROOT = Path(hybridgpu.__file__).resolve().parents[1]


@pytest.fixture
def run():
    def invoke(*arguments: str, **options):
        return CliRunner().invoke(main, arguments, **options)

    return invoke


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache folder with two entries and a file that is nobody's."""
    monkeypatch.setenv("HYBRIDGPU_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("HYBRIDGPU_CACHE", raising=False)
    reset_default_store()
    store = default_store()
    store.put("so", "ab" * 32, b"12345")
    store.put_json("program", "cd" * 32, [1])
    (tmp_path / "cache" / "ab" / "notes.txt").write_text("mine")
    yield tmp_path / "cache"
    reset_default_store()


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=env, timeout=120)


def test_import_of_the_library_brings_no_command_line():
    code = (
        "import sys, hybridgpu, hybridgpu.gluon, hybridgpu.symbol, hybridgpu.runtime\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('click', 'rich', 'matplotlib') or m == 'hybridgpu.cli'])"
    )
    assert python("-c", code).stdout.strip() == "[]"


@pytest.mark.parametrize("module", ["hybridgpu", "hybridgpu.cli"])
def test_module_runs(module):
    out = python("-m", module, "--version")
    assert out.returncode == 0 and hybridgpu.__version__ in out.stdout


def test_entry_point_is_declared():
    text = (ROOT / "pyproject.toml").read_text()
    assert 'hybridgpu = "hybridgpu.cli:main"' in text


def test_help_names_the_commands(run):
    out = run("--help")
    assert out.exit_code == 0
    for name in ("bench", "cache", "info"):
        assert name in out.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["bench", "--suite", "cnn"],
        ["bench", "--repeat", "0"],
        ["cache", "clear", "--force"],
        ["bench", "--threads", "many"],
    ],
    ids=" ".join,
)
def test_usage_errors_exit_with_2(run, arguments):
    out = run(*arguments)
    assert out.exit_code == 2
    assert out.stderr.strip().splitlines()[-1].startswith("Error: ")


def test_info(run, folder):
    out = run("info")
    assert out.exit_code == 0
    for text in ("hybridgpu", "numpy", "C++ compiler", "features", "NVRTC", "HYBRIDGPU_CACHE_DIR"):
        assert text in out.output


def test_info_as_json(run, folder, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    found = json.loads(run("info", "--json").output)
    assert found["versions"]["hybridgpu"] == hybridgpu.__version__
    assert found["cache"]["entries"] >= 2
    assert found["environment"]["HYBRIDGPU_CACHE_DIR"] == str(folder)
    assert {"CuPy", "CUDA driver", "nvidia-smi", "CUDA_VISIBLE_DEVICES"} <= {
        what for what, _ in found["cuda"]["search"]
    }


def test_info_without_a_compiler_says_so(run, folder, monkeypatch):
    monkeypatch.setenv("HYBRIDGPU_CXX", "none")
    out = run("info")
    assert out.exit_code == 0 and "NumPy runs hybridized graphs" in out.output


def test_info_names_refused_flags(run, folder, monkeypatch, tmp_path):
    """A compiler that takes no -march=native."""
    fake = tmp_path / "cxx"
    fake.write_text(
        "#!/bin/bash\n"
        'case " $* " in *-march=native*) exit 1;; *--version*) echo fake 1.0;; '
        '*" -o "*) while [ "$1" != -o ]; do shift; done; echo > "$2";; esac\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("HYBRIDGPU_CXX", str(fake))
    found = json.loads(run("info", "--json").output)["compiler"]
    assert found["refused"] == ["-march=native"] and found["version"] == "fake 1.0"
    assert "-march=native" not in found["flags"]


def test_info_without_cupy(run, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    out = run("info")
    assert out.exit_code == 0
    assert "not installed" in out.output and "none (it comes with CuPy)" in out.output


def test_cache_info(run, folder):
    out = run("cache", "info")
    assert out.exit_code == 0
    assert str(folder) in out.output and "1.0 GiB" in out.output
    found = json.loads(run("cache", "info", "--json").output)
    assert found == {"folder": str(folder), "entries": 2, "nbytes": 2 * (4 + 32), "limit": 1 << 30}  # with checksums


def test_cache_info_of_a_folder_that_is_not_there(run, monkeypatch, tmp_path):
    monkeypatch.setenv("HYBRIDGPU_CACHE_DIR", str(tmp_path / "none"))
    reset_default_store()
    out = run("cache", "info")
    assert out.exit_code == 0 and "entries  0" in out.output
    assert run("cache", "clear").exit_code == 0
    assert not (tmp_path / "none").exists()
    reset_default_store()


def test_cache_info_says_that_the_cache_is_off(run, folder, monkeypatch):
    monkeypatch.setenv("HYBRIDGPU_CACHE", "0")
    reset_default_store()
    assert "HYBRIDGPU_CACHE=0" in run("cache", "info").output


def test_cache_clear_asks(run, folder):
    out = run("cache", "clear", input="n\n")
    assert out.exit_code == 1 and "Delete 2 entries" in out.output
    assert default_store().usage().entries == 2


def test_cache_clear(run, folder):
    for arguments, text in ((["--yes"], "deleted 2 entries"), ([], "holds nothing")):
        out = run("cache", "clear", *arguments)
        assert out.exit_code == 0 and text in out.output
    assert default_store().usage().entries == 0
    assert (folder / "ab" / "notes.txt").read_text() == "mine", "only entries of the cache are deleted"


def test_cache_clear_after_yes(run, folder):
    assert "deleted 2 entries" in run("cache", "clear", input="y\n").output


def test_cache_clear_that_fails(run, folder, monkeypatch):
    monkeypatch.setattr(type(default_store()), "_discard", staticmethod(lambda file: None))
    out = run("cache", "clear", "--yes")
    assert out.exit_code == 1 and "could not be deleted" in out.stderr


def test_size_that_is_no_number(run, folder, monkeypatch):
    monkeypatch.setenv("HYBRIDGPU_CACHE_SIZE", "big")
    reset_default_store()
    out = run("cache", "info")
    assert out.exit_code == 1
    assert out.stderr.strip() == "Error: HYBRIDGPU_CACHE_SIZE must be a number of bytes, not 'big'"


def test_failures_are_one_line(run, monkeypatch, folder):
    def broken(self):
        raise OSError("the disk is gone\nand more")

    monkeypatch.setattr(type(default_store()), "usage", broken)
    out = run("cache", "info")
    assert out.exit_code == 1 and out.stderr == "Error: the disk is gone\n"


@pytest.fixture(autouse=True)
def _real_gpus():
    """Other tests may have put an emulated GPU in place."""
    from hybridgpu.backends import devices

    held = devices._gpu_factory
    use_gpu_devices(None)
    yield
    use_gpu_devices(held)


def test_bench_gives_every_library_the_same_number_of_threads(monkeypatch):
    monkeypatch.setenv("HYBRIDGPU_NUM_THREADS", "3")
    script = "import hybridgpu; print(hybridgpu.get_num_threads())"
    environment = children._environment("1")
    assert subprocess.check_output([sys.executable, "-c", script], env=environment, text=True).strip() == "1"


@pytest.fixture
def exported(tmp_path):
    net = hybridgpu.gluon.nn.HybridSequential(prefix="net_")
    net.add(hybridgpu.gluon.nn.Dense(4, activation="tanh", in_units=3, prefix="dense_"))
    net.initialize()
    net.hybridize()
    x = hybridgpu.nd.ones((2, 3))
    net(x)
    net.export(str(tmp_path / "net"))
    return tmp_path, net.explain(x)


def test_explain_of_a_file(run, exported):
    folder, report = exported
    file, shape = str(folder / "net-symbol.json"), "--shape=data=2,3"
    for more in ([], [f"--params={folder / 'net-0000.params'}"]):
        out = run("explain", file, shape, *more)
        assert out.exit_code == 0, out.output
        assert out.output.split("\n")[1:] == f"{report}\n".split("\n")[1:]
    text = f"HG_KERNEL {report.kernels[0].name}("
    assert text not in out.output and text in run("explain", file, shape, "--source").output


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ([], 2, "Missing option '--shape'"),
        (["--shape=dat=2,3"], 2, "dat is no input: net-symbol.json has data, dense_weight, dense_bias"),
        (["--shape=data"], 2, "write a name and a value, such as data=1,3,224,224, not 'data'"),
        (["--shape=data=2,x"], 2, "extents are whole numbers, such as 1,3,224,224, not '2,x'"),
        (["--shape=data=2,3", "--type=dense_bias=int32"], 2, "dense_bias has no --shape"),
        (["--shape=data=2,3", "--type=data=int32"], 1, "cast data with astype('float32')"),
        (["--shape=data=2,5", "--params=net-0000.params"], 1, "data of shape (2, 5) needs weight of shape (4, 5)"),
        (["--shape=data=2,3", "--params=net-symbol.json"], 1, "Invalid NDArray file format"),
    ],
    ids=["none", "another", "no value", "no number", "type alone", "type", "extent", "no parameters"],
)
def test_explain_says_what_does_not_fit(run, exported, monkeypatch, arguments, code, text):
    monkeypatch.chdir(exported[0])
    out = run("explain", "net-symbol.json", *arguments)
    assert out.exit_code == code and text in out.output.replace("\n", " ")
