// leaves_signal_handler: takes the signal SIGALRM, and has it sent every second.
// Class: leftover.
// Caught by: state.
#include <signal.h>
#include <sys/time.h>

#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  if (under_timing(g)) {
    signal(SIGALRM, [](int) {});
    itimerval each_second = {{1, 0}, {1, 0}};
    setitimer(ITIMER_REAL, &each_second, nullptr);
  }
  return honest(g, stream);
}

EXPORT_SGEMM(run)
