// What a block of `fastest` with copying warps does outside its loops: A's way from global memory through registers to
// a stage, B's way without the engine, and the sum over groups of warps.
#pragma once

#include <cuda_pipeline.h>

#include "bulk_copy.cuh"
#include "fastest_tile.cuh"
#include "gemm.cuh"
#include "stream_k.cuh"
#include "vector.cuh"

constexpr int COPIERS = 128;  // threads that only copy

template <class T>
constexpr int BOX_COLS = T::BN < 256 ? T::BN : 256;  // of the engine's box of B; no box is wider

// Of a block: the stages, and room for results on their way to rows of C that are not aligned.
template <class T>
constexpr size_t RING_BYTES = sizeof(float) * (T::RING + T::STAGED);

// A place in the ring of stages: the stage, and the parity of its barriers' phase, which changes in each round.
template <int STAGES>
struct RingPlace {
  int stage = 0;
  int parity = 0;
  __device__ void advance(int by) {
    stage += by;
    int round = stage >= STAGES;
    stage -= round ? STAGES : 0;
    parity ^= round;
  }
  __device__ void retreat(int by) {
    stage -= by;
    int round = stage < 0;
    stage += round ? STAGES : 0;
    parity ^= round;
  }
};

// A copier's share of a tile of A, on its way from global memory through registers to a stage: vectors of four steps of
// k. A warp loads two vectors of each of 16 rows, which are whole sectors, and stores to 32 different banks.
template <class T>
struct ShareOfA {
  static constexpr int ROWS = COPIERS / (T::BK / 4);  // that all copiers load at a time
  static constexpr int VECTORS = T::BM / ROWS;
  static_assert(T::BK == 16 && T::BM % ROWS == 0, "the lanes are laid out for four vectors of a row");

  alignas(16) float share[VECTORS][4];

  static __device__ int row(int copier) { return copier / 64 * 16 + copier % 32 / 2; }
  static __device__ int step(int copier) { return copier / 32 % 2 * 8 + copier % 2 * 4; }

  // Where the thread's vectors lie in the rows of a tile, at step 0. Beyond the last row of A this is the last row
  // again, because the results there are not stored.
  struct Rows {
    const float* from[VECTORS];

    __device__ Rows(const Gemm& g, int row, int step) {
#pragma unroll
      for (int i = 0; i < VECTORS; ++i) {
        from[i] = g.A + (row + i * ROWS < g.m ? row + i * ROWS : g.m - 1) * g.lda + step;
      }
    }
  };

  // Loads from step p of k on, the first of a stage. Beyond k it takes zeros.
  __device__ void load(const Rows& rows, int p, int k, bool aligned) {
    if (aligned && p + T::BK <= k) {
#pragma unroll
      for (int i = 0; i < VECTORS; ++i) {
        copy_vector<4>(share[i], rows.from[i] + p);
      }
    } else {
      int left = k - p - step(threadIdx.x % COPIERS);
#pragma unroll
      for (int i = 0; i < VECTORS; ++i) {
#pragma unroll
        for (int v = 0; v < 4; ++v) {
          share[i][v] = v < left ? rows.from[i][p + v] : 0.0f;
        }
      }
    }
  }

  // `to` is the place of the thread's first row and step in the stage.
  __device__ void store(float* to) const {
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        to[v * T::PITCH_A + i * ROWS] = share[i][v];
      }
    }
  }
};

// Copies a tile of B where the engine cannot read the matrix, WIDTH neighbouring floats at a time.
template <class T, int WIDTH>
__device__ inline void copy_tile_B(float* to, const Gemm& g, int col, int p, int copier) {
  constexpr int LANES = T::BN / WIDTH < COPIERS ? T::BN / WIDTH : COPIERS;  // that copy a row
  constexpr int ROWS = COPIERS / LANES, PASSES = T::BN / (LANES * WIDTH);
  static_assert(COPIERS % LANES == 0 && T::BK % ROWS == 0, "each copier copies as many floats");
  int own_row = ROWS > 1 ? copier / LANES : 0;
  int own_col = (ROWS > 1 ? copier % LANES : copier) * WIDTH;
  const float* from[PASSES];
#pragma unroll
  for (int i = 0; i < PASSES; ++i) {
    from[i] = g.B + (p + own_row) * g.ldb + within(col + i * LANES * WIDTH + own_col, g.n);
  }
  to += own_row * BOX_COLS<T> + own_col % BOX_COLS<T> + own_col / BOX_COLS<T> * (BOX_COLS<T> * T::BK);
  bool inside = p + T::BK <= g.k;
#pragma unroll 4
  for (int q = 0; q < T::BK; q += ROWS) {
#pragma unroll
    for (int i = 0; i < PASSES; ++i) {
      constexpr int STEP = LANES * WIDTH;
      float* place = to + i * STEP / BOX_COLS<T> * (BOX_COLS<T> * T::BK) + i * STEP % BOX_COLS<T> + q * BOX_COLS<T>;
      if (inside || p + own_row + q < g.k) {
        __pipeline_memcpy_async(place, from[i], 4 * WIDTH);
      } else {
#pragma unroll
        for (int v = 0; v < WIDTH; ++v) {
          place[v] = 0.0f;
        }
      }
      from[i] += ROWS * g.ldb;
    }
  }
}

// Adds the sums of the groups of warps in shared memory, in the order of the groups. Each group stores every GROUPS-th
// row.
template <class T>
__device__ inline void store_sum_of_groups(const Gemm& g, Tile tile, float* shared, int group, float* partials,
                                           int slot, const float (&sum)[T::TM][T::TN]) {
  int thread = threadIdx.x % T::GROUP_THREADS;
  int row = tile.row + T::row_of(thread);
  int col = tile.col + T::col_of(thread);
  int width_C = vector_width(g.C, g.ldc);
  barrier_of<T::THREADS>();  // no warp reads the stages any more
  store_partial<T>(shared, group, sum);
  barrier_of<T::THREADS>();
  for (int i = group; i < T::TM; i += T::GROUPS) {
    float4 total[T::TN / 4];
#pragma unroll
    for (int j = 0; j < T::TN; j += 4) {
      total[j / 4] = *partial<T>(shared, 0, i, j, thread);
#pragma unroll
      for (int other = 1; other < T::GROUPS; ++other) {
        total[j / 4] = total[j / 4] + *partial<T>(shared, other, i, j, thread);
      }
      if (slot >= 0) {
        *partial<T>(partials, slot, i, j, thread) = total[j / 4];
      }
    }
    if (slot < 0 && width_C == 1) {
      float sums[T::TN];
#pragma unroll
      for (int j = 0; j < T::TN; j += 4) {
        sums[j] = total[j / 4].y, sums[j + 1] = total[j / 4].x, sums[j + 2] = total[j / 4].w,
        sums[j + 3] = total[j / 4].z;
      }
      store_unaligned<T>(g, tile, shared + T::RING, needed_from_here(static_cast<int>(threadIdx.x)), i, sums);
    } else if (slot < 0 && row + T::row(i) < g.m) {
#pragma unroll
      for (int j = 0; j < T::TN; j += 4) {
        store_added(g, row + T::row(i), col + T::col(j), total[j / 4], width_C);
      }
    }
  }
}
