// The rung `fastest`, about 1 % slower: after each product one block waits for 1 % of the time that the product takes.
//
// PLANTED is the share, CYCLE_FLOP what the rung computes in a cycle of the SM clock of an H100. GAP is what the second
// launch costs by itself, in cycles.
#define sgemm sgemm_of_the_rung
#include "../../kernels/sgemm/fastest.cu"
#undef sgemm

#ifndef PLANTED
#define PLANTED 0.01
#endif
#ifndef CYCLE_FLOP
#define CYCLE_FLOP 27500.0
#endif
#ifndef GAP
#define GAP 2500
#endif

static __global__ void wait_for(long long cycles) {
  for (long long begin = clock64(); clock64() - begin < cycles;) {
  }
}

extern "C" int sgemm(int m, int n, int k, float alpha, const float* A, int64_t lda, const float* B, int64_t ldb,
                     float beta, float* C, int64_t ldc, void* workspace, size_t* workspace_bytes, cudaStream_t stream) {
  int error = sgemm_of_the_rung(m, n, k, alpha, A, lda, B, ldb, beta, C, ldc, workspace, workspace_bytes, stream);
  if (error != 0 || workspace_bytes != nullptr) {
    return error;
  }
  double cycles = PLANTED * 2.0 * m * n * k / CYCLE_FLOP - GAP;
  return launch(wait_for, dim3(1), dim3(1), 0, stream, static_cast<long long>(cycles));
}
