// fastest: every SM busy to the end, and register banks that do not collide. FP32 FMAs on CUDA cores only.
//
// Against `async_copy`:
// - Stream-K: the tiles of all full waves are computed by a block each; the others, in a row of steps of k, tile after
//   tile, are shared evenly among as many blocks as the SMs hold. A tile that several blocks worked at is added up by a
//   second kernel from the workspace, in the order of k: the same result in every run.
// - Tiles of several shapes, down to 32 x 32. A model of the cycles on the busiest SM (`consider`) chooses the shape and
//   the number of blocks from m, n, k and the number of SMs.
// - Register banks: an FFMA reads three registers, and each of the two banks (even and odd numbers) serves one a cycle.
//   One of the three should come from the reuse cache, and the other two from different banks. The order of the outer
//   product, down a column and up the next, lets the compiler keep B's element for TM FFMAs; and no sum is stored as it
//   is (each is scaled by alpha first), so that no vector store asks for four neighbouring sums in aligned registers.
// - Nothing in the main loop looks at the edges: a tile that reaches over an edge reads the last row or column again,
//   and the first step of k, not the last, is the short one.
//
// Limit: issue slots, 92 % of which are FFMAs in the main loop of the large tile, and the bank conflicts that are left.
//
// Occupancy: the large tile takes up to 255 registers a thread (128 sums, 48 of fragments), one block of 256 threads, 8
// of an SM's 64 warps, and 97 KiB of shared memory for 4 stages.
#include <cuda_pipeline.h>

#include "gemm.cuh"
#include "vector.cuh"

// How a block computes a tile of BM x BN results, BK steps of k at a time.
template <int BM_, int BN_, int BK_, int STAGES_, int TM_, int TN_, int WM_, int WN_, int BLOCKS_>
struct Tiling {
  static constexpr int BM = BM_, BN = BN_, BK = BK_, STAGES = STAGES_;
  static constexpr int TM = TM_, TN = TN_;  // results of a thread
  static constexpr int WM = WM_, WN = WN_;  // and of a warp
  static constexpr int BLOCKS = BLOCKS_;    // that an SM holds
  static constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
  static constexpr int PITCH_A = BM + 4;        // keeps the transposing copies of A off each other's banks
  static constexpr int STEP_M = WM / (TM / 4);  // rows between a thread's vectors
  static constexpr int STEP_N = WN / (TN / 4);  // columns between them
  static constexpr int TILE_A = BK * PITCH_A;   // floats of a stage that hold A's tile, transposed; B's tile follows
  static constexpr int STAGE = TILE_A + BK * BN;
  static constexpr int VECTORS = TM * TN / 4;  // of results of a thread
  static constexpr size_t SHARED_BYTES = sizeof(float) * STAGES * STAGE;
  static_assert(TM % 4 == 0 && TN % 4 == 0, "a thread tile must consist of whole vectors");
  static_assert(WM % TM == 0 && WN % TN == 0 && (WM / TM) * (WN / TN) == 32,
                "32 thread tiles must cover the warp tile");
  static_assert(BM % WM == 0 && BN % WN == 0, "the warp tiles must cover the block tile");
  static_assert(BK % 8 == 0 && BM % (THREADS / 8) == 0, "whole rows of A's tile in a pass, 8 steps of p at a time");

  // The first row and column of a thread in its block's tile.
  static __device__ int thread_row() { return threadIdx.x / 32 / (BN / WN) * WM + threadIdx.x % 32 / (WN / TN) * 4; }
  static __device__ int thread_col() { return threadIdx.x / 32 % (BN / WN) * WN + threadIdx.x % 32 % (WN / TN) * 4; }
  // The row and column of its vector v of results, from there.
  static __device__ constexpr int row(int v) { return v * 4 / TN / 4 * STEP_M + v * 4 / TN % 4; }
  static __device__ constexpr int col(int v) { return v * 4 % TN / 4 * STEP_N; }
};

using Large = Tiling<128, 256, 16, 4, 8, 16, 32, 128, 1>;
using Wide = Tiling<64, 256, 16, 4, 8, 16, 64, 64, 2>;
using Tall = Tiling<128, 64, 16, 4, 8, 8, 64, 32, 3>;
using Square = Tiling<64, 64, 16, 4, 8, 4, 32, 32, 4>;
using Small = Tiling<32, 64, 32, 3, 4, 4, 16, 32, 4>;
using Tiny = Tiling<32, 32, 32, 3, 4, 4, 32, 16, 8>;

// How a product is cut. Blocks 0 .. whole - 1 compute a tile each. The other tiles lie in a row, tiles_k steps each, and
// the `sharers`, the blocks that follow, take even parts of that row.
struct Plan {
  int tiles_m, tiles_n, tiles_k;
  int whole, sharers;
  int64_t steps, longer;  // a sharer's steps; the first `longer` have one more
};

__host__ __device__ inline int64_t first_step(const Plan& plan, int64_t sharer) {
  return sharer * plan.steps + (sharer < plan.longer ? sharer : plan.longer);
}

__device__ inline int sharer_of_step(const Plan& plan, int64_t step) {
  int64_t in_longer = plan.longer * (plan.steps + 1);
  return static_cast<int>(step < in_longer ? step / (plan.steps + 1) : plan.longer + (step - in_longer) / plan.steps);
}

// Whether any tile has more than one sharer.
inline bool has_parts(const Plan& plan) {
  return plan.sharers > 0 && (plan.longer > 0 || plan.steps % plan.tiles_k != 0);
}

// Tiles are numbered in groups of some 2048 rows, down their columns, so that blocks that run together share rows of A
// and columns of B in the L2 cache.
template <class T>
__device__ inline Tile place(const Plan& plan, int tile) {
  constexpr int GROUP = 2048 / T::BM;
  int first = tile / (GROUP * plan.tiles_n) * GROUP;
  int rows = plan.tiles_m - first < GROUP ? plan.tiles_m - first : GROUP;
  int i = tile % (GROUP * plan.tiles_n);
  return {(first + i % rows) * T::BM, i / rows * T::BN};
}

// The copies of one thread from global to shared memory, a tile of A and a tile of B at a time.
template <class T, bool INSIDE, int WIDTH_B>
struct Copies {
  static constexpr int ROWS_A = T::THREADS / 8;  // a warp copies 4 rows of A by 8 steps of p: whole sectors, 32 banks
  static constexpr int COLS_B = T::THREADS * WIDTH_B < T::BN ? T::THREADS * WIDTH_B : T::BN;
  static constexpr int ROWS_B = T::THREADS * WIDTH_B / COLS_B;
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
      const float* from = A + (INSIDE || i < last_row ? i : last_row) * lda;
#pragma unroll
      for (int p = 0; p < T::BK; p += 8) {
        float* to = stage + to_A + p * T::PITCH_A + i;
        if (p + p_A >= missing) {
          __pipeline_memcpy_async(to, from + p, 4);
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
          __pipeline_memcpy_async(to, from + (INSIDE || c < last_col ? c : last_col), 4 * WIDTH_B);
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

// Shared memory to registers: the vectors of a thread in a row of a tile, `step` floats apart.
template <int LENGTH>
__device__ inline void lds_fragment(float (&to)[LENGTH], const float* from, int step) {
#pragma unroll
  for (int i = 0; i < LENGTH / 4; ++i) {
    copy_vector<4>(&to[4 * i], from + i * step);
  }
}

// Adds the products of the steps first .. last - 1 of a tile. The first step of all is the short one, if k is no multiple
// of BK. INSIDE: the tile reaches over no edge.
template <class T, bool INSIDE, int WIDTH_B>
__device__ inline void multiply(const Gemm& g, Tile tile, const Plan& plan, int first, int last, float* shared,
                                float (&sum)[T::TM][T::TN]) {
  int missing = plan.tiles_k * T::BK - g.k;
  Copies<T, INSIDE, WIDTH_B> copies(g, tile, first * T::BK - missing);
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

  const float* shared_A = shared + T::thread_row();
  const float* shared_B = shared + T::TILE_A + T::thread_col();
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
      // Down a column, up the next: B's element stays for TM FFMAs, A's for two at each turn.
#pragma unroll
      for (int j = 0; j < T::TN; ++j) {
#pragma unroll
        for (int turn = 0; turn < T::TM; ++turn) {
          int i = j % 2 == 0 ? turn : T::TM - 1 - turn;
          sum[i][j] += frag_A[p % 2][i] * frag_B[p % 2][j];
        }
      }
    }
    now = next;
  }
}

// The room of a thread's vector of results in the workspace. A sharer needs two rooms: it begins inside one tile and ends
// inside another; the tiles between are its own.
template <class T>
__device__ inline float4* part(float* parts, int64_t room, int v) {
  return reinterpret_cast<float4*>(parts) + (room * T::VECTORS + v) * T::THREADS + threadIdx.x;
}

template <class T>
__device__ inline void store_part(float* parts, int64_t room, float alpha, const float (&sum)[T::TM][T::TN]) {
#pragma unroll
  for (int v = 0; v < T::VECTORS; ++v) {
    const float* s = &sum[v * 4 / T::TN][v * 4 % T::TN];
    *part<T>(parts, room, v) = float4{alpha * s[0], alpha * s[1], alpha * s[2], alpha * s[3]};
  }
}

// All of a tile's results. A tile inside C, aligned, with beta = 0, has a short way of its own: an instruction that is met
// for the first time comes from far away.
template <class T>
__device__ inline void store_tile(const Gemm& g, Tile tile, const float (&sum)[T::TM][T::TN]) {
  int row = tile.row + T::thread_row();
  int col = tile.col + T::thread_col();
  int width_C = vector_width(g.C, g.ldc);
  if (width_C == 4 && g.beta == 0.0f && tile.row + T::BM <= g.m && tile.col + T::BN <= g.n) {
    float* C = g.C + row * g.ldc + col;
#pragma unroll
    for (int v = 0; v < T::VECTORS; ++v) {
      const float* s = &sum[v * 4 / T::TN][v * 4 % T::TN];
      *reinterpret_cast<float4*>(C + T::row(v) * g.ldc + T::col(v)) =
          float4{g.alpha * s[0], g.alpha * s[1], g.alpha * s[2], g.alpha * s[3]};
    }
    return;
  }
#pragma unroll
  for (int v = 0; v < T::VECTORS; ++v) {
    if (row + T::row(v) < g.m) {
      int left = g.n - col - T::col(v);
      store_vector(g, row + T::row(v), col + T::col(v), &sum[v * 4 / T::TN][v * 4 % T::TN], 0, left, width_C);
    }
  }
}

template <class T, int WIDTH_B>
__global__ void __launch_bounds__(T::THREADS, T::BLOCKS) sgemm_fastest(Gemm g, Plan plan, float* parts) {
  float* shared = dynamic_shared<float>();
  int sharer = static_cast<int>(blockIdx.x) - plan.whole;  // negative: a tile of its own
  int64_t row_begin = static_cast<int64_t>(plan.whole) * plan.tiles_k;
  int64_t begin = sharer < 0 ? blockIdx.x * static_cast<int64_t>(plan.tiles_k) : row_begin + first_step(plan, sharer);
  int64_t end = sharer < 0 ? begin + plan.tiles_k : row_begin + first_step(plan, sharer + 1);
  for (int64_t step = begin; step < end;) {
    int first = static_cast<int>(step % plan.tiles_k);
    int last = end - step < plan.tiles_k - first ? first + static_cast<int>(end - step) : plan.tiles_k;
    Tile tile = place<T>(plan, static_cast<int>(step / plan.tiles_k));
    float sum[T::TM][T::TN] = {};
    if (g.m - tile.row >= T::BM && g.n - tile.col >= T::BN) {
      multiply<T, true, WIDTH_B>(g, tile, plan, first, last, shared, sum);
    } else {
      multiply<T, false, WIDTH_B>(g, tile, plan, first, last, shared, sum);
    }
    if (first == 0 && last == plan.tiles_k) {
      store_tile<T>(g, tile, sum);
    } else {
      store_part<T>(parts, 2 * static_cast<int64_t>(sharer) + (step > begin), g.alpha, sum);
    }
    step += last - first;
  }
}

// Adds the parts of each tile that has several sharers, in the order of k. A block adds one vector of each thread.
template <class T>
__global__ void __launch_bounds__(T::THREADS) add_parts(Gemm g, Plan plan, float* parts) {
  int v = blockIdx.x % T::VECTORS;
  int tile_left = blockIdx.x / T::VECTORS;
  int64_t begin = static_cast<int64_t>(tile_left) * plan.tiles_k;
  int from = sharer_of_step(plan, begin);
  int until = sharer_of_step(plan, begin + plan.tiles_k - 1);
  Tile tile = place<T>(plan, plan.whole + tile_left);
  int row = tile.row + T::thread_row() + T::row(v);
  int col = tile.col + T::thread_col() + T::col(v);
  if (from == until || row >= g.m || col >= g.n) {
    return;
  }
  // The first sharer may have begun before this tile: then this is the second of its rooms.
  float4 sum = *part<T>(parts, 2 * static_cast<int64_t>(from) + (first_step(plan, from) < begin), v);
#pragma unroll 8
  for (int sharer = from + 1; sharer <= until; ++sharer) {
    float4 more = *part<T>(parts, 2 * static_cast<int64_t>(sharer), v);
    sum = float4{sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w};
  }
  g.alpha = 1.0f;  // the parts are scaled
  alignas(16) float scaled[4] = {sum.x, sum.y, sum.z, sum.w};
  store_vector(g, row, col, scaled, 0, g.n - col, vector_width(g.C, g.ldc));
}

template <class T>
cudaError_t run_plan(const Gemm& g, const Plan& plan, float* parts, cudaStream_t stream) {
  bool vectors_B = vector_width(g.B, g.ldb) == 4 && g.n % 4 == 0;
  auto kernel = vectors_B ? sgemm_fastest<T, 4> : sgemm_fastest<T, 1>;
  dim3 grid(static_cast<unsigned>(plan.whole) + plan.sharers);
  cudaError_t error = launch(kernel, grid, dim3(T::THREADS), T::SHARED_BYTES, stream, g, plan, parts);
  if (error != cudaSuccess || !has_parts(plan)) {
    return error;
  }
  dim3 vectors((static_cast<unsigned>(plan.tiles_m) * plan.tiles_n - plan.whole) * T::VECTORS);
  return launch(add_parts<T>, vectors, dim3(T::THREADS), 0, stream, g, plan, parts);
}

// A plan with a tiling, and what the model says of it.
struct Choice {
  Plan plan;
  size_t workspace_bytes;
  cudaError_t (*run)(const Gemm&, const Plan&, float*, cudaStream_t);
  double cycles;
};

// Replaces `best` by the best plan for one tiling, if that has fewer cycles on the busiest SM by this model:
// - BLOCKS blocks on an SM get `full` FMAs a cycle together (128 would be the peak), a block alone gets `alone`.
// - A wave of blocks takes some thousand cycles more to fill the first stages and to store the results, which other
//   blocks on the SM hide in part. A sharer with a tile at an edge is slower, which matters least where others wait less.
// - Parts cost a launch, 8000 cycles, and each float of them is written and read at 16 bytes a cycle and SM.
template <class T>
void consider(const Gemm& g, int sms, double alone, double full, Choice* best) {
  constexpr double WAVE = 2000.0 + 8000.0 / T::BLOCKS, LAUNCH = 8000.0, BYTES = 16.0;
  double edge = g.m % T::BM != 0 || g.n % T::BN != 0 ? 1.0 + 0.12 / T::BLOCKS : 1.0;
  Plan plan = {ceil_div(g.m, T::BM), ceil_div(g.n, T::BN), ceil_div(g.k, T::BK), 0, 0, 0, 0};
  int64_t tiles = static_cast<int64_t>(plan.tiles_m) * plan.tiles_n;
  int64_t slots = static_cast<int64_t>(sms) * T::BLOCKS;
  auto wave = [&](int64_t blocks, double steps) {
    int64_t on_sm = (blocks + sms - 1) / sms;
    double rate = T::BLOCKS == 1 ? full : alone + (full - alone) * (on_sm - 1) / (T::BLOCKS - 1);
    return WAVE + on_sm * steps * T::BM * T::BN * T::BK / rate;
  };

  // Every tile a block of its own, or only those of full waves, and the others shared by some number of blocks.
  for (int64_t whole : {tiles, tiles / slots * slots}) {
    int64_t steps_left = (tiles - whole) * plan.tiles_k;
    int64_t most = std::min(slots, steps_left);
    for (int64_t sharers = tiles - whole; sharers <= most;) {
      plan.whole = static_cast<int>(whole);
      plan.sharers = static_cast<int>(sharers);
      plan.steps = sharers > 0 ? steps_left / sharers : 0;
      plan.longer = sharers > 0 ? steps_left % sharers : 0;
      double cycles = static_cast<double>(whole / slots) * wave(slots, plan.tiles_k);
      if (whole % slots > 0) {
        cycles += wave(whole % slots, plan.tiles_k);
      }
      if (sharers > 0) {
        cycles += wave(sharers, edge * (plan.steps + (plan.longer > 0)));
      }
      size_t workspace_bytes = 0;
      if (has_parts(plan)) {
        workspace_bytes = sizeof(float) * 2 * sharers * T::BM * T::BN;
        cycles += LAUNCH + static_cast<double>(sharers + tiles - whole) * 8 * T::BM * T::BN / (BYTES * sms);
      }
      if (best->run == nullptr || cycles < best->cycles) {
        *best = {plan, workspace_bytes, run_plan<T>, cycles};
      }
      if (sharers == most) {
        break;
      }
      sharers = std::min(most, sharers + tiles - whole);  // so many whole splits of each tile, at last all slots
    }
  }
}

cudaError_t choose(const Gemm& g, Choice* best) {
  int sms = 1;
  cudaError_t error = sm_count(&sms);
  *best = {};
  consider<Large>(g, sms, 100, 100, best);
  consider<Wide>(g, sms, 60, 92, best);
  consider<Tall>(g, sms, 50, 89, best);
  consider<Square>(g, sms, 60, 81, best);
  consider<Small>(g, sms, 50, 61, best);
  consider<Tiny>(g, sms, 29, 54, best);
  return error;
}

size_t workspace_for(const Gemm& g) {
  Choice choice;
  choose(g, &choice);
  return choice.workspace_bytes;
}

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  Choice choice;
  cudaError_t error = choose(g, &choice);
  return error != cudaSuccess ? error : choice.run(g, choice.plan, static_cast<float*>(workspace), stream);
}

EXPORT_SGEMM_WITH_WORKSPACE(run, workspace_for)
