// mma_3xtf32: an FP32 product on tensor cores. Each number is split into two TF32 numbers in registers.
//
// Against `async_copy`, whose FMAs fill the issue slots of the CUDA cores:
// - mma.sync (compute capability 8.0 and up) multiplies 16 x 8 by 8 x 8 TF32 numbers in one instruction of a warp.
//   Three of them, for high and low parts, replace 1024 FP32 multiply-adds, which are 32 FFMA instructions.
//   split_tf32.cuh says how numbers are split, why sums leave the tensor core every INTERVAL steps of k, and how large
//   the error is.
// - cp.async copies tiles as they lie in memory, several at a time. A is read by ldmatrix and B by 128-bit loads. Of 32
//   columns a lane takes four neighbours for four mma.sync, so that its results are whole vectors of a row of C.
// - The loop over tiles is one basic block, so that the compiler finds an instruction to issue between any two
//   mma.sync. While one of the four columns is multiplied, the numbers of B's next column are split, and the results of
//   the previous column are added to the sums.
//
// Which kernel computes a product (`run`):
// - sgemm_large, if the product is long and fills the GPU with tiles of 128 x 256. It splits and loads a third fewer
//   numbers for each mma.sync.
// - FP32 multiply-adds, as in `split_k`, if sums are short or C has few tiles: there they are as fast and err less.
// - sgemm_mma otherwise. In both kernels of mma.sync a block computes its tile by FP32 multiply-adds if it finds that
//   split numbers would err more (fp32_tile.cuh).
//
// Limit: the tensor cores, which compute three products for one, and the issue slots of the instructions beside each
// mma.sync (docs/performance.md, "Tensor cores"). Splitting takes three instructions for each number that a lane holds.
// In a large tile one such number stands beside three mma.sync, in other tiles beside two. In long runs also the power
// limit.
//
// Occupancy: 8 of an SM's 64 warps, at up to 254 registers a thread. A large tile has one block of 256 threads and 227
// KiB of shared memory: 128 KiB of totals and four stages. Other tiles have two blocks of 128 threads and 50 KiB a
// block for four stages; their totals of sections of k lie in local memory.
#include <cuda_pipeline.h>

#include "fp32_tile.cuh"
#include "gemm.cuh"
#include "mma_tiles.cuh"
#include "multiply_adds.cuh"
#include "split_barrier.cuh"
#include "split_tf32.cuh"
#include "vector.cuh"

#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 64
#endif
#ifndef BK
#define BK 16
#endif
#ifndef WM
#define WM 32
#endif
#ifndef WN
#define WN 64
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 2
#endif
#ifndef INTERVAL
#define INTERVAL 16
#endif
#ifndef LARGE_K
#define LARGE_K 2048
#endif

using Tiling = MmaTiling<BM, BN, BK, WM, WN, STAGES, MIN_BLOCKS, INTERVAL>;
using LargeTiling = MmaTiling<128, 256, 16, 64, 64, 4, 1, 8>;
constexpr int LARGE_SUM = 4;      // tiles of a large tile's k that the tensor core sums
constexpr int LARGE_TILES = 128;  // at least so many large tiles

// Copies of WIDTH floats. The sums of INTERVAL steps of k leave the tensor core and are added to FP32 sums in
// registers. Every SECTION_SUMS of these are added to totals in memory.
template <int WIDTH>
__global__ void __launch_bounds__(Tiling::THREADS, MIN_BLOCKS) sgemm_mma(Gemm g) {
  using T = Tiling;
  constexpr int MS = T::WARP_ROWS / 16, NS = T::WARP_COLS / 32, KS = T::SUM_STEPS / 8;
  float* shared = dynamic_shared<float>();
  Tile tile = tile_of_block(g, T::ROWS, T::COLS);
  int warp = threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  int warp_row = warp / (T::COLS / T::WARP_COLS) * T::WARP_ROWS;
  int warp_col = warp % (T::COLS / T::WARP_COLS) * T::WARP_COLS;
  int tiles = ceil_div(g.k, T::STEPS);
  MmaCopies<T, WIDTH> copies(g, tile);
  copies.begin(shared);
  if (WIDTH == 1) {
    copies.keep_places();
  }
  __pipeline_wait_prior(T::DEPTH - 2);
  __syncthreads();
  // All threads find the same. By __any_sync the compiler knows that they do.
  if (__any_sync(0xFFFFFFFF, needs_multiply_adds<T>(g, tile, shared))) {
    __pipeline_wait_prior(0);
    __syncthreads();
    multiply_adds<T, WIDTH>(g, tile, shared, warp_row, warp_col);
    return;
  }

  // Of every 16 rows a lane has two, and in each of them 8 neighbours of every 32 columns.
  float sum[MS][NS][2][8] = {};
  constexpr bool NESTED = WIDTH == 4;  // loops over the tiles of a section, in a loop over sections
  constexpr int SUMS = MS * NS * 16;
  float* sums = &sum[0][0][0][0];
  volatile float totals[SUMS];  // in memory, because they are needed only at the end of a section
#pragma unroll
  for (int i = 0; i < SUMS; ++i) {
    totals[i] = 0.0f;
  }
  constexpr int section = SECTION_SUMS * T::SUM_STEPS / T::STEPS;  // in tiles

  // A group of mma.sync multiplies one of a lane's four columns: MS x KS of them for each of the three products. `next`
  // holds numbers as they were read, big and small the parts of the numbers that are multiplied, `part` the tensor
  // core's sums of two groups.
  int at_A = place_of_A<T>(warp_row, lane);
  int at_B = place_of_B<T>(warp_col, lane);
  float next_A[KS][MS][4], next_B[KS][2][4];
  uint32_t big_A[KS][MS][4], small_A[KS][MS][4], big_B[2][KS][2], small_B[2][KS][2];
  float part[2][MS][4] = {};
  // Adds the tensor core's sums of a group to the sums of column v of the j-th 32 columns.
  auto promote = [&](int j, int v) {
#pragma unroll
    for (int i = 0; i < MS; ++i) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        float* s = &sum[i][j][r / 2][r % 2 * 4 + v];
        *s = fmaf(part[v % 2][i][r], SPLIT_UNSCALE, *s);
        part[v % 2][i][r] = 0.0f;
      }
    }
  };

  constexpr int UNITS = T::STEPS / T::SUM_STEPS * NS;  // of four groups each, in a tile
  lds_A<T>(next_A, shared, at_A, 0);
  lds_B<T>(next_B, shared, at_B, 0, 0);
  split_A(next_A, big_A, small_A);
  split_B(next_B, 0, big_B[0], small_B[0]);
  float *stage = shared, *before = shared + (T::DEPTH - 1) * T::STAGE;
  auto end_section = [&] {
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
      totals[i] = totals[i] + sums[i];
      sums[i] = 0.0f;
    }
  };
  int left = tiles;
  do {
    int more = NESTED ? min(left, section) : left;
    left -= more;
    for (int t = 0; t < more; ++t) {
      float* after = stage + T::STAGE < shared + T::DEPTH * T::STAGE ? stage + T::STAGE : shared;
      __pipeline_wait_prior(T::DEPTH - 3);
      __syncthreads();
#pragma unroll
      for (int unit = 0; unit < UNITS; ++unit) {
        bool last = unit == UNITS - 1;
        const float* next_stage = last ? after : stage;
        int next_j = (unit + 1) % NS, next_first = last ? 0 : (unit + 1) / NS * T::SUM_STEPS;
        if (next_j == 0) {
          lds_A<T>(next_A, next_stage, at_A, next_first);
        }
#pragma unroll
        for (int v = 0; v < 4; ++v) {
          multiply(part[v % 2], big_A, small_A, big_B[v % 2], small_B[v % 2]);
          if (v < 3) {
            split_B(next_B, v + 1, big_B[(v + 1) % 2], small_B[(v + 1) % 2]);
          } else {
            lds_B<T>(next_B, next_stage, at_B, next_first, next_j);
            split_B(next_B, 0, big_B[0], small_B[0]);
          }
          if (v == 3 && next_j == 0) {
            split_A(next_A, big_A, small_A);
          }
          promote((v > 0 ? unit : unit + NS - 1) % NS, (v + 3) % 4);
        }
      }
      copies.next(before);
      __pipeline_commit();
      before = stage;
      stage = after;
      if (!NESTED && (t + 1) % section == 0) {
        end_section();
      }
    }
    if (NESTED && left > 0) {
      end_section();
    }
  } while (NESTED && left > 0);
  __pipeline_wait_prior(0);
  promote(NS - 1, 3);
#pragma unroll
  for (int i = 0; i < SUMS; ++i) {
    sums[i] += totals[i];
  }

  int width_C = vector_width(g.C, g.ldc);
#pragma unroll
  for (int i = 0; i < MS; ++i) {
#pragma unroll
    for (int j = 0; j < NS; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int row = tile.row + warp_row + 16 * i + 8 * half + lane / 4;
        int col = tile.col + warp_col + 32 * j + lane % 4 * 8;
#pragma unroll
        for (int v = 0; v < 8; v += 4) {
          alignas(16) float four[4] = {sum[i][j][half][v], sum[i][j][half][v + 1], sum[i][j][half][v + 2],
                                       sum[i][j][half][v + 3]};
          store_split(g, row, col + v, four, width_C);
        }
      }
    }
  }
}

// Large products, by tiles that need fewer instructions beside mma.sync:
// - A warp has 64 x 64 results. It splits and loads a third fewer numbers for each mma.sync than with 32 x 64.
// - The tensor core sums 64 steps of k, so that its sums are added to the FP32 totals a quarter as often. The registers
//   hold the tensor core's sums, and shared memory holds the totals.
// - A block of 128 x 256 results reads half as much from the L2 cache as four blocks of 128 x 64.
// - One block fills an SM. Its warps do not wait for each other at each tile, because the barrier has two halves: a
//   warp arrives when it begins a tile, and waits before the last quarter of it, where it needs the next tile.
//
// The error: a sum of 64 steps goes through the tensor core 24 times, truncated each time, and the totals have no
// sections. From k = 2048 on that is far within the bound of an FP32 product (24 times 20 u, 8 u and k / 64 + 2
// roundings). It is less than the error of as many multiply-adds one by one, but more than that of a product whose k is
// split among blocks. So this kernel takes products whose tiles fill the GPU, for which cuBLAS does not split k either
// (docs/performance.md).
__global__ void __launch_bounds__(LargeTiling::THREADS, 1) sgemm_large(Gemm g) {
  using T = LargeTiling;
  constexpr int MS = T::WARP_ROWS / 16, NS = T::WARP_COLS / 32;
  float* shared = dynamic_shared<float>();
  Tile tile = tile_of_block(g, T::ROWS, T::COLS);
  int warp = threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  int warp_row = warp / (T::COLS / T::WARP_COLS) * T::WARP_ROWS;
  int warp_col = warp % (T::COLS / T::WARP_COLS) * T::WARP_COLS;
  int tiles = ceil_div(g.k, T::STEPS);
  MmaCopies<T, 4> copies(g, tile);
  copies.begin(shared);
  copies.keep_places();
  int at_A = keep(place_of_A<T>(warp_row, lane));
  int at_B = keep(place_of_B<T>(warp_col, lane));
  lane = keep(lane);
  // The place of a vector of totals. Of every 16 rows a thread has two, and of every 32 columns two vectors: r = 0 ..
  // 3.
  auto total = [&](int i, int j, int r) {
    return shared + T::DEPTH * T::STAGE + (((j * MS + i) * 4 + r) * T::THREADS + threadIdx.x) * 4;
  };
  float part[NS][4][MS][4] = {};
#pragma unroll
  for (int i = 0; i < MS * NS * 4; ++i) {
    alignas(16) const float zeros[4] = {};
    copy_vector<4>(total(0, 0, i), zeros);
  }
  // A vector of totals plus the tensor core's sums.
  auto promoted = [&](float (&four)[4], int i, int j, int r) {
    copy_vector<4>(four, total(i, j, r));
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      four[v] = fmaf(part[j][v][i][r], SPLIT_UNSCALE, four[v]);
    }
  };
  // Adds all sums of the tensor core to the totals.
  auto promote = [&] {
#pragma unroll
    for (int j = 0; j < NS; ++j) {
#pragma unroll
      for (int i = 0; i < MS; ++i) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          alignas(16) float four[4];
          promoted(four, i, j, r);
          copy_vector<4>(total(i, j, r), four);
#pragma unroll
          for (int v = 0; v < 4; ++v) {
            part[j][v][i][r] = 0.0f;
          }
        }
      }
    }
  };

  float next_A[1][MS][4], next_B[1][2][4];
  uint32_t big_A[1][MS][4], small_A[1][MS][4], big_B[2][1][2], small_B[2][1][2];
  constexpr int UNITS = T::STEPS / 8 * NS;  // of four groups each, in a tile
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    split_barrier_init(&barrier, T::THREADS / 32);
  }
  __pipeline_wait_prior(T::DEPTH - 2);
  __syncthreads();
  if (needs_multiply_adds<T>(g, tile, shared)) {
    __pipeline_wait_prior(0);
    __syncthreads();
    multiply_adds<T, 4>(g, tile, shared, warp_row, warp_col);
    return;
  }
  lds_A<T>(next_A, shared, at_A, 0);
  lds_B<T>(next_B, shared, at_B, 0, 0);
  split_A(next_A, big_A, small_A);
  split_B(next_B, 0, big_B[0], small_B[0]);
  float *stage = shared, *before = shared + (T::DEPTH - 1) * T::STAGE;
  int turn = warp / 4 * (LARGE_SUM / 2);  // the two warps of a scheduler add to totals at different tiles
  for (int t = 0; t < tiles; ++t) {
    float* after = stage + T::STAGE < shared + T::DEPTH * T::STAGE ? stage + T::STAGE : shared;
    __pipeline_wait_prior(T::DEPTH - 3);
    __syncwarp();
    if (lane == 0) {
      split_barrier_arrive(&barrier);
    }
    if ((t + turn) % LARGE_SUM == 0) {
      promote();
    }
#pragma unroll
    for (int unit = 0; unit < UNITS; ++unit) {
      bool last = unit == UNITS - 1;
      if (last) {
        split_barrier_wait(&barrier, t % 2);
      }
      const float* next_stage = last ? after : stage;
      int next_j = (unit + 1) % NS, next_first = last ? 0 : (unit + 1) / NS * 8;
      if (next_j == 0) {
        lds_A<T>(next_A, next_stage, at_A, next_first);
      }
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        multiply(part[unit % NS][v], big_A, small_A, big_B[v % 2], small_B[v % 2]);
        if (v < 3) {
          split_B(next_B, v + 1, big_B[(v + 1) % 2], small_B[(v + 1) % 2]);
        } else {
          lds_B<T>(next_B, next_stage, at_B, next_first, next_j);
          split_B(next_B, 0, big_B[0], small_B[0]);
        }
        if (v == 3 && next_j == 0) {
          split_A(next_A, big_A, small_A);
        }
      }
    }
    copies.next(before);
    __pipeline_commit();
    before = stage;
    stage = after;
  }
  __pipeline_wait_prior(0);

  int width_C = vector_width(g.C, g.ldc);
#pragma unroll
  for (int i = 0; i < MS; ++i) {
#pragma unroll
    for (int j = 0; j < NS; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        int row = tile.row + warp_row + 16 * i + r / 2 * 8 + lane / 4;
        int col = tile.col + warp_col + 32 * j + lane % 4 * 8 + r % 2 * 4;
        alignas(16) float four[4];
        promoted(four, i, j, r);
        store_split(g, row, col, four, width_C);
      }
    }
  }
}

// Whether sgemm_large takes a product: a block may have the shared memory, the product is long and has tiles enough,
// and large tiles take no more rounds of blocks.
bool is_large(const Gemm& g, int sms) {
  int tiles = tile_grid(g, LargeTiling::ROWS, LargeTiling::COLS).x, small_tiles = tile_grid(g, BM, BN).x;
  return MUCH_SHARED_MEMORY && g.k >= LARGE_K && copies_vectors(g) && fills_sms(g) && tiles >= LARGE_TILES &&
         2 * ceil_div(tiles, sms) <= ceil_div(small_tiles, MIN_BLOCKS * sms);
}

cudaError_t launch_large(const Gemm& g, cudaStream_t stream) {
  using T = LargeTiling;
  constexpr size_t TOTALS = sizeof(float) * T::ROWS * T::COLS;
  return launch(sgemm_large, tile_grid(g, T::ROWS, T::COLS), dim3(T::THREADS), T::SHARED_BYTES + TOTALS, stream, g);
}

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  int sms = 0;
  cudaError_t error = sm_count(&sms);
  if (error != cudaSuccess) {
    return error;
  }
  if (is_large(g, sms)) {
    return launch_large(g, stream);
  }
  if (longest_fp32_sum(g) > 0) {
    return run_multiply_adds(g, workspace, stream);
  }
  auto kernel = copies_vectors(g) ? sgemm_mma<4> : sgemm_mma<1>;
  return launch(kernel, tile_grid(g, BM, BN), dim3(Tiling::THREADS), Tiling::SHARED_BYTES, stream, g);
}

size_t needed(const Gemm& g) { return longest_fp32_sum(g) > 0 ? multiply_adds_bytes(g) : 0; }

EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
