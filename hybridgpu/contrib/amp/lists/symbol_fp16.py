# SPDX-License-Identifier: Apache-2.0
"""Automatic mixed precision in float16: what MXNet's lists say of the operators."""

from __future__ import annotations

from .names import names, others

#: faster in float16, and exact enough
FP16_FUNCS = names("""
    Convolution Deconvolution FullyConnected RNN
""")

#: they may overflow in float16, or lose too much
FP32_FUNCS = names("""
    CTCLoss Convolution_v1 Custom GroupNorm IdentityAttachKLSparseReg InstanceNorm L2Normalization LRN LayerNorm
    LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput MakeLoss SVMOutput Softmax SoftmaxActivation
    SoftmaxOutput _Hypot _HypotScalar _Power _PowerScalar _RDivScalar _RPowerScalar _contrib_CTCLoss
    _contrib_DeformableConvolution _contrib_DeformablePSROIPooling _contrib_MultiBoxDetection _contrib_MultiBoxPrior
    _contrib_MultiBoxTarget _contrib_SyncBatchNorm _contrib_count_sketch _contrib_ctc_loss _contrib_fft
    _contrib_hawkesll _hypot _hypot_scalar _linalg_det _linalg_extractdiag _linalg_extracttrian _linalg_gelqf
    _linalg_gemm _linalg_gemm2 _linalg_inverse _linalg_makediag _linalg_maketrian _linalg_potrf _linalg_potri
    _linalg_slogdet _linalg_sumlogdiag _linalg_syevd _linalg_syrk _linalg_trmm _linalg_trsm _power _power_scalar
    _rdiv_scalar _rpower_scalar arccos arcsin arctanh argsort broadcast_hypot broadcast_power cosh ctc_loss erfinv
    exp expm1 gamma gammaln khatri_rao linalg_det linalg_extractdiag linalg_extracttrian linalg_gelqf linalg_gemm
    linalg_gemm2 linalg_inverse linalg_makediag linalg_maketrian linalg_potrf linalg_potri linalg_slogdet
    linalg_sumlogdiag linalg_syrk linalg_trmm linalg_trsm log log10 log1p log2 log_softmax make_loss mean moments
    nanprod nansum norm prod rcbrt reciprocal rsqrt sinh smooth_l1 softmax softmax_cross_entropy softmin square sum
    sum_axis tan topk
""")

#: (operator, attribute, texts of its value) with which it computes in float32
CONDITIONAL_FP32_FUNCS = [
    ("Activation", "act_type", ["softrelu"]),
    ("LeakyReLU", "act_type", ["elu", "selu"]),
]

#: several inputs, which must have one type: the widest of them
WIDEST_TYPE_CASTS = names("""
    Concat Correlation ElementWiseSum _Div _Equal _Greater _Greater_Equal _Lesser _Lesser_Equal _Logical_And
    _Logical_Or _Logical_Xor _Maximum _Minimum _Minus _Mod _Mul _Not_Equal _Plus _contrib_MultiProposal
    _contrib_PSROIPooling _contrib_Proposal _contrib_ROIAlign _contrib_box_iou _contrib_box_nms
    _contrib_box_non_maximum_suppression _contrib_interleaved_matmul_encdec_qk
    _contrib_interleaved_matmul_encdec_valatt _contrib_interleaved_matmul_selfatt_qk
    _contrib_interleaved_matmul_selfatt_valatt _div _equal _greater _greater_equal _lesser _lesser_equal
    _logical_and _logical_or _logical_xor _maximum _minimum _minus _mod _mul _not_equal _plus _random_pdf_dirichlet
    _random_pdf_exponential _random_pdf_gamma _random_pdf_generalized_negative_binomial
    _random_pdf_negative_binomial _random_pdf_normal _random_pdf_poisson _random_pdf_uniform _sub add_n batch_dot
    broadcast_add broadcast_div broadcast_equal broadcast_greater broadcast_greater_equal broadcast_lesser
    broadcast_lesser_equal broadcast_logical_and broadcast_logical_or broadcast_logical_xor broadcast_maximum
    broadcast_minimum broadcast_minus broadcast_mod broadcast_mul broadcast_not_equal broadcast_plus broadcast_sub
    concat dot elemwise_add elemwise_div elemwise_mul elemwise_sub random_pdf_dirichlet random_pdf_exponential
    random_pdf_gamma random_pdf_generalized_negative_binomial random_pdf_negative_binomial random_pdf_normal
    random_pdf_poisson random_pdf_uniform stack where
""")

#: losses that give a gradient without one of their result, to which the scale of the loss is told as ``grad_scale``
LOSS_OUTPUT_FUNCTIONS = names("""
    LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput SoftmaxOutput
""")


def __getattr__(name: str) -> list[str]:
    if name == "FP16_FP32_FUNCS":  # all others take either type
        conditional = [n for n, _, _ in CONDITIONAL_FP32_FUNCS]
        return others(FP16_FUNCS, FP32_FUNCS, conditional, WIDEST_TYPE_CASTS)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
