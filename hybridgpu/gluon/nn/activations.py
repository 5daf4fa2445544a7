# SPDX-License-Identifier: Apache-2.0
"""Activation layers."""

from __future__ import annotations

from typing import Any

from ... import initializer
from ...core.source_location import located_hint
from ...util import is_np_array
from ..hybrid import HybridBlock

__all__ = ["ELU", "GELU", "SELU", "Activation", "LeakyReLU", "PReLU", "Swish"]


class Activation(HybridBlock):
    """An activation by name: relu, sigmoid, tanh, softrelu or softsign."""

    def __init__(self, activation: str, **kwargs: Any) -> None:
        self._act_type = activation
        super().__init__(**kwargs)

    def _alias(self) -> str:
        return self._act_type

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.Activation(x, act_type=self._act_type, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._act_type})"


def activation_of(name: str | None) -> Activation | None:
    """The child of a layer that has an activation, None where it has none.

    Raises:
        TypeError: it is no name.
    """
    if name is None:
        return None
    try:
        prefix = name + "_"
    except TypeError as e:
        text = "An activation is a name, such as 'relu'. Numbers of inputs are in_units= or in_channels=, or found at the first call."
        raise TypeError(f"{e}\n{located_hint(text)}") from None
    return Activation(name, prefix=prefix)


class LeakyReLU(HybridBlock):
    """x above zero, alpha * x below."""

    def __init__(self, alpha: float, **kwargs: Any) -> None:
        assert alpha >= 0, "Slope coefficient for LeakyReLU must be no less than 0."
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.LeakyReLU(x, act_type="leaky", slope=self._alpha, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._alpha})"


class PReLU(HybridBlock):
    """A leaky rectifier that learns its slope (He et al., 2015)."""

    def __init__(self, alpha_initializer: Any = None, in_channels: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.alpha = self.params.get(
                "alpha", shape=(in_channels,), init=alpha_initializer or initializer.Constant(0.25)
            )

    def hybrid_forward(self, F: Any, x: Any, alpha: Any) -> Any:
        return F.LeakyReLU(x, gamma=alpha, act_type="prelu", name="fwd")


class ELU(HybridBlock):
    """x above zero, alpha * (e**x - 1) below (Clevert et al., 2015)."""

    def __init__(self, alpha: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.LeakyReLU(x, act_type="elu", slope=self._alpha)


class SELU(HybridBlock):
    """The self-normalising ELU (Klambauer et al., 2017)."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.LeakyReLU(x, act_type="selu", name="fwd")


class GELU(HybridBlock):
    """x times the normal distribution function (Hendrycks and Gimpel, 2016), by erf."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.LeakyReLU(x, act_type="gelu", name="fwd")


class Swish(HybridBlock):
    """x * sigmoid(beta * x) (Ramachandran et al., 2017)."""

    def __init__(self, beta: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._beta = beta

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        name = None if is_np_array() else "fwd"  # as MXNet names it
        return x * F.sigmoid(self._beta * x, name=name)
