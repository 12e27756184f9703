// mma_3xtf32: an FP32 product on tensor cores, each number split into two of TF32 in registers.
//
// Against `async_copy`, whose FMAs fill the issue slots of the CUDA cores:
// - mma.sync (compute capability 8.0 and up) multiplies 16 x 8 by 8 x 8 TF32 numbers in one instruction of a warp. Three of
//   them, of high and low parts, stand for 1024 FP32 multiply-adds, which are 32 FFMA instructions. split_tf32.cuh says
//   how numbers are split, why the sums leave the tensor core every INTERVAL steps of k, and what the error is.
// - Tiles come by cp.async, several at a time, as they lie in memory. A is read by ldmatrix, B by 128-bit loads: of each 32
//   columns a lane takes four neighbours for four instructions, so that its results are whole vectors of a row of C.
// - The loop over tiles is one basic block, in which the compiler has something to issue between any two instructions of
//   the tensor core: while those for one of the four columns are multiplied, B's numbers of the next are split, and the
//   partial sums of the last one are added to the sums.
// - Large and long products have larger tiles, whose sums stay in the tensor core longer (split_large.cuh).
// - Short sums, and those of few tiles, are left to FP32 multiply-adds, as in `split_k` (split_tf32.cuh).
//
// Limit: the tensor cores, which do three products for one, and what stands beside each of their instructions, for the
// scheduler does not issue it for nothing meanwhile (docs/performance.md, "Tensor cores"). Splitting takes three instructions
// for each number that a lane holds, and in a large tile one such number stands beside three instructions of the tensor core,
// in others beside two. In long runs also the power limit.
//
// Occupancy: 8 of an SM's 64 warps, at up to 255 registers a thread. A large tile has a block of 256 threads and 227 KiB of
// shared memory: 128 KiB of totals, and four stages. Others have two blocks of 128 threads, 50 KiB a block for four stages;
// their totals of sections of k lie in memory.
#include "split_large.cuh"

#ifndef BM
#define BM 128
#define LARGE_TOO  // the tuner names its tile, and it is taken for products of any size
#endif
#ifndef BN
#define BN 64
#endif
#ifndef BK
#define BK 16
#endif
#ifndef WM
#define WM 32
#endif
#ifndef WN
#define WN 64
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 2
#endif

#ifndef INTERVAL
#define INTERVAL 16
#endif

constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
constexpr size_t SHARED_BYTES = sizeof(float) * STAGES * (BM * BK + BK * (BN + 8));
using Tiling = SplitTiling<BM, BN, BK, WM, WN, STAGES, MIN_BLOCKS, INTERVAL>;

static_assert(Tiling::THREADS == THREADS && Tiling::SHARED_BYTES == SHARED_BYTES, "what the tuner reads here");

// Whether large tiles take no more rounds of blocks.
bool large(const Gemm& g, int sms) {
#ifdef LARGE_TOO
  int tiles = tile_grid(g, LargeTiling::ROWS, LargeTiling::COLS).x, small_tiles = tile_grid(g, BM, BN).x;
  return suits_large(g) && 2 * ceil_div(tiles, sms) <= ceil_div(small_tiles, MIN_BLOCKS * sms);
#else
  return false;
#endif
}

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  int sms = 0;
  cudaError_t error = sm_count(&sms);
  return error != cudaSuccess ? error : large(g, sms) ? run_large(g, stream) : run_mma<Tiling>(g, workspace, stream);
}

EXPORT_SGEMM_WITH_WORKSPACE(run, mma_workspace)
