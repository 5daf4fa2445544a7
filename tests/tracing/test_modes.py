# SPDX-License-Identifier: Apache-2.0
"""What Python code can ask for besides its arguments: a call in one mode never runs the trace of another."""

import contextlib

import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.contrib import amp

QUESTIONS = {
    "np arrays": mx.util.is_np_array,
    "np shapes": mx.util.is_np_shape,
    "training": autograd.is_training,
    "recording": autograd.is_recording,
    "context": lambda: mx.current_context().device_id,
}

MODES = {
    "plain": contextlib.nullcontext,
    "np arrays": lambda: mx.np_array(True),
    "np shapes": lambda: mx.np_shape(True),
    "training": autograd.train_mode,
    "recording": lambda: autograd.record(train_mode=False),
    "recorded training": autograd.record,
    "another context": lambda: mx.cpu(1),
    "paused": autograd.pause,
}


class Forward(gluon.HybridBlock):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Below(gluon.HybridBlock):
    def __init__(self, function):
        super().__init__()
        self.block = Forward(function)

    def hybrid_forward(self, F, x):
        return self.block(x)


def ways(function):
    found = [mx.hybridize(function), Forward(function), Below(function)]
    for net in found[1:]:
        net.hybridize()
    return found


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_mode_has_a_trace_of_its_own(name):
    ask = QUESTIONS[name]

    def function(x):
        return x * (10 + int(ask()))

    for call in ways(function):
        for _ in range(2):
            for mode in MODES.values():
                x = nd.ones((2,))
                with mode():
                    x = x.as_np_ndarray() if mx.util.is_np_array() else x
                    # the third call is a prepared one
                    assert [call(x).asnumpy().tolist() for _ in range(3)] == [[10.0 + int(ask())] * 2] * 3


def test_the_context_of_a_function_without_arrays_and_of_one_that_enters_its_own(cuda_driver):
    def function(n):
        with mx.cpu(2):
            assert mx.current_context() == mx.cpu(2)
        return nd.ones((n,)) * (1 + mx.current_context().device_id)

    call = mx.hybridize(function)
    for context in (mx.cpu(), mx.gpu(0), mx.cpu(3), mx.cpu()):
        with context:
            out = call(2)
            assert (out.context, out.asnumpy().tolist()) == (context, [1.0 + context.device_id] * 2)


@pytest.mark.usefixtures("mixed_precision_ends")
def test_mixed_precision_that_begins_after_a_trace():
    layer = gluon.nn.Dense(3, in_units=3)
    layer.initialize()

    def function(x):
        y = layer(x)
        return y, y.sum() + 1, x + y

    calls, x = ways(function), nd.ones((2, 3))
    for call in (*calls, *calls):
        assert {y.dtype.__name__ for y in call(x)} == {"float32"}
    amp.init()
    expected = [y.dtype for y in function(x)]
    assert expected[0].__name__ == "float16"
    for call in calls:
        for _ in range(3):
            assert [y.dtype for y in call(x)] == expected
