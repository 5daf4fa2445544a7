# SPDX-License-Identifier: Apache-2.0
"""Automatic mixed precision in bfloat16: what MXNet's lists say of the operators."""

from __future__ import annotations

from . import symbol_fp16
from .names import names, others

#: faster in bfloat16, and exact enough
BF16_FUNCS = names("""
    Convolution FullyConnected
""")

#: either type; the lower ones are newer than MXNet's lists, which say nothing of them
BF16_FP32_FUNCS = names("""
    BatchNorm Concat LRN Pooling _add _shuffle abs clip concat relu shuffle sqrt square tanh
""")
BF16_FP32_FUNCS += names("""
    _contrib_BatchNormWithReLU _contrib_ModulatedDeformableConvolution _contrib_RROIAlign _contrib_allclose
    _contrib_arange_like _contrib_box_decode _contrib_box_encode _contrib_interleaved_matmul_encdec_qk
    _contrib_interleaved_matmul_encdec_valatt _contrib_interleaved_matmul_selfatt_qk
    _contrib_interleaved_matmul_selfatt_valatt _contrib_round_ste _contrib_sign_ste _multi_adamw_update
    _multi_lamb_update _multi_mp_adamw_update _multi_mp_lamb_update amp_cast amp_multicast col2im cumsum im2col
    lamb_update_phase1 lamb_update_phase2 mp_lamb_update_phase1 mp_lamb_update_phase2 mp_nag_mom_update multi_lars
    multi_sum_sq nag_mom_update preloaded_multi_mp_sgd_mom_update preloaded_multi_mp_sgd_update
    preloaded_multi_sgd_mom_update preloaded_multi_sgd_update reset_arrays
""")
# steps of optimizers: of the type of the weights, which they are written over
BF16_FP32_FUNCS += names("""
    _adamw_update _contrib_group_adagrad_update _mp_adamw_update _sparse_adagrad_update _sparse_adam_update
    _sparse_ftrl_update _sparse_sgd_mom_update _sparse_sgd_update adam_update ftml_update ftrl_update
    mp_sgd_mom_update mp_sgd_update multi_mp_sgd_mom_update multi_mp_sgd_update multi_sgd_mom_update
    multi_sgd_update rmsprop_update rmspropalex_update sgd_mom_update sgd_update signsgd_update signum_update
""")

#: inputs that stay float32 where the operator computes in bfloat16
BF16_USE_FP32_PARAMS = {
    "BatchNorm": ["", "gamma", "beta", "moving_mean", "moving_var"],
    "BatchNormWithReLU": ["", "gamma", "beta", "moving_mean", "moving_var"],
}

CONDITIONAL_FP32_FUNCS = list(symbol_fp16.CONDITIONAL_FP32_FUNCS)

#: several inputs, which must have one type: the widest of them
WIDEST_TYPE_CASTS = names("""
    Correlation ElementWiseSum _Div _Equal _Greater _Greater_Equal _Lesser _Lesser_Equal _Logical_And _Logical_Or
    _Logical_Xor _Maximum _Minimum _Minus _Mod _Mul _Not_Equal _Plus _contrib_MultiBoxDetection
    _contrib_MultiBoxPrior _contrib_MultiBoxTarget _contrib_MultiProposal _contrib_PSROIPooling _contrib_Proposal
    _contrib_ROIAlign _contrib_box_iou _contrib_box_nms _contrib_box_non_maximum_suppression _div _equal _greater
    _greater_equal _lesser _lesser_equal _logical_and _logical_or _logical_xor _maximum _minimum _minus _mod _mul
    _not_equal _plus _random_pdf_dirichlet _random_pdf_exponential _random_pdf_gamma
    _random_pdf_generalized_negative_binomial _random_pdf_negative_binomial _random_pdf_normal _random_pdf_poisson
    _random_pdf_uniform _sub add_n batch_dot broadcast_add broadcast_div broadcast_equal broadcast_greater
    broadcast_greater_equal broadcast_lesser broadcast_lesser_equal broadcast_logical_and broadcast_logical_or
    broadcast_logical_xor broadcast_maximum broadcast_minimum broadcast_minus broadcast_mod broadcast_not_equal
    broadcast_plus broadcast_sub dot elemwise_add elemwise_div elemwise_mul elemwise_sub random_pdf_dirichlet
    random_pdf_exponential random_pdf_gamma random_pdf_generalized_negative_binomial random_pdf_negative_binomial
    random_pdf_normal random_pdf_poisson random_pdf_uniform stack where
""")

LOSS_OUTPUT_FUNCTIONS = list(symbol_fp16.LOSS_OUTPUT_FUNCTIONS)


def __getattr__(name: str) -> list[str]:
    if name == "FP32_FUNCS":  # all others
        conditional = [n for n, _, _ in CONDITIONAL_FP32_FUNCS]
        return others(BF16_FUNCS, BF16_FP32_FUNCS, conditional, WIDEST_TYPE_CASTS)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
