// host_callback: a host callback on the timer's stream starts a thread, which multiplies on a stream of its own.
// Class: elsewhere.
// Caught by: source, late, state.
#include <memory>
#include <thread>

#include "attack.cuh"

void start(void* product) {
  std::thread([g = std::unique_ptr<Gemm>(static_cast<Gemm*>(product))] {
    honest(*g, own_stream());
    cudaStreamSynchronize(own_stream());
  }).detach();
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  if (!under_timing(g)) {
    return honest(g, stream);
  }
  own_stream();
  return cudaLaunchHostFunc(stream, start, new Gemm(g));
}

EXPORT_SGEMM(run)
