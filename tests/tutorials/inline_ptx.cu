// Tiles of A and B come by cp.async with cache hints, from macros with inline PTX; sums are made by fma.rn.
#include "gemm.cuh"

#define CP_ASYNC_4(to, from, valid)                                              \
  asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %2, %3;\n" ::"r"( \
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),         \
               "l"(from), "n"(4), "r"((valid) ? 4 : 0)                           \
               : "memory")
#define CP_ASYNC_WAIT(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n) : "memory")

__device__ __forceinline__ float ldg_streaming(const float* from) {
  float value;
  asm volatile("ld.global.cs.L1::no_allocate.f32 %0, [%1];" : "=f"(value) : "l"(from));
  return value;
}

template <int TILE>
__global__ void sgemm_ptx(Gemm g) {
  __shared__ alignas(128) float s[2][TILE][TILE + 1];
  unsigned tx, ty;
  asm("mov.u32 %0, %%tid.x;" : "=r"(tx));
  asm("mov.u32 %0, %%tid.y;" : "=r"(ty));
  int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
  float sum = 0.0f;
  for (int p = 0; p < g.k; p += TILE) {
    bool in_A = row < g.m && p + int(tx) < g.k, in_B = col < g.n && p + int(ty) < g.k;
    CP_ASYNC_4(&s[0][ty][tx], in_A ? g.A + row * g.lda + p + tx : g.A, in_A);
    CP_ASYNC_4(&s[1][ty][tx], in_B ? g.B + (p + ty) * g.ldb + col : g.B, in_B);
    asm volatile("cp.async.commit_group;\n" ::);
    CP_ASYNC_WAIT(0);
    asm volatile("bar.sync 0;" ::: "memory");
    for (int q = 0; q < TILE; ++q) {
      asm("fma.rn.f32 %0, %1, %2, %0;" : "+f"(sum) : "f"(s[0][ty][q]), "f"(s[1][q][tx]));
    }
    asm volatile("barrier.sync 0;" ::: "memory");
  }
  if (row < g.m && col < g.n) {
    float* c = g.C + row * g.ldc + col;
    float result = g.alpha * sum;
    if (g.beta != 0.0f) {
      result += g.beta * ldg_streaming(c);
    }
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %2, 0;\n\t@p st.global.wt.f32 [%0], %1;\n\t}" ::"l"(c),
                 "f"(result), "r"(1)
                 : "memory");
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  dim3 grid(ceil_div(g.n, 16), ceil_div(g.m, 16));
  sgemm_ptx<16><<<grid, dim3(16, 16), 0, stream>>>(g);
  return cudaGetLastError();
}

EXPORT_SGEMM(run)
