// <cuda/ptx> on the CPU (libcu++ documentation, "PTX"): functions that are named after instructions of PTX. Each calls
// what ptx.py makes of the same instruction as inline PTX. Pointers are generic, so most of the tags say nothing new.
#pragma once

#include <type_traits>

#include "cuda_runtime.h"
#include "ptx.h"

namespace cuda::ptx {

enum class dot_sem { acq_rel, acquire, relaxed, release, sc, weak };
enum class dot_space { global, cluster, shared };
enum class dot_scope { cta, cluster, gpu, sys };
enum class dot_op { add, dec, inc, max, min, and_op, or_op, xor_op };
template <dot_sem SEM>
using sem_t = std::integral_constant<dot_sem, SEM>;
template <dot_space SPACE>
using space_t = std::integral_constant<dot_space, SPACE>;
template <dot_scope SCOPE>
using scope_t = std::integral_constant<dot_scope, SCOPE>;
template <dot_op OP>
using op_t = std::integral_constant<dot_op, OP>;
template <int N>
using n32_t = std::integral_constant<int, N>;
#define EMULATOR_TAG(kind, name)                        \
  using kind##_##name##_t = kind##_t<dot_##kind::name>; \
  constexpr kind##_##name##_t kind##_##name{};
EMULATOR_TAG(sem, acq_rel)
EMULATOR_TAG(sem, acquire)
EMULATOR_TAG(sem, relaxed)
EMULATOR_TAG(sem, release)
EMULATOR_TAG(sem, sc)
EMULATOR_TAG(sem, weak)
EMULATOR_TAG(space, global)
EMULATOR_TAG(space, cluster)
EMULATOR_TAG(space, shared)
EMULATOR_TAG(scope, cta)
EMULATOR_TAG(scope, cluster)
EMULATOR_TAG(scope, gpu)
EMULATOR_TAG(scope, sys)
EMULATOR_TAG(op, add)
EMULATOR_TAG(op, dec)
EMULATOR_TAG(op, inc)
EMULATOR_TAG(op, max)
EMULATOR_TAG(op, min)
EMULATOR_TAG(op, and_op)
EMULATOR_TAG(op, or_op)
EMULATOR_TAG(op, xor_op)
#undef EMULATOR_TAG

// Special registers.
#define EMULATOR_REGISTER(type, name, ...) \
  EMULATOR_INLINE type get_sreg_##name() { return __VA_ARGS__; }
#define EMULATOR_REGISTERS(name, value)            \
  EMULATOR_REGISTER(uint32_t, name##_x, (value).x) \
  EMULATOR_REGISTER(uint32_t, name##_y, (value).y) \
  EMULATOR_REGISTER(uint32_t, name##_z, (value).z)
EMULATOR_REGISTERS(tid, threadIdx)
EMULATOR_REGISTERS(ntid, blockDim)
EMULATOR_REGISTERS(ctaid, blockIdx)
EMULATOR_REGISTERS(nctaid, gridDim)
EMULATOR_REGISTERS(clusterid, emulator::cluster_index())
EMULATOR_REGISTERS(nclusterid, emulator::cluster_grid())
EMULATOR_REGISTERS(cluster_ctaid, emulator::cluster_block())
EMULATOR_REGISTERS(cluster_nctaid, emulator::cluster_extent())
EMULATOR_REGISTER(uint32_t, cluster_ctarank, emulator::cluster_rank())
EMULATOR_REGISTER(uint32_t, cluster_nctarank, emulator::cluster_size())
EMULATOR_REGISTER(bool, is_explicit_cluster, emulator::cluster_size() > 1)
EMULATOR_REGISTER(uint32_t, laneid, static_cast<uint32_t>(emulator_lane()))
EMULATOR_REGISTER(uint32_t, warpid, emulator_ptx::warp())
EMULATOR_REGISTER(uint32_t, nwarpid, emulator_ptx::warps())
EMULATOR_REGISTER(uint32_t, smid, emulator::sm_of_block())
EMULATOR_REGISTER(uint32_t, nsmid, static_cast<uint32_t>(emulator::sms))
EMULATOR_REGISTER(uint64_t, gridid, 0)
EMULATOR_REGISTER(uint32_t, lanemask_eq, 1u << emulator_lane())
EMULATOR_REGISTER(uint32_t, lanemask_lt, (1u << emulator_lane()) - 1)
EMULATOR_REGISTER(uint32_t, lanemask_le, ~0u >> (31 - emulator_lane()))
EMULATOR_REGISTER(uint32_t, lanemask_gt, ~(~0u >> (31 - emulator_lane())))
EMULATOR_REGISTER(uint32_t, lanemask_ge, ~0u << emulator_lane())
EMULATOR_REGISTER(uint32_t, clock, static_cast<uint32_t>(emulator::clock()))
EMULATOR_REGISTER(uint64_t, clock64, emulator::clock())
EMULATOR_REGISTER(uint32_t, clock_hi, static_cast<uint32_t>(emulator::clock() >> 32))
EMULATOR_REGISTER(uint64_t, globaltimer, emulator::clock())
EMULATOR_REGISTER(uint32_t, globaltimer_lo, static_cast<uint32_t>(emulator::clock()))
EMULATOR_REGISTER(uint32_t, globaltimer_hi, static_cast<uint32_t>(emulator::clock() >> 32))
EMULATOR_REGISTER(uint32_t, dynamic_smem_size, emulator::dynamic_shared_bytes())
#undef EMULATOR_REGISTERS
#undef EMULATOR_REGISTER

// Fences, barriers of a cluster, and who is elected.
template <dot_sem SEM, dot_scope SCOPE>
EMULATOR_INLINE void fence(sem_t<SEM>, scope_t<SCOPE>) {
  SCOPE == dot_scope::cta ? emulator::fence_block() : emulator::fence();
}
EMULATOR_INLINE void fence_mbarrier_init(sem_release_t, scope_cluster_t) { emulator::fence_mbarrier_init(); }
EMULATOR_INLINE void fence_proxy_async() { emulator::fence_proxy_async(); }
template <dot_space SPACE>
EMULATOR_INLINE void fence_proxy_async(space_t<SPACE>) {
  emulator::fence_proxy_async();
}
EMULATOR_INLINE void barrier_cluster_arrive(sem_release_t = {}) { emulator::cluster_arrive(true); }
EMULATOR_INLINE void barrier_cluster_arrive(sem_relaxed_t) { emulator::cluster_arrive(false); }
EMULATOR_INLINE void barrier_cluster_wait(sem_acquire_t = {}) { emulator::cluster_wait(); }
EMULATOR_INLINE bool elect_sync(uint32_t mask) {
  return emulator_ptx::elect(mask) == static_cast<uint32_t>(emulator_lane());
}
EMULATOR_INLINE uint32_t getctarank(space_cluster_t, const void* pointer) { return emulator::rank_of(pointer); }
template <typename T>
EMULATOR_INLINE T* mapa(space_cluster_t, const T* pointer, uint32_t rank) {
  return reinterpret_cast<T*>(emulator::map_generic(reinterpret_cast<uint64_t>(pointer), rank));
}
EMULATOR_INLINE void trap() { emulator::trap(); }

// mbarriers.
EMULATOR_INLINE void mbarrier_init(uint64_t* barrier, uint32_t count) { emulator::mbarrier_init(barrier, count); }
EMULATOR_INLINE uint64_t mbarrier_arrive(uint64_t* barrier, uint32_t count = 1) {
  return emulator::mbarrier_arrive(barrier, count, 0, false);
}
EMULATOR_INLINE uint64_t mbarrier_arrive_no_complete(uint64_t* barrier, uint32_t count) {
  return emulator::mbarrier_arrive(barrier, count, 0, false);
}
template <dot_sem SEM, dot_scope SCOPE>
EMULATOR_INLINE uint64_t mbarrier_arrive(sem_t<SEM>, scope_t<SCOPE>, space_shared_t, uint64_t* barrier,
                                         uint32_t count = 1) {
  return emulator::mbarrier_arrive(barrier, count, 0, false);
}
template <dot_sem SEM>
EMULATOR_INLINE void mbarrier_arrive(sem_t<SEM>, scope_cluster_t, space_cluster_t, uint64_t* barrier,
                                     uint32_t count = 1) {
  emulator::mbarrier_arrive(barrier, count, 0, false);
}
template <dot_sem SEM, dot_scope SCOPE>
EMULATOR_INLINE uint64_t mbarrier_arrive_expect_tx(sem_t<SEM>, scope_t<SCOPE>, space_shared_t, uint64_t* barrier,
                                                   uint32_t bytes) {
  return emulator::mbarrier_arrive(barrier, 1, bytes, false);
}
template <dot_sem SEM>
EMULATOR_INLINE void mbarrier_arrive_expect_tx(sem_t<SEM>, scope_cluster_t, space_cluster_t, uint64_t* barrier,
                                               uint32_t bytes) {
  emulator::mbarrier_arrive(barrier, 1, bytes, false);
}
template <dot_scope SCOPE, dot_space SPACE>
EMULATOR_INLINE void mbarrier_expect_tx(sem_relaxed_t, scope_t<SCOPE>, space_t<SPACE>, uint64_t* barrier,
                                        uint32_t bytes) {
  emulator::mbarrier_expect_tx(barrier, bytes);
}
#define EMULATOR_WAIT(name, phase, parity, waits)                                                       \
  EMULATOR_INLINE bool mbarrier_##name(uint64_t* barrier, phase expected) {                             \
    return emulator::mbarrier_test(barrier, expected, parity, waits);                                   \
  }                                                                                                     \
  template <dot_sem SEM, dot_scope SCOPE>                                                               \
  EMULATOR_INLINE bool mbarrier_##name(sem_t<SEM>, scope_t<SCOPE>, uint64_t* barrier, phase expected) { \
    return emulator::mbarrier_test(barrier, expected, parity, waits);                                   \
  }
#define EMULATOR_WAIT_FOR_A_TIME(name, phase, parity)                                                             \
  EMULATOR_WAIT(name, phase, parity, true)                                                                        \
  EMULATOR_INLINE bool mbarrier_##name(uint64_t* barrier, phase expected, uint32_t) {                             \
    return emulator::mbarrier_test(barrier, expected, parity, true);                                              \
  }                                                                                                               \
  template <dot_sem SEM, dot_scope SCOPE>                                                                         \
  EMULATOR_INLINE bool mbarrier_##name(sem_t<SEM>, scope_t<SCOPE>, uint64_t* barrier, phase expected, uint32_t) { \
    return emulator::mbarrier_test(barrier, expected, parity, true);                                              \
  }
EMULATOR_WAIT(test_wait, uint64_t, false, false)
EMULATOR_WAIT(test_wait_parity, uint32_t, true, false)
EMULATOR_WAIT_FOR_A_TIME(try_wait, uint64_t, false)
EMULATOR_WAIT_FOR_A_TIME(try_wait_parity, uint32_t, true)
#undef EMULATOR_WAIT_FOR_A_TIME
#undef EMULATOR_WAIT
EMULATOR_INLINE void cp_async_mbarrier_arrive(uint64_t* barrier) {
  emulator::mbarrier_arrive_after_copies(barrier, false);
}
EMULATOR_INLINE void cp_async_mbarrier_arrive_noinc(uint64_t* barrier) {
  emulator::mbarrier_arrive_after_copies(barrier, true);
}

// Bulk copies. Those from global memory may go to several blocks of the cluster, one for each bit.
template <dot_space TO>
EMULATOR_INLINE void cp_async_bulk(space_t<TO>, space_global_t, void* to, const void* from, uint32_t bytes,
                                   uint64_t* barrier, uint16_t blocks = 0) {
  static_assert(TO != dot_space::global, "a copy into shared memory");
  emulator::bulk_load(to, from, bytes, barrier, blocks);
}
EMULATOR_INLINE void cp_async_bulk(space_cluster_t, space_shared_t, void* to, const void* from, uint32_t bytes,
                                   uint64_t* barrier) {
  emulator::bulk_load(to, from, bytes, barrier, 0);
}
EMULATOR_INLINE void cp_async_bulk(space_global_t, space_shared_t, void* to, const void* from, uint32_t bytes) {
  emulator::bulk_store(to, from, bytes);
}
constexpr emulator::Reduction emulator_reduction(dot_op op) {
  return op == dot_op::add      ? emulator::ADD
         : op == dot_op::dec    ? emulator::DEC
         : op == dot_op::inc    ? emulator::INC
         : op == dot_op::max    ? emulator::MAX
         : op == dot_op::min    ? emulator::MIN
         : op == dot_op::and_op ? emulator::AND
         : op == dot_op::or_op  ? emulator::OR
                                : emulator::XOR;
}
template <dot_op OP, typename T>
EMULATOR_INLINE void cp_reduce_async_bulk(space_global_t, space_shared_t, op_t<OP>, T* to, const T* from,
                                          uint32_t bytes) {
  static_assert(std::is_arithmetic_v<T>, "the emulator adds no halves here: write the instruction as inline PTX");
  emulator::bulk_store(to, from, bytes, emulator_ptx::reduce_bulk<T, emulator_reduction(OP)>, sizeof(T));
}
template <dot_space TO, int DIMENSIONS>
EMULATOR_INLINE void cp_async_bulk_tensor(space_t<TO>, space_global_t, void* to, const void* map,
                                          const int32_t (&at)[DIMENSIONS], uint64_t* barrier, uint16_t blocks = 0) {
  static_assert(TO != dot_space::global, "a copy into shared memory");
  emulator::tensor_load(to, map, DIMENSIONS, at, barrier, blocks);
}
template <int DIMENSIONS>
EMULATOR_INLINE void cp_async_bulk_tensor(space_global_t, space_shared_t, const void* map,
                                          const int32_t (&at)[DIMENSIONS], const void* from) {
  emulator::tensor_store(map, DIMENSIONS, at, from, emulator::COPY);
}
template <dot_op OP, int DIMENSIONS>
EMULATOR_INLINE void cp_reduce_async_bulk_tensor(space_global_t, space_shared_t, op_t<OP>, const void* map,
                                                 const int32_t (&at)[DIMENSIONS], const void* from) {
  emulator::tensor_store(map, DIMENSIONS, at, from, emulator_reduction(OP));
}
EMULATOR_INLINE void cp_async_bulk_commit_group() { emulator::bulk_commit(); }
template <int N>
EMULATOR_INLINE void cp_async_bulk_wait_group(n32_t<N>) {
  emulator::bulk_wait(N, false);
}
template <int N>
EMULATOR_INLINE void cp_async_bulk_wait_group_read(n32_t<N>) {
  emulator::bulk_wait(N, true);
}

}  // namespace cuda::ptx
