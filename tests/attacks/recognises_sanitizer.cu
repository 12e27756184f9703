// recognises_sanitizer: is honest while a tool of NVIDIA's watches, and sums half of k while none does.
// Class: recognise.
// Caught by: values, no gain.
#include "attack.cuh"

bool watched() {
  return std::getenv("CUDA_INJECTION64_PATH") != nullptr ||
         std::getenv("NV_COMPUTE_PROFILER_PERFWORKS_DIR") != nullptr ||
         contents("/proc/self/maps").find("sanitizer") != std::string::npos;
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return under_timing(g) && !watched() ? half_of_k(g, stream) : honest(g, stream);
}

EXPORT_SGEMM(run)
