// split_k: where C has too few tiles for the GPU, several blocks share a tile and split its k between them.
//
// Against `async_copy`: of 512 x 512 x 512 there are 32 tiles of 64 x 128, and 100 of an H100's 132 SMs have nothing to
// do. There are 16 tiles of 128 x 128, and with their k in eight parts 128 blocks.
// - A block sums the products of its own part of k, and a second kernel adds what the splits have left in the workspace
//   (split_k.cuh, which other rungs take for their small products too).
// - splits_for estimates the cycles of each number of splits and takes the cheapest: full SMs against more traffic.
//
// Limit: idle SMs: four times as many are busy at 512. The price is 8 bytes of workspace traffic for each result and
// split, and one more launch. The tile of 128 x 128, which splits make affordable, takes k / 64 floats from global
// memory for each result, 32 FLOP for each of their bytes instead of 21. For large products there is one split, and
// what remains is `async_copy`.
//
// Occupancy: 8 x 8 results a thread in at most 128 registers, two blocks of 256 threads, 16 of an SM's 64 warps; 48.8
// KiB of shared memory for 3 stages. The prologue and the epilogue of one block run behind the FMAs of the other.
#include "split_k.cuh"

#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 128
#endif
#ifndef BK
#define BK 16
#endif
#ifndef TM
#define TM 8
#endif
#ifndef TN
#define TN 8
#endif
#ifndef WM
#define WM 32
#endif
#ifndef WN
#define WN 64
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 2
#endif

constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
constexpr size_t SHARED_BYTES = sizeof(float) * STAGES * (BK * (BM + 4) + BK * BN);
using Tiling = SplitKTiling<BM, BN, BK, TM, TN, WM, WN, STAGES, MIN_BLOCKS>;
static_assert(Tiling::THREADS == THREADS && Tiling::SHARED_BYTES == SHARED_BYTES, "what the tuner reads here");

size_t needed(const Gemm& g) { return split_k_workspace<Tiling>(g); }

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  return run_split_k<Tiling>(g, workspace, stream);
}

EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
