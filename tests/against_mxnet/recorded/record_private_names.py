# SPDX-License-Identifier: Apache-2.0
"""Records which names with one underscore the classes of the real MXNet have, of which users make subclasses.

    python record_private_names.py       # writes private_names.json beside this file; runs in a Python that has MXNet

``module.Class`` -> its bases of MXNet's, and the names of its members and of the attributes that its methods use.
"""

import ast
import functools
import importlib
import inspect
import json
import os
import pkgutil
import textwrap

OUTPUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "private_names.json")
ROOT = "mxnet"
NOT_MODULES = ("mxnet.libmxnet", "mxnet.onnx.setup")  # a library, and a program that runs when it is imported
#: classes of which users make subclasses, below the package
BASES = """
    autograd.Function callback.LogValidationMetricsCallback callback.ProgressBar callback.Speedometer
    contrib.amp.loss_scaler.LossScaler contrib.tensorboard.LogMetricsCallback contrib.text.vocab.Vocabulary
    gluon.block.Block gluon.contrib.estimator.batch_processor.BatchProcessor
    gluon.contrib.estimator.estimator.Estimator gluon.contrib.estimator.event_handler.BatchBegin
    gluon.contrib.estimator.event_handler.BatchEnd gluon.contrib.estimator.event_handler.EpochBegin
    gluon.contrib.estimator.event_handler.EpochEnd gluon.contrib.estimator.event_handler.EventHandler
    gluon.contrib.estimator.event_handler.TrainBegin gluon.contrib.estimator.event_handler.TrainEnd
    gluon.data.dataloader.DataLoader gluon.data.dataset.Dataset gluon.data.sampler.Sampler
    gluon.parameter.Parameter gluon.parameter.ParameterDict gluon.trainer.Trainer
    image.detection.DetAugmenter image.image.Augmenter initializer.Initializer io.io.DataIter
    kvstore.base.KVStoreBase kvstore.kvstore.KVStore lr_scheduler.LRScheduler metric.EvalMetric model.FeedForward
    module.base_module.BaseModule monitor.Monitor operator.CustomOp operator.CustomOpProp operator.PythonOp
    optimizer.optimizer.Optimizer optimizer.optimizer.Updater recordio.MXRecordIO rnn.rnn_cell.BaseRNNCell
    rnn.rnn_cell.RNNParams
""".split()


def is_private(name):
    """Whether a name starts with one underscore, and Python has not mangled it."""
    return name.startswith("_") and "__" not in name and name != "_"


def private_names(cls):
    """Names with one underscore that a class gives to its instances, without those of its bases."""
    return {name for name in vars(cls) if is_private(name)} | attributes_used(cls)


@functools.lru_cache(maxsize=None)  # noqa: UP033 - the Python that has MXNet is 3.8
def attributes_used(cls):
    """Names with one underscore that methods of a class use of what they are called with."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError):  # made without a text of its own
        return set()
    found = set()
    for method in tree.body[0].body:
        if isinstance(method, ast.FunctionDef) and method.args.args:
            own = method.args.args[0].arg
            for node in ast.walk(method):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    if node.value.id == own and is_private(node.attr):
                        found.add(node.attr)
    return found


def class_at(package, path):
    """The class at a path below a package."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(package + "." + module), name)


def key(cls):
    """The path of a class below its package."""
    return cls.__module__.partition(".")[2] + "." + cls.__name__


def main():
    """Walk the modules and write the file."""
    package = importlib.import_module(ROOT)
    for found in pkgutil.walk_packages(package.__path__, ROOT + ".", onerror=lambda name: None):
        if found.name not in NOT_MODULES:
            importlib.import_module(found.name)
    waiting, classes = [class_at(ROOT, path) for path in BASES], {}
    while waiting:
        cls = waiting.pop()
        if cls.__module__.startswith(ROOT + "."):
            waiting += [c for c in cls.__mro__[1:] + tuple(cls.__subclasses__()) if key(c) not in classes]
            bases = [key(c) for c in cls.__mro__[1:] if c.__module__.startswith(ROOT + ".")]
            classes[key(cls)] = {"bases": bases, "names": " ".join(sorted(private_names(cls)))}
    with open(OUTPUT, "w") as file:
        lines = (f"{json.dumps(k)}: {json.dumps(classes[k])}" for k in sorted(classes))
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
    print(len(classes), "classes,", sum(len(c["names"].split()) for c in classes.values()), "names")


if __name__ == "__main__":
    main()
