// The asynchronous copies of CUDA's <cuda_pipeline.h>, as far as a thread's own pipeline goes.
#pragma once

#include "cuda_runtime.h"

EMULATOR_INLINE void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0) {
  emulator::issue_copy(to, from, bytes, zeros);
}
EMULATOR_INLINE void __pipeline_commit() { emulator::commit_copies(); }
EMULATOR_INLINE void __pipeline_wait_prior(size_t newest) { emulator::wait_for_copies(static_cast<unsigned>(newest)); }
