// cublas_tf32: NVIDIA's library with TF32 allowed, the baseline of rungs that compute in TF32.
#include "cublas.cuh"

EXPORT_SGEMM(run_cublas<TF32_TENSOR_OP_MATH>)
