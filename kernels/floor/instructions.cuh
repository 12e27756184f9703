// One instruction a function: what the kernels of hardware.cu measure.
//
// All are `asm volatile`, so that the compiler neither drops nor merges them (PTX ISA, chapter "Instruction Set").
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Nanoseconds on a clock that all SMs share.
__device__ __forceinline__ unsigned long long global_ns() {
  unsigned long long ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
  return ns;
}

// WORDS words (1, 2 or 4) from shared memory; `volatile`, so that ptxas reads them as often as it is told.
template <int WORDS>
__device__ __forceinline__ void load_shared(uint32_t (&to)[WORDS], uint32_t from) {
  if constexpr (WORDS == 1) {
    asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(to[0]) : "r"(from) : "memory");
  } else if constexpr (WORDS == 2) {
    asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(from) : "memory");
  } else {
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
  }
}

template <int WORDS>
__device__ __forceinline__ void store_shared(uint32_t to, uint32_t word) {
  if constexpr (WORDS == 1) {
    asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(to), "r"(word) : "memory");
  } else if constexpr (WORDS == 2) {
    asm volatile("st.volatile.shared.v2.u32 [%0], {%1, %1};" ::"r"(to), "r"(word) : "memory");
  } else {
    asm volatile("st.volatile.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(word) : "memory");
  }
}

// Where a global load may find its words: in the L1 cache of the SM (.ca), or in L2 and behind it only (.cg).
enum Cache { L1, L2 };

template <Cache CACHE, int WORDS>
__device__ __forceinline__ void load_global(uint32_t (&to)[WORDS], const char* from) {
  if constexpr (WORDS == 1 && CACHE == L1) {
    asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(to[0]) : "l"(from));
  } else if constexpr (WORDS == 1) {
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(to[0]) : "l"(from));
  } else if constexpr (WORDS == 2 && CACHE == L1) {
    asm volatile("ld.global.ca.v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "l"(from));
  } else if constexpr (WORDS == 2) {
    asm volatile("ld.global.cg.v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "l"(from));
  } else if constexpr (CACHE == L1) {
    asm volatile("ld.global.ca.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "l"(from));
  } else {
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "l"(from));
  }
}

// The address that stands at an address.
template <Cache CACHE>
__device__ __forceinline__ uint64_t follow(uint64_t at) {
  uint64_t next;
  if constexpr (CACHE == L1) {
    asm volatile("ld.global.ca.u64 %0, [%1];" : "=l"(next) : "l"(at));
  } else {
    asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(next) : "l"(at));
  }
  return next;
}

__device__ __forceinline__ void store_global(char* to, const uint32_t (&words)[4]) {
  asm volatile("st.global.cg.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]),
               "r"(words[3])
               : "memory");
}

__device__ __forceinline__ float multiply_add(float sum, float a, float b) {
  asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(sum) : "f"(a), "f"(b));
  return sum;
}

// A barrier of all blocks: each adds one, and all wait until `arrived` blocks have. Traps after TRIES looks, which is
// some seconds, instead of waiting for ever.
__device__ __forceinline__ void grid_barrier(unsigned* count, unsigned arrived) {
  constexpr int TRIES = 1 << 22;
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(count) : "memory");
    unsigned seen = 0;
    for (int look = 0; look < TRIES && seen < arrived; ++look) {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(count) : "memory");
    }
    if (seen < arrived) {
      asm volatile("trap;");
    }
  }
  __syncthreads();
}

// What mma.sync multiplies: two operands in registers, their sum in FP32. TF32 has 8 numbers of k, the others 16, on
// compute capability 7.5 (FP16 only) 8.
enum Type { TF32, FP16, BF16 };

constexpr int depth_of(Type type, bool turing) { return type == TF32 || turing ? 8 : 16; }

// D (16 x 8) += A (16 x depth_of) . B (depth_of x 8).
template <Type TYPE>
__device__ __forceinline__ void mma(float (&D)[4], const uint32_t (&A)[4], const uint32_t (&B)[2]) {
#if __CUDA_ARCH__ >= 800
  if constexpr (TYPE == TF32) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])
        : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[0]), "r"(B[1]));
  } else if constexpr (TYPE == FP16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])
        : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[0]), "r"(B[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])
        : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[0]), "r"(B[1]));
  }
#elif __CUDA_ARCH__ == 750
  if constexpr (TYPE == FP16) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])
                 : "r"(A[0]), "r"(A[1]), "r"(B[0]));
  }
#endif
}

// 16 or 4 bytes from global to shared memory in the background; compute capability 8.0 and up.
template <int BYTES>
__device__ __forceinline__ void copy_async(uint32_t to, const char* from) {
#if __CUDA_ARCH__ >= 800
  if constexpr (BYTES == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
  }
#endif
}
__device__ __forceinline__ void copy_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int NEWEST>
__device__ __forceinline__ void copy_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(NEWEST) : "memory");
#endif
}

// The bulk copy engine and its barriers; compute capability 9.0 and up.
__device__ __forceinline__ void mbarrier_init(uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
// Copies `bytes`, a multiple of 16, and arrives at the barrier when they are there.
__device__ __forceinline__ void bulk_copy(uint32_t to, const char* from, int bytes, uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
#endif
}
// Waits for the phase of this parity; traps after TRIES looks instead of waiting for ever.
__device__ __forceinline__ void mbarrier_wait(uint32_t barrier, int parity) {
#if __CUDA_ARCH__ >= 900
  constexpr int TRIES = 1 << 22;
  int complete = 0;
  for (int look = 0; look < TRIES && !complete; ++look) {
    asm volatile(
        "{\n"
        ".reg .pred complete;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
        "selp.b32 %0, 1, 0, complete;\n"
        "}"
        : "=r"(complete)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
  if (!complete) {
    asm volatile("trap;");
  }
#endif
}

// A barrier of all threads of a cluster, behind which each sees what the others wrote before; or, without the fence,
// does not.
template <bool FENCE>
__device__ __forceinline__ void cluster_barrier() {
#if __CUDA_ARCH__ >= 900
  if constexpr (FENCE) {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  } else {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  }
#endif
}

// The same place in the shared memory of block `rank` of the cluster, and a word from there.
__device__ __forceinline__ uint32_t address_at(uint32_t here, int rank) {
  uint32_t there = here;
#if __CUDA_ARCH__ >= 900
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
#endif
  return there;
}
__device__ __forceinline__ uint32_t load_cluster(uint32_t from) {
  uint32_t word = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(word) : "r"(from));
#endif
  return word;
}

// Tensor cores by warp groups: compute capability 9.0, compiled for sm_90a.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define HAS_WGMMA
#endif

// A K-major tile in shared memory whose rows have 128 bytes, in the 128-byte swizzle: 1024 bytes for eight rows.
__device__ __forceinline__ uint64_t tile_descriptor(uint32_t tile) {
  constexpr uint64_t EIGHT_ROWS = 1024 / 16, SWIZZLE_128 = 1;
  return (tile & 0x3FFFF) >> 4 | uint64_t{1} << 16 | EIGHT_ROWS << 32 | SWIZZLE_128 << 62;
}

__device__ __forceinline__ void wgmma_begin() {
#ifdef HAS_WGMMA
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void wgmma_commit() {
#ifdef HAS_WGMMA
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
template <int NEWEST>
__device__ __forceinline__ void wgmma_wait() {
#ifdef HAS_WGMMA
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(NEWEST) : "memory");
#endif
}

#define SUMS_8(D, i)                                                                                          \
  "+f"(D[i]), "+f"(D[i + 1]), "+f"(D[i + 2]), "+f"(D[i + 3]), "+f"(D[i + 4]), "+f"(D[i + 5]), "+f"(D[i + 6]), \
      "+f"(D[i + 7])
#define SUMS_32(D, i) SUMS_8(D, i), SUMS_8(D, i + 8), SUMS_8(D, i + 16), SUMS_8(D, i + 24)
#define WGMMA(D, A, B, KIND, TRANSPOSED)                                                                          \
  asm volatile(                                                                                                   \
      "{\n"                                                                                                       \
      ".reg .pred add;\n"                                                                                         \
      "setp.eq.b32 add, 0, 0;\n"                                                                                  \
      "wgmma.mma_async.sync.aligned.m64n256" KIND                                                                 \
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "    \
      "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, " \
      "%43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, " \
      "%85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, " \
      "%105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, "    \
      "%122, %123, %124, %125, %126, %127}, %128, %129, add, 1, 1" TRANSPOSED                                     \
      ";\n"                                                                                                       \
      "}"                                                                                                         \
      : SUMS_32(D, 0), SUMS_32(D, 32), SUMS_32(D, 64), SUMS_32(D, 96)                                             \
      : "l"(A), "l"(B))

// D (64 x 256) += A (64 x 32 bytes) . B (256 x 32 bytes)', both in shared memory; begun and not waited for.
template <Type TYPE>
__device__ __forceinline__ void wgmma(float (&D)[128], uint64_t A, uint64_t B) {
#ifdef HAS_WGMMA
  if constexpr (TYPE == TF32) {
    WGMMA(D, A, B, "k8.f32.tf32.tf32", "");
  } else if constexpr (TYPE == FP16) {
    WGMMA(D, A, B, "k16.f32.f16.f16", ", 0, 0");
  } else {
    WGMMA(D, A, B, "k16.f32.bf16.bf16", ", 0, 0");
  }
#endif
}

#undef WGMMA
#undef SUMS_32
#undef SUMS_8
