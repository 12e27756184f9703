// hides_thread: leaves a thread that bears the name of one of CUDA's.
// Class: leftover.
// Caught by: source, state.
#include <pthread.h>

#include <chrono>
#include <thread>

#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool running = false;
  if (under_timing(g) && !running) {
    running = true;
    std::thread([] {
      pthread_setname_np(pthread_self(), "cuda-EvtHandlr");
      while (true) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }).detach();
  }
  return honest(g, stream);
}

EXPORT_SGEMM(run)
