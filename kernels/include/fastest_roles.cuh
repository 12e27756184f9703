// The loop of `fastest` with two kinds of warps, for compute capability 9.0 and up. Eight warps multiply. Four more only
// copy: B by the bulk copy engine, A, which the engine cannot transpose, through registers. Who multiplies only waits for
// a full stage and gives it back, and stores results while the next tile is already on its way.
#pragma once

#include <cuda_pipeline.h>

#include "fastest_work.cuh"

#if defined(__CUDACC__) && __CUDA_ARCH_LIST__ >= 900
#define HAS_COPYING_WARPS

#include "bulk_copy.cuh"

constexpr int COPIERS = 128;  // threads that only copy

// Of the registers that a block gets, 168 a thread, the copiers give away what the others need: more of them where their
// share of A is small and on its way for one step only.
template <class T>
constexpr bool SMALL_SHARE = T::BM <= 64 && T::GROUPS == 1;
template <class T>
constexpr int COPIER_REGISTERS = SMALL_SHARE<T> ? 72 : 88;
template <class T>
constexpr int MULTIPLIER_REGISTERS = SMALL_SHARE<T> ? 216 : 208;

// Steps of k in the main loop: more at a time, and it would not fit into the instruction cache.
constexpr int UNROLLED = 8;

template <class T>
constexpr int BOX_COLS = T::BN < 256 ? T::BN : 256;  // no box of the engine is wider

// A place in a ring of stages: which, and the parity of how often it has come round.
template <int STAGES>
struct Turn {
  int stage = 0;
  int parity = 0;
  __device__ void forth(int by) {
    stage += by;
    int round = stage >= STAGES;
    stage -= round ? STAGES : 0;
    parity ^= round;
  }
  __device__ void back(int by) {
    stage -= by;
    int round = stage < 0;
    stage += round ? STAGES : 0;
    parity ^= round;
  }
};

// The groups' sums of a tile are added up in shared memory, in the order of the groups; each group stores a part.
template <class T>
__device__ inline void store_sum_of_groups(const Gemm& g, Tile tile, float* shared, int group, float* rooms, int room,
                                           const float (&sum)[T::TM][T::TN]) {
  int thread = threadIdx.x % T::GROUP_THREADS;
  int row = tile.row + T::row_of(thread);
  int col = tile.col + T::col_of(thread);
  int width_C = vector_width(g.C, g.ldc);
  barrier_of<T::THREADS>();  // no one reads the stages any more
  store_part<T>(shared, group, sum);
  barrier_of<T::THREADS>();
  for (int i = group; i < T::TM; i += T::GROUPS) {
    float4 total[T::TN / 4];
#pragma unroll
    for (int j = 0; j < T::TN; j += 4) {
      total[j / 4] = *part<T>(shared, 0, i, j, thread);
#pragma unroll
      for (int other = 1; other < T::GROUPS; ++other) {
        total[j / 4] = total[j / 4] + *part<T>(shared, other, i, j, thread);
      }
      if (room >= 0) {
        *part<T>(rooms, room, i, j, thread) = total[j / 4];
      }
    }
    if (room < 0 && row + T::row(i) < g.m) {
#pragma unroll
      for (int j = 0; j < T::TN; j += 4) {
        store_added(g, row + T::row(i), col + T::col(j), total[j / 4], width_C);
      }
    }
  }
}

// A copier's share of A's tile, on its way from memory through registers to a stage: vectors of four steps of k. A warp
// takes two of each of 16 rows, whole sectors, and writes to 32 banks.
template <class T>
struct ShareOfA {
  static constexpr int ROWS = COPIERS / (T::BK / 4);  // of all copiers at a time
  static constexpr int VECTORS = T::BM / ROWS;
  static_assert(T::BK == 16 && T::BM % ROWS == 0, "the lanes are laid out for four vectors of a row");

  alignas(16) float share[VECTORS][4];

  static __device__ int row(int copier) { return copier / 64 * 16 + copier % 32 / 2; }
  static __device__ int step(int copier) { return copier / 32 % 2 * 8 + copier % 2 * 4; }

  // Where the thread's vectors lie in the rows of a tile, at step 0. Beyond the last row of A lies that row again: what is
  // computed from it is not stored.
  struct Rows {
    const float* from[VECTORS];

    __device__ Rows(const Gemm& g, int row, int step) {
#pragma unroll
      for (int i = 0; i < VECTORS; ++i) {
        from[i] = g.A + (row + i * ROWS < g.m ? row + i * ROWS : g.m - 1) * g.lda + step;
      }
    }
  };

  // From step p of k on, a stage's first. Beyond k it takes zeros.
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

  // `to` is where the thread's first row and step lie in the stage.
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

// A tile of B, float by float, where the engine cannot read the matrix.
template <class T>
__device__ inline void copy_tile_B(float* to, const Gemm& g, int col, int p, int copier) {
  const float* B = g.B + p * g.ldb;
#pragma unroll 1  // few registers
  for (int q = 0; q < T::BK; ++q) {
#pragma unroll
    for (int c = 0; c < T::BN; c += COPIERS) {
      int own = c + copier;
      if (T::BN >= COPIERS || own < T::BN) {
        __pipeline_memcpy_async(to + c / BOX_COLS<T> * (BOX_COLS<T> * T::BK) + q * BOX_COLS<T> + own % BOX_COLS<T>,
                                B + (col + own < g.n ? col + own : g.n - 1), 4, p + q < g.k ? 0 : 4);
      }
    }
    B += g.ldb;
  }
}

template <class T>
__global__ void __launch_bounds__(T::THREADS + COPIERS, T::BLOCKS)
    sgemm_fastest_roles(Gemm g, Plan plan, float* rooms, const __grid_constant__ CUtensorMap map_B, bool engine,
                        bool aligned_A) {
  float* shared = dynamic_shared<float>();
  __shared__ uint64_t full[T::STAGES];   // the copies to a stage have arrived
  __shared__ uint64_t empty[T::STAGES];  // every warp has read it
  __shared__ uint64_t unused;            // every warp has left the sums of the tile before
  int tid = threadIdx.x;
  if (tid == 0) {
    for (int stage = 0; stage < T::STAGES; ++stage) {
      mbarrier_init(&full[stage], COPIERS + (engine ? 1 : COPIERS));
      mbarrier_init(&empty[stage], T::GROUP_THREADS / 32);
    }
    mbarrier_init(&unused, T::THREADS / 32);
    mbarrier_init_fence();
  }
  __syncthreads();
  let_second_kernel_begin();
  Turn<T::STAGES> turn;

  if (tid >= T::THREADS) {
    give_registers<COPIER_REGISTERS<T>>();
    int copier = tid - T::THREADS;
    int row = ShareOfA<T>::row(copier);
    int p = ShareOfA<T>::step(copier);
    int parity_unused = 1;
    for_each_part<T>(plan, [&](Tile tile, int first, int last, int) {
      // A's tile is asked for AHEAD steps before it is stored in a stage, B's goes there by itself.
      constexpr int AHEAD = T::GROUPS > 1 ? 2 : 1;  // small tiles are over soon
      ShareOfA<T> shares[AHEAD + 1];
      typename ShareOfA<T>::Rows rows(g, tile.row + row, p);
#pragma unroll
      for (int i = 0; i < AHEAD; ++i) {
        if (first + i < last) {
          shares[i].load(rows, (first + i) * T::BK, g.k, aligned_A);
        }
      }
      if (T::GROUPS > 1) {
        mbarrier_wait(&unused, parity_unused);
        parity_unused ^= 1;
      }
#pragma unroll 1
      for (int step = first; step < last;) {
#pragma unroll
        for (int i = 0; i <= AHEAD && step < last; ++i, ++step) {
          if (step + AHEAD < last) {
            shares[(i + AHEAD) % (AHEAD + 1)].load(rows, (step + AHEAD) * T::BK, g.k, aligned_A);
          }
          float* to = shared + turn.stage * T::STAGE;
          uint64_t* arrived = &full[turn.stage];
          mbarrier_wait(&empty[turn.stage], turn.parity ^ 1);
          if (!engine) {
            copy_tile_B<T>(to + T::TILE_A, g, tile.col, step * T::BK, copier);
            mbarrier_arrive_copies(arrived);
          } else if (copier == 0) {
            mbarrier_arrive_expect(arrived, T::BK * T::BN * 4);
#pragma unroll
            for (int c = 0; c < T::BN; c += BOX_COLS<T>) {
              bulk_copy_box(to + T::TILE_A + c * T::BK, &map_B, step * T::BK, tile.col + c, arrived);
            }
          }
          shares[i].store(to + p * T::PITCH_A + row);
          mbarrier_arrive(arrived);
          turn.forth(1);
        }
      }
    });
    __pipeline_commit();
    __pipeline_wait_prior(0);
    return;
  }

  take_registers<MULTIPLIER_REGISTERS<T>>();
  // The same in all lanes of a warp, which the compiler cannot know of a quotient of the thread's number.
  int group = T::GROUPS == 1 ? 0 : __shfl_sync(0xFFFFFFFF, tid / T::GROUP_THREADS, 0);
  const float* shared_A = shared + T::row_of(tid);
  const float* shared_B =
      shared + T::TILE_A + T::col_of(tid) / BOX_COLS<T> * (BOX_COLS<T> * T::BK) + T::col_of(tid) % BOX_COLS<T>;
  for_each_part<T>(plan, [&](Tile tile, int first, int last, int room) {
    alignas(16) float frag_A[2][T::TM];
    alignas(16) float frag_B[2][T::TN];
    float sum[T::TM][T::TN] = {};
    int left = (last - first - group + T::GROUPS - 1) / T::GROUPS;  // stages of this group
    int past = group + left * T::GROUPS - (last - first);           // how far beyond the part they lead
    turn.forth(group);
    const float* now_A = shared_A + turn.stage * T::STAGE;
    const float* now_B = shared_B + turn.stage * T::STAGE;
    if (left > 0) {
      mbarrier_wait(&full[turn.stage], turn.parity);
      lds_fragment(frag_A[0], now_A, T::STEP_M);
      lds_fragment(frag_B[0], now_B, T::STEP_N);
    }
    int p = 0;
#pragma unroll 1
    while (left > 0) {
      uint64_t* read = &empty[turn.stage];
      p += UNROLLED;
#pragma unroll
      for (int q = 0; q < UNROLLED; ++q) {
        if (q + 1 < UNROLLED) {
          lds_fragment(frag_B[(q + 1) % 2], now_B + (q + 1) * BOX_COLS<T>, T::STEP_N);
          lds_fragment(frag_A[(q + 1) % 2], now_A + (q + 1) * T::PITCH_A, T::STEP_M);
        } else {
          now_A += UNROLLED * T::PITCH_A;
          now_B += UNROLLED * BOX_COLS<T>;
          if (p == T::BK) {
            turn.forth(T::GROUPS);
            now_A = shared_A + turn.stage * T::STAGE;
            now_B = shared_B + turn.stage * T::STAGE;
            --left;
            if (left > 0) {
              mbarrier_wait(&full[turn.stage], turn.parity);
            }
          }
          if (left > 0) {
            lds_fragment(frag_A[0], now_A, T::STEP_M);
            lds_fragment(frag_B[0], now_B, T::STEP_N);
          }
        }
        add_outer_product(frag_A[q % 2], frag_B[q % 2], sum);
      }
      // The stage is given back only now: what was read from it has been multiplied, so it has surely arrived.
      if (p == T::BK) {
        p = 0;
        __syncwarp();
        if (tid % 32 == 0) {
          mbarrier_arrive(read);
        }
      }
    }
    turn.back(past);
    if constexpr (T::GROUPS > 1) {
      store_sum_of_groups<T>(g, tile, shared, group, rooms, room, sum);
      bulk_copy_fence();
      __syncwarp();
      if (tid % 32 == 0) {
        mbarrier_arrive(&unused);
      }
    } else if (room < 0) {
      store_tile<T>(g, tile, sum);
    } else {
      store_part<T>(rooms, room, sum);
    }
  });
}

template <class T>
cudaError_t run_roles(const Gemm& g, const Plan& plan, float* rooms, int sms, cudaStream_t stream) {
  CUtensorMap map_B = {};
  bool engine = make_tensor_map(&map_B, g.B, g.k, g.n, g.ldb, T::BK, BOX_COLS<T>, CU_TENSOR_MAP_SWIZZLE_NONE);
  dim3 grid(std::min(plan.whole + plan.sharers, sms * T::BLOCKS));
  return launch(sgemm_fastest_roles<T>, grid, dim3(T::THREADS + COPIERS), T::SHARED_BYTES, stream, g, plan, rooms,
                map_B, engine, vector_width(g.A, g.lda) == 4);
}

#endif
