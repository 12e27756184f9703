// control_edges: no fault. Whole tiles have a kernel without guards; the rows below them and the columns beside them have
// another one, which computes one element a thread.
#include "gemm.cuh"

constexpr int TILE = 16;

__global__ void __launch_bounds__(TILE* TILE) multiply_inside(Gemm g) {
  __shared__ float tile_A[TILE][TILE];
  __shared__ float tile_B[TILE][TILE];
  Tile tile = tile_of_block(g, TILE, TILE);
  int y = threadIdx.y, x = threadIdx.x, row = tile.row + y, col = tile.col + x;
  float sum = 0.0f;
  int p0 = 0;
  for (; p0 + TILE <= g.k; p0 += TILE) {
    tile_A[y][x] = g.A[row * g.lda + p0 + x];
    tile_B[y][x] = g.B[(p0 + y) * g.ldb + col];
    __syncthreads();
    for (int p = 0; p < TILE; ++p) {
      sum += tile_A[y][p] * tile_B[p][x];
    }
    __syncthreads();
  }
  for (; p0 < g.k; ++p0) {
    sum += g.A[row * g.lda + p0] * g.B[p0 * g.ldb + col];
  }
  store_result(g, row, col, sum);
}

__global__ void __launch_bounds__(256) multiply_edge(Gemm g) {
  int64_t element = blockIdx.x * int64_t{256} + threadIdx.x;
  if (element >= static_cast<int64_t>(g.m) * g.n) {
    return;
  }
  int row = static_cast<int>(element / g.n), col = static_cast<int>(element % g.n);
  float sum = 0.0f;
  for (int p = 0; p < g.k; ++p) {
    sum += g.A[row * g.lda + p] * g.B[p * g.ldb + col];
  }
  store_result(g, row, col, sum);
}

static cudaError_t start_edge(const Gemm& g, cudaStream_t stream) {
  int64_t elements = static_cast<int64_t>(g.m) * g.n;
  return elements == 0
             ? cudaSuccess
             : launch(multiply_edge, dim3(static_cast<unsigned>((elements + 255) / 256)), dim3(256), 0, stream, g);
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  Gemm inside = g, below = g, beside = g;
  inside.m = g.m / TILE * TILE;
  inside.n = g.n / TILE * TILE;
  below.m = g.m - inside.m;
  below.A += inside.m * g.lda;
  below.C += inside.m * g.ldc;
  beside.m = inside.m;
  beside.n = g.n - inside.n;
  beside.B += inside.n;
  beside.C += inside.n;
  cudaError_t error = cudaSuccess;
  if (inside.m > 0 && inside.n > 0) {
    error = launch(multiply_inside, tile_grid(inside, TILE, TILE), dim3(TILE, TILE), 0, stream, inside);
  }
  if (error == cudaSuccess) {
    error = start_edge(below, stream);
  }
  return error == cudaSuccess ? start_edge(beside, stream) : error;
}

EXPORT_SGEMM(run)
