// Faults of what inline PTX does, one in each kernel with its finding: one block of 128 threads.
//
// i is the thread, c is C, b is B, of which map has boxes of 8 x 32 floats. `run` starts the kernel that k counts.
#include <cooperative_groups.h>
#include <cuda_fp16.h>

#include <cuda/ptx>

#include "bulk_copy.cuh"
#include "gemm.cuh"
#include "kernel_of_threads.cuh"
#include "wgmma.cuh"

#define FAULT KERNEL

struct Stage {
  alignas(1024) float s[256];
  uint64_t full, empty;
};
__device__ inline void begin(Stage& stage, unsigned i, int arrivals = 1) {
  if (i == 0) {
    mbarrier_init(&stage.full, arrivals);
    mbarrier_init(&stage.empty, 128);
    mbarrier_init_fence();
  }
  __syncthreads();
}
__device__ inline void copy(Stage& stage, const CUtensorMap* map, int bytes = 1024) {
  mbarrier_arrive_expect(&stage.full, bytes);
  bulk_copy_box(stage.s, map, 0, 0, &stage.full);
}

FAULT(no_wait_for_a_copy) {  // asynchronous copy: reads stage
  __shared__ Stage stage;
  begin(stage, i);
  if (i == 0) copy(stage, map);
  __syncthreads();
  c[i] = stage.s[i];
}

FAULT(only_one_thread_waits) {  // asynchronous copy: for whose completion it has not waited
  __shared__ Stage stage;
  begin(stage, i);
  if (i == 0) {
    copy(stage, map);
    mbarrier_wait(&stage.full, 0);
  }
  if (i < 32) __syncwarp();
  for (int spin = 0; spin < 100; ++spin) asm volatile("nanosleep.u32 20;");
  c[i] = stage.s[i];
}

FAULT(wrong_parity) {  // asynchronous copy: reads stage
  __shared__ Stage stage;
  begin(stage, i);
  if (i == 0) copy(stage, map);
  mbarrier_wait(&stage.full, 1);
  c[i] = stage.s[i];
}

FAULT(stage_not_given_back) {  // race: which thread
  __shared__ Stage stage;
  begin(stage, i);
  if (i == 0) copy(stage, map);
  mbarrier_wait(&stage.full, 0);
  c[i] = stage.s[i];
  if (i == 0) copy(stage, map);
  mbarrier_wait(&stage.full, 1);
}

FAULT(given_back_too_early) {  // race: which thread
  __shared__ Stage stage;
  begin(stage, i);
  if (i == 0) copy(stage, map);
  mbarrier_wait(&stage.full, 0);
  mbarrier_arrive(&stage.empty);
  c[i] = stage.s[i];
  if (i == 0) {
    mbarrier_wait(&stage.empty, 0);
    copy(stage, map);
  }
  mbarrier_wait(&stage.full, 1);
}

FAULT(too_many_bytes_expected) {  // deadlock: 64 more bytes
  __shared__ Stage stage;
  begin(stage, i);
  if (i == 0) copy(stage, map, 1088);
  mbarrier_wait(&stage.full, 0);
  c[i] = stage.s[i];
}

FAULT(too_few_bytes_expected) {  // deadlock: 960 bytes too many
  __shared__ Stage stage;
  begin(stage, i);
  if (i == 0) copy(stage, map, 64);
  mbarrier_wait(&stage.full, 0);
  c[i] = stage.s[i];
}

FAULT(too_few_arrivals) {  // deadlock: 1 of 2 arrivals
  __shared__ Stage stage;
  begin(stage, i, 2);
  if (i == 0) copy(stage, map);
  mbarrier_wait(&stage.full, 0);
  c[i] = stage.s[i];
}

FAULT(too_many_arrivals) {  // mbarrier: arrives 2 times
  __shared__ Stage stage;
  begin(stage, i);
  if (i == 0)
    asm volatile(
        "{ .reg .b64 s; mbarrier.arrive.release.cta.shared::cta.b64 s, [%0], 2; }" ::"r"(shared_address(&stage.full))
        : "memory");
}

FAULT(barrier_not_initialised) {  // mbarrier: which holds none
  __shared__ Stage stage;
  if (i == 0) mbarrier_arrive(&stage.full);
}

FAULT(no_barrier_after_the_initialisation) {  // race: initialised, with no barrier between
  __shared__ Stage stage;
  if (i == 0) mbarrier_init(&stage.full, 128);
  for (int spin = 0; spin < 100; ++spin) asm volatile("nanosleep.u32 20;");
  mbarrier_arrive(&stage.full);
}

FAULT(initialisation_not_shown) {  // proxy: no fence.mbarrier_init
  __shared__ Stage stage;
  if (i == 0) {
    mbarrier_init(&stage.full, 1);
    copy(stage, map);
  }
  __syncthreads();
  mbarrier_wait(&stage.full, 0);
}

FAULT(store_without_a_proxy_fence) {  // proxy: stores from stage
  __shared__ Stage stage;
  stage.s[i] = b[i];
  __syncthreads();
  if (i == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;" ::"l"(c), "r"(shared_address(stage.s))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
}

FAULT(source_written_before_it_was_read) {  // race: a bulk store not waited for
  __shared__ Stage stage;
  stage.s[i] = b[i];
  bulk_copy_fence();
  __syncthreads();
  if (i == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;" ::"l"(c), "r"(shared_address(stage.s))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    stage.s[0] = 1.0f;
  }
}

FAULT(misaligned_bulk_copy) {  // misaligned: 16 bytes
  __shared__ Stage stage;
  begin(stage, i);
  if (i == 0) {
    mbarrier_arrive_expect(&stage.full, 64);
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 64, [%2];" ::"r"(
                     shared_address(stage.s)),
                 "l"(b + 1), "r"(shared_address(&stage.full))
                 : "memory");
  }
}

FAULT(copy_of_an_odd_length) {  // asynchronous copy: no multiple of 16
  __shared__ Stage stage;
  begin(stage, i);
  if (i == 0) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 20, [%2];" ::"r"(
                     shared_address(stage.s)),
                 "l"(b), "r"(shared_address(&stage.full))
                 : "memory");
  }
}

FAULT(barriers_of_different_counts) {  // barrier: others for
  if (i < 64) {
    asm volatile("bar.sync 1, 128;" ::: "memory");
  } else {
    asm volatile("bar.sync 1, 96;" ::: "memory");
  }
}

FAULT(barrier_at_which_too_few_arrive) {  // deadlock: 64 of 96 threads
  if (i < 64) asm volatile("bar.sync 1, 96;" ::: "memory");
}

FAULT(named_barrier_of_others) {  // race: with no barrier between
  __shared__ float s[128];
  s[i] = b[i];
  if (i < 64) asm volatile("bar.sync 1, 64;" ::: "memory");
  if (i < 64) c[i] = s[i + 64];
}

__device__ inline void product(float (&d)[16], const void* A, const void* B) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
      "%14, %15}, %16, %17, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
      : "l"(tile_descriptor(A)), "l"(tile_descriptor(B)));
}
struct Tiles {
  alignas(1024) __half A[64 * 64];
  alignas(1024) __half B[32 * 64];
};
__device__ inline void fill(Tiles& tiles, unsigned i) {
  auto* words = reinterpret_cast<uint32_t*>(&tiles);
  for (int e = i; e < static_cast<int>(sizeof(Tiles) / 4); e += 128) words[e] = 0x3C003C00;
}

FAULT(sums_read_before_the_wait) {  // wgmma: reads sums
  __shared__ Tiles tiles;
  fill(tiles, i);
  bulk_copy_fence();
  __syncthreads();
  float d[16] = {};
  wgmma_fence();
  product(d, tiles.A, tiles.B);
  wgmma_commit();
  c[i] = d[0];
  wgmma_wait<0>();
}

FAULT(no_fence_before_the_first_product) {  // wgmma: no wgmma.fence before
  __shared__ Tiles tiles;
  fill(tiles, i);
  bulk_copy_fence();
  __syncthreads();
  float d[16] = {};
  product(d, tiles.A, tiles.B);
  wgmma_commit();
  wgmma_wait<0>();
  c[i] = d[0];
}

FAULT(sums_written_without_a_fence) {  // wgmma: since the last wgmma.fence
  __shared__ Tiles tiles;
  fill(tiles, i);
  bulk_copy_fence();
  __syncthreads();
  float d[16] = {};
  wgmma_fence();
  product(d, tiles.A, tiles.B);
  wgmma_commit();
  wgmma_wait<0>();
  for (float& each : d) each *= b[i];
  product(d, tiles.A, tiles.B);
  wgmma_commit();
  wgmma_wait<0>();
  c[i] = d[0];
}

FAULT(operands_without_a_proxy_fence) {  // proxy: multiplies
  __shared__ Tiles tiles;
  fill(tiles, i);
  __syncthreads();
  float d[16] = {};
  wgmma_fence();
  product(d, tiles.A, tiles.B);
  wgmma_commit();
  wgmma_wait<0>();
  c[i] = d[0];
}

FAULT(operands_written_before_the_wait) {  // race: a wgmma not waited for
  __shared__ Tiles tiles;
  fill(tiles, i);
  bulk_copy_fence();
  __syncthreads();
  float d[16] = {};
  wgmma_fence();
  product(d, tiles.A, tiles.B);
  wgmma_commit();
  asm volatile("bar.sync 1, 128;" ::: "memory");
  tiles.A[i] = __float2half(2.0f);
  *reinterpret_cast<uint32_t*>(&tiles.A[2 * i]) = 0;
  wgmma_wait<0>();
  c[i] = d[0];
}

FAULT(half_of_a_warp_multiplies) {  // warp: waits for its warp
  if (i % 32 < 16) {
    uint32_t r[4];
    __shared__ alignas(16) float s[128];
    s[i] = 0;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(shared_address(s)));
    c[i] = __uint_as_float(r[0]);
  } else {
    __syncthreads();
  }
}

FAULT(too_many_registers) {  // registers: a multiple of 8 from 24 to 256
  asm volatile("setmaxnreg.inc.sync.aligned.u32 260;");
}

FAULT(barrier_behind_its_array) {  // out of bounds: writes 8 bytes at 16 of 16 bytes of
  __shared__ uint64_t barriers[2];
  if (i <= 2) mbarrier_init(barriers + i, 1);
}

FAULT(barrier_initialised_twice) {  // mbarrier: once more; mbarrier.inval has to come first
  __shared__ uint64_t barrier;
  mbarrier_init(&barrier, 1);
}

FAULT(box_begins_inside_16_bytes) {  // tensor map: begins 8 bytes behind the begin of a row
  __shared__ Stage stage;
  begin(stage, i);
  if (i == 0) {
    mbarrier_arrive_expect(&stage.full, 1024);
    bulk_copy_box(stage.s, map, 0, 2, &stage.full);
  }
  mbarrier_wait(&stage.full, 0);
  c[i] = stage.s[i];
}

FAULT(store_by_cuda_ptx_without_a_proxy_fence) {  // proxy: stores from s
  namespace ptx = cuda::ptx;
  __shared__ alignas(16) float s[128];
  s[i] = b[i];
  __syncthreads();
  if (i == 0) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, c, s, sizeof s);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
  }
}

FAULT(lane_that_leaves_its_coalesced_group) {  // warp: takes a value from lane 0, which takes no part
  if (i % 2) return;
  auto lanes = cooperative_groups::coalesced_threads();
  if (lanes.thread_rank() == 0) return;
  c[i] = lanes.shfl(i, 0);
}

// Each thread has a copy of this map. With these parameters the kernel is of the type of the others on a GPU alone.
__global__ void __launch_bounds__(128) copy_of_the_map_kernel(Gemm g, const CUtensorMap map) {
  __shared__ Stage stage;
  begin(stage, threadIdx.x);
  if (threadIdx.x == 0) copy(stage, &map);
  mbarrier_wait(&stage.full, 0);
  g.C[threadIdx.x] = stage.s[threadIdx.x];
}

using Kernel = void (*)(Gemm, CUtensorMap);
const Kernel kernels[] = {no_wait_for_a_copy_kernel,
                          only_one_thread_waits_kernel,
                          wrong_parity_kernel,
                          stage_not_given_back_kernel,
                          given_back_too_early_kernel,
                          too_many_bytes_expected_kernel,
                          too_few_bytes_expected_kernel,
                          too_few_arrivals_kernel,
                          too_many_arrivals_kernel,
                          barrier_not_initialised_kernel,
                          no_barrier_after_the_initialisation_kernel,
                          initialisation_not_shown_kernel,
                          store_without_a_proxy_fence_kernel,
                          source_written_before_it_was_read_kernel,
                          misaligned_bulk_copy_kernel,
                          copy_of_an_odd_length_kernel,
                          barriers_of_different_counts_kernel,
                          barrier_at_which_too_few_arrive_kernel,
                          named_barrier_of_others_kernel,
                          sums_read_before_the_wait_kernel,
                          no_fence_before_the_first_product_kernel,
                          sums_written_without_a_fence_kernel,
                          operands_without_a_proxy_fence_kernel,
                          operands_written_before_the_wait_kernel,
                          half_of_a_warp_multiplies_kernel,
                          too_many_registers_kernel,
                          barrier_behind_its_array_kernel,
                          barrier_initialised_twice_kernel,
                          box_begins_inside_16_bytes_kernel,
                          store_by_cuda_ptx_without_a_proxy_fence_kernel,
                          lane_that_leaves_its_coalesced_group_kernel};

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  CUtensorMap map = {};
  if (!make_tensor_map(&map, g.B, 64, 64, 64, 8, 32, CU_TENSOR_MAP_SWIZZLE_128B)) {
    return cudaErrorInvalidValue;
  }
  if (g.k == sizeof kernels / sizeof *kernels + 1) {
    return launch(copy_of_the_map_kernel, dim3(1), dim3(128), 1024, stream, g, map);
  }
  return launch(kernels[g.k - 1], dim3(1), dim3(128), 1024, stream, g, map);
}

EXPORT_SGEMM(run)
