# SPDX-License-Identifier: Apache-2.0
"""``gluon.model_zoo.vision``: classifiers of images."""

from __future__ import annotations

from typing import Any

from .alexnet import *
from .alexnet import __all__ as _alexnet
from .densenet import *
from .densenet import __all__ as _densenet
from .inception import *
from .inception import __all__ as _inception
from .mobilenet import *
from .mobilenet import __all__ as _mobilenet
from .resnet import *
from .resnet import __all__ as _resnet
from .squeezenet import *
from .squeezenet import __all__ as _squeezenet
from .vgg import *
from .vgg import __all__ as _vgg

__all__ = [*_alexnet, *_densenet, *_inception, *_mobilenet, *_resnet, *_squeezenet, *_vgg, "get_model"]

#: names that are no function's: what stands for a dot and a version there
_SPELLED = {
    "inceptionv3": "inception_v3",
    **{f"squeezenet{v}": f"squeezenet{v.replace('.', '_')}" for v in ("1.0", "1.1")},
    **{f"mobilenet{v}": f"mobilenet{v.replace('.', '_')}" for v in ("1.0", "0.75", "0.5", "0.25")},
    **{f"mobilenetv2_{v}": f"mobilenet_v2_{v.replace('.', '_')}" for v in ("1.0", "0.75", "0.5", "0.25")},
}
_MODELS = {
    **_SPELLED,
    **{n: n for n in (*_alexnet, *_densenet, *_resnet, *_vgg) if n.islower() and not n.startswith("get_")},
}


def get_model(name: str, **kwargs: Any) -> Any:
    """A model by name, such as 'resnet50_v1', 'mobilenetv2_1.0' or 'squeezenet1.1'.

    Args:
        pretrained: load the trained parameters of MXNet's model zoo; see ``model_store.get_model_file``.
        ctx: where to load them.
        root: the folder that they lie in.
        classes: number of classes, 1000 by default.

    Raises:
        ValueError: an unknown name; the known ones are listed.
    """
    key = name.lower()
    if key not in _MODELS:
        available = "\n\t".join(sorted(_MODELS))
        raise ValueError(f"Model {key} is not supported. Available options are\n\t{available}")
    return globals()[_MODELS[key]](**kwargs)
