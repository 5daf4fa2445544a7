# SPDX-License-Identifier: Apache-2.0
# Made from records and definitions by `python docs/make_stubs.py`; do not edit.
"""Functions of ``mx.npx``."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy
from numpy.typing import ArrayLike

from hybridgpu.context import Context
from hybridgpu.ndarray.numpy.array import ndarray

_Array: TypeAlias = ndarray
_DType: TypeAlias = str | type[Any] | numpy.dtype[Any]
_Device: TypeAlias = Context | str

def activation(data: _Array, act_type: Literal['relu', 'sigmoid', 'softrelu', 'softsign', 'tanh'] | str, *, out: Any = None, name: str | None = None) -> _Array:
    """An activation function by name."""
def arange_like(data: _Array, start: float = 0.0, step: float = 1.0, repeat: int = 1, ctx: str = '', axis: int | None = None, *, out: Any = None, name: str | None = None) -> _Array:
    """Values at equal distances, as many as the array (or one axis of it) has elements."""
def batch_dot(lhs: _Array, rhs: _Array, transpose_a: bool = False, transpose_b: bool = False, forward_stype: Literal['csr', 'default', 'row_sparse', None] | str = None, *, out: Any = None, name: str | None = None) -> _Array:
    """Matrix products of the last two axes, one for each index of the others."""
def batch_flatten(data: _Array, *, out: Any = None, name: str | None = None) -> _Array:
    """All axes but the first folded into one."""
def batch_norm(data: _Array, gamma: _Array, beta: _Array, moving_mean: _Array, moving_var: _Array, eps: float = 0.001, momentum: float = 0.9, fix_gamma: bool = True, use_global_stats: bool = False, output_mean_var: bool = False, axis: int = 1, cudnn_off: bool = False, min_calib_range: float | None = None, max_calib_range: float | None = None, *, out: Any = None, name: str | None = None) -> Any:
    """Normalise each channel over the batch in training, by running averages otherwise."""
def cast(data: _Array, dtype: _DType, *, out: Any = None, name: str | None = None) -> _Array:
    """Convert the elements: floats are cut towards zero, narrow integers wrap, bool is x != 0."""
def cond(pred: _Array, then_func: Callable[[], Any], else_func: Callable[[], Any], name: str = 'cond') -> _Array:
    """``then_func()`` if ``pred``, an array of one element, is not zero, else ``else_func()``; the other is not computed."""
def constraint_check(input: _Array, msg: str = 'Constraint violated.', *, out: Any = None, name: str | None = None) -> _Array:
    """True if all booleans are; otherwise an error."""
def convolution(data: _Array, weight: _Array, bias: _Array | None = None, kernel: int | Sequence[int] = ..., stride: int | Sequence[int] = (), dilate: int | Sequence[int] = (), pad: int | Sequence[int] = (), num_filter: int = ..., num_group: int = 1, workspace: int = 1024, no_bias: bool = False, cudnn_tune: Literal['fastest', 'limited_workspace', 'off', None] | str = None, cudnn_off: bool = False, layout: Literal['NCDHW', 'NCHW', 'NCW', 'NDHWC', 'NHWC', 'NWC', None] | str = None, *, out: Any = None, name: str | None = None) -> _Array:
    """Cross-correlation: each result is the sum over a window of the data times the weight of its filter."""
def deconvolution(data: _Array, weight: _Array, bias: _Array | None = None, kernel: int | Sequence[int] = ..., stride: int | Sequence[int] = (), dilate: int | Sequence[int] = (), pad: int | Sequence[int] = (), adj: int | Sequence[int] = (), target_shape: int | Sequence[int] = (), num_filter: int = ..., num_group: int = 1, workspace: int = 512, no_bias: bool = True, cudnn_tune: Literal['fastest', 'limited_workspace', 'off', None] | str = None, cudnn_off: bool = False, layout: Literal['NCDHW', 'NCHW', 'NCW', 'NDHWC', 'NHWC', 'NWC', None] | str = None, *, out: Any = None, name: str | None = None) -> _Array:
    """The transpose of Convolution: each element of the data adds its filter to a window of the result."""
def dropout(data: _Array, p: float = 0.5, mode: Literal['always', 'training'] | str = 'training', axes: int | Sequence[int] = (), cudnn_off: bool | None = False, *, out: Any = None, name: str | None = None) -> _Array:
    """Zero with probability p and scale the rest by 1 / (1 - p) in training; identity otherwise."""
def embedding(data: _Array, weight: _Array, input_dim: int, output_dim: int, dtype: _DType = 'float32', sparse_grad: bool = False, *, out: Any = None, name: str | None = None) -> _Array:
    """Rows of a table: weight[data], indices clipped."""
def erf(data: _Array, *, out: Any = None, name: str | None = None) -> _Array:
    """Error function."""
def erfinv(data: _Array, *, out: Any = None, name: str | None = None) -> _Array:
    """Inverse error function."""
def foreach(body: Callable[..., Any], data: _Array, init_states: Any, name: str = 'foreach') -> tuple[_Array, _Array]:
    """Run ``body(slices, states) -> (outputs, new states)`` for every index of axis 0 of ``data``."""
def fully_connected(data: _Array, weight: _Array, bias: _Array | None = None, num_hidden: int = ..., no_bias: bool = False, flatten: bool = True, *, out: Any = None, name: str | None = None) -> _Array:
    """data * weight^T + bias, weight of shape (num_hidden, inputs)."""
def gamma(data: _Array, *, out: Any = None, name: str | None = None) -> _Array:
    """Gamma function."""
def gammaln(data: _Array, *, out: Any = None, name: str | None = None) -> _Array:
    """Log of the absolute value of gamma."""
def gather_nd(data: _Array, indices: _Array, *, out: Any = None, name: str | None = None) -> _Array:
    """Entries (or slices) of ``data`` at the positions that the columns of ``indices`` name."""
def layer_norm(data: _Array, gamma: _Array, beta: _Array, axis: int = -1, eps: float = 1e-05, output_mean_var: bool = False, *, out: Any = None, name: str | None = None) -> Any:
    """(data - mean) / sqrt(variance + eps) * gamma + beta along one axis."""
def leaky_relu(data: _Array, gamma: _Array | None = None, act_type: Literal['elu', 'gelu', 'leaky', 'prelu', 'rrelu', 'selu'] | str = 'leaky', slope: float = 0.25, lower_bound: float = 0.125, upper_bound: float = 0.334, *, out: Any = None, name: str | None = None) -> Any:
    """Rectifiers that are not flat below zero, and GELU (the exact one, by erf)."""
def log_softmax(data: _Array, axis: int = -1, temperature: float | None = None, dtype: _DType | None = None, use_length: bool | None = False, *, out: Any = None, name: str | None = None) -> _Array:
    """log(softmax(x)) without underflow."""
def multibox_detection(cls_prob: _Array, loc_pred: _Array, anchor: _Array, clip: bool = True, threshold: float = 0.01, background_id: int = 0, nms_threshold: float = 0.5, force_suppress: bool = False, variances: float | Sequence[float] = (0.1, 0.1, 0.2, 0.2), nms_topk: int = -1, *, out: Any = None, name: str | None = None) -> _Array:
    """Boxes (class, score, x1, y1, x2, y2) that predictions for anchors mean; class -1 where nothing is."""
def multibox_prior(data: _Array, sizes: float | Sequence[float] = (1.0,), ratios: float | Sequence[float] = (1.0,), clip: bool = False, steps: float | Sequence[float] = (-1.0, -1.0), offsets: float | Sequence[float] = (0.5, 0.5), *, out: Any = None, name: str | None = None) -> _Array:
    """Anchors around every element of (N, C, H, W), in fractions of the image: (1, boxes, 4)."""
def multibox_target(anchor: _Array, label: _Array, cls_pred: _Array, overlap_threshold: float = 0.5, ignore_label: float = -1.0, negative_mining_ratio: float = -1.0, negative_mining_thresh: float = 0.5, minimum_negative_samples: int = 0, variances: float | Sequence[float] = (0.1, 0.1, 0.2, 0.2), *, out: Any = None, name: str | None = None) -> list[_Array]:
    """What a detector should predict for anchors (1, A, 4) given labels (N, L, 5) of class and box."""
def nonzero(x: _Array, *, out: Any = None, name: str | None = None) -> _Array:
    """The positions of elements that are not zero, one a row. How many there are depends on values, so a program ends here."""
def one_hot(indices: _Array, depth: int, on_value: float = 1.0, off_value: float = 0.0, dtype: _DType = 'float32', *, out: Any = None, name: str | None = None) -> _Array:
    """A new last axis that is ``on_value`` at the index; indices out of range give no ``on_value``."""
def pick(data: _Array, index: _Array, axis: int | None = -1, keepdims: bool = False, mode: Literal['clip', 'wrap'] | str = 'clip', *, out: Any = None, name: str | None = None) -> _Array:
    """One entry along an axis for every position of the other axes."""
def pooling(data: _Array, kernel: int | Sequence[int] = (), pool_type: Literal['avg', 'lp', 'max', 'sum'] | str = 'max', global_pool: bool = False, cudnn_off: bool = False, pooling_convention: Literal['full', 'same', 'valid'] | str = 'valid', stride: int | Sequence[int] = (), pad: int | Sequence[int] = (), p_value: int | None = None, count_include_pad: bool | None = None, layout: Literal['NCDHW', 'NCHW', 'NCW', 'NDHWC', 'NHWC', 'NWC', None] | str = None, *, out: Any = None, name: str | None = None) -> _Array:
    """Reduce windows: their maximum, average, sum, or the p-th root of their sum of p-th powers."""
def relu(data: _Array, out: _Array | None = None, name: str | None = None) -> _Array:
    """max(data, 0)."""
def reshape(a: _Array, newshape: int | Sequence[int], reverse: bool = False, order: str = 'C', *, out: Any = None, name: str | None = None) -> _Array:
    """The same elements under another shape, with the codes of npx."""
def reshape_like(lhs: _Array, rhs: _Array, lhs_begin: int | None = None, lhs_end: int | None = None, rhs_begin: int | None = None, rhs_end: int | None = None, *, out: Any = None, name: str | None = None) -> _Array:
    """lhs with the shape of rhs, or with axes begin … end replaced by those of rhs."""
def rnn(data: _Array, parameters: _Array, state: _Array, state_cell: _Array | None = None, sequence_length: _Array | None = None, state_size: int = ..., num_layers: int = ..., bidirectional: bool = False, mode: Literal['gru', 'lstm', 'rnn_relu', 'rnn_tanh'] | str = ..., p: float = 0.0, state_outputs: bool = False, projection_size: int | None = None, lstm_state_clip_min: float | None = None, lstm_state_clip_max: float | None = None, lstm_state_clip_nan: bool = False, use_sequence_length: bool = False, *, out: Any = None, name: str | None = None) -> Any:
    """Recurrent layers over a sequence (T, N, C): Elman networks, LSTM (Hochreiter and Schmidhuber, 1997), or"""
def roi_pooling(data: _Array, rois: _Array, pooled_size: int | Sequence[int], spatial_scale: float, *, out: Any = None, name: str | None = None) -> _Array:
    """The maximum of each bin of each region (batch index, x1, y1, x2, y2); empty bins are 0."""
def sequence_mask(data: _Array, sequence_length: _Array | None = None, use_sequence_length: bool = False, value: float = 0.0, axis: int = 0, *, out: Any = None, name: str | None = None) -> _Array:
    """Put ``value`` at all steps beyond the end of each sequence."""
def shape_array(data: _Array, *, out: Any = None, name: str | None = None) -> _Array:
    """The shape as an int64 array."""
def sigmoid(data: _Array, *, out: Any = None, name: str | None = None) -> _Array:
    """1 / (1 + e ** -x)."""
def slice(data: _Array, begin: int | Sequence[int | None], end: int | Sequence[int | None], step: int | Sequence[int | None] | None = (), *, out: Any = None, name: str | None = None) -> _Array:
    """A box of the array, as Python slices of the leading axes."""
def smooth_l1(data: _Array, scalar: float = 1.0, *, out: Any = None, name: str | None = None) -> _Array:
    """A parabola near zero and |x| - 0.5 / scalar**2 beyond 1 / scalar**2."""
def softmax(data: _Array, length: _Array | None = None, axis: int = -1, temperature: float | None = None, dtype: _DType | None = None, use_length: bool | None = False, *, out: Any = None, name: str | None = None) -> _Array:
    """exp(x) / sum(exp(x)) along an axis."""
def topk(data: _Array, axis: int | None = -1, k: int = 1, ret_typ: Literal['both', 'indices', 'mask', 'value'] | str = 'indices', is_ascend: bool = False, dtype: _DType = 'float32', *, out: Any = None, name: str | None = None) -> Any:
    """The k largest (or smallest) elements along an axis: their values, indices, both, or a mask of them."""
def while_loop(cond: Callable[..., Any], func: Callable[..., Any], loop_vars: Any, max_iterations: int | None = None, name: str = 'while_loop') -> tuple[_Array, _Array]:
    """Run ``func(*loop_vars) -> (outputs, new loop_vars)`` while ``cond(*loop_vars)`` is not zero."""
