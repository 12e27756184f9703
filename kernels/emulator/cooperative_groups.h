// Cooperative groups of a grid, a cluster, a block, a warp and a part of a warp: what CUDA C++ Programming Guide,
// "Cooperative Groups", says of grid_group, cluster_group, thread_block and thread_block_tile. A group of lanes that run
// together by chance (coalesced_threads) is not here, for the emulator cannot know it.
#pragma once

#include "cuda_pipeline.h"
#include "cuda_runtime.h"
#include "ptx.h"

namespace cooperative_groups {

struct thread_block {
  EMULATOR_INLINE static void sync(EMULATOR_LINE) { emulator_barrier(0, line); }
  EMULATOR_INLINE static unsigned thread_rank() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  }
  EMULATOR_INLINE static unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
  EMULATOR_INLINE static unsigned size() { return num_threads(); }
  EMULATOR_INLINE static dim3 thread_index() { return threadIdx; }
  EMULATOR_INLINE static dim3 group_index() { return blockIdx; }
  EMULATOR_INLINE static dim3 dim_threads() { return blockDim; }
  EMULATOR_INLINE static dim3 group_dim() { return blockDim; }
};
EMULATOR_INLINE thread_block this_thread_block() { return {}; }

struct grid_group {
  EMULATOR_INLINE static void sync(EMULATOR_LINE) {
    emulator_barrier(0, line);
    if (thread_block::thread_rank() == 0) {
      emulator::grid_barrier();
    }
    emulator_barrier(0, line);
  }
  EMULATOR_INLINE static bool is_valid() { return emulator::is_cooperative(); }
  EMULATOR_INLINE static unsigned long long block_rank() {
    return blockIdx.x + static_cast<unsigned long long>(gridDim.x) * (blockIdx.y + gridDim.y * blockIdx.z);
  }
  EMULATOR_INLINE static unsigned long long num_blocks() {
    return static_cast<unsigned long long>(gridDim.x) * gridDim.y * gridDim.z;
  }
  EMULATOR_INLINE static unsigned long long thread_rank() {
    return block_rank() * thread_block::num_threads() + thread_block::thread_rank();
  }
  EMULATOR_INLINE static unsigned long long num_threads() { return num_blocks() * thread_block::num_threads(); }
  EMULATOR_INLINE static unsigned long long size() { return num_threads(); }
  EMULATOR_INLINE static dim3 block_index() { return blockIdx; }
  EMULATOR_INLINE static dim3 dim_blocks() { return gridDim; }
  EMULATOR_INLINE static dim3 group_dim() { return gridDim; }
};
EMULATOR_INLINE grid_group this_grid() { return {}; }
EMULATOR_INLINE void sync(const grid_group&, EMULATOR_LINE) { grid_group::sync(line); }

struct cluster_group {
  struct arrival_token {};
  EMULATOR_INLINE static arrival_token barrier_arrive() {
    emulator::cluster_arrive(true);
    return {};
  }
  EMULATOR_INLINE static void barrier_wait() { emulator::cluster_wait(); }
  EMULATOR_INLINE static void barrier_wait(arrival_token&&) { emulator::cluster_wait(); }
  EMULATOR_INLINE static void sync() {
    emulator::cluster_arrive(true);
    emulator::cluster_wait();
  }
  EMULATOR_INLINE static unsigned block_rank() { return emulator::cluster_rank(); }
  EMULATOR_INLINE static unsigned num_blocks() { return emulator::cluster_size(); }
  EMULATOR_INLINE static unsigned thread_rank() {
    return block_rank() * thread_block::num_threads() + thread_block::thread_rank();
  }
  EMULATOR_INLINE static unsigned num_threads() { return num_blocks() * thread_block::num_threads(); }
  EMULATOR_INLINE static unsigned size() { return num_threads(); }
  EMULATOR_INLINE static dim3 block_index() { return emulator::cluster_block(); }
  EMULATOR_INLINE static dim3 dim_blocks() { return emulator::cluster_extent(); }
  template <typename T>
  EMULATOR_INLINE static T* map_shared_rank(T* pointer, unsigned rank) {
    return reinterpret_cast<T*>(emulator::map_generic(reinterpret_cast<uint64_t>(pointer), rank));
  }
  EMULATOR_INLINE static unsigned query_shared_rank(const void* pointer) { return emulator::rank_of(pointer); }
};
EMULATOR_INLINE cluster_group this_cluster() { return {}; }
EMULATOR_INLINE void sync(const cluster_group&) { cluster_group::sync(); }

// Lanes whose number is not known when compiling: a part of a warp.
struct thread_group {
  unsigned lanes;
  unsigned parent = 0;  // the lanes of the tile that it is a part of; of a part of the block 0

  EMULATOR_INLINE unsigned mask() const {
    return (lanes == 32 ? ~0u : (1u << lanes) - 1) << (emulator_lane() / lanes * lanes);
  }
  EMULATOR_INLINE void sync() const { __syncwarp(mask()); }
  EMULATOR_INLINE unsigned thread_rank() const { return emulator_lane() % lanes; }
  EMULATOR_INLINE unsigned num_threads() const { return lanes; }
  EMULATOR_INLINE unsigned size() const { return lanes; }
  EMULATOR_INLINE unsigned meta_group_rank() const {
    return (parent != 0 ? emulator_lane() % parent : thread_block::thread_rank()) / lanes;
  }
  EMULATOR_INLINE unsigned meta_group_size() const {
    return ((parent != 0 ? parent : thread_block::num_threads()) + lanes - 1) / lanes;
  }
  template <typename T>
  EMULATOR_INLINE T shfl(T value, int source) const {
    return __shfl_sync(mask(), value, source, static_cast<int>(lanes));
  }
  template <typename T>
  EMULATOR_INLINE T shfl_up(T value, unsigned delta) const {
    return __shfl_up_sync(mask(), value, delta, static_cast<int>(lanes));
  }
  template <typename T>
  EMULATOR_INLINE T shfl_down(T value, unsigned delta) const {
    return __shfl_down_sync(mask(), value, delta, static_cast<int>(lanes));
  }
  template <typename T>
  EMULATOR_INLINE T shfl_xor(T value, unsigned other) const {
    return __shfl_xor_sync(mask(), value, static_cast<int>(other), static_cast<int>(lanes));
  }
  EMULATOR_INLINE int any(int predicate) const { return __any_sync(mask(), predicate); }
  EMULATOR_INLINE int all(int predicate) const { return __all_sync(mask(), predicate); }
  EMULATOR_INLINE unsigned ballot(int predicate) const {
    return __ballot_sync(mask(), predicate) >> (emulator_lane() / lanes * lanes);
  }
};
template <unsigned Lanes, typename Parent = thread_block>
struct thread_block_tile : thread_group {
  static_assert(Lanes > 0 && Lanes <= 32 && (Lanes & (Lanes - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");
  EMULATOR_INLINE explicit thread_block_tile(unsigned parent = 0) : thread_group{Lanes, parent} {}
  template <typename Other>
  EMULATOR_INLINE thread_block_tile(const thread_block_tile<Lanes, Other>& tile) : thread_group(tile) {}
};
EMULATOR_INLINE unsigned emulator_lanes_of(const thread_block&) { return 0; }
EMULATOR_INLINE unsigned emulator_lanes_of(const thread_group& group) { return group.lanes; }

template <unsigned Lanes, typename Group>
EMULATOR_INLINE thread_block_tile<Lanes, Group> tiled_partition(const Group& group) {
  return thread_block_tile<Lanes, Group>(emulator_lanes_of(group));
}
template <typename Group>
EMULATOR_INLINE thread_group tiled_partition(const Group& group, unsigned lanes) {
  return {lanes, emulator_lanes_of(group)};
}
EMULATOR_INLINE void sync(const thread_block&, EMULATOR_LINE) { emulator_barrier(0, line); }
EMULATOR_INLINE void sync(const thread_group& group) { group.sync(); }
template <typename Group>
EMULATOR_INLINE unsigned thread_rank(const Group& group) {
  return group.thread_rank();
}
template <typename Group>
EMULATOR_INLINE unsigned group_size(const Group& group) {
  return group.size();
}

// <cooperative_groups/reduce.h>
template <typename T = void>
struct plus {
  template <typename U>
  EMULATOR_INLINE U operator()(U a, U b) const {
    return a + b;
  }
};
template <typename T = void>
struct less {
  template <typename U>
  EMULATOR_INLINE U operator()(U a, U b) const {
    return b < a ? b : a;
  }
};
template <typename T = void>
struct greater {
  template <typename U>
  EMULATOR_INLINE U operator()(U a, U b) const {
    return a < b ? b : a;
  }
};
template <typename T, typename Operation>
EMULATOR_INLINE T reduce(const thread_group& group, T value, Operation operation) {
  for (unsigned lanes = group.lanes / 2; lanes > 0; lanes /= 2) {
    value = operation(value, group.shfl_xor(value, lanes));
  }
  return value;
}

// <cooperative_groups/memcpy_async.h>: each thread copies words; what is waited for, all threads have waited for.
template <typename Group, typename To, typename From>
EMULATOR_INLINE void memcpy_async(const Group& group, To* to, const From* from, size_t bytes) {
  for (size_t at = 4 * group.thread_rank(); at < bytes; at += 4 * group.size()) {
    emulator::issue_copy(reinterpret_cast<char*>(to) + at, reinterpret_cast<const char*>(from) + at, 4, 0);
  }
  emulator::commit_copies();
}
template <unsigned Newest, typename Group>
EMULATOR_INLINE void wait_prior(const Group& group) {
  emulator::wait_for_copies(Newest);
  sync(group);
}
template <typename Group>
EMULATOR_INLINE void wait(const Group& group) {
  wait_prior<0>(group);
}

}  // namespace cooperative_groups
