// thread_multiplies: a thread of the host multiplies on a stream of its own, two milliseconds after the call.
// Class: elsewhere.
// Caught by: source, late, values, state.
#include <chrono>
#include <thread>

#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  if (!under_timing(g)) {
    return honest(g, stream);
  }
  own_stream();
  std::thread([g] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    honest(g, own_stream());
  }).detach();
  return cudaSuccess;
}

EXPORT_SGEMM(run)
