// patches_event_time: overwrites the code of the driver's cuEventElapsedTime, which then says 10 microseconds each time.
// Class: timer.
// Caught by: runtime, rate.
#include <sys/mman.h>

#include <cstring>

#include "attack.cuh"

int ten_microseconds(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 0.01f;
  return 0;
}

void patch(unsigned version) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  cudaGetDriverEntryPointByVersion("cuEventElapsedTime", &function, version, cudaEnableDefault, &found);
  uintptr_t page = reinterpret_cast<uintptr_t>(function) & ~uintptr_t{4095};
  if (function == nullptr || mprotect(reinterpret_cast<void*>(page), 8192, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
    return;
  }
  unsigned char jump[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};  // mov rax, address; jmp rax
  void* target = reinterpret_cast<void*>(ten_microseconds);
  std::memcpy(jump + 2, &target, sizeof(target));
  std::memcpy(function, jump, sizeof(jump));
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool patched = false;
  if (under_timing(g) && !patched) {
    patched = true;
    patch(12000);
    patch(12080);
  }
  return honest(g, stream);
}

EXPORT_SGEMM(run)
