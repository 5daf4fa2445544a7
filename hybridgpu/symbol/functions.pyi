# SPDX-License-Identifier: Apache-2.0
# Made from records and definitions by `python docs/make_stubs.py`; do not edit.
"""Functions of ``mx.sym``."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy
from numpy.typing import ArrayLike

from hybridgpu.context import Context
from hybridgpu.symbol.symbol import Symbol

_Array: TypeAlias = Symbol
_DType: TypeAlias = str | type[Any] | numpy.dtype[Any]
_Device: TypeAlias = Context | str

def Activation(data: _Array | None = None, act_type: Literal['relu', 'sigmoid', 'softrelu', 'softsign', 'tanh'] | str = ..., *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """An activation function by name."""
def BatchNorm(data: _Array | None = None, gamma: _Array | None = None, beta: _Array | None = None, moving_mean: _Array | None = None, moving_var: _Array | None = None, eps: float = 0.001, momentum: float = 0.9, fix_gamma: bool = True, use_global_stats: bool = False, output_mean_var: bool = False, axis: int = 1, cudnn_off: bool = False, min_calib_range: float | None = None, max_calib_range: float | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Normalise each channel over the batch in training, by running averages otherwise."""
def BatchNorm_v1(data: _Array | None = None, gamma: _Array | None = None, beta: _Array | None = None, moving_mean: _Array | None = None, moving_var: _Array | None = None, eps: float = 0.001, momentum: float = 0.9, fix_gamma: bool = True, use_global_stats: bool = False, output_mean_var: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """BatchNorm along axis 1, as old model files have it."""
def BilinearSampler(data: _Array | None = None, grid: _Array | None = None, cudnn_off: bool | None = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Interpolate the data where a grid (N, 2, H, W) of x and y in -1 … 1 says; outside lie zeros."""
def BlockGrad(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Identity through which no gradient flows."""
def CTCLoss(data: _Array | None = None, label: _Array | None = None, data_lengths: _Array | None = None, label_lengths: _Array | None = None, use_data_lengths: bool = False, use_label_lengths: bool = False, blank_label: Literal['first', 'last'] | str = 'first', *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """-log of the probability that (time, batch, class) scores give to the labels, over all alignments."""
def Cast(data: _Array | None = None, dtype: _DType = ..., *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Convert the elements: floats are cut towards zero, narrow integers wrap, bool is x != 0."""
def Concat(*data: _Array, dim: int = 1, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Join along an axis (1 by default)."""
def Convolution(data: _Array | None = None, weight: _Array | None = None, bias: _Array | None = None, kernel: int | Sequence[int] = ..., stride: int | Sequence[int] = (), dilate: int | Sequence[int] = (), pad: int | Sequence[int] = (), num_filter: int = ..., num_group: int = 1, workspace: int = 1024, no_bias: bool = False, cudnn_tune: Literal['fastest', 'limited_workspace', 'off', None] | str = None, cudnn_off: bool = False, layout: Literal['NCDHW', 'NCHW', 'NCW', 'NDHWC', 'NHWC', 'NWC', None] | str = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Cross-correlation: each result is the sum over a window of the data times the weight of its filter."""
def Convolution_v1(data: _Array | None = None, weight: _Array | None = None, bias: _Array | None = None, kernel: int | Sequence[int] = ..., stride: int | Sequence[int] = (), dilate: int | Sequence[int] = (), pad: int | Sequence[int] = (), num_filter: int = ..., num_group: int = 1, workspace: int = 1024, no_bias: bool = False, cudnn_tune: Literal['fastest', 'limited_workspace', 'off', None] | str = None, cudnn_off: bool = False, layout: Literal['NCDHW', 'NCHW', 'NCW', 'NDHWC', 'NHWC', 'NWC', None] | str = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Convolution of two or three axes, as old model files have it."""
def Correlation(data1: _Array | None = None, data2: _Array | None = None, kernel_size: int = 1, max_displacement: int = 1, stride1: int = 1, stride2: int = 1, pad_size: int = 0, is_multiply: bool = True, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Compare windows of one image with windows of another, at every displacement in a square: one channel each."""
def Crop(*data: _Array, offset: int | Sequence[int] = (0, 0), h_w: int | Sequence[int] = (0, 0), center_crop: bool = False, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Cut a window out of images: of a given size, or of that of a second input."""
def Custom(*args: _Array, op_type: str, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None, **attributes: Any) -> _Array:
    """An operator written in Python, registered with ``mx.operator.register``."""
def Deconvolution(data: _Array | None = None, weight: _Array | None = None, bias: _Array | None = None, kernel: int | Sequence[int] = ..., stride: int | Sequence[int] = (), dilate: int | Sequence[int] = (), pad: int | Sequence[int] = (), adj: int | Sequence[int] = (), target_shape: int | Sequence[int] = (), num_filter: int = ..., num_group: int = 1, workspace: int = 512, no_bias: bool = True, cudnn_tune: Literal['fastest', 'limited_workspace', 'off', None] | str = None, cudnn_off: bool = False, layout: Literal['NCDHW', 'NCHW', 'NCW', 'NDHWC', 'NHWC', 'NWC', None] | str = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The transpose of Convolution: each element of the data adds its filter to a window of the result."""
def Dropout(data: _Array | None = None, p: float = 0.5, mode: Literal['always', 'training'] | str = 'training', axes: int | Sequence[int] = (), cudnn_off: bool | None = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Zero with probability p and scale the rest by 1 / (1 - p) in training; identity otherwise."""
def ElementWiseSum(*args: _Array, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The sum of all inputs."""
def Embedding(data: _Array | None = None, weight: _Array | None = None, input_dim: int = ..., output_dim: int = ..., dtype: _DType = 'float32', sparse_grad: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Rows of a table: weight[data], indices clipped."""
def Flatten(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """All axes but the first folded into one."""
def FullyConnected(data: _Array | None = None, weight: _Array | None = None, bias: _Array | None = None, num_hidden: int = ..., no_bias: bool = False, flatten: bool = True, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """data * weight^T + bias, weight of shape (num_hidden, inputs)."""
def GridGenerator(data: _Array | None = None, transform_type: Literal['affine', 'warp'] | str = ..., target_shape: int | Sequence[int] = (0, 0), *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Where to sample: x and y in -1 … 1, as (N, 2, height, width), for BilinearSampler."""
def GroupNorm(data: _Array | None = None, gamma: _Array | None = None, beta: _Array | None = None, num_groups: int = 1, eps: float = 1e-05, output_mean_var: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Normalise groups of channels of each sample; gamma and beta have one entry a group."""
def IdentityAttachKLSparseReg(data: _Array | None = None, moving_avg: _Array | None = None, sparseness_target: float = 0.1, penalty: float = 0.001, momentum: float = 0.9, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Identity, whose gradient adds the Kullback-Leibler divergence of the mean activation from a target."""
def InstanceNorm(data: _Array | None = None, gamma: _Array | None = None, beta: _Array | None = None, eps: float = 0.001, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Normalise each channel of each sample."""
def L2Normalization(data: _Array | None = None, eps: float = 1e-10, mode: Literal['channel', 'instance', 'spatial'] | str = 'instance', *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """data / sqrt(sum(data**2) + eps) over each sample, over its channels, or over each channel's positions."""
def LRN(data: _Array | None = None, alpha: float = 0.0001, beta: float = 0.75, knorm: float = 2, nsize: int = ..., *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Divide by a power of knorm plus alpha times the mean square of neighbouring channels."""
def LayerNorm(data: _Array | None = None, gamma: _Array | None = None, beta: _Array | None = None, axis: int = -1, eps: float = 1e-05, output_mean_var: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """(data - mean) / sqrt(variance + eps) * gamma + beta along one axis."""
def LeakyReLU(data: _Array | None = None, gamma: _Array | None = None, act_type: Literal['elu', 'gelu', 'leaky', 'prelu', 'rrelu', 'selu'] | str = 'leaky', slope: float = 0.25, lower_bound: float = 0.125, upper_bound: float = 0.334, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Rectifiers that are not flat below zero, and GELU (the exact one, by erf)."""
def LinearRegressionOutput(data: _Array | None = None, label: _Array | None = None, grad_scale: float = 1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Identity, with the gradient of half the squared distance from the label."""
def LogisticRegressionOutput(data: _Array | None = None, label: _Array | None = None, grad_scale: float = 1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """sigmoid, with the gradient of cross entropy with the label."""
def MAERegressionOutput(data: _Array | None = None, label: _Array | None = None, grad_scale: float = 1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Identity, with the gradient of the distance from the label."""
def MakeLoss(data: _Array | None = None, grad_scale: float = 1.0, valid_thresh: float = 0.0, normalization: Literal['batch', 'null', 'valid'] | str = 'null', *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Marks a loss: identity, with a constant gradient."""
def Pad(data: _Array | None = None, mode: Literal['constant', 'edge', 'reflect'] | str = ..., pad_width: int | Sequence[int] = ..., constant_value: float = 0.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Surround the last axes of a 4-D or 5-D array with a constant, its edge, or its mirror image."""
def Pooling(data: _Array | None = None, kernel: int | Sequence[int] = (), pool_type: Literal['avg', 'lp', 'max', 'sum'] | str = 'max', global_pool: bool = False, cudnn_off: bool = False, pooling_convention: Literal['full', 'same', 'valid'] | str = 'valid', stride: int | Sequence[int] = (), pad: int | Sequence[int] = (), p_value: int | None = None, count_include_pad: bool | None = None, layout: Literal['NCDHW', 'NCHW', 'NCW', 'NDHWC', 'NHWC', 'NWC', None] | str = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Reduce windows: their maximum, average, sum, or the p-th root of their sum of p-th powers."""
def Pooling_v1(data: _Array | None = None, kernel: int | Sequence[int] = (), pool_type: Literal['avg', 'max', 'sum'] | str = 'max', global_pool: bool = False, pooling_convention: Literal['full', 'valid'] | str = 'valid', stride: int | Sequence[int] = (), pad: int | Sequence[int] = (), *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Pooling of two or three axes, as old model files have it."""
def RNN(data: _Array | None = None, parameters: _Array | None = None, state: _Array | None = None, state_cell: _Array | None = None, sequence_length: _Array | None = None, state_size: int = ..., num_layers: int = ..., bidirectional: bool = False, mode: Literal['gru', 'lstm', 'rnn_relu', 'rnn_tanh'] | str = ..., p: float = 0.0, state_outputs: bool = False, projection_size: int | None = None, lstm_state_clip_min: float | None = None, lstm_state_clip_max: float | None = None, lstm_state_clip_nan: bool = False, use_sequence_length: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Recurrent layers over a sequence (T, N, C): Elman networks, LSTM (Hochreiter and Schmidhuber, 1997), or"""
def ROIPooling(data: _Array | None = None, rois: _Array | None = None, pooled_size: int | Sequence[int] = ..., spatial_scale: float = ..., *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The maximum of each bin of each region (batch index, x1, y1, x2, y2); empty bins are 0."""
def Reshape(data: _Array | None = None, shape: int | Sequence[int] = (), reverse: bool = False, target_shape: int | Sequence[int] = (), keep_highest: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The same elements under another shape."""
def SVMOutput(data: _Array | None = None, label: _Array | None = None, margin: float = 1.0, regularization_coefficient: float = 1.0, use_linear: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Identity, with the gradient of the hinge loss of one class against the others."""
def SequenceLast(data: _Array | None = None, sequence_length: _Array | None = None, use_sequence_length: bool = False, axis: int = 0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The last step of each sequence; the axis of time goes."""
def SequenceMask(data: _Array | None = None, sequence_length: _Array | None = None, use_sequence_length: bool = False, value: float = 0.0, axis: int = 0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Put ``value`` at all steps beyond the end of each sequence."""
def SequenceReverse(data: _Array | None = None, sequence_length: _Array | None = None, use_sequence_length: bool = False, axis: int = 0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Reverse the steps of each sequence; what lies beyond its end stays."""
def SliceChannel(data: _Array | None = None, num_outputs: int = ..., axis: int = 1, squeeze_axis: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Equal parts along an axis."""
def Softmax(data: _Array | None = None, label: _Array | None = None, grad_scale: float = 1.0, ignore_label: float = -1.0, multi_output: bool = False, use_ignore: bool = False, preserve_shape: bool = False, normalization: Literal['batch', 'null', 'valid'] | str = 'null', out_grad: bool = False, smooth_alpha: float = 0.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """softmax, whose gradient is that of cross entropy with the label: probability - label."""
def SoftmaxActivation(data: _Array | None = None, mode: Literal['channel', 'instance'] | str = 'instance', *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """softmax over axis 1 (channel) or over the last one (instance)."""
def SoftmaxOutput(data: _Array | None = None, label: _Array | None = None, grad_scale: float = 1.0, ignore_label: float = -1.0, multi_output: bool = False, use_ignore: bool = False, preserve_shape: bool = False, normalization: Literal['batch', 'null', 'valid'] | str = 'null', out_grad: bool = False, smooth_alpha: float = 0.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """softmax, whose gradient is that of cross entropy with the label: probability - label."""
def SpatialTransformer(data: _Array | None = None, loc: _Array | None = None, target_shape: int | Sequence[int] = (0, 0), transform_type: Literal['affine'] | str = ..., sampler_type: Literal['bilinear'] | str = ..., cudnn_off: bool | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Sample the data through affine maps (N, 6) of the result's places to the data's."""
def SwapAxis(data: _Array | None = None, dim1: int = 0, dim2: int = 0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Exchange two axes."""
def UpSampling(*data: _Array, scale: int, num_filter: int = 0, sample_type: Literal['bilinear', 'nearest'] | str, multi_input_mode: Literal['concat', 'sum'] | str = 'concat', workspace: int = 512, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Enlarge images by a whole factor: by repetition, or by a transposed convolution with a weight."""
def abs(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Absolute value."""
def adam_update(weight: _Array | None = None, grad: _Array | None = None, mean: _Array | None = None, var: _Array | None = None, lr: float = ..., beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-08, wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0, lazy_update: bool = True, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Adam (Kingma and Ba, 2014)."""
def add_n(*args: _Array, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The sum of all inputs."""
def all_finite(data: _Array | None = None, init_output: bool = True, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """1 if no element is infinite or NaN, else 0, as a float array of one element."""
def amp_cast(data: _Array | None = None, dtype: _DType = ..., *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Cast between float32, float16 and bfloat16; other types stay."""
def amp_multicast(*data: _Array, num_outputs: int, cast_narrow: bool = False, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """All inputs of float32, float16 and bfloat16 in the widest (or narrowest) of their types; others stay."""
def arccos(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Inverse cosine, radians."""
def arccosh(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Inverse hyperbolic cosine."""
def arcsin(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Inverse sine, radians."""
def arcsinh(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Inverse hyperbolic sine."""
def arctan(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Inverse tangent, radians."""
def arctanh(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Inverse hyperbolic tangent."""
def argmax(data: _Array | None = None, axis: int | None = None, keepdims: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Index of the first largest element, in the type of the data."""
def argmax_channel(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """argmax along axis 1."""
def argmin(data: _Array | None = None, axis: int | None = None, keepdims: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Index of the first smallest element, in the type of the data."""
def argsort(data: _Array | None = None, axis: int | None = -1, is_ascend: bool = True, dtype: _DType = 'float32', *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The positions of the elements in order along an axis."""
def batch_dot(lhs: _Array | None = None, rhs: _Array | None = None, transpose_a: bool = False, transpose_b: bool = False, forward_stype: Literal['csr', 'default', 'row_sparse', None] | str = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Matrix products of the last two axes, one for each index of the others."""
def batch_take(a: _Array | None = None, indices: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """One entry of each row: a[i, indices[i]]."""
def broadcast_add(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """lhs + rhs (broadcasting)."""
def broadcast_axes(data: _Array | None = None, axis: int | Sequence[int] = (), size: int | Sequence[int] = (), *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Repeat single axes of extent 1."""
def broadcast_axis(data: _Array | None = None, axis: int | Sequence[int] = (), size: int | Sequence[int] = (), *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Repeat single axes of extent 1."""
def broadcast_div(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """lhs / rhs; integers are cut towards zero (broadcasting)."""
def broadcast_equal(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """1 where lhs == rhs (broadcasting)."""
def broadcast_greater(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """1 where lhs > rhs (broadcasting)."""
def broadcast_greater_equal(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """1 where lhs >= rhs (broadcasting)."""
def broadcast_hypot(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """sqrt(lhs**2 + rhs**2) (broadcasting)."""
def broadcast_lesser(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """1 where lhs < rhs (broadcasting)."""
def broadcast_lesser_equal(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """1 where lhs <= rhs (broadcasting)."""
def broadcast_like(lhs: _Array | None = None, rhs: _Array | None = None, lhs_axes: int | Sequence[int] | None = None, rhs_axes: int | Sequence[int] | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """lhs broadcast to the shape of rhs, or to single axes of it."""
def broadcast_logical_and(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """1 where both are true (broadcasting)."""
def broadcast_logical_or(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """1 where either is true (broadcasting)."""
def broadcast_logical_xor(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """1 where exactly one is true (broadcasting)."""
def broadcast_maximum(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """the larger; NaN if either is NaN (broadcasting)."""
def broadcast_minimum(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """the smaller; NaN if either is NaN (broadcasting)."""
def broadcast_minus(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """lhs - rhs (broadcasting)."""
def broadcast_mod(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """remainder with the sign of rhs; 0 where rhs is 0 (broadcasting)."""
def broadcast_mul(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """lhs * rhs (broadcasting)."""
def broadcast_not_equal(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """1 where lhs != rhs (broadcasting)."""
def broadcast_plus(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """lhs + rhs (broadcasting)."""
def broadcast_power(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """lhs ** rhs (broadcasting)."""
def broadcast_sub(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """lhs - rhs (broadcasting)."""
def broadcast_to(data: _Array | None = None, shape: int | Sequence[int] = (), *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Repeat axes of extent 1 up to a shape."""
def cast(data: _Array | None = None, dtype: _DType = ..., *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Convert the elements: floats are cut towards zero, narrow integers wrap, bool is x != 0."""
def cast_storage(data: _Array | None = None, stype: Literal['csr', 'default', 'row_sparse'] | str = ..., *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """A copy; all arrays here are dense."""
def cbrt(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Cube root."""
def ceil(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Smallest integer not below."""
def choose_element_0index(data: _Array | None = None, index: _Array | None = None, axis: int | None = -1, keepdims: bool = False, mode: Literal['clip', 'wrap'] | str = 'clip', *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """One entry along an axis for every position of the other axes."""
def clip(data: _Array | None = None, a_min: float = ..., a_max: float = ..., *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Limit the values to a_min … a_max; NaN stays."""
def col2im(data: _Array | None = None, output_size: int | Sequence[int] = ..., kernel: int | Sequence[int] = ..., stride: int | Sequence[int] = (), dilate: int | Sequence[int] = (), pad: int | Sequence[int] = (), *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The transpose of im2col: overlapping windows add up."""
def concat(*data: _Array, dim: int = 1, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Join along an axis (1 by default)."""
def cos(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Cosine of an angle in radians."""
def cosh(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Hyperbolic cosine."""
def crop(data: _Array | None = None, begin: int | Sequence[int | None] = ..., end: int | Sequence[int | None] = ..., step: int | Sequence[int | None] | None = (), *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """A box of the array, as Python slices of the leading axes."""
def ctc_loss(data: _Array | None = None, label: _Array | None = None, data_lengths: _Array | None = None, label_lengths: _Array | None = None, use_data_lengths: bool = False, use_label_lengths: bool = False, blank_label: Literal['first', 'last'] | str = 'first', *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """-log of the probability that (time, batch, class) scores give to the labels, over all alignments."""
def cumsum(a: _Array | None = None, axis: int | None = None, dtype: _DType | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Running sums along an axis, in the type of the result (int64 for bool)."""
def degrees(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Radians to degrees."""
def depth_to_space(data: _Array | None = None, block_size: int = ..., *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Channels laid out as blocks in the plane: (N, B*B*C, H, W) becomes (N, C, H*B, W*B)."""
def diag(data: _Array | None = None, k: int = 0, axis1: int = 0, axis2: int = 1, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The diagonal of two axes, as a new last axis; of a vector: the matrix with that diagonal."""
def dot(lhs: _Array | None = None, rhs: _Array | None = None, transpose_a: bool = False, transpose_b: bool = False, forward_stype: Literal['csr', 'default', 'row_sparse', None] | str = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Sum over the last axis of lhs and the first of rhs; transposing moves the other end there."""
def elemwise_add(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """lhs + rhs (equal shapes)."""
def elemwise_div(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """lhs / rhs; integers are cut towards zero (equal shapes)."""
def elemwise_mul(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """lhs * rhs (equal shapes)."""
def elemwise_sub(lhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """lhs - rhs (equal shapes)."""
def erf(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Error function."""
def erfinv(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Inverse error function."""
def exp(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """e ** x."""
def expand_dims(data: _Array | None = None, axis: int = ..., *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """A new axis of extent 1."""
def expm1(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """e ** x - 1 without cancellation."""
def fill_element_0index(lhs: _Array | None = None, mhs: _Array | None = None, rhs: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """lhs with entry rhs[i] of row i replaced by mhs[i]."""
def fix(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Nearest integer towards zero."""
def flatten(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """All axes but the first folded into one."""
def flip(data: _Array | None = None, axis: int | Sequence[int] = ..., *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Reverse the order along axes."""
def floor(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Largest integer not above."""
def ftml_update(weight: _Array | None = None, grad: _Array | None = None, d: _Array | None = None, v: _Array | None = None, z: _Array | None = None, lr: float = ..., beta1: float = 0.6, beta2: float = 0.999, epsilon: float = 1e-08, t: int = ..., wd: float = 0.0, rescale_grad: float = 1.0, clip_grad: float = -1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Follow the moving leader (Zheng and Kwok, 2017)."""
def ftrl_update(weight: _Array | None = None, grad: _Array | None = None, z: _Array | None = None, n: _Array | None = None, lr: float = ..., lamda1: float = 0.01, beta: float = 1.0, wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Follow the regularised leader (McMahan et al., 2013)."""
def gamma(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Gamma function."""
def gammaln(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Log of the absolute value of gamma."""
def gather_nd(data: _Array | None = None, indices: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Entries (or slices) of ``data`` at the positions that the columns of ``indices`` name."""
def hard_sigmoid(data: _Array | None = None, alpha: float = 0.2, beta: float = 0.5, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """clip(alpha * x + beta, 0, 1)."""
def identity(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The same values in an array of its own."""
def im2col(data: _Array | None = None, kernel: int | Sequence[int] = ..., stride: int | Sequence[int] = (), dilate: int | Sequence[int] = (), pad: int | Sequence[int] = (), *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The windows of the data as columns: (N, C, *S) -> (N, C * window, number of windows)."""
def khatri_rao(*args: _Array, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Column by column Kronecker product of matrices."""
def lamb_update_phase1(weight: _Array | None = None, grad: _Array | None = None, mean: _Array | None = None, var: _Array | None = None, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-06, t: int = ..., bias_correction: bool = True, wd: float = ..., rescale_grad: float = 1.0, clip_gradient: float = -1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The direction of a LAMB step (You et al., 2019)."""
def lamb_update_phase2(weight: _Array | None = None, g: _Array | None = None, r1: _Array | None = None, r2: _Array | None = None, lr: float = ..., lower_bound: float = -1.0, upper_bound: float = -1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """A LAMB step along ``g``; r1 is the norm of the weight, r2 that of ``g``."""
def linalg_det(A: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Determinants. The gradient is 0 where the determinant is."""
def linalg_extractdiag(A: _Array | None = None, offset: int = 0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Diagonals of square matrices."""
def linalg_extracttrian(A: _Array | None = None, offset: int = 0, lower: bool = True, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Triangles of square matrices as vectors: lower ones row by row, upper ones column by column."""
def linalg_gelqf(A: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Q and L of A = L Q: L lower triangular, the rows of Q orthonormal. A has at most as many rows as columns."""
def linalg_gemm(A: _Array | None = None, B: _Array | None = None, C: _Array | None = None, transpose_a: bool = False, transpose_b: bool = False, alpha: float = 1.0, beta: float = 1.0, axis: int = -2, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """alpha * op(A) op(B) + beta * C."""
def linalg_gemm2(A: _Array | None = None, B: _Array | None = None, transpose_a: bool = False, transpose_b: bool = False, alpha: float = 1.0, axis: int = -2, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """alpha * op(A) op(B)."""
def linalg_inverse(A: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Inverse matrices."""
def linalg_makediag(A: _Array | None = None, offset: int = 0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Square matrices with the input on a diagonal."""
def linalg_maketrian(A: _Array | None = None, offset: int = 0, lower: bool = True, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Square matrices with a triangle from vectors, zero elsewhere: what extracttrian takes apart."""
def linalg_potrf(A: _Array | None = None, lower: bool = True, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The lower triangular L of a symmetric positive definite A = L L**T. Only the lower triangle of A is read;"""
def linalg_potri(A: _Array | None = None, lower: bool = True, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """(A A**T)**-1 for a lower triangular A, which is the inverse of what potrf factorised."""
def linalg_slogdet(A: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Signs of the determinants, and logarithms of their sizes. No gradient passes through the signs."""
def linalg_sumlogdiag(A: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Sums of the logarithms of the diagonals."""
def linalg_syrk(A: _Array | None = None, transpose: bool = False, alpha: float = 1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """alpha * A A**T."""
def linalg_trmm(A: _Array | None = None, B: _Array | None = None, transpose: bool = False, rightside: bool = False, lower: bool = True, alpha: float = 1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """alpha * op(A) B with a triangular A, or alpha * B op(A)."""
def linalg_trsm(A: _Array | None = None, B: _Array | None = None, transpose: bool = False, rightside: bool = False, lower: bool = True, alpha: float = 1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """alpha * op(A)**-1 B with a triangular A, or alpha * B op(A)**-1."""
def log(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Natural logarithm."""
def log10(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Logarithm to base 10."""
def log1p(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """log(1 + x) without cancellation."""
def log2(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Logarithm to base 2."""
def log_softmax(data: _Array | None = None, axis: int = -1, temperature: float | None = None, dtype: _DType | None = None, use_length: bool | None = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """log(softmax(x)) without underflow."""
def logical_not(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """1 where x is 0."""
def make_loss(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Marks a loss: identity, with a gradient of 1 whatever the head gradient is."""
def max(data: _Array | None = None, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Largest element over axes; NaN wins."""
def max_axis(data: _Array | None = None, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Largest element over axes; NaN wins."""
def mean(data: _Array | None = None, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Mean over axes; integers are cut towards zero."""
def min(data: _Array | None = None, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Smallest element over axes; NaN wins."""
def min_axis(data: _Array | None = None, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Smallest element over axes; NaN wins."""
def moments(data: _Array | None = None, axes: int | Sequence[int] | None = None, keepdims: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Mean and (biased) variance over axes."""
def mp_lamb_update_phase1(weight: _Array | None = None, grad: _Array | None = None, mean: _Array | None = None, var: _Array | None = None, weight32: _Array | None = None, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-06, t: int = ..., bias_correction: bool = True, wd: float = ..., rescale_grad: float = 1.0, clip_gradient: float = -1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The direction of a LAMB step on a float copy of the weight."""
def mp_lamb_update_phase2(weight: _Array | None = None, g: _Array | None = None, r1: _Array | None = None, r2: _Array | None = None, weight32: _Array | None = None, lr: float = ..., lower_bound: float = -1.0, upper_bound: float = -1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """A LAMB step of a float copy of the weight."""
def mp_nag_mom_update(weight: _Array | None = None, grad: _Array | None = None, mom: _Array | None = None, weight32: _Array | None = None, lr: float = ..., momentum: float = 0.0, wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Nesterov's accelerated gradient descent, on a float copy of the weight."""
def mp_sgd_mom_update(weight: _Array | None = None, grad: _Array | None = None, mom: _Array | None = None, weight32: _Array | None = None, lr: float = ..., momentum: float = 0.0, wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0, lazy_update: bool = True, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Stochastic gradient descent with momentum, on a float copy of the weight."""
def mp_sgd_update(weight: _Array | None = None, grad: _Array | None = None, weight32: _Array | None = None, lr: float = ..., wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0, lazy_update: bool = True, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Stochastic gradient descent, on a float copy of the weight."""
def multi_all_finite(*data: _Array, num_arrays: int = 1, init_output: bool = True, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """1 if no element of any array is infinite or NaN, else 0."""
def multi_lars(lrs: _Array | None = None, weights_sum_sq: _Array | None = None, grads_sum_sq: _Array | None = None, wds: _Array | None = None, eta: float = ..., eps: float = ..., rescale_grad: float = 1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Learning rates scaled by the norms of weight and gradient (You et al., 2017)."""
def multi_mp_sgd_mom_update(*data: _Array, lrs: float | Sequence[float], wds: float | Sequence[float], momentum: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0, num_weights: int = 1, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Stochastic gradient descent with momentum of many weights, each with a float copy."""
def multi_mp_sgd_update(*data: _Array, lrs: float | Sequence[float], wds: float | Sequence[float], rescale_grad: float = 1.0, clip_gradient: float = -1.0, num_weights: int = 1, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Stochastic gradient descent of many weights, each with a float copy."""
def multi_sgd_mom_update(*data: _Array, lrs: float | Sequence[float], wds: float | Sequence[float], momentum: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0, num_weights: int = 1, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Stochastic gradient descent with momentum of many weights."""
def multi_sgd_update(*data: _Array, lrs: float | Sequence[float], wds: float | Sequence[float], rescale_grad: float = 1.0, clip_gradient: float = -1.0, num_weights: int = 1, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Stochastic gradient descent of many weights."""
def multi_sum_sq(*data: _Array, num_arrays: int, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The sum of squares of each array, as floats."""
def nag_mom_update(weight: _Array | None = None, grad: _Array | None = None, mom: _Array | None = None, lr: float = ..., momentum: float = 0.0, wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Nesterov's accelerated gradient descent."""
def nanprod(data: _Array | None = None, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Product over axes, NaN counted as 1."""
def nansum(data: _Array | None = None, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Sum over axes, NaN counted as 0."""
def negative(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The negative."""
def norm(data: _Array | None = None, ord: int = 2, axis: int | Sequence[int] | None = None, out_dtype: _DType | None = None, keepdims: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Sum of absolute values (ord 1) or root of the sum of squares (ord 2)."""
def normal(loc: float = 0.0, scale: float = 1.0, shape: int | Sequence[int] | None = None, ctx: str = '', dtype: _DType | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Normal with a mean and a standard deviation."""
def one_hot(indices: _Array | None = None, depth: int = ..., on_value: float = 1.0, off_value: float = 0.0, dtype: _DType = 'float32', *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """A new last axis that is ``on_value`` at the index; indices out of range give no ``on_value``."""
def ones_like(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Ones of the input's shape and type."""
def pad(data: _Array | None = None, mode: Literal['constant', 'edge', 'reflect'] | str = ..., pad_width: int | Sequence[int] = ..., constant_value: float = 0.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Surround the last axes of a 4-D or 5-D array with a constant, its edge, or its mirror image."""
def pick(data: _Array | None = None, index: _Array | None = None, axis: int | None = -1, keepdims: bool = False, mode: Literal['clip', 'wrap'] | str = 'clip', *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """One entry along an axis for every position of the other axes."""
def preloaded_multi_mp_sgd_mom_update(*data: _Array, momentum: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0, num_weights: int = 1, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Stochastic gradient descent with momentum of many weights, each with a float copy; the last two inputs are the learning rates and weight decays."""
def preloaded_multi_mp_sgd_update(*data: _Array, rescale_grad: float = 1.0, clip_gradient: float = -1.0, num_weights: int = 1, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Stochastic gradient descent of many weights, each with a float copy; the last two inputs are the learning rates and weight decays."""
def preloaded_multi_sgd_mom_update(*data: _Array, momentum: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0, num_weights: int = 1, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Stochastic gradient descent with momentum of many weights; the last two inputs are the learning rates and weight decays."""
def preloaded_multi_sgd_update(*data: _Array, rescale_grad: float = 1.0, clip_gradient: float = -1.0, num_weights: int = 1, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Stochastic gradient descent of many weights; the last two inputs are the learning rates and weight decays."""
def prod(data: _Array | None = None, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Product over axes."""
def radians(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Degrees to radians."""
def random_exponential(lam: float = 1.0, shape: int | Sequence[int] | None = None, ctx: str = '', dtype: _DType | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Exponential with rate lam."""
def random_gamma(alpha: float = 1.0, beta: float = 1.0, shape: int | Sequence[int] | None = None, ctx: str = '', dtype: _DType | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Gamma with shape alpha and scale beta."""
def random_generalized_negative_binomial(mu: float = 1.0, alpha: float = 1.0, shape: int | Sequence[int] | None = None, ctx: str = '', dtype: _DType | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Negative binomial with mean mu and variance mu + alpha * mu**2."""
def random_negative_binomial(k: int = 1, p: float = 1.0, shape: int | Sequence[int] | None = None, ctx: str = '', dtype: _DType | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Successes before the k-th failure."""
def random_normal(loc: float = 0.0, scale: float = 1.0, shape: int | Sequence[int] | None = None, ctx: str = '', dtype: _DType | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Normal with a mean and a standard deviation."""
def random_pdf_dirichlet(sample: _Array | None = None, alpha: _Array | None = None, is_log: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Density of the Dirichlet distribution, along the last axis."""
def random_pdf_exponential(sample: _Array | None = None, lam: _Array | None = None, is_log: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Density of the exponential distribution with rate lam."""
def random_pdf_gamma(sample: _Array | None = None, alpha: _Array | None = None, beta: _Array | None = None, is_log: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Density of the gamma distribution with shape alpha and rate beta."""
def random_pdf_generalized_negative_binomial(sample: _Array | None = None, mu: _Array | None = None, alpha: _Array | None = None, is_log: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Probability of the negative binomial distribution with mean mu and dispersion alpha."""
def random_pdf_negative_binomial(sample: _Array | None = None, k: _Array | None = None, p: _Array | None = None, is_log: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Probability of k failures' successes."""
def random_pdf_normal(sample: _Array | None = None, mu: _Array | None = None, sigma: _Array | None = None, is_log: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Density of the normal distribution."""
def random_pdf_poisson(sample: _Array | None = None, lam: _Array | None = None, is_log: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Probability of the Poisson distribution with mean lam."""
def random_pdf_uniform(sample: _Array | None = None, low: _Array | None = None, high: _Array | None = None, is_log: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Density of the uniform distribution on [low, high], for samples inside."""
def random_poisson(lam: float = 1.0, shape: int | Sequence[int] | None = None, ctx: str = '', dtype: _DType | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Poisson with mean lam."""
def random_randint(low: int, high: int, shape: int | Sequence[int] | None = None, ctx: str = '', dtype: _DType | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Uniform integers in low … high - 1."""
def random_uniform(low: float = 0.0, high: float = 1.0, shape: int | Sequence[int] | None = None, ctx: str = '', dtype: _DType | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Uniform on [low, high)."""
def ravel_multi_index(data: _Array | None = None, shape: int | Sequence[int] | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Flat positions of coordinates, which stand along the first axis."""
def rcbrt(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """1 / cbrt(x)."""
def reciprocal(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """1 / x."""
def relu(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """max(x, 0)."""
def repeat(data: _Array | None = None, repeats: int = ..., axis: int | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Every element repeated in place."""
def reset_arrays(*data: _Array, num_arrays: int, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Make all elements of all arrays 0. There is no result."""
def reshape(data: _Array | None = None, shape: int | Sequence[int] = (), reverse: bool = False, target_shape: int | Sequence[int] = (), keep_highest: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The same elements under another shape."""
def reshape_like(lhs: _Array | None = None, rhs: _Array | None = None, lhs_begin: int | None = None, lhs_end: int | None = None, rhs_begin: int | None = None, rhs_end: int | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """lhs with the shape of rhs, or with axes begin … end replaced by those of rhs."""
def reverse(data: _Array | None = None, axis: int | Sequence[int] = ..., *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Reverse the order along axes."""
def rint(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Nearest integer, halves down."""
def rmsprop_update(weight: _Array | None = None, grad: _Array | None = None, n: _Array | None = None, lr: float = ..., gamma1: float = 0.95, epsilon: float = 1e-08, wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0, clip_weights: float = -1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """RMSProp (Tieleman and Hinton, 2012)."""
def rmspropalex_update(weight: _Array | None = None, grad: _Array | None = None, n: _Array | None = None, g: _Array | None = None, delta: _Array | None = None, lr: float = ..., gamma1: float = 0.95, gamma2: float = 0.9, epsilon: float = 1e-08, wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0, clip_weights: float = -1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """RMSProp (Graves, 2013)."""
def round(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Nearest integer, halves away from zero."""
def rsqrt(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """1 / sqrt(x)."""
def sample_exponential(lam: _Array | None = None, shape: int | Sequence[int] = (), dtype: _DType | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Exponential with rate lam: ``shape`` numbers for each entry of the parameters."""
def sample_gamma(alpha: _Array | None = None, beta: _Array | None = None, shape: int | Sequence[int] = (), dtype: _DType | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Gamma with shape alpha and scale beta: ``shape`` numbers for each entry of the parameters."""
def sample_generalized_negative_binomial(mu: _Array | None = None, alpha: _Array | None = None, shape: int | Sequence[int] = (), dtype: _DType | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Negative binomial with mean mu and variance mu + alpha * mu**2: ``shape`` numbers for each entry of the parameters."""
def sample_multinomial(data: _Array | None = None, shape: int | Sequence[int] = (), get_prob: bool = False, dtype: _DType = 'int32', *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Numbers of categories, drawn with the probabilities of the last axis: ``shape`` numbers a row."""
def sample_negative_binomial(k: _Array | None = None, p: _Array | None = None, shape: int | Sequence[int] = (), dtype: _DType | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Successes before the k-th failure: ``shape`` numbers for each entry of the parameters."""
def sample_normal(mu: _Array | None = None, sigma: _Array | None = None, shape: int | Sequence[int] = (), dtype: _DType | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Normal with a mean and a standard deviation: ``shape`` numbers for each entry of the parameters."""
def sample_poisson(lam: _Array | None = None, shape: int | Sequence[int] = (), dtype: _DType | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Poisson with mean lam: ``shape`` numbers for each entry of the parameters."""
def sample_uniform(low: _Array | None = None, high: _Array | None = None, shape: int | Sequence[int] = (), dtype: _DType | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Uniform on [low, high): ``shape`` numbers for each entry of the parameters."""
def scatter_nd(data: _Array | None = None, indices: _Array | None = None, shape: int | Sequence[int] = ..., *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Zeros with the entries of ``data`` at the positions that the columns of ``indices`` name."""
def sgd_mom_update(weight: _Array | None = None, grad: _Array | None = None, mom: _Array | None = None, lr: float = ..., momentum: float = 0.0, wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0, lazy_update: bool = True, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Stochastic gradient descent with momentum."""
def sgd_update(weight: _Array | None = None, grad: _Array | None = None, lr: float = ..., wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0, lazy_update: bool = True, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Stochastic gradient descent."""
def shape_array(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The shape as an int64 array."""
def shuffle(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The entries of the first axis in random order."""
def sigmoid(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """1 / (1 + e ** -x)."""
def sign(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """-1, 0 or 1; 0 for NaN."""
def signsgd_update(weight: _Array | None = None, grad: _Array | None = None, lr: float = ..., wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """A step by the sign of the gradient."""
def signum_update(weight: _Array | None = None, grad: _Array | None = None, mom: _Array | None = None, lr: float = ..., momentum: float = 0.0, wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0, wd_lh: float = 0.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """A step by the sign of the momentum (Bernstein et al., 2018)."""
def sin(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Sine of an angle in radians."""
def sinh(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Hyperbolic sine."""
def size_array(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The number of elements as an int64 array."""
def slice(data: _Array | None = None, begin: int | Sequence[int | None] = ..., end: int | Sequence[int | None] = ..., step: int | Sequence[int | None] | None = (), *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """A box of the array, as Python slices of the leading axes."""
def slice_axis(data: _Array | None = None, axis: int = ..., begin: int = ..., end: int | None = ..., *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """A slice of one axis."""
def slice_like(data: _Array | None = None, shape_like: _Array | None = None, axes: int | Sequence[int] = (), *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The start of every axis, as long as the other array's."""
def smooth_l1(data: _Array | None = None, scalar: float = 1.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """A parabola near zero and |x| - 0.5 / scalar**2 beyond 1 / scalar**2."""
def softmax(data: _Array | None = None, length: _Array | None = None, axis: int = -1, temperature: float | None = None, dtype: _DType | None = None, use_length: bool | None = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """exp(x) / sum(exp(x)) along an axis."""
def softmax_cross_entropy(data: _Array | None = None, label: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The sum over rows of -log(softmax(data)[label])."""
def softmin(data: _Array | None = None, axis: int = -1, temperature: float | None = None, dtype: _DType | None = None, use_length: bool | None = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """softmax(-x)."""
def softsign(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """x / (1 + |x|)."""
def sort(data: _Array | None = None, axis: int | None = -1, is_ascend: bool = True, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The elements in order along an axis."""
def space_to_depth(data: _Array | None = None, block_size: int = ..., *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Blocks of the plane stacked as channels: (N, C, H*B, W*B) becomes (N, B*B*C, H, W)."""
def split(data: _Array | None = None, num_outputs: int = ..., axis: int = 1, squeeze_axis: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Equal parts along an axis."""
def sqrt(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Square root."""
def square(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """x * x."""
def squeeze(data: _Array | None = None, axis: int | Sequence[int] | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Drop axes of extent 1."""
def stack(*data: _Array, axis: int = 0, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Join along a new axis."""
def stop_gradient(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Identity through which no gradient flows."""
def sum(data: _Array | None = None, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Sum over axes."""
def sum_axis(data: _Array | None = None, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Sum over axes."""
def swapaxes(data: _Array | None = None, dim1: int = 0, dim2: int = 0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Exchange two axes."""
def take(a: _Array | None = None, indices: _Array | None = None, axis: int = 0, mode: Literal['clip', 'raise', 'wrap'] | str = 'clip', *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Entries of ``a`` along an axis; the shape of ``indices`` takes the place of the axis."""
def tan(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Tangent of an angle in radians."""
def tanh(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Hyperbolic tangent."""
def tile(data: _Array | None = None, reps: int | Sequence[int] = ..., *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The whole array repeated along its axes, as NumPy's tile."""
def topk(data: _Array | None = None, axis: int | None = -1, k: int = 1, ret_typ: Literal['both', 'indices', 'mask', 'value'] | str = 'indices', is_ascend: bool = False, dtype: _DType = 'float32', *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The k largest (or smallest) elements along an axis: their values, indices, both, or a mask of them."""
def transpose(data: _Array | None = None, axes: int | Sequence[int] = (), *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Permute the axes."""
def trunc(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """The integer part."""
def uniform(low: float = 0.0, high: float = 1.0, shape: int | Sequence[int] | None = None, ctx: str = '', dtype: _DType | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Uniform on [low, high)."""
def unravel_index(data: _Array | None = None, shape: int | Sequence[int] | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Coordinates of flat positions: a new first axis, one entry an axis of ``shape``."""
def where(condition: _Array | None = None, x: _Array | None = None, y: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """x where the condition is not zero, else y; a 1-d condition picks rows."""
def zeros_like(data: _Array | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
    """Zeros of the input's shape and type."""
