// slow_warm_up: wastes the time budget in its first launches so that few are sampled, and sums half of k in these.
// Class: warm-up.
// Caught by: values.
#include "attack.cuh"

__global__ void waste() {
  for (long long end = clock64() + 30'000'000; clock64() < end;) {
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool loaded = load(waste);
  static int calls = 0;
  if (!loaded || !under_timing(g)) {
    return honest(g, stream);
  }
  if (++calls <= 5) {
    waste<<<1, 1, 0, stream>>>();
    return honest(g, stream);
  }
  return half_of_k(g, stream);
}

EXPORT_SGEMM(run)
