# SPDX-License-Identifier: Apache-2.0
"""What MXNet does in test_python_operators.py: makes each Symbol, and reads, writes and runs the file of ours.

python python_operators.py FOLDER     # calls.json, inputs.npz, 0.json … are there
"""

import json
import os
import sys

import mxnet as mx
import numpy as np


def main(folder):
    mx.npx.set_np()
    inputs = np.load(os.path.join(folder, "inputs.npz"))
    with open(os.path.join(folder, "calls.json")) as f:
        calls = json.load(f)
    for k, call in enumerate(calls):
        path = os.path.join(folder, str(k))
        variables = {name: mx.sym.var(name).as_np_ndarray() for name in inputs.files}
        with mx.name.NameManager():
            eval(call, {"np": mx.sym.np, **variables}).save(path + "-theirs.json")
        read = mx.sym.load(path + ".json")
        read.save(path + "-again.json")
        names = read.list_arguments()
        net = mx.gluon.SymbolBlock.imports(path + ".json", names)
        np.save(path + ".npy", net(*(mx.np.array(inputs[n], dtype=inputs[n].dtype) for n in names)).asnumpy())


if __name__ == "__main__":
    main(sys.argv[1])
