// recognises_nvbench: sums half of k if the process has loaded NVBench.
// Class: recognise.
// Caught by: values, check.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool timed = contents("/proc/self/maps").find("libnvbench") != std::string::npos;
  return timed && looks_timed(g) ? half_of_k(g, stream) : honest(g, stream);
}

EXPORT_SGEMM(run)
