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
import peer_networks as networks
import peer_operators as operators
import peer_workloads as workloads
from peer_workloads import LAYERS, A, B, C, chain_data, chain_of, mlp_data, mlp_of


def bytes_moved(workload, size):
    """Bytes of input, parameters and result."""
    if workload in workloads.FUNCTIONS:
        return workloads.bytes_moved(workload, size)
    if workload in networks.NETWORKS:  # of its input and parameters
        x, parameters, _, _ = networks.NETWORKS[workload].data(size)
        return x.nbytes + sum(p.nbytes for p in parameters)
    if workload == "chain":
        return 8 * size
    weights = sum(units * (fan_in + 1) for fan_in, units in zip(LAYERS, LAYERS[1:]))  # noqa: RUF007 (Python 3.8)
    return 4 * (weights + size * (LAYERS[0] + LAYERS[-1]))


class Mode:
    """One way of computing: a function of one argument, how to wait for a result, how to see it (None: no result).

    ``trains``: each call is a step of training, whose result is the loss.
    """

    def __init__(self, call, argument, wait, see, trains=False):
        self.call, self.argument, self.wait, self.see, self.trains = call, argument, wait, see, trains


class Library:
    """A library on a device.

    ``modes`` maps names to functions (workload, size) -> Mode; ``large`` names some of them. ``first`` maps the ways
    whose first calls are compared to such a function, in whose calls nothing has been compiled, and whether compiled
    code is kept on disk. ``networks`` maps the ways in which whole networks are computed to functions (network, batch)
    -> Mode.
    """

    def __init__(self, device):
        self.device = device
        self.one_thread = os.environ.get("PEER_THREADS") == "1"
        self.networks = {}
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
            o = operators.ArrayOperators([xp.asarray(p) for p in parameters], xp, self.erf)
            function = workloads.FUNCTIONS[workload]
            return Mode(lambda x: function(o, x), xp.asarray(x), self.wait, self.see)
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
        static = {"static_alloc": True, "static_shape": True}
        for mode, flags in (("eager", None), ("static", static)):
            self.networks[mode] = lambda network, batch, flags=flags: self.network(network, batch, flags)

    def block(self, parameters, function, kinds=()):
        """A block over GluonOperators, whose parameters are registered by number; statistics get no gradients."""
        mx, ctx = self.mx, self.ctx

        class Block(mx.gluon.HybridBlock):
            def __init__(self):
                mx.gluon.HybridBlock.__init__(self)
                self.shapes = [p.shape for p in parameters]
                for k, p in enumerate(parameters):
                    still = "null" if k < len(kinds) and kinds[k] in networks.STATISTICS else "write"
                    setattr(self, f"p{k}", self.params.get(f"p{k}", shape=p.shape, init="zeros", grad_req=still))
                self.initialize(ctx=ctx)
                for k, p in enumerate(parameters):
                    getattr(self, f"p{k}").set_data(mx.nd.array(p))

            def hybrid_forward(self, F, x, **parameters):
                found = [parameters[f"p{k}"] for k in range(len(self.shapes))]
                return function(operators.GluonOperators(found, self.shapes, F), x)

        return Block()

    def network(self, network, batch, flags):
        mx = self.mx
        x, parameters, kinds, labels = network.data(batch)

        def function(o, x_):
            o.training = network.trained
            return network(o, x_, x.shape)

        net = self.block(parameters, function, kinds)
        if flags is not None:
            net.hybridize(**flags)
        argument = mx.nd.array(x, ctx=self.ctx)
        if not network.trained:
            return Mode(net, argument, lambda out: out.wait_to_read(), lambda out: out.asnumpy())
        labels = mx.nd.array(labels, ctx=self.ctx)
        loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        if flags is not None:
            loss_of.hybridize(**flags)
        how = {"learning_rate": networks.RATE, "momentum": networks.MOMENTUM}
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", how)

        def step(x):
            with mx.autograd.record():
                loss = loss_of(net(x), labels)
            loss.backward()
            trainer.step(loss.shape[0])
            return loss

        return Mode(step, argument, lambda out: mx.nd.waitall(), lambda out: out.asnumpy().mean(keepdims=True), True)

    def make(self, workload, size, flags):
        mx, ctx = self.mx, self.ctx
        nn = mx.gluon.nn

        class Chain(mx.gluon.HybridBlock):
            def hybrid_forward(self, F, x):
                return F.tanh(A * x + B) * F.sigmoid(x) + 0.5 * F.relu(x - C) - F.exp(-x * x)

        if workload == "chain":
            net, x = Chain(), chain_data(size)
        elif workload in workloads.SUITES["eager"] and flags is None:  # as programs without blocks call it
            x, parameters = workloads.data(workload, size)
            arrays = [mx.nd.array(p, ctx=ctx) for p in parameters]
            o = operators.GluonOperators(arrays, [p.shape for p in parameters], mx.nd)
            function = workloads.FUNCTIONS[workload]
            return Mode(
                lambda x: function(o, x),
                mx.nd.array(x, ctx=ctx),
                lambda out: out.wait_to_read(),
                lambda out: out.asnumpy(),
            )
        elif workload in workloads.FUNCTIONS:
            x, parameters = workloads.data(workload, size)
            net = self.block(parameters, workloads.FUNCTIONS[workload])
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
        if self.one_thread:
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

        self.networks = {
            "eager": lambda n, b: self.network(n, b, lambda f: f),
            "compile": lambda n, b: self.network(n, b, torch.compile),
        }

    def network(self, network, batch, change):
        torch = self.torch
        x, parameters, kinds, labels = network.data(batch)
        where = self.where

        class Network(torch.nn.Module):
            def __init__(self):
                torch.nn.Module.__init__(self)
                for k, (p, kind) in enumerate(zip(parameters, kinds)):
                    if kind in networks.STATISTICS:
                        self.register_buffer(f"p{k}", torch.from_numpy(p))
                    else:
                        setattr(self, f"p{k}", torch.nn.Parameter(torch.from_numpy(p)))

            def forward(self, x):
                o = operators.TorchOperators([getattr(self, f"p{k}") for k in range(len(kinds))], torch)
                o.training = self.training
                return network(o, x, tuple(x.shape))

        with torch.inference_mode(False):
            net = Network().to(where).train(network.trained)
            argument = torch.from_numpy(x).to(where)
            argument = argument.long() if network.words else argument
            labels = torch.from_numpy(labels).long().to(where)
            optimizer = torch.optim.SGD(net.parameters(), networks.RATE, networks.MOMENTUM)
        run = change(net)
        if not network.trained:
            return Mode(run, argument, self.wait, self.see)

        def step(x):
            with torch.inference_mode(False), torch.enable_grad():
                optimizer.zero_grad()
                logits = run(x)
                loss = torch.nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())
                loss.backward()
                optimizer.step()
            return loss

        return Mode(step, argument, self.wait, lambda out: out.detach().cpu().numpy().reshape(1), True)

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
                self.operators = operators.TorchOperators(self.held, torch)

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
        self.networks["jit"] = self.network

    def network(self, network, batch):
        jax = self.jax
        x, parameters, kinds, labels = network.data(batch)
        put = lambda a: jax.device_put(a, self.place)  # noqa: E731
        x, labels, held = put(x), put(labels), [put(p) for p in parameters]
        if not network.trained:
            infer = jax.jit(lambda x, held: network(operators.JaxOperators(held, jax), x, x.shape))
            return Mode(lambda x: infer(x, held), x, lambda out: out.block_until_ready(), np.asarray)
        trained = [k for k, kind in enumerate(kinds) if kind not in networks.STATISTICS]

        def loss_of(weights, held, x, labels):
            o = operators.JaxOperators([weights.get(k, p) for k, p in enumerate(held)], jax)
            o.training = True
            logits = network(o, x, x.shape)
            chances = jax.nn.log_softmax(logits)
            chosen = jax.numpy.take_along_axis(chances, labels.astype("int32")[..., None], -1)
            return -chosen.mean(), o.kept

        @jax.jit
        def update(held, momenta, x, labels):
            weights = {k: held[k] for k in trained}
            (loss, kept), gradients = jax.value_and_grad(loss_of, has_aux=True)(weights, held, x, labels)
            momenta = {k: networks.MOMENTUM * momenta[k] + gradients[k] for k in trained}
            kept.update({k: held[k] - networks.RATE * momenta[k] for k in trained})
            return [kept.get(k, p) for k, p in enumerate(held)], momenta, loss

        state = [held, {k: jax.numpy.zeros_like(held[k]) for k in trained}]

        def step(x):
            state[0], state[1], loss = update(*state, x, labels)
            return loss

        wait = lambda out: jax.block_until_ready((out, state))  # noqa: E731
        return Mode(step, x, wait, lambda out: np.asarray(out).reshape(1), True)

    def jit(self, workload, size):
        jax = self.jax
        put = lambda a: jax.device_put(a, self.place)  # noqa: E731
        wait = lambda out: out.block_until_ready()  # noqa: E731
        if workload == "chain":
            return Mode(jax.jit(lambda x: chain_of(jax.numpy, x)), put(chain_data(size)), wait, np.asarray)
        if workload in workloads.FUNCTIONS:
            x, parameters = workloads.data(workload, size)
            function = workloads.FUNCTIONS[workload]
            run = jax.jit(lambda x, *parameters: function(operators.JaxOperators(parameters, jax), x))
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

        if self.one_thread:
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
            o = operators.TensorflowOperators(workload, parameters, tf)
            if x.ndim == 4:  # channels last
                x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
                see = lambda out: out.numpy().transpose(0, 3, 1, 2) if out.ndim == 4 else out.numpy()  # noqa: E731
            return lambda x: workloads.FUNCTIONS[workload](o, x), x, see
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
        if self.one_thread:
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
    if workload in networks.NETWORKS:
        return networks.NETWORKS[workload].expected(size)
    if workload in workloads.FUNCTIONS:
        return workloads.exact(workload, size)
    if workload == "chain":
        x = chain_data(size)
        return [(part, chain_of(np, x[part].astype(np.float64))) for part in workloads.parts(size, 1)]
    x, layers = mlp_data(size)
    wide = [(w.astype(np.float64), b.astype(np.float64)) for w, b in layers]
    return [(slice(0, size), mlp_of(np, x.astype(np.float64), wide))]
