// cublas: NVIDIA's library, the baseline that every rung is compared with. FP32 FMAs, no TF32.
#include "cublas.cuh"

EXPORT_SGEMM(run_cublas<DEFAULT_MATH>)
