# SPDX-License-Identifier: Apache-2.0
"""The libraries that bench/peers.py compares: for each, how it computes the workloads in the ways that it has.

Runs under any Python from 3.8 on, with nothing but NumPy and the library that is asked for: each is imported by its own
class. The process that measures it is bench/peer_worker.py.
"""

from __future__ import annotations

import importlib
import os
import sys

import numpy as np
import peer_workloads as workloads

LAYERS = (512, 256, 128, 2)
A, B, C = 1.25, -0.3, 0.2


def mlp_data(batch):
    """(input, [(weight, bias) of each layer]) in float32, the same in every library."""
    rng = np.random.RandomState(0)
    layers = []
    for fan_in, units in zip(LAYERS, LAYERS[1:]):  # noqa: RUF007 (Python 3.8)
        weight = (rng.standard_normal((units, fan_in)) * fan_in**-0.5).astype(np.float32)
        layers.append((weight, (rng.standard_normal(units) * 0.1).astype(np.float32)))
    return rng.standard_normal((batch, LAYERS[0])).astype(np.float32), layers


def chain_data(size):
    """The input of the chain."""
    drawn = np.random.RandomState(0).standard_normal(min(size, workloads.DRAWN)).astype(np.float32)
    return np.resize(drawn, size)


def mlp_of(xp, x, layers):
    """The perceptron in NumPy's words."""
    for k, (weight, bias) in enumerate(layers):
        x = x @ weight.T + bias
        if k < len(layers) - 1:
            x = xp.maximum(x, 0)
    return x


def chain_of(xp, x):
    """The chain in NumPy's words."""
    return xp.tanh(A * x + B) * (1 / (1 + xp.exp(-x))) + 0.5 * xp.maximum(x - C, 0) - xp.exp(-x * x)


def bytes_moved(workload, size):
    """Bytes of input, parameters and result."""
    if workload in workloads.FUNCTIONS:
        return workloads.bytes_moved(workload, size)
    if workload == "chain":
        return 8 * size
    weights = sum(units * (fan_in + 1) for fan_in, units in zip(LAYERS, LAYERS[1:]))  # noqa: RUF007 (Python 3.8)
    return 4 * (weights + size * (LAYERS[0] + LAYERS[-1]))


class Mode:
    """One way of computing: a function of one argument, how to wait for a result, how to see it (None: no result)."""

    def __init__(self, call, argument, wait, see):
        self.call, self.argument, self.wait, self.see = call, argument, wait, see


class Library:
    """A library on a device.

    ``modes`` maps names to functions (workload, size) -> Mode; ``large`` names some of them. ``first`` maps the ways
    whose first calls are compared to such a function, in whose calls nothing has been compiled, and whether compiled
    code is kept on disk.
    """

    def __init__(self, device):
        self.device = device
        self.modes = {}
        self.large = ()
        self.first = {}
        self.versions = {"python": sys.version.split()[0], "numpy": np.__version__}


def no_erf(x):
    raise NotImplementedError("NumPy has no error function")


class Arrays(Library):
    """NumPy, or CuPy on a GPU."""

    def __init__(self, device):
        Library.__init__(self, device)
        self.xp, self.see = np, np.asarray
        self.wait = None
        self.erf = no_erf
        if device == "gpu":
            import cupy

            self.xp, self.see = cupy, cupy.asnumpy
            self.wait = lambda out: cupy.cuda.get_current_stream().synchronize()
            self.versions["cupy"] = cupy.__version__
            from cupyx.scipy.special import erf

            self.erf = erf
        self.modes["eager"] = self.eager
        self.modes["copy"] = self.copy
        self.large = ("eager", "copy")

    def copy(self, workload, size):
        """A copy of as many bytes as the workload has to move."""
        source = self.xp.ones(max(1, bytes_moved(workload, size) // 8), np.float32)
        target = self.xp.empty_like(source)
        if self.xp is np:
            return Mode(lambda source: np.copyto(target, source), source, None, None)
        stream = self.xp.cuda.get_current_stream()
        run = target.data.copy_from_device_async
        return Mode(lambda source: run(source.data, source.nbytes, stream), source, self.wait, None)

    def eager(self, workload, size):
        xp = self.xp
        if workload in workloads.FUNCTIONS:
            x, parameters = workloads.data(workload, size)
            operators = workloads.ArrayOperators([xp.asarray(p) for p in parameters], xp, self.erf)
            function = workloads.FUNCTIONS[workload]
            return Mode(lambda x: function(operators, x), xp.asarray(x), self.wait, self.see)
        if workload == "chain":
            return Mode(lambda x: chain_of(xp, x), xp.asarray(chain_data(size)), self.wait, self.see)
        x, layers = mlp_data(size)
        layers = [(xp.asarray(w), xp.asarray(b)) for w, b in layers]
        return Mode(lambda x: mlp_of(xp, x, layers), xp.asarray(x), self.wait, self.see)


class Gluon(Library):
    """hybridgpu or MXNet: the same program runs on both."""

    def __init__(self, device, name):
        Library.__init__(self, device)
        self.mx = importlib.import_module(name)
        importlib.import_module(name + ".gluon")
        self.versions[name] = self.mx.__version__
        self.ctx = self.mx.gpu(0) if device == "gpu" else self.mx.cpu()
        self.mx.nd.zeros((1,), ctx=self.ctx).wait_to_read()  # raises where there is no such device
        for mode, flags in (
            ("eager", None),
            ("hybridized", {}),
            ("static", {"static_alloc": True, "static_shape": True}),
        ):
            self.modes[mode] = lambda workload, size, flags=flags: self.make(workload, size, flags)
        self.large = ("static",)
        self.first["static"] = self.modes["static"], name == "hybridgpu"

    def make(self, workload, size, flags):
        mx, ctx = self.mx, self.ctx
        nn = mx.gluon.nn

        class Chain(mx.gluon.HybridBlock):
            def hybrid_forward(self, F, x):
                return F.tanh(A * x + B) * F.sigmoid(x) + 0.5 * F.relu(x - C) - F.exp(-x * x)

        class Workload(mx.gluon.HybridBlock):
            """A workload whose parameters are registered by number."""

            def __init__(self, parameters):
                mx.gluon.HybridBlock.__init__(self)
                self.shapes = [p.shape for p in parameters]
                for k, p in enumerate(parameters):
                    setattr(self, f"p{k}", self.params.get(f"p{k}", shape=p.shape, init="zeros"))
                self.initialize(ctx=ctx)
                for k, p in enumerate(parameters):
                    getattr(self, f"p{k}").set_data(mx.nd.array(p))

            def hybrid_forward(self, F, x, **parameters):
                found = [parameters[f"p{k}"] for k in range(len(self.shapes))]
                return workloads.FUNCTIONS[workload](workloads.GluonOperators(found, self.shapes, F), x)

        if workload == "chain":
            net, x = Chain(), chain_data(size)
        elif workload in workloads.SUITES["eager"] and flags is None:  # as programs without blocks call it
            x, parameters = workloads.data(workload, size)
            arrays = [mx.nd.array(p, ctx=ctx) for p in parameters]
            operators = workloads.GluonOperators(arrays, [p.shape for p in parameters], mx.nd)
            function = workloads.FUNCTIONS[workload]
            return Mode(
                lambda x: function(operators, x),
                mx.nd.array(x, ctx=ctx),
                lambda out: out.wait_to_read(),
                lambda out: out.asnumpy(),
            )
        elif workload in workloads.FUNCTIONS:
            x, parameters = workloads.data(workload, size)
            net = Workload(parameters)
        else:
            x, layers = mlp_data(size)
            net = nn.HybridSequential()
            for k, (weight, _) in enumerate(layers):
                activation = "relu" if k < len(layers) - 1 else None
                net.add(nn.Dense(weight.shape[0], activation=activation, in_units=weight.shape[1]))
            net.initialize(ctx=ctx)
            for k, (weight, bias) in enumerate(layers):
                net[k].weight.set_data(mx.nd.array(weight))
                net[k].bias.set_data(mx.nd.array(bias))
        if flags is not None:
            net.hybridize(**flags)
        return Mode(net, mx.nd.array(x, ctx=ctx), lambda out: out.wait_to_read(), lambda out: out.asnumpy())


class Torch(Library):
    """PyTorch: eager, torch.jit, torch.compile; in inference mode."""

    def __init__(self, device):
        Library.__init__(self, device)
        import torch

        self.torch = torch
        torch.set_num_threads(1)
        torch.set_num_interop_threads(1)
        self.versions["torch"] = torch.__version__
        self.where = "cuda" if device == "gpu" else "cpu"
        torch.zeros(1, device=self.where)
        self.inference = torch.inference_mode()
        self.inference.__enter__()
        self.wait = (lambda out: torch.cuda.synchronize()) if device == "gpu" else None
        self.see = lambda out: out.cpu().numpy()
        self.modes["eager"] = lambda w, n: self.make(w, n, lambda f, x: f)
        self.modes["jit.script"] = self.scripted
        self.modes["compile"] = lambda w, n: self.make(w, n, lambda f, x: torch.compile(f))
        self.large = ("compile",)
        self.first = {"jit.script": (self.scripting, False), "compile": (self.modes["compile"], True)}
        if device == "gpu":
            self.modes["compile reduce-overhead"] = lambda w, n: self.make(
                w, n, lambda f, x: torch.compile(f, mode="reduce-overhead")
            )

    def module(self, workload, size):
        torch = self.torch

        class Chain(torch.nn.Module):
            def forward(self, x):
                a = torch.tanh(1.25 * x - 0.3) * torch.sigmoid(x)
                return a + 0.5 * torch.relu(x - 0.2) - torch.exp(-x * x)

        class Workload(torch.nn.Module):
            def __init__(self, parameters):
                torch.nn.Module.__init__(self)
                self.held = torch.nn.ParameterList([torch.nn.Parameter(torch.from_numpy(p)) for p in parameters])
                self.operators = workloads.TorchOperators(self.held, torch)

            def forward(self, x):
                return workloads.FUNCTIONS[workload](self.operators, x)

        if workload in workloads.FUNCTIONS:
            x, parameters = workloads.data(workload, size)
            return Workload(parameters).eval().to(self.where), torch.from_numpy(x).to(self.where)
        if workload == "chain":
            return Chain().to(self.where), torch.from_numpy(chain_data(size)).to(self.where)
        x, layers = mlp_data(size)
        parts = []
        for k, (weight, bias) in enumerate(layers):
            dense = torch.nn.Linear(weight.shape[1], weight.shape[0])
            dense.weight.data = torch.from_numpy(weight)
            dense.bias.data = torch.from_numpy(bias)
            parts += [dense] if k == len(layers) - 1 else [dense, torch.nn.ReLU()]
        return torch.nn.Sequential(*parts).eval().to(self.where), torch.from_numpy(x).to(self.where)

    def make(self, workload, size, change):
        module, x = self.module(workload, size)
        return Mode(change(module, x), x, self.wait, self.see)

    def scripted(self, workload, size):
        torch = self.torch
        if workload in workloads.FUNCTIONS:
            raise NotImplementedError("scripted are the perceptron and the chain")
        # a module is scripted outside inference mode: frozen constants may not be inference tensors
        with torch.inference_mode(False):
            return self.make(workload, size, lambda f, x: torch.jit.freeze(torch.jit.script(f.eval())))

    def scripting(self, workload, size):
        """Scripted by the call."""
        torch = self.torch
        with torch.inference_mode(False):
            module, x = self.module(workload, size)

        def call(x):
            with torch.inference_mode(False):
                scripted = torch.jit.freeze(torch.jit.script(module.eval()))
            return scripted(x)

        return Mode(call, x, self.wait, self.see)


class Jax(Library):
    """JAX: jit, with the weights as arguments, inputs by outputs as Flax has them."""

    def __init__(self, device):
        Library.__init__(self, device)
        import jax

        jax.config.update("jax_default_matmul_precision", "highest")
        self.jax = jax
        self.versions["jax"] = jax.__version__
        self.place = jax.devices("gpu" if device == "gpu" else "cpu")[0]
        self.modes["jit"] = self.jit
        self.large = ("jit",)
        self.first["jit"] = self.jit, True

    def jit(self, workload, size):
        jax = self.jax
        put = lambda a: jax.device_put(a, self.place)  # noqa: E731
        wait = lambda out: out.block_until_ready()  # noqa: E731
        if workload == "chain":
            return Mode(jax.jit(lambda x: chain_of(jax.numpy, x)), put(chain_data(size)), wait, np.asarray)
        if workload in workloads.FUNCTIONS:
            x, parameters = workloads.data(workload, size)
            function = workloads.FUNCTIONS[workload]
            run = jax.jit(lambda x, *parameters: function(workloads.JaxOperators(parameters, jax), x))
            held = [put(p) for p in parameters]
            return Mode(lambda x: run(x, *held), put(x), wait, np.asarray)
        x, layers = mlp_data(size)
        layers = [(put(w.T.copy()), put(b)) for w, b in layers]

        def network(x, layers):
            for k, (kernel, bias) in enumerate(layers):
                x = x @ kernel + bias
                if k < len(layers) - 1:
                    x = jax.numpy.maximum(x, 0)
            return x

        compiled = jax.jit(network)
        return Mode(lambda x: compiled(x, layers), put(x), wait, np.asarray)


class Tensorflow(Library):
    """TensorFlow: eager, and tf.function with XLA."""

    def __init__(self, device):
        Library.__init__(self, device)
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        self.tf = tf
        self.versions["tensorflow"] = tf.__version__
        self.place = "/GPU:0" if device == "gpu" else "/CPU:0"
        if device == "gpu" and not tf.config.list_physical_devices("GPU"):
            raise ImportError("TensorFlow finds no GPU")
        self.modes["eager"] = lambda w, n: self.make(w, n, lambda f: f)
        self.modes["xla"] = lambda w, n: self.make(w, n, lambda f: tf.function(f, jit_compile=True))
        self.large = ("xla",)
        self.first["xla"] = self.modes["xla"], True

    def make(self, workload, size, change):
        with self.tf.device(self.place):
            function, x, see = self.function(workload, size)
            wait = (lambda out: self.tf.test.experimental.sync_devices()) if self.device == "gpu" else None
            return Mode(change(function), self.tf.constant(x), wait, see)

    def function(self, workload, size):
        """(function of a tensor, its argument, how to see the result)."""
        tf = self.tf
        see = lambda out: out.numpy()  # noqa: E731
        if workload in workloads.FUNCTIONS:
            x, parameters = workloads.data(workload, size)
            operators = workloads.TensorflowOperators(workload, parameters, tf)
            if x.ndim == 4:  # channels last
                x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
                see = lambda out: out.numpy().transpose(0, 3, 1, 2) if out.ndim == 4 else out.numpy()  # noqa: E731
            return lambda x: workloads.FUNCTIONS[workload](operators, x), x, see
        if workload == "chain":

            def chain(x):
                y = tf.tanh(A * x + B) * tf.sigmoid(x)
                return y + 0.5 * tf.nn.relu(x - C) - tf.exp(-x * x)

            return chain, chain_data(size), see
        x, layers = mlp_data(size)
        layers = [(tf.Variable(w.T.copy(), trainable=False), tf.Variable(b, trainable=False)) for w, b in layers]

        def network(x):
            for k, (kernel, bias) in enumerate(layers):
                x = tf.linalg.matmul(x, kernel) + bias
                if k < len(layers) - 1:
                    x = tf.nn.relu(x)
            return x

        return network, x, see


class Numexpr(Library):
    """numexpr: evaluate, and re_evaluate into an array that is there."""

    def __init__(self, device):
        Library.__init__(self, device)
        if device == "gpu":
            raise ImportError("numexpr has no GPU")
        import numexpr

        self.ne = numexpr
        numexpr.set_num_threads(1)
        self.versions["numexpr"] = numexpr.__version__
        self.modes["evaluate"] = lambda w, n: self.make(w, n, False)
        self.modes["re_evaluate"] = lambda w, n: self.make(w, n, True)
        self.large = ("re_evaluate",)
        self.first["evaluate"] = self.modes["evaluate"], False

    def make(self, workload, size, again):
        if workload != "chain":
            raise NotImplementedError("numexpr computes the chain only")
        ne = self.ne
        text = "tanh(a*x+b) * (one/(one+exp(-x))) + half*where(x>c, x-c, zero) - exp(-x*x)"
        numbers = {"a": A, "b": B, "c": C, "one": 1, "half": 0.5, "zero": 0}
        names = {k: np.float32(v) for k, v in numbers.items()}  # a literal would make everything float64
        x = chain_data(size)
        names["x"] = x
        if not again:
            return Mode(lambda x: ne.evaluate(text, names), x, None, np.asarray)
        out = np.empty_like(x)

        def call(x):
            return ne.re_evaluate(names)

        ne.evaluate(text, names, out=out)
        return Mode(call, x, None, np.asarray)


class Numba(Library):
    """numba.njit of the loop a C programmer writes, into a new array."""

    def __init__(self, device):
        Library.__init__(self, device)
        if device == "gpu":
            raise ImportError("numba is compared on the CPU only")
        import numba

        self.numba = numba
        self.versions["numba"] = numba.__version__
        self.modes["njit"] = lambda w, n: self.make(w, n, False)
        self.modes["njit fastmath"] = lambda w, n: self.make(w, n, True)
        self.large = ("njit",)
        self.first["njit"] = (lambda w, n: self.make(w, n, False, cache=True)), True

    def make(self, workload, size, fast, cache=False):
        if workload != "chain":
            raise NotImplementedError("numba computes the chain only")
        a, b, c, one, half, zero = (np.float32(v) for v in (A, B, C, 1, 0.5, 0))

        @self.numba.njit(fastmath=fast, error_model="numpy", cache=cache)
        def chain(x):
            out = np.empty_like(x)
            for i in range(x.size):
                v = x[i]
                out[i] = np.tanh(a * v + b) * (one / (one + np.exp(-v))) + half * max(v - c, zero) - np.exp(-v * v)
            return out

        return Mode(chain, chain_data(size), None, np.asarray)


LIBRARIES = {
    "hybridgpu": lambda device: Gluon(device, "hybridgpu"),
    "mxnet": lambda device: Gluon(device, "mxnet"),
    "numpy": Arrays,
    "torch": Torch,
    "jax": Jax,
    "tensorflow": Tensorflow,
    "numexpr": Numexpr,
    "numba": Numba,
}


def expected(workload, size):
    """(slice of the first axis, NumPy's result there in float64) for the parts of a result that are compared."""
    if workload in workloads.FUNCTIONS:
        return workloads.exact(workload, size)
    if workload == "chain":
        x = chain_data(size)
        return [(part, chain_of(np, x[part].astype(np.float64))) for part in workloads.parts(size, 1)]
    x, layers = mlp_data(size)
    wide = [(w.astype(np.float64), b.astype(np.float64)) for w, b in layers]
    return [(slice(0, size), mlp_of(np, x.astype(np.float64), wide))]
