// wgmma of TF32 numbers whose left operand comes from registers: wgmma_tf32_wide of wgmma.cuh for 128 and 64 rows of B.
#pragma once

#include "thin_sums.cuh"
#include "wgmma.cuh"

#define GEMM_LADDER_ROWS8(D, i)                                                                               \
  "+f"(D[i]), "+f"(D[i + 1]), "+f"(D[i + 2]), "+f"(D[i + 3]), "+f"(D[i + 4]), "+f"(D[i + 5]), "+f"(D[i + 6]), \
      "+f"(D[i + 7])

__device__ inline void wgmma_tf32_wide(float (&D)[64], const uint32_t (&A)[4], uint64_t B, int add) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, "
      "%15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "
      "%28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, "
      "%41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, "
      "%54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, {%64, %65, %66, %67}, %68, add, 1, 1;\n"
      "}\n"
      : GEMM_LADDER_ROWS8(D, 0), GEMM_LADDER_ROWS8(D, 8), GEMM_LADDER_ROWS8(D, 16), GEMM_LADDER_ROWS8(D, 24),
        GEMM_LADDER_ROWS8(D, 32), GEMM_LADDER_ROWS8(D, 40), GEMM_LADDER_ROWS8(D, 48), GEMM_LADDER_ROWS8(D, 56)
      : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "l"(B), "r"(add));
}
__device__ inline void wgmma_tf32_wide(float (&D)[32], const uint32_t (&A)[4], uint64_t B, int add) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, "
      "%15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "
      "%28, %29, %30, %31}, {%32, %33, %34, %35}, %36, add, 1, 1;\n"
      "}\n"
      : GEMM_LADDER_ROWS8(D, 0), GEMM_LADDER_ROWS8(D, 8), GEMM_LADDER_ROWS8(D, 16), GEMM_LADDER_ROWS8(D, 24)
      : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "l"(B), "r"(add));
}

#undef GEMM_LADDER_ROWS8

// What stands in the shared memory of the cluster's block `rank` at the place of `own` in this one: four neighbouring
// floats, aligned to 16 bytes, or one.
__device__ inline void read_in_cluster(float (&four)[4], const float* own, int rank) {
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %4, %5;\n"
      "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n"
      "}"
      : "=f"(four[0]), "=f"(four[1]), "=f"(four[2]), "=f"(four[3])
      : "r"(shared_address(own)), "r"(rank)
      : "memory");
}
__device__ inline void read_in_cluster(float (&one)[1], const float* own, int rank) {
  one[0] = read_in_cluster(own, rank);
}
