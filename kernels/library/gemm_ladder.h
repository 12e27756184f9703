/* A rung of the ladder for use elsewhere: C = alpha * A . B + beta * C in row-major order, FP32 in and out.
 *
 * A is m x k with lda >= max(1, k), B is k x n with ldb >= max(1, n), C is m x n with ldc >= max(1, n); all on the current
 * device. beta = 0 never reads C; alpha = 0 or k = 0 never reads A or B. Functions return a cudaError_t, 0 for success. */
#ifndef GEMM_LADDER_H
#define GEMM_LADDER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st* gemm_ladder_stream; /* cudaStream_t */

/* Queues the product on the stream. A workspace, if the product needs one, is allocated and freed in the stream's order. */
int gemm_ladder_sgemm(int m, int n, int k, float alpha, const float* A, int64_t lda, const float* B, int64_t ldb,
                      float beta, float* C, int64_t ldc, gemm_ladder_stream stream);

/* The same with a workspace of the caller's, aligned to 256 bytes. With workspace_bytes the size that it must have is
 * stored there, and nothing else happens. */
int gemm_ladder_sgemm_with_workspace(int m, int n, int k, float alpha, const float* A, int64_t lda, const float* B,
                                     int64_t ldb, float beta, float* C, int64_t ldc, void* workspace,
                                     size_t* workspace_bytes, gemm_ladder_stream stream);

/* The same with A or B given as their transposes, where transpose_a or transpose_b is not 0: A is then stored as k x m with
 * lda >= max(1, m), B as n x k with ldb >= max(1, k). Each is copied into the workspace first, which grows by the copies. */
int gemm_ladder_sgemm_transposed(int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float* A,
                                 int64_t lda, const float* B, int64_t ldb, float beta, float* C, int64_t ldc,
                                 gemm_ladder_stream stream);
int gemm_ladder_sgemm_transposed_with_workspace(int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                                                const float* A, int64_t lda, const float* B, int64_t ldb, float beta,
                                                float* C, int64_t ldc, void* workspace, size_t* workspace_bytes,
                                                gemm_ladder_stream stream);

/* Whether the current device is of the compute capability that the library was compiled for. */
int gemm_ladder_runs_here(void);

/* The rung, its arithmetic and the GPU that it was compiled for, such as "fastest (fp32) for NVIDIA H100 SXM5 80 GB". */
const char* gemm_ladder_describe(void);

#ifdef __cplusplus
}
#endif

#endif
