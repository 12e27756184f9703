// Tensor cores by warps, and copies to shared memory for them: mma.sync and cp.async, compute capability 8.0 and up.
//
// Each function on the device is one PTX instruction (PTX ISA, "mma.m16n8k8", "ldmatrix", "cp.async"). For the emulator each
// is translated to what the PTX ISA says of it.
#ifndef GEMM_LADDER_MMA_CUH
#define GEMM_LADDER_MMA_CUH

#include "gemm.cuh"

// Begins to copy `count` floats, 1 or 4 and aligned to as many, from global to shared memory in the background. Where they
// are not `there`, nothing is read, and zeros are stored. CUDA's primitive for it asks for the source size twice.
__device__ inline void copy_or_zeros(float* to, const float* from, int count, bool there) {
  auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  int bytes = there ? 4 * count : 0;
  if (count == 4) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(from), "r"(bytes) : "memory");
  }
}

// 16 rows of 8 floats, as the operand A of mma_tf32. Each lane names four neighbouring floats, aligned to 16 bytes: lanes 0
// to 7 those of rows 0 to 7 in columns 0 to 3, lanes 8 to 15 of rows 8 to 15, the other lanes the same in columns 4 to 7.
__device__ inline void load_mma_A(float (&to)[4], const float* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(from)))
               : "memory");
}

// D (16 x 8) += A (16 x 8) . B (8 x 8) by the 32 lanes of a warp; of A and B the tensor core reads the TF32 bits. With
// g = lane / 4 and q = lane % 4 a lane holds A at rows g, g + 8, g, g + 8 and columns q, q, q + 4, q + 4; B at rows q and
// q + 4 of column g; D at rows g, g, g + 8, g + 8 and columns 2q, 2q + 1, 2q, 2q + 1.
__device__ inline void mma_tf32(float (&D)[4], const uint32_t (&A)[4], const uint32_t (&B)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])
      : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[0]), "r"(B[1]));
}

#endif
