# SPDX-License-Identifier: Apache-2.0
"""Records of the NumPy interface: names, inputs and attributes as the real MXNet registers them.

``tests/against_mxnet/recorded/numpy_operators.json`` has MXNet's list; ``record_numpy_operators.py`` beside it writes it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hybridgpu.ops.functions import registered
from hybridgpu.ops.params import REQUIRED, Dtype

RECORDED = json.loads((Path(__file__).parents[1] / "against_mxnet" / "recorded" / "numpy_operators.json").read_text())
#: the list that MXNet shows lacks some attributes, which it takes nevertheless, and describes others in words of its own
OTHERWISE: dict[str, set[str]] = {
    "_npi_choice": {"a", "size"},
    "_npi_multinomial": {"pvals"},
    **{f"_npi_{window}": {"M"} for window in ("blackman", "hamming", "hanning")},
    "_npi_norm": {"ord", "axis", "keepdims", "flag"},
    "_npi_eigh": {"UPLO"},
    "_npi_eigvalsh": {"UPLO"},
    "_npi_concatenate": {"dim", "axis"},
    "_npi_flip": {"axis"},
    "_npi_boolean_mask_assign_scalar": {"value", "start_axis"},
    "_npi_boolean_mask_assign_tensor": {"start_axis"},
}


def kind_of(text: str) -> str:
    """MXNet's word for a type, without what follows about the default."""
    return text.partition("}")[0] + "}" if text.startswith("{") else text.split(", ")[0]


def default_of(text: str) -> str:
    found = text.partition("default=")[2].strip("'")
    return {"[]": "()"}.get(found, found)


@pytest.mark.parametrize("name", [n for n in RECORDED if registered(n) is not None])
def test_record(name):
    canonical, inputs, attributes = RECORDED[name]
    op = registered(name)
    assert op.name == canonical
    if not canonical.startswith(("_np_", "_npi_", "_npx_")):
        return  # another name for a legacy operator, which test_attributes.py compares
    count = [f"*{n[:-2]}" if n.endswith("[]") else n for n in inputs]
    assert [*op.inputs, *([op.count_param] if op.count_param else [])] == count
    others = OTHERWISE.get(name, set()) | {"ctx"}  # where operators without inputs run is no attribute of a record
    assert set(op.params) - others == set(attributes) - others
    wrong = {}
    for key in set(attributes) - others:
        param, said = op.params[key], attributes[key]
        if param.type_name != kind_of(said) and not (isinstance(param, Dtype) and said.startswith("{")):
            wrong[key] = (param.type_name, kind_of(said))
        elif (param.default is REQUIRED) != said.endswith("required"):
            wrong[key] = (param.default, said)
        elif param.default is not REQUIRED and param.default is not None and default_of(said) != "None":
            if param.parse(key, param.default) != param.parse(key, default_of(said)):
                wrong[key] = (param.default, said)
        elif param.default is not REQUIRED and (param.default is None) != (default_of(said) == "None"):
            wrong[key] = (param.default, said)
    assert not wrong
