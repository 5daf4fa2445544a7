# SPDX-License-Identifier: Apache-2.0
"""The array class of np beside the legacy one; what MXNet answers line by line is in tests/against_mxnet/parity/numpy_array."""

import pickle
import threading

import numpy as onp
import pytest

import hybridgpu as mx
from hybridgpu import nd, np, npx
from hybridgpu.ops import OPERATORS


@pytest.fixture(autouse=True)
def numpy_semantics():
    npx.set_np()
    yield
    npx.reset_np()


def test_no_method_of_legacy_arrays_comes_through():
    """Operators are methods of NDArray at first use; an array of np has its own method, or refuses."""
    x = np.zeros((2, 3))
    for name in sorted(
        {op.method for op in OPERATORS.values() if op.method} | {n for n in vars(nd.NDArray) if n[0] != "_"}
    ):
        owner = next((c for c in type(x).__mro__ if name in vars(c)), None)
        if owner is nd.NDArray:
            assert name in SHARED, name
        elif owner is None:
            with pytest.raises(AttributeError, match=f"'ndarray' object has no attribute '{name}'"):
                getattr(x, name)


#: members of NDArray that np arrays have as they are
SHARED = {
    "address",
    "asnumpy",
    "backward",
    "detach",
    "grad",
    "handle",
    "ndim",
    "shape",
    "size",
    "stype",
    "to_dlpack_for_read",
    "to_dlpack_for_write",
    "wait_to_read",
    "wait_to_write",
    "writable",
}


def test_refused_methods_say_what_to_write():
    for name, instead in (("exp", r"np\.exp\(x\)"), ("relu", r"npx\.relu\(x\)"), ("asscalar", r"x\.item\(\)")):
        with pytest.raises(AttributeError, match=rf"no attribute {name}\n.*{instead}"):
            getattr(np.zeros((2,)), name)()


def test_what_python_has_no_operator_for():
    x = np.zeros((2,))
    for call in (lambda: x // 2, lambda: 2 // x, lambda: divmod(x, 2), lambda: x << 1, lambda: +x, lambda: [1][x]):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(TypeError, match=r"np\.floor\(x / 2\)"):
        x // 2


def test_a_class_that_makes_arrays():
    x = np.ndarray((2, 3), dtype="int32")
    assert x.shape == (2, 3) and x.dtype == onp.int32 and np.ndarray(()).shape == () and np.ndarray(3).shape == (3,)


def test_views_share_type_memory_and_history():
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    for view in (x[0], x.detach(), x.as_nd_ndarray().as_np_ndarray(), x.reshape_view(-1)):
        assert type(view) is np.ndarray
        view[()] = 0
        assert x.tolist()[0] == [0, 0]
        x[0] = 1


def test_what_a_thread_sets_is_its_own():
    seen = []
    npx.reset_np()

    def work():
        npx.set_np()
        seen.append((npx.is_np_array(), npx.is_np_shape()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(True, True)] and not npx.is_np_array() and not npx.is_np_shape()


def test_scopes():
    npx.reset_np()
    with npx.np_shape(True), npx.np_array(True):
        assert npx.is_np_array() and npx.is_np_shape()

    @npx.use_np
    def inside():
        return npx.is_np_array(), nd.ones(()).shape

    assert inside() == (True, ()) and not npx.is_np_array()
    with pytest.raises(mx.MXNetError, match="inferring shapes failed"):
        nd.ones(())
    with pytest.raises(ValueError, match="NumPy Shape semantics is required"):
        npx.set_np(shape=False, array=True)


def test_pickled_arrays_keep_their_class_and_shape():
    for x in (np.array(2.0), np.zeros((0, 3), dtype="int64"), np.array([True], dtype="bool")):
        y = pickle.loads(pickle.dumps(x))
        assert type(y) is np.ndarray and y.shape == x.shape and y.dtype == x.dtype and y.tolist() == x.tolist()


def test_memory_goes_to_and_comes_from_others():
    x = np.array([1.0, 2.0])
    assert onp.asarray(x).tolist() == [1, 2] and onp.from_dlpack(x).tolist() == [1, 2]
    assert mx.nd.from_dlpack(x.to_dlpack_for_read()).asnumpy().tolist() == [1, 2]
    torch_like = nd.from_numpy(onp.ones((2,), "float32")).as_np_ndarray()
    assert type(torch_like) is np.ndarray and torch_like.tolist() == [1, 1]


def test_numbers_are_broadcast_along_with_arrays():
    """Matplotlib draws a curve in space with one number for the height."""
    for function in (onp.broadcast_arrays, np.broadcast_arrays):
        x, z, one = function(np.array([3.0, 1.0]), 2, np.array(1.0))
        assert [a.tolist() for a in (x, z, one)] == [[3, 1], [2, 2], [1, 1]]
        assert {type(a) for a in (x, z, one)} == {np.ndarray}
        assert [type(a) for a in function(np.array(1.0), 2)] == [np.ndarray, np.ndarray]


def test_numpy_functions_that_np_lacks():
    x, y = np.array([3.0, 1.0, 2.0]), np.array([[1.0, 2.0], [3.0, 5.0]])
    assert onp.partition(x, 1).tolist()[0] == 1 and type(onp.cross(x, x)) is np.ndarray
    assert onp.logical_and(x, x).dtype == onp.bool_ and type(onp.logical_and(x, x)) is np.ndarray
    assert isinstance(onp.linalg.qr(y), tuple) and type(onp.union1d(x, x)) is np.ndarray
    with (
        mx.autograd.record(),
        pytest.raises(ValueError, match="Falling back to NumPy operator cross with autograd active"),
    ):
        onp.cross(x, x)
    with pytest.raises(TypeError):
        onp.add.reduce(x)


def test_numbers_of_numpy_on_the_left():
    x = np.array([1.0, 2.0])
    for number in (onp.float32(2), onp.float64(2), onp.int64(2), onp.bool_(True)):
        for found in (number * x, number + x, number - x, number > x):
            assert type(found) is np.ndarray


def test_gradients_of_both_kinds_together():
    x, y = np.array([1.0, 2.0]), nd.array([3.0, 4.0])
    for v in (x, y):
        v.attach_grad()
    with mx.autograd.record():
        z = (x * y.as_np_ndarray()).as_nd_ndarray() * y
    z.backward(nd.array([1.0, 10.0]))
    assert x.grad.tolist() == [9, 160] and y.grad.asnumpy().tolist() == [6, 160]
    assert type(x.grad) is np.ndarray and type(y.grad) is nd.NDArray


def test_added_gradients_and_zero_dimensional_ones():
    x = np.array(3.0)
    x.attach_grad("add")
    for _ in range(2):
        with mx.autograd.record():
            y = x * x
        y.backward()
    assert repr(x.grad) == "array(12.)"
    with mx.autograd.record():
        y = x * x * x
        first = mx.autograd.grad(y, [x], create_graph=True)[0]
    first.backward()
    assert x.grad.item() == 12 + 18


class _Square(mx.autograd.Function):
    def forward(self, x):
        self.save_for_backward(x)
        return x * x

    def backward(self, g):
        (x,) = self.saved_tensors
        self.kinds = type(x), type(g)
        return 2 * x * g


def test_functions_with_a_derivative_of_their_own():
    for x, kind in ((np.array([1.0, 2.0]), np.ndarray), (nd.array([1.0, 2.0]), nd.NDArray)):
        x.attach_grad()
        square = _Square()
        with mx.autograd.record():
            y = square(x) * 3
        y.backward()
        assert square.kinds == (kind, kind) and type(y) is kind and x.grad.asnumpy().tolist() == [6, 12]


class _Twice(mx.operator.CustomOp):
    kinds: list = []

    def forward(self, is_train, req, in_data, out_data, aux):
        self.kinds[:] = [type(in_data[0]), type(out_data[0])]
        self.assign(out_data[0], req[0], in_data[0] * 2)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.kinds += [type(out_grad[0]), type(in_grad[0])]
        self.assign(in_grad[0], req[0], out_grad[0] * 2)


@mx.operator.register("np_twice")
class _TwiceProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return _Twice()


def test_custom_operators_work_on_np_arrays_in_np_mode():
    x = np.array([1.0, 2.0])
    x.attach_grad()
    for numpy_mode in (True, False):
        kind = np.ndarray if numpy_mode else nd.NDArray
        with npx.np_array(numpy_mode), mx.autograd.record():
            y = mx.nd.np._internal.Custom(x, op_type="np_twice")
            z = mx.nd.Custom(x.as_nd_ndarray(), op_type="np_twice").as_np_ndarray()
            total = (y * z).sum()
        total.backward()
        assert type(y) is np.ndarray and set(_Twice.kinds) == {kind} and x.grad.tolist() == [8, 16]
    assert "_npi_Custom" in dir(mx.nd._internal)


def test_head_gradients_of_both_kinds():
    x = np.array([1.0, 2.0])
    x.attach_grad()
    for seed in (np.array([3.0, 4.0]), nd.array([3.0, 4.0])):
        with mx.autograd.record():
            y = x * x
            z = y + 1
        mx.autograd.backward([y, z, y], [seed, None, seed])
        assert x.grad.tolist() == [14, 36]


def test_a_decorated_class_runs_inherited_methods_in_the_scope_too():
    npx.reset_np()

    @npx.use_np
    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.dense = mx.gluon.nn.Dense(2, in_units=2)

        class Inner:
            """No method."""

        @staticmethod
        def still():
            return npx.is_np_array()

        @classmethod
        def ours(cls):
            return cls, npx.is_np_array()

        @property
        def seen(self):
            return npx.is_np_array()

        def hybrid_forward(self, F, x):
            return self.dense(x)

    @npx.use_np
    class Forward(mx.gluon.HybridBlock):
        def forward(self, x):
            return np.sum(x * 2) + npx.is_np_array()

    assert Net.still() and Net.ours() == (Net, True) and Net().seen and isinstance(Net.Inner(), Net.Inner)
    x = nd.ones((2, 2)).as_np_ndarray()
    for net, shape in ((Net(), (2, 2)), (Forward(), ())):
        net.initialize()  # parameters are arrays of np
        assert all(isinstance(p.data(), np.ndarray) for p in net.collect_params().values())
        for _ in range(2):
            assert type(net(x)) is np.ndarray and net(x).shape == shape
            net.hybridize()
    assert not npx.is_np_array()
