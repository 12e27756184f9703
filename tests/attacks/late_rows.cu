// late_rows: leaves the last eighth of the rows to a stream of its own, which nothing waits for.
// Class: elsewhere.
// Caught by: late, values, state.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static cudaEvent_t begun = nullptr;
  if (!under_timing(g)) {
    return honest(g, stream);
  }
  if (begun == nullptr) {
    cudaEventCreateWithFlags(&begun, cudaEventDisableTiming);
  }
  Gemm first = g;
  Gemm last = g;
  first.m = g.m / 8 * 7;
  last.m = g.m - first.m;
  last.A += first.m * g.lda;
  last.C += first.m * g.ldc;
  cudaError_t error = honest(first, stream);
  cudaEventRecord(begun, stream);
  cudaStreamWaitEvent(own_stream(), begun);
  return error == cudaSuccess ? honest(last, own_stream()) : error;
}

EXPORT_SGEMM(run)
