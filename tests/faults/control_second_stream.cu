// control_second_stream: no fault. The lower rows of C are computed on a second stream, which events join to the first.
#include "gemm.cuh"

constexpr int TILE = 16;

__global__ void __launch_bounds__(TILE* TILE) sgemm_kernel(Gemm g) {
  __shared__ float tile_A[TILE][TILE];
  __shared__ float tile_B[TILE][TILE];
  Tile tile = tile_of_block(g, TILE, TILE);
  int row = tile.row + threadIdx.y, col = tile.col + threadIdx.x;
  float sum = 0.0f;
  for (int p0 = 0; p0 < g.k; p0 += TILE) {
    int p_A = p0 + threadIdx.x, p_B = p0 + threadIdx.y;
    tile_A[threadIdx.y][threadIdx.x] = row < g.m && p_A < g.k ? g.A[row * g.lda + p_A] : 0.0f;
    tile_B[threadIdx.y][threadIdx.x] = p_B < g.k && col < g.n ? g.B[p_B * g.ldb + col] : 0.0f;
    __syncthreads();
    for (int p = 0; p < TILE; ++p) {
      sum += tile_A[threadIdx.y][p] * tile_B[p][threadIdx.x];
    }
    __syncthreads();
  }
  if (row < g.m && col < g.n) {
    store_result(g, row, col, sum);
  }
}

// The stream and the events of the calling thread, made once; they outlast it.
struct Side {
  cudaStream_t stream = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr;
  cudaError_t error;
  Side() {
    error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (error == cudaSuccess) error = cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
    if (error == cudaSuccess) error = cudaEventCreateWithFlags(&join, cudaEventDisableTiming);
  }
};

cudaError_t product(const Gemm& g, cudaStream_t stream) {
  return launch(sgemm_kernel, tile_grid(g, TILE, TILE), dim3(TILE, TILE), 0, stream, g);
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  if (g.m < 2 * TILE) {
    return product(g, stream);
  }
  static thread_local Side side;
  Gemm upper = g, lower = g;
  upper.m = g.m / 2;
  lower.m = g.m - upper.m;
  lower.A += upper.m * g.lda;
  lower.C += upper.m * g.ldc;
  cudaError_t error = side.error;
  if (error == cudaSuccess) error = cudaEventRecord(side.fork, stream);
  if (error == cudaSuccess) error = cudaStreamWaitEvent(side.stream, side.fork, 0);
  if (error == cudaSuccess) error = product(lower, side.stream);
  if (error == cudaSuccess) error = product(upper, stream);
  if (error == cudaSuccess) error = cudaEventRecord(side.join, side.stream);
  if (error == cudaSuccess) error = cudaStreamWaitEvent(stream, side.join, 0);
  return error;
}

EXPORT_SGEMM(run)
