# SPDX-License-Identifier: Apache-2.0
"""Operators of optimizers: three steps, whose results are written over the weights or beside them.

A kernel of MXNet that writes a result before it has read all of its operands gives other numbers in place. So each
case says where results go, and everything that an operator can change is measured.
"""

from against_mxnet.recorded.record import draw, project

SHAPE = (3, 4)
#: operator -> what MXNet 1.9.1 does wrong
DEFECTS = {
    "mp_lamb_update_phase2": "it reads the float copy of the weight, which it should move, and leaves it as it was"
}
RATE, MOMENTUM = {"lr": 0.1}, {"momentum": 0.9}
DECAY, SCALE = {"wd": 0.3}, {"rescale_grad": 0.5, "clip_gradient": 0.2}
MANY, STEPS = {"lrs": (0.1, 0.2), "wds": (0.0, 0.0)}, {"learning_rates": (0.1, 0.2), "wds": (0.0, 0.0)}
DECAYS = {"wds": (0.3, 0.1)}
PRELOADED = {"num_weights": 2}
MULTI = {"lrs": (0.1, 0.2), "wds": (0.0, 0.0), "etas": (0.5, 1.0), "num_weights": 2}
LAMBS = {**STEPS, "step_count": (2, 5), "num_tensors": 2}
BETAS = {"beta1": 0.8, "beta2": 0.9}
BOUNDS = {"lower_bound": 0.5, "upper_bound": 1.2}
#: operator -> (what it takes beside weight and gradient: w of the weight's type, s single, m the weight in single,
#: n a norm; what follows the last weight: f a factor, l rates, d decays; number of weights;
#: attributes; those of a case of its own)
OPERATORS = {
    "sgd_update": ("", "", 1, RATE, {**DECAY, **SCALE}),
    "mp_sgd_update": ("m", "", 1, RATE, {**DECAY, **SCALE}),
    "sgd_mom_update": ("w", "", 1, {**RATE, **MOMENTUM}, {**DECAY, **SCALE}),
    "mp_sgd_mom_update": ("sm", "", 1, {**RATE, **MOMENTUM}, {**DECAY, **SCALE}),
    "nag_mom_update": ("w", "", 1, {**RATE, **MOMENTUM}, {**DECAY, **SCALE}),
    "mp_nag_mom_update": ("sm", "", 1, {**RATE, **MOMENTUM}, {**DECAY, **SCALE}),
    "adam_update": ("ww", "", 1, RATE, {**BETAS, **DECAY, **SCALE}),
    "rmsprop_update": ("w", "", 1, RATE, {"gamma1": 0.8, "clip_weights": 0.5, **DECAY, **SCALE}),
    "rmspropalex_update": ("www", "", 1, RATE, {"gamma1": 0.8, "gamma2": 0.7, "clip_weights": 0.5, **DECAY, **SCALE}),
    "ftrl_update": ("ww", "", 1, RATE, {"lamda1": 0.05, "beta": 0.5, **DECAY, **SCALE}),
    "ftml_update": ("www", "", 1, {**RATE, "t": 2}, {"beta1": 0.7, **DECAY, "rescale_grad": 0.5, "clip_grad": 0.2}),
    "signsgd_update": ("", "", 1, RATE, {**DECAY, **SCALE}),
    "signum_update": ("w", "", 1, {**RATE, **MOMENTUM}, {"wd_lh": 0.1, **DECAY, **SCALE}),
    "lamb_update_phase1": ("ww", "", 1, {"t": 2, "wd": 0.0}, {"bias_correction": False, **BETAS, **DECAY, **SCALE}),
    "mp_lamb_update_phase1": ("ssm", "", 1, {"t": 2, "wd": 0.0}, {"bias_correction": False, **DECAY, **SCALE}),
    "lamb_update_phase2": ("nn", "", 1, RATE, BOUNDS),
    "mp_lamb_update_phase2": ("nnm", "", 1, RATE, BOUNDS),
    "_adamw_update": ("ww", "f", 1, {**RATE, "eta": 0.5}, {**BETAS, **DECAY, "clip_gradient": 0.2}),
    "_mp_adamw_update": ("ssm", "f", 1, {**RATE, "eta": 0.5}, {**BETAS, **DECAY, "clip_gradient": 0.2}),
    "multi_sgd_update": ("", "", 2, {**MANY, **PRELOADED}, {**DECAYS, **SCALE}),
    "multi_mp_sgd_update": ("m", "", 2, {**MANY, **PRELOADED}, {**DECAYS, **SCALE}),
    "multi_sgd_mom_update": ("w", "", 2, {**MANY, **MOMENTUM, **PRELOADED}, {**DECAYS, **SCALE}),
    "multi_mp_sgd_mom_update": ("sm", "", 2, {**MANY, **MOMENTUM, **PRELOADED}, {**DECAYS, **SCALE}),
    "preloaded_multi_sgd_update": ("", "ld", 2, PRELOADED, SCALE),
    "preloaded_multi_mp_sgd_update": ("m", "ld", 2, PRELOADED, SCALE),
    "preloaded_multi_sgd_mom_update": ("w", "ld", 2, {**MOMENTUM, **PRELOADED}, SCALE),
    "preloaded_multi_mp_sgd_mom_update": ("sm", "ld", 2, {**MOMENTUM, **PRELOADED}, SCALE),
    "_multi_adamw_update": ("ww", "f", 2, MULTI, {**BETAS, **DECAYS, "clip_gradient": 0.2}),
    "_multi_mp_adamw_update": ("ssm", "f", 2, MULTI, {**BETAS, **DECAYS, "clip_gradient": 0.2}),
    "_multi_lamb_update": ("ww", "", 2, LAMBS, {"bias_correction": False, **BETAS, **BOUNDS, **DECAYS, **SCALE}),
    "_multi_mp_lamb_update": ("ssm", "", 2, LAMBS, {"bias_correction": False, **BETAS, **BOUNDS, **DECAYS, **SCALE}),
}
CASES = {
    f"{name} {which} {dtype} {where}": (name, which, dtype, where)
    for name, (states, *_) in OPERATORS.items()
    for which in ("plain", "full")
    for dtype in (("float16", "float32") if "m" in states else ("float32", "float64"))
    for where in ("in place", "beside")
    if name != "mp_lamb_update_phase1" or (dtype, where) == ("float16", "beside")  # its result is single
    if name != "_multi_adamw_update" or dtype == "float32"  # MXNet leaves weights of double precision as they are
}


def inputs(mx, states, last, count, dtype):
    """Weight, gradient and states of each weight, and what follows the last one, as lists."""
    array, groups = mx.nd.array, []
    for k in range(count):
        master = draw(SHAPE, 10 * k)
        found = [array(master, dtype=dtype), None]
        for j, kind in enumerate(states):
            if kind == "m":
                found.append(array(master))
            elif kind == "n":
                found.append(array([0.4 + 0.3 * j], dtype=dtype if "m" not in states else "float32"))
            else:
                found.append(array(draw(SHAPE, 10 * k + j + 1, 0.3, 0.5), dtype="float32" if kind == "s" else dtype))
        groups.append(found)
    ends = {"f": [0.7], "l": [0.1, 0.2], "d": [0.3, 0.1]}
    return groups, [array(ends[kind]) for kind in last]


def measure(mx, case):
    """Projections of results, weights and states after each step."""
    name, which, dtype, where = CASES[case]
    states, last, count, attributes, more = OPERATORS[name]
    attributes = {**attributes, **(more if which == "full" else {})}
    operator = getattr(mx.nd, name, None) or getattr(mx.nd._internal, name, None)
    if operator is None:
        operator = getattr(mx.nd.contrib, name[len("_contrib_") :])
    groups, ends = inputs(mx, states, last, count, dtype)
    steps = []
    for t in range(3):
        for k, group in enumerate(groups):
            single = "m" in states and "phase2" in name  # the direction
            group[1] = mx.nd.array(draw(SHAPE, 100 + 10 * t + k), dtype="float32" if single else dtype)
        weights = [group[0] for group in groups]
        flat = [x for group in groups for x in group] + ends
        if where == "in place":
            operator(*flat, out=weights if count > 1 else weights[0], **attributes)
            found = []
        else:
            found = [
                mx.nd.zeros(SHAPE, dtype="float32" if name.startswith("mp_lamb_update_phase1") else x.dtype)
                for x in weights
            ]
            operator(*flat, out=found if count > 1 else found[0], **attributes)
        steps.append(
            [round(project(x), 8) for x in [*found, *(x for group in groups for x in group if x is not group[1])]]
        )
    return steps
