# SPDX-License-Identifier: Apache-2.0
"""mx.rtc: texts that NVRTC compiles here, executed on the CPU under checks; and mx.library, which refuses."""

from __future__ import annotations

import importlib.util
import re

import emulated
import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.base import MXNetError

pytestmark = pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="NVRTC comes with CuPy")

AXPY = r"""
extern "C" __global__ void axpy(const float *x, float *y, float alpha) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  y[i] += alpha * x[i];
}
"""
TEMPLATE = r"""
template <typename T>
__global__ void scale(const T *x, T *y, T alpha, int n) {
  int i = threadIdx.x + blockDim.x * (blockIdx.x + gridDim.x * blockIdx.y);
  if (i < n) y[i] = alpha * x[i];
}
"""
REVERSE = r"""
extern "C" __global__ void reverse(const int64_t *x, int64_t *y, uint8_t shift) {
  extern __shared__ long long kept[];
  kept[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = kept[blockDim.x - 1 - threadIdx.x] + shift;
}
""".replace("int64_t", "long long").replace("uint8_t", "unsigned char")


@pytest.fixture
def gpu():
    emulated.install()
    yield mx.gpu(0)
    emulated.uninstall()


def test_a_kernel(gpu):
    kernel = mx.rtc.CudaModule(AXPY).get_kernel("axpy", "const float *x, float *y, float alpha")
    x, y = nd.arange(12, ctx=gpu), nd.ones((12,), ctx=gpu)
    kernel.launch([x, y, 3], gpu, (3, 1, 1), (4, 1, 1))
    kernel.launch((x, y, np.float64(0.5)), gpu, [3, 1, 1], [4, 1, 1])
    np.testing.assert_array_equal(y.asnumpy(), 1 + 3.5 * np.arange(12, dtype=np.float32))
    np.testing.assert_array_equal(x.asnumpy(), np.arange(12))


@pytest.mark.parametrize(("c", "dtype"), [("float", "float32"), ("double", "float64"), ("int", "int32")])
def test_exported_templates(c, dtype, gpu):
    exports = [f"scale<{t}>" for t in ("float", "double", "int")]
    module = mx.rtc.CudaModule(TEMPLATE, exports=exports)
    kernel = module.get_kernel(f"scale<{c}>", f"const  {c} *,\n {c}* y,{c} alpha , int")
    x = nd.arange(7, ctx=gpu, dtype=dtype)
    y = nd.zeros((7,), ctx=gpu, dtype=dtype)
    kernel.launch([x, y, 2, 7], gpu, (2, 2, 1), (2, 1, 1))
    np.testing.assert_array_equal(y.asnumpy(), 2 * np.arange(7))


def test_shared_memory_and_small_types(gpu):
    kernel = mx.rtc.CudaModule(REVERSE).get_kernel("reverse", "const int64_t *x, int64_t *y, uint8_t shift")
    x, y = nd.arange(8, ctx=gpu, dtype="int64"), nd.zeros((8,), ctx=gpu, dtype="int64")
    kernel.launch([x, y, 3], gpu, (1, 1, 1), (8, 1, 1), 64)
    assert y.asnumpy().tolist() == [10, 9, 8, 7, 6, 5, 4, 3]


def test_writes_are_seen_by_whoever_keeps_something(gpu):
    """What was computed once of a parameter is computed again."""
    net = mx.gluon.nn.Dense(2, in_units=2, use_bias=False)
    net.initialize(mx.init.One(), ctx=gpu)
    net.hybridize()
    x = nd.ones((1, 2), ctx=gpu)
    for _ in range(3):
        net(x)
    kernel = mx.rtc.CudaModule(AXPY).get_kernel("axpy", "const float *x, float *y, float alpha")
    weight = net.weight.data(gpu)
    kernel.launch([nd.ones((4,), ctx=gpu), weight, 2], gpu, (1, 1, 1), (4, 1, 1))
    assert net(x).asnumpy().tolist() == [[6, 6]]
    with autograd.record(), pytest.raises(MXNetError, match="[Ii]nplace"):
        z = weight * 1
        kernel.launch([z, z, 1], gpu, (1, 1, 1), (4, 1, 1))


@pytest.mark.parametrize(
    ("signature", "error", "words"),
    [
        ("const float const *x", ValueError, 'Invalid function prototype "const float const *x"'),
        ("float **x", ValueError, 'Invalid function prototype "float **x"'),
        ("const", ValueError, 'Invalid function prototype "const"'),
        ("", ValueError, 'Invalid function prototype ""'),
        (
            "float *x, long n",
            TypeError,
            "Unsupported kernel argument type long n. Supported types are: float,double,__half,",
        ),
    ],
)
def test_signatures_that_are_refused(signature, error, words):
    with pytest.raises(error, match=re.escape(words)):
        mx.rtc.CudaModule(AXPY).get_kernel("axpy", signature)


def test_calls_that_are_refused(gpu):
    module = mx.rtc.CudaModule(AXPY)
    kernel = module.get_kernel("axpy", "const float *x, float *y, float alpha")
    x, one = nd.ones((4,), ctx=gpu), (1, 1, 1)
    for arguments, error, words in [
        (([x, x, 1], mx.cpu(), one, one), AssertionError, "Cuda kernel can only be launched on GPU"),
        (([x, x], gpu, one, one), AssertionError, r"CudaKernel\(axpy\) expects 3 arguments but got 2"),
        (([x, x, 1], gpu, (1, 1), one), AssertionError, "grid_dims must be a tuple of 3 integers"),
        (([x, x, x], gpu, one, one), AssertionError, "The 2-th argument is expected to be a number, but got"),
        (([x, 1, 1], gpu, one, one), AssertionError, "The 1-th argument is expected to be a NDArray but got"),
        (([x, x.astype("float64"), 1], gpu, one, one), MXNetError, "NDArray of float32 type, but got float64 instead"),
        (([x, nd.ones((4,)), 1], gpu, one, one), MXNetError, r"argument 1 of the kernel is on cpu\(0\)"),
    ]:
        with pytest.raises(error, match=words):
            kernel.launch(*arguments)
    with pytest.raises(MXNetError, match="Cannot find cuda kernel with name 'nothing'"):
        module.get_kernel("nothing", "float *x").launch([x], gpu, one, one)


def test_what_nvrtc_refuses_is_shown():
    with pytest.raises(MXNetError, match=r"source\.cu\(2\): error: .*(?s:.)*undefined"):
        mx.rtc.CudaModule('extern "C" __global__ void k(float *x) {\n  x[0] = missing;\n}')
    with pytest.raises(MXNetError, match="unrecognized option"):
        mx.rtc.CudaModule(AXPY, options="--no-such-option")
    with pytest.raises(MXNetError, match="missing<float>"):
        mx.rtc.CudaModule(TEMPLATE, exports=["missing<float>"])


def test_options_and_machine_code():
    text = 'extern "C" __global__ void k(float *x) { x[0] = VALUE; }'
    module = mx.rtc.CudaModule(text, options=["-DVALUE=2.0f"])
    assert b".entry k(" in module._module.code
    assert mx.rtc.CudaModule(text, ("-DVALUE=1", "-arch=sm_90"))._module.code[:4] == b"\x7fELF"


def test_without_a_gpu():
    if mx.num_gpus():
        pytest.skip("there is one")
    kernel = mx.rtc.CudaModule(AXPY).get_kernel("axpy", "const float *, float *, float")
    x = nd.ones((1,))
    with pytest.raises(MXNetError, match=r"gpu\(0\) cannot be used"):
        kernel.launch([x, x, 1], mx.gpu(0), (1, 1, 1), (1, 1, 1))


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("{0}/nothing.so", "does NOT exist"),
        ("pyproject.toml", "is not an absolute path"),
        ("{0}/lib.txt", "is NOT a library file"),
        ("{0}/lib.so", "it is compiled for MXNet's own library\nWrite a mx.operator.CustomOp"),
    ],
)
def test_compiled_libraries_are_refused(path, words, tmp_path, monkeypatch):
    for name in ("lib.txt", "lib.so", "pyproject.toml"):
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MXNetError, match=words):
        mx.library.load(path.format(tmp_path))
