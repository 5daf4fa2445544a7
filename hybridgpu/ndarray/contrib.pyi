# SPDX-License-Identifier: Apache-2.0
# Made from records and definitions by `python docs/make_stubs.py`; do not edit.
"""Functions of ``mx.nd.contrib``."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy
from numpy.typing import ArrayLike

from hybridgpu.context import Context
from hybridgpu.ndarray.ndarray import NDArray

_Array: TypeAlias = NDArray
_DType: TypeAlias = str | type[Any] | numpy.dtype[Any]
_Device: TypeAlias = Context | str

def AdaptiveAvgPooling2D(data: _Array, output_size: int | Sequence[int] = (), *, out: Any = None, name: str | None = None) -> _Array:
    """Averages over windows that cover the data with a given number of results."""
def BatchNormWithReLU(data: _Array, gamma: _Array, beta: _Array, moving_mean: _Array, moving_var: _Array, eps: float = 0.001, momentum: float = 0.9, fix_gamma: bool = True, use_global_stats: bool = False, output_mean_var: bool = False, axis: int = 1, cudnn_off: bool = False, min_calib_range: float | None = None, max_calib_range: float | None = None, *, out: Any = None, name: str | None = None) -> Any:
    """BatchNorm and then max(x, 0)."""
def BilinearResize2D(data: _Array, like: _Array | None = None, height: int = 1, width: int = 1, scale_height: float | None = None, scale_width: float | None = None, mode: Literal['like', 'odd_scale', 'size', 'to_even_down', 'to_even_up', 'to_odd_down', 'to_odd_up'] | str = 'size', align_corners: bool = True, *, out: Any = None, name: str | None = None) -> _Array:
    """Resize images by linear interpolation along both axes."""
def CTCLoss(data: _Array, label: _Array, data_lengths: _Array | None = None, label_lengths: _Array | None = None, use_data_lengths: bool = False, use_label_lengths: bool = False, blank_label: Literal['first', 'last'] | str = 'first', *, out: Any = None, name: str | None = None) -> _Array:
    """-log of the probability that (time, batch, class) scores give to the labels, over all alignments."""
def DeformableConvolution(data: _Array, offset: _Array, weight: _Array, bias: _Array | None = None, kernel: int | Sequence[int] = ..., stride: int | Sequence[int] = (), dilate: int | Sequence[int] = (), pad: int | Sequence[int] = (), num_filter: int = ..., num_group: int = 1, num_deformable_group: int = 1, workspace: int = 1024, no_bias: bool = False, layout: Literal['NCDHW', 'NCHW', 'NCW', None] | str = None, *, out: Any = None, name: str | None = None) -> _Array:
    """Convolution of (N, C, H, W) whose windows' elements are moved by offsets (N, 2 * groups * window, H', W')."""
def DeformablePSROIPooling(data: _Array, rois: _Array, trans: _Array | None = None, spatial_scale: float = ..., output_dim: int = ..., group_size: int = ..., pooled_size: int = ..., part_size: int = 0, sample_per_part: int = 1, trans_std: float = 0.0, no_trans: bool = False, *, out: Any = None, name: str | None = None) -> _Array:
    """As PSROIPooling, of interpolated samples in bins that offsets (R, 2 * classes, parts, parts) move."""
def ModulatedDeformableConvolution(data: _Array, offset: _Array, mask: _Array, weight: _Array, bias: _Array | None = None, kernel: int | Sequence[int] = ..., stride: int | Sequence[int] = (), dilate: int | Sequence[int] = (), pad: int | Sequence[int] = (), num_filter: int = ..., num_group: int = 1, num_deformable_group: int = 1, workspace: int = 1024, no_bias: bool = False, im2col_step: int = 64, layout: Literal['NCDHW', 'NCHW', 'NCW', None] | str = None, *, out: Any = None, name: str | None = None) -> _Array:
    """Deformable convolution whose windows' elements are multiplied by a mask (N, groups * window, H', W')."""
def MultiBoxDetection(cls_prob: _Array, loc_pred: _Array, anchor: _Array, clip: bool = True, threshold: float = 0.01, background_id: int = 0, nms_threshold: float = 0.5, force_suppress: bool = False, variances: float | Sequence[float] = (0.1, 0.1, 0.2, 0.2), nms_topk: int = -1, *, out: Any = None, name: str | None = None) -> _Array:
    """Boxes (class, score, x1, y1, x2, y2) that predictions for anchors mean; class -1 where nothing is."""
def MultiBoxPrior(data: _Array, sizes: float | Sequence[float] = (1.0,), ratios: float | Sequence[float] = (1.0,), clip: bool = False, steps: float | Sequence[float] = (-1.0, -1.0), offsets: float | Sequence[float] = (0.5, 0.5), *, out: Any = None, name: str | None = None) -> _Array:
    """Anchors around every element of (N, C, H, W), in fractions of the image: (1, boxes, 4)."""
def MultiBoxTarget(anchor: _Array, label: _Array, cls_pred: _Array, overlap_threshold: float = 0.5, ignore_label: float = -1.0, negative_mining_ratio: float = -1.0, negative_mining_thresh: float = 0.5, minimum_negative_samples: int = 0, variances: float | Sequence[float] = (0.1, 0.1, 0.2, 0.2), *, out: Any = None, name: str | None = None) -> list[_Array]:
    """What a detector should predict for anchors (1, A, 4) given labels (N, L, 5) of class and box."""
def MultiProposal(cls_prob: _Array, bbox_pred: _Array, im_info: _Array, rpn_pre_nms_top_n: int = 6000, rpn_post_nms_top_n: int = 300, threshold: float = 0.7, rpn_min_size: int = 16, scales: float | Sequence[float] = (4.0, 8.0, 16.0, 32.0), ratios: float | Sequence[float] = (0.5, 1.0, 2.0), feature_stride: int = 16, output_score: bool = False, iou_loss: bool = False, *, out: Any = None, name: str | None = None) -> Any:
    """Boxes (sample, x1, y1, x2, y2) that may hold objects, from scores and offsets of anchors at every element, for several samples."""
def PSROIPooling(data: _Array, rois: _Array, spatial_scale: float, output_dim: int, pooled_size: int, group_size: int = 0, *, out: Any = None, name: str | None = None) -> _Array:
    """Means over the bins of regions (batch index, x1, y1, x2, y2); each group of bins reads its own channels."""
def Proposal(cls_prob: _Array, bbox_pred: _Array, im_info: _Array, rpn_pre_nms_top_n: int = 6000, rpn_post_nms_top_n: int = 300, threshold: float = 0.7, rpn_min_size: int = 16, scales: float | Sequence[float] = (4.0, 8.0, 16.0, 32.0), ratios: float | Sequence[float] = (0.5, 1.0, 2.0), feature_stride: int = 16, output_score: bool = False, iou_loss: bool = False, *, out: Any = None, name: str | None = None) -> Any:
    """Boxes (sample, x1, y1, x2, y2) that may hold objects, from scores and offsets of anchors at every element, for one sample."""
def ROIAlign(data: _Array, rois: _Array, pooled_size: int | Sequence[int], spatial_scale: float, sample_ratio: int = -1, position_sensitive: bool = False, aligned: bool = False, *, out: Any = None, name: str | None = None) -> _Array:
    """Averages of interpolated samples in each bin of each region (batch index, x1, y1, x2, y2)."""
def RROIAlign(data: _Array, rois: _Array, pooled_size: int | Sequence[int], spatial_scale: float, sampling_ratio: int = -1, *, out: Any = None, name: str | None = None) -> _Array:
    """Means of interpolated samples in the bins of turned regions (batch index, x, y, width, height, degrees)."""
def SyncBatchNorm(data: _Array, gamma: _Array, beta: _Array, moving_mean: _Array, moving_var: _Array, eps: float = 0.001, momentum: float = 0.9, fix_gamma: bool = True, use_global_stats: bool = False, output_mean_var: bool = False, ndev: int = 1, key: str = ..., *, out: Any = None, name: str | None = None) -> Any:
    """BatchNorm over the batches of all devices; here there is one."""
def adamw_update(weight: Any, grad: Any, mean: _Array | float, var: Any, rescale_grad: Any, lr: Any, eta: Any, beta1: Any = 0.9, beta2: Any = 0.999, epsilon: Any = 1e-08, wd: Any = 0, clip_gradient: Any = -1, out: _Array | None = None, name: str | None = None) -> _Array:
    """AdamW (Loshchilov and Hutter, 2017). Nothing changes where ``rescale_grad`` is 0 or not finite."""
def allclose(a: _Array, b: _Array, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = True, *, out: Any = None, name: str | None = None) -> _Array:
    """1 if everywhere |a - b| <= atol + rtol * |b|, else 0: uint8 of shape ()."""
def arange_like(data: _Array, start: float = 0.0, step: float = 1.0, repeat: int = 1, ctx: str = '', axis: int | None = None, *, out: Any = None, name: str | None = None) -> _Array:
    """Values at equal distances, as many as the array (or one axis of it) has elements."""
def bipartite_matching(data: _Array, is_ascend: bool = False, threshold: float = ..., topk: int = -1, *, out: Any = None, name: str | None = None) -> list[_Array]:
    """Match rows and columns of score matrices, best pairs first: the column of each row, the row of each column."""
def boolean_mask(data: _Array, index: _Array, axis: int = 0, *, out: Any = None, name: str | None = None) -> _Array:
    """The rows where ``index`` is not zero. How many there are depends on values, so a program ends here."""
def box_decode(data: _Array, anchors: _Array, std0: float = 1.0, std1: float = 1.0, std2: float = 1.0, std3: float = 1.0, clip: float = -1.0, format: Literal['center', 'corner'] | str = 'center', *, out: Any = None, name: str | None = None) -> _Array:
    """The boxes that predictions relative to anchors mean: the opposite of box_encode."""
def box_encode(samples: _Array, matches: _Array, anchors: _Array, refs: _Array, means: _Array, stds: _Array, *, out: Any = None, name: str | None = None) -> list[_Array]:
    """Where the matched boxes lie relative to anchors, scaled by their extents; and a mask of positive samples."""
def box_iou(lhs: _Array, rhs: _Array, format: Literal['center', 'corner'] | str = 'corner', *, out: Any = None, name: str | None = None) -> _Array:
    """Area of the intersection over area of the union, for every pair of boxes. Its gradient is zero."""
def box_nms(data: _Array, overlap_thresh: float = 0.5, valid_thresh: float = 0.0, topk: int = -1, coord_start: int = 2, score_index: int = 1, id_index: int = -1, background_id: int = -1, force_suppress: bool = False, in_format: Literal['center', 'corner'] | str = 'corner', out_format: Literal['center', 'corner'] | str = 'corner', *, out: Any = None, name: str | None = None) -> _Array:
    """The boxes (rows of the last axis) that overlap with no better one, best first; rows of -1 fill up."""
def box_non_maximum_suppression(data: _Array, overlap_thresh: float = 0.5, valid_thresh: float = 0.0, topk: int = -1, coord_start: int = 2, score_index: int = 1, id_index: int = -1, background_id: int = -1, force_suppress: bool = False, in_format: Literal['center', 'corner'] | str = 'corner', out_format: Literal['center', 'corner'] | str = 'corner', *, out: Any = None, name: str | None = None) -> _Array:
    """The boxes (rows of the last axis) that overlap with no better one, best first; rows of -1 fill up."""
from hybridgpu.ndarray.control_flow import cond as cond
def count_sketch(data: _Array, h: _Array, s: _Array, out_dim: int, processing_batch_size: int = 32, *, out: Any = None, name: str | None = None) -> _Array:
    """Add each column of (N, D), with its sign in ``s``, to the column of (N, out_dim) that ``h`` says."""
def ctc_loss(data: _Array, label: _Array, data_lengths: _Array | None = None, label_lengths: _Array | None = None, use_data_lengths: bool = False, use_label_lengths: bool = False, blank_label: Literal['first', 'last'] | str = 'first', *, out: Any = None, name: str | None = None) -> _Array:
    """-log of the probability that (time, batch, class) scores give to the labels, over all alignments."""
def div_sqrt_dim(data: _Array, *, out: Any = None, name: str | None = None) -> _Array:
    """data / sqrt(extent of the last axis)."""
def fft(data: _Array, compute_size: int = 128, *, out: Any = None, name: str | None = None) -> _Array:
    """The discrete Fourier transform along the last axis: real and imaginary parts alternate, (…, d) -> (…, 2 d)."""
from hybridgpu.ndarray.control_flow import foreach as foreach
def gradientmultiplier(data: _Array, scalar: float = 1.0, is_int: bool = True, *, out: Any = None, name: str | None = None) -> _Array:
    """Identity whose gradient is multiplied by a number."""
def group_adagrad_update(weight: _Array, grad: _Array, history: _Array, lr: float, rescale_grad: float = 1.0, clip_gradient: float = -1.0, epsilon: float = 1e-05, *, out: Any = None, name: str | None = None) -> _Array:
    """AdaGrad with one history a row: the mean square of its gradients."""
def hawkesll(lda: _Array, alpha: _Array, beta: _Array, state: _Array, lags: _Array, marks: _Array, valid_length: _Array, max_time: _Array, *, out: Any = None, name: str | None = None) -> list[_Array]:
    """Log likelihoods (N,) of point processes that excite themselves, and their states (N, K) at the end."""
def ifft(data: _Array, compute_size: int = 128, *, out: Any = None, name: str | None = None) -> _Array:
    """The real part of the inverse of fft, not divided by the number of elements: (…, 2 d) -> (…, d)."""
def index_array(data: _Array, axes: int | Sequence[int] | None = None, *, out: Any = None, name: str | None = None) -> _Array:
    """The index of every element, as a new last axis of int64."""
def index_copy(old_tensor: _Array, index_vector: _Array, new_tensor: _Array, *, out: Any = None, name: str | None = None) -> _Array:
    """The old array with rows replaced by those of the new one."""
def interleaved_matmul_encdec_qk(queries: _Array, keys_values: _Array, heads: int, *, out: Any = None, name: str | None = None) -> _Array:
    """Scores of attention between two sequences: queries, divided by the root of their depth, times keys."""
def interleaved_matmul_encdec_valatt(keys_values: _Array, attention: _Array, heads: int, *, out: Any = None, name: str | None = None) -> _Array:
    """Attention times the values of the other sequence, the heads side by side."""
def interleaved_matmul_selfatt_qk(queries_keys_values: _Array, heads: int, *, out: Any = None, name: str | None = None) -> _Array:
    """Scores of self-attention: queries, divided by the root of their depth, times keys."""
def interleaved_matmul_selfatt_valatt(queries_keys_values: _Array, attention: _Array, heads: int, *, out: Any = None, name: str | None = None) -> _Array:
    """Attention times values, the heads side by side."""
from hybridgpu.ndarray.control_flow import isfinite as isfinite
from hybridgpu.ndarray.control_flow import isinf as isinf
from hybridgpu.ndarray.control_flow import isnan as isnan
def mp_adamw_update(weight: Any, grad: Any, mean: _Array | float, var: Any, weight32: Any, rescale_grad: Any, lr: Any, eta: Any, beta1: Any = 0.9, beta2: Any = 0.999, epsilon: Any = 1e-08, wd: Any = 0, clip_gradient: Any = -1, out: _Array | None = None, name: str | None = None) -> _Array:
    """AdamW on a float copy of the weight."""
from hybridgpu.ndarray.updates import multi_adamw_update as multi_adamw_update
from hybridgpu.ndarray.updates import multi_lamb_update as multi_lamb_update
from hybridgpu.ndarray.updates import multi_mp_adamw_update as multi_mp_adamw_update
from hybridgpu.ndarray.updates import multi_mp_lamb_update as multi_mp_lamb_update
def quadratic(data: _Array, a: float = 0.0, b: float = 0.0, c: float = 0.0, *, out: Any = None, name: str | None = None) -> _Array:
    """a * x**2 + b * x + c."""
def rand_zipfian(true_classes: Any, num_sampled: int, range_max: int, ctx: _Device | None = None) -> tuple[Any, Any, Any]:
    """Draw classes with replacement, small numbers more often: class k with probability log((k + 2) / (k + 1))."""
def round_ste(data: _Array, *, out: Any = None, name: str | None = None) -> _Array:
    """round, with the gradient of identity."""
def sign_ste(data: _Array, *, out: Any = None, name: str | None = None) -> _Array:
    """sign, with the gradient of identity."""
from hybridgpu.ndarray.control_flow import while_loop as while_loop
