# SPDX-License-Identifier: Apache-2.0
"""Losses and their gradients."""

import numpy as np
from against_mxnet.recorded.record import array, draw

P, Y, W = draw((3, 4), 1), draw((3, 4), 2), draw((3, 1), 3, 0, 1)
ANCHOR = draw((3, 4), 11)
DISTRIBUTION = draw((3, 4), 4, 0.1, 1)
DISTRIBUTION /= DISTRIBUTION.sum(1, keepdims=True)
PROBABILITY = draw((3, 4), 5, 0.1, 0.9)
BINARY, SIGN = (Y > 0).astype("float32"), np.sign(Y)
CLASSES = np.array([1, 3, 0], "float32")
POSITIVE = draw((1, 4), 6, 1, 3)
SCORES = draw((2, 6, 4), 12)


def _array(*rows):
    return np.array(rows, "float32")


#: name -> (class, arguments, inputs)
CASES = {
    "l2": ("L2Loss", {}, [P, Y]),
    "l2 weight, batch axis": ("L2Loss", {"weight": 3, "batch_axis": 1}, [P, Y]),
    "l2 sample weight": ("L2Loss", {}, [P, Y, W]),
    "l2 reshaped label": ("L2Loss", {}, [P, Y.reshape(3, 2, 2)]),
    "l1": ("L1Loss", {"weight": 0.5}, [P, Y, W]),
    "sigmoid": ("SigmoidBCELoss", {}, [P * 5, BINARY]),
    "sigmoid weights": ("SigmoidBCELoss", {"weight": 2}, [P, BINARY, W]),
    "sigmoid positive weight": ("SigmoidBCELoss", {}, [P, BINARY, W, POSITIVE]),
    "sigmoid of probabilities": ("SigmoidBCELoss", {"from_sigmoid": True}, [PROBABILITY, BINARY]),
    "sigmoid of probabilities, positive weight": (
        "SigmoidBCELoss",
        {"from_sigmoid": True},
        [PROBABILITY, BINARY, W, POSITIVE],
    ),
    "softmax": ("SoftmaxCELoss", {}, [P, CLASSES]),
    "softmax weights": ("SoftmaxCELoss", {"weight": 2}, [P, CLASSES, W]),
    "softmax dense label": ("SoftmaxCELoss", {"sparse_label": False}, [P, DISTRIBUTION]),
    "softmax from logits": ("SoftmaxCELoss", {"from_logits": True}, [np.log(DISTRIBUTION), CLASSES]),
    "softmax axis 1": ("SoftmaxCELoss", {"axis": 1}, [draw((2, 3, 4), 7), _array([0, 1, 2, 1], [2, 2, 0, 1])]),
    "softmax label out of range": ("SoftmaxCELoss", {}, [P, _array(-1, 9, 2)]),
    "divergence": ("KLDivLoss", {}, [np.log(DISTRIBUTION), DISTRIBUTION[::-1].copy()]),
    "divergence of scores": ("KLDivLoss", {"from_logits": False, "weight": 2}, [P, DISTRIBUTION, W]),
    "divergence axis 1": (
        "KLDivLoss",
        {"from_logits": False, "axis": 1},
        [draw((2, 3, 2), 9), draw((2, 3, 2), 10, 0, 1)],
    ),
    "huber": ("HuberLoss", {"rho": 0.3}, [P, Y, W]),
    "hinge": ("HingeLoss", {}, [P, SIGN]),
    "squared hinge": ("SquaredHingeLoss", {"margin": 0.5, "weight": 2}, [P, SIGN, W]),
    "logistic": ("LogisticLoss", {}, [P, SIGN]),
    "logistic binary": ("LogisticLoss", {"label_format": "binary"}, [P, BINARY, W]),
    "triplet": ("TripletLoss", {"weight": 2}, [P, Y, ANCHOR]),
    "poisson": ("PoissonNLLLoss", {}, [P, BINARY * 3]),
    "poisson of rates": ("PoissonNLLLoss", {"from_logits": False, "weight": 2}, [PROBABILITY, BINARY * 3, W]),
    "poisson in full": ("PoissonNLLLoss", {"compute_full": True}, [P, _array(*[[1, 2, 3, 4]] * 3)]),
    "cosine": ("CosineEmbeddingLoss", {"margin": 0.1}, [P, Y, _array(1, -1, -1)]),
    "cosine weights": ("CosineEmbeddingLoss", {"weight": 2}, [P, Y, _array(1, -1, 1), W]),
    "metric learning": ("SDMLLoss", {}, [P, Y]),
    "metric learning, smooth": ("SDMLLoss", {"smoothing_parameter": 0.1}, [P, P + 0.1 * Y]),
    "ctc": ("CTCLoss", {}, [SCORES, _array([0, 1, -1], [2, 2, 1])]),
    "ctc time first": (
        "CTCLoss",
        {"layout": "TNC", "label_layout": "TN", "weight": 2},
        [draw((6, 2, 4), 12), _array([0, 2], [1, 2], [-1, 1])],
    ),
    "ctc lengths": ("CTCLoss", {}, [SCORES, _array([0, 1, 1], [2, 2, 1]), _array(5, 6), _array(2, 3)]),
    "ctc label lengths": ("CTCLoss", {}, [SCORES, _array([0, 1, 1], [2, 2, 1]), None, _array(2, 3), _array(0.5, 2)]),
}
#: MXNet writes into a recorded array here
WITHOUT_GRADIENT = ("poisson in full",)
#: these need the extents of their inputs as numbers
ONLY_EAGER = ("metric learning", "metric learning, smooth")


def measure(mx, name, hybrid=False):
    """The loss of every sample and the gradient of the predictions."""
    kind, arguments, inputs = CASES[name]
    loss = getattr(mx.gluon.loss, kind)(**arguments)
    if hybrid:
        loss.hybridize()
    arrays = [None if x is None else array(mx, x) for x in inputs]
    found = {"repr": repr(loss)}
    if name in WITHOUT_GRADIENT:
        value = loss(*arrays)
    else:
        arrays[0].attach_grad()
        with mx.autograd.record():
            value = loss(*arrays)
        value.backward()
        found["gradient"] = [float(g) for g in arrays[0].grad.asnumpy().ravel()]
    found["shape"] = list(value.shape)
    found["loss"] = [float(v) for v in value.asnumpy().ravel()]
    return found
