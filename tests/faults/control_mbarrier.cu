// control_mbarrier: no fault. One warp fills stages, eight read them; an mbarrier tells a full stage, another an empty one.
#include "gemm.cuh"

constexpr int TILE = 16, STAGES = 3, READERS = TILE * TILE;

__device__ uint32_t shared_place(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ void init(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_place(barrier)), "r"(arrivals) : "memory");
}
__device__ void arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_place(barrier)) : "memory");
}
__device__ bool is_complete(uint64_t* barrier, int parity) {
  int complete;
  asm volatile(
      "{\n"
      ".reg .pred complete;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
      "selp.b32 %0, 1, 0, complete;\n"
      "}"
      : "=r"(complete)
      : "r"(shared_place(barrier)), "r"(parity)
      : "memory");
  return complete != 0;
}
__device__ void wait(uint64_t* barrier, int parity) {
  while (!is_complete(barrier, parity)) {
  }
}

__global__ void __launch_bounds__(READERS + 32) sgemm_kernel(Gemm g) {
  __shared__ float tile_A[STAGES][TILE][TILE];
  __shared__ float tile_B[STAGES][TILE][TILE];
  __shared__ uint64_t full[STAGES], empty[STAGES];
  Tile tile = tile_of_block(g, TILE, TILE);
  int thread = threadIdx.x, tiles = ceil_div(g.k, TILE);
  if (thread == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      init(&full[stage], 32);
      init(&empty[stage], READERS);
    }
  }
  __syncthreads();

  if (thread >= READERS) {
    int lane = thread - READERS;
    for (int t = 0; t < tiles; ++t) {
      int stage = t % STAGES;
      wait(&empty[stage], t / STAGES % 2 ^ 1);
      for (int i = lane; i < TILE * TILE; i += 32) {
        int y = i / TILE, x = i % TILE;
        bool in_A = tile.row + y < g.m && t * TILE + x < g.k, in_B = t * TILE + y < g.k && tile.col + x < g.n;
        tile_A[stage][y][x] = in_A ? g.A[(tile.row + y) * g.lda + t * TILE + x] : 0.0f;
        tile_B[stage][y][x] = in_B ? g.B[(t * TILE + y) * g.ldb + tile.col + x] : 0.0f;
      }
      arrive(&full[stage]);
    }
    return;
  }
  int y = thread / TILE, x = thread % TILE;
  float sum = 0.0f;
  for (int t = 0; t < tiles; ++t) {
    int stage = t % STAGES;
    wait(&full[stage], t / STAGES % 2);
    for (int p = 0; p < TILE; ++p) {
      sum += tile_A[stage][y][p] * tile_B[stage][p][x];
    }
    arrive(&empty[stage]);
  }
  if (tile.row + y < g.m && tile.col + x < g.n) {
    store_result(g, tile.row + y, tile.col + x, sum);
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_kernel, tile_grid(g, TILE, TILE), dim3(READERS + 32), 0, stream, g);
}

EXPORT_SGEMM(run)
