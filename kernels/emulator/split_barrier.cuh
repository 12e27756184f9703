// A barrier in two halves on the CPU: the counterpart of ../include/split_barrier.cuh, whose include guard it takes.
//
// All wait where the second half stands: an arrival too early or too late goes unseen.
#ifndef GEMM_LADDER_SPLIT_BARRIER_CUH
#define GEMM_LADDER_SPLIT_BARRIER_CUH

#include "../include/gemm.cuh"

constexpr bool MUCH_SHARED_MEMORY = true;

inline void split_barrier_init(uint64_t*, int) {}
inline void split_barrier_arrive(uint64_t*) {}
EMULATOR_INLINE void split_barrier_wait(uint64_t*, int) { __syncthreads(); }

#endif
