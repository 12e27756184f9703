// fastest: every SM is busy to the end, and its main loop is little but FMAs. FP32 FMAs on CUDA cores only.
//
// Against `async_copy`:
// - Stream-K (stream_k.cuh): the tiles of all full waves are computed by one block each. The steps of k of the other
//   tiles are shared evenly among as many blocks as the SMs hold. A second kernel adds the partial sums of a shared
//   tile from the workspace, always in the same order, so that every run has the same result.
// - Ten kinds of tiles, down to 32 x 32. A model of the cycles on the busiest SM (`consider`) chooses the kind and
//   the number of blocks from m, n, k and the number of SMs. A small tile has a block of few warps, so that a thread still
//   has 8 x 4 or 8 x 8 results, or groups of warps that share the steps of k, so that it has 8 x 16. Only `Light` has
//   threads of 4 x 4 results: for products that do not fill the GPU, of which each block should be short.
// - Three kernels without tiles, which the same model chooses: `sgemm_few_columns` and `sgemm_few_rows` where C has at most
//   32 columns or 16 rows and the large matrix streams from memory once, `sgemm_short_k` where k is at most 32 and C
//   streams to memory. The first two split k among the warps of a block and, from compute capability 9.0 on, among the
//   blocks of a cluster, whose sums meet in shared memory (thin_sums.cuh). Rows may begin anywhere: lanes take neighbouring
//   floats, or vectors of every fourth row, which are shifted alike.
// - Two kernels for tiles. In `sgemm_fastest` all warps copy and multiply, as in `async_copy`. From compute capability 9.0 on,
//   the large tiles take `sgemm_fastest_roles`, in which four more warps do nothing but copy, as in `tma`. Its blocks
//   stay and take one tile after the other, so that the copies for the next tile begin while results are stored.
// - Register banks: an FFMA reads three registers, and each of the two banks (even and odd numbers) serves one a cycle.
//   One of the three should come from the reuse cache and the other two from different banks. The order of the outer
//   product and the layout of partial sums serve that (fastest_tile.cuh, stream_k.cuh).
// - Matrices whose rows are not aligned to 16 bytes: the copy engine cannot read them, and a vector takes four loads.
//   Where the model says that it pays, such a matrix is first copied to the workspace, and the main kernel is launched
//   while the copy ends (engine_copies.cuh). Where rows of C are not aligned, results pass through shared memory, so that
//   neighbouring lanes store neighbouring columns (store_rows, store_unaligned).
// - What a block does before it loads anything, and after its last step of k, is short, because instructions that run for the
//   first time have to be fetched from memory: stores to unaligned rows (docs/performance.md, story 17), and divisions, for
//   which the host hands over the factors (divisor.cuh; story 29).
// - The main loop does not look at the edges: what a tile reads beyond the last step of k is zero. Beyond an edge of C it
//   reads other rows and columns, whose results are not stored: different ones, because lanes that copy the same float
//   seem to wait for each other (within; docs/performance.md, story 18).
//
// Limit: issue slots, of which 91 % are FFMAs in the main loop, and the conflicts between register banks that are left.
// Where rows of B are not aligned, its floats are copied one by one, or two by two where its rows are aligned to 8 bytes;
// there it may be slower than cuBLAS (snakemake survey).
//
// Occupancy: in the wide tile, which large products take, a thread that multiplies has 216 registers (128 sums, 48 of fragments)
// and one that copies has 72. These are 8 and 4 of an SM's 64 warps. Four stages and the results on their way to C take
// 165 KiB of shared memory.
#include <cuda_pipeline.h>

#include <climits>
#include <cmath>

#include "engine_copies.cuh"
#include "fastest_copies.cuh"
#include "fastest_tile.cuh"
#include "gemm.cuh"
#include "second_kernel.cuh"
#include "stream_k.cuh"
#include "thin_sums.cuh"
#include "vector.cuh"

#if defined(__CUDACC__) && __CUDA_ARCH_LIST__ >= 900
#define HAS_COPYING_WARPS
#include "copying_warps.cuh"
#endif

// Tiles: BM x BN x BK, stages, TM x TN of a thread, WM x WN of a warp, blocks on an SM, groups of warps.
#ifdef HAS_COPYING_WARPS
using Large = Tiling<128, 256, 16, 4, 8, 16, 32, 128>;
using Wide = Tiling<64, 512, 16, 4, 8, 16, 64, 64>;
using Pair = Tiling<128, 128, 16, 8, 8, 16, 64, 64, 1, 2>;
using Deep = Tiling<64, 128, 16, 12, 8, 16, 64, 64, 1, 4>;
#else
using Large = Tiling<128, 256, 16, 4, 8, 16, 32, 128>;
using Wide = Tiling<64, 256, 16, 4, 8, 16, 64, 64, 2>;
#endif
using Tall = Tiling<128, 64, 8, 6, 8, 8, 64, 32, 3>;
using Flat = Tiling<64, 128, 16, 4, 8, 8, 32, 64, 3>;
using Square = Tiling<64, 64, 8, 6, 8, 8, 32, 64, 6>;
using Small = Tiling<32, 64, 8, 6, 8, 4, 32, 32, 8>;
using Tiny = Tiling<32, 32, 8, 6, 8, 4, 32, 32, 12>;
using Light = Tiling<32, 32, 32, 3, 4, 4, 32, 16, 8>;  // the results of Tiny's tile, on twice as many threads

// The loop in which all warps copy and multiply: adds the products of the steps first .. last - 1 of a tile. The first
// step of k is the short one if k is no multiple of BK.
template <class T, int WIDTH_B>
__device__ inline void multiply(const Gemm& g, Tile tile, const Plan& plan, int first, int last, float* shared,
                                float (&sum)[T::TM][T::TN]) {
  int missing = plan.tiles_k * T::BK - g.k;
  Copies<T, WIDTH_B> copies(g, tile, first * T::BK - missing);
  int to_copy = last - first;
  __syncthreads();  // no thread reads the stages of the previous tile any more
#pragma unroll 1
  for (int stage = 0; stage < T::STAGES; ++stage) {
    if (to_copy > 0) {
      copies.next(shared + stage * T::STAGE, stage == 0 && first == 0 ? missing : 0);
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

  int now = 0;  // the first float of the stage
#pragma unroll 1
  for (int left = last - first; left > 0; --left) {
    int next = now + T::STAGE < T::STAGES * T::STAGE ? now + T::STAGE : 0;
#pragma unroll
    for (int p = 0; p < T::BK; ++p) {
      if (p + 1 < T::BK) {
        lds_fragment(frag_A[(p + 1) % 2], shared_A + now + (p + 1) * T::PITCH_A, T::STEP_M);
        lds_fragment(frag_B[(p + 1) % 2], shared_B + now + (p + 1) * T::BN, T::STEP_N);
      } else if (left > 1) {
        // The next stage has arrived, and no thread reads this one any more. It takes the tiles of STAGES steps later.
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
__global__ void __launch_bounds__(T::THREADS, T::BLOCKS) sgemm_fastest(Gemm g, Plan plan, float* partials) {
  static_assert(T::GROUPS == 1, "all warps of a block take the same stages");
  float* shared = dynamic_shared<float>();
  let_second_kernel_begin();
  for_each_piece<T>(plan, [&](Tile tile, int first, int last, int slot) {
    float sum[T::TM][T::TN] = {};
    multiply<T, WIDTH_B>(g, tile, plan, first, last, shared, sum);
    if (slot < 0) {
      __syncthreads();  // no thread reads the stages any more
      if constexpr (T::IN_STAGES) {
        store_tile_in_stages<T>(g, tile, shared, sum);
      } else {
        store_tile<T>(g, tile, shared, sum);
      }
    } else {
      store_partial<T>(partials, slot, sum);
    }
  });
}

template <class T>
cudaError_t launch_fastest(const Gemm& g, const Plan& plan, float* partials, int, cudaStream_t stream) {
  int width_B = width_of_copies_B(g);
  auto kernel = width_B == 4 ? sgemm_fastest<T, 4> : width_B == 2 ? sgemm_fastest<T, 2> : sgemm_fastest<T, 1>;
  dim3 grid(static_cast<unsigned>(plan.whole) + plan.sharers);
  return launch(kernel, grid, dim3(T::THREADS), sizeof(float) * T::RING, stream, g, with_divisors<T>(plan), partials);
}

#ifdef HAS_COPYING_WARPS

// A block gets 168 registers a thread. The copiers give some of theirs to the warps that multiply: more where a
// copier's share of A is small and it holds the share of one step only.
template <class T>
constexpr bool SMALL_SHARE = T::BM <= 64 && T::GROUPS == 1;
template <class T>
constexpr int COPIER_REGISTERS = SMALL_SHARE<T> ? 72 : 88;
template <class T>
constexpr int MULTIPLIER_REGISTERS = SMALL_SHARE<T> ? 216 : 208;

// The floats of a copy of B where rows begin at multiples of 8 bytes. With pairs, two groups of tall tiles lack registers.
template <class T>
constexpr int COPY_OF_PAIRS = T::BM > 64 && T::GROUPS > 1 ? 1 : 2;

// Elements of k in the body of the main loop. With 16 it would not fit into the instruction cache.
constexpr int UNROLLED = 8;

// WIDTH_B: the floats of a copy of B where the engine cannot read it; with 2 the engine is not asked.
template <class T, int WIDTH_B>
__global__ void __launch_bounds__(T::THREADS + COPIERS, T::BLOCKS)
    sgemm_fastest_roles(Gemm g, Plan plan, float* partials, const __grid_constant__ CUtensorMap map_B, bool engine,
                        bool aligned_A) {
  float* shared = dynamic_shared<float>();
  __shared__ uint64_t full[T::STAGES];   // the copies to a stage have arrived
  __shared__ uint64_t empty[T::STAGES];  // every warp of the group has read it
  __shared__ uint64_t unused;            // no warp needs the groups' sums of the previous tile any more
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
  wait_for_first_kernel();
  let_second_kernel_begin();
  RingPlace<T::STAGES> place;

  if (tid >= T::THREADS) {
    give_registers<COPIER_REGISTERS<T>>();
    int copier = tid - T::THREADS;
    int row = ShareOfA<T>::row(copier);
    int p = ShareOfA<T>::step(copier);
    int parity_unused = 1;
    for_each_piece<T>(plan, [&](Tile tile, int first, int last, int) {
      // A copier loads its share of A AHEAD steps before it stores it in a stage. The engine copies B by itself.
      constexpr int AHEAD = T::GROUPS > 1 ? 2 : 1;  // the steps of small tiles are short
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
          float* to = shared + place.stage * T::STAGE;
          uint64_t* arrived = &full[place.stage];
          mbarrier_wait(&empty[place.stage], place.parity ^ 1);
          if (WIDTH_B > 1 || !engine) {
            copy_tile_B<T, WIDTH_B>(to + T::TILE_A, g, tile.col, step * T::BK, copier);
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
          place.advance(1);
        }
      }
    });
    __pipeline_commit();
    __pipeline_wait_prior(0);
    return;
  }

  take_registers<MULTIPLIER_REGISTERS<T>>();
  // By the shuffle the compiler knows that all lanes of a warp have the same group.
  int group = T::GROUPS == 1 ? 0 : __shfl_sync(0xFFFFFFFF, tid / T::GROUP_THREADS, 0);
  const float* shared_A = shared + T::row_of(tid);
  const float* shared_B =
      shared + T::TILE_A + T::col_of(tid) / BOX_COLS<T> * (BOX_COLS<T> * T::BK) + T::col_of(tid) % BOX_COLS<T>;
  for_each_piece<T>(plan, [&](Tile tile, int first, int last, int slot) {
    alignas(16) float frag_A[2][T::TM];
    alignas(16) float frag_B[2][T::TN];
    float sum[T::TM][T::TN] = {};
    int left = (last - first - group + T::GROUPS - 1) / T::GROUPS;  // stages of this group
    int past = group + left * T::GROUPS - (last - first);           // by how many they go beyond the piece
    place.advance(group);
    const float* now_A = shared_A + place.stage * T::STAGE;
    const float* now_B = shared_B + place.stage * T::STAGE;
    if (left > 0) {
      mbarrier_wait(&full[place.stage], place.parity);
      lds_fragment(frag_A[0], now_A, T::STEP_M);
      lds_fragment(frag_B[0], now_B, T::STEP_N);
    }
    int p = 0;
#pragma unroll 1
    while (left > 0) {
      uint64_t* read = &empty[place.stage];
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
            place.advance(T::GROUPS);
            now_A = shared_A + place.stage * T::STAGE;
            now_B = shared_B + place.stage * T::STAGE;
            --left;
            if (left > 0) {
              mbarrier_wait(&full[place.stage], place.parity);
            }
          }
          if (left > 0) {
            lds_fragment(frag_A[0], now_A, T::STEP_M);
            lds_fragment(frag_B[0], now_B, T::STEP_N);
          }
        }
        add_outer_product(frag_A[q % 2], frag_B[q % 2], sum);
      }
      // The stage is given back only now. What was read from it has been multiplied, so the reads are complete.
      if (p == T::BK) {
        p = 0;
        __syncwarp();
        if (tid % 32 == 0) {
          mbarrier_arrive(read);
        }
      }
    }
    place.retreat(past);
    if constexpr (T::GROUPS > 1) {
      store_sum_of_groups<T>(g, tile, shared, group, partials, slot, sum);
      bulk_copy_fence();
      __syncwarp();
      if (tid % 32 == 0) {
        mbarrier_arrive(&unused);
      }
    } else if (slot < 0) {
      store_tile<T>(g, tile, shared + T::RING, sum);
    } else {
      store_partial<T>(partials, slot, sum);
    }
  });
}

template <class T>
cudaError_t launch_fastest_roles(const Gemm& g, const Plan& plan, float* partials, int sms, cudaStream_t stream) {
  CUtensorMap map_B = {};
  bool engine = make_tensor_map(&map_B, g.B, g.k, g.n, g.ldb, T::BK, BOX_COLS<T>, CU_TENSOR_MAP_SWIZZLE_NONE);
  dim3 grid(std::min(plan.whole + plan.sharers, sms * T::BLOCKS));
  bool pairs_B = !engine && width_of_copies_B(g) == 2;
  auto kernel = pairs_B ? sgemm_fastest_roles<T, COPY_OF_PAIRS<T>> : sgemm_fastest_roles<T, 1>;
  return launch_after_copies(kernel, grid, dim3(T::THREADS + COPIERS), RING_BYTES<T>, stream, g, with_divisors<T>(plan),
                             partials, map_B, engine, vector_width(g.A, g.lda) == 4);
}

#endif

// Products of few rows or few columns. Each element of the large matrix is used a few times only, so what counts is that
// it streams from memory: many loads on their way, each of whole sectors, wherever its rows begin.
constexpr int FEW_ROWS = 16, FEW_COLUMNS = 32;
constexpr int THIN_THREADS = WARPS * 32;

// C has at most N columns. A warp takes ROWS rows of A, a chunk of k at a time. A lane takes four neighbouring steps of each
// row, and the rows of B at these steps, four columns of them: LANES lanes share the steps. Chunks of A come to shared memory
// for one warp, chunks of B for all warps of a block, and the next two are on their way.
//
// A is copied by vectors, wherever its rows begin. A row begins `shift` floats behind a multiple of 16 bytes, so that many
// steps earlier its chunks begin, too. Every fourth row has the same shift, and these are a warp's rows. Its lanes then read
// other rows of B than without a shift, but vectors of A all the same.
template <int N>
struct FewColumns {
  static constexpr int COLS = std::min(N, 4), LANES = N / COLS;
  static constexpr int STEPS = 32 / LANES * 4;  // of k that a warp multiplies at a time
  static constexpr int CHUNK = N > 16 ? 32 : std::max(STEPS, 64), STAGES = 3;
  static constexpr int ROWS = N > 4 ? 8 : 4;
  static constexpr int MOST_WAYS = N > 8 ? 4 : WARPS;  // so that two blocks have room in an SM's shared memory
  static constexpr int VALUES = ROWS * COLS, TILE_A = ROWS * CHUNK;
  // Of four neighbouring rows of B each is in another part, so that lanes read neighbouring vectors. The parts begin at
  // different banks, for the copies. The first row of each part is of the four steps before the chunk,
  // which shifted rows of A reach.
  __host__ __device__ static constexpr int part(int ways) { return (CHUNK / 4 * ways + 1) * N + std::max(N, 8); }
  __host__ __device__ static constexpr int stage(int ways) { return WARPS * TILE_A + 4 * part(ways); }
};
// How far apart a warp's rows of A are, so that all have the same shift.
__host__ __device__ inline int rows_apart(const Gemm& g) { return vector_width(g.A, g.lda) == 4 ? 1 : 4; }
template <int N>
__global__ void __launch_bounds__(THIN_THREADS, 2) sgemm_few_columns(Gemm g, Ways ways) {
  using T = FewColumns<N>;
  constexpr int VECTORS = T::CHUNK / 4, COPIES = T::TILE_A / 128;  // of a row; of a lane
  constexpr int ROWS_OF_B = THIN_THREADS / N;                      // that a block copies at a time
  float* shared = dynamic_shared<float>();
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int way = warp & (ways.warps - 1);
  int chunk = T::CHUNK * ways.warps, part = T::part(ways.warps), stage = T::stage(ways.warps);
  int apart = rows_apart(g);
  int first_group = quotient_by_power(blockIdx.x, ways.blocks) * quotient_by_power(WARPS, ways.warps);
  auto row_of_group = [&](int group, int i) {
    group += first_group;
    int nth = group & (apart - 1);
    return (group - nth) * T::ROWS + nth + i * apart;
  };
  int first_row = row_of_group(quotient_by_power(warp, ways.warps), 0);
  int rows = first_row < g.m ? min(T::ROWS, quotient_by_power(g.m - 1 - first_row, apart) + 1) : 0;
  int shift = static_cast<int>(reinterpret_cast<uintptr_t>(g.A + first_row * g.lda) / 4 % 4);
  int64_t begin = static_cast<int64_t>(rank_in_cluster()) * chunk, stride = static_cast<int64_t>(ways.blocks) * chunk;
  int64_t end = static_cast<int64_t>(g.k) + apart - 1;

  // A lane's vectors of A, the first of them at `step`. Instead of rows that are missing it copies the last one.
  int64_t step = begin + way * T::CHUNK + lane % VECTORS * 4 - shift;
  const float* from_A[COPIES];
#pragma unroll
  for (int c = 0; c < COPIES; ++c) {
    int i = max(0, min(c * (32 / VECTORS) + lane / VECTORS, rows - 1));
    from_A[c] = g.A + (first_row + i * apart) * g.lda + step;
  }
  int col = static_cast<int>(threadIdx.x) % N, row_of_B = static_cast<int>(threadIdx.x) / N;
  const float* from_B = g.B + (begin + row_of_B) * g.ldb + col;
  int place_B = WARPS * T::TILE_A + row_of_B % 4 * part + (row_of_B / 4 + 1) * N + col;

  // Starts the next chunk on its way. Zeros stand beyond either end of k.
  auto copy = [&](int64_t begin, float* to) {
    if (begin < end && rows > 0) {
      float* to_A = to + warp * T::TILE_A + lane * 4;
      if (step >= 0 && step + 4 <= g.k) {
#pragma unroll
        for (int c = 0; c < COPIES; ++c) {
          __pipeline_memcpy_async(to_A + c * 128, from_A[c], 16);
        }
      } else {
#pragma unroll 1
        for (int v = 0; v < 4; ++v) {
          bool inside = step + v >= 0 && step + v < g.k;
#pragma unroll
          for (int c = 0; c < COPIES; ++c) {
            __pipeline_memcpy_async(to_A + c * 128 + v, inside ? from_A[c] + v : g.A, 4, inside ? 0 : 4);
          }
        }
      }
    }
    if (begin < end && col < g.n) {
      int left = static_cast<int>(min(g.k - begin, static_cast<int64_t>(chunk)));
      float* to_B = to + place_B;
      const float* from = from_B;
      if (apart > 1 && row_of_B < 4) {
        bool inside = begin > 0 && row_of_B - 4 < left;
        __pipeline_memcpy_async(to_B - N, inside ? from - 4 * g.ldb : g.B, 4, inside ? 0 : 4);
      }
#pragma unroll 2
      for (int p = row_of_B; p < chunk; p += ROWS_OF_B, to_B += ROWS_OF_B / 4 * N, from += ROWS_OF_B * g.ldb) {
        __pipeline_memcpy_async(to_B, p < left ? from : g.B, 4, p < left ? 0 : 4);
      }
    }
    __pipeline_commit();
    step += stride;
    from_B += stride * g.ldb;
#pragma unroll
    for (int c = 0; c < COPIES; ++c) {
      from_A[c] += stride;
    }
  };

  int places_B[4];  // of the four steps of a lane's vector of A
#pragma unroll
  for (int p = 0; p < 4; ++p) {
    int before = p < shift;
    places_B[p] =
        WARPS * T::TILE_A + (way * VECTORS + 1 - before) * N + (p - shift + 4 * before) * part + lane * T::COLS;
  }
  float sum[T::VALUES] = {};
#pragma unroll
  for (int s = 0; s < T::STAGES - 1; ++s) {
    copy(begin + s * stride, shared + s * stage);
  }
  if (col >= g.n) {  // columns that are missing are zero in all stages
    for (int p = row_of_B; p < chunk + 4; p += ROWS_OF_B) {
      for (int s = 0; s < T::STAGES; ++s) {
        shared[s * stage + WARPS * T::TILE_A + p % 4 * part + p / 4 * N + col] = 0.0f;
      }
    }
  }
  float *now = shared, *to = shared + (T::STAGES - 1) * stage;
#pragma unroll 1
  for (; begin < end; begin += stride) {
    __pipeline_wait_prior(T::STAGES - 2);
    __syncthreads();  // the chunk has arrived, and all warps have read the one before
    copy(begin + (T::STAGES - 1) * stride, to);
    if (rows > 0) {
      const float* own_A = now + warp * T::TILE_A + lane / T::LANES * 4;
#pragma unroll
      for (int q = 0; q < T::CHUNK; q += T::STEPS) {
        alignas(16) float b[4][T::COLS];
#pragma unroll
        for (int p = 0; p < 4; ++p) {
          const float* own_B = now + places_B[p] + q / 4 * N;
          if constexpr (T::COLS == 4) {
            lds_fragment(b[p], own_B, 4);
          } else {
#pragma unroll
            for (int j = 0; j < T::COLS; ++j) {
              b[p][j] = own_B[j];
            }
          }
        }
#pragma unroll
        for (int i = 0; i < T::ROWS; ++i) {
          alignas(16) float a[4];
          lds_fragment(a, own_A + i * T::CHUNK + q, 4);
#pragma unroll
          for (int p = 0; p < 4; ++p) {
#pragma unroll
            for (int j = 0; j < T::COLS; ++j) {
              sum[i * T::COLS + j] += a[p] * b[p][j];
            }
          }
        }
      }
    }
    to = now;
    now = now + stage < shared + T::STAGES * stage ? now + stage : shared;
  }
  __pipeline_wait_prior(0);
  int first = sum_of_lanes<T::LANES>(sum);
  __syncthreads();                        // all warps have read the last chunk
  constexpr int SHARING = 32 / T::LANES;  // lanes that share a warp's results of the same columns
  if (lane / T::LANES % (T::VALUES < SHARING ? SHARING / T::VALUES : 1) == 0) {
#pragma unroll
    for (int i = 0; i < (T::VALUES > SHARING ? T::VALUES / SHARING : 1); ++i) {
      int value = first + i;
      shared[warp * (T::ROWS * N) + value / T::COLS * N + lane % T::LANES * T::COLS + value % T::COLS] = sum[i];
    }
  }
  store_sum_of_ways<T::ROWS * N>(shared, ways, [&](int group, int i, float total) {
    int row = row_of_group(group, i / N);
    if (row < g.m && i % N < g.n) {
      store_result(g, row, i % N, total);
    }
  });
}

// C has at most M rows. A warp takes two times 32 columns of B, DEEP rows at a time. It brings the columns of A to shared
// memory for itself. The next rows are always on their way.
constexpr int STRIP = 64;
template <int M>
struct FewRows {
  static constexpr int DEEP = M > 8 ? 8 : 16;
  static constexpr int PITCH = M > 4 ? M + 4 : M;
  static constexpr int VALUES = M * STRIP, STAGE = DEEP * PITCH;
  static constexpr int SHARED = WARPS * (VALUES > 2 * STAGE ? VALUES : 2 * STAGE);
};
template <int M>
__global__ void __launch_bounds__(THIN_THREADS, 2) sgemm_few_rows(Gemm g, Ways ways) {
  using T = FewRows<M>;
  __shared__ __align__(16) float shared[T::SHARED];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int way = warp & (ways.warps - 1);
  int first_col = quotient_by_power(blockIdx.x, ways.blocks) * quotient_by_power(WARPS * STRIP, ways.warps);
  int col = first_col + quotient_by_power(warp, ways.warps) * STRIP + lane;
  int in_row = min(col, g.n - 1), step_col = min(col + 32, g.n - 1) - in_row;
  float share[T::DEEP][2], next[T::DEEP][2];
  // Starts rows of B on their way to registers, and columns of A to shared memory. Beyond k stand zeros.
  auto load = [&](int64_t begin, float* to_A, float (&to_B)[T::DEEP][2]) {
    int left = begin < g.k ? static_cast<int>(min(g.k - begin, static_cast<int64_t>(T::DEEP))) : 0;
#pragma unroll
    for (int i = 0; i < M; i += 32 / T::DEEP) {
      int p = lane % T::DEEP, row = lane / T::DEEP + i;
      bool inside = p < left && row < g.m;
      if (row < M) {
        const float* from = inside ? g.A + row * g.lda + begin + p : g.A;
        __pipeline_memcpy_async(to_A + p * T::PITCH + row, from, 4, inside ? 0 : 4);
      }
    }
    __pipeline_commit();
#pragma unroll
    for (int p = 0; p < T::DEEP; ++p) {
      const float* from = g.B + (begin + p) * g.ldb + in_row;
      to_B[p][0] = p < left ? from[0] : 0.0f;
      to_B[p][1] = p < left ? from[step_col] : 0.0f;
    }
  };
  float sum[M][2] = {};
  float *now_A = shared + warp * 2 * T::STAGE, *next_A = now_A + T::STAGE;
  int64_t begin = (rank_in_cluster() * ways.warps + way) * T::DEEP;
  load(begin, now_A, share);
#pragma unroll 1
  while (begin < g.k) {
    begin += ways.blocks * ways.warps * T::DEEP;
    load(begin, next_A, next);
    __pipeline_wait_prior(1);
    __syncwarp();
#pragma unroll
    for (int p = 0; p < T::DEEP; ++p) {
      alignas(16) float a[M];
      if constexpr (M >= 4) {
        lds_fragment(a, now_A + p * T::PITCH, 4);
      } else {
#pragma unroll
        for (int i = 0; i < M; ++i) {
          a[i] = now_A[p * T::PITCH + i];
        }
      }
#pragma unroll
      for (int i = 0; i < M; ++i) {
        sum[i][0] += a[i] * share[p][0];
        sum[i][1] += a[i] * share[p][1];
      }
    }
    __syncwarp();  // all lanes have read the columns of A
#pragma unroll
    for (int p = 0; p < T::DEEP; ++p) {
      share[p][0] = next[p][0];
      share[p][1] = next[p][1];
    }
    float* read_A = now_A;
    now_A = next_A;
    next_A = read_A;
  }
  __pipeline_wait_prior(0);
  if (ways.warps * ways.blocks == 1) {
#pragma unroll
    for (int i = 0; i < M; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        if (i < g.m && col + 32 * j < g.n) {
          store_result(g, i, col + 32 * j, sum[i][j]);
        }
      }
    }
    return;
  }
  __syncthreads();  // all warps have read their columns of A
#pragma unroll
  for (int i = 0; i < M; ++i) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      shared[warp * T::VALUES + i * STRIP + 32 * j + lane] = sum[i][j];
    }
  }
  store_sum_of_ways<T::VALUES>(shared, ways, [&](int group, int i, float total) {
    int of_col = first_col + group * STRIP + i % STRIP;
    if (i / STRIP < g.m && of_col < g.n) {
      store_result(g, i / STRIP, of_col, total);
    }
  });
}

// Products with a short k, at most SHORT: nearly all their time goes into storing C. A lane holds K rows of B in
// registers, of columns 32 apart, so that a warp stores whole sectors wherever the rows of C begin. It takes one row of C
// after the other; the rows of A come to shared memory BATCH at a time.
constexpr int SHORT = 32;
template <int K>
struct ShortK {
  static constexpr int COLS = K > 16 ? 2 : 4, STRIP = 32 * COLS, BATCH = 16;
};
template <int K>
__global__ void __launch_bounds__(THIN_THREADS, 2)
    sgemm_short_k(Gemm g, int rows_of_warp, int strips, Divisor by_strips) {
  constexpr int COLS = ShortK<K>::COLS, BATCH = ShortK<K>::BATCH;
  __shared__ __align__(16) float shared[WARPS][BATCH * K];
  int lane = threadIdx.x % 32;
  float* own_A = shared[threadIdx.x / 32];
  int block = static_cast<int>(blockIdx.x), row_of_blocks = by_strips.quotient(block);
  int col = (block - row_of_blocks * strips) * (32 * COLS) + lane;
  int row = (row_of_blocks * WARPS + static_cast<int>(threadIdx.x) / 32) * rows_of_warp;
  int end = min(g.m, row + rows_of_warp);
  if (row >= end) {
    return;
  }
  float b[K][COLS];
#pragma unroll
  for (int p = 0; p < K; ++p) {
#pragma unroll
    for (int j = 0; j < COLS; ++j) {
      b[p][j] = p < g.k && col + 32 * j < g.n ? g.B[p * g.ldb + col + 32 * j] : 0.0f;
    }
  }
#pragma unroll 1
  for (; row < end; row += BATCH) {
    __syncwarp();  // all lanes have read the rows before
#pragma unroll
    for (int i = 0; i < BATCH * K; i += 32) {
      int of_row = (i + lane) / K, p = (i + lane) % K;
      bool inside = row + of_row < end && p < g.k;
      __pipeline_memcpy_async(own_A + i + lane, inside ? g.A + (row + of_row) * g.lda + p : g.A, 4, inside ? 0 : 4);
    }
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncwarp();
#pragma unroll 4
    for (int i = 0; i < BATCH && row + i < end; ++i) {
      alignas(16) float a[K];
      lds_fragment(a, own_A + i * K, 4);
      float sum[COLS] = {};
#pragma unroll
      for (int p = 0; p < K; ++p) {
#pragma unroll
        for (int j = 0; j < COLS; ++j) {
          sum[j] += a[p] * b[p][j];
        }
      }
#pragma unroll
      for (int j = 0; j < COLS; ++j) {
        if (col + 32 * j < g.n) {
          store_result(g, row + i, col + 32 * j, sum[j]);
        }
      }
    }
  }
}

// How the work of a product is cut: for the thin kernels the ways of k, or the rows of C that a warp stores.
struct Cut {
  Ways ways;
  int rows;
};
using LaunchThin = cudaError_t (*)(const Gemm&, const Cut&, cudaStream_t);

template <int N>
int64_t blocks_of_columns(const Gemm& g, Ways ways) {
  using T = FewColumns<N>;
  int apart = rows_apart(g), groups = ceil_div(g.m, apart * T::ROWS) * apart;
  return static_cast<int64_t>(ceil_div(groups, WARPS / ways.warps)) * ways.blocks;
}

template <int N>
cudaError_t launch_few_columns(const Gemm& g, const Cut& cut, cudaStream_t stream) {
  using T = FewColumns<N>;
  Ways ways = cut.ways;
  dim3 grid(static_cast<unsigned>(blocks_of_columns<N>(g, ways)));
  return launch_clusters(sgemm_few_columns<N>, ways.blocks, grid, dim3(THIN_THREADS),
                         sizeof(float) * T::STAGES * T::stage(ways.warps), stream, g, ways);
}

template <int M>
cudaError_t launch_few_rows(const Gemm& g, const Cut& cut, cudaStream_t stream) {
  Ways ways = cut.ways;
  dim3 grid(static_cast<unsigned>(ceil_div(g.n, WARPS / ways.warps * STRIP)) * ways.blocks);
  return launch_clusters(sgemm_few_rows<M>, ways.blocks, grid, dim3(THIN_THREADS), 0, stream, g, ways);
}

template <int K>
cudaError_t launch_short_k(const Gemm& g, const Cut& cut, cudaStream_t stream) {
  int strips = ceil_div(g.n, ShortK<K>::STRIP);
  dim3 grid(static_cast<unsigned>(strips) * ceil_div(g.m, cut.rows * WARPS));
  return launch(sgemm_short_k<K>, grid, dim3(THIN_THREADS), 0, stream, g, cut.rows, strips, divisor(strips));
}

// Launches a product's main kernel.
using LaunchPlan = cudaError_t (*)(const Gemm&, const Plan&, float* partials, int sms, cudaStream_t);

// A product, and which of its matrices are first copied to the workspace, where the copies stand before the partial
// sums.
struct Source {
  Gemm g;  // reads the copies
  bool copied_A = false, copied_B = false;
  size_t bytes = 0;  // of the workspace, for the copies
};

// One way to compute a product, and its cycles by the model: by tiles, or with a thin kernel.
struct Choice {
  double cycles;
  Source source;
  Plan plan;
  size_t partials_bytes;  // of the workspace, for partial sums
  LaunchPlan launch;
  cudaError_t (*add)(const Gemm&, const Plan&, float*, cudaStream_t);
  Cut cut;
  LaunchThin thin;  // null for tiles
};

// The model: cycles on the busiest SM. Its constants are fitted to the times of many plans for drawn products on an H200, which
// are not recorded. The survey draws other products.
//
// Of tiles:
// - An SM does `full` FMAs a cycle (the peak is 128) where it holds all the blocks that it can, and `alone` where each of its
//   four schedulers has one warp; so much less where a matrix is copied float by float, or B in pairs of floats. Blocks of
//   one or two warps can leave schedulers without work, so what counts is the warps on the busiest scheduler.
// - The first wave of blocks takes `wave` cycles more, to fill the first stages and to store the results; a later one takes
//   `later`, as its copies begin meanwhile. Rows of C that are not aligned take unaligned_C more.
// - Each element of A, B and C comes from memory or goes there once, at MEMORY bytes a cycle and SM.
// - A sharer with a tile at an edge of C is slower. This matters less where an SM holds more blocks.
// - Partial sums cost a launch, and each of them is written and read at BYTES a cycle and SM.
// - Copies cost what copy_cycles says (engine_copies.cuh).
struct Costs {
  double alone, full, wave, later, unaligned_A, unaligned_B, pairs_B, unaligned_C, edge;
};

// Replaces `best` by the best plan for one tiling if this has fewer cycles.
template <class T>
void consider(const Source& source, int sms, LaunchPlan launch, const Costs& costs, Choice* best) {
  constexpr int SCHEDULERS = 4;  // of an SM
  constexpr double MOST_WARPS = 1.0 * T::BLOCKS * (T::THREADS / 32) / SCHEDULERS;
  constexpr double WORK = 1.0 * T::BM * T::BN * T::BK / (T::THREADS / 32);  // FMAs of a warp in a step
  constexpr double SECOND_KERNEL = 4100.0, BYTES = 23.8, MEMORY = 30;
  const Gemm& g = source.g;
  double memory = 4.0 * (1.0 * g.m * g.k + 1.0 * g.k * g.n + 1.0 * g.m * g.n) / (MEMORY * sms);
  double once = memory + copy_cycles(g, source.copied_A, source.copied_B, sms);
  double slower = vector_width(g.A, g.lda) == 4 ? 1.0 : costs.unaligned_A;
  if (vector_width(g.B, g.ldb) != 4) {
    slower *= width_of_copies_B(g) == 2 ? costs.pairs_B : costs.unaligned_B;
  }
  double stores = vector_width(g.C, g.ldc) == 4 && g.n % 4 == 0 ? 0.0 : costs.unaligned_C;
  double edge = g.m % T::BM != 0 || g.n % T::BN != 0 ? 1.0 + costs.edge / T::BLOCKS : 1.0;
  Plan plan = {ceil_div(g.m, T::BM), ceil_div(g.n, T::BN), ceil_div(g.k, T::BK), 0, 0, 0, 0, {}, {}, {}, {}};
  int64_t tiles = static_cast<int64_t>(plan.tiles_m) * plan.tiles_n;
  int64_t slots = static_cast<int64_t>(sms) * T::BLOCKS;
  auto wave = [&](int64_t blocks, double steps, bool first) {
    int64_t warps = ceil_div((blocks + sms - 1) / sms * (T::THREADS / 32), SCHEDULERS);
    double rate = costs.alone + (costs.full - costs.alone) * (warps - 1) / std::max(MOST_WARPS - 1.0, 1.0);
    return (first ? costs.wave : costs.later) + stores + warps * steps * WORK * SCHEDULERS / (rate * slower);
  };

  // Each tile has a block of its own, or only the tiles of full waves have, and some number of blocks shares the
  // others.
  for (int64_t whole : {tiles, tiles / slots * slots}) {
    int64_t steps_left = (tiles - whole) * plan.tiles_k;
    if (steps_left > INT_MAX && whole < tiles) {
      continue;  // the kernels count steps of k that are shared in 32 bits
    }
    int64_t most = std::min(slots, steps_left);
    for (int64_t sharers = tiles - whole; sharers <= most;) {
      plan.whole = static_cast<int>(whole);
      plan.sharers = static_cast<int>(sharers);
      plan.steps = sharers > 0 ? steps_left / sharers : 0;
      plan.longer = sharers > 0 ? steps_left % sharers : 0;
      int64_t waves = whole / slots;
      double cycles = once;
      if (waves > 0) {
        cycles += wave(slots, plan.tiles_k, true) + static_cast<double>(waves - 1) * wave(slots, plan.tiles_k, false);
      }
      if (whole % slots > 0) {
        cycles += wave(whole % slots, plan.tiles_k, waves == 0);
      }
      if (sharers > 0) {
        cycles += wave(sharers, edge * (plan.steps + (plan.longer > 0)), whole == 0);
      }
      size_t partials_bytes = 0;
      if (has_partials(plan)) {
        partials_bytes = sizeof(float) * 2 * sharers * T::BM * T::BN;
        cycles += SECOND_KERNEL + static_cast<double>(sharers + tiles - whole) * 8 * T::BM * T::BN / (BYTES * sms);
      }
      if (cycles < best->cycles) {
        *best = {cycles, source, plan, partials_bytes, launch, launch_add_partials<T>, {}, nullptr};
      }
      if (sharers == most) {
        break;
      }
      sharers = std::min(most, sharers + tiles - whole);  // so many equal shares of each tile; at last all slots
    }
  }
}

// The same for the thin kernels, of which an SM holds two blocks: rounds of blocks, each of a fixed time and some for each
// of its turns through the loop, longer where two blocks are on an SM.
double thin_cycles(int64_t blocks, int sms, double fixed, double turns, double turn, double two) {
  double on_sm = static_cast<double>((blocks + sms - 1) / sms);
  return std::ceil(on_sm / 2) * (fixed + turns * turn) * (on_sm > 1 ? two : 1.0);
}
void consider_thin(const Gemm& g, LaunchThin launch, const Cut& cut, double cycles, Choice* best) {
  if (cycles < best->cycles) {
    *best = {cycles, {g}, {}, 0, nullptr, nullptr, cut, launch};
  }
}
template <class F>
void for_each_ways(int most_warps, F f) {
  for (int warps = 1; warps <= most_warps; warps *= 2) {
    for (int blocks = 1; blocks <= (warps == most_warps ? MOST_BLOCKS : 1); blocks *= 2) {
      f(Ways{warps, blocks});
    }
  }
}

template <int N>
void consider_few_columns(const Gemm& g, int sms, double fixed, double turn, double turn_of_way, double two,
                          Choice* best) {
  using T = FewColumns<N>;
  for_each_ways(T::MOST_WAYS, [&](Ways ways) {
    int64_t blocks = blocks_of_columns<N>(g, ways);
    int turns = ceil_div(g.k, T::CHUNK * ways.warps * ways.blocks);
    double cluster = ways.blocks > 1 ? 2070 + 180 * ways.blocks : 0;
    double cycles = thin_cycles(blocks, sms, fixed, turns, turn + turn_of_way * ways.warps, two);
    consider_thin(g, launch_few_columns<N>, {ways, 0}, 1600 + cluster + cycles, best);
  });
}

template <int M>
void consider_few_rows(const Gemm& g, int sms, double turn, Choice* best) {
  for_each_ways(WARPS, [&](Ways ways) {
    int64_t blocks = static_cast<int64_t>(ceil_div(g.n, WARPS / ways.warps * STRIP)) * ways.blocks;
    int turns = ceil_div(g.k, FewRows<M>::DEEP * ways.warps * ways.blocks);
    double cluster = ways.blocks > 1 ? 1700 + 130 * ways.blocks : 0;
    double cycles = thin_cycles(blocks, sms, 4400 + 110 * ways.warps, turns, turn, 1.4);
    consider_thin(g, launch_few_rows<M>, {ways, 0}, cluster + cycles, best);
  });
}

template <int K>
void consider_short_k(const Gemm& g, int sms, double fixed, double row, Choice* best) {
  for (int rows = 4; rows <= 64; rows *= 2) {
    int64_t blocks = static_cast<int64_t>(ceil_div(g.n, ShortK<K>::STRIP)) * ceil_div(g.m, rows * WARPS);
    double cycles = thin_cycles(blocks, sms, fixed, std::min(rows, ceil_div(g.m, WARPS)), row, 1.66);
    consider_thin(g, launch_short_k<K>, {{}, rows}, 1850 + cycles + 0.038 * g.m * g.n / sms, best);
  }
}

void consider_thin_kernels(const Gemm& g, int sms, Choice* best) {
  if (g.k <= 4) {
    consider_short_k<4>(g, sms, 60, 295, best);
  } else if (g.k <= 8) {
    consider_short_k<8>(g, sms, 460, 305, best);
  } else if (g.k <= 16) {
    consider_short_k<16>(g, sms, 2140, 260, best);
  } else if (g.k <= SHORT) {
    consider_short_k<32>(g, sms, 2820, 250, best);
  } else if (g.n <= g.m && g.n <= FEW_COLUMNS) {
    g.n <= 1    ? consider_few_columns<1>(g, sms, 2220, 1450, 12, 1.41, best)
    : g.n <= 2  ? consider_few_columns<2>(g, sms, 3580, 1260, 26, 1.32, best)
    : g.n <= 4  ? consider_few_columns<4>(g, sms, 3380, 1160, 10, 1.60, best)
    : g.n <= 8  ? consider_few_columns<8>(g, sms, 3020, 1250, 88, 1.49, best)
    : g.n <= 16 ? consider_few_columns<16>(g, sms, 2530, 1490, 144, 1.72, best)
                : consider_few_columns<32>(g, sms, 2570, 1530, 68, 1.60, best);
  } else if (g.m <= FEW_ROWS) {
    g.m <= 1   ? consider_few_rows<1>(g, sms, 1110, best)
    : g.m <= 2 ? consider_few_rows<2>(g, sms, 1420, best)
    : g.m <= 4 ? consider_few_rows<4>(g, sms, 1260, best)
    : g.m <= 8 ? consider_few_rows<8>(g, sms, 1630, best)
               : consider_few_rows<16>(g, sms, 1530, best);
  }
}

// The product that reads A, B or both from the workspace.
Source with_copies(const Gemm& g, bool copied_A, bool copied_B, void* workspace) {
  Source source = {g, copied_A, copied_B};
  auto at = reinterpret_cast<uintptr_t>(workspace);
  if (copied_A) {
    source.g.A = reinterpret_cast<const float*>(at);
    source.g.lda = aligned_ld(g.k);
    source.bytes += aligned_copy_bytes(g.m, g.k);
  }
  if (copied_B) {
    source.g.B = reinterpret_cast<const float*>(at + source.bytes);
    source.g.ldb = aligned_ld(g.n);
    source.bytes += aligned_copy_bytes(g.k, g.n);
  }
  return source;
}

// What takes the fewest cycles: a thin kernel, or tiles, with and without copies of A and B.
cudaError_t choose(const Gemm& g, void* workspace, int* sms, Choice* best) {
  cudaError_t error = sm_count(sms);
  *best = {};
  best->cycles = HUGE_VAL;
  consider_thin_kernels(g, *sms, best);
  Source source = {g};
#ifdef HAS_COPYING_WARPS
  bool vectors_A = vector_width(g.A, g.lda) == 4;
  bool vectors_B = vector_width(g.B, g.ldb) == 4;
  for (bool copied_A : {false, true}) {
    for (bool copied_B : {false, true}) {
      if ((vectors_A && copied_A) || (vectors_B && copied_B)) {
        continue;
      }
      Source from = with_copies(g, copied_A, copied_B, workspace);
      consider<Large>(from, *sms, launch_fastest_roles<Large>, {119.8, 119.8, 7200, 1050, 1.0, 0.88, 0.95, 2800, 0},
                      best);
      consider<Wide>(from, *sms, launch_fastest_roles<Wide>, {121.5, 121.5, 7500, 1150, 1.0, 0.79, 0.89, 2450, 0},
                     best);
      consider<Pair>(from, *sms, launch_fastest_roles<Pair>, {118, 118, 10000, 5300, 0.98, 0.82, 0.82, 690, 0}, best);
      consider<Deep>(from, *sms, launch_fastest_roles<Deep>, {107.5, 107.5, 10400, 5400, 0.95, 0.75, 0.87, 0, 0.03},
                     best);
    }
  }
  consider<Tall>(source, *sms, launch_fastest<Tall>, {79.7, 104.6, 4500, 1700, 0.98, 0.96, 1.0, 800, 0}, best);
  consider<Flat>(source, *sms, launch_fastest<Flat>, {96.3, 115.9, 5000, 2300, 1.0, 0.91, 0.96, 390, 0}, best);
  consider<Square>(source, *sms, launch_fastest<Square>, {90.8, 107.8, 4300, 1700, 0.99, 0.93, 0.97, 540, 0}, best);
  consider<Small>(source, *sms, launch_fastest<Small>, {83.7, 93.8, 4300, 1900, 0.99, 0.88, 0.94, 170, 0}, best);
  consider<Tiny>(source, *sms, launch_fastest<Tiny>, {82.7, 83.3, 4700, 2300, 0.97, 0.87, 0.92, 0, 0.28}, best);
  consider<Light>(source, *sms, launch_fastest<Light>, {57.5, 62, 4100, 2000, 0.96, 0.72, 0.87, 310, 0.6}, best);
#else
  consider<Large>(source, *sms, launch_fastest<Large>, {100, 100, 10000, 10000, 1.0, 1.0, 1.0, 0, 0.12}, best);
  consider<Wide>(source, *sms, launch_fastest<Wide>, {60, 92, 6000, 6000, 1.0, 1.0, 1.0, 0, 0.12}, best);
  consider<Tall>(source, *sms, launch_fastest<Tall>, {50, 90, 4700, 4700, 1.0, 1.0, 1.0, 0, 0.12}, best);
  consider<Flat>(source, *sms, launch_fastest<Flat>, {50, 90, 4700, 4700, 1.0, 1.0, 1.0, 0, 0.12}, best);
  consider<Square>(source, *sms, launch_fastest<Square>, {60, 81, 4000, 4000, 1.0, 1.0, 1.0, 0, 0.12}, best);
  consider<Small>(source, *sms, launch_fastest<Small>, {55, 61, 4000, 4000, 1.0, 1.0, 1.0, 0, 0.12}, best);
  consider<Tiny>(source, *sms, launch_fastest<Tiny>, {45, 54, 3000, 3000, 1.0, 1.0, 1.0, 0, 0.12}, best);
  consider<Light>(source, *sms, launch_fastest<Light>, {45, 50, 2500, 2500, 1.0, 1.0, 1.0, 0, 0.12}, best);
#endif
  return error;
}

size_t workspace_for(const Gemm& g) {
  int sms = 1;
  Choice choice;
  choose(g, nullptr, &sms, &choice);
  return choice.source.bytes + choice.partials_bytes;
}

cudaError_t run(const Gemm& given, void* workspace, cudaStream_t stream) {
  int sms = 1;
  Choice choice;
  cudaError_t error = choose(given, workspace, &sms, &choice);
  if (error != cudaSuccess) {
    return error;
  }
  if (choice.thin != nullptr) {
    return choice.thin(given, choice.cut, stream);
  }
  const Gemm& g = choice.source.g;
  float* partials = reinterpret_cast<float*>(static_cast<char*>(workspace) + choice.source.bytes);
  error = copy_for(given, g, choice.source.copied_A, choice.source.copied_B, stream);
  if (error == cudaSuccess) {
    error = choice.launch(g, choice.plan, partials, sms, stream);
  }
  return error == cudaSuccess && has_partials(choice.plan) ? choice.add(g, choice.plan, partials, stream) : error;
}

EXPORT_SGEMM_WITH_WORKSPACE(run, workspace_for)
