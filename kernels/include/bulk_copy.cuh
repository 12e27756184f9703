// The bulk copy engine of compute capability 9.0 and up ("TMA") and the barriers in shared memory that it reports to.
//
// One thread asks for a whole box of a matrix; the engine computes the addresses, copies in the background, fills what
// lies outside the matrix with zeros, and counts the bytes that have arrived on an mbarrier. Each function on the device
// is one PTX instruction (PTX ISA, "mbarrier" and "cp.async.bulk.tensor").
//
// The emulator has no such engine. There make_tensor_map refuses, and a rung takes the path without the engine that it
// needs anyway for matrices that the engine cannot read.
#pragma once

#include "gemm.cuh"

#ifdef __CUDACC__

#include <cuda.h>

// Describes a row-major matrix to the engine, which will copy boxes of box_rows x box_cols elements, floats or halves.
// Inside a box the 16-byte chunks of a row are permuted by the swizzle. With `tf32` floats arrive rounded to TF32. False
// where the engine cannot: it wants the matrix aligned to 16 bytes, and a leading dimension of whole 16 bytes. Where
// launches are observed there may be no driver to ask; the map, which nothing will read, then stays empty.
template <typename T>
bool make_tensor_map(CUtensorMap* map, const T* matrix, int rows, int cols, int64_t ld, int box_rows, int box_cols,
                     CUtensorMapSwizzle swizzle, bool tf32 = false) {
  CUtensorMapDataType type = sizeof(T) == 2 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                             : tf32         ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
                                            : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  // The encoder is the driver's; asking the runtime for it saves linking with libcuda.
  using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                              const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                              CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  if (reinterpret_cast<uintptr_t>(matrix) % 16 != 0 || ld * sizeof(T) % 16 != 0) {
    return false;
  }
  if (launch_observer != nullptr) {
    return true;
  }
  void* encode = nullptr;
  cudaDriverEntryPointQueryResult found;
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found) !=
          cudaSuccess ||
      found != cudaDriverEntryPointSuccess) {
    return false;
  }
  cuuint64_t size[] = {static_cast<cuuint64_t>(cols), static_cast<cuuint64_t>(rows)};
  cuuint64_t stride_bytes[] = {static_cast<cuuint64_t>(ld) * sizeof(T)};
  cuuint32_t box[] = {static_cast<cuuint32_t>(box_cols), static_cast<cuuint32_t>(box_rows)};
  cuuint32_t step[] = {1, 1};
  return reinterpret_cast<Encode>(encode)(map, type, 2, const_cast<T*>(matrix), size, stride_bytes, box, step,
                                          CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                          CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

__device__ inline uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// A barrier that completes a phase after `arrivals` arrivals and all the bytes that were announced to it.
__device__ inline void mbarrier_init(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Shows the initialised barriers to the copy engine.
__device__ inline void mbarrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ inline void mbarrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrives and announces the bytes of the copies that follow.
__device__ inline void mbarrier_arrive_expect(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

// Arrives once all the cp.async that this thread has started are complete; counts among the barrier's arrivals.
__device__ inline void mbarrier_arrive_copies(uint64_t* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Whether the phase of this parity (0, 1, 0, ...) is complete; may wait a moment for it.
__device__ inline bool mbarrier_test(uint64_t* barrier, int parity) {
  int complete;
  asm volatile(
      "{\n"
      ".reg .pred complete;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
      "selp.b32 %0, 1, 0, complete;\n"
      "}"
      : "=r"(complete)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return complete != 0;
}

// Waits until the phase of this parity is complete.
__device__ inline void mbarrier_wait(uint64_t* barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred complete;\n"
      "wait%=:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 complete, [%0], %1;\n"
      "@!complete bra wait%=;\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// Starts the copy of the box whose first element is matrix[row][col]. Its bytes arrive on the barrier.
__device__ inline void bulk_copy_box(void* to, const CUtensorMap* map, int row, int col, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(shared_address(to)),
      "l"(map), "r"(col), "r"(row), "r"(shared_address(barrier))
      : "memory");
}

// What this thread has read and written in shared memory comes before the engine's copies that are started after it.
__device__ inline void bulk_copy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A barrier of THREADS of the block's threads.
template <int THREADS>
__device__ inline void barrier_of() {
  asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
}

// All threads of a warp group (four warps) keep so many registers, and the SM has the others back; or get so many, once
// they are free. Needs an architecture-specific target (sm_90a, not sm_90); elsewhere all keep what they were given.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM120_ALL)
#define HAS_SETMAXNREG
#endif
template <int REGISTERS>
__device__ inline void give_registers() {
#ifdef HAS_SETMAXNREG
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}
template <int REGISTERS>
__device__ inline void take_registers() {
#ifdef HAS_SETMAXNREG
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}

#else  // the emulator

#include <cstdlib>

enum CUtensorMapSwizzle {
  CU_TENSOR_MAP_SWIZZLE_NONE,
  CU_TENSOR_MAP_SWIZZLE_32B,
  CU_TENSOR_MAP_SWIZZLE_64B,
  CU_TENSOR_MAP_SWIZZLE_128B
};
struct CUtensorMap {};
template <typename T>
bool make_tensor_map(CUtensorMap*, const T*, int, int, int64_t, int, int, CUtensorMapSwizzle, bool = false) {
  return false;
}
inline void mbarrier_init(uint64_t*, int) { abort(); }
inline void mbarrier_init_fence() { abort(); }
inline void mbarrier_arrive(uint64_t*) { abort(); }
inline void mbarrier_arrive_expect(uint64_t*, int) { abort(); }
inline void mbarrier_arrive_copies(uint64_t*) { abort(); }
inline bool mbarrier_test(uint64_t*, int) { abort(); }
inline void mbarrier_wait(uint64_t*, int) { abort(); }
inline void bulk_copy_box(void*, const CUtensorMap*, int, int, uint64_t*) { abort(); }
template <int>
inline void give_registers() {
  abort();
}
template <int>
inline void take_registers() {
  abort();
}

#endif
