// C = A . B by FP32 multiply-adds for the tiles and elements of C that a kernel of the tensor cores has left: one launch behind
// that kernel, which finds what is left in the workspace and ends at once if there is nothing.
//
// The loop, its copies and its layout are those of `sgemm_fastest_roles` of `fastest`, which explains them, with its
// large tile. Besides,
// - Tiles: the tensor cores' block leaves 128 x 128, a tile here has two of them side by side. It is computed whole, and what is
//   left of it is stored. Blocks find the tiles in a field of bits; each counts them for itself, so that none waits.
// - Stream-K (stream_k.cuh) cuts the tiles that are left, however many those are. Which block adds the partial sums of a
//   shared tile is known when the last of them has arrived, so there is no second kernel; it adds them in their order.
// - Sums end every SECTION steps of k and are added to totals. So the error hardly grows with k.
// - Elements: a warp computes each from its row of A and its column of B.
#pragma once

#include "aligned_copy.cuh"
#include "copying_warps.cuh"
#include "fastest_tile.cuh"
#include "gemm.cuh"
#include "second_kernel.cuh"
#include "stream_k.cuh"
#include "vector.cuh"

using LeftTile = Tiling<128, 256, 16, 4, 8, 16, 32, 128>;
constexpr int HALF_COLS = LeftTile::BN / 2;
constexpr int LEFT_THREADS = LeftTile::THREADS + COPIERS;
constexpr int SECTION_STEPS = 512 / LeftTile::BK;  // stages
static_assert(LeftTile::WN == HALF_COLS, "a warp has results of one half");

// What is left of a product, in the workspace. Zeros: nothing.
struct Left {
  int tiles_m, tiles_n;
  uint32_t* halves;    // two bits for each tile, in the order of `place`
  unsigned* elements;  // how many elements
  int2* places;        // their rows and columns
  unsigned* arrived;   // of each shared tile, how many of its partial sums
  float* partials;
};

__host__ __device__ inline int words_of_halves(const Left& left) {
  return static_cast<int>((static_cast<int64_t>(left.tiles_m) * left.tiles_n + 15) / 16);
}

// Places it in a workspace, as parts_in does.
template <class Clear, class Take>
Left left_in(const Gemm& g, int sms, unsigned most_elements, Clear clear, Take take) {
  Left left = {ceil_div(g.m, LeftTile::BM), ceil_div(g.n, LeftTile::BN), nullptr, nullptr, nullptr, nullptr, nullptr};
  left.halves = reinterpret_cast<uint32_t*>(clear(sizeof(uint32_t) * words_of_halves(left)));
  left.elements = reinterpret_cast<unsigned*>(clear(sizeof(unsigned)));
  left.arrived = reinterpret_cast<unsigned*>(clear(sizeof(unsigned) * sms));
  left.places = reinterpret_cast<int2*>(take(sizeof(int2) * most_elements));
  left.partials = reinterpret_cast<float*>(take(sizeof(float) * 2 * sms * LeftTile::BM * LeftTile::BN));
  return left;
}

// Leaves the 128 x 128 results from this row and column on.
__device__ inline void leave_tile(const Left& left, Tile tile) {
  constexpr int GROUP = 2048 / LeftTile::BM;  // the order of `place`
  int row = tile.row / LeftTile::BM, col = tile.col / LeftTile::BN;
  int first = row / GROUP * GROUP;
  int64_t number = static_cast<int64_t>(first) * left.tiles_n + col * min(GROUP, left.tiles_m - first) + row - first;
  atomicOr(left.halves + number / 16, 1u << (number % 16 * 2 + tile.col / HALF_COLS % 2));
}

__device__ inline void leave_element(const Left& left, int row, int col) {
  left.places[atomicAdd(left.elements, 1u)] = int2{row, col};
}

// The tiles of which something is left, in their order.
struct TilesInOrder {
  const Left& left;
  int* up_to;  // of each thread of the block, how many tiles there are in its words and in those before

  static __device__ uint32_t tiles(uint32_t word) { return (word | word >> 1) & 0x55555555u; }

  __device__ TilesInOrder(const Left& l, int* shared) : left(l), up_to(shared) {
    int count = 0;
    int end = min(first_word(threadIdx.x + 1), words_of_halves(left));
    for (int word = first_word(threadIdx.x); word < end; ++word) {
      count += __popc(tiles(left.halves[word]));
    }
    up_to[threadIdx.x] = count;
    if (!__syncthreads_or(count)) {
      return;
    }
    for (int step = 1; step < LEFT_THREADS; step *= 2) {
      int before = static_cast<int>(threadIdx.x) >= step ? up_to[threadIdx.x - step] : 0;
      __syncthreads();
      up_to[threadIdx.x] += before;
      __syncthreads();
    }
  }

  __device__ int first_word(int thread) const { return thread * ceil_div(words_of_halves(left), LEFT_THREADS); }
  __device__ int count() const { return up_to[LEFT_THREADS - 1]; }

  // The place of the nth tile, and which halves of it are left.
  __device__ Tile find(int nth, unsigned* halves) const {
    int low = 0, high = LEFT_THREADS - 1;  // the first thread up to whose words there are more than nth tiles
    while (low < high) {
      int middle = (low + high) / 2;
      if (up_to[middle] > nth) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    int skipped = low > 0 ? nth - up_to[low - 1] : nth;
    int word = first_word(low);
    uint32_t found = tiles(left.halves[word]);
    while (skipped >= __popc(found)) {
      skipped -= __popc(found);
      found = tiles(left.halves[++word]);
    }
    for (; skipped > 0; --skipped) {
      found &= found - 1;
    }
    int bit = __ffs(found) - 1;
    *halves = left.halves[word] >> bit & 3;
    Plan all = {left.tiles_m, left.tiles_n, 0, 0, 0, 0, 0};
    return place<LeftTile>(all, word * 16 + bit / 2);
  }
};

// How so many tiles are cut: whole ones for each block as long as all blocks have one, then shared ones. They stand in a
// row: the rows of a product with one column of tiles.
__device__ inline Plan plan_of_left(const Gemm& g, int tiles, int blocks) {
  Plan plan = {tiles, 1, ceil_div(g.k, LeftTile::BK), tiles / blocks * blocks, 0, 0, 0};
  int64_t steps = static_cast<int64_t>(tiles - plan.whole) * plan.tiles_k;
  if (steps > 0) {
    plan.sharers = steps < blocks ? static_cast<int>(steps) : blocks;
    plan.steps = steps / plan.sharers;
    plan.longer = steps % plan.sharers;
  }
  return plan;
}

// Stores what is left of a tile.
__device__ inline void store_left(const Gemm& g, Tile tile, float* staged, unsigned halves,
                                  const float (&sum)[LeftTile::TM][LeftTile::TN]) {
  if (halves >> (LeftTile::col_of(threadIdx.x) / HALF_COLS) & 1) {
    store_tile<LeftTile>(g, tile, staged, sum);
  }
}

// The sums of the nth tile, which several sharers computed, each with the sums of its piece: the block whose partial sums are
// the last to arrive adds all and stores them.
__device__ inline void add_piece(const Gemm& g, const Left& left, const Plan& plan, int nth, int slot, Tile tile,
                                 float* shared, unsigned halves, float (&sum)[LeftTile::TM][LeftTile::TN]) {
  using T = LeftTile;
  __shared__ unsigned arrived_before;
  int64_t begin = static_cast<int64_t>(nth - plan.whole) * plan.tiles_k;
  int first = sharer_of_step(plan, begin), last = sharer_of_step(plan, begin + plan.tiles_k - 1);
  store_partial<T>(left.partials, slot, sum);
  __threadfence();
  barrier_of<T::THREADS>();
  if (threadIdx.x == 0) {
    arrived_before = atomicAdd(left.arrived + (nth - plan.whole), 1u);
  }
  barrier_of<T::THREADS>();
  bool adds = arrived_before == static_cast<unsigned>(last - first);
  barrier_of<T::THREADS>();  // all have read it
  if (!adds) {
    return;
  }
  __threadfence();
#pragma unroll
  for (int i = 0; i < T::TM; ++i) {
#pragma unroll
    for (int j = 0; j < T::TN; ++j) {
      sum[i][j] = 0.0f;
    }
  }
#pragma unroll 1
  for (int sharer = first; sharer <= last; ++sharer) {
    // The first sharer may have begun before this tile. Then this is the second of its slots.
    int64_t of_sharer = 2 * static_cast<int64_t>(sharer) + (sharer == first && first_step(plan, first) < begin);
#pragma unroll
    for (int i = 0; i < T::TM; ++i) {
#pragma unroll
      for (int j = 0; j < T::TN; j += 4) {
        float4 part = *partial<T>(left.partials, of_sharer, i, j, threadIdx.x);
        sum[i][j] += part.y;
        sum[i][j + 1] += part.x;
        sum[i][j + 2] += part.w;
        sum[i][j + 3] += part.z;
      }
    }
  }
  store_left(g, tile, shared + T::RING, halves, sum);
}

__global__ void __launch_bounds__(LEFT_THREADS, 1)
    sgemm_left(Gemm g, Left left, const __grid_constant__ CUtensorMap map_B, bool engine, bool aligned_A) {
  using T = LeftTile;
  float* shared = dynamic_shared<float>();
  __shared__ uint64_t full[T::STAGES];   // the copies to a stage have arrived
  __shared__ uint64_t empty[T::STAGES];  // every warp has read it
  __shared__ int up_to[LEFT_THREADS];
  int tid = threadIdx.x;
  wait_for_first_kernel();
  TilesInOrder in_order(left, up_to);
  unsigned elements = *left.elements;
  // By the shuffle the compiler knows that all lanes of a warp have the same number.
  int tiles = __shfl_sync(0xFFFFFFFF, in_order.count(), 0);
  if (tiles == 0 && elements == 0) {
    return;
  }
  if (tid == 0) {
    for (int stage = 0; stage < T::STAGES; ++stage) {
      mbarrier_init(&full[stage], COPIERS + (engine ? 1 : COPIERS));
      mbarrier_init(&empty[stage], T::THREADS / 32);
    }
    mbarrier_init_fence();
  }
  __syncthreads();
  Plan plan = plan_of_left(g, tiles, gridDim.x);
  RingPlace<T::STAGES> place;

  if (tid >= T::THREADS) {
    give_registers<88>();
    int copier = tid - T::THREADS;
    int row = ShareOfA<T>::row(copier);
    int p = ShareOfA<T>::step(copier);
    for_each_piece<T>(plan, [&](Tile in_row, int first, int last, int) {
      unsigned halves;
      Tile tile = in_order.find(in_row.row / T::BM, &halves);
      ShareOfA<T> shares[2];  // this step's, and the next one's on its way
      typename ShareOfA<T>::Rows rows(g, tile.row + row, p);
      shares[0].load(rows, first * T::BK, g.k, aligned_A);
#pragma unroll 1
      for (int step = first; step < last;) {
#pragma unroll
        for (int i = 0; i < 2 && step < last; ++i, ++step) {
          if (step + 1 < last) {
            shares[1 - i].load(rows, (step + 1) * T::BK, g.k, aligned_A);
          }
          float* to = shared + place.stage * T::STAGE;
          uint64_t* arrived = &full[place.stage];
          mbarrier_wait(&empty[place.stage], place.parity ^ 1);
          if (!engine) {
            copy_tile_B<T, 1>(to + T::TILE_A, g, tile.col, step * T::BK, copier);
            mbarrier_arrive_copies(arrived);
          } else if (copier == 0) {
            mbarrier_arrive_expect(arrived, T::BK * T::BN * 4);
            bulk_copy_box(to + T::TILE_A, &map_B, step * T::BK, tile.col, arrived);
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

  take_registers<208>();
  constexpr int UNROLLED = 8;  // elements of k in the body of the loop
  const float* shared_A = shared + T::row_of(tid);
  const float* shared_B = shared + T::TILE_A + T::col_of(tid);
  for_each_piece<T>(plan, [&](Tile in_row, int first, int last, int slot) {
    alignas(16) float frag_A[2][T::TM];
    alignas(16) float frag_B[2][T::TN];
    float sum[T::TM][T::TN] = {};
    float* sums = &sum[0][0];
    volatile float totals[T::TM * T::TN];  // in memory, because they are needed only at the end of a section
    bool several = last - first > SECTION_STEPS;
    if (several) {
#pragma unroll
      for (int i = 0; i < T::TM * T::TN; ++i) {
        totals[i] = 0.0f;
      }
    }
    for (int begin = first; begin < last; begin += SECTION_STEPS) {
      if (begin > first) {
#pragma unroll
        for (int i = 0; i < T::TM * T::TN; ++i) {
          totals[i] = totals[i] + sums[i];
          sums[i] = 0.0f;
        }
      }
      int steps = min(SECTION_STEPS, last - begin);  // stages that are left of the section
      const float* now_A = shared_A + place.stage * T::STAGE;
      const float* now_B = shared_B + place.stage * T::STAGE;
      mbarrier_wait(&full[place.stage], place.parity);
      lds_fragment(frag_A[0], now_A, T::STEP_M);
      lds_fragment(frag_B[0], now_B, T::STEP_N);
      int p = 0;
#pragma unroll 1
      while (steps > 0) {
        uint64_t* read = &empty[place.stage];
        p += UNROLLED;
#pragma unroll
        for (int q = 0; q < UNROLLED; ++q) {
          if (q + 1 < UNROLLED) {
            lds_fragment(frag_B[(q + 1) % 2], now_B + (q + 1) * T::BN, T::STEP_N);
            lds_fragment(frag_A[(q + 1) % 2], now_A + (q + 1) * T::PITCH_A, T::STEP_M);
          } else {
            now_A += UNROLLED * T::PITCH_A;
            now_B += UNROLLED * T::BN;
            if (p == T::BK) {
              place.advance(1);
              now_A = shared_A + place.stage * T::STAGE;
              now_B = shared_B + place.stage * T::STAGE;
              --steps;
              if (steps > 0) {
                mbarrier_wait(&full[place.stage], place.parity);
              }
            }
            if (steps > 0) {
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
    }
    if (several) {
#pragma unroll
      for (int i = 0; i < T::TM * T::TN; ++i) {
        sums[i] += totals[i];
      }
    }
    unsigned halves;
    int nth = in_row.row / T::BM;
    Tile tile = in_order.find(nth, &halves);
    if (slot < 0) {
      store_left(g, tile, shared + T::RING, halves, sum);
    } else {
      add_piece(g, left, plan, nth, slot, tile, shared, halves, sum);
    }
  });

  // Elements, a warp for each.
  constexpr unsigned WARPS_OF_BLOCK = T::THREADS / 32;
  int lane = tid % 32;
  for (unsigned i = blockIdx.x * WARPS_OF_BLOCK + tid / 32; i < elements; i += gridDim.x * WARPS_OF_BLOCK) {
    int2 at = left.places[i];
    const float* A = g.A + at.x * g.lda;
    const float* B = g.B + at.y;
    constexpr int AT_ONCE = 16;  // numbers of a lane, all loaded before the first is used
    float sum = 0.0f;
#pragma unroll 1
    for (int begin = lane; begin < g.k; begin += 32 * AT_ONCE) {
      float a[AT_ONCE], b[AT_ONCE];
#pragma unroll
      for (int j = 0; j < AT_ONCE; ++j) {
        int p = begin + 32 * j;
        a[j] = p < g.k ? A[p] : 0.0f;
        b[j] = p < g.k ? B[p * g.ldb] : 0.0f;
      }
#pragma unroll
      for (int j = 0; j < AT_ONCE; ++j) {
        sum += a[j] * b[j];
      }
    }
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      sum += __shfl_xor_sync(0xFFFFFFFF, sum, lanes);
    }
    if (lane == 0) {
      store_result(g, at.x, at.y, sum);
    }
  }
}

// Queues the kernel, behind one that begins with let_second_kernel_begin.
inline cudaError_t launch_left(const Gemm& g, const Left& left, int sms, cudaStream_t stream) {
  CUtensorMap map_B = {};
  bool engine = make_tensor_map(&map_B, g.B, g.k, g.n, g.ldb, LeftTile::BK, LeftTile::BN, CU_TENSOR_MAP_SWIZZLE_NONE);
  return launch_after_copies(sgemm_left, dim3(std::max(1, sms)), dim3(LEFT_THREADS), RING_BYTES<LeftTile>, stream, g,
                             left, map_B, engine, vector_width(g.A, g.lda) == 4);
}
