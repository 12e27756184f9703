// <cuda/atomic> on the CPU (libcu++ documentation, "Extended API", "Synchronization Primitives"): atomics of a scope, whose
// order is a fence before or behind, as that of PTX is (ptx.h).
#pragma once

#include <atomic>  // memory_order

#include "cuda_async.h"
#include "cuda_std.h"

namespace cuda {

using ::std::memory_order;
using ::std::memory_order_acq_rel;
using ::std::memory_order_acquire;
using ::std::memory_order_consume;
using ::std::memory_order_relaxed;
using ::std::memory_order_release;
using ::std::memory_order_seq_cst;

constexpr bool emulator_is_of_block(thread_scope scope) {
  return scope == thread_scope_block || scope == thread_scope_thread;
}
// The fence of an access: who looks at the word beyond its scope is in a race, whatever the fence orders for him.
EMULATOR_INLINE void emulator_fence_of(memory_order order, memory_order none) {
  if (order != memory_order_relaxed && order != none) {
    emulator::fence();
  }
}

EMULATOR_INLINE void atomic_thread_fence(memory_order order, thread_scope scope = thread_scope_system) {
  if (order == memory_order_relaxed) {
  } else if (emulator_is_of_block(scope)) {
    emulator::fence_block();
  } else {
    emulator::fence();
  }
}

// What both kinds of atomics do; `Kind` has at(), the address of the object.
template <typename Kind, typename T, thread_scope Scope>
class EmulatedAtomic {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "the emulator has atomics of 4 and of 8 bytes");
  EMULATOR_INLINE T* at() const { return static_cast<const Kind*>(this)->at(); }

  template <bool Sum = false, typename Operation>
  EMULATOR_INLINE T change(memory_order order, Operation operation) const {
    emulator_fence_of(order, memory_order_acquire);
    T old = emulator_atomic<Sum, emulator_is_of_block(Scope)>(at(), operation);
    emulator_fence_of(order, memory_order_release);
    return old;
  }

 public:
  using value_type = T;
  static constexpr bool is_always_lock_free = true;
  EMULATOR_INLINE bool is_lock_free() const { return true; }

  EMULATOR_INLINE T load(memory_order order = memory_order_seq_cst) const {
    T value = emulator_ptx::load<T, 1>(reinterpret_cast<const char*>(at()),
                                       {emulator_ptx::RELAXED, emulator_is_of_block(Scope)})
                  .of[0];
    emulator_fence_of(order, memory_order_release);
    return value;
  }
  EMULATOR_INLINE void store(T value, memory_order order = memory_order_seq_cst) const {
    emulator_fence_of(order, memory_order_acquire);
    emulator_ptx::store<T, 1>(reinterpret_cast<char*>(at()), {emulator_ptx::RELAXED, emulator_is_of_block(Scope)},
                              {{value}});
  }
  EMULATOR_INLINE operator T() const { return load(); }
  EMULATOR_INLINE T operator=(T value) const {
    store(value);
    return value;
  }
  EMULATOR_INLINE void wait(T old, memory_order order = memory_order_seq_cst) const {
    while (load(order) == old) {
    }
  }
  EMULATOR_INLINE void notify_one() const {}
  EMULATOR_INLINE void notify_all() const {}

  EMULATOR_INLINE T exchange(T value, memory_order order = memory_order_seq_cst) const {
    return change(order, [value](T) EMULATOR_PLAIN -> T { return value; });
  }
  EMULATOR_INLINE bool compare_exchange_strong(T& expected, T desired, memory_order order = memory_order_seq_cst,
                                               memory_order = memory_order_seq_cst) const {
    T wanted = expected;
    T old = change(order, [=](T old) EMULATOR_PLAIN -> T { return old == wanted ? desired : old; });
    expected = old;
    return old == wanted;
  }
  EMULATOR_INLINE bool compare_exchange_weak(T& expected, T desired, memory_order order = memory_order_seq_cst,
                                             memory_order = memory_order_seq_cst) const {
    return compare_exchange_strong(expected, desired, order);
  }

#define EMULATOR_FETCH(name, sum, ...)                                                       \
  EMULATOR_INLINE T name(T operand, memory_order order = memory_order_seq_cst) const {       \
    return change<sum>(order, [operand](T old) EMULATOR_PLAIN -> T { return __VA_ARGS__; }); \
  }
  EMULATOR_FETCH(fetch_add, ::std::is_floating_point_v<T>, static_cast<T>(old + operand))
  EMULATOR_FETCH(fetch_sub, ::std::is_floating_point_v<T>, static_cast<T>(old - operand))
  EMULATOR_FETCH(fetch_and, false, static_cast<T>(old& operand))
  EMULATOR_FETCH(fetch_or, false, static_cast<T>(old | operand))
  EMULATOR_FETCH(fetch_xor, false, static_cast<T>(old ^ operand))
  EMULATOR_FETCH(fetch_min, false, operand < old ? operand : old)
  EMULATOR_FETCH(fetch_max, false, old < operand ? operand : old)
#undef EMULATOR_FETCH

  EMULATOR_INLINE T operator++() const { return fetch_add(1) + 1; }
  EMULATOR_INLINE T operator++(int) const { return fetch_add(1); }
  EMULATOR_INLINE T operator--() const { return fetch_sub(1) - 1; }
  EMULATOR_INLINE T operator--(int) const { return fetch_sub(1); }
  EMULATOR_INLINE T operator+=(T value) const { return fetch_add(value) + value; }
  EMULATOR_INLINE T operator-=(T value) const { return fetch_sub(value) - value; }
};

template <typename T, thread_scope Scope = thread_scope_system>
class atomic_ref : public EmulatedAtomic<atomic_ref<T, Scope>, T, Scope> {
  T* object;

 public:
  EMULATOR_INLINE explicit atomic_ref(T& object) : object(&object) {}
  atomic_ref(const atomic_ref&) = default;
  EMULATOR_INLINE T* at() const { return object; }
  using EmulatedAtomic<atomic_ref, T, Scope>::operator=;
};

template <typename T, thread_scope Scope = thread_scope_system>
class atomic : public EmulatedAtomic<atomic<T, Scope>, T, Scope> {
  mutable T object;

 public:
  atomic() = default;
  constexpr atomic(T value) : object(value) {}
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;
  EMULATOR_INLINE T* at() const { return &object; }
  using EmulatedAtomic<atomic, T, Scope>::operator=;
};

namespace std {
using ::cuda::atomic_thread_fence;
}

}  // namespace cuda
