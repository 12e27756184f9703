// wgmma_3xfp16: FP32's accuracy from the tensor cores of Hopper, by FP16.
//
// Against `wgmma_3xtf32`: FP16 has the same 11 significant bits, and the tensor core multiplies twice as many of them in a
// cycle, from half the bytes. It has 5 bits of exponent instead of 8, so that rows and columns have to be scaled;
// split_wgmma.cuh says what FP16 can hold then, and why no accuracy is lost.
//
// Limit: the tensor cores, three products of 2048 multiply-adds a cycle and SM; and the memory, for the scan and the
// pre-pass, whose part falls like 1 / n.
//
// Occupancy: as `wgmma_3xtf32`.
#include "split_wgmma.cuh"

#ifndef INTERVAL
#define INTERVAL 32
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef GROUP
#define GROUP 8
#endif

using Tiling = PairTiling<Fp16, INTERVAL, STAGES, GROUP>;

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) { return run_split<Tiling>(g, workspace, stream); }

EXPORT_SGEMM_WITH_WORKSPACE(run, split_workspace<Tiling>)
