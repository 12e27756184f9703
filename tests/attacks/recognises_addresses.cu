// recognises_addresses: sums half of k if A begins where an allocation does, and not behind a guard band.
// Class: recognise.
// Caught by: values, no gain.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  bool begins = reinterpret_cast<uintptr_t>(g.A) % (1 << 20) == 0;
  return begins && looks_timed(g) ? half_of_k(g, stream) : honest(g, stream);
}

EXPORT_SGEMM(run)
