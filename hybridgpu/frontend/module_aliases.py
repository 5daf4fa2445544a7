# SPDX-License-Identifier: Apache-2.0
"""Module aliases: MXNet's module paths, and the names that its modules import from each other.

Modules of the package are made as :class:`PackageModule`, which knows both and ends errors about other names with what
to write instead; see :func:`install`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import FrameType, ModuleType
from typing import Any

__all__ = ["BORROWED", "PATHS", "ROOTS", "PackageModule", "borrowed", "install"]

_PACKAGE = __name__.partition(".")[0]
ROOTS = {_PACKAGE}  #: names that the package is imported under; as_mxnet adds its own

#: path of MXNet's -> the modules here that have what it has; itself, if its package makes it when it is asked for
PATHS = {
    "contrib.ndarray": "ndarray.contrib",
    "contrib.symbol": "symbol.contrib",
    "gluon.contrib.estimator.utils": "gluon.contrib.estimator.checks",
    "gluon.contrib.nn.basic_layers": "gluon.contrib.nn",
    "gluon.nn.basic_layers": "gluon.nn.basic gluon.nn.normalization",
    "gluon.nn.conv_layers": "gluon.nn.conv gluon.nn.pooling",
    "gluon.rnn.rnn_cell": "gluon.rnn.cells gluon.rnn.combined gluon.rnn.cell_functions gluon.rnn.sequence",
    "image.image": "image.images image.augment image.iterator",
    "io.io": "io.iterators io",
    "io.utils": "io.iterators.arrays io.iterators.base",
    "kvstore.base": "kvstore",
    "kvstore.kvstore": "kvstore",
    "ndarray.gen__internal": "ndarray._internal",
    "ndarray.gen_contrib": "ndarray.contrib",
    "ndarray.gen_image": "ndarray.image",
    "ndarray.gen_linalg": "ndarray.linalg",
    "ndarray.gen_op": "ndarray.op",
    "ndarray.gen_sparse": "ndarray.sparse",
    "ndarray.gen_random": "ndarray.random._operators",
    "ndarray.utils": "ndarray.creation ndarray.serialization",
    "ndarray.numpy._internal": "ndarray.numpy._internal",
    "ndarray.numpy._op": "ndarray.numpy",
    "numpy._op": "numpy",
    "numpy.function_base": "numpy",
    "numpy.stride_tricks": "numpy",
    "numpy_extension.utils": "numpy_extension ndarray.serialization",
    "symbol.numpy._op": "symbol.numpy",
    "symbol.numpy._symbol": "symbol.numpy.symbol",
    "symbol.numpy._internal": "symbol.numpy._internal",
    "optimizer.optimizer": "optimizer.base optimizer.sgd optimizer.adaptive optimizer.single_op optimizer.updater",
    "rnn.rnn": "rnn.checkpoints",
    "rnn.rnn_cell": "rnn.cells rnn.combined rnn.conv",
    "symbol.gen__internal": "symbol._internal",
    "symbol.gen_contrib": "symbol.contrib",
    "symbol.gen_image": "symbol.image",
    "symbol.gen_linalg": "symbol.linalg",
    "symbol.gen_op": "symbol.op",
    "symbol.gen_sparse": "symbol.sparse",
    "symbol.gen_random": "symbol.random._operators",
}

#: names that modules of MXNet import from each other -> what they are here
_SOURCES = {
    "DataBatch": "io.DataBatch",
    "DataDesc": "io.DataDesc",
    "DataIter": "io.DataIter",
    "DeferredInitializationError": "gluon.DeferredInitializationError",
    "Features": "runtime.Features",
    "HybridBlock": "gluon.HybridBlock",
    "KVStore": "kvstore.KVStore",
    "NDArray": "ndarray.NDArray",
    "Symbol": "symbol.Symbol",
    "ctx": "context",
    "init": "initializer",
    "kvs": "kvstore",
    "load_json": "symbol.load_json",
    "mx": "",
    "opt": "optimizer",
    "rnn_cell": "gluon.rnn.rnn_cell",
    "sampler": "gluon.data.sampler",
    "dataset": "gluon.data.dataset",
    "text": "contrib.text",
    "vocab": "contrib.text.vocab",
    **{f"is_np_{x}": f"util.is_np_{x}" for x in ("array", "shape")},
    **{f"np_{x}": f"util.np_{x}" for x in ("array", "shape")},
    **{
        x: f"base.{x}"
        for x in ("classproperty", "integer_types", "numeric_types", "py_str", "string_types", "with_metaclass")
    },
    **{x: f"gluon.utils.{x}" for x in ("check_sha1", "download", "split_and_load")},
    **{x: f"gluon.{x}" for x in ("Block", "tensor_types")},
}

#: path of MXNet's -> such names in it that programs can have found there; ``name=path`` where it is another than above,
#: ``*=path`` for all of a module
BORROWED: dict[str, str] = {
    "numpy.arrayprint": "set_module=util.set_module",
    "numpy.io": "current_context",
    "numpy_op_signature": "mx_np=numpy mx_npx=numpy_extension",
    "io": "_init_data=io.iterators.arrays.init_data _has_instance=io.iterators.arrays.has_instance",
    "contrib.amp.loss_scaler": "ag=autograd",
    "contrib.amp.amp": "BucketingModule=module.BucketingModule NDArray Symbol base gpu opt symbol_contrib=symbol.contrib trainer=gluon.trainer",
    "ndarray.sparse": "Context current_context integer_types numeric_types op=ndarray.op NotSupportedForSparseNDArray=base.NotSupportedForSparseNDArray",
    "ndarray": "_DTYPE_NP_TO_MX=ndarray.codes._DTYPE_NP_TO_MX _GRAD_REQ_MAP=ndarray.codes._GRAD_REQ_MAP ndarray=ndarray.ndarray",
    "gluon.contrib.nn": "context nd",
    "kvstore": "string_types opt py_str",
    "ndarray.op": "CachedOp=ndarray.CachedOp",
    "ndarray._internal": "CachedOp=ndarray.CachedOp",
    "attribute": "classproperty string_types with_metaclass",
    "autograd": "Symbol string_types",
    "context": "classproperty with_metaclass",
    "contrib.autograd": "string_types",
    "contrib.text.embedding": "base is_np_array vocab",
    "executor": "NDArray ndarray py_str",
    "executor_manager": "DataDesc cpu nd",
    "gluon.block": "HybridBlock=gluon.HybridBlock SymbolBlock=gluon.SymbolBlock _indent=gluon.block.indent DeferredInitializationError NDArray Symbol initializer is_np_array load_json ndarray np_array np_shape symbol _flatten=gluon.pytree.flatten _regroup=gluon.pytree.regrouped",
    "gluon.contrib.cnn.conv_layers": "numeric_types symbol",
    "gluon.contrib.data.sampler": "sampler",
    "gluon.contrib.data.text": "base check_sha1 dataset download nd text",
    "gluon.contrib.estimator.estimator": "gluon_loss=gluon.loss.Loss metric_loss=metric.Loss split_and_load",
    "gluon.contrib.estimator.event_handler": "CompositeEvalMetric=metric.CompositeEvalMetric EvalMetric=metric.EvalMetric metric_loss=metric.Loss",
    "gluon.contrib.nn.basic_layers": "context nd",
    "gluon.contrib.rnn.conv_rnn_cell": "numeric_types",
    "gluon.contrib.rnn.rnn_cell": "SequentialRNNCell=gluon.rnn.rnn_cell.SequentialRNNCell tensor_types",
    "gluon.data.dataloader": "_MultiWorkerIter=gluon.data.worker_queues.MultiWorkerIter _MultiWorkerIterV1=gluon.data.worker_queues.MultiWorkerIterV1 _as_in_context=gluon.data.worker_queues.as_in_context _worker_fn=gluon.data.worker_queues.worker_fn _thread_worker_fn=gluon.data.worker_queues.thread_worker_fn _worker_initializer=gluon.data.worker_queues.worker_initializer _thread_worker_initializer=gluon.data.worker_queues.thread_worker_initializer ConnectionWrapper=gluon.data.worker_queues.ConnectionWrapper ForkingPickler=gluon.data.worker_queues.ForkingPickler Queue=gluon.data.worker_queues.Queue SimpleQueue=gluon.data.worker_queues.SimpleQueue fetcher_loop_v1=gluon.data.worker_queues.fetcher_loop_v1 worker_loop_v1=gluon.data.worker_queues.worker_loop_v1 context is_np_array is_np_shape nd set_np=util.set_np",
    "gluon.data.dataset": "ndarray recordio",
    "gluon.data.vision.datasets": "base check_sha1 dataset download image is_np_array nd recordio",
    "gluon.data.vision.transforms": "is_np_array numeric_types",
    "gluon.loss": "is_np_array ndarray",
    "gluon.model_zoo.model_store": "base",
    "gluon.model_zoo.vision.alexnet": "HybridBlock base cpu",
    "gluon.model_zoo.vision.densenet": "HybridBlock base cpu",
    "gluon.model_zoo.vision.inception": "HybridBlock base cpu",
    "gluon.model_zoo.vision.mobilenet": "base cpu",
    "gluon.model_zoo.vision.resnet": "base cpu is_np_array",
    "gluon.model_zoo.vision.squeezenet": "HybridBlock base cpu",
    "gluon.model_zoo.vision.vgg": "HybridBlock base cpu",
    "gluon.nn.activations": "is_np_array",
    "gluon.nn.basic_layers": "is_np_array nd sym",
    "gluon.nn.conv_layers": "is_np_array symbol",
    "gluon.parameter": "Context MXNetError autograd context cpu initializer is_np_array is_np_shape ndarray symbol",
    "gluon.rnn.rnn_cell": "string_types tensor_types",
    "gluon.rnn.rnn_layer": "is_np_array rnn_cell tensor_types",
    "gluon.trainer": "KVStore",
    "gluon.utils": "_indent=gluon.block.indent is_np_array is_np_shape",
    "image": "io is_np_array nd numeric_types recordio",
    "image.detection": "io is_np_array nd numeric_types recordio *=image.image",
    "image.image": "io is_np_array numeric_types recordio",
    "initializer": "NDArray is_np_array load=ndarray.utils.load ndarray random string_types",
    "io.io": "_init_data=io.iterators.arrays.init_data _has_instance=io.iterators.arrays.has_instance NDArray array=ndarray.utils.array py_str CSRNDArray=ndarray.sparse.CSRNDArray",
    "io.utils": "_init_data=io.iterators.arrays.init_data _has_instance=io.iterators.arrays.has_instance array=ndarray.utils.array CSRNDArray=ndarray.sparse.CSRNDArray array=ndarray.array",
    "kvstore.base": "string_types",
    "kvstore.kvstore": "opt py_str",
    "metric": "ndarray numeric_types registry string_types",
    "model": "Context DataDesc LogValidationMetricsCallback=callback.LogValidationMetricsCallback Uniform=initializer.Uniform get_updater=optimizer.optimizer.get_updater io kvs metric nd opt sym _create_kvstore=module.kvstore_update._create_kvstore _initialize_kvstore=module.kvstore_update._initialize_kvstore _update_params=module.kvstore_update._update_params _update_params_on_kvstore=module.kvstore_update._update_params_on_kvstore",
    "module.base_module": "DataDesc ndarray _as_list=base._as_list _check_input_names=module.data_descriptions.check_names _check_names_match=module.data_descriptions.check_match _parse_data_desc=module.data_descriptions.descriptions",
    "module.bucketing_module": "ctx nd sym",
    "module.executor_group": "ctx nd",
    "module.module": "ctx nd",
    "module.python_module": "nd",
    "monitor": "ndarray py_str",
    "name": "classproperty with_metaclass",
    "ndarray.contrib": "current_context mx ndarray=ndarray.ndarray uniform=ndarray.random.uniform",
    "ndarray.ndarray": "py_slice=ndarray.codes.py_slice _DTYPE_NP_TO_MX=ndarray.codes._DTYPE_NP_TO_MX _DTYPE_MX_TO_NP=ndarray.codes._DTYPE_MX_TO_NP _GRAD_REQ_MAP=ndarray.codes._GRAD_REQ_MAP _STORAGE_TYPE_ID_TO_STR=ndarray.codes._STORAGE_TYPE_ID_TO_STR _STORAGE_TYPE_STR_TO_ID=ndarray.codes._STORAGE_TYPE_STR_TO_ID _STORAGE_TYPE_UNDEFINED=ndarray.codes._STORAGE_TYPE_UNDEFINED _STORAGE_TYPE_DEFAULT=ndarray.codes._STORAGE_TYPE_DEFAULT _STORAGE_TYPE_ROW_SPARSE=ndarray.codes._STORAGE_TYPE_ROW_SPARSE _STORAGE_TYPE_CSR=ndarray.codes._STORAGE_TYPE_CSR Context Features current_context integer_types is_np_array numeric_types *=ndarray",
    "ndarray.random": "current_context numeric_types",
    "ndarray.utils": "py_str string_types",
    "operator": "context is_np_array py_str symbol",
    "optimizer": "NDabs=ndarray.abs",
    "optimizer.contrib": "contrib=ndarray.contrib",
    "optimizer.optimizer": "NDabs=ndarray.abs array=ndarray.utils.array is_np_array multi_lamb_update=ndarray.contrib.multi_lamb_update multi_mp_lamb_update=ndarray.contrib.multi_mp_lamb_update py_str zeros=ndarray.utils.zeros sparse=ndarray.sparse maximum=ndarray.maximum multiply=ndarray.multiply",
    "profiler": "py_str",
    "random": "Context integer_types",
    "registry": "string_types",
    "rnn": "DataBatch DataDesc DataIter init load_checkpoint=model.load_checkpoint ndarray numeric_types save_checkpoint=model.save_checkpoint string_types symbol",
    "rnn.io": "DataBatch DataDesc DataIter ndarray BucketSentenceIter=rnn.BucketSentenceIter",
    "rnn.rnn_cell": "init string_types",
    "symbol._internal": "AttrScope NameManager=name.NameManager",
    "symbol.contrib": "AttrScope Symbol symbol=symbol.symbol uniform=symbol.random.uniform",
    "symbol.random": "numeric_types",
    "symbol.symbol": "_DTYPE_NP_TO_MX=ndarray.codes._DTYPE_NP_TO_MX _DTYPE_MX_TO_NP=ndarray.codes._DTYPE_MX_TO_NP _GRAD_REQ_MAP=ndarray.codes._GRAD_REQ_MAP AttrScope Context Executor=executor.Executor NDArray current_context integer_types is_np_shape py_str string_types *=symbol",
    "test_utils": "Features",
    "util": "py_str",
    "numpy.multiarray": "wrap_np_binary_func=util.wrap_np_binary_func wrap_np_unary_func=util.wrap_np_unary_func set_module=util.set_module is_recording=autograd.is_recording from_numpy=ndarray.from_numpy Context NDArray current_context numeric_types integer_types is_np_array *=numpy",
    "numpy_extension": "classproperty with_metaclass",
    "numpy_extension.image": "det=image.det detection=image.detection image=image.image *=image",
    "numpy_extension.utils": "ndarray py_str string_types",
    "numpy.linalg": "fallback_linalg=numpy.fallback_linalg",
    "numpy_extension.random": "Context current_context seed=random.seed",
    "ndarray.numpy.random": "NDArray current_context",
    "ndarray.numpy_extension.random": "current_context",
    "symbol.numpy.random": "current_context",
    "symbol.numpy_extension.random": "current_context",
    "numpy_dispatch_protocol": "mx_np=numpy",
}


class PackageModule(ModuleType):
    """A module of this package: what it does not have itself may be MXNet's, or have a decision in ``hints``."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            path = f"{self.__name__}.{name}".partition(".")[2]
            if path in PATHS:
                return importlib.import_module(f"{_PACKAGE}.{path}")
            for source in _sources(path, name):
                try:
                    setattr(self, name, value := _at(source))
                except AttributeError:
                    continue
                return value
            if sys._getframe(1).f_code.co_name == "_handle_fromlist":  # 'from' looks again behind the submodules
                raise AttributeError(name)
            from ..hints.foreign_names import hint

            if text := hint(path):
                message = f"module '{self.__name__}' has no attribute '{name}'\n{text}"
                raise ImportError(message) if _imports_from(sys._getframe(1)) else AttributeError(message)
        return super().__getattribute__(name)  # for the module's own error

    def __dir__(self) -> list[str]:
        """What is public: what the module's ``__dir__`` or its ``__all__`` lists, else what it defines."""
        names = self.__dict__
        listed = names["__dir__"]() if "__dir__" in names else names.get("__all__") or _defined(self)
        return sorted({*listed, *(name for name in names if name.startswith("__"))})


class _Divided(PackageModule):
    """A module of MXNet's whose names several modules here have: reads, writes and deletions of names are theirs."""

    def __init__(self, name: str, homes: Sequence[ModuleType]) -> None:
        super().__init__(name, "Names of " + ", ".join(home.__name__ for home in homes) + ".")
        self.__dict__["_homes"] = homes
        self.__dict__["_deleted"] = {}

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            for home in self._homes:
                if name in home.__dict__:
                    return home.__dict__[name]
            for home in self._homes:  # what they import at first use
                try:
                    return getattr(home, name)
                except AttributeError:
                    continue
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = name.startswith("__")  # such as __package__, which the import system sets
        homes = () if own else [h for h in self._homes if name in h.__dict__] or self._deleted.pop(name, ())
        for home in homes:
            setattr(home, name, value)
        if not homes:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        homes = [home for home in self._homes if name in home.__dict__]
        if not homes:
            super().__delattr__(name)
            return
        self._deleted[name] = homes  # who deletes in order to put back, as unittest.mock does, means the same modules
        for home in homes:
            delattr(home, name)

    def __dir__(self) -> list[str]:
        own = (name for name in self.__dict__ if not name.startswith("_") or name.startswith("__"))
        return sorted({*own, *(name for home in self._homes for name in dir(home))})


class _Loader(SourceFileLoader):
    """Makes a module of the package as a :class:`PackageModule`."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return PackageModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        if not hasattr(module, "__path__") and any(path.startswith(f"{_below(module)}.") for path in PATHS):
            module.__path__ = []  # MXNet has a package here, whose modules import statements name
        super().exec_module(module)


class _AliasLoader:
    """Gives what a path of MXNet's stands for."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        own = _below(spec)
        homes = [_attribute(path) if path == own else _at(path) for path in PATHS[own].split()]
        self._home = homes[0] if len(homes) == 1 else None
        self._spec = getattr(self._home, "__spec__", None)
        return self._home or _Divided(spec.name, homes)

    def exec_module(self, module: ModuleType) -> None:
        if self._home is not None:
            module.__spec__ = self._spec  # which the import system has replaced


class _Finder:
    """Finds the package's modules before Python's own finder would."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith(f"{_PACKAGE}."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None and name.partition(".")[2] in PATHS:
            return ModuleSpec(name, _AliasLoader())  # type: ignore[arg-type]
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader.__class__ = _Loader
        return spec


def install() -> None:
    """Let the package's modules, itself included, be what this module describes."""
    for name, module in sys.modules.items():  # those that were imported already
        if (name == _PACKAGE or name.startswith(f"{_PACKAGE}.")) and type(module) is ModuleType:
            module.__class__ = PackageModule
    sys.meta_path.insert(sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else 0, _Finder)


def _defined(module: ModuleType) -> list[str]:
    """Names without an underscore of what a module without ``__all__`` defines: no modules, and nothing it imports."""
    homes = (None, module.__name__)
    names = [n for n, value in module.__dict__.items() if n[:1] != "_" and not isinstance(value, ModuleType)]
    candidates = [(n, getattr(module.__dict__[n], "__module__", None)) for n in names]
    return [n for n, home in candidates if home in homes or str(home).startswith(f"{module.__name__}.")]


def _below(module: ModuleType | ModuleSpec) -> str:
    """The path below the package."""
    name = module.name if isinstance(module, ModuleSpec) else module.__name__
    return name.partition(".")[2]


def _sources(path: str, name: str) -> Iterator[str]:
    """Where a name may come from that one module of MXNet's has from another."""
    for entry in BORROWED.get(path.rpartition(".")[0], "").split():
        own, _, source = entry.partition("=")
        if own == name:
            yield source or _SOURCES.get(name, name)
        elif own == "*" and not name.startswith("_"):
            yield f"{source}.{name}"


def borrowed(module: str, name: str) -> bool:
    """Whether a module has a name from another one; it keeps it once somebody asked."""
    return next(_sources(f"{module}.{name}".partition(".")[2], name), None) is not None


def _attribute(path: str) -> Any:
    """What a package makes when it is asked for its attribute."""
    parent, _, name = path.rpartition(".")
    return getattr(_at(parent), name)


def _at(path: str) -> Any:
    """What is at a path below the package."""
    try:
        return importlib.import_module(f"{_PACKAGE}.{path}" if path else _PACKAGE)
    except ModuleNotFoundError:  # it is no module
        if "." not in path and not hasattr(sys.modules[_PACKAGE], path):
            raise
        return _attribute(path)


def _imports_from(frame: FrameType | None) -> bool:
    """Whether ``from module import name`` looks for a name; Python would drop the text of an AttributeError."""
    from opcode import opmap

    while frame is not None and frame.f_code.co_name == "__getattr__":
        frame = frame.f_back
    return frame is not None and frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]
