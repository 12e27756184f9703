// The atomics that nvcc has built in (CUDA C++ Programming Guide, "Atomic Functions"), of 4 and of 8 bytes. A source
// that names one is compiled behind this file (workflow/ladder/build/emulator.py).
#pragma once

#include "cuda_atomic.h"

enum {
  __NV_ATOMIC_RELAXED,
  __NV_ATOMIC_CONSUME,
  __NV_ATOMIC_ACQUIRE,
  __NV_ATOMIC_RELEASE,
  __NV_ATOMIC_ACQ_REL,
  __NV_ATOMIC_SEQ_CST
};
enum {
  __NV_THREAD_SCOPE_THREAD,
  __NV_THREAD_SCOPE_BLOCK,
  __NV_THREAD_SCOPE_CLUSTER,
  __NV_THREAD_SCOPE_DEVICE,
  __NV_THREAD_SCOPE_SYSTEM
};
#define EMULATOR_ORDER(order) static_cast<cuda::memory_order>(order)
#define EMULATOR_SCOPED(pointer, scope, ...)                                                              \
  (scope <= __NV_THREAD_SCOPE_BLOCK ? cuda::atomic_ref<T, cuda::thread_scope_block>(*pointer).__VA_ARGS__ \
                                    : cuda::atomic_ref<T, cuda::thread_scope_system>(*pointer).__VA_ARGS__)
#define EMULATOR_OPERAND std::common_type_t<T>

EMULATOR_INLINE void __nv_atomic_thread_fence(int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
  cuda::atomic_thread_fence(EMULATOR_ORDER(order),
                            scope <= __NV_THREAD_SCOPE_BLOCK ? cuda::thread_scope_block : cuda::thread_scope_system);
}
template <typename T>
EMULATOR_INLINE T __nv_atomic_load_n(const T* pointer, int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
  return EMULATOR_SCOPED(const_cast<T*>(pointer), scope, load(EMULATOR_ORDER(order)));
}
template <typename T>
EMULATOR_INLINE void __nv_atomic_load(const T* pointer, T* loaded, int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
  *loaded = EMULATOR_SCOPED(const_cast<T*>(pointer), scope, load(EMULATOR_ORDER(order)));
}
template <typename T>
EMULATOR_INLINE void __nv_atomic_store_n(T* pointer, EMULATOR_OPERAND value, int order,
                                         int scope = __NV_THREAD_SCOPE_SYSTEM) {
  EMULATOR_SCOPED(pointer, scope, store(value, EMULATOR_ORDER(order)));
}
template <typename T>
EMULATOR_INLINE void __nv_atomic_store(T* pointer, const T* value, int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
  EMULATOR_SCOPED(pointer, scope, store(*value, EMULATOR_ORDER(order)));
}
template <typename T>
EMULATOR_INLINE T __nv_atomic_exchange_n(T* pointer, EMULATOR_OPERAND value, int order,
                                         int scope = __NV_THREAD_SCOPE_SYSTEM) {
  return EMULATOR_SCOPED(pointer, scope, exchange(value, EMULATOR_ORDER(order)));
}
template <typename T>
EMULATOR_INLINE void __nv_atomic_exchange(T* pointer, const T* value, T* old, int order,
                                          int scope = __NV_THREAD_SCOPE_SYSTEM) {
  *old = EMULATOR_SCOPED(pointer, scope, exchange(*value, EMULATOR_ORDER(order)));
}
template <typename T>
EMULATOR_INLINE bool __nv_atomic_compare_exchange_n(T* pointer, T* expected, EMULATOR_OPERAND desired, bool, int order,
                                                    int, int scope = __NV_THREAD_SCOPE_SYSTEM) {
  return EMULATOR_SCOPED(pointer, scope, compare_exchange_strong(*expected, desired, EMULATOR_ORDER(order)));
}
template <typename T>
EMULATOR_INLINE bool __nv_atomic_compare_exchange(T* pointer, T* expected, const T* desired, bool weak, int order,
                                                  int failed, int scope = __NV_THREAD_SCOPE_SYSTEM) {
  return __nv_atomic_compare_exchange_n(pointer, expected, *desired, weak, order, failed, scope);
}
#define EMULATOR_NV_ATOMIC(name)                                                              \
  template <typename T>                                                                       \
  EMULATOR_INLINE T __nv_atomic_fetch_##name(T* pointer, EMULATOR_OPERAND operand, int order, \
                                             int scope = __NV_THREAD_SCOPE_SYSTEM) {          \
    return EMULATOR_SCOPED(pointer, scope, fetch_##name(operand, EMULATOR_ORDER(order)));     \
  }                                                                                           \
  template <typename T>                                                                       \
  EMULATOR_INLINE void __nv_atomic_##name(T* pointer, EMULATOR_OPERAND operand, int order,    \
                                          int scope = __NV_THREAD_SCOPE_SYSTEM) {             \
    __nv_atomic_fetch_##name(pointer, operand, order, scope);                                 \
  }
EMULATOR_NV_ATOMIC(add)
EMULATOR_NV_ATOMIC(sub)
EMULATOR_NV_ATOMIC(and)
EMULATOR_NV_ATOMIC(or)
EMULATOR_NV_ATOMIC(xor)
EMULATOR_NV_ATOMIC(min)
EMULATOR_NV_ATOMIC(max)
