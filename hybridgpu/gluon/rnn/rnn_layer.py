# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers over whole sequences, by the fused operator."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ... import ndarray, symbol
from ...core import autograd_state
from ...core.source_location import located_hint
from ...hints.arguments import taken_by
from ...ndarray import NDArray
from ...ops.rnn import GATES
from ..hybrid import HybridBlock
from ..parameter import Parameter
from . import cells, combined
from .sequence import initial_state, is_tensor, zeros_for

if TYPE_CHECKING:
    from ...runtime.reports.explain import Explanation

__all__ = ["GRU", "LSTM", "RNN"]

_PARAMETER = re.compile(r"(l|r)(\d+)_(i2h|h2h|h2r)_(weight|bias)\Z")


class _RNNLayer(HybridBlock):
    """Stacked recurrent layers.

    ``layer(x)`` gives the outputs; ``layer(x, states)`` the outputs and the list of last states.
    """

    l0_i2h_weight: Parameter

    def __init__(
        self,
        hidden_size: int,
        num_layers: int,
        layout: str,
        dropout: float,
        bidirectional: bool,
        input_size: int,
        initializers: dict[str, Any],
        mode: str,
        dtype: Any,
        projection_size: int | None = None,
        clip: tuple[float | None, float | None, bool] = (None, None, False),
        use_sequence_length: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if layout not in ("TNC", "NTC"):
            text = f"Invalid layout {layout}; must be one of ['TNC' or 'NTC']"
            if isinstance(layout, int):
                kind = type(self)
                own = ", ".join(taken_by(kind)[:3])
                text += f"\n{located_hint(f'{kind.__name__} takes {own} first; the size of inputs is found, or input_size=...')}"
            raise AssertionError(text)
        self._hidden_size, self._num_layers, self._mode, self._layout = hidden_size, num_layers, mode, layout
        self._projection_size = projection_size or None
        self._dropout, self._dir, self._input_size = dropout, 2 if bidirectional else 1, input_size
        self._hg_initializers, self._dtype, self._hg_clip = initializers, dtype, clip
        self._use_sequence_length = use_sequence_length
        self.skip_states: bool | None = None
        self._hg_zeros: tuple[Any, list[Any]] = (None, [])  #: type of an input -> states, see _hg_initial
        self._gates = GATES[mode]
        rows, out = self._gates * hidden_size, self._projection_size or hidden_size
        width = input_size
        for layer in range(num_layers):
            for side in "lr"[: self._dir]:
                shapes = {
                    "i2h_weight": (rows, width),
                    "h2h_weight": (rows, out),
                    "i2h_bias": (rows,),
                    "h2h_bias": (rows,),
                }
                if self._projection_size:
                    shapes["h2r_weight"] = (out, hidden_size)
                for name, shape in shapes.items():
                    self._register_param(f"{side}{layer}_{name}", shape, initializers[name], dtype)
            width = out * self._dir

    def _register_param(self, name: str, shape: tuple[int, ...], init: Any, dtype: Any) -> Parameter:
        p = self.params.get(name, shape=shape, init=init, allow_deferred_init=True, dtype=dtype)
        setattr(self, name, p)
        return p

    def __repr__(self) -> str:
        rows, width = self.l0_i2h_weight.shape or (0, 0)
        text = f"{type(self).__name__}({width or None} -> {rows // self._gates}, {self._layout}"
        if self._num_layers != 1:
            text += f", num_layers={self._num_layers}"
        if self._dropout != 0:
            text += f", dropout={self._dropout}"
        return text + (", bidirectional)" if self._dir == 2 else ")")

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        """Under the names that a stack of cells would give them, as files have them."""
        if prefix:
            prefix += "."
        parameters = {}
        for key, value in self._reg_params.items():
            match = _PARAMETER.match(key)
            assert match is not None
            side, layer, gate, kind = match.groups()
            cell = f"{layer}.{side}_cell" if self._dir == 2 else layer
            parameters[f"{prefix}_unfused.{cell}.{gate}_{kind}"] = value
        for name, child in self._children.items():
            parameters.update(child._collect_params_with_prefix(prefix + name))
        return parameters

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape, layout and element type of each state."""
        count = self._num_layers * self._dir
        sizes = [self._projection_size or self._hidden_size]
        if self._mode == "lstm":
            sizes.append(self._hidden_size)
        return [{"shape": (count, batch_size, size), "__layout__": "LNC", "dtype": self._dtype} for size in sizes]

    def _unfuse(self) -> Any:
        """The same network as a stack of cells that share the parameters."""
        assert not self._projection_size, "_unfuse does not support projection layer yet!"
        assert not self._hg_clip[0] and not self._hg_clip[1], "_unfuse does not support state clipping yet!"
        kinds = {"rnn_relu": "relu", "rnn_tanh": "tanh"}

        def cell(prefix: str, width: int) -> Any:
            options = {f"{n}_initializer": self._hg_initializers[n] for n in self._hg_initializers if n[:3] != "h2r"}
            options |= {"input_size": width, "prefix": prefix}
            if self._mode in kinds:
                return cells.RNNCell(self._hidden_size, activation=kinds[self._mode], **options)
            cell_class = cells.LSTMCell if self._mode == "lstm" else cells.GRUCell
            return cell_class(self._hidden_size, **options)

        stack = combined.HybridSequentialRNNCell(prefix=self.prefix, params=self.params)
        with stack.name_scope():
            width = self._input_size
            for layer in range(self._num_layers):
                left = cell(f"l{layer}_", width)
                stack.add(combined.BidirectionalCell(left, cell(f"r{layer}_", width)) if self._dir == 2 else left)
                if self._dropout > 0 and layer != self._num_layers - 1:
                    stack.add(combined.DropoutCell(self._dropout))
                width = self._hidden_size * self._dir
        return stack

    def cast(self, dtype: Any) -> None:
        """Convert the parameters and the initial states."""
        super().cast(dtype)
        self._dtype = dtype

    def begin_state(self, batch_size: int = 0, func: Any = ndarray.zeros, **kwargs: Any) -> list[Any]:
        """Initial states, made by ``func(name=, shape=, …)``, such as ``nd.zeros`` or ``sym.var``."""
        return [
            initial_state(func, **{"name": f"{self.prefix}h0_{k}", **info, **kwargs})
            for k, info in enumerate(self.state_info(batch_size))
        ]

    def __call__(  # type: ignore[override]
        self, inputs: Any, states: Any = None, sequence_length: Any = None, **kwargs: Any
    ) -> Any:
        return super().__call__(*self._hg_arguments(inputs, states, sequence_length), **kwargs)

    def explain(self, inputs: Any, states: Any = None, sequence_length: Any = None) -> Explanation:
        """See HybridBlock.explain; states that are left out are zeros, as in a call."""
        return super().explain(*self._hg_arguments(inputs, states, sequence_length))

    def _hg_arguments(self, inputs: Any, states: Any, sequence_length: Any) -> tuple[Any, ...]:
        """What the graph takes: states that are left out are zeros, and not among the results."""
        skip = states is None
        if skip is not self.skip_states:
            if self._cached_graph is not None:
                # the traced graph gives the other kind of result
                self._clear_cached_op(f"states were {'left out' if skip else 'given'}")
            self.skip_states = skip
        if states is None:
            states = self._hg_initial(inputs) if isinstance(inputs, NDArray) else self.begin_state(0, func=symbol.zeros)
        if is_tensor(states):
            states = [states]
        return (inputs, states, sequence_length) if self._use_sequence_length else (inputs, states)

    def _hg_initial(self, inputs: NDArray) -> list[Any]:
        """The states of a call without any: zeros, which nobody writes, so that the next call takes them again."""
        kind, states = self._hg_zeros
        own = _RNNLayer.begin_state, _RNNLayer.hybrid_forward
        seen = (
            (type(self).begin_state, type(self).hybrid_forward) != own or self._forward_pre_hooks or self._forward_hooks
        )
        traced = autograd_state.state.trace is not None  # where they are zeros of the graph
        if kind is inputs._type and not seen and not traced:
            return states
        axis = self._layout.find("N")
        make = {"func": zeros_for(inputs, axis)} if traced else {}
        states = self.begin_state(inputs.shape[axis], ctx=inputs.context, dtype=inputs.dtype, **make)
        if not traced:
            object.__setattr__(self, "_hg_zeros", (None, []) if seen else (inputs._type.plain, states))
        return states

    def hybrid_forward(self, F: Any, inputs: Any, states: Any, sequence_length: Any = None, **kwargs: Any) -> Any:  # type: ignore[override]
        if isinstance(inputs, NDArray):
            batch = inputs.shape[self._layout.find("N")]
            for state, info in zip(states, self.state_info(batch), strict=False):
                if state.shape != info["shape"]:
                    raise ValueError(f"Invalid recurrent state shape. Expecting {info['shape']}, got {state.shape}.")
        if self._layout == "NTC":
            inputs = F.swapaxes(inputs, 0, 1)
        names = ["i2h_{}", "h2h_{}", *(["h2r_{}"] if self._projection_size else [])]
        parameters = [
            kwargs[f"{side}{layer}_{name.format(kind)}"].reshape(-1)
            for kind in ("weight", "bias")
            for layer in range(self._num_layers)
            for side in "lr"[: self._dir]
            for name in names[: 3 if kind == "weight" else 2]
        ]
        packed = F._internal._rnn_param_concat(*parameters, dim=0)
        low, high, nan = self._hg_clip
        # by name: as fourth input it would be taken for the state of a cell
        lengths = {"sequence_length": sequence_length} if self._use_sequence_length else {}
        results = F.RNN(
            inputs,
            packed,
            *states,
            use_sequence_length=self._use_sequence_length,
            state_size=self._hidden_size,
            projection_size=self._projection_size,
            num_layers=self._num_layers,
            bidirectional=self._dir == 2,
            p=self._dropout,
            state_outputs=True,
            mode=self._mode,
            lstm_state_clip_min=low,
            lstm_state_clip_max=high,
            lstm_state_clip_nan=nan,
            **lengths,
        )
        outputs = F.swapaxes(results[0], 0, 1) if self._layout == "NTC" else results[0]
        if self.skip_states:
            return outputs
        return outputs, [results[1], results[2]] if self._mode == "lstm" else [results[1]]


def _initializers(
    i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any, h2r_weight: Any = None
) -> dict[str, Any]:
    return {
        "i2h_weight": i2h_weight,
        "h2h_weight": h2h_weight,
        "i2h_bias": i2h_bias,
        "h2h_bias": h2h_bias,
        "h2r_weight": h2r_weight,
    }


class RNN(_RNNLayer):
    """Elman networks.

    Args:
        hidden_size: units of a layer.
        num_layers: layers on top of each other.
        activation: 'relu' or 'tanh'.
        layout: 'TNC' or 'NTC' of input and output; states are always (layers * directions, N, C).
        dropout: rate on the outputs of all layers but the last, in training.
        bidirectional: every layer runs in both directions.
        input_size: width of the input, 0 to infer it.
        use_sequence_length: calls take the number of valid steps of each sequence as third argument.
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        activation: str = "relu",
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        dtype: Any = "float32",
        **kwargs: Any,
    ) -> None:
        initializers = _initializers(
            i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer
        )
        mode = f"rnn_{activation}"
        super().__init__(
            hidden_size, num_layers, layout, dropout, bidirectional, input_size, initializers, mode, dtype, **kwargs
        )


class LSTM(_RNNLayer):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997); the states are [h, c]. See RNN.

    Args:
        projection_size: units that h is projected to (Sak et al., 2014).
        state_clip_min, state_clip_max, state_clip_nan: bounds of c.
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        projection_size: int | None = None,
        h2r_weight_initializer: Any = None,
        state_clip_min: float | None = None,
        state_clip_max: float | None = None,
        state_clip_nan: bool = False,
        dtype: Any = "float32",
        **kwargs: Any,
    ) -> None:
        initializers = _initializers(
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            h2r_weight_initializer,
        )
        clip = (state_clip_min, state_clip_max, state_clip_nan)
        super().__init__(
            hidden_size,
            num_layers,
            layout,
            dropout,
            bidirectional,
            input_size,
            initializers,
            "lstm",
            dtype,
            projection_size,
            clip,
            **kwargs,
        )


class GRU(_RNNLayer):
    """Gated recurrent units (Cho et al., 2014; the reset gate acts after the matrix product). See RNN."""

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        dtype: Any = "float32",
        **kwargs: Any,
    ) -> None:
        initializers = _initializers(
            i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer
        )
        super().__init__(
            hidden_size, num_layers, layout, dropout, bidirectional, input_size, initializers, "gru", dtype, **kwargs
        )
