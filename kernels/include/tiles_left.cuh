// C = A . B by FP32 multiply-adds for the tiles and elements of C that a kernel of the tensor cores has left: one launch behind
// that kernel, which finds what is left in the workspace and ends at once if there is nothing.
//
// The loop, its copies and its layout are those of `sgemm_fastest_roles` of `fastest`, which explains them, with its
// wide tile. Besides,
// - Tiles: the tensor cores' block leaves 128 x 128. A tile here has the same rows, or some of them, and gathers columns:
//   of as many of the left ones as it has room for, which need not be neighbours. Blocks find the tiles in a field of bits;
//   each counts them for itself, so that none waits.
// - Stream-K (stream_k.cuh) cuts the tiles that are left, however many those are. Which block adds the partial sums of a
//   shared tile is known when the last of them has arrived, so there is no second kernel; it adds them in their order.
// - Sums end every section of k and are added to totals. So the error hardly grows with k.
// - Elements: a warp computes each from its row of A and its column of B.
#pragma once

#include "copying_warps.cuh"
#include "engine_copies.cuh"
#include "fastest_tile.cuh"
#include "gemm.cuh"
#include "second_kernel.cuh"
#include "stream_k.cuh"
#include "vector.cuh"

using LeftTile = Tiling<64, 512, 16, 4, 8, 16, 64, 64>;
constexpr int LEFT_SIDE = 128;                      // rows and columns of what is left at a time
constexpr int SEGMENT = 4096;                       // columns of which a word has the bits
constexpr int GATHERED = LeftTile::BN / LEFT_SIDE;  // that a tile has, side by side
using OneOfTile = Tiling<LeftTile::BM, LEFT_SIDE, LeftTile::BK, 4, 8, 16, 64, 64>;  // to copy columns of B
constexpr int LEFT_PARTS = LEFT_SIDE / LeftTile::BM;  // tiles, one below the other, for the rows
constexpr int LEFT_THREADS = LeftTile::THREADS + COPIERS;
static_assert(SEGMENT == 32 * LEFT_SIDE, "a bit for each tile");
static_assert(LEFT_SIDE % LeftTile::WN == 0, "a warp has results of one of those that a tile gathers");

// What is left of a product, in the workspace. Zeros: nothing.
struct Left {
  int strips, segments;  // of LEFT_SIDE rows, of SEGMENT columns
  uint32_t* marked;      // a bit for each LEFT_SIDE x LEFT_SIDE; a word has those of a strip and a segment
  unsigned* elements;    // how many elements
  int2* places;          // their rows and columns
  unsigned* arrived;     // of each shared tile, how many of its partial sums
  float* partials;
};

__host__ __device__ inline int words_of_left(const Left& left) { return left.strips * left.segments; }

// Places it in a workspace, as parts_in does.
template <class Clear, class Take>
Left left_in(const Gemm& g, int sms, unsigned most_elements, Clear clear, Take take) {
  Left left = {ceil_div(g.m, LEFT_SIDE), ceil_div(g.n, SEGMENT), nullptr, nullptr, nullptr, nullptr, nullptr};
  left.marked = reinterpret_cast<uint32_t*>(clear(sizeof(uint32_t) * words_of_left(left)));
  left.elements = reinterpret_cast<unsigned*>(clear(sizeof(unsigned)));
  left.arrived = reinterpret_cast<unsigned*>(clear(sizeof(unsigned) * sms));
  left.places = reinterpret_cast<int2*>(take(sizeof(int2) * most_elements));
  left.partials = reinterpret_cast<float*>(take(sizeof(float) * 2 * sms * LeftTile::BM * LeftTile::BN));
  return left;
}

// Leaves the LEFT_SIDE x LEFT_SIDE results from this row and column on.
__device__ inline void leave_tile(const Left& left, Tile tile) {
  int col = tile.col / LEFT_SIDE;
  atomicOr(left.marked + col / 32 * left.strips + tile.row / LEFT_SIDE, 1u << col % 32);
}

__device__ inline void leave_element(const Left& left, int row, int col) {
  left.places[atomicAdd(left.elements, 1u)] = int2{row, col};
}

// A tile: its first row, and the first columns of what it gathers, or -1.
struct GatheredTile {
  int row;
  int cols[GATHERED];
};

// The tiles of what is left, in their order: down the strips of a segment, so that its columns of B stay in the L2 cache.
struct TilesInOrder {
  const Gemm& g;
  const Left& left;
  int* up_to;  // of each thread of the block, how many tiles there are in its words and in those before

  // Of a word: tiles beside each other, and all.
  static __device__ int across(uint32_t marked) { return ceil_div(__popc(marked), GATHERED); }
  __device__ int tiles(int word) const {
    int rows = g.m - word % left.strips * LEFT_SIDE;
    return across(left.marked[word]) * min(LEFT_PARTS, ceil_div(rows, LeftTile::BM));
  }

  __device__ TilesInOrder(const Gemm& of, const Left& l, int* shared) : g(of), left(l), up_to(shared) {
    int count = 0;
    int end = min(first_word(threadIdx.x + 1), words_of_left(left));
    for (int word = first_word(threadIdx.x); word < end; ++word) {
      count += tiles(word);
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

  __device__ int first_word(int thread) const { return thread * ceil_div(words_of_left(left), LEFT_THREADS); }
  __device__ int count() const { return up_to[LEFT_THREADS - 1]; }

  __device__ GatheredTile find(int nth) const {
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
    for (; skipped >= tiles(word); ++word) {
      skipped -= tiles(word);
    }
    uint32_t marked = left.marked[word];
    int side_by_side = across(marked);
    GatheredTile tile;
    tile.row = word % left.strips * LEFT_SIDE + skipped / side_by_side * LeftTile::BM;
    for (int i = skipped % side_by_side * GATHERED; i > 0; --i) {
      marked &= marked - 1;
    }
#pragma unroll
    for (int i = 0; i < GATHERED; ++i) {
      tile.cols[i] = marked != 0 ? (word / left.strips * 32 + __ffs(marked) - 1) * LEFT_SIDE : -1;
      marked &= marked - 1;
    }
    return tile;
  }
};

// How so many tiles are cut: whole ones for each block as long as all blocks have one, or nearly all; then shared ones.
// Nobody reads the plan's rows and columns of tiles, nor its divisors.
__device__ inline Plan plan_of_left(const Gemm& g, int tiles, int blocks) {
  bool nearly_all = tiles < blocks && 10 * tiles >= 9 * blocks;
  Plan plan = {tiles, 1, ceil_div(g.k, LeftTile::BK), nearly_all ? tiles : tiles / blocks * blocks, 0, 0, 0, {}, {},
               {},    {}};
  int64_t steps = static_cast<int64_t>(tiles - plan.whole) * plan.tiles_k;
  if (steps > 0) {
    plan.sharers = steps < blocks ? static_cast<int>(steps) : blocks;
    plan.steps = steps / plan.sharers;
    plan.longer = steps % plan.sharers;
  }
  return plan;
}

// A number that all lanes of a warp have. What redux returns is in a uniform register, so the compiler knows.
__device__ inline int of_warp(int number) { return __reduce_max_sync(0xFFFFFFFF, number); }

// The steps first .. last - 1 of the nth tile, and the slot for their sums: negative for a whole tile. No steps: no piece.
struct Piece {
  int nth, first, last, slot;
};

// The ith piece of this block, in the order of for_each_piece. The plan is in shared memory and a piece is found anew where
// it is needed, so that neither takes registers in the main loop, which has none to spare.
__device__ inline Piece piece_of_left(const Plan& plan, int i) {
  int blocks = static_cast<int>(gridDim.x), sharer = static_cast<int>(blockIdx.x);
  if (i * blocks + sharer < plan.whole) {
    return {i * blocks + sharer, 0, plan.tiles_k, -1};
  }
  if (sharer >= plan.sharers) {
    return {};
  }
  i -= plan.whole / blocks;
  int64_t begin = first_step(plan, sharer), end = first_step(plan, sharer + 1);
  int shared_tile = static_cast<int>(begin / plan.tiles_k) + i;
  int64_t of_tile = static_cast<int64_t>(shared_tile) * plan.tiles_k;
  int first = static_cast<int>(max(begin - of_tile, static_cast<int64_t>(0)));
  int last = static_cast<int>(min(end - of_tile, static_cast<int64_t>(plan.tiles_k)));
  bool whole = first == 0 && last == plan.tiles_k;
  return {plan.whole + shared_tile, first, last, whole ? -1 : 2 * sharer + (i > 0)};
}

// Stores a thread's results of a tile.
__device__ inline void store_left(const Gemm& g, const GatheredTile& tile, float* staged,
                                  const float (&sum)[LeftTile::TM][LeftTile::TN]) {
  int own = LeftTile::col_of(threadIdx.x) / LEFT_SIDE, col = tile.cols[0];
#pragma unroll
  for (int i = 1; i < GATHERED; ++i) {
    col = own == i ? tile.cols[i] : col;
  }
  if (of_warp(col) >= 0) {
    store_tile<LeftTile>(g, {tile.row, col - own * LEFT_SIDE}, staged, sum);
  }
}

// The sums of the nth tile, which several sharers computed, each with the sums of its piece: the block whose partial sums are
// the last to arrive adds all and stores them.
__device__ inline void add_piece(const Gemm& g, const Left& left, const Plan& plan, int nth, int slot,
                                 const GatheredTile& tile, float* shared, float (&sum)[LeftTile::TM][LeftTile::TN]) {
  using T = LeftTile;
  __shared__ unsigned arrived_before;
  int64_t begin = static_cast<int64_t>(nth - plan.whole) * plan.tiles_k;
  int first = of_warp(sharer_of_step(plan, begin)), last = of_warp(sharer_of_step(plan, begin + plan.tiles_k - 1));
  store_partial<T>(left.partials, slot, sum);
  __threadfence();
  barrier_of<T::THREADS>();
  if (threadIdx.x == 0) {
    arrived_before = atomicAdd(left.arrived + (nth - plan.whole), 1u);
  }
  barrier_of<T::THREADS>();
  bool adds = of_warp(static_cast<int>(arrived_before)) == last - first;
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
  store_left(g, tile, shared + T::RING, sum);
}

__global__ void __launch_bounds__(LEFT_THREADS, 1)
    sgemm_left(Gemm g, Left left, const __grid_constant__ CUtensorMap map_B, bool engine, bool aligned_A,
               int section_stages) {
  using T = LeftTile;
  float* shared = dynamic_shared<float>();
  __shared__ uint64_t full[T::STAGES];   // the copies to a stage have arrived
  __shared__ uint64_t empty[T::STAGES];  // every warp has read it
  __shared__ int up_to[LEFT_THREADS];
  __shared__ Plan plan;
  int tid = threadIdx.x;
  wait_for_first_kernel();
  TilesInOrder in_order(g, left, up_to);
  if (in_order.count() == 0 && *left.elements == 0) {
    return;
  }
  if (tid == 0) {
    plan = plan_of_left(g, in_order.count(), static_cast<int>(gridDim.x));
    for (int stage = 0; stage < T::STAGES; ++stage) {
      mbarrier_init(&full[stage], COPIERS + (engine ? 1 : COPIERS));
      mbarrier_init(&empty[stage], T::THREADS / 32);
    }
    mbarrier_init_fence();
  }
  __syncthreads();
  RingPlace<T::STAGES> place;

  if (tid >= T::THREADS) {
    give_registers<88>();
    int copier = tid - T::THREADS;
    int row = ShareOfA<T>::row(copier);
    int p = ShareOfA<T>::step(copier);
    Piece piece;
    for (int i_piece = 0; (piece = piece_of_left(plan, i_piece)).last > piece.first; ++i_piece) {
      int first = piece.first, last = piece.last;
      GatheredTile tile = in_order.find(piece.nth);
      ShareOfA<T> shares[2];  // this step's, and the next one's on its way
      typename ShareOfA<T>::Rows rows(g, tile.row + row, p);
      shares[0].load(rows, first * T::BK, g.k, aligned_A);
#pragma unroll
      for (int c = 1; c < GATHERED; ++c) {  // where nothing is left to gather, the first columns again
        tile.cols[c] = tile.cols[c] >= 0 ? tile.cols[c] : tile.cols[0];
      }
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
#pragma unroll
            for (int c = 0; c < GATHERED; ++c) {
              copy_tile_B<OneOfTile, 1>(to + T::TILE_A + c * (T::BK * LEFT_SIDE), g, tile.cols[c], step * T::BK,
                                        copier);
            }
            mbarrier_arrive_copies(arrived);
          } else if (copier == 0) {
            mbarrier_arrive_expect(arrived, T::BK * T::BN * 4);
#pragma unroll
            for (int c = 0; c < GATHERED; ++c) {
              bulk_copy_box(to + T::TILE_A + c * (T::BK * LEFT_SIDE), &map_B, step * T::BK, tile.cols[c], arrived);
            }
          }
          shares[i].store(to + p * T::PITCH_A + row);
          mbarrier_arrive(arrived);
          place.advance(1);
        }
      }
    }
    __pipeline_commit();
    __pipeline_wait_prior(0);
    return;
  }

  take_registers<208>();
  constexpr int UNROLLED = 8;  // elements of k in the body of the loop
  const float* shared_A = shared + T::row_of(tid);
  const float* shared_B =
      shared + T::TILE_A + T::col_of(tid) / LEFT_SIDE * (T::BK * LEFT_SIDE) + T::col_of(tid) % LEFT_SIDE;
  for (int i_piece = 0;; ++i_piece) {
    Piece piece = piece_of_left(plan, i_piece);
    int first = of_warp(piece.first), last = of_warp(piece.last);
    if (last <= first) {
      break;
    }
    alignas(16) float frag_A[2][T::TM];
    alignas(16) float frag_B[2][T::TN];
    float sum[T::TM][T::TN] = {};
    float* sums = &sum[0][0];
    volatile float totals[T::TM * T::TN];  // in memory, because they are needed only at the end of a section
    bool several = last - first > section_stages;
    if (several) {
#pragma unroll
      for (int i = 0; i < T::TM * T::TN; ++i) {
        totals[i] = 0.0f;
      }
    }
    for (int todo = last - first; todo > 0; todo -= section_stages) {
      int steps = min(section_stages, todo);  // stages that are left of the section
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
            lds_fragment(frag_B[(q + 1) % 2], now_B + (q + 1) * LEFT_SIDE, T::STEP_N);
            lds_fragment(frag_A[(q + 1) % 2], now_A + (q + 1) * T::PITCH_A, T::STEP_M);
          } else {
            now_A += UNROLLED * T::PITCH_A;
            now_B += UNROLLED * LEFT_SIDE;
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
      if (todo > section_stages) {
#pragma unroll
        for (int i = 0; i < T::TM * T::TN; ++i) {
          totals[i] = totals[i] + sums[i];
          sums[i] = 0.0f;
        }
      }
    }
    if (several) {
#pragma unroll
      for (int i = 0; i < T::TM * T::TN; ++i) {
        sums[i] += totals[i];
      }
    }
    piece = piece_of_left(plan, i_piece);
    GatheredTile tile = in_order.find(piece.nth);
    if (piece.slot < 0) {
      store_left(g, tile, shared + T::RING, sum);
    } else {
      add_piece(g, left, plan, piece.nth, piece.slot, tile, shared, sum);
    }
  }

  // Elements, a warp for each.
  constexpr unsigned WARPS_OF_BLOCK = T::THREADS / 32;
  int lane = tid % 32;
  unsigned elements = *left.elements;
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

// Queues the kernel, whose sums have at most `section` steps of k, behind one that begins with let_second_kernel_begin.
inline cudaError_t launch_left(const Gemm& g, const Left& left, int section, int sms, cudaStream_t stream) {
  CUtensorMap map_B = {};
  bool engine = make_tensor_map(&map_B, g.B, g.k, g.n, g.ldb, LeftTile::BK, LEFT_SIDE, CU_TENSOR_MAP_SWIZZLE_NONE);
  return launch_after_copies(sgemm_left, dim3(std::max(1, sms)), dim3(LEFT_THREADS), RING_BYTES<LeftTile>, stream, g,
                             left, map_B, engine, vector_width(g.A, g.lda) == 4, section / LeftTile::BK);
}
