// control_stream_k: no fault. As many blocks as SMs share all steps of k evenly (Stream-K). Who has the first steps of a
// tile waits for the flags of the blocks that have the others, and adds their volatile sums.
#include "gemm.cuh"

constexpr int TILE = 16, STEPS = 16;

size_t flag_bytes(int sms) { return (sms * sizeof(unsigned) + 255) / 256 * 256; }
size_t needed(const Gemm&) {
  int sms = 1;
  sm_count(&sms);
  return flag_bytes(sms) + sizeof(float) * sms * TILE * TILE;
}

__global__ void __launch_bounds__(TILE* TILE)
    sgemm_kernel(Gemm g, int64_t per, int64_t total, int tiles_k, volatile unsigned* flags, volatile float* partials) {
  __shared__ float a[STEPS][TILE + 1];
  __shared__ float b[STEPS][TILE];
  int tx = threadIdx.x % TILE, ty = threadIdx.x / TILE;
  int64_t begin = blockIdx.x * per, end = min(begin + per, total);
  while (begin < end) {
    int64_t tile = begin / tiles_k;
    int first = static_cast<int>(begin % tiles_k);
    int last = static_cast<int>(min(static_cast<int64_t>(tiles_k), first + end - begin));
    Tile at = tile_number(g, static_cast<unsigned>(tile), TILE, TILE, 8);
    int row = at.row + ty, col = at.col + tx;
    float sum = 0.0f;
    for (int t = first; t < last; ++t) {
      int p = t * STEPS;
      a[tx][ty] = row < g.m && p + tx < g.k ? g.A[row * g.lda + p + tx] : 0.0f;
      b[ty][tx] = p + ty < g.k && col < g.n ? g.B[(p + ty) * g.ldb + col] : 0.0f;
      __syncthreads();
      for (int q = 0; q < STEPS; ++q) sum += a[q][ty] * b[q][tx];
      __syncthreads();
    }
    if (first > 0) {  // another block owns the tile: this is always the first piece of this block
      partials[blockIdx.x * TILE * TILE + threadIdx.x] = sum;
      __threadfence();
      __syncthreads();
      if (threadIdx.x == 0) flags[blockIdx.x] = 1;
    } else {
      int64_t have = begin + last - first;
      for (int64_t other = blockIdx.x + 1; have < (tile + 1) * tiles_k; ++other) {
        if (threadIdx.x == 0) {
          while (flags[other] == 0) {
          }
          __threadfence();
        }
        __syncthreads();
        sum += partials[other * TILE * TILE + threadIdx.x];
        have = min(have + per, (tile + 1) * tiles_k);
      }
      if (row < g.m && col < g.n) store_result(g, row, col, sum);
    }
    begin += last - first;
    __syncthreads();
  }
}

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  int sms = 1;
  cudaError_t error = sm_count(&sms);
  if (error != cudaSuccess) {
    return error;
  }
  int tiles_k = ceil_div(g.k, STEPS);
  int64_t total = static_cast<int64_t>(ceil_div(g.m, TILE)) * ceil_div(g.n, TILE) * tiles_k;
  int64_t per = (total + sms - 1) / sms;
  auto flags = static_cast<unsigned*>(workspace);
  auto partials = reinterpret_cast<float*>(static_cast<char*>(workspace) + flag_bytes(sms));
  error = cudaMemsetAsync(flags, 0, flag_bytes(sms), stream);
  if (error != cudaSuccess) {
    return error;
  }
  return launch(sgemm_kernel, dim3(static_cast<unsigned>((total + per - 1) / per)), dim3(TILE * TILE), 0, stream, g,
                per, total, tiles_k, static_cast<volatile unsigned*>(flags), static_cast<volatile float*>(partials));
}

EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
