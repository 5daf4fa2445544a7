# SPDX-License-Identifier: Apache-2.0
"""Names of MXNet 1.9.1 and of other libraries that are not here -> what they were, and what to write. Read by errors alone.

``docs/coming-from-mxnet.md`` is made from these tables.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

__all__ = ["MXNET", "OPTIMIZERS", "OTHERS", "Decision", "decision", "full_names", "hint"]


class Decision(NamedTuple):
    """What became of names.

    Args:
        names: patterns of paths below ``mxnet``, such as ``io.LibSVMIter``, apart by spaces. One of a module or of a class
            is about all in it. ``nd`` and ``sym`` stand for ``ndarray`` and ``symbol``, ``F`` for both.
        was: what it is in MXNet, a noun; '' in other libraries.
        write: what to write instead, or ''; ``{F}`` is how users spell the module of operators.
        why: the reason, where ``write`` does not show it.
    """

    names: str
    was: str
    write: str
    why: str = ""

    def text(self, functions: str = "nd") -> str:
        """One line for the end of an error."""
        parts = [f"In MXNet it is {self.was}." if self.was else ""]
        parts += [f"Write {self.write.format(F=functions)}." if self.write else ""]
        parts += [f"{self.why[:1].upper()}{self.why[1:]}." if self.why else ""]
        return " ".join(filter(None, parts))

    def patterns(self) -> list[str]:
        """The names, with the modules' full names."""
        return [pattern for name in self.names.split() for pattern in full_names(name)]


def full_names(name: str) -> list[str]:
    """A pattern with the modules' full names; ``gen_contrib`` and its like have what ``contrib`` has."""
    first, _, rest = name.partition(".")
    modules = {"nd": ("ndarray",), "sym": ("symbol",), "F": ("ndarray", "symbol")}.get(first, (first,))
    paths = [f"{module}.{rest}" if rest else module for module in modules]
    return paths + [p.replace(".contrib.", ".gen_contrib.") for p in paths if p.startswith(_GENERATED)]


_GENERATED = ("ndarray.contrib.", "symbol.contrib.")


_DENSE = "all arrays are dense"
_INT8 = "nothing here computes in int8"
_C = "there is no library in C behind the functions"
_GRADIENTS = "gradients are made from the operator's lowering"
_ONNX = "net.export(path), whose files MXNet 1.9.1 reads and its mx.onnx converts"
_PAUSE = "autograd.pause(), though nothing is recorded outside autograd.record()"
_RECORDS = "mx.io.ImageRecordIter(path_imgrec, data_shape, batch_size{0})"
_MODULE = "mx.mod.Module(symbol, data_names, label_names, context=contexts)"

#: names of MXNet 1.9.1
MXNET = (
    # sparse storage
    Decision(
        "io.LibSVMIter io.io.LibSVMIter",
        "an iterator over text files of sparse rows",
        "mx.io.NDArrayIter(data, label, batch_size) with a dense array of the file's rows",
        _DENSE,
    ),
    Decision(
        "test_utils.create_sparse_array* test_utils.rand_sparse_ndarray test_utils.shuffle_csr_column_indices",
        "a maker of sparse arrays for tests",
        "mx.test_utils.rand_ndarray(shape)",
        _DENSE,
    ),
    Decision(
        "F.contrib.dgl_* F.contrib.edge_id F.contrib.getnnz contrib.ndarray.dgl_* contrib.ndarray.edge_id contrib.ndarray.getnnz "
        "contrib.symbol.dgl_* contrib.symbol.edge_id contrib.symbol.getnnz",
        "an operator of graphs in sparse (CSR) matrices",
        "{F}.take and {F}.batch_dot on dense arrays of indices",
        _DENSE,
    ),
    Decision(
        "F.sparse.retain F.sparse.gs_retain nd.gen_sparse.retain sym.gen_sparse.retain F._internal._square_sum "
        "F._internal._scatter_*",
        "an operator of sparse arrays alone",
        "{F}.take, {F}.sum({F}.square(x)), x + y and the like on dense arrays",
        _DENSE,
    ),
    Decision(
        "nd.sparse.*SparseNDArray.* nd.sparse.CSRNDArray.* nd.sparse.RowSparseNDArray.* io.utils.sparse_array",
        "a part of a sparse array",
        "x.asnumpy(), and SciPy for sparse matrices",
        _DENSE,
    ),
    Decision(
        "F.contrib.SparseEmbedding F._internal._*SparseEmbedding contrib.ndarray.SparseEmbedding contrib.symbol.SparseEmbedding",
        "Embedding with a sparse gradient",
        "{F}.Embedding",
        _DENSE,
    ),
    Decision(
        "gluon.data.dataloader.reduce_ndarray gluon.data.dataloader.rebuild_ndarray "
        "gluon.data.dataloader.reduce_np_ndarray gluon.data.dataloader.rebuild_np_ndarray",
        "an array's way to another process through shared memory",
        "pickle.dumps(x), or ForkingPickler, which both take arrays",
        "arrays travel as copies of their values",
    ),
    # int8
    Decision(
        "contrib.quantization contrib.quant F.contrib.*quantize* F.contrib.calibrate_entropy contrib.ndarray.*quantize* "
        "contrib.ndarray.calibrate_entropy contrib.symbol.*quantize* contrib.symbol.calibrate_entropy",
        "arithmetic in int8",
        "net.cast('float16') for smaller weights",
        _INT8,
    ),
    # others
    Decision(
        "F.numpy._internal.backward_* F.numpy._internal.*_backward F.contrib.backward_* contrib.ndarray.backward_* contrib.symbol.backward_* F._internal._backward_*",
        "the gradient of an operator as an operator",
        "autograd.grad, or sym.bind(...).backward",
        _GRADIENTS,
    ),
    Decision("contrib.onnx onnx", "the exchange of networks with ONNX", _ONNX),
    Decision(
        "contrib.svrg_optimization",
        "training with gradients of reduced variance",
        "mx.mod.Module with an optimizer of mx.optimizer",
    ),
    Decision(
        "executor_manager.DataParallelExecutor* model.DataParallelExecutorManager",
        "what trained networks on several devices before modules did",
        _MODULE,
    ),
    Decision(
        "io.ImageDetRecordIter io.io.ImageDetRecordIter",
        "an iterator over packed images with boxes",
        "mx.image.ImageDetIter(batch_size, data_shape, path_imgrec), whose labels are (N, objects, width)",
    ),
    Decision(
        "io.ImageRecordInt8Iter io.io.ImageRecordInt8Iter",
        "an iterator over packed images in int8",
        _RECORDS.format(", dtype='int8'"),
    ),
    Decision(
        "io.ImageRecordUInt8Iter io.io.ImageRecordUInt8Iter io.ImageRecordUInt8Iter_v1 io.io.ImageRecordUInt8Iter_v1",
        "an iterator over packed images in uint8",
        _RECORDS.format(", dtype='uint8'"),
    ),
    Decision(
        "io.ImageRecordIter_v1 io.io.ImageRecordIter_v1",
        "an older iterator over packed images",
        _RECORDS.format(""),
    ),
    # C's side
    Decision(
        "base.build_param_doc base.add_fileline_to_docstring base.c2pyerror base.c_* "
        "base.check_call base.ctypes2* base.mx_float* base.mx_uint* base.mx_int* base.*Handle base._LIB base._load_lib "
        "base.get_last_ffi_error base.libinfo base._init_op_module "
        "*.MXCallbackList *.c_array *.c_array_buf *.c_handle_array *.c_str *.c_str_array *.c_int_p *.check_call "
        "*.ctypes2buffer *.ctypes2numpy_shared *.NDArrayBase *.SymbolBase "
        "*.Symbol.handle *.profiler_kvstore_handle *.set_kvstore_handle "
        "nd.ndarray.DL*",
        "a part of the binding to MXNet's library",
        "Python: arrays, operators and executors of this package",
        _C,
    ),
    Decision(
        "_ctypes _ffi _global_var _api_internal api space tvmop cython numpy_op_fallback F._internal._set_*class F._internal._CachedOp* F._internal._CustomFunction "
        "F._internal._NDArray F._internal._Native F._internal._NoGradient F._internal._imperative_invoke "
        "F._internal._symbol_creator F._internal._CrossDeviceCopy F._internal._copyto F.numpy._internal.copyto F._internal._set_value "
        "F._internal._broadcast_backward F._internal._split_v2_backward F._internal._zeros_without_dtype "
        "F._internal._onehot_encode",
        "a part of the binding to MXNet's library",
        "",
        f"functions of mx.nd and mx.sym do what it is for: {_C}",
    ),
    Decision(
        "F._internal._sg_mkldnn_*",
        "a group of operators that oneDNN computes at once",
        "net.hybridize(), which fuses operators",
    ),
    Decision(
        "F.numpy._internal.cv* F._internal._cv* F._internal._imdecode nd.imdecode nd.ndarray.imdecode",
        "a function of OpenCV",
        "the function of mx.image: imread, imdecode, imresize, copyMakeBorder",
    ),
    Decision(
        "*.get_indexing_dispatch_code *.get_oshape_of_gather_nd_op *.indexing_key_expand_implicit_axes "
        "*.check_boolean_array_dimension",
        "a step of x[key]",
        "x[key]",
    ),
    Decision(
        "*.cv2 lr_scheduler.pi test_utils.ss ndarray.utils.spsp nd.sparse.spsp io.utils.h5py model.SKLEARN_INSTALLED",
        "what MXNet's file imports from another library",
        "import of that library",
    ),
    Decision(
        "contrib.text.embedding.C contrib.text.vocab.C contrib.text._constants gluon.contrib.data.text.C gluon.contrib.data._constants "
        "contrib.text.embedding.*.pretrained_*_sha1",
        "a table of names and hashes of files that MXNet fetches",
        "contrib.text.embedding.get_pretrained_file_names()",
        "nothing is fetched",
    ),
    Decision(
        "kvstore.KVStoreServer kvstore.kvstore_server",
        "the process that holds the weights of training on several machines",
        "",
        "training runs in one process, on one or several devices",
    ),
    Decision("misc", "learning rates from before mx.lr_scheduler", "mx.lr_scheduler"),
    Decision(
        "notebook",
        "charts of training in a notebook, by the packages bokeh and pandas",
        "a callback of your own, called with param.epoch, param.nbatch and param.eval_metric",
    ),
    Decision(
        "image.detection.ImageDetIter.draw_next",
        "a window of OpenCV that shows pictures with their boxes",
        "for batch in iterator, and a drawing library",
    ),
    Decision(
        "metric.PearsonCorrelation.reset_micro metric.PearsonCorrelation.update_* "
        "module.executor_group.DataParallelExecutorGroup.bind_exec "
        "module.executor_group.DataParallelExecutorGroup.decide_slices",
        "a step of update, bind or reshape",
        "update(labels, preds), bind(data_shapes) or reshape(data_shapes)",
    ),
    Decision("torch th", "a bridge to Lua Torch", "a mx.operator.CustomOp, whose forward may call another library"),
    Decision("ndarray_doc symbol_doc _numpy_op_doc", "a store of texts for documentation", "help(mx.nd.NAME)"),
    Decision(
        "F.register",
        "what makes Python functions of the operators of MXNet's library",
        "mx.nd.NAME and mx.sym.NAME, which are made at first use",
    ),
)

_COSINE = "mx.lr_scheduler.CosineScheduler(max_update, base_lr, final_lr)"

#: names of other libraries that users try: path -> what to write
OTHERS = {
    "amp": "mx.contrib.amp",
    "gluon.metric": "mx.metric",
    "no_grad": _PAUSE,
    "manual_seed": "mx.random.seed(seed)",
    "cuda": "mx.num_gpus() to see whether there are any, and mx.gpu(i) for one",
    "device": "mx.cpu() or mx.gpu(i)",
    "Device": "mx.Context(name, i), or mx.cpu() and mx.gpu(i)",
    "current_device": "mx.current_context()",
    "npx.current_device": "npx.current_context()",
    "tensor": "mx.nd.array(values)",
    "save": "mx.nd.save(file, arrays)",
    "load": "mx.nd.load(file)",
    "nn": "mx.gluon.nn",
    "optim": "mx.gluon.Trainer(net.collect_params(), name, parameters)",
    "compile": "net.hybridize(static_alloc=True, static_shape=True)",
    "jit": "mx.hybridize(function)",
    "autograd.no_grad": _PAUSE,
    "autograd.Function.apply": "Name(...)(x): an object, called once, whose forward(self, x) and backward(self, *output_grads) "
    "are methods and take no ctx",
    "autograd.inference_mode": _PAUSE,
    "autograd.enable_grad": "autograd.record()",
    "autograd.set_grad_enabled": "autograd.set_recording(flag)",
    "autograd.GradientTape": "autograd.record()",
    # learning rates, which here are functions of the number of updates, not of epochs
    "lr_scheduler.StepLR": "mx.lr_scheduler.FactorScheduler(step, factor); step counts updates, not epochs",
    "lr_scheduler.MultiStepLR": "mx.lr_scheduler.MultiFactorScheduler(steps, factor); steps count updates, not epochs",
    "lr_scheduler.CosineAnnealingLR": f"{_COSINE}; max_update counts updates, not epochs",
    "lr_scheduler.PolynomialLR": "mx.lr_scheduler.PolyScheduler(max_update, base_lr, pwr); max_update counts updates, "
    "not epochs",
    "lr_scheduler.LinearLR": "warmup_steps=n, warmup_begin_lr=rate among the arguments of any scheduler",
    "lr_scheduler.ReduceLROnPlateau": "trainer.set_learning_rate(rate) where an epoch was no better",
    "F.matmul": "{F}.dot(a, b), or {F}.batch_dot(a, b) of two batches",
    "F.mm": "{F}.dot(a, b)",
    "F.mv": "{F}.dot(a, b)",
    "F.bmm": "{F}.batch_dot(a, b)",
    "F.addmm": "{F}.dot(a, b) + c",
    "F.einsum": "{F}.dot, {F}.batch_dot and {F}.transpose",
    "F.cat": "{F}.concat(a, b, dim=0)",
    "F.hstack": "{F}.concat(a, b, dim=1)",
    "F.vstack": "{F}.concat(a, b, dim=0)",
    "F.tensor": "mx.nd.array(values)",
    "F.from_numpy": "mx.nd.array(values)",
    "F.unsqueeze": "{F}.expand_dims(x, axis)",
    "F.permute": "{F}.transpose(x, axes)",
    "F.view": "{F}.reshape(x, shape)",
    "F.unbind": "{F}.split(x, num_outputs, axis, squeeze_axis=True)",
    "F.masked_fill": "{F}.where(mask, values, x)",
    "F.masked_softmax": "{F}.softmax({F}.broadcast_add(x, (mask - 1) * 1e4)), or "
    "{F}.softmax(x, length=lengths, use_length=True)",
    "F.chunk": "{F}.split(x, num_outputs, axis)",
    "F.linear": "{F}.FullyConnected(x, weight, bias, num_hidden=units, flatten=False)",
    "F.layer_norm": "{F}.LayerNorm(x, gamma, beta)",
    "F.cross_entropy": "gluon.loss.SoftmaxCrossEntropyLoss()",
    "F.clamp": "{F}.clip(x, a_min, a_max)",
    "F.pow": "{F}.power(a, b), or a ** b",
    "F.rand": "mx.nd.random.uniform(shape=...)",
    "ndarray.random.rand": "mx.nd.random.uniform(shape=...)",
    "symbol.array": "{F}.ones, {F}.full or {F}.arange; arrays enter a graph as arguments of the block or as its constants, "
    "self.name = self.params.get_constant('name', values)",
    "F.randn": "mx.nd.random.normal(shape=...)",
    "F.randint": "mx.nd.random.randint(low, high, shape=...)",
    "F.std": "{F}.sqrt({F}.moments(x, axes)[1])",
    "F.var": "{F}.moments(x, axes)[1]",
    "F.cumprod": "{F}.exp({F}.cumsum({F}.log(x))) where x > 0",
    "F.gelu": "{F}.LeakyReLU(x, act_type='gelu')",
    "F.leaky_relu": "{F}.LeakyReLU(x, slope=0.01)",
    "F.elu": "{F}.LeakyReLU(x, act_type='elu')",
    "F.tril": "x * {F}.broadcast_greater_equal(rows, columns), {F}.arange(n) as a column and as a row",
    "F.triu": "x * {F}.broadcast_lesser_equal(rows, columns), {F}.arange(n) as a column and as a row",
    "F.no_grad": _PAUSE,
    # np stands for mx.np, F.np and sym.np; what npx has is told of np without an entry, and the other way round
    "np.tensor": "mx.np.array(values)",
    "np.from_numpy": "mx.np.array(values)",
    "np.asarray": "mx.np.array(values)",
    "np.cat": "{F}np.concatenate((a, b), axis=0)",
    "np.concat": "{F}np.concatenate((a, b), axis=0)",
    "np.unsqueeze": "{F}np.expand_dims(x, axis)",
    "np.permute": "{F}np.transpose(x, axes)",
    "np.view": "x.reshape(shape)",
    "np.unbind": "[{F}np.squeeze(part, axis) for part in {F}np.split(x, n, axis)]",
    "np.chunk": "{F}np.split(x, n, axis)",
    "np.clamp": "{F}np.clip(x, a_min, a_max)",
    "np.pow": "{F}np.power(a, b), or a ** b",
    "np.mm": "{F}np.matmul(a, b), or a @ b",
    "np.bmm": "{F}npx.batch_dot(a, b), or a @ b",
    "np.rand": "{F}np.random.uniform(size=...)",
    "np.randn": "{F}np.random.normal(size=...)",
    "np.randint": "{F}np.random.randint(low, high, size=...)",
    "np.masked_fill": "{F}np.where(mask, values, x)",
    "np.no_grad": _PAUSE,
    "np.fft": "numpy.fft, of x.asnumpy(), and mx.np.array of what is real in the result",
    "np.save": "npx.save(file, arrays)",
    "np.load": "npx.load(file)",
    "np.random.seed": "mx.random.seed(seed)",
    "np.random.permutation": "mx.np.random.shuffle(x), which permutes in place",
    "np.random.default_rng": "mx.random.seed(seed), and functions of {F}np.random",
    "np.random.RandomState": "mx.random.seed(seed), and functions of {F}np.random",
    "np.random.Generator": "mx.random.seed(seed), and functions of {F}np.random",
    "np.random.standard_normal": "{F}np.random.normal(size=...)",
    # functions of NumPy that np lacks and that others of np make up, which can be traced and recorded
    "np.median": "{F}np.percentile(x, 50, axis)",
    "np.floor_divide": "{F}np.floor(x / y)",
    "np.fmod": "x - {F}np.trunc(x / y) * y",
    "np.logical_and": "(x != 0) & (y != 0)",
    "np.logical_or": "(x != 0) | (y != 0)",
    "np.logical_xor": "(x != 0) ^ (y != 0)",
    "np.bitwise_invert": "{F}np.bitwise_not(x)",
    "np.left_shift": "x * 2 ** n",
    "np.exp2": "2 ** x",
    "np.logaddexp": "{F}np.maximum(x, y) + {F}np.log1p({F}np.exp(-{F}np.abs(x - y)))",
    "np.fmax": "{F}np.where({F}np.isnan(x), y, {F}np.where({F}np.isnan(y), x, {F}np.maximum(x, y)))",
    "np.fmin": "{F}np.where({F}np.isnan(x), y, {F}np.where({F}np.isnan(y), x, {F}np.minimum(x, y)))",
    "np.nansum": "{F}np.sum({F}np.where({F}np.isnan(x), 0, x), axis)",
    "np.nanmean": "{F}np.sum({F}np.where({F}np.isnan(x), 0, x), axis) / {F}np.sum(~{F}np.isnan(x), axis)",
    "np.cumprod": "{F}np.nancumprod(x, axis), which takes NaN for 1",
    "np.cumulative_prod": "{F}np.nancumprod(x, axis), which takes NaN for 1",
    "np.cumulative_sum": "{F}np.cumsum(x, axis)",
    "np.trapezoid": "{F}np.trapz(y, x)",
    "np.convolve": "{F}np.correlate(x, {F}np.flip(y), 'full')",
    "np.cross": "{F}np.roll(x, -1, -1) * {F}np.roll(y, -2, -1) - {F}np.roll(x, -2, -1) * {F}np.roll(y, -1, -1), of vectors of 3",
    "np.kron": "{F}np.einsum('ij,kl->ikjl', x, y).reshape(m * p, n * q), of matrices (m, n) and (p, q)",
    "np.vecdot": "{F}np.sum(x * y, -1)",
    "np.linalg.vecdot": "{F}np.sum(x * y, -1)",
    "np.matrix_transpose": "{F}np.swapaxes(x, -1, -2)",
    "np.linalg.matrix_transpose": "{F}np.swapaxes(x, -1, -2)",
    "np.linalg.svdvals": "{F}np.linalg.svd(x)[1]",
    "np.linalg.vector_norm": "{F}np.linalg.norm(x)",
    "np.permute_dims": "{F}np.transpose(x, axes)",
    "np.unstack": "[{F}np.squeeze(part, axis) for part in {F}np.split(x, n, axis)]",
    "np.triu": "{F}np.tril(x.T, -k).T, of a matrix",
    "np.tri": "{F}np.tril({F}np.ones((n, m)), k)",
    "np.tril_indices": "np.tril_indices_from(np.zeros((n, n)), k)",
    "np.triu_indices": "np.triu_indices_from(np.zeros((n, n)), k)",
    "np.diag_indices": "np.diag_indices_from(np.zeros((n, n)))",
    "np.geomspace": "{F}np.logspace({F}np.log10(start), {F}np.log10(stop), n)",
    "np.acos": "{F}np.arccos(x)",
    "np.acosh": "{F}np.arccosh(x)",
    "np.asin": "{F}np.arcsin(x)",
    "np.asinh": "{F}np.arcsinh(x)",
    "np.atan": "{F}np.arctan(x)",
    "np.atanh": "{F}np.arctanh(x)",
    "np.atan2": "{F}np.arctan2(y, x)",
    # these write into an array
    "np.copyto": "x[:] = values",
    "np.putmask": "x[:] = np.where(mask, values, x)",
    "np.fill_diagonal": "x[:] = np.where(np.eye(n), value, x)",
    "np.random.random": "{F}np.random.uniform(size=...)",
    "np.random.random_sample": "{F}np.random.uniform(size=...)",
    "np.random.standard_exponential": "{F}np.random.exponential(size=...)",
    "np.random.standard_gamma": "{F}np.random.gamma(shape, size=...)",
    "np.random.poisson": "mx.nd.random.poisson(lam, shape).as_np_ndarray()",
    "npx.gelu": "{F}npx.leaky_relu(x, act_type='gelu')",
    "npx.elu": "{F}npx.leaky_relu(x, act_type='elu')",
    "npx.tanh": "{F}np.tanh(x)",
    "npx.linear": "{F}npx.fully_connected(x, weight, bias, num_hidden=units, flatten=False)",
    "npx.cross_entropy": "gluon.loss.SoftmaxCrossEntropyLoss()",
    "npx.masked_softmax": "{F}npx.softmax(x, length=lengths, use_length=True)",
    "npx.FullyConnected": "{F}npx.fully_connected(x, weight, bias, num_hidden=units, flatten=False)",
    "npx.Convolution": "{F}npx.convolution(x, weight, bias, kernel=..., num_filter=...)",
    "npx.BatchNorm": "{F}npx.batch_norm(x, gamma, beta, running_mean, running_var)",
}

_NUMPY = re.compile(r"(ndarray\.|symbol\.)?numpy(_extension)?\.(.+)")

#: names of optimizers, which are texts
OPTIMIZERS = {
    "adamw": "'adam', whose decay is part of the gradient; one apart from it is nd.contrib.adamw_update in an Optimizer of yours",
}


@lru_cache(1024)  # tools ask every module for the same names, such as pytest for _mock_name
def decision(path: str) -> Decision | None:
    """What became of a name of MXNet's or of another library; None where nothing was decided.

    Args:
        path: module and name, and a member's, below the package.
    """
    parts = path.split(".")
    upwards = [".".join(parts[:k]) for k in range(len(parts), 0, -1)]
    for decided in MXNET:
        patterns = decided.patterns()
        if any(fnmatchcase(name, pattern) for name in upwards for pattern in patterns):
            return decided
    if numpy := _NUMPY.fullmatch(path):
        path = f"np{'x' * bool(numpy[2])}.{numpy[3]}"
        other = path.replace("np.", "npx.")  # such as gelu
    else:
        other = f"F.{parts[1]}" if len(parts) == 2 and parts[0] in ("ndarray", "symbol") else path
    for key in (path, other):
        if key in OTHERS:
            return Decision(key, "", OTHERS[key])
    return None


def hint(path: str) -> str:
    """The line for the end of an error about a missing name, or ''."""
    from ..core.source_location import current_block, located_hint

    decided = decision(path)
    if decided is None:
        return ""
    functions = "nd" if not path.startswith("symbol.") else "F" if current_block() else "sym"
    if _NUMPY.fullmatch(path):
        functions = "" if functions == "nd" else f"{functions}."
    return located_hint(decided.text(functions))
