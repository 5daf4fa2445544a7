# SPDX-License-Identifier: Apache-2.0
"""Names without a public promise that programs import, and arguments that they give: what calls give, as text or numbers.

An error is its class and the first line of its text.
"""

import collections
import importlib
import logging
import os
import re
import warnings

import numpy as np
from against_mxnet.recorded.record import draw

#: what expressions begin with: name -> module below the package
MODULES = {
    "base": "base",
    "base_module": "module.base_module",
    "block": "gluon.block",
    "dataloader": "gluon.data.dataloader",
    "error": "error",
    "gutils": "gluon.utils",
    "image": "image.image",
    "log": "log",
    "manager": "executor_manager",
    "conv_layers": "gluon.nn.conv_layers",
    "gloss": "gluon.loss",
    "io": "io",
    "model": "model",
    "ndarray": "ndarray.ndarray",
    "rnn_cell": "gluon.rnn.rnn_cell",
    "model_store": "gluon.model_zoo.model_store",
    "util": "util",
}

#: case -> expression
CASES = {
    # files
    "repository": "gutils._get_repo_url()",
    "file in it": "gutils._get_repo_file_url('gluon/dataset/mnist', 'train.gz')",
    "another repository": "with_env('MXNET_GLUON_REPO', 'http://host', gutils._get_repo_url)",
    "short list": "gutils._brief_print_list(range(3))",
    "long list": "gutils._brief_print_list([str(k) for k in range(20)])",
    "hashes": "sorted(model_store._model_sha1.items())",
    "repository of models": "model_store.apache_repo_url",
    # blocks
    "flatten": "block._flatten([x, [x, None], (x,)], 'input')[1]",
    "flatten a group": "block._flatten(mx.sym.Group([s, s]), 'input')[1]",
    "flatten a number": "block._flatten([3], 'input')",
    "regroup": "block._regroup([1, 2, None, 3], [0, [0, -1], [0]])",
    "regroup several": "block._regroup([1, 2, 3], [2, 0])",
    "regroup no None": "block._regroup([1, 2], [0, -1])",
    "hook attached twice": "twice()",
    "sequence as steps": "rnn_cell._format_sequence(None, steps3, 'NTC', False)[0]",
    "sequence of steps": "rnn_cell._format_sequence(3, [x, x, x], 'TNC', True)[0]",
    "sequence in another layout": "rnn_cell._format_sequence(3, steps3, 'TNC', None, in_layout='NTC')[0]",
    "sequence's rest": "(lambda f: (f[1], f[2].__name__, f[3]))(rnn_cell._format_sequence(3, steps3, 'NTC', None))",
    "begin state": "rnn_cell._get_begin_state(mx.gluon.rnn.LSTMCell(4), mx.nd, None, steps3, 2)",
    "states of cells": "rnn_cell._cells_begin_state([mx.gluon.rnn.GRUCell(2), mx.gluon.rnn.LSTMCell(3)], batch_size=1)",
    "masked": "rnn_cell._mask_sequence_variable_length(mx.nd, steps3, 3, mx.nd.array([1, 3]), 1, True)",
    "masked steps": "rnn_cell._mask_sequence_variable_length(mx.nd, [x, x, x], 3, mx.nd.array([1, 3]), 0, False)",
    "reversed": "rnn_cell._reverse_sequences([x, 2 * x, 3 * x], 3, mx.nd.array([2, 3]))",
    "weight shapes": "conv_layers._infer_weight_shape('Convolution', (1, 3, 8, 8), {'num_filter': 4, 'kernel': (3, 3), 'num_group': 1})",
    "weighting": "gloss._apply_weighting(mx.nd, x, 2.0, mx.nd.ones((2, 1)) * 3)",
    "reshape like": "gloss._reshape_like(mx.nd, x.reshape((3, 2)), x)",
    "indent": "gutils._indent('a\\nb', 2)",
    "types": "sorted((v, np.dtype(k).name) for k, v in ndarray._DTYPE_NP_TO_MX.items() if k), ndarray._GRAD_REQ_MAP, ndarray._STORAGE_TYPE_STR_TO_ID",
    "named data": "[k for k, _ in io._init_data([np.ones(2), np.zeros(3)], False, 'data')]",
    # modules
    "input names": "base_module._check_input_names(fc, ['daat'], 'data', True)",
    "input names warning": "warned(lambda: base_module._check_input_names(symbol=fc, names=['daat'], typename='label', throw=False))",
    "descriptions": "base_module._parse_data_desc(['data'], ['label'], [('data', (2, 3))], [('label', (2,))])",
    "descriptions of other names": "base_module._parse_data_desc(['dat'], [], [('data', (2, 3))], None)",
    "labels not described": "warned(lambda: base_module._parse_data_desc(['data'], ['label'], [('data', (2, 3))], None))",
    "list": "base_module._as_list(3), base_module._as_list((3, 4))",
    "store for one": "model._create_kvstore('local', 1, params)",
    "store for two": "model._create_kvstore('device', 2, params)[1]",
    "store of nothing": "model._create_kvstore(3, 2, params)",
    "steps on a store": "steps(True)",
    "steps of an updater": "steps(False)",
    "slices": "manager._split_input_slice(10, [1, 2]), manager._split_input_slice(7, [1, 1])",
    "too many slices": "manager._split_input_slice(1, [1, 1])",
    "arguments": "manager._check_arguments(fc)",
    "arguments twice": "manager._check_arguments(mx.sym.Group([s + 1, mx.sym.var('s') + 2]))",
    "states twice": "manager._check_arguments(mx.sym.BatchNorm(mx.sym.BatchNorm(s, name='n'), name='n', gamma=s, beta=s))",
    "load in parts": "loaded([[(slice(0, 4), target)]])",
    "load whole": "loaded([target])",
    "load other sizes": "loaded([[(slice(0, 3), target)]])",
    # pictures
    "ways of resizing": "[image._get_interp_method(k) for k in range(5)]",
    "a way that suits": "[image._get_interp_method(9, (10, 10, *new)) for new in ((20, 20), (5, 5), (5, 20))] + [image._get_interp_method(9)]",
    "another way": "image._get_interp_method(5)",
    "averages": "mx.nd.image.resize(picture, (5, 4), False, 3)",
    "averages of much": "mx.nd.image.resize(picture, (1, 2), False, 3)",
    "averages of what grows": "mx.nd.image.resize(picture, (11, 14), False, 3)",
    "Lanczos": "mx.nd.image.resize(picture, (5, 14), False, 4)",
    # arrays
    "contiguous": "[mx.nd.NDArray._basic_indexing_slice_is_contiguous(k, shape) for k, shape in SLICES]",
    "slice_assign": "(lambda y: (y.slice_assign(mx.nd.ones((2, 2)), (0, 1), (2, 3), (None, None)), y)[1])(x.copy())",
    "slice_assign_scalar": "(lambda y: (y.slice_assign_scalar(5.0, (0, None), (2, None), (None, -2)), y)[1])(x.copy())",
    "slice without steps": "mx.nd.slice(x, begin=(0, 1), end=(2, 3), step=None)",
    "slice of a Symbol": "mx.sym.slice(s, begin=(0, 1), end=(2, 3), step=None).attr('step')",
    "slice in a block": "traced(lambda F, x: F.slice(x, begin=(0, 1), end=(2, 3), step=None))",
    "method slice in a block": "traced(lambda F, x: x.slice(begin=(0, 1), end=(None, 3), step=None))",
    "method that broadcasts": "mx.nd.ones((3,)).broadcast_like(x)",
    "function that does not": "kind(lambda: mx.nd.broadcast_like(mx.nd.ones((3,)), x))",
    "power by name": "mx.nd.power(base=x, exp=2)",
    "Symbols by name": "traced(lambda F, x: mx.sym.maximum(left=x, right=0.1) + mx.sym.minimum(left=x, right=0) + mx.sym.hypot(left=x, right=1) + mx.sym.power(base=2, exp=x) + mx.sym.pow(base=x, exp=2))",
    "methods in place": "traced(lambda F, x: x.expand_dims(axis=0, inplace=True).squeeze(axis=0, inplace=True).flatten(inplace=True))",
    "device by position": "str(mx.nd._internal._zeros((2,), mx.cpu(), 'int32').dtype), str(mx.nd.random_uniform(0, 1, (2,), mx.cpu(), 'float64').dtype)",
    "device in a node": "mx.sym.random_uniform(shape=(2,), ctx=mx.cpu(), name='u').attr('ctx')",
    "device in a sampler": "str(mx.nd.random.normal(0, 1, (2,), 'float64', mx.cpu()).dtype)",
    "multinomial by position": "mx.nd.random.multinomial(mx.nd.array([0, 1]), (3,), False, None, 'float64')",
    "group made by": "mx.sym.Group([s, s], create_fn=mx.sym.Symbol).list_outputs()",
    "optimizer": "mx.optimizer.SGD().allow_np_array",
    # scopes
    "array scope": "within(util._NumpyArrayScope(True), util.is_np_array)",
    "shape scope": "within(util._NumpyShapeScope(True), util.is_np_shape)",
    # base, error, log
    "folder": "base.data_dir_default().replace(os.path.expanduser('~'), '~')",
    "metaclass": "(lambda a: (type(a).__name__, a.tag, len(a.__mro__)))(type('A', (base.with_metaclass(type('M', (type,), {'tag': 5}), object),), {}))",
    "class property": "type('A', (), {'x': base.classproperty(lambda cls: cls.__name__)}).x",
    "known errors": "error.register(type('Mine', (base.MXNetError,), {})) is base.error_types['Mine'], error.register('Name', ValueError) is base.error_types['Name']",
    "internal error": "str(error.InternalError('text')), str(error.InternalError('MXNet hint: text'))",
    "sparse error": "str(base.NotSupportedForSparseNDArray(mx.nd.ones, '+=', 1, 'a'))",
    "loggers": "logged()",
    # loaders of programs' own
    "workers of a program": "batches(dataloader._MultiWorkerIter)",
    "workers of 1.0": "batches(dataloader._MultiWorkerIterV1)",
    "loader of 1.0": "batches(dataloader.DataLoaderV1)",
    "moved": "[type(v).__name__ for v in dataloader._as_in_context((x, [x], 3), mx.cpu())]",
    "pickled": "type(dataloader.ForkingPickler).__name__",
}
SLICES = (
    ((slice(0, 2), slice(None)), (4, 5)),
    ((slice(0, 2), slice(1, 3)), (4, 5)),
    ((slice(0, 1), slice(1, 3)), (4, 5)),
    ((slice(0, 4, 2), slice(0, 5)), (4, 5)),
    ((slice(3, None, -1),), (4,)),
    ((slice(2, 2),), (4,)),
    ((slice(2, 3), slice(2, 3)), (4, 4)),
    ((slice(None), slice(0, 1)), (1, 5)),
    ((slice(0, 1), slice(0, 2), slice(None)), (3, 4, 5)),
)


class Squares:
    """A dataset."""

    def __len__(self):
        return 7

    def __getitem__(self, k):
        return np.float32(k * k)


class Cases:
    """What expressions use."""

    def __init__(self, mx):
        self.mx = mx
        self.os, self.SLICES = os, SLICES
        for name, path in MODULES.items():
            setattr(self, name, importlib.import_module("%s.%s" % (mx.__name__, path)))  # noqa: UP031
        self.x = mx.nd.array(draw((2, 3), 0))
        self.s = mx.sym.var("s")
        self.steps3 = mx.nd.array(draw((2, 3, 2), 4))
        self.np = np
        self.fc = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
        self.params = {"w": mx.nd.array(draw((2, 3), 1)), "b": mx.nd.array(draw((3,), 2))}
        self.picture = mx.nd.array(draw((7, 9, 3), 3, 0, 255))
        self.target = mx.nd.zeros((4, 3))

    def with_env(self, name, value, function):
        os.environ[name] = value
        try:
            return function()
        finally:
            del os.environ[name]

    def twice(self):
        handle = self.gutils.HookHandle()
        handle.attach(collections.OrderedDict(), measure)
        handle.attach(collections.OrderedDict(), measure)

    def warned(self, function):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            function()
        return [(w.category.__name__, str(w.message)) for w in found]

    def steps(self, on_store):
        names, mx = ["w", "b"], self.mx
        weights = [[self.params[n].copy() for _ in range(2)] for n in names]
        grads = [[mx.nd.ones(self.params[n].shape) * (k + 1) for k in range(2)] for n in names]
        store = mx.kv.create("local")
        self.model._initialize_kvstore(
            kvstore=store, param_arrays=weights, arg_params=self.params, param_names=names, update_on_kvstore=on_store
        )
        optimizer = mx.optimizer.SGD(learning_rate=0.1, momentum=0.9)
        updater = mx.optimizer.get_updater(optimizer)
        if on_store:
            store.set_optimizer(optimizer)
        for _ in range(3):
            if on_store:
                self.model._update_params_on_kvstore(weights, grads, store, names)
            else:
                self.model._update_params(
                    weights, grads, updater=updater, num_device=2, kvstore=store, param_names=names
                )
        return [w for row in weights for w in row]

    def loaded(self, targets):
        self.manager._load_general([self.mx.nd.ones((4, 3)) * 2], targets)
        return self.target

    def traced(self, function):
        class Block(self.mx.gluon.HybridBlock):
            def hybrid_forward(self, F, x):
                return function(F, x)

        block = Block()
        block.hybridize()
        return block(self.x)

    def kind(self, function):
        try:
            function()
        except Exception as e:
            return type(e).__name__
        return None

    def within(self, scope, function):
        with scope:
            inside = function()
        return inside, function()

    def logged(self):
        import io

        stream = io.StringIO()
        logger = self.log.get_logger("recorded")
        logger.handlers[0].stream = stream
        logger.propagate = False
        logger.warning("w %d", 3)
        logger.info("not said")
        logger.setLevel(logging.DEBUG)
        logger.debug("d")
        logger.info("i")
        again = self.log.get_logger("recorded") is logger and len(logger.handlers)
        return again, re.sub(r"\d{4} \d\d:\d\d:\d\d \d+ .*:\d+\]", "PLACE]", stream.getvalue())

    def batches(self, kind):
        order, data = [[0, 1], [2, 3], [4, 5], [6]], Squares()
        collate = self.dataloader.default_mp_batchify_fn
        if kind.__name__ == "DataLoaderV1":
            iterator = kind(data, batch_sampler=order, num_workers=2)
        elif kind is self.dataloader._MultiWorkerIterV1:
            iterator = kind(2, data, self.dataloader.default_batchify_fn, order)
        else:
            import multiprocessing

            pool = multiprocessing.get_context("fork").Pool(
                2, initializer=self.dataloader._worker_initializer, initargs=(data, False, False)
            )
            iterator = kind(pool, collate, order, worker_fn=self.dataloader._worker_fn, prefetch=3)
        found = [np.asarray(b.asnumpy() if hasattr(b, "asnumpy") else b).tolist() for b in iterator]
        return len(iterator), found


def plain(value, package):
    """What JSON holds: numbers of arrays, other values as text."""
    if hasattr(value, "asnumpy"):
        return [list(value.shape), [float(v) for v in value.asnumpy().ravel()]]
    if isinstance(value, (list, tuple)) and any(hasattr(v, "asnumpy") for v in value):
        return [plain(v, package) for v in value]
    return re.sub(r"(?<![-\w])%s\." % package, "PACKAGE.", repr(value))  # noqa: UP031


def measure(mx, name):
    """The value of a case."""
    cases = Cases(mx)
    try:
        value = eval(CASES[name], dict(vars(cases), **{k: getattr(cases, k) for k in dir(Cases) if k[0] != "_"}))
    except Exception as e:
        text = re.sub(r"(?s)^(MXNetError: )?Traceback.*?MXNetError: ", "", str(e)).split("\n")[0]
        return "%s: %s" % (type(e).__name__, text)  # noqa: UP031
    return plain(value, mx.__name__)
