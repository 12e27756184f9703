// Tensor cores by warp groups of four warps (wgmma, compute capability 9.0: sm_90a) and clusters of blocks.
//
// Each function on the device is one PTX instruction or two (PTX ISA, "wgmma.mma_async", "Asynchronous warpgroup level
// matrix shared memory layout", "mapa", "barrier.cluster", "cp.async.bulk.tensor").
#pragma once

#include <cuda_fp16.h>

#include "bulk_copy.cuh"

// Names a K-major tile in shared memory to the tensor core: rows of 128 bytes, brought there by the copy engine with
// its 128-byte swizzle, 1024 bytes for eight of them. 32 bytes further along the rows are 2 more in the descriptor.
__device__ inline uint64_t tile_descriptor(const void* tile) {
  constexpr uint64_t EIGHT_ROWS = 1024 / 16, SWIZZLE_128 = 1;
  return (shared_address(tile) & 0x3FFFF) >> 4 | uint64_t{1} << 16 | EIGHT_ROWS << 32 | SWIZZLE_128 << 62;
}

// What was written to the sums' registers and to shared memory before is seen by the wgmma that follow.
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// Those issued so far are a group.
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most the newest NEWEST groups are still computing.
template <int NEWEST>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(NEWEST) : "memory");
}
// Keeps the compiler from moving accesses to the sums across.
template <int COUNT>
__device__ inline void hold(float (&D)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    asm volatile("" : "+f"(D[i])::"memory");
  }
}

#define GEMM_LADDER_ROWS8(D, i)                                                                               \
  "+f"(D[i]), "+f"(D[i + 1]), "+f"(D[i + 2]), "+f"(D[i + 3]), "+f"(D[i + 4]), "+f"(D[i + 5]), "+f"(D[i + 6]), \
      "+f"(D[i + 7])

// D (64 x 128) = A (64 x 32 bytes) . B (128 x 32 bytes)' + (add ? D : 0), begun and not waited for. Thread t of the
// group has row t / 32 * 16 + t % 32 / 4 + 8 (i / 2 % 2) and column i / 4 * 8 + t % 4 * 2 + i % 2 of D in D[i].
__device__ inline void wgmma_f16(float (&D)[64], uint64_t A, uint64_t B, int add) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0, %1, %2, %3, "
      "%4, %5, %6, %7, %8, %9, %10, %11, %12, "
      "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, "
      "%27, %28, %29, %30, %31, %32, %33, %34, "
      "%35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, "
      "%49, %50, %51, %52, %53, %54, %55, %56, "
      "%57, %58, %59, %60, %61, %62, %63}, %64, %65, add, 1, 1, 0, 0;\n"
      "}\n"
      : GEMM_LADDER_ROWS8(D, 0), GEMM_LADDER_ROWS8(D, 8), GEMM_LADDER_ROWS8(D, 16), GEMM_LADDER_ROWS8(D, 24),
        GEMM_LADDER_ROWS8(D, 32), GEMM_LADDER_ROWS8(D, 40), GEMM_LADDER_ROWS8(D, 48), GEMM_LADDER_ROWS8(D, 56)
      : "l"(A), "l"(B), "r"(add));
}
__device__ inline void wgmma_tf32(float (&D)[64], uint64_t A, uint64_t B, int add) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {%0, %1, "
      "%2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
      "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, "
      "%25, %26, %27, %28, %29, %30, %31, %32, %33, %34, "
      "%35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "
      "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, "
      "%57, %58, %59, %60, %61, %62, %63}, %64, %65, add, 1, 1;\n"
      "}\n"
      : GEMM_LADDER_ROWS8(D, 0), GEMM_LADDER_ROWS8(D, 8), GEMM_LADDER_ROWS8(D, 16), GEMM_LADDER_ROWS8(D, 24),
        GEMM_LADDER_ROWS8(D, 32), GEMM_LADDER_ROWS8(D, 40), GEMM_LADDER_ROWS8(D, 48), GEMM_LADDER_ROWS8(D, 56)
      : "l"(A), "l"(B), "r"(add));
}

// D (64 x 256) = A (64 x 8) . B (256 x 8)' + (add ? D : 0) with A in registers, one of its four rows and columns as
// mma_tf32 has them for 16 rows, each warp of the group its own: no such register may change until the products are
// complete.
__device__ inline void wgmma_tf32_wide(float (&D)[128], const uint32_t (&A)[4], uint64_t B, int add) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %133, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32 {%0, %1, %2, %3, "
      "%4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, "
      "%33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "
      "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, "
      "%61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, "
      "%75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, "
      "%89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, "
      "%102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, "
      "%114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, "
      "%126, %127}, {%128, %129, %130, %131}, %132, add, 1, 1;\n"
      "}\n"
      : GEMM_LADDER_ROWS8(D, 0), GEMM_LADDER_ROWS8(D, 8), GEMM_LADDER_ROWS8(D, 16), GEMM_LADDER_ROWS8(D, 24),
        GEMM_LADDER_ROWS8(D, 32), GEMM_LADDER_ROWS8(D, 40), GEMM_LADDER_ROWS8(D, 48), GEMM_LADDER_ROWS8(D, 56),
        GEMM_LADDER_ROWS8(D, 64), GEMM_LADDER_ROWS8(D, 72), GEMM_LADDER_ROWS8(D, 80), GEMM_LADDER_ROWS8(D, 88),
        GEMM_LADDER_ROWS8(D, 96), GEMM_LADDER_ROWS8(D, 104), GEMM_LADDER_ROWS8(D, 112), GEMM_LADDER_ROWS8(D, 120)
      : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "l"(B), "r"(add));
}

#undef GEMM_LADDER_ROWS8

// Which block of its cluster this is.
__device__ inline int cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}

// A barrier for all threads of a cluster.
__device__ inline void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// Arrives at the barrier that stands at the same place in block `rank` of the cluster.
__device__ inline void mbarrier_arrive_at(uint64_t* barrier, int rank) {
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
}

// bulk_copy_box to the same place in all blocks of the cluster that the mask names, with the bytes arriving on the
// barrier of each.
__device__ inline void bulk_copy_box_to(uint16_t blocks, void* to, const CUtensorMap* map, int row, int col,
                                        uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::"
      "complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%2, %3}], [%4], %5;" ::"r"(shared_address(to)),
      "l"(map), "r"(col), "r"(row), "r"(shared_address(barrier)), "h"(blocks)
      : "memory");
}
