# SPDX-License-Identifier: Apache-2.0
"""hybridgpu beside MXNet, line by line.

Each ``NAME.script`` was run with MXNet 1.9.1, what it said is in ``NAME.expected``. Here hybridgpu runs
it. Where the two differ on purpose the line stands in DIFFERENCES with what hybridgpu says and why;
any other difference fails, and so does one that has gone.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from against_mxnet.parity.record import run

HERE = Path(__file__).parent

MORE = "says more"
RUBBISH = "MXNet goes on and returns what happens to be in memory"
NO_NP = "MXNet has no np version of it, and raises"
OTHER_WORDS = "the same class of error; MXNet refuses one operand earlier"
OF_NP = "MXNet names the operand that it takes"
UNPRINTED = "MXNet also prints the arguments; here the error says everything"

#: script -> line -> (what hybridgpu says, why it does not say what MXNet says)
DIFFERENCES: dict[str, dict[str, tuple[str, str]]] = {
    "ndarray": {
        "nd.zeros((0, 3))": (
            "MXNetError: Operator _zeros inferring shapes failed. input shapes: output shapes: [0,3]",
            MORE,
        ),
        "nd.ones(())": ("MXNetError: Operator _ones inferring shapes failed. input shapes: output shapes: []", MORE),
        "x.reshape((4, 2))": (
            "MXNetError: target shape size is larger than the current shape: (4, 2) has 8 elements, the array 6",
            MORE,
        ),
        "x[0, 5]": ("IndexError: index 5 is out of bounds for axis 1 with size 3", "MXNet names the wrong axis"),
        "nd.concat(x, nd.ones((3, 3)), dim=1)": (
            "MXNetError: Incompatible input shape: expected [2,-1], got [3,3] (input 1)",
            MORE,
        ),
        "nd.softmax(nd.array([1, 2], dtype='int32'))": (
            "MXNetError: This operation only support floating point types, not int32",
            RUBBISH,
        ),
        "nd.transpose(x, axes=(0, 2))": (
            "MXNetError: axis 2 is out of bounds for an array of 2 dimensions",
            "MXNet shows a C++ expression and no words",
        ),
        "nd.slice_axis(x, axis=1, begin=2, end=1)": (
            "MXNetError: Invalid begin, end, get begin=2, end=1 for an axis of 3",
            MORE,
        ),
        "nd.norm(x, ord=3)": ("MXNetError: norm only supports ord=1 and ord=2, not 3", RUBBISH),
        "mx.num_gpus()": ("0", "in MXNet it lives in mx.context only"),
    },
    "in_place": {
        f"change(sym.var('a'), '%=', {other})": (
            f"NotImplementedForSymbol: Function __imod__ (namely operator \"%=\") with arguments (<class '{kind}'>) "
            "is not implemented for Symbol and only available in NDArray.",
            "MXNet rebinds the name while tracing and writes into the array eagerly, so the two would end with different arrays",
        )
        for other, kind in (('sym.var("b")', "Symbol"), ("2", "int"), ("nd.ones((2,))", "NDArray"))
    },
    "null_gradients": {
        f"two_graphs(product({array}))": (
            "([None, [1.0, 2.0]], [None, [2.0, 4.0]])",
            "MXNet fails at what the other graph's backward pass took",
        )
        for array in ("nd.array", "mx.np.array")
    },
    "numpy_array": {
        'anp.array(np.array(["a"]))': (
            "TypeError: data type dtype('<U1') is not understood; known types: float32, float64, float16, uint8, int32, int8, "
            "int64, bool, int16, uint16, uint32, uint64, bfloat16",
            MORE,
        ),
        "[1, 2, 3][i[0]]": (
            "TypeError: 'ndarray' object cannot be interpreted as an integer",
            "Python's words for range(x), which is met more often",
        ),
        "hash(a)": ("NotImplementedError: arrays of np have no hash", MORE),
        "a & a": (
            "MXNetError: in_attrs->at(0) == mshadow::kInt64 || in_attrs->at(0) == mshadow::kInt32 || in_attrs->at(0) == "
            "mshadow::kInt8 || in_attrs->at(0) == mshadow::kUint8 || in_attrs->at(0) == mshadow::kBool",
            "the same C++ expression, spaced in another way",
        ),
        "1 & i": ("int32[3] ['[1 0 1]']", "MXNet has & only with the array on the left"),
        "m @ m": (
            "MXNetError: Shape inconsistent, Provided = [2,3], inferred shape=[2,2]",
            MORE,
        ),
        '(i.astype("int8") + i.astype("uint8")).asnumpy()': (
            "MXNetError: mshadow::DataType<DType>::kFlag == type_flag_: TBlob.get_with_shape: data type do not match specified "
            "type.Expected: unsigned char v.s. given int",
            "the same C++ expression, spaced in another way",
        ),
        "(i @ i).asnumpy()": (
            "MXNetError: This operation only support floating point types, not int32",
            "MXNet shows a C++ expression",
        ),
        'change(b.copy(), "+=", 1)': (
            "MXNetError: Type inconsistent, Provided = bool, inferred type = int64",
            "MXNet does not know the name of bool there",
        ),
        'change(m.copy(), "@=", anp.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))': (
            "tuple[True, float32[2, 3] ['[[0. 1. 2.]', ' [3. 4. 5.]]']]",
            "MXNet writes the product while it still reads the operand",
        ),
        "np.array([1.0, 2.0, 3.0]) + a": ("TypeError: type <class 'numpy.ndarray'> not supported", OF_NP),
        "nd.ones((3,)) - a": ("TypeError: type <class 'NDArray'> not supported", OF_NP),
        "np.subtract(nd.ones((3,)), a)": ("TypeError: type <class 'NDArray'> not supported", OF_NP),
    },
    "numpy_indexing": {
        "x[0, 5]": ("IndexError: index 5 is out of bounds for axis 1 with size 3", "MXNet names the wrong axis"),
        "x[0, -5]": ("IndexError: index -5 is out of bounds for axis 1 with size 3", "MXNet names the wrong axis"),
        "x[i, None].shape": ("(3, 1, 3)", "NumPy's answer: MXNet puts the new axis first"),
        "put(x, slice(1, 0), 9)": (
            "MXNetError: Invalid slicing range [1, 0)",
            "as for reading, where MXNet says so; here it fails without words",
        ),
        **{
            f"put(x, {key}, 9)": (
                "float32[2, 3] ['[[9. 9. 9.]', ' [3. 4. 5.]]']",
                "MXNet reads with these as masks, and writes as if they were the positions 1 and 0",
            )
            for key in ("[True, False]", "np.array([True, False])")
        },
    },
    "numpy_shape": {
        "nd.arange(0)": ("float32[0] ['[]']", "NumPy's answer; MXNet's nd has ranges of one element and more"),
        "nd.zeros((0, 3)).reshape((3, 0)).shape": (
            "MXNetError: Target shape size is different to source. Target: [3,3] Source: [0,3]",
            MORE,
        ),
        "nd.slice_axis(x, axis=0, begin=0, end=0).shape": (
            "MXNetError: Invalid begin, end, get begin=0, end=0 for an axis of 2",
            MORE,
        ),
        "nd.waitall()": ("None", "MXNet fails at an empty array when nobody looks, and says so later"),
    },
    "symbol": {
        "out.infer_shape((5, 3))": (
            "([(5, 3), (4, 3), (4,), (2, 4), (2,)], [(5, 2)], [])",
            "MXNet documents positional shapes and fails on them",
        ),
        "out.infer_shape(foo=(1,))": ("MXNetError: InferShapeKeyword argument name foo not found.", UNPRINTED),
        "out.infer_shape_partial()": (
            "([(), (), (4,), (), (2,)], [()], [])",
            "a bias follows from num_hidden alone; MXNet gives up before it",
        ),
        "float(x)": (
            "TypeError: must be real number, not Symbol",
            "Python's words for math.exp(x), which is met more often",
        ),
        "x[1]": ("IndexError: there is no output 1 of 1", "MXNet says nothing"),
        "x[True]": ("IndexError: there is no output True of 1", "MXNet says nothing"),
        "sym.load_json('nope')": (
            "MXNetError: the JSON text is no JSON: Expecting value: line 1 column 1 (char 0)",
            "words of another parser",
        ),
        "(data + sym.var('b')).infer_shape(data=(2, 3), b=(1, 3))": (
            "MXNetError: Error in operator _plus0: Incompatible attr in node _plus0 at 1-th input: expected [2,3], got [1,3]",
            UNPRINTED,
        ),
    },
    "gluon": {
        "s = gluon.SymbolBlock.imports('parity_net-symbol.json', ['data'], 'parity_net-0003.params')": (
            "ok",
            "MXNet warns that types are unknown and then takes them from the file",
        ),
        "p.var().list_attr()": (
            "{'__dtype__': '0', '__lr_mult__': '1.0', '__shape__': '(2, 3)', '__storage_type__': '0', "
            "'__wd_mult__': '1.0', 'lr_mult': '1.0', 'wd_mult': '1.0'}",
            "the order is that of a C++ hash table",
        ),
        "gluon.Block()(nd.ones(1))": ("NotImplementedError: Block does not define forward(self, x, ...)", MORE),
        "gluon.HybridBlock()(nd.ones(1))": (
            "NotImplementedError: HybridBlock defines neither hybrid_forward(self, F, x, ...) nor forward(self, x, ...)",
            MORE,
        ),
        "mx.init.create('xavier')": ("Xavier(rnd_type='uniform', factor_type='avg', magnitude=3)", MORE),
    },
    "numpy_symbol": {
        "x + sym.var('legacy')": ("TypeError: type <class 'Symbol'> not supported", OTHER_WORDS),
        "sym.var('legacy') + x": ("TypeError: type <class 'Symbol'> not supported", OTHER_WORDS),
        "out.infer_shape_partial()": (
            "([None, None, (4,)], [None], [])",
            "a bias follows from num_hidden alone; MXNet gives up before it",
        ),
        "(data + sym.var('b').as_np_ndarray()).infer_shape(data=(2, 3), b=(2,))": (
            "MXNetError: Error in operator add1: operands could not be broadcast together with shapes [2,3] [2]",
            UNPRINTED,
        ),
        "data.sum(axis=1).infer_shape_partial(data=(-1, 3))": (
            "([(-1, 3)], [(-1,)], [])",
            "the extents that stay follow; MXNet gives up",
        ),
        "data[5].infer_shape(data=(2, 3))": (
            "MXNetError: Error in operator reshape5: -3 index should only be used to skip dimension size 1",
            UNPRINTED,
        ),
        "f.infer_shape(data=(2, 3), w=())": (
            "([(2, 3), ()], [()], [])",
            "operators of np know scalars whatever the mode is",
        ),
        "type(pickle.loads(pickle.dumps(f))).__name__": ("'_Symbol'", "what was pickled comes back"),
    },
    "numpy_gluon": {
        "net.weight.set_data(nd.ones((4, 3)))": ("None", "values may be of either kind"),
        "net.weight.zero_grad()": ("None", NO_NP),
        "net(nd.ones((2, 3)))": (
            "float32[2, 4] ['[[3. 3. 3. 3.]', ' [3. 3. 3. 3.]]']",
            "the values that were set above",
        ),
        "net(nd.ones((2, 3))) #2": (
            "float32[2, 4] ['[[3. 3. 3. 3.]', ' [3. 3. 3. 3.]]']",
            "the values that were set above",
        ),
        "b = gluon.SymbolBlock.imports('np_net-symbol.json', ['data'], 'np_net-0000.params')": (
            "ok",
            "types are taken from the file, without a warning",
        ),
        "isinstance(b.collect_params()['n_s'].data(), mx.np.ndarray)": (
            "True",
            "parameters of a net of np are arrays of np, wherever they come from",
        ),
        "net2(x)": (
            "float32[3] ['[ -6.5909 -10.0023 -13.0512]']",
            "parameters of a net of np are arrays of np, wherever they come from",
        ),
        "mx.nd.load('np_net.params')": (
            "MXNetError: Imperative::Get()->is_np_shape(): ndarray was saved in np shape semantics, must be loaded in the same semantics. Please turn on np shape semantics in Python using `with np_shape(True)` or decorator `use_np_shape` to scope the code of loading the ndarray.",
            "MXNet shows its C++ condition in two parts",
        ),
        "net2.load_parameters('np_net.params') #2": (
            "MXNetError: Imperative::Get()->is_np_shape(): ndarray was saved in np shape semantics, must be loaded in the same semantics. Please turn on np shape semantics in Python using `with np_shape(True)` or decorator `use_np_shape` to scope the code of loading the ndarray.",
            "MXNet shows its C++ condition in two parts",
        ),
        "b = gluon.SymbolBlock.imports('np_net-symbol.json', ['data'], 'np_net-0000.params') #2": (
            "MXNetError: Imperative::Get()->is_np_shape(): ndarray was saved in np shape semantics, must be loaded in the same semantics. Please turn on np shape semantics in Python using `with np_shape(True)` or decorator `use_np_shape` to scope the code of loading the ndarray.",
            "MXNet shows its C++ condition in two parts",
        ),
        "mx.npx.load('legacy.params')": (
            "{'w': array([1., 1., 1.]), 's': array([1.]), 'c': array([1., 1., 1.])}",
            "arrays that both semantics have alike",
        ),
        "net2.load_parameters('legacy.params')": ("None", "arrays that both semantics have alike"),
        "gluon.utils.clip_global_norm([anp.ones((2, 2)) * 3, anp.ones((3,))], 1.0)": ("np.float32 6.245", NO_NP),
        "gluon.data.dataloader.default_batchify_fn([nd.ones((2,)), nd.zeros((2,))])": (
            "float32[2, 2] ['[[1. 1.]', ' [0. 0.]]']",
            NO_NP,
        ),
        "made('ones', ())": ("float32[] ['1.']", "scalars can be initialized"),
        "gluon.loss.HuberLoss()(anp.ones((2, 3)), anp.zeros((2, 3)))": ("float32[2] ['[0.5 0.5]']", NO_NP),
        "gluon.loss.KLDivLoss()(anp.ones((2, 3)), anp.zeros((2, 3)))": ("float32[2] ['[0. 0.]']", NO_NP),
        "gluon.loss.HingeLoss()(anp.ones((2, 3)), anp.zeros((2, 3)))": ("float32[2] ['[1. 1.]']", NO_NP),
        "gluon.loss.TripletLoss()(anp.ones((2, 3)), anp.zeros((2, 3)), anp.zeros((2, 3)))": (
            "float32[2] ['[1. 1.]']",
            NO_NP,
        ),
        "gluon.loss.CTCLoss()(anp.ones((2, 6, 3)), anp.zeros((2, 2)))": ("float32[2] ['[3.0363 3.0363]']", NO_NP),
        "n(anp.ones((2, 3, 4)))": (
            "float32[2, 3, 4] ['[[[0. 0. 0. 0.]', '  [0. 0. 0. 0.]', '  [0. 0. 0. 0.]]', '', ' [[0. 0. 0. 0.]', '  [0. 0. 0. 0.]', '  [0. 0. 0. 0.]]]']",
            NO_NP,
        ),
        "n(anp.ones((2, 4, 4)))": (
            "float32[2, 4, 4] ['[[[0. 0. 0. 0.]', '  [0. 0. 0. 0.]', '  [0. 0. 0. 0.]', '  [0. 0. 0. 0.]]', '', ' [[0. 0. 0. 0.]', '  [0. 0. 0. 0.]', '  [0. 0. 0. 0.]', '  [0. 0. 0. 0.]]]']",
            NO_NP,
        ),
        "n(anp.ones((2, 3))) #2": ("float32[2, 3] ['[[0.7616 0.7616 0.7616]', ' [0.7616 0.7616 0.7616]]']", NO_NP),
        "n(anp.ones((1, 1, 2, 2)))": (
            "float32[1, 1, 4, 4] ['[[[[1. 1. 1. 1.]', '   [1. 1. 1. 1.]', '   [1. 1. 1. 1.]', '   [1. 1. 1. 1.]]]]']",
            NO_NP,
        ),
        "n(anp.ones((1, 4, 2, 2)))": (
            "float32[1, 1, 4, 4] ['[[[[1. 1. 1. 1.]', '   [1. 1. 1. 1.]', '   [1. 1. 1. 1.]', '   [1. 1. 1. 1.]]]]']",
            NO_NP,
        ),
        "n(anp.ones((2, 3, 2, 2)))": (
            "float32[2, 3, 2, 2] ['[[[[1. 1.]', '   [1. 1.]]', '', '  [[1. 1.]', '   [1. 1.]]', '', '  [[1. 1.]', '   [1. 1.]]]', '', '', ' [[[1. 1.]', '   [1. 1.]]', '', '  [[1. 1.]', '   [1. 1.]]', '', '  [[1. 1.]', '   [1. 1.]]]]']",
            NO_NP,
        ),
        "w = mx.np.ones((2,)); u(0, mx.np.ones((2,)), w)": ("ok", "optimizers take arrays of either kind"),
        "gluon.loss.L2Loss()(anp.ones((2, 3)), nd.zeros((2, 3)))": (
            "TypeError: type <class 'NDArray'> not supported",
            OF_NP,
        ),
    },
}


def normal(text: str) -> str:
    """Without what depends on the version of Python, and with names of MXNet's classes for those below them."""
    text = text.replace("must be a string or a real number", "must be a string or a number")
    text = text.replace("bytes-like object or a real number", "bytes-like object or a number")
    text = text.replace("TypeError: Block.__call__()", "TypeError: __call__()")
    text = text.replace("OperandError: ", "AssertionError: ")  # which is one
    return text


def entries(text: str) -> dict[str, str]:
    """Line of the script -> what it gave; the same line later has ' #2' and so on after it."""
    found: dict[str, str] = {}
    for part in re.split(r"^>>> ", text, flags=re.M)[1:]:
        line, _, result = part.partition("\n")
        count = sum(k == line or k.startswith(f"{line} #") for k in found)
        found[line if not count else f"{line} #{count + 1}"] = normal(result.rstrip("\n"))
    return found


@pytest.mark.parametrize("name", sorted(p.stem for p in HERE.glob("*.script")))
def test_parity(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(
        "HYBRIDGPU_MXNET_PYTHON", raising=False
    )  # of the tests; a script's output tells of names it lacks
    expected = entries((HERE / f"{name}.expected").read_text())
    got = entries("\n".join(run("hybridgpu", str(HERE / f"{name}.script"))))
    assert list(got) == list(expected), "the script has changed: record it again with MXNet"
    intended = DIFFERENCES.get(name, {})
    problems = []
    for line, want in expected.items():
        if line in intended:
            said, _why = intended[line]
            if got[line] == want:
                problems.append(f"{line}\n  agrees with MXNet by now: take it off the list")
            elif got[line] != said:
                problems.append(f"{line}\n  listed: {said}\n  now:    {got[line]}")
        elif got[line] != want:
            problems.append(f"{line}\n  MXNet:     {want}\n  hybridgpu: {got[line]}")
    assert not problems, "\n".join(problems)
    assert not set(intended) - set(expected), "listed lines that no script has"
