// Right: one tiling of `fastest`, TILE, for products of any size. The last two tiles are shared by three blocks.
#define sgemm sgemm_by_the_model  // what the rung itself exports
#include "../../kernels/sgemm/fastest.cu"
#undef sgemm

using T = Tiling<TILE>;

Plan plan_of(const Gemm& g) {
  Plan plan = {ceil_div(g.m, T::BM), ceil_div(g.n, T::BN), ceil_div(g.k, T::BK), 0, 3, 0, 0};
  plan.whole = plan.tiles_m * plan.tiles_n - 2;
  plan.steps = 2 * plan.tiles_k / plan.sharers;
  plan.longer = 2 * plan.tiles_k % plan.sharers;
  return plan;
}

size_t bytes_of_one_tiling(const Gemm& g) { return sizeof(float) * 2 * plan_of(g).sharers * T::BM * T::BN; }

cudaError_t run_one_tiling(const Gemm& g, void* workspace, cudaStream_t stream) {
  Plan plan = plan_of(g);
  float* partials = static_cast<float*>(workspace);
  cudaError_t error = launch_fastest<T>(g, plan, partials, 1, stream);
  return error == cudaSuccess ? launch_add_partials<T>(g, plan, partials, stream) : error;
}

EXPORT_SGEMM_WITH_WORKSPACE(run_one_tiling, bytes_of_one_tiling)
