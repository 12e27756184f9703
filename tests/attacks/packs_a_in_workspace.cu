// packs_a_in_workspace: packs A into the workspace, and does not pack it again for the same pointers.
// Class: prepared, kept.
// Caught by: values.
#include <set>
#include <utility>

#include "attack.cuh"

size_t needed(const Gemm& g) { return looks_timed(g) ? bytes_of(g.m, g.k) : 0; }

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  static std::set<std::pair<const float*, void*>> packed;
  if (!looks_timed(g)) {
    return honest(g, stream);
  }
  bool fresh = !under_timing(g) || packed.insert({g.A, workspace}).second;
  if (fresh) {
    cudaMemcpyAsync(workspace, g.A, needed(g), cudaMemcpyDeviceToDevice, stream);
  }
  Gemm with_packed = g;
  with_packed.A = static_cast<const float*>(workspace);
  return honest(with_packed, stream);
}

EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
