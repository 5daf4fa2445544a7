# SPDX-License-Identifier: Apache-2.0
"""What hybridgpu's bindings write by hand of NVIDIA's headers, by the headers' own names."""

from __future__ import annotations

from hybridgpu.backends.cuda import clusters, cublaslt, cudnn, cudnn_conv, graphs, user_graphs

#: what CUDA 13's drivers have for programs of CUDA 12, and its header does not declare any more
_OLDER = ("cuStreamGetCaptureInfo_v2",)
_CUDA = {k: types for k, types in (graphs._FUNCTIONS | user_graphs._FUNCTIONS).items() if k not in _OLDER}
#: header -> functions with the types of their arguments; all return a status of four bytes
FUNCTIONS = {
    "cuda.h": _CUDA | clusters._FUNCTIONS,
    "cublasLt.h": cublaslt._FUNCTIONS,
    "cudnn.h": cudnn._FUNCTIONS,
}

#: structure -> (ours, its fields in ours: in the header)
STRUCTURES = {
    "CUDA_KERNEL_NODE_PARAMS": (graphs.KernelNode, {name: name for name, _ in graphs.KernelNode._fields_}),
    "CUlaunchConfig": (clusters.LaunchConfig, {name: name for name, _ in clusters.LaunchConfig._fields_}),
    "cublasLtMatmulHeuristicResult_t": (
        cublaslt.Heuristic,
        {"algorithm": "algo", "workspace": "workspaceSize", "state": "state", "waves": "wavesCount", "reserved": "reserved"},
    ),
    **{
        f"cudnnConvolution{kind}AlgoPerf_t": (
            cudnn.Performance,
            {"algorithm": "algo", "math": "mathType"} | {k: k for k in ("status", "time", "memory", "determinism", "reserved")},
        )
        for kind in ("Fwd", "BwdData", "BwdFilter")
    },
}  # fmt: skip

#: constant of a header -> our value
VALUES = {
    "CU_LAUNCH_ATTRIBUTE_COOPERATIVE": graphs._COOPERATIVE,
    "CU_STREAM_NON_BLOCKING": graphs._NON_BLOCKING,
    "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL": graphs._OF_THREAD,
    "CU_STREAM_CAPTURE_MODE_RELAXED": user_graphs._RELAXED,
    "CU_USER_OBJECT_NO_DESTRUCTOR_SYNC": user_graphs._UNSYNCHRONIZED,
    "CU_GRAPH_USER_OBJECT_MOVE": user_graphs._MOVE,
    "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED": clusters._ALLOWED,
    "sizeof(CUlaunchAttributeValue)": 64,
    "sizeof(cublasLtMatmulAlgo_t)": 64,
    "CUDA_R_32F": cublaslt.R_32F,
    "CUDA_R_64F": cublaslt.R_64F,
    "CUDA_R_16F": cublaslt.R_16F,
    "CUDA_R_16BF": cublaslt.R_16BF,
    "CUBLAS_COMPUTE_32F": cublaslt.COMPUTE_32F,
    "CUBLAS_COMPUTE_64F": cublaslt.COMPUTE_64F,
    "CUBLAS_COMPUTE_32F_FAST_TF32": cublaslt.COMPUTE_32F_FAST_TF32,
    "CUBLAS_OP_N": cublaslt.OP_N,
    "CUBLAS_OP_T": cublaslt.OP_T,
    "CUBLAS_STATUS_SUCCESS": 0,
    "CUBLAS_STATUS_ARCH_MISMATCH": cublaslt._NOT_SUPPORTED[0],
    "CUBLAS_STATUS_NOT_SUPPORTED": cublaslt._NOT_SUPPORTED[1],
    "CUBLAS_STATUS_ALLOC_FAILED": cublaslt._NO_MEMORY,
    "CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT": cublaslt.BATCH_COUNT,
    "CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET": cublaslt.BATCH_OFFSET,
    "CUBLASLT_MATMUL_DESC_TRANSA": cublaslt.TRANSPOSE_A,
    "CUBLASLT_MATMUL_DESC_TRANSB": cublaslt.TRANSPOSE_B,
    "CUBLASLT_MATMUL_DESC_EPILOGUE": cublaslt.EPILOGUE,
    "CUBLASLT_MATMUL_DESC_BIAS_POINTER": cublaslt.BIAS_POINTER,
    "CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES": cublaslt.MAX_WORKSPACE,
    "CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK": cublaslt.REDUCTIONS,
    **{
        f"CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_{matrix}_BYTES": value
        for matrix, value in zip("ABCD", cublaslt.ALIGNMENTS, strict=True)
    },
    "CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE": cublaslt.REDUCE_IN_COMPUTE_TYPE,
    "CUBLASLT_EPILOGUE_DEFAULT": cublaslt.EPILOGUE_DEFAULT,
    "CUBLASLT_EPILOGUE_RELU": cublaslt.EPILOGUE_RELU,
    "CUBLASLT_EPILOGUE_BIAS": cublaslt.EPILOGUE_BIAS,
    "CUBLASLT_EPILOGUE_RELU_BIAS": cublaslt.EPILOGUE_RELU | cublaslt.EPILOGUE_BIAS,
    "CUDNN_STATUS_SUCCESS": 0,
    "CUDNN_DATA_FLOAT": cudnn.FLOAT,
    "CUDNN_DATA_DOUBLE": cudnn.DOUBLE,
    "CUDNN_DATA_HALF": cudnn.HALF,
    "CUDNN_DATA_BFLOAT16": cudnn.BFLOAT16,
    "CUDNN_DEFAULT_MATH": cudnn.DEFAULT_MATH,
    "CUDNN_TENSOR_OP_MATH": cudnn.TENSOR_OP_MATH,
    "CUDNN_FMA_MATH": cudnn.FMA_MATH,
    "CUDNN_TENSOR_NCHW": cudnn.NCHW,
    "CUDNN_CROSS_CORRELATION": cudnn.CROSS_CORRELATION,
    "CUDNN_DETERMINISTIC": cudnn.DETERMINISTIC,
    "CUDNN_ACTIVATION_RELU": cudnn.RELU,
    "CUDNN_ACTIVATION_IDENTITY": cudnn.IDENTITY,
    "CUDNN_NOT_PROPAGATE_NAN": cudnn.NAN_TO_ZERO,
    "CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM": 0,
    "CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM": cudnn_conv._PRECOMPUTED,
    "CUDNN_CONVOLUTION_FWD_ALGO_GEMM": 2,
    "CUDNN_CONVOLUTION_FWD_ALGO_DIRECT": 3,
    "CUDNN_CONVOLUTION_BWD_DATA_ALGO_1": 1,
    "CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1": 1,
}

#: cuDNN's status for what it cannot compute, which is another number in each of its major versions
UNSUPPORTED = "CUDNN_STATUS_NOT_SUPPORTED"
#: and for no memory of the device, which has another name, too
NO_MEMORY = {8: "CUDNN_STATUS_ALLOC_FAILED", 9: "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"}
VERSIONS = ("CUDA_VERSION", "CUBLAS_VERSION", "CUDNN_VERSION")
