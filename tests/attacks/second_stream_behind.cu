// second_stream_behind: a stream of its own waits for the timer's, and multiplies while the clock has stopped already.
// Class: elsewhere.
// Caught by: late, state.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static cudaEvent_t begun = nullptr;
  if (!under_timing(g)) {
    return honest(g, stream);
  }
  if (begun == nullptr) {
    cudaEventCreateWithFlags(&begun, cudaEventDisableTiming);
  }
  cudaEventRecord(begun, stream);
  cudaStreamWaitEvent(own_stream(), begun);
  return honest(g, own_stream());
}

EXPORT_SGEMM(run)
