# SPDX-License-Identifier: Apache-2.0
"""From text to kernels: names, options, includes, the cache, and what is said when it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from . import BadLaunch, CompileError, Module, OutOfBounds, ToolMissing, UninitialisedRead, toolchain
from . import module as module_of_compilation
from .elf import variable_name
from .includes import find_includes
from .native import runtime
from .support import kernel_text, launch, out
from .translate import translate

FILL = "__global__ void k(float* o) { o[threadIdx.x] = N; }"


def value(text: str, **how) -> float:
    result = out(32)
    launch(text, result, **how)
    return float(result.get()[0])


def test_options():
    assert value(FILL, options=["-DN=8"]) == 8
    assert value(FILL, options=["-D", "N=7", "-std=c++17", "--use_fast_math", "-lineinfo"]) == 7
    assert value(FILL, options=["--define-macro=N=6", "--gpu-architecture=sm_90"]) == 6
    assert value(FILL, options=["-DN"]) == 1
    assert value("#define N 3\n" + FILL, options=["-DN=8", "-UN"]) == 3
    text = FILL.replace("= N", "= __CUDA_ARCH__")
    assert value(text, options=["-arch=sm_86"]) == 860
    with pytest.raises(CompileError, match="unknown compiler option '--frobnicate'"):
        value(FILL, options=["--frobnicate"])


def test_errors_name_the_line_of_the_kernel_text():
    with pytest.raises(CompileError, match="kernel.cu:3:.*undefined_name"):
        Module("\n\n__global__ void k(float* o) { o[0] = undefined_name; }")
    with pytest.raises(CompileError, match="INFINITY"):  # NVRTC has none either
        Module("__global__ void k(float* o) { o[0] = INFINITY; }")


def test_a_text_without_kernels_is_an_error():
    for text in ("", "int f() { return 1; }", "template <class T> __global__ void k(T* o) {}"):
        with pytest.raises(CompileError, match="no kernel"):
            Module(text)


def test_an_emptied_cache_is_filled_again(tmp_path, monkeypatch):
    for place in (module_of_compilation, toolchain):
        monkeypatch.setattr(place, "cache_dir", lambda: tmp_path)
    module_of_compilation._header.cache_clear()
    assert value(FILL, options=["-DN=8"]) == 8
    for kept in tmp_path.iterdir():
        shutil.rmtree(kept) if kept.is_dir() else kept.unlink()
    assert value(FILL, options=["-DN=9"]) == 9
    module_of_compilation._header.cache_clear()


def test_includes_are_resolved_and_hashed(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.h").write_text('#pragma once\n#include "deep/b.h"\n')
    (tmp_path / "deep" / "b.h").write_text('#include "c.h"\n')
    (tmp_path / "deep" / "c.h").write_text("#define N 5\n")
    text = '#include "a.h"\n' + FILL
    paths = [Module(text, [tmp_path]).path]
    assert value(text, include_dirs=[tmp_path]) == 5
    (tmp_path / "deep" / "c.h").write_text("#define N 66\n")
    assert value(text, include_dirs=[tmp_path]) == 66
    assert value(text, options=[f"-I{tmp_path}"]) == 66
    paths.append(Module(text, [tmp_path]).path)
    assert len(set(paths)) == 2
    with pytest.raises(CompileError, match="missing.h"):
        Module('#include "missing.h"\n' + FILL, [tmp_path])


def test_an_include_by_macro_counts_every_file(tmp_path):
    (tmp_path / "one.h").write_text("#define N 1\n")
    text = '#define FILE "one.h"\n#include FILE\n' + FILL
    assert value(text, include_dirs=[tmp_path]) == 1
    (tmp_path / "one.h").write_text("#define N 22\n")
    assert value(text, include_dirs=[tmp_path]) == 22
    assert [p.name for p in find_includes(text, [tmp_path]).files] == ["one.h"]


def test_faults_in_included_files_name_them(tmp_path):
    (tmp_path / "put.h").write_text("\n__device__ inline void put(float* o, int i) {\n  o[i] = 1;\n}\n")
    text = '#include "put.h"\n\n__global__ void k(float* o) {\n  put(o, 64);\n}'
    with pytest.raises(OutOfBounds, match=r"put.h:3\n.*kernel.cu:4: put\(o, 64\);") as caught:
        launch(text, out(), include_dirs=[tmp_path])
    assert caught.value.where == ("put.h:3", "kernel.cu:4")
    assert caught.value.line == 4


def test_the_projects_headers_compile():
    """A kernel as the generator writes it, with the project's own kernels folder."""
    folder = Path(__file__).resolve().parents[2] / "kernels"
    text = """#include "cuda.h"
    extern "C" __global__ void HG_BOUNDS(256) k(
        const float* HG_RESTRICT a, float* HG_RESTRICT o, long long n) {
      typedef long long Index;
      HG_GRID(i, n / 4) hg::store(o + i * 4, hg::load<4>(a + i * 4));
    }"""
    module = Module(text, [folder])
    assert module.names == ["k"]
    assert module["k"].param_names == ["a", "o", "n"]
    with pytest.raises(BadLaunch, match="__launch_bounds__"):
        module["k"](1, 257, (None, None, np.int64(0)))


def test_the_examples_need_none_of_nvidias_headers(monkeypatch):
    monkeypatch.setattr(module_of_compilation, "nvidia_includes", lambda: ())
    for name in ("fused_elementwise", "row_softmax", "gemv_bias_relu"):
        assert Module(kernel_text(name)).names == [name]
    text = FILL.replace("= N", "= make_float4(1, 2, 3, 4).w + dim3(7).y + sizeof(uchar4)")
    assert value(text) == 9


# ---------------------------------------------------------------------------------- translation
DECLARATIONS = """
extern "C" __global__ void __launch_bounds__(8 * 16, 2) first(const float* __restrict__ a, int n) {}
extern "C" {
__launch_bounds__(LIMIT) __global__ void second(float (*f)(int, int), S p = {}) { g([] { h(); }); }
}
namespace a::b {
namespace { }
static __global__ __attribute__((noinline)) void third() { if (1) { } }
}
__global__ void later(int n);
template <class T, int N = (1 > 0)> __global__ void fourth(T* __restrict x, pair<T, T> y) {}
__global__ void __cluster_dims__(2, 1, 1) fifth(float *__restrict__ q = 0, int) {}
"""


def test_declarations_are_found():
    kernels = {k.name: k for k in translate('# 1 "kernel.cu"\n' + DECLARATIONS, bool).kernels}
    assert list(kernels) == ["first", "second", "third", "fourth", "fifth"]
    assert kernels["first"].max_threads == 128
    assert [(p.name, p.restrict) for p in kernels["first"].params] == [("a", True), ("n", False)]
    assert kernels["second"].max_threads is None
    assert kernels["third"].qualified == "a::b::third"
    assert kernels["third"].params == ()
    assert kernels["fourth"].template
    assert [p.restrict for p in kernels["fourth"].params] == [True, False]
    assert kernels["fifth"].cluster == (2, 1, 1)
    assert [(p.name, p.restrict) for p in kernels["fifth"].params] == [("q", True), ("", False)]


def test_translation_keeps_lines():
    text = '# 1 "kernel.cu"\n__global__ void\n__launch_bounds__(\n 3\n)\n'
    text += "k(int a) {\n __shared__ int s; }\n"
    lines = translate(text, bool).text.splitlines()
    assert len(lines) == len(text.splitlines())
    assert lines[5] == "k(int a) {"
    assert lines[6] == " thread_local int s; }"


def test_system_text_is_left_alone():
    text = '# 1 "/usr/include/x.h" 1 3\nint f() __asm__("g"); int __shared__;\n'
    text += '# 2 "kernel.cu" 2\nint s;\n'
    assert translate(text, lambda name: name == "kernel.cu").text == text


def test_kernels_in_namespaces_overloads_and_name_expressions():
    text = """
    namespace deep { template <int N> __global__ void k(int* o) { *o = N; } }
    namespace plain { __global__ void k(int* o) { *o = 7; } }
    __global__ void alone(int* o) { *o = 9; }
    """
    result = out(1, np.int32)
    module = Module(text, names=["deep::k<5>", "deep::k<2 + 3>", "plain::k", "alone"])
    for name, expected in [("deep::k<5>", 5), ("plain::k", 7), ("alone", 9), ("deep::k<2 + 3>", 5)]:
        module[name](1, 1, (result,))
        assert result.get()[0] == expected
    assert Module(text).names == ["k", "alone"]
    with pytest.raises(KeyError, match="no kernel 'other'; there are"):
        module["other"]


def test_kernels_made_by_macros():
    text = """
    #define KERNEL(name, v) extern "C" __global__ void name(float* o) { o[threadIdx.x] = v; }
    KERNEL(one, 1)
    KERNEL(two, 2)"""
    module, result = Module(text), out(32)
    assert module.names == ["one", "two"]
    module["two"](1, 32, (result,))
    assert (result.get() == 2).all()


def test_names_of_shared_variables():
    assert variable_name("_ZZ11row_softmaxE4part") == "part"
    assert variable_name("_ZZN3foo1fIfEET_iE1q") == "q"
    assert variable_name("plain") == "plain"


# ----------------------------------------------------------------------------------------- cache
def test_the_same_text_compiles_once(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_ON_CPU_CACHE", str(tmp_path))
    toolchain.cache_dir.cache_clear()
    try:
        text = "__global__ void k(float* o) { o[0] = 123; }"
        path = Module(text).path
        stamp = path.stat().st_mtime_ns
        assert path.parent == tmp_path
        assert Module(text).path == path
        assert path.stat().st_mtime_ns == stamp
        with pytest.raises(CompileError):
            Module("__global__ void k() { bad }")
        assert not [p for p in tmp_path.iterdir() if p.name.startswith("build-")]
    finally:
        toolchain.cache_dir.cache_clear()


def test_many_processes_may_compile_the_same_text_at_once(tmp_path):
    shutil.copy(runtime()._name, tmp_path)  # which takes seconds, and is put into place as the rest is
    script = textwrap.dedent("""
        import numpy as np
        from cuda_on_cpu import Buffer, Module
        for i in range(3):
            text = "__global__ void k(float* o) { o[threadIdx.x] = %d; }" % i
            out = Buffer.empty(32, np.float32)
            Module(text)["k"](1, 32, (out,))
            assert (out.get() == i).all()
        """)
    environment = {
        "PATH": "/usr/bin:/bin",
        "CUDA_ON_CPU_CACHE": str(tmp_path),
        "PYTHONPATH": str(Path(__file__).resolve().parents[1]),
        **({"CXX": os.environ["CXX"]} if "CXX" in os.environ else {}),
    }
    running = [
        subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=subprocess.PIPE) for _ in range(2)
    ]
    for process in running:
        _, errors = process.communicate()
        assert process.returncode == 0, errors.decode()
    left = sorted(p.name.split("-")[0] for p in tmp_path.iterdir())
    assert left == ["header"] + ["kernel"] * 6 + ["runtime"]


def test_old_results_and_abandoned_folders_are_removed(tmp_path, monkeypatch):
    (tmp_path / "build-dead").mkdir()
    (tmp_path / "build-alive").mkdir()
    os.utime(tmp_path / "build-dead", (1, 1))
    for i in range(4):
        (tmp_path / f"kernel-{i}.so").write_bytes(b"x" * 100)
        os.utime(tmp_path / f"kernel-{i}.so", (1000 + i, 1000 + i))
    monkeypatch.setattr(toolchain, "CACHE_BYTES", 250)
    toolchain._tidy(tmp_path)
    left = sorted(p.name for p in tmp_path.iterdir())
    assert left == ["build-alive", "kernel-2.so", "kernel-3.so"]


def test_a_missing_compiler_is_said_clearly(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    for name in ("compiler", "_version_of"):
        getattr(toolchain, name).cache_clear()
    try:
        with pytest.raises(ToolMissing, match=r"needs g\+\+ 12 or later"):
            toolchain.compiler()
        fake = tmp_path / "g++"
        fake.write_text("#!/bin/sh\necho 11.4.0\n")
        fake.chmod(0o755)
        toolchain._version_of.cache_clear()
        with pytest.raises(ToolMissing, match=r"needs g\+\+ 12 or later"):
            toolchain.compiler()
        monkeypatch.setenv("CXX", str(fake))
        with pytest.raises(ToolMissing, match="is not g"):
            toolchain.compiler()
    finally:
        for name in ("compiler", "_version_of"):
            getattr(toolchain, name).cache_clear()


#: kernels with shared memory of their own, dynamic shared memory, none, fences, and a fault each: the line of the access
TOGETHER = {
    "first": "__shared__ float s[32]; s[threadIdx.x] = 1;\n__syncthreads(); float* p = s; o[threadIdx.x] = p[threadIdx.x + n];",
    "second": "__shared__ float t[64], u[32]; t[threadIdx.x] = u[threadIdx.x] = 2;\n\nu[threadIdx.x + n] = 3; o[threadIdx.x] = t[threadIdx.x];",
    "third": "extern __shared__ float d[]; d[threadIdx.x + n] = 4; o[threadIdx.x] = d[threadIdx.x];",
    "fourth": "o[threadIdx.x + n] = helper(n); __threadfence();",
}


def test_texts_that_are_compiled_as_one_become_what_each_is_alone(tmp_path, monkeypatch):
    helper = "static __device__ float helper(int n) { return n + 5; }\n"
    texts = {
        name: f'{helper if name == "fourth" else ""}extern "C" __global__ void {name}(float* o, int n) {{\n{body}\n}}'
        for name, body in TOGETHER.items()
    }
    found = {}
    for way in ("alone", "together"):
        (tmp_path / way).mkdir()
        for place in (module_of_compilation, toolchain):
            monkeypatch.setattr(place, "cache_dir", lambda way=way: tmp_path / way)
        monkeypatch.setattr(module_of_compilation, "_loaded", {})
        if way == "together":
            monkeypatch.setattr(module_of_compilation, "_build", counted := Counted(module_of_compilation._build))
            assert Module.prepare([(text, [name]) for name, text in texts.items()]) == len(texts)
            assert Module.prepare([(text, [name]) for name, text in texts.items()]) == 0
            assert counted.calls == 1
        for name, text in texts.items():
            module = Module(text, names=[name])
            results, faults = out(32), []
            module[name](1, 32, (results, np.int32(0)), shared_mem=128)
            for reach in (1, 40):
                with pytest.raises((OutOfBounds, UninitialisedRead)) as fault:
                    module[name](1, 32, (out(32), np.int32(reach)), shared_mem=128)
                faults.append(str(fault.value))
            found.setdefault(name, []).append([results.get().tolist(), faults, module.loaded.description])
        assert way == "alone" or counted.calls == 1
    for name, (alone, together) in found.items():
        assert alone == together, name
    assert found["second"][0][0] == [2.0] * 32 and "kernel.cu:4" in found["second"][0][1][0]


def test_a_text_that_does_not_compile_is_left_to_its_module():
    good, bad = (f'extern "C" __global__ void k{n}(float* o) {{ o[threadIdx.x] = {n}; }}' for n in ("1", "x"))
    assert Module.prepare([(good, ["k1"]), (bad, ["kx"])]) in (0, 2)
    with pytest.raises(CompileError, match="kernel.cu:1:"):
        Module(bad, names=["kx"])
    assert launch(good, out(32), name="k1", names=["k1"])


class Counted:
    """A function, and how often it was called."""

    def __init__(self, function) -> None:
        self.function, self.calls = function, 0

    def __call__(self, *args):
        self.calls += 1
        return self.function(*args)
