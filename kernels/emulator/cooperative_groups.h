// Cooperative groups of a grid, a cluster, a block, a warp and a part of a warp: what CUDA C++ Programming Guide,
// "Cooperative Groups", says of grid_group, cluster_group, thread_block, thread_block_tile and coalesced_group.
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
  EMULATOR_INLINE unsigned ballot(int predicate) const { return own(__ballot_sync(mask(), predicate)); }
  template <typename T>
  EMULATOR_INLINE unsigned match_any(T value) const {
    return own(__match_any_sync(mask(), value));
  }
  template <typename T>
  EMULATOR_INLINE unsigned match_all(T value, int& equal) const {
    return own(__match_all_sync(mask(), value, &equal));
  }

 private:
  EMULATOR_INLINE unsigned own(unsigned of_warp) const { return of_warp >> (emulator_lane() / lanes * lanes); }
};
template <unsigned Lanes, typename Parent = thread_block>
struct thread_block_tile : thread_group {
  static_assert(Lanes > 0 && Lanes <= 32 && (Lanes & (Lanes - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");
  EMULATOR_INLINE explicit thread_block_tile(unsigned parent = 0) : thread_group{Lanes, parent} {}
  template <typename Other>
  EMULATOR_INLINE thread_block_tile(const thread_block_tile<Lanes, Other>& tile) : thread_group(tile) {}
};

// Any lanes of a warp, in their order.
class coalesced_group {
  unsigned lanes, rank, count;  // and its place among the parts of another group

  EMULATOR_INLINE int lane(unsigned rank) const {
    return static_cast<int>(__fns(lanes, 0, static_cast<int>(rank) + 1));
  }
  EMULATOR_INLINE unsigned packed(unsigned of_warp) const {
    unsigned bits = 0;
    for (unsigned i = 0; i < size(); ++i) bits |= (of_warp >> lane(i) & 1) << i;
    return bits;
  }

 public:
  EMULATOR_INLINE explicit coalesced_group(unsigned lanes, unsigned rank = 0, unsigned count = 1)
      : lanes(lanes), rank(rank), count(count) {}
  EMULATOR_INLINE unsigned mask() const { return lanes; }
  EMULATOR_INLINE void sync() const { __syncwarp(lanes); }
  EMULATOR_INLINE unsigned thread_rank() const { return __popc(lanes & ((1u << emulator_lane()) - 1)); }
  EMULATOR_INLINE unsigned num_threads() const { return __popc(lanes); }
  EMULATOR_INLINE unsigned size() const { return num_threads(); }
  EMULATOR_INLINE unsigned meta_group_rank() const { return rank; }
  EMULATOR_INLINE unsigned meta_group_size() const { return count; }
  template <typename T>
  EMULATOR_INLINE T shfl(T value, int source) const {
    return emulator_shuffle(lanes, value, lane(static_cast<unsigned>(source) % size()), 4);
  }
  template <typename T>
  EMULATOR_INLINE T shfl_up(T value, unsigned delta) const {
    unsigned own = thread_rank();
    return emulator_shuffle(lanes, value, lane(delta <= own ? own - delta : own), 6);
  }
  template <typename T>
  EMULATOR_INLINE T shfl_down(T value, unsigned delta) const {
    unsigned own = thread_rank();
    return emulator_shuffle(lanes, value, lane(delta < size() - own ? own + delta : own), 7);
  }
  EMULATOR_INLINE int any(int predicate) const { return __any_sync(lanes, predicate); }
  EMULATOR_INLINE int all(int predicate) const { return __all_sync(lanes, predicate); }
  EMULATOR_INLINE unsigned ballot(int predicate) const { return packed(__ballot_sync(lanes, predicate)); }
  template <typename T>
  EMULATOR_INLINE unsigned match_any(T value) const {
    return packed(__match_any_sync(lanes, value));
  }
  template <typename T>
  EMULATOR_INLINE unsigned match_all(T value, int& equal) const {
    return packed(__match_all_sync(lanes, value, &equal));
  }
};
EMULATOR_INLINE thread_block_tile<1, void> this_thread() { return thread_block_tile<1, void>(1); }
EMULATOR_INLINE coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }
template <typename Group, typename Label>
EMULATOR_INLINE coalesced_group labeled_partition(const Group& group, Label label) {
  unsigned same = __match_any_sync(group.mask(), label), first = same & (0 - same);
  unsigned firsts = __ballot_sync(group.mask(), first == 1u << emulator_lane());
  return coalesced_group(same, static_cast<unsigned>(__popc(firsts & (first - 1))),
                         static_cast<unsigned>(__popc(firsts)));
}
template <typename Group>
EMULATOR_INLINE coalesced_group binary_partition(const Group& group, bool predicate) {
  return labeled_partition(group, static_cast<int>(predicate));
}

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
EMULATOR_INLINE void sync(const coalesced_group& group) { group.sync(); }
template <typename Group>
EMULATOR_INLINE unsigned thread_rank(const Group& group) {
  return group.thread_rank();
}
// One thread of the group calls it.
template <typename Group, typename Function, typename... Arguments>
EMULATOR_INLINE void invoke_one(const Group& group, Function&& function, Arguments&&... arguments) {
  if (group.thread_rank() == 0) {
    std::forward<Function>(function)(std::forward<Arguments>(arguments)...);
  }
}
template <typename Group>
EMULATOR_INLINE unsigned group_size(const Group& group) {
  return group.size();
}

// <cooperative_groups/reduce.h>
#define EMULATOR_OPERATION(name, ...)              \
  template <typename T = void>                     \
  struct name {                                    \
    template <typename U>                          \
    EMULATOR_INLINE U operator()(U a, U b) const { \
      return __VA_ARGS__;                          \
    }                                              \
  };
EMULATOR_OPERATION(plus, a + b)
EMULATOR_OPERATION(less, b < a ? b : a)
EMULATOR_OPERATION(greater, a < b ? b : a)
EMULATOR_OPERATION(bit_and, a& b)
EMULATOR_OPERATION(bit_or, a | b)
EMULATOR_OPERATION(bit_xor, a ^ b)
template <typename T, typename Operation>
EMULATOR_INLINE T reduce(const thread_group& group, T value, Operation operation) {
  for (unsigned lanes = group.lanes / 2; lanes > 0; lanes /= 2) {
    value = operation(value, group.shfl_xor(value, lanes));
  }
  return value;
}
template <typename T, typename Operation>
EMULATOR_INLINE T reduce(const coalesced_group& group, T value, Operation operation) {
  return emulator_reduce(group.mask(), value, operation);
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
