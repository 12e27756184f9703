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
// - Up to k = 512 FP32 multiply-adds compute all, for split numbers err more where a sum is short (split_tf32.cuh).
//
// Limit: the tensor cores, which do three products for one, and what stands beside each of their instructions, for the
// scheduler does not issue it for nothing meanwhile (docs/performance.md, "Tensor cores"). Splitting takes three instructions
// for each number that a lane holds, and in a warp tile of 32 x 64 one such number stands beside two instructions of the
// tensor core. In long runs also the power limit. A block waits at a barrier after every tile; two blocks on an SM fill each
// other's gaps.
//
// Occupancy: up to 255 registers a thread, two blocks of 128 threads, 8 of an SM's 64 warps; 50 KiB of shared memory a
// block for 4 stages. The totals of sections of k lie in memory.
#include "split_tf32.cuh"

#ifndef BM
#define BM 128
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

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) { return run_mma<Tiling>(g, stream); }

EXPORT_SGEMM(run)
