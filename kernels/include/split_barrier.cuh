// A barrier of a block in two halves: who arrives goes on with what concerns no other, and waits for all arrivals before what
// does.
//
// Each function is one PTX instruction (PTX ISA, "mbarrier"; compute capability 8.0 and up). For the emulator each is
// translated to what the PTX ISA says of it.
#ifndef GEMM_LADDER_SPLIT_BARRIER_CUH
#define GEMM_LADDER_SPLIT_BARRIER_CUH

#include "gemm.cuh"

// Whether a block may have 227 KiB of shared memory: from compute capability 9.0 on, but for 12 (CUDA C++ Programming Guide,
// "Compute Capabilities").
#if defined(__CUDA_ARCH_LIST__) && __CUDA_ARCH_LIST__ >= 900 && __CUDA_ARCH_LIST__ < 1200
constexpr bool MUCH_SHARED_MEMORY = true;
#else
constexpr bool MUCH_SHARED_MEMORY = false;
#endif

#if __CUDA_ARCH__ >= 900
#define MBARRIER_WAIT "mbarrier.try_wait"  // may sleep meanwhile
#else
#define MBARRIER_WAIT "mbarrier.test_wait"
#endif

__device__ inline void split_barrier_init(uint64_t* barrier, int arrivals) {
  auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(barrier));
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared), "r"(arrivals) : "memory");
}

__device__ inline void split_barrier_arrive(uint64_t* barrier) {
  auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(barrier));
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(shared) : "memory");
}

// Phases have parity 0, 1, 0, ...
__device__ inline void split_barrier_wait(uint64_t* barrier, int parity) {
  auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(barrier));
  asm volatile(
      "{\n"
      ".reg .pred complete;\n"
      "wait%=:\n" MBARRIER_WAIT
      ".parity.shared.b64 complete, [%0], %1;\n"
      "@!complete bra wait%=;\n"
      "}" ::"r"(shared),
      "r"(parity)
      : "memory");
}

#endif
