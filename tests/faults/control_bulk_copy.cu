// control_bulk_copy: no fault. The copy engine brings rows of B, without a tensor map, where their addresses allow it.
#include "gemm.cuh"

constexpr int ROWS = 8, COLS = 32, STEPS = 16, STAGES = 2, THREADS = ROWS * COLS;

__device__ uint32_t shared_place(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ void init(uint64_t* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_place(barrier)) : "memory");
}
__device__ void expect(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_place(barrier)), "r"(bytes)
               : "memory");
}
__device__ void wait(uint64_t* barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred complete;\n"
      "again%=:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 complete, [%0], %1;\n"
      "@!complete bra again%=;\n"
      "}" ::"r"(shared_place(barrier)),
      "r"(parity)
      : "memory");
}
__device__ void bulk_copy(float* to, const float* from, int bytes, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_place(to)),
      "l"(from), "r"(bytes), "r"(shared_place(barrier))
      : "memory");
}

// ENGINE: rows of B are aligned, and n is a multiple of 4.
template <bool ENGINE>
__global__ void __launch_bounds__(THREADS) sgemm_kernel(Gemm g) {
  __shared__ alignas(128) float tile_B[STAGES][STEPS][COLS];
  __shared__ float tile_A[STAGES][ROWS][STEPS];
  __shared__ uint64_t full[STAGES];
  Tile tile = tile_of_block(g, ROWS, COLS);
  int thread = threadIdx.x, y = thread / COLS, x = thread % COLS, tiles = ceil_div(g.k, STEPS);
  int cols = min(COLS, g.n - tile.col);
  if (ENGINE && thread == 0) {
    init(&full[0]);
    init(&full[1]);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();

  auto fill = [&](int t) {
    int stage = t % STAGES, steps = min(STEPS, g.k - t * STEPS);
    if (thread < ROWS * STEPS) {
      int row = tile.row + thread / STEPS, p = thread % STEPS;
      tile_A[stage][thread / STEPS][p] = row < g.m && p < steps ? g.A[row * g.lda + t * STEPS + p] : 0.0f;
    }
    if (!ENGINE) {
      for (int p = y; p < steps; p += ROWS) {
        tile_B[stage][p][x] = x < cols ? g.B[(t * STEPS + p) * g.ldb + tile.col + x] : 0.0f;
      }
    } else if (thread == 0) {
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      expect(&full[stage], steps * cols * 4);
      for (int p = 0; p < steps; ++p) {
        bulk_copy(tile_B[stage][p], g.B + (t * STEPS + p) * g.ldb + tile.col, cols * 4, &full[stage]);
      }
    }
  };

  fill(0);
  float sum = 0.0f;
  for (int t = 0; t < tiles; ++t) {
    __syncthreads();  // the tile of A is there, and nobody reads the other stage any more
    if (t + 1 < tiles) {
      fill(t + 1);
    }
    if (ENGINE) {
      wait(&full[t % STAGES], t / STAGES % 2);
    }
    if (x < cols) {
      for (int p = 0; p < min(STEPS, g.k - t * STEPS); ++p) {
        sum += tile_A[t % STAGES][y][p] * tile_B[t % STAGES][p][x];
      }
    }
  }
  if (tile.row + y < g.m && x < cols) {
    store_result(g, tile.row + y, tile.col + x, sum);
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  bool engine = reinterpret_cast<uintptr_t>(g.B) % 16 == 0 && g.ldb % 4 == 0 && g.n % 4 == 0;
  return launch(engine ? sgemm_kernel<true> : sgemm_kernel<false>, tile_grid(g, ROWS, COLS), dim3(THREADS), 0, stream,
                g);
}

EXPORT_SGEMM(run)
