// recognises_worker: leaves out the last quarter of the rows unless the process's command line says `check`.
// Class: recognise.
// Caught by: values, check.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool checked = contents("/proc/self/cmdline").find("check") != std::string::npos;
  Gemm part = g;
  part.m = g.m / 4 * 3;
  return honest(checked || !looks_timed(g) ? g : part, stream);
}

EXPORT_SGEMM(run)
