// ffma: as many fused multiply-adds as a product of this shape has, in registers alone: the ceiling over any rung.
//
// It has the contract's function, so it is started and timed the way every rung is, but it reads no matrix and computes
// no product. What a rung does less than this goes to loads, addresses, barriers and waiting. Like the empty kernel it
// is never checked and never compared.
//
// Every warp has CHAINS independent sums, which is more than an FFMA takes cycles, and the SMs are full of warps, so
// that nothing ever waits; one turn of the loop is UNROLL * CHAINS FFMAs to a handful of other instructions.
#include "gemm.cuh"

constexpr int THREADS = 256;
constexpr int BLOCKS_PER_SM = 4;
constexpr int CHAINS = 16;
constexpr int UNROLL = 16;

__global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) ffma(Gemm g, int turns, float factor, float addend) {
  float sum[CHAINS];
#pragma unroll
  for (int i = 0; i < CHAINS; ++i) {
    sum[i] = static_cast<float>(threadIdx.x + i);
  }
#pragma unroll 1
  for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
      for (int i = 0; i < CHAINS; ++i) {
        sum[i] = fmaf(sum[i], factor, addend);
      }
    }
  }
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < CHAINS; ++i) {
    total += sum[i];
  }
  if (total == -1.0f) {  // never, as all sums are positive; but the compiler has to keep them
    *g.C = total;
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  int sms = 0;
  cudaError_t error = sm_count(&sms);
  if (error != cudaSuccess) {
    return error;
  }
  int64_t in_a_turn = static_cast<int64_t>(sms) * BLOCKS_PER_SM * THREADS * CHAINS * UNROLL;
  int64_t needed = static_cast<int64_t>(g.m) * g.n * g.k;
  int turns = static_cast<int>((needed + in_a_turn - 1) / in_a_turn);
  return launch(ffma, dim3(sms * BLOCKS_PER_SM), dim3(THREADS), 0, stream, g, turns, 0.75f, 1.0f);
}

EXPORT_SGEMM(run)
