// The loop of `fastest` whose warps are all alike: each copies, multiplies and meets the others at a barrier after every
// stage.
#pragma once

#include <cuda_pipeline.h>

#include "fastest_work.cuh"

// Starts a copy of 4 bytes. AHEAD: what is read brings the 256 bytes around it to the L2 cache.
template <bool AHEAD>
__device__ inline void copy_float_async(float* to, const float* from) {
#ifdef __CUDACC__
  if constexpr (AHEAD) {
    asm volatile(
        "cp.async.ca.shared.global.L2::256B [%0], [%1], 4;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
        "l"(from)
        : "memory");
    return;
  }
#endif
  __pipeline_memcpy_async(to, from, 4);
}

// The copies of one thread from global to shared memory, a tile of A and a tile of B at a time.
template <class T, int WIDTH_B>
struct Copies {
  static constexpr int ROWS_A = T::THREADS / 8;  // a warp copies 4 rows of A by 8 steps of p: whole sectors, 32 banks
  // A stage takes 64 bytes of a row of A: tall tiles, which read the most of A, ask for the bytes of the next stages too.
  static constexpr bool AHEAD_A = T::BM > T::BN;
  static constexpr int COLS_B = T::THREADS * WIDTH_B < T::BN ? T::THREADS * WIDTH_B : T::BN;
  static constexpr int ROWS_B = T::THREADS * WIDTH_B / COLS_B;
  static_assert(T::BK % 8 == 0 && T::BM % ROWS_A == 0, "whole rows of A's tile in a pass, 8 steps of p at a time");
  static_assert(T::BN % COLS_B == 0 && T::BK % ROWS_B == 0, "whole rows of B's tile in a pass");

  const float* A;  // the thread's first elements of the next tiles
  const float* B;
  int64_t lda, ldb;
  int p_A, p_B;            // their steps in the tile
  int last_row, last_col;  // how far on the last row of A and the last vector of a row of B lie
  int to_A, to_B;          // where a stage takes them

  __device__ Copies(const Gemm& g, Tile tile, int p) : lda(g.lda), ldb(g.ldb) {
    int row = threadIdx.x / 8;
    int col = threadIdx.x * WIDTH_B % T::BN;
    p_A = threadIdx.x % 8;
    p_B = threadIdx.x * WIDTH_B / T::BN;
    to_A = p_A * T::PITCH_A + row;
    to_B = T::TILE_A + p_B * T::BN + col;
    last_row = g.m - 1 - tile.row - row;
    last_col = g.n - WIDTH_B - tile.col - col;
    A = g.A + (tile.row + row) * lda + p + p_A;
    B = g.B + (p + p_B) * ldb + tile.col + col;
  }

  // Copies both tiles into the stage. Beyond an edge of the result it reads the last row or column again: what is
  // computed from them is not stored. The first `missing` steps of p, before the matrices begin, become zeros.
  __device__ void next(float* stage, int missing) {
#pragma unroll
    for (int i = 0; i < T::BM; i += ROWS_A) {
      const float* from = A + (i < last_row ? i : last_row) * lda;
#pragma unroll
      for (int p = 0; p < T::BK; p += 8) {
        float* to = stage + to_A + p * T::PITCH_A + i;
        if (p + p_A >= missing) {
          copy_float_async<AHEAD_A>(to, from + p);
        } else {
          *to = 0.0f;
        }
      }
    }
#pragma unroll
    for (int p = 0; p < T::BK; p += ROWS_B) {
      const float* from = B + p * ldb;
#pragma unroll
      for (int c = 0; c < T::BN; c += COLS_B) {
        float* to = stage + to_B + p * T::BN + c;
        if (p + p_B >= missing) {
          __pipeline_memcpy_async(to, from + (c < last_col ? c : last_col), 4 * WIDTH_B);
        } else {
#pragma unroll
          for (int v = 0; v < WIDTH_B; ++v) {
            to[v] = 0.0f;
          }
        }
      }
    }
    A += T::BK;
    B += T::BK * ldb;
  }
};

// Adds the products of the steps first .. last - 1 of a tile. The first step of all is the short one, if k is no multiple
// of BK.
template <class T, int WIDTH_B>
__device__ inline void multiply(const Gemm& g, Tile tile, const Plan& plan, int first, int last, float* shared,
                                float (&sum)[T::TM][T::TN]) {
  int missing = plan.tiles_k * T::BK - g.k;
  Copies<T, WIDTH_B> copies(g, tile, first * T::BK - missing);
  int to_copy = last - first;
  __syncthreads();  // no thread reads the stages of the tile before any more
#pragma unroll
  for (int stage = 0; stage < T::STAGES; ++stage) {
    if (to_copy > 0) {
      if (stage == 0 && first == 0 && missing > 0) {
        copies.next(shared, missing);
      } else {
        copies.next(shared + stage * T::STAGE, 0);
      }
    }
    --to_copy;
    __pipeline_commit();
  }

  const float* shared_A = shared + T::row_of(threadIdx.x);
  const float* shared_B = shared + T::TILE_A + T::col_of(threadIdx.x);
  alignas(16) float frag_A[2][T::TM];
  alignas(16) float frag_B[2][T::TN];
  __pipeline_wait_prior(T::STAGES - 1);
  __syncthreads();
  lds_fragment(frag_A[0], shared_A, T::STEP_M);
  lds_fragment(frag_B[0], shared_B, T::STEP_N);

  int now = 0;  // where the stage begins
#pragma unroll 1
  for (int left = last - first; left > 0; --left) {
    int next = now + T::STAGE < T::STAGES * T::STAGE ? now + T::STAGE : 0;
#pragma unroll
    for (int p = 0; p < T::BK; ++p) {
      if (p + 1 < T::BK) {
        lds_fragment(frag_A[(p + 1) % 2], shared_A + now + (p + 1) * T::PITCH_A, T::STEP_M);
        lds_fragment(frag_B[(p + 1) % 2], shared_B + now + (p + 1) * T::BN, T::STEP_N);
      } else if (left > 1) {
        // The next stage has arrived, and no thread reads this one any more: it takes the tiles STAGES steps further.
        __pipeline_wait_prior(T::STAGES - 2);
        __syncthreads();
        lds_fragment(frag_A[0], shared_A + next, T::STEP_M);
        lds_fragment(frag_B[0], shared_B + next, T::STEP_N);
        if (to_copy > 0) {
          copies.next(shared + now, 0);
        }
        --to_copy;
        __pipeline_commit();
      }
      add_outer_product(frag_A[p % 2], frag_B[p % 2], sum);
    }
    now = next;
  }
}

template <class T, int WIDTH_B>
__global__ void __launch_bounds__(T::THREADS, T::BLOCKS) sgemm_fastest(Gemm g, Plan plan, float* rooms) {
  static_assert(T::GROUPS == 1, "all warps of a block take the same stages");
  float* shared = dynamic_shared<float>();
  for_each_part<T>(plan, [&](Tile tile, int first, int last, int room) {
    float sum[T::TM][T::TN] = {};
    multiply<T, WIDTH_B>(g, tile, plan, first, last, shared, sum);
    if (room < 0) {
      store_tile<T>(g, tile, sum);
    } else {
      store_part<T>(rooms, room, sum);
    }
  });
}

template <class T>
cudaError_t run_alike(const Gemm& g, const Plan& plan, float* rooms, int, cudaStream_t stream) {
  bool vectors_B = vector_width(g.B, g.ldb) == 4 && g.n % 4 == 0;
  auto kernel = vectors_B ? sgemm_fastest<T, 4> : sgemm_fastest<T, 1>;
  dim3 grid(static_cast<unsigned>(plan.whole) + plan.sharers);
  return launch(kernel, grid, dim3(T::THREADS), T::SHARED_BYTES, stream, g, plan, rooms);
}
