# SPDX-License-Identifier: Apache-2.0
"""Programs under MXNet's name: ``hybridgpu run`` and ``install_as_mxnet()``, each in a Python of its own.

An ``mxnet`` that raises is in front of everything on ``sys.path``, as a program's own folder or checkout could have it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from docs.pages import blocks

import hybridgpu

ROOT = Path(hybridgpu.__file__).resolve().parents[1]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mxnet").mkdir()
    (tmp_path / "mxnet" / "__init__.py").write_text("raise SystemExit('the other mxnet')")
    (tmp_path / "elsewhere").mkdir()
    return tmp_path


def start(folder: Path, *arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", **environment}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=folder, env=env, input=stdin, timeout=300
    )


def run(folder: Path, code: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(code)
    return start(folder, "-m", "hybridgpu", "run", *options, "script.py", **environment)


#: what holds in a program, whichever way MXNet's name was taken
HOLDS = {
    "the version is MXNet's, ours stays": f"mx.__version__ == mx.libinfo.__version__ == '1.9.1' and hybridgpu.__version__ == '{hybridgpu.__version__}'",
    "another module of another name": "mx is not hybridgpu and mx.__name__ == 'mxnet' and sys.modules['mxnet'] is mx",
    "everything below is the same": "all(getattr(mx, n) is getattr(hybridgpu, n) for n in ('nd', 'sym', 'gluon', 'Context', 'MXNetError'))",
    "modules": "mxnet.gluon.nn is hybridgpu.gluon.nn and sys.modules['mxnet.gluon.nn'] is hybridgpu.gluon.nn",
    "their names stay": "hybridgpu.gluon.nn.__spec__.name == 'hybridgpu.gluon.nn' and mx.gluon.nn.Dense.__module__.startswith('hybridgpu')",
    "classes that are printed": "[f'{t.__module__}.{t.__name__}' for t in CLASSES] == NAMES",
    "pickles do not need it": "not [t for t in (mx.nd.ones(2), mx.np.ones(2), mx.MXNetError('x')) if b'mxnet' in pickle.dumps(t)]",
    "modules that are part of others": "Dense is hybridgpu.gluon.nn.Dense and KVStoreBase is hybridgpu.kvstore.KVStoreBase",
    "namespaces": "foreach is hybridgpu.nd.contrib.foreach",
    "import_module": "importlib.import_module('mxnet.gluon.loss') is hybridgpu.gluon.loss",
    "relative": "importlib.import_module('.data', 'mxnet.gluon') is hybridgpu.gluon.data",
    "who asks": "importlib.util.find_spec('mxnet.initializer') and not importlib.util.find_spec('mxnet.nothing')",
    "names by text": "pydoc.locate('mxnet.optimizer.Adam') is hybridgpu.optimizer.Adam",
    "class paths in pickles": r"pickle.loads(b'cmxnet.lr_scheduler\nFactorScheduler\n.') is hybridgpu.lr_scheduler.FactorScheduler",
    "pickles": "(pickle.loads(pickle.dumps(mx.nd.arange(3))) == mx.nd.arange(3)).min() == 1",
    "metadata": "importlib.metadata.version('mxnet') == '1.9.1'",
    "what is set": "setattr(mx, 'thing', 3) or hybridgpu.thing == 3 and mx.thing == 3",
    "what is set in place of a module": "[mx.viz, setattr(mx, 'viz', 4), mx.viz, hybridgpu.viz][2:] == [4, 4]",
    "what is set elsewhere": "setattr(hybridgpu, 'other', 5) or mx.other == 5",
    "what is deleted": "delattr(mx, 'other') or not hasattr(hybridgpu, 'other')",
    "again": "hybridgpu.install_as_mxnet() is None and importlib.reload(mx) is mx and mx.__version__ == '1.9.1'",
    "modules of Python's that MXNet imports": "multiprocessing.pool.ThreadPool and urllib.request.urlopen and concurrent.futures",
    "completion": "{'nd', 'gluon', 'cpu', 'MXNetError'} <= {*dir(mx)}",
    "a star": "exec('from mxnet import *', names := {}) or {'nd', 'autograd', 'cpu', 'Context'} <= {*names}",
}  # fmt: skip
NAMES = """
mxnet.base.MXNetError mxnet.ndarray.ndarray.NDArray mxnet.numpy.ndarray mxnet.symbol.symbol.Symbol mxnet.symbol.numpy._Symbol
""".split()
CHECK = f"""
import concurrent, multiprocessing, urllib
import importlib, importlib.metadata, importlib.util, pickle, pydoc, sys
import hybridgpu
import mxnet
import mxnet as mx
import mxnet.gluon.nn
from mxnet.gluon.nn.basic_layers import Dense
from mxnet.kvstore.base import KVStoreBase
from mxnet.ndarray.contrib import foreach

CLASSES, NAMES = [mx.MXNetError, mx.nd.NDArray, mx.np.ndarray, mx.sym.Symbol, mx.sym.np._Symbol], {NAMES!r}
for what, condition in {HOLDS!r}.items():
    if not eval(condition):
        print(what)
"""


def test_what_holds_in_a_program_that_is_run(folder):
    done = run(folder, f"import sys\nsys.path.insert(0, {str(folder)!r})\n{CHECK}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_holds_where_it_was_installed(folder):
    done = start(folder, "-c", f"import hybridgpu\nhybridgpu.install_as_mxnet()\n{CHECK}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


#: statement -> the end of what it says
ERRORS = {
    "mx.gluom": "AttributeError: module 'mxnet' has no attribute 'gluom'; did you mean gluon?",
    "from mxnet import gluom": "ModuleNotFoundError: module 'mxnet' has no attribute 'gluom'; did you mean gluon?",
    "import mxnet.gluon.nothing_like_it": "ModuleNotFoundError: No module named 'mxnet.gluon.nothing_like_it'",
    "from mxnet.gluon.nn import Linear": "no attribute 'Linear'\nWrite nn.Dense(units, in_units=..., flatten=False). (script.py:3)",
}


@pytest.mark.parametrize("statement", ERRORS)
def test_what_is_not_there(folder, statement):
    done = run(folder, f"\nimport mxnet as mx\n{statement}")
    assert done.returncode == 1 and done.stderr.endswith(ERRORS[statement] + "\n"), done.stderr


WORKERS = """
import multiprocessing, sys
{first}
def work(x):
    import mxnet as mx
    from mxnet.gluon import nn
    return mx.__version__, str(mx.gpu(1)), float(nn.Lambda("relu")(x).sum().asscalar())

if __name__ == "__main__":
    import mxnet as mx
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        print(*pool.apply(work, (mx.nd.array([-1, 2]),)))
    multiprocessing.set_start_method(sys.argv[1], force=True)
    loader = mx.gluon.data.DataLoader(mx.gluon.data.SimpleDataset([1, 2]).transform(Worker()), 2, num_workers=1)
    print(*[batch.asnumpy() for batch in loader])
"""
DATASET = """
class Worker:
    def __call__(self, x):
        import mxnet
        return x + 10 * (mxnet.__version__ == "1.9.1")
"""


@pytest.mark.long_table
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("way", ["run", "run --cpu", "install"])
def test_workers(folder, way, method):
    first = {"install": "import hybridgpu\nhybridgpu.install_as_mxnet(cpu=True)\n"}.get(way, "") + DATASET
    (folder / "elsewhere" / "script.py").write_text(WORKERS.format(first=first))
    (folder / "elsewhere" / "mxnet.py").write_text("raise SystemExit('the other mxnet')" if "run" in way else "")
    command = ["-m", "hybridgpu", *way.split()] if "run" in way else []
    done = start(folder, *command, "elsewhere/script.py", method)
    gpu = "gpu(1)" if way == "run" else "cpu(1)"
    assert (done.stdout, done.stderr) == (f"1.9.1 {gpu} 2.0\n[11 12]\n", "")


def test_programs_that_are_started_from_it(folder):
    code = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', 'import mxnet; print(mxnet.__version__, mxnet.cpu())']))"
    done = run(folder, code)
    assert (done.stdout, done.stderr) == ("1.9.1 cpu(0)\n", "")


def test_an_mxnet_that_is_imported_already(folder):
    (folder / "mxnet" / "__init__.py").write_text("")
    done = start(folder, "-c", "import mxnet, hybridgpu; hybridgpu.install_as_mxnet()")
    path = folder / "mxnet" / "__init__.py"
    assert f"MXNetError: mxnet has been imported already, from {path}\nCall hybridgpu.install_as_mxnet()" in done.stderr


PROGRAM = """
import sys
print(__name__, sys.argv[1:], __spec__ is None, __file__.endswith("script.py"), sys.path[0].endswith("script"))
class Here: pass
print(Here.__module__, sys.modules["__main__"].Here is Here)
"""


def test_it_is_run_as_python_runs_it(folder):
    (folder / "elsewhere" / "script.py").write_text(PROGRAM)
    (folder / "elsewhere" / "__main__.py").write_text(PROGRAM)
    for arguments in (["elsewhere/script.py", "--cpu", "-m", "x"], ["-m", "elsewhere.script", "-h"], ["elsewhere"]):
        ours, pythons = start(folder, "-m", "hybridgpu", "run", *arguments), start(folder, *arguments)
        assert (ours.returncode, ours.stdout, ours.stderr) == (pythons.returncode, pythons.stdout, pythons.stderr)
        assert ours.stdout


@pytest.mark.parametrize(
    ("end", "code", "text"),
    [
        ("raise SystemExit(7)", 7, ""),
        ("raise SystemExit('that was it')", 1, "that was it\n"),
        ("x = 1 / 0", 1, 'File "{}", line 2, in <module>\n    x = 1 / 0\n'),
        ("raise KeyboardInterrupt", -signal.SIGINT, "KeyboardInterrupt\n"),
        ("import os; os.kill(os.getpid(), 15)", -signal.SIGTERM, ""),
    ],
)  # fmt: skip
def test_how_it_ends(folder, end, code, text):
    done = run(folder, f"import mxnet\n{end}")
    assert done.returncode == code
    assert text.format(folder / "script.py") in done.stderr and bool(text) == bool(done.stderr)
    assert "hybridgpu" not in done.stderr  # no frames of ours before the program's


def test_flags_of_python_go_on(folder):
    done = start(folder, "-X", "dev", "-W", "error", "-m", "hybridgpu", "run", "-O", "-c", "import sys; print(sys.flags.dev_mode, sys.warnoptions, __debug__)")  # fmt: skip
    assert done.stdout == "True ['default', 'error'] False\n"


@pytest.mark.parametrize("option", ["-I", "-bE", "-S"])
def test_options_that_hide_it(folder, option):
    done = start(folder, "-m", "hybridgpu", "run", option, "-c", "pass")
    assert done.returncode == 2 and f"Error: {option} makes Python ignore the environment" in done.stderr
    done = start(ROOT, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); from hybridgpu.cli import main; main(['run', '-c', 'pass'])")  # fmt: skip
    assert done.returncode == 2 and "Error: this Python ignores the environment" in done.stderr


def test_without_a_program_it_is_interactive(folder):
    done = start(folder, "-m", "hybridgpu", "run", stdin="import mxnet as mx\nprint(mx.nd.ones((2,)).asnumpy())")
    assert (done.stdout, done.stderr) == ("[1. 1.]\n", "")


def test_another_sitecustomize_is_still_run(folder):
    (folder / "sitecustomize.py").write_text("import sys; sys.theirs = __file__")
    done = run(folder, "import sys, mxnet; print(mxnet.__version__, sys.theirs.endswith('sitecustomize.py'))")
    assert (done.stdout, done.stderr) == ("1.9.1 True\n", "")


def test_nothing_of_it_is_imported_by_a_process_that_does_not_ask(folder):
    done = run(folder, "import sys; print([m for m in sys.modules if 'numpy' in m or 'hybridgpu' in m])")
    assert (done.stdout, done.stderr) == ("[]\n", "")


#: statement -> what it prints under --cpu
GPUS = {
    "mx.gpu(), mx.gpu(3), mx.Context('gpu', 1)": "(cpu(0), cpu(3), cpu(1))",
    "mx.num_gpus(), mx.context.num_gpus()": "(1, 1)",
    "[mx.gpu(i) for i in range(mx.num_gpus())]": "[cpu(0)]",
    "mx.nd.ones((2,), ctx=mx.gpu()).context": "cpu(0)",
    "mx.nd.ones((2,)).as_in_context(mx.gpu(1)).context": "cpu(1)",
    "len(mx.gluon.utils.split_and_load(mx.nd.ones((4, 2)), [mx.gpu(0), mx.gpu(1)]))": "2",
    "len(mx.context.gpu_memory_info()), mx.context.gpu_memory_info()[1] > 2**20": "(2, True)",
}


def test_gpus_can_be_the_cpu(folder):
    code = "import mxnet as mx\n" + "".join(
        f"print({statement if ',' not in statement else f'({statement})'})\n" for statement in GPUS
    )
    done = run(folder, code, "--cpu")
    assert (done.stdout.splitlines(), done.stderr) == ([*GPUS.values()], "")


def test_without_it_they_are_not(folder):
    if hybridgpu.num_gpus():
        pytest.skip("there is a GPU here")
    done = run(folder, "import mxnet as mx\nprint(mx.num_gpus(), mx.gpu())\nmx.nd.ones((2,), ctx=mx.gpu())")
    assert done.stdout == "0 gpu(0)\n" and "MXNetError: gpu(0) cannot be used" in done.stderr


def test_readmes_first_example(folder, compiler):
    first = blocks((ROOT / "README.md").read_text(encoding="utf-8"))[0]
    assert first.code.startswith("import hybridgpu as mx\nfrom hybridgpu import ")
    done = run(folder, first.code.replace("hybridgpu", "mxnet"))
    assert (done.stdout, done.stderr) == (first.output, "")
