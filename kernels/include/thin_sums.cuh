// Where C has few rows or few columns, several warps of a block, and from compute capability 9.0 on the blocks of a
// cluster too, split the steps of k of the same results. Here their sums meet: in the block's shared memory, then in that
// of the cluster's blocks (PTX ISA, "mapa", "barrier.cluster"), always in the same order.
#pragma once

#include "divisor.cuh"
#include "gemm.cuh"

#if defined(__CUDACC__) && __CUDA_ARCH_LIST__ >= 900
constexpr int MOST_BLOCKS = 8;  // of a cluster, on any GPU that has clusters

// Which block of its cluster this is.
__device__ inline int rank_in_cluster() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}

// A barrier for all threads of a cluster.
__device__ inline void meet_in_cluster() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// What stands in the shared memory of the cluster's block `rank` at the place of `own` in this one.
__device__ inline float read_in_cluster(const float* own, int rank) {
  float value;
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %1, %2;\n"
      "ld.shared::cluster.f32 %0, [there];\n"
      "}"
      : "=f"(value)
      : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(own))), "r"(rank)
      : "memory");
  return value;
}

// Starts a kernel in clusters of `blocks` blocks.
template <typename... Parameters, typename... Arguments>
cudaError_t launch_clusters(void (*kernel)(Parameters...), int blocks, dim3 grid, dim3 block,
                            size_t dynamic_shared_bytes, cudaStream_t stream, Arguments... arguments) {
  if (launch_observer != nullptr || blocks == 1) {
    return launch(kernel, grid, block, dynamic_shared_bytes, stream, arguments...);
  }
  if (dynamic_shared_bytes > 48 * 1024) {
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             static_cast<int>(dynamic_shared_bytes));
    if (error != cudaSuccess) {
      return error;
    }
  }
  cudaLaunchAttribute clusters = {};
  clusters.id = cudaLaunchAttributeClusterDimension;
  clusters.val.clusterDim.x = static_cast<unsigned>(blocks);
  clusters.val.clusterDim.y = clusters.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {grid, block, dynamic_shared_bytes, stream, &clusters, 1};
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}
#else
constexpr int MOST_BLOCKS = 1;
__device__ inline int rank_in_cluster() { return 0; }
__device__ inline void meet_in_cluster() {}
__device__ inline float read_in_cluster(const float* own, int) { return *own; }
template <typename... Parameters, typename... Arguments>
cudaError_t launch_clusters(void (*kernel)(Parameters...), int, dim3 grid, dim3 block, size_t dynamic_shared_bytes,
                            cudaStream_t stream, Arguments... arguments) {
  return launch(kernel, grid, block, dynamic_shared_bytes, stream, arguments...);
}
#endif

// How the steps of k of a result are split: among `warps` warps of a block, 1, 2, 4 or 8, times `blocks` blocks of a
// cluster. A block computes the results of WARPS / warps warps.
constexpr int WARPS = 8;
struct Ways {
  int warps, blocks;
};

// Adds in each lane the values of all lanes of the warp (or of every LANES-th lane, 2, 4 or 8), so that they end in
// different lanes: halves of the values change places with another lane until each lane has its share of the sums. A lane
// returns which of the values its first one is; the others follow it. With fewer values than lanes, several lanes have the
// same one.
template <int LANES = 1, int VALUES, int COUNT = VALUES, int WIDTH = 16>
__device__ inline int sum_of_lanes(float (&value)[VALUES]) {
  bool upper = threadIdx.x & WIDTH;
  if constexpr (WIDTH < LANES) {
    return 0;
  } else if constexpr (COUNT > 1) {
    constexpr int HALF = COUNT / 2;
#pragma unroll
    for (int i = 0; i < HALF; ++i) {
      float sent = upper ? value[i] : value[i + HALF];
      float kept = upper ? value[i + HALF] : value[i];
      value[i] = kept + __shfl_xor_sync(0xFFFFFFFF, sent, WIDTH);
    }
    return (upper ? HALF : 0) + sum_of_lanes<LANES, VALUES, HALF, WIDTH / 2>(value);
  } else {
    value[0] += __shfl_xor_sync(0xFFFFFFFF, value[0], WIDTH);
    return sum_of_lanes<LANES, VALUES, 1, WIDTH / 2>(value);
  }
}

// Adds the sums of the ways and calls store(group, index, total) once for each result: index tells the VALUES results of
// a warp apart, and group the block's groups of `ways.warps` warps. sums[WARPS][VALUES] is in shared memory and has been
// written by all warps; it is changed.
template <int VALUES, class Store>
__device__ inline void store_sum_of_ways(float* sums, Ways ways, Store store) {
  int results = quotient_by_power(WARPS, ways.warps) * VALUES;
  __syncthreads();
  for (int i = threadIdx.x; i < results; i += WARPS * 32) {
    float* own = sums + i / VALUES * (ways.warps * VALUES) + i % VALUES;
    float total = *own;
    for (int warp = 1; warp < ways.warps; ++warp) {
      total += own[warp * VALUES];
    }
    if (ways.blocks > 1) {
      *own = total;
    } else {
      store(i / VALUES, i % VALUES, total);
    }
  }
  if (ways.blocks > 1) {
    meet_in_cluster();
    for (int i = rank_in_cluster() * WARPS * 32 + threadIdx.x; i < results; i += ways.blocks * WARPS * 32) {
      float* own = sums + i / VALUES * (ways.warps * VALUES) + i % VALUES;
      float total = read_in_cluster(own, 0);
      for (int rank = 1; rank < ways.blocks; ++rank) {
        total += read_in_cluster(own, rank);
      }
      store(i / VALUES, i % VALUES, total);
    }
    meet_in_cluster();  // the other blocks have read this one's sums
  }
}
