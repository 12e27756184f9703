// Large FP32 products on tensor cores: the method of split_tf32.cuh, by tiles that need fewer instructions beside mma.sync.
//
// - 64 x 64 results a warp: a third fewer numbers to split and to load for each mma.sync than in 32 x 64.
// - The tensor core sums 64 steps of k, so that its sums are added to the FP32 totals a quarter as often. The totals lie in
//   shared memory, for the registers hold the tensor core's sums.
// - A tile of 128 x 256 results a block reads half as much from the L2 cache as four of 128 x 64.
// - One block fills an SM. So that its warps need not wait for each other at each tile, the barrier has two halves: a warp
//   arrives where it begins a tile, and waits before the last quarter, where it needs the next one.
//
// The error: a sum of 64 steps goes through the tensor core 24 times, where it is truncated, and the totals have no sections.
// That is within the bound of an FP32 product by far (24 times 20 u, 8 u and k / 64 + 2 roundings, from k = 2048 on), and
// less than the error of as many multiply-adds one by one, but more than that of a product whose k is split among blocks.
// So this is for products whose tiles fill the GPU, of which cuBLAS does not split k either (docs/performance.md).
#pragma once

#include "split_barrier.cuh"
#include "split_tf32.cuh"

using LargeTiling = SplitTiling<128, 256, 16, 64, 64, 4, 1, 8>;
constexpr int LARGE_SUM = 4;      // tiles that the tensor core sums
constexpr int LARGE_K = 2048;     // terms of a sum, at least
constexpr int LARGE_TILES = 128;  // at least

template <class T>
__global__ void __launch_bounds__(T::THREADS, T::BLOCKS) sgemm_large(Gemm g) {
  constexpr int MS = T::WARP_ROWS / 16, NS = T::WARP_COLS / 32;
  float* shared = dynamic_shared<float>();
  Tile tile = tile_of_block(g, T::ROWS, T::COLS);
  int warp = threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  int warp_row = warp / (T::COLS / T::WARP_COLS) * T::WARP_ROWS;
  int warp_col = warp % (T::COLS / T::WARP_COLS) * T::WARP_COLS;
  int tiles = ceil_div(g.k, T::STEPS);
  SplitCopies<T, 4> copies(g, tile);
  copies.begin(shared);
  copies.keep_places();
  int at_A = keep(T::place_A(warp_row + lane % 16, lane / 16 * 4));
  int at_B = keep(T::TILE_A + lane % 4 * T::PITCH_B + warp_col + lane / 4 * 4);
  lane = keep(lane);
  // Of 16 rows a thread has two, of 32 columns two vectors.
  auto total = [&](int i, int j, int r) {
    return shared + T::DEPTH * T::STAGE + (((j * MS + i) * 4 + r) * T::THREADS + threadIdx.x) * 4;
  };
  float part[NS][4][MS][4] = {};
#pragma unroll
  for (int i = 0; i < MS * NS * 4; ++i) {
    alignas(16) const float zeros[4] = {};
    copy_vector<4>(total(0, 0, i), zeros);
  }
  // A vector of totals with what the tensor core has added up since.
  auto promoted = [&](float (&four)[4], int i, int j, int r) {
    copy_vector<4>(four, total(i, j, r));
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      four[v] = fmaf(part[j][v][i][r], SPLIT_UNSCALE, four[v]);
    }
  };
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

  // As in sgemm_mma, but 8 steps of k at a time.
  float next_A[MS][4], next_B[2][4];
  uint32_t big_A[MS][4], small_A[MS][4], big_B[2][2], small_B[2][2];
  auto load_A = [&](const float* stage, int first) {
    const float* from = stage + (at_A ^ first);
#pragma unroll
    for (int i = 0; i < MS; ++i) {
      load_mma_A(next_A[i], from + 16 * i * T::STEPS);
    }
  };
  auto load_B = [&](const float* stage, int first, int j) {
    const float* row = stage + at_B + first * T::PITCH_B + 32 * j;
    copy_vector<4>(next_B[0], row);
    copy_vector<4>(next_B[1], row + 4 * T::PITCH_B);
  };
  auto split_A = [&] {
#pragma unroll
    for (int i = 0; i < MS; ++i) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        split_tf32(next_A[i][r], &big_A[i][r], &small_A[i][r]);
      }
    }
  };
  auto split_B = [&](int v) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      split_tf32(next_B[r][v], &big_B[v % 2][r], &small_B[v % 2][r]);
    }
  };
  auto multiply = [&](int j, int v) {
#pragma unroll
    for (int product = 0; product < 3; ++product) {
#pragma unroll
      for (int i = 0; i < MS; ++i) {
        mma_tf32(part[j][v][i], product == 0 ? small_A[i] : big_A[i], product == 1 ? small_B[v % 2] : big_B[v % 2]);
      }
    }
  };

  constexpr int UNITS = T::STEPS / 8 * NS;  // of four groups each, in a tile
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    split_barrier_init(&barrier, T::THREADS / 32);
  }
  __pipeline_wait_prior(T::DEPTH - 2);
  __syncthreads();
  if (by_multiply_adds<T, false>(g, tile, shared)) {
    __pipeline_wait_prior(0);
    __syncthreads();
    multiply_adds<T, 4>(g, tile, shared, warp_row, warp_col);
    return;
  }
  load_A(shared, 0);
  load_B(shared, 0, 0);
  split_A();
  split_B(0);
  float *stage = shared, *before = shared + (T::DEPTH - 1) * T::STAGE;
  int turn = warp / 4 * (LARGE_SUM / 2);  // the two warps of a scheduler do not add to totals at once
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
        load_A(next_stage, next_first);
      }
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        multiply(unit % NS, v);
        if (v < 3) {
          split_B(v + 1);
        } else {
          load_B(next_stage, next_first, next_j);
          split_B(0);
        }
        if (v == 3 && next_j == 0) {
          split_A();
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

// Whether a product is long and large enough, and a block may have the shared memory.
inline bool suits_large(const Gemm& g) {
  return MUCH_SHARED_MEMORY && g.k >= LARGE_K && by_vectors(g) && fills_sms(g) &&
         tile_grid(g, LargeTiling::ROWS, LargeTiling::COLS).x >= LARGE_TILES;
}

inline cudaError_t run_large(const Gemm& g, cudaStream_t stream) {
  using T = LargeTiling;
  constexpr size_t TOTALS = sizeof(float) * T::ROWS * T::COLS;
  return launch(sgemm_large<T>, tile_grid(g, T::ROWS, T::COLS), dim3(T::THREADS), T::SHARED_BYTES + TOTALS, stream, g);
}
