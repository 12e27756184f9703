// fastest: every SM busy to the end, with little but FMAs in its main loop. FP32 FMAs on CUDA cores only.
//
// Against `async_copy`:
// - Stream-K: the tiles of all full waves are computed by a block each; the others, in a row of steps of k, tile after
//   tile, are shared evenly among as many blocks as the SMs hold. A tile that several blocks worked at is added up by a
//   second kernel from the workspace, always in the same order: the same result in every run.
// - Tiles of several shapes, down to 32 x 32. A model of the cycles on the busiest SM (`consider`) chooses the shape and
//   the number of blocks from m, n, k and the number of SMs. Where a small tile would leave a thread too few results,
//   groups of warps share the steps of k instead, so that a thread always has 8 x 16.
// - From compute capability 9.0 on, in the large tiles, four more warps do nothing but copy (fastest_roles.cuh). Blocks
//   stay and take one tile after the other, so that copies for the next begin while results are stored. Before, and in
//   the small tiles, all warps do all work (fastest_alike.cuh).
// - Register banks: an FFMA reads three registers, and each of the two banks (even and odd numbers) serves one a cycle.
//   One of the three should come from the reuse cache, and the other two from different banks. The order of the outer
//   product, along a row and back along the next, lets the compiler keep A's element for TN FMAs, and the way that parts
//   of sums are stored puts the sums in other banks than B's elements (fastest_work.cuh).
// - The main loop has 8 steps of k: one of 16 is beyond the instruction cache.
// - Rows of A or B that do not all begin at multiples of 16 bytes are out of the copy engine's reach and take four loads for
//   a vector. Where it pays, by the same model, the matrix is first copied to the workspace (aligned_copy.cuh).
// - Where rows of C begin anywhere, neighbouring lanes exchange results so that each still stores vectors (store_shifted).
// - Nothing in the main loop looks at the edges: what a tile takes from beyond an edge is not stored, or is zero.
//
// Limit: issue slots, of which 91 % are FFMAs in the main loop, and the bank conflicts that are left.
//
// Occupancy: the large tile takes 208 registers of each thread that multiplies (128 sums, 48 of fragments) and 88 of each
// that copies, 8 and 4 of an SM's 64 warps, and 97 KiB of shared memory for 4 stages.
#include "aligned_copy.cuh"
#include "fastest_alike.cuh"
#include "fastest_roles.cuh"
#include "fastest_work.cuh"

#ifdef HAS_COPYING_WARPS
using Large = Tiling<128, 256, 16, 4, 8, 16, 32, 128>;
using Wide = Tiling<64, 512, 16, 4, 8, 16, 64, 64>;
using Pair = Tiling<128, 128, 16, 8, 8, 16, 64, 64, 1, 2>;
using Deep = Tiling<64, 128, 16, 12, 8, 16, 64, 64, 1, 4>;
#else
using Large = Tiling<128, 256, 16, 4, 8, 16, 32, 128>;
using Wide = Tiling<64, 256, 16, 4, 8, 16, 64, 64, 2>;
#endif
using Tall = Tiling<128, 64, 16, 4, 8, 8, 64, 32, 3>;
using Square = Tiling<64, 64, 16, 4, 8, 4, 32, 32, 4>;
using Small = Tiling<32, 64, 32, 3, 4, 4, 16, 32, 4>;
using Tiny = Tiling<32, 32, 32, 3, 4, 4, 32, 16, 8>;

// Queues the product's kernel.
using RunPlan = cudaError_t (*)(const Gemm&, const Plan&, float* rooms, int sms, cudaStream_t);

// A product, and which of its matrices are copied to the workspace before it. There the copies come first.
struct Source {
  Gemm g;  // with the copies
  bool copied_A = false, copied_B = false;
  size_t bytes = 0;  // of the workspace, for the copies
};

// A plan with a tiling, and what the model says of it.
struct Choice {
  Source source;
  Plan plan;
  size_t parts_bytes;  // of the workspace, for parts of sums
  RunPlan run;
  cudaError_t (*add)(const Gemm&, const Plan&, float*, cudaStream_t);
  double cycles;
};

// Replaces `best` by the best plan for one tiling, if that has fewer cycles on the busiest SM by this model:
// - BLOCKS blocks on an SM get `full` FMAs a cycle together (128 would be the peak), a block alone gets `alone`.
// - A wave of blocks takes `wave_cycles` more to fill the first stages and to store the results. A sharer with a tile at
//   an edge is slower, which matters least where others wait less.
// - Groups of warps multiply a stage in so short a time that they wait for what no other block has brought to the L2
//   cache before: of A where a row of tiles is short, of B where a column is. The more so, the smaller the tile.
// - Several blocks on an SM wait so only where there are few tiles, but then all of them.
// - Parts cost a launch, 8000 cycles, and each float of them is written and read at 16 bytes a cycle and SM.
// - A copied matrix costs a launch too, and each of its floats is read and written at 10 bytes a cycle and SM.
template <class T>
void consider(const Source& source, int sms, RunPlan run, double alone, double full, double wave_cycles, Choice* best) {
  constexpr double LAUNCH = 8000.0, BYTES = 16.0, COPIED_BYTES = 10.0;
  const Gemm& g = source.g;
  double copies = 0.0;
  if (source.copied_A) {
    copies += LAUNCH + 8.0 * g.m * g.k / (COPIED_BYTES * sms);
  }
  if (source.copied_B) {
    copies += LAUNCH + 8.0 * g.k * g.n / (COPIED_BYTES * sms);
  }
  double edge = g.m % T::BM != 0 || g.n % T::BN != 0 ? 1.0 + 0.12 / T::BLOCKS : 1.0;
  Plan plan = {ceil_div(g.m, T::BM), ceil_div(g.n, T::BN), ceil_div(g.k, T::BK), 0, 0, 0, 0};
  int64_t tiles = static_cast<int64_t>(plan.tiles_m) * plan.tiles_n;
  int64_t slots = static_cast<int64_t>(sms) * T::BLOCKS;
  auto wave = [&](int64_t blocks, double steps) {
    int64_t on_sm = (blocks + sms - 1) / sms;
    double rate = T::BLOCKS == 1 ? full : alone + (full - alone) * (on_sm - 1) / (T::BLOCKS - 1);
    if (T::GROUPS > 1) {
      rate /= 1.0 + 1475.0 / (T::BM * T::BN) * (1.0 / plan.tiles_m + 1.0 / plan.tiles_n);
    } else if (T::BLOCKS > 1) {
      rate /= 1.0 + 0.4 / tiles;
    }
    return wave_cycles + on_sm * steps * T::BM * T::BN * T::BK / rate;
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
      double cycles = copies + static_cast<double>(whole / slots) * wave(slots, plan.tiles_k);
      if (whole % slots > 0) {
        cycles += wave(whole % slots, plan.tiles_k);
      }
      if (sharers > 0) {
        cycles += wave(sharers, edge * (plan.steps + (plan.longer > 0)));
      }
      size_t parts_bytes = 0;
      if (has_parts(plan)) {
        parts_bytes = sizeof(float) * 2 * sharers * T::BM * T::BN;
        cycles += LAUNCH + static_cast<double>(sharers + tiles - whole) * 8 * T::BM * T::BN / (BYTES * sms);
      }
      if (best->run == nullptr || cycles < best->cycles) {
        *best = {source, plan, parts_bytes, run, launch_add_parts<T>, cycles};
      }
      if (sharers == most) {
        break;
      }
      sharers = std::min(most, sharers + tiles - whole);  // so many whole splits of each tile, at last all slots
    }
  }
}

// The product with A, B or both in the workspace.
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

cudaError_t choose(const Gemm& g, void* workspace, int* sms, Choice* best) {
  cudaError_t error = sm_count(sms);
  *best = {};
  Source source = {g};
#ifdef HAS_COPYING_WARPS
  bool vectors_A = vector_width(g.A, g.lda) == 4;
  bool vectors_B = vector_width(g.B, g.ldb) == 4;
  for (bool copied_A : {false, true}) {
    for (bool copied_B : {false, true}) {
      if ((vectors_A && copied_A) || (vectors_B && copied_B)) {
        continue;
      }
      // Single floats take the copying warps longer than vectors.
      double copies = (vectors_A || copied_A ? 1.0 : 0.96) * (vectors_B || copied_B ? 1.0 : 0.85);
      Source from = with_copies(g, copied_A, copied_B, workspace);
      consider<Large>(from, *sms, run_roles<Large>, 108 * copies, 108 * copies, 6000, best);
      consider<Wide>(from, *sms, run_roles<Wide>, 109 * copies, 109 * copies, 6000, best);
      consider<Pair>(from, *sms, run_roles<Pair>, 100 * copies, 100 * copies, 9000, best);
      consider<Deep>(from, *sms, run_roles<Deep>, 93 * copies, 93 * copies, 9000, best);
    }
  }
#else
  consider<Large>(source, *sms, run_alike<Large>, 100, 100, 10000, best);
  consider<Wide>(source, *sms, run_alike<Wide>, 60, 92, 6000, best);
#endif
  consider<Tall>(source, *sms, run_alike<Tall>, 50, 90, 4700, best);
  consider<Square>(source, *sms, run_alike<Square>, 60, 81, 4000, best);
  consider<Small>(source, *sms, run_alike<Small>, 50, 61, 4000, best);
  consider<Tiny>(source, *sms, run_alike<Tiny>, 29, 54, 3000, best);
  return error;
}

size_t workspace_for(const Gemm& g) {
  int sms = 1;
  Choice choice;
  choose(g, nullptr, &sms, &choice);
  return choice.source.bytes + choice.parts_bytes;
}

cudaError_t run(const Gemm& given, void* workspace, cudaStream_t stream) {
  int sms = 1;
  Choice choice;
  cudaError_t error = choose(given, workspace, &sms, &choice);
  const Gemm& g = choice.source.g;
  float* rooms = reinterpret_cast<float*>(static_cast<char*>(workspace) + choice.source.bytes);
  if (error == cudaSuccess && choice.source.copied_A) {
    error = copy_aligned(given.A, given.lda, g.m, g.k, const_cast<float*>(g.A), stream);
  }
  if (error == cudaSuccess && choice.source.copied_B) {
    error = copy_aligned(given.B, given.ldb, g.k, g.n, const_cast<float*>(g.B), stream);
  }
  if (error == cudaSuccess) {
    error = choice.run(g, choice.plan, rooms, sms, stream);
  }
  return error == cudaSuccess && has_parts(choice.plan) ? choice.add(g, choice.plan, rooms, stream) : error;
}

EXPORT_SGEMM_WITH_WORKSPACE(run, workspace_for)
