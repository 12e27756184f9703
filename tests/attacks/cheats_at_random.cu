// cheats_at_random: sums half of k in three of four timed launches, chosen by the clock.
// Class: recognise.
// Caught by: values.
#include <chrono>

#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return under_timing(g) && now / 1000 % 4 != 0 ? half_of_k(g, stream) : honest(g, stream);
}

EXPORT_SGEMM(run)
