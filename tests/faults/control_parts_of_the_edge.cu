// control_parts_of_the_edge: no fault. Parts of a sum are read by vectors, of which those at an edge were not all written.
//
// What was not written comes to columns beyond C, which are not stored.
#include "gemm.cuh"

constexpr int TILE = 16, PARTS = 4, PART = TILE * TILE;

__global__ void __launch_bounds__(PART) part_kernel(Gemm g, float* parts) {
  unsigned number = blockIdx.x / PARTS, part = blockIdx.x % PARTS;
  Tile tile = tile_number(g, number, TILE, TILE, 8);
  int row = tile.row + threadIdx.x / TILE, col = tile.col + threadIdx.x % TILE;
  if (row < g.m && col < g.n) {
    float sum = 0.0f;
    for (int p = static_cast<int>(part); p < g.k; p += PARTS) {
      sum += g.A[row * g.lda + p] * g.B[p * g.ldb + col];
    }
    parts[static_cast<int64_t>(blockIdx.x) * PART + threadIdx.x] = sum;
  }
}

__global__ void __launch_bounds__(PART / 4) add_kernel(Gemm g, const float* parts) {
  Tile tile = tile_number(g, blockIdx.x, TILE, TILE, 8);
  int row = tile.row + threadIdx.x / (TILE / 4), col = tile.col + threadIdx.x % (TILE / 4) * 4;
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  for (int part = 0; part < PARTS; ++part) {
    int64_t place = (static_cast<int64_t>(blockIdx.x) * PARTS + part) * PART + threadIdx.x * 4;
    float4 more = *reinterpret_cast<const float4*>(parts + place);
    sum = make_float4(sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w);
  }
  const float sums[] = {sum.x, sum.y, sum.z, sum.w};
  for (int v = 0; v < 4; ++v) {
    if (row < g.m && col + v < g.n) {
      store_result(g, row, col + v, sums[v]);
    }
  }
}

size_t parts_bytes(const Gemm& g) { return tile_grid(g, TILE, TILE).x * size_t{PARTS * PART} * sizeof(float); }

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  float* parts = static_cast<float*>(workspace);
  dim3 tiles = tile_grid(g, TILE, TILE);
  cudaError_t error = launch(part_kernel, dim3(tiles.x * PARTS), dim3(PART), 0, stream, g, parts);
  if (error != cudaSuccess) {
    return error;
  }
  return launch(add_kernel, tiles, dim3(PART / 4), 0, stream, g, parts);
}

EXPORT_SGEMM_WITH_WORKSPACE(run, parts_bytes)
