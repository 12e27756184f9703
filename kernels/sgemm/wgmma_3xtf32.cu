// wgmma_3xtf32: FP32's accuracy from the tensor cores of Hopper, by TF32.
//
// Against `mma_3xtf32`, where warps split numbers again in each block that needs them, beside the multiplications:
// - A pre-pass splits each number once, into the workspace, and transposes B: of TF32, wgmma takes both operands along k only.
//   Each row of A and each column of B is scaled by a power of two; a scan finds their largest and smallest magnitudes
//   before. Tiles with a line whose numbers lie too far apart are left to FP32 multiply-adds, as in `split_k`.
// - wgmma: the tensor core reads its operands from shared memory, at twice the rate of mma.sync and without the issue slots
//   and the register file. A warp of its own asks the copy engine for them, three stages ahead of two warp groups that
//   multiply; blocks in pairs share the columns of B.
// - Each warp group has two sums in the tensor core. While the products with low parts go to one of them, the other, of high
//   parts, is added to FP32 sums on the CUDA cores. split_wgmma.cuh explains the rest.
//
// Limit: the tensor cores, three products of 1024 multiply-adds a cycle and SM. The pre-pass reads A and B twice and writes
// twice as much.
//
// Occupancy: one block of 384 threads, 12 of an SM's 64 warps: 232 registers a thread where it multiplies, 40 where it
// copies; 192 KiB of shared memory.
#include "split_wgmma.cuh"

#ifndef INTERVAL
#define INTERVAL 16
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef GROUP
#define GROUP 8
#endif

using Tiling = PairTiling<Tf32, INTERVAL, STAGES, GROUP>;

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) { return run_split<Tiling>(g, workspace, stream); }

EXPORT_SGEMM_WITH_WORKSPACE(run, split_workspace<Tiling>)
