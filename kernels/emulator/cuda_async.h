// <cuda/barrier> and <cuda/pipeline> on the CPU (libcu++ documentation, "Extended API", "Synchronization Primitives"):
// barriers of a block, asynchronous copies that they or a pipeline wait for, pipelines of a thread and of a block.
#pragma once

#include <cstddef>

#include "cooperative_groups.h"
#include "cuda_ptx.h"
#include "ptx.h"

namespace cuda {

enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };

// A number of bytes of which, as of both addresses, the number of an alignment is known.
template <size_t Alignment>
struct aligned_size_t {
  static constexpr size_t align = Alignment;
  size_t value;
  constexpr explicit aligned_size_t(size_t bytes) : value(bytes) {}
  constexpr operator size_t() const { return value; }
};

template <thread_scope Scope, typename Completion = void>
class barrier {
  static_assert(Scope == thread_scope_block || Scope == thread_scope_thread, "the emulator has barriers of a block");
  alignas(8) uint64_t object;

 public:
  using arrival_token = uint64_t;

  barrier() = default;
  barrier(const barrier&) = delete;
  barrier& operator=(const barrier&) = delete;

  EMULATOR_INLINE friend void init(barrier* made, ptrdiff_t expected) {
    emulator::mbarrier_init(&made->object, static_cast<uint32_t>(expected));
  }
  EMULATOR_INLINE arrival_token arrive(ptrdiff_t count = 1) {
    return emulator::mbarrier_arrive(&object, static_cast<uint32_t>(count), 0, false);
  }
  EMULATOR_INLINE void wait(arrival_token token) {
    while (!emulator::mbarrier_test(&object, token, false, true)) {
    }
  }
  EMULATOR_INLINE void wait_parity(bool parity) {
    while (!emulator::mbarrier_test(&object, parity, true, true)) {
    }
  }
  EMULATOR_INLINE bool try_wait(arrival_token token) { return emulator::mbarrier_test(&object, token, false, true); }
  EMULATOR_INLINE void arrive_and_wait() { wait(arrive()); }
  EMULATOR_INLINE void arrive_and_drop() { emulator::mbarrier_arrive(&object, 1, 0, true); }
  EMULATOR_INLINE uint64_t* handle() { return &object; }
};
namespace device {
template <typename Barrier>
EMULATOR_INLINE uint64_t* barrier_native_handle(Barrier& of) {
  return of.handle();
}
template <typename Barrier>
EMULATOR_INLINE uint64_t barrier_arrive_tx(Barrier& at, ptrdiff_t count, ptrdiff_t bytes) {
  return emulator::mbarrier_arrive(at.handle(), static_cast<uint32_t>(count), static_cast<uint32_t>(bytes), false);
}
template <typename Barrier>
EMULATOR_INLINE void barrier_expect_tx(Barrier& at, ptrdiff_t bytes) {
  emulator::mbarrier_expect_tx(at.handle(), static_cast<uint32_t>(bytes));
}
template <typename T, size_t Alignment, typename Barrier>
EMULATOR_INLINE void memcpy_async_tx(T* to, const T* from, aligned_size_t<Alignment> bytes, Barrier& at) {
  static_assert(Alignment >= 16, "at least 16 bytes");
  emulator::bulk_load(to, from, static_cast<uint32_t>(bytes), at.handle(), 0);
}

namespace experimental {
template <typename Barrier>
EMULATOR_INLINE void cp_async_bulk_global_to_shared(void* to, const void* from, uint32_t bytes, Barrier& at) {
  emulator::bulk_load(to, from, bytes, at.handle(), 0);
}
EMULATOR_INLINE void cp_async_bulk_shared_to_global(void* to, const void* from, uint32_t bytes) {
  emulator::bulk_store(to, from, bytes);
}
#define EMULATOR_TENSOR(dimensions, coordinates, ...)                          \
  template <typename Barrier>                                                  \
  EMULATOR_INLINE void cp_async_bulk_tensor_##dimensions##d_global_to_shared(  \
      void* to, const void* map, EMULATOR_UNPACKED coordinates, Barrier& at) { \
    const int32_t place[] = {__VA_ARGS__};                                     \
    emulator::tensor_load(to, map, dimensions, place, at.handle(), 0);         \
  }                                                                            \
  EMULATOR_INLINE void cp_async_bulk_tensor_##dimensions##d_shared_to_global(  \
      const void* map, EMULATOR_UNPACKED coordinates, const void* from) {      \
    const int32_t place[] = {__VA_ARGS__};                                     \
    emulator::tensor_store(map, dimensions, place, from, emulator::COPY);      \
  }
#define EMULATOR_UNPACKED(...) __VA_ARGS__
EMULATOR_TENSOR(1, (int a), a)
EMULATOR_TENSOR(2, (int a, int b), a, b)
EMULATOR_TENSOR(3, (int a, int b, int c), a, b, c)
EMULATOR_TENSOR(4, (int a, int b, int c, int d), a, b, c, d)
EMULATOR_TENSOR(5, (int a, int b, int c, int d, int e), a, b, c, d, e)
#undef EMULATOR_UNPACKED
#undef EMULATOR_TENSOR
EMULATOR_INLINE void fence_proxy_async_shared_cta() { emulator::fence_proxy_async(); }
EMULATOR_INLINE void cp_async_bulk_commit_group() { emulator::bulk_commit(); }
template <int Newest>
EMULATOR_INLINE void cp_async_bulk_wait_group_read() {
  emulator::bulk_wait(Newest, true);
}
}  // namespace experimental
}  // namespace device

enum class pipeline_role { producer, consumer };

template <thread_scope Scope, unsigned char Stages>
struct pipeline_shared_state {
  barrier<Scope> full[Stages], empty[Stages];
};

// Of a block: two barriers for each stage; of a thread (`full` is null): its own asynchronous copies.
template <thread_scope Scope>
class pipeline {
  barrier<thread_scope_block>*full = nullptr, *empty = nullptr;
  unsigned stages = 0, produced = 0, consumed = 0;

  EMULATOR_INLINE bool odd(unsigned count) const { return count / stages % 2 != 0; }

 public:
  pipeline() = default;
  EMULATOR_INLINE pipeline(barrier<thread_scope_block>* full, barrier<thread_scope_block>* empty, unsigned stages)
      : full(full), empty(empty), stages(stages) {}

  EMULATOR_INLINE void producer_acquire() {
    if (full != nullptr) {
      empty[produced % stages].wait_parity(!odd(produced));
    }
  }
  EMULATOR_INLINE void producer_commit() {
    if (full != nullptr) {
      emulator::mbarrier_arrive_after_copies(full[produced % stages].handle(), false);
      full[produced % stages].arrive();
    } else {
      emulator::commit_copies();
    }
    ++produced;
  }
  EMULATOR_INLINE void consumer_wait() {
    if (full != nullptr) {
      full[consumed % stages].wait_parity(odd(consumed));
    } else {
      emulator::wait_for_copies(produced - consumed - 1);
    }
  }
  EMULATOR_INLINE void consumer_release() {
    if (full != nullptr) {
      empty[consumed % stages].arrive();
    }
    ++consumed;
  }
  EMULATOR_INLINE void quit() {}
};
EMULATOR_INLINE pipeline<thread_scope_thread> make_pipeline() { return {}; }
template <typename Group, thread_scope Scope, unsigned char Stages>
EMULATOR_INLINE pipeline<Scope> emulator_make_pipeline(const Group& group, pipeline_shared_state<Scope, Stages>* state,
                                                       unsigned producers, unsigned consumers) {
  if (group.thread_rank() == 0) {
    for (unsigned stage = 0; stage < Stages; ++stage) {
      init(&state->full[stage], producers);
      init(&state->empty[stage], consumers);
    }
  }
  group.sync();
  return {state->full, state->empty, Stages};
}
// All threads produce and consume; some do the one and the others the other.
template <typename Group, thread_scope Scope, unsigned char Stages>
EMULATOR_INLINE pipeline<Scope> make_pipeline(const Group& group, pipeline_shared_state<Scope, Stages>* state) {
  return emulator_make_pipeline(group, state, group.size(), group.size());
}
template <typename Group, thread_scope Scope, unsigned char Stages>
EMULATOR_INLINE pipeline<Scope> make_pipeline(const Group& group, pipeline_shared_state<Scope, Stages>* state,
                                              size_t producers) {
  unsigned count = static_cast<unsigned>(producers);
  return emulator_make_pipeline(group, state, count, group.size() - count);
}
template <thread_scope Scope, unsigned char Stages>
EMULATOR_INLINE pipeline<Scope> make_pipeline(const cooperative_groups::thread_block& group,
                                              pipeline_shared_state<Scope, Stages>* state, pipeline_role role) {
  auto producers = static_cast<unsigned>(__syncthreads_count(role == pipeline_role::producer));
  return emulator_make_pipeline(group, state, producers, group.size() - producers);
}
template <unsigned char Newest>
EMULATOR_INLINE void pipeline_consumer_wait_prior(pipeline<thread_scope_thread>&) {
  emulator::wait_for_copies(Newest);
}

// Copies by words as long as both addresses and the size allow; by bytes, and at once, where they are no multiples of 4.
struct OneThread {
  static constexpr unsigned thread_rank() { return 0; }
  static constexpr unsigned size() { return 1; }
};
template <typename Group>
EMULATOR_INLINE void emulator_copy(const Group& group, void* to, const void* from, size_t bytes) {
  size_t all = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | bytes;
  size_t word = all % 16 == 0 ? 16 : all % 8 == 0 ? 8 : all % 4 == 0 ? 4 : 1;
  char* target = static_cast<char*>(to);
  const char* source = static_cast<const char*>(from);
  for (size_t at = word * group.thread_rank(); at < bytes; at += word * group.size()) {
    if (word > 1) {
      emulator::issue_copy(target + at, source + at, word, 0);
    } else {
      target[at] = source[at];
    }
  }
}
template <typename Size, thread_scope Scope>
EMULATOR_INLINE void memcpy_async(void* to, const void* from, Size bytes, barrier<Scope>& at) {
  emulator_copy(OneThread(), to, from, bytes);
  emulator::mbarrier_arrive_after_copies(at.handle(), false);
}
template <typename Group, typename Size, thread_scope Scope>
EMULATOR_INLINE void memcpy_async(const Group& group, void* to, const void* from, Size bytes, barrier<Scope>& at) {
  emulator_copy(group, to, from, bytes);
  emulator::mbarrier_arrive_after_copies(at.handle(), false);
}
template <typename Size, thread_scope Scope>
EMULATOR_INLINE void memcpy_async(void* to, const void* from, Size bytes, pipeline<Scope>&) {
  emulator_copy(OneThread(), to, from, bytes);
}
template <typename Group, typename Size, thread_scope Scope>
EMULATOR_INLINE void memcpy_async(const Group& group, void* to, const void* from, Size bytes, pipeline<Scope>&) {
  emulator_copy(group, to, from, bytes);
}

}  // namespace cuda
