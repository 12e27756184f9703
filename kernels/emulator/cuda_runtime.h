// The part of CUDA C++ that the rungs use, for g++: qualifiers, built-in variables, vector types, device functions, and
// the runtime calls of a rung's host code. What is not here does not compile, which is the clean way to fail.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "emulator.h"

// Qualifiers. A worker runs one block at a time, so its thread-local memory is the block's shared memory.
#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ thread_local
#define __launch_bounds__(...)
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define asm inline_PTX_cannot_be_emulated

#define threadIdx (emulator::unpack(emulator::thread_index()))
#define blockIdx (emulator::unpack(emulator::block_index()))
#define blockDim (emulator::unpack(emulator::block_extent()))
#define gridDim (emulator::unpack(emulator::grid_extent()))
constexpr int warpSize = 32;

// Vector types.
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

#define EMULATOR_VECTORS(type, base)                                                     \
  struct type##1 { base x; };                                                            \
  struct alignas(2 * sizeof(base)) type##2 { base x, y; };                               \
  struct alignas(sizeof(base) < 8 ? 4 * sizeof(base) : 16) type##4 { base x, y, z, w; }; \
  constexpr type##1 make_##type##1(base x) { return {x}; }                               \
  constexpr type##2 make_##type##2(base x, base y) { return {x, y}; }                    \
  constexpr type##4 make_##type##4(base x, base y, base z, base w) { return {x, y, z, w}; }
EMULATOR_VECTORS(float, float)
EMULATOR_VECTORS(double, double)
EMULATOR_VECTORS(int, int)
EMULATOR_VECTORS(uint, unsigned)
struct float3 {
  float x, y, z;
};
struct int3 {
  int x, y, z;
};
constexpr float3 make_float3(float x, float y, float z) { return {x, y, z}; }
constexpr int3 make_int3(int x, int y, int z) { return {x, y, z}; }
constexpr uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }

// Barriers and fences.
EMULATOR_INLINE int emulator_barrier(int predicate, unsigned line) {
  __asm__ volatile("" : : "i"(line));  // or g++ would make one call of two barriers, and hide that they are two
  return emulator::barrier(predicate);
}
#define EMULATOR_LINE unsigned line = __builtin_LINE()
EMULATOR_INLINE void __syncthreads(EMULATOR_LINE) { emulator_barrier(0, line); }
EMULATOR_INLINE int __syncthreads_count(int predicate, EMULATOR_LINE) { return emulator_barrier(predicate, line); }
EMULATOR_INLINE int __syncthreads_or(int predicate, EMULATOR_LINE) { return emulator_barrier(predicate, line) != 0; }
EMULATOR_INLINE int __syncthreads_and(int predicate, EMULATOR_LINE) { return emulator_barrier(!predicate, line) == 0; }
EMULATOR_INLINE void __threadfence() { emulator::fence(); }
EMULATOR_INLINE void __threadfence_block() {}

// Warps.
EMULATOR_INLINE int emulator_lane() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}
EMULATOR_INLINE void __syncwarp(unsigned mask = 0xFFFFFFFF) { emulator::meet_warp(mask, 0, -1, 0); }
EMULATOR_INLINE unsigned __ballot_sync(unsigned mask, int predicate) {
  return static_cast<unsigned>(emulator::meet_warp(mask, 1, -2, predicate != 0));
}
EMULATOR_INLINE int __any_sync(unsigned mask, int predicate) {
  return static_cast<unsigned>(emulator::meet_warp(mask, 2, -2, predicate != 0)) != 0;
}
EMULATOR_INLINE int __all_sync(unsigned mask, int predicate) {
  return static_cast<unsigned>(emulator::meet_warp(mask, 3, -2, predicate == 0)) == 0;
}
template <typename T>
EMULATOR_INLINE T emulator_shuffle(unsigned mask, T value, int source, unsigned operation) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle moves 4 or 8 bytes");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  bits = emulator::meet_warp(mask, operation, source, bits);
  memcpy(&value, &bits, sizeof value);
  return value;
}
template <typename T>
EMULATOR_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  return emulator_shuffle(mask, value, emulator_lane() / width * width + (source & (width - 1)), 4);
}
template <typename T>
EMULATOR_INLINE T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  int lane = emulator_lane(), source = lane ^ lanes;
  return emulator_shuffle(mask, value, source / width <= lane / width ? source : lane, 5);
}
template <typename T>
EMULATOR_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  int lane = emulator_lane(), source = lane - static_cast<int>(delta);
  return emulator_shuffle(mask, value, source >= lane / width * width ? source : lane, 6);
}
template <typename T>
EMULATOR_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  int lane = emulator_lane(), source = lane + static_cast<int>(delta);
  return emulator_shuffle(mask, value, source < lane / width * width + width ? source : lane, 7);
}
template <typename T>
EMULATOR_INLINE T __reduce_add_sync(unsigned mask, T value) {
  T sum = 0;
  for (int source = 0; source < 32; ++source) {
    sum += mask >> source & 1 ? __shfl_sync(mask, value, source) : 0;
  }
  return sum;
}

// Memory.
template <typename T>
EMULATOR_INLINE T __ldg(const T* pointer) {
  return *pointer;
}
template <typename T>
EMULATOR_INLINE T __ldcs(const T* pointer) {
  return *pointer;
}
template <typename T>
EMULATOR_INLINE T __ldcg(const T* pointer) {
  return *pointer;
}
template <typename T, typename U>
EMULATOR_INLINE void __stcs(T* pointer, U value) {
  *pointer = value;
}
template <typename T, typename U>
EMULATOR_INLINE void __stcg(T* pointer, U value) {
  *pointer = value;
}

// Atomics. The operation is a function of the old value; each returns that old value.
template <typename T, typename Operation>
EMULATOR_PLAIN inline T emulator_atomic(T* pointer, Operation operation) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  Bits old = __atomic_load_n(reinterpret_cast<Bits*>(pointer), __ATOMIC_SEQ_CST), wanted;
  T value;
  do {
    memcpy(&value, &old, sizeof value);
    T result = operation(value);
    memcpy(&wanted, &result, sizeof result);
  } while (!__atomic_compare_exchange_n(reinterpret_cast<Bits*>(pointer), &old, wanted, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST));
  return value;
}
#define EMULATOR_ATOMIC(name, ...)                                                                 \
  template <typename T>                                                                            \
  EMULATOR_INLINE T name(T* pointer, std::common_type_t<T> operand) {                              \
    emulator::atomic_access(pointer, sizeof(T));                                                   \
    return emulator_atomic(pointer, [operand](T old) EMULATOR_PLAIN -> T { return __VA_ARGS__; }); \
  }
EMULATOR_ATOMIC(atomicAdd, static_cast<T>(old + operand))
EMULATOR_ATOMIC(atomicSub, static_cast<T>(old - operand))
EMULATOR_ATOMIC(atomicExch, operand)
EMULATOR_ATOMIC(atomicMax, old > operand ? old : operand)
EMULATOR_ATOMIC(atomicMin, old < operand ? old : operand)
EMULATOR_ATOMIC(atomicOr, static_cast<T>(old | operand))
EMULATOR_ATOMIC(atomicAnd, static_cast<T>(old& operand))
EMULATOR_ATOMIC(atomicInc, old >= operand ? T{0} : old + 1)
template <typename T>
EMULATOR_INLINE T atomicCAS(T* pointer, std::common_type_t<T> expected, std::common_type_t<T> desired) {
  emulator::atomic_access(pointer, sizeof(T));
  return emulator_atomic(pointer, [=](T old) EMULATOR_PLAIN -> T { return old == expected ? desired : old; });
}

// Arithmetic.
template <typename T, typename U>
constexpr std::common_type_t<T, U> min(T a, U b) {
  using C = std::common_type_t<T, U>;
  return static_cast<C>(b) < static_cast<C>(a) ? static_cast<C>(b) : static_cast<C>(a);
}
template <typename T, typename U>
constexpr std::common_type_t<T, U> max(T a, U b) {
  using C = std::common_type_t<T, U>;
  return static_cast<C>(a) < static_cast<C>(b) ? static_cast<C>(b) : static_cast<C>(a);
}
EMULATOR_INLINE float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
EMULATOR_INLINE float __fadd_rn(float a, float b) { return a + b; }
EMULATOR_INLINE float __fsub_rn(float a, float b) { return a - b; }
EMULATOR_INLINE float __fmul_rn(float a, float b) { return a * b; }
EMULATOR_INLINE float __fdividef(float a, float b) { return a / b; }
template <typename To, typename From>
EMULATOR_INLINE To emulator_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
EMULATOR_INLINE int __float_as_int(float x) { return emulator_bits<int>(x); }
EMULATOR_INLINE unsigned __float_as_uint(float x) { return emulator_bits<unsigned>(x); }
EMULATOR_INLINE float __int_as_float(int x) { return emulator_bits<float>(x); }
EMULATOR_INLINE float __uint_as_float(unsigned x) { return emulator_bits<float>(x); }
EMULATOR_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
EMULATOR_INLINE int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
EMULATOR_INLINE int __ffs(int x) { return __builtin_ffs(x); }
EMULATOR_INLINE unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32);
}

// The runtime's calls. A launch has ended when it returns, so a stream orders nothing.
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchTimeout = 702,
  cudaErrorMisalignedAddress = 716,
  cudaErrorLaunchFailure = 719,
  cudaErrorNotSupported = 801,
  cudaErrorUnknown = 999
};
using cudaStream_t = void*;
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel*, cudaFuncAttribute attribute, int value) {
  bool too_much = attribute == cudaFuncAttributeMaxDynamicSharedMemorySize &&
                  (value < 0 || static_cast<size_t>(value) > emulator::MAX_DYNAMIC_SHARED);
  return too_much ? cudaErrorInvalidValue : cudaSuccess;
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMultiProcessorCount            ? emulator::sms
           : attribute == cudaDevAttrComputeCapabilityMajor       ? 9
           : attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? static_cast<int>(emulator::MAX_DYNAMIC_SHARED)
                                                                  : 0;
  return cudaSuccess;
}
template <typename Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel*, int, size_t) {
  *blocks = 1;
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t stream = nullptr) {
  emulator::check_stream(stream);
  memset(pointer, value, bytes);
  emulator::host_write(pointer, bytes);
  return cudaSuccess;
}
