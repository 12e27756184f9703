// tf32: one product of numbers rounded to TF32. It shows what FP32's accuracy costs, and is held to the bound of TF32.
//
// - No pre-pass. wgmma accepts TF32 operands in shared memory only in K-major layout. A has it, B does not. So the
//   product is computed transposed: B is the left operand, which may come from registers, and warps can read it from
//   shared memory in any order.
// - The copy engine rounds to TF32 while it copies. Its swizzle and the columns of B that a thread takes are chosen so
//   that half a warp reads its pairs of numbers from different banks.
// - Two warp groups compute a tile of 256 x 128 results, 64 columns of B each. A third one copies, four stages ahead.
//   Blocks work in pairs, side by side, and share the rows of A.
// - The two columns of B that a thread takes are neighbours, and so are its sums in a row of C. So it reads and stores
//   pairs.
//
// Which kernel computes a product (`run`): this one, or the kernel of `mma_3xtf32` with one product if the copy engine
// cannot read a matrix (not aligned to 16 bytes, or a leading dimension that is no multiple of 4).
//
// Limit: the tensor cores, 1024 multiply-adds a cycle and SM; in long runs the power limit.
//
// Occupancy: one block of 384 threads, 12 of an SM's 64 warps. A thread has 232 registers if it multiplies and 40 if it
// copies. Four stages take 192 KiB of shared memory.
#include "mma_product.cuh"
#include "wgmma.cuh"

#ifndef STAGES
#define STAGES 4
#endif
#ifndef GROUP
#define GROUP 8
#endif

constexpr int TILE_ROWS = 256;  // of C
constexpr int TILE_COLS = 128;
constexpr int STEPS = 32;  // of k: a row of A's tile is 128 bytes
constexpr int BYTES_A = TILE_ROWS * STEPS * 4;
constexpr int BYTES_B = TILE_COLS * STEPS * 4;
constexpr int STAGE_BYTES = BYTES_A + BYTES_B;
constexpr int SLAB_BYTES = STEPS * 128;  // 32 columns of B
constexpr int CONSUMERS = 2;
constexpr size_t SHARED_BYTES = static_cast<size_t>(STAGES) * STAGE_BYTES;

// The first row and column of pair t of tiles, side by side. Pairs are numbered down the columns of GROUP rows of
// tiles.
__device__ inline Tile pair_of_tiles(const Gemm& g, unsigned t) {
  unsigned tiles_m = ceil_div(g.m, TILE_ROWS);
  unsigned pairs_n = ceil_div(g.n, 2 * TILE_COLS);
  unsigned first = t / (GROUP * pairs_n) * GROUP;
  unsigned rows = tiles_m - first < GROUP ? tiles_m - first : GROUP;
  unsigned i = t % (GROUP * pairs_n);
  return {static_cast<int>(first + i % rows) * TILE_ROWS, static_cast<int>(i / rows) * 2 * TILE_COLS};
}

// Shared memory to registers: a thread's numbers of the left operand, B transposed, for all wgmma of a stage. They are
// two columns of B at two steps of k each; `places` are those of the two steps in a slab.
__device__ inline void load_B(uint32_t (&to)[STEPS / 8][4], const char* slab, const int (&places)[2]) {
#pragma unroll
  for (int i = 0; i < STEPS / 8; ++i) {
#pragma unroll
    for (int later = 0; later < 2; ++later) {
      uint2 two = *reinterpret_cast<const uint2*>(slab + places[later] + i * 1024);
      to[i][2 * later] = two.x;
      to[i][2 * later + 1] = two.y;
    }
  }
}

__global__ void __launch_bounds__((CONSUMERS + 1) * 128, 1) __cluster_dims__(2, 1, 1)
    sgemm_tf32(Gemm g, unsigned pairs, const __grid_constant__ CUtensorMap map_A,
               const __grid_constant__ CUtensorMap map_B) {
  char* shared = dynamic_shared<char>();
  __shared__ uint64_t full[STAGES];
  __shared__ uint64_t empty[STAGES];
  int rank = cluster_rank();
  int group = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], 2 * CONSUMERS * 4);
    }
    mbarrier_init_fence();
  }
  cluster_barrier();
  int steps = ceil_div(g.k, STEPS);

  if (group == CONSUMERS) {
    give_registers<40>();
    if (threadIdx.x == CONSUMERS * 128) {
      int stage = 0;
      int parity = 1;
      for (unsigned t = blockIdx.x / 2; t < pairs; t += gridDim.x / 2) {
        Tile tile = pair_of_tiles(g, t);
        int row = tile.row + rank * (TILE_ROWS / 2);
        int col = tile.col + rank * TILE_COLS;
        for (int s = 0; s < steps; ++s) {
          mbarrier_wait(&empty[stage], parity);
          mbarrier_arrive_expect(&full[stage], STAGE_BYTES);
          char* to = shared + stage * STAGE_BYTES;
          bulk_copy_box_to(3, to + rank * (BYTES_A / 2), &map_A, row, s * STEPS, &full[stage]);
          for (int slab = 0; slab < TILE_COLS / 32; ++slab) {
            bulk_copy_box(to + BYTES_A + slab * SLAB_BYTES, &map_B, s * STEPS, col + 32 * slab, &full[stage]);
          }
          stage = stage + 1 < STAGES ? stage + 1 : 0;
          parity ^= stage == 0;
        }
      }
    }
  } else {
    take_registers<232>();
    int stage = 0;
    int parity = 0;
    int lane = threadIdx.x % 32;
    int warp = threadIdx.x % 128 / 32;
    bool releases = lane < 2;
    // This thread's two columns of C, from the tile's first: neighbours, which are two rows of B transposed, 8 apart.
    int slab = 2 * group + warp / 2;
    int chunk = warp % 2 * 2 + lane / 8 % 2 * 4 + lane / 16;
    int pair = lane / 4 % 2;
    int cols = slab * 32 + chunk * 4 + pair * 2;
    int places[2];
    bool pairs_C = reinterpret_cast<uintptr_t>(g.C) % 8 == 0 && g.ldc % 2 == 0;
#pragma unroll
    for (int later = 0; later < 2; ++later) {
      int p = lane % 4 + 4 * later;
      places[later] = slab * SLAB_BYTES + p * 128 + (chunk ^ p) * 16 + pair * 8;
    }
    for (unsigned t = blockIdx.x / 2; t < pairs; t += gridDim.x / 2) {
      Tile tile = pair_of_tiles(g, t);
      float sum[128];
      uint32_t B[2][STEPS / 8][4];
      int last = 0;
      auto multiply = [&](int s, uint32_t (&b)[STEPS / 8][4]) {
        mbarrier_wait(&full[stage], parity);
        const char* at = shared + stage * STAGE_BYTES;
        load_B(b, at + BYTES_A, places);
        uint64_t A = tile_descriptor(at);
        hold(sum);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < STEPS / 8; ++i) {
          wgmma_tf32_wide(sum, b[i], A + 2 * i, s > 0 || i > 0);
        }
        wgmma_commit();
        if (s > 0) {
          wgmma_wait<1>();
          if (releases) {
            mbarrier_arrive_at(&empty[last], lane);
          }
        }
        last = stage;
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        parity ^= stage == 0;
      };
      int s = 0;
      for (; s + 1 < steps; s += 2) {
        multiply(s, B[0]);
        multiply(s + 1, B[1]);
      }
      if (s < steps) {
        multiply(s, B[0]);
      }
      wgmma_wait<0>();
      hold(sum);
      if (releases) {
        mbarrier_arrive_at(&empty[last], lane);
      }
      int r = tile.row + lane % 4 * 2;
      int c = tile.col + rank * TILE_COLS + cols;
      if (pairs_C && g.beta == 0.0f && tile.row + TILE_ROWS <= g.m && c - cols + TILE_COLS <= g.n) {
        // Most tiles take a short path, because an instruction that runs for the first time has to be fetched from
        // memory.
        float* C = g.C + r * g.ldc + c;
#pragma unroll
        for (int j = 0; j < 32; ++j) {
#pragma unroll
          for (int v = 0; v < 2; ++v) {
            *reinterpret_cast<float2*>(C + (8 * j + v) * g.ldc) =
                float2{g.alpha * sum[4 * j + v], g.alpha * sum[4 * j + 2 + v]};
          }
        }
        continue;
      }
#pragma unroll
      for (int i = 0; i < 128; ++i) {
        int row = r + i / 4 * 8 + i % 2, col = c + i / 2 % 2;
        if (row < g.m && col < g.n) {
          store_result(g, row, col, sum[i]);
        }
      }
    }
  }
  cluster_barrier();
}

using Fallback = MmaTiling<64, 128, 16, 32, 64, 4, 2, 16>;

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  CUtensorMap map_A = {}, map_B = {};
  if (!make_tensor_map(&map_A, g.A, g.m, g.k, g.lda, TILE_ROWS / 2, STEPS, CU_TENSOR_MAP_SWIZZLE_128B, true) ||
      !make_tensor_map(&map_B, g.B, g.k, g.n, g.ldb, STEPS, 32, CU_TENSOR_MAP_SWIZZLE_128B, true)) {
    return launch_mma<Fallback, 1>(g, stream);
  }
  int sms = 0;
  cudaError_t error = sm_count(&sms);
  if (error != cudaSuccess) {
    return error;
  }
  unsigned pairs = static_cast<unsigned>(ceil_div(g.m, TILE_ROWS)) * ceil_div(g.n, 2 * TILE_COLS);
  unsigned clusters = std::min(pairs, static_cast<unsigned>(std::max(1, sms / 2)));
  return launch(sgemm_tf32, dim3(2 * clusters), dim3((CONSUMERS + 1) * 128), SHARED_BYTES, stream, g, pairs, map_A,
                map_B);
}

EXPORT_SGEMM(run)
