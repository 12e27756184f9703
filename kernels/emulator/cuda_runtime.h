// The part of CUDA C++ that the rungs use, for g++: qualifiers, built-in variables, vector types, device functions, and
// the runtime calls of a rung's host code. What is not here does not compile, which is the clean way to fail.
#pragma once

#include "engine_names.h"

// The version of CUDA. A directive may ask only what all versions answer alike (workflow/ladder/build/other_code.py).
#define CUDART_VERSION 13000
#define __CUDART_API_VERSION CUDART_VERSION
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __CUDA_ARCH_HAS_FEATURE__(feature) __CUDA_ARCH_FEAT_##feature

// What nvcc includes before a source, and kernels use without including it.
#include <assert.h>
#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>  // says __noinline__ itself, which is a macro below
#include <type_traits>

#include "emulator.h"

#ifndef EMULATOR_ENGINE
// g++ makes a load and a store of a copy of at most 16 bytes, which are told of as such; of a longer one it may make code of
// its own, of which nothing would be told.
#define EMULATOR_RANGE(name, from_type)                                                   \
  EMULATOR_INLINE void* emulator_range_##name(void* to, from_type from, size_t bytes) {   \
    return __builtin_constant_p(bytes) && bytes <= 16 ? __builtin_##name(to, from, bytes) \
                                                      : emulator_##name(to, from, bytes); \
  }                                                                                       \
  namespace std {                                                                         \
  using ::emulator_range_##name;                                                          \
  }
EMULATOR_RANGE(memcpy, const void*)
EMULATOR_RANGE(memmove, const void*)
EMULATOR_RANGE(memset, int)
#define memcpy(...) emulator_range_memcpy(__VA_ARGS__)
#define memmove(...) emulator_range_memmove(__VA_ARGS__)
#define memset(...) emulator_range_memset(__VA_ARGS__)
#endif

// Qualifiers. What runs on the device has no calls of emulator_coverage.h. The engine gives each block its own __shared__
// arrays: it answers g++'s question where a thread-local variable is (__tls_get_addr), which the other models of
// thread-local variables do not ask for each.
#define __global__ __attribute__((no_sanitize_coverage))
#define __device__ __attribute__((no_sanitize_coverage))
#define __host__
#define __constant__
#define __managed__
#define __shared__ __attribute__((tls_model("global-dynamic"))) thread_local
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __grid_constant__
#define __noinline__ __attribute__((noinline))
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __builtin_assume(...) static_cast<void>(0)
#undef NULL
#define NULL nullptr  // whose type a launch keeps

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
  constexpr operator uint3() const { return {x, y, z}; }
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
EMULATOR_VECTORS(char, signed char)
EMULATOR_VECTORS(uchar, unsigned char)
EMULATOR_VECTORS(short, short)
EMULATOR_VECTORS(ushort, unsigned short)
EMULATOR_VECTORS(long, long)
EMULATOR_VECTORS(ulong, unsigned long)
EMULATOR_VECTORS(longlong, long long)
EMULATOR_VECTORS(ulonglong, unsigned long long)
#define EMULATOR_VECTOR3(type, base) \
  struct type##3 { base x, y, z; };  \
  constexpr type##3 make_##type##3(base x, base y, base z) { return {x, y, z}; }
EMULATOR_VECTOR3(float, float)
EMULATOR_VECTOR3(double, double)
EMULATOR_VECTOR3(int, int)
EMULATOR_VECTOR3(char, signed char)
EMULATOR_VECTOR3(uchar, unsigned char)
EMULATOR_VECTOR3(short, short)
EMULATOR_VECTOR3(ushort, unsigned short)
EMULATOR_VECTOR3(longlong, long long)
EMULATOR_VECTOR3(ulonglong, unsigned long long)
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
EMULATOR_INLINE void cudaGridDependencySynchronize() { emulator::grid_wait(); }
EMULATOR_INLINE void cudaTriggerProgrammaticLaunchCompletion() { emulator::grid_launch_dependents(); }
EMULATOR_INLINE void __threadfence() { emulator::fence(); }
EMULATOR_INLINE void __threadfence_block() {}
EMULATOR_INLINE void __threadfence_system() { emulator::fence(); }

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
  static_assert(sizeof(T) <= 8, "a shuffle moves 8 bytes at most");
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
template <typename T, typename Operation>
EMULATOR_INLINE T emulator_reduce(unsigned mask, T value, Operation operation) {
  bool first = true;
  T result{};
  for (int source = 0; source < 32; ++source) {
    if (mask >> source & 1) {
      T other = __shfl_sync(mask, value, source);
      result = first ? other : operation(result, other);
      first = false;
    }
  }
  return result;
}
#define EMULATOR_REDUCE(name, ...)                                                                 \
  template <typename T>                                                                            \
  EMULATOR_INLINE T name(unsigned mask, T value) {                                                 \
    return emulator_reduce(mask, value, [](T a, T b) EMULATOR_PLAIN -> T { return __VA_ARGS__; }); \
  }
EMULATOR_REDUCE(__reduce_add_sync, a + b)
EMULATOR_REDUCE(__reduce_min_sync, b < a ? b : a)
EMULATOR_REDUCE(__reduce_max_sync, a < b ? b : a)
EMULATOR_REDUCE(__reduce_and_sync, a& b)
EMULATOR_REDUCE(__reduce_or_sync, a | b)
EMULATOR_REDUCE(__reduce_xor_sync, a ^ b)
// The lanes of the mask whose value has the same bits.
template <typename T>
EMULATOR_INLINE unsigned __match_any_sync(unsigned mask, T value) {
  unsigned same = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if (mask >> lane & 1) {
      T other = emulator_shuffle(mask, value, lane, 9);
      same |= (memcmp(&other, &value, sizeof value) == 0 ? 1u : 0u) << lane;
    }
  }
  return same;
}
template <typename T>
EMULATOR_INLINE unsigned __match_all_sync(unsigned mask, T value, int* equal) {
  *equal = __match_any_sync(mask, value) == mask;
  return *equal ? mask : 0;
}

EMULATOR_INLINE unsigned __activemask() { return emulator::active_lanes(); }

// Memory.
#define EMULATOR_LOAD(name)                  \
  template <typename T>                      \
  EMULATOR_INLINE T name(const T* pointer) { \
    return *pointer;                         \
  }
// By the cache that is not coherent: nothing that the same launch has written.
template <typename T>
__attribute__((noinline)) EMULATOR_PLAIN T __ldg(const T* pointer) {
  emulator::read_only_load(pointer, sizeof(T), alignof(T), __builtin_return_address(0));
  return *pointer;
}
EMULATOR_LOAD(__ldca)
EMULATOR_LOAD(__ldcg)
EMULATOR_LOAD(__ldcs)
EMULATOR_LOAD(__ldcv)
EMULATOR_LOAD(__ldlu)
#define EMULATOR_STORE(name)                       \
  template <typename T, typename U>                \
  EMULATOR_INLINE void name(T* pointer, U value) { \
    *pointer = value;                              \
  }
EMULATOR_STORE(__stcg)
EMULATOR_STORE(__stcs)
EMULATOR_STORE(__stwb)
EMULATOR_STORE(__stwt)

// Atomics. The operation is a function of the old value; each returns that old value. One whose name ends in _block is
// atomic for the threads of its block alone.
template <typename T>
struct EmulatedChange {
  T old;
  uint64_t before, after;  // the bits of both
};
template <typename T, typename Operation>
EMULATOR_PLAIN inline EmulatedChange<T> emulator_change(T* pointer, Operation operation) {
  EmulatedChange<T> change = {*pointer, 0, 0};
  T wanted = *pointer = operation(change.old);
  memcpy(&change.before, &change.old, sizeof(T));
  memcpy(&change.after, &wanted, sizeof(T));
  return change;
}
template <bool Sum = false, bool OfBlock = false, typename T, typename Operation>
EMULATOR_INLINE T emulator_atomic(T* pointer, Operation operation) {
  emulator::atomic_begin(pointer, sizeof(T), Sum, OfBlock);
  EmulatedChange<T> change = emulator_change(pointer, operation);
  emulator::atomic_end(pointer, Sum, OfBlock, change.before, change.after);
  return change.old;
}
#define EMULATOR_ATOMIC_IN(name, sum, of_block, ...)                                                              \
  template <typename T>                                                                                           \
  EMULATOR_INLINE T name(T* pointer, std::common_type_t<T> operand) {                                             \
    return emulator_atomic<sum, of_block>(pointer, [operand](T old) EMULATOR_PLAIN -> T { return __VA_ARGS__; }); \
  }
#define EMULATOR_ATOMIC(name, sum, ...)                      \
  EMULATOR_ATOMIC_IN(name, sum, false, __VA_ARGS__)          \
  EMULATOR_ATOMIC_IN(name##_system, sum, false, __VA_ARGS__) \
  EMULATOR_ATOMIC_IN(name##_block, sum, true, __VA_ARGS__)
EMULATOR_ATOMIC(atomicAdd, std::is_floating_point_v<T>, static_cast<T>(old + operand))
EMULATOR_ATOMIC(atomicSub, std::is_floating_point_v<T>, static_cast<T>(old - operand))
EMULATOR_ATOMIC(atomicExch, false, operand)
EMULATOR_ATOMIC(atomicMax, false, old > operand ? old : operand)
EMULATOR_ATOMIC(atomicMin, false, old < operand ? old : operand)
EMULATOR_ATOMIC(atomicOr, false, static_cast<T>(old | operand))
EMULATOR_ATOMIC(atomicAnd, false, static_cast<T>(old& operand))
EMULATOR_ATOMIC(atomicInc, false, old >= operand ? T{0} : old + 1)
EMULATOR_ATOMIC(atomicDec, false, old == 0 || old > operand ? operand : old - 1)
EMULATOR_ATOMIC(atomicXor, false, static_cast<T>(old ^ operand))
#define EMULATOR_ATOMIC_CAS(name, of_block)                                                           \
  template <typename T>                                                                               \
  EMULATOR_INLINE T name(T* pointer, std::common_type_t<T> expected, std::common_type_t<T> desired) { \
    return emulator_atomic<false, of_block>(                                                          \
        pointer, [=](T old) EMULATOR_PLAIN -> T { return old == expected ? desired : old; });         \
  }
EMULATOR_ATOMIC_CAS(atomicCAS, false)
EMULATOR_ATOMIC_CAS(atomicCAS_system, false)
EMULATOR_ATOMIC_CAS(atomicCAS_block, true)
// Each element is added atomically, not all at once.
EMULATOR_INLINE float2 atomicAdd(float2* pointer, float2 operand) {
  return {atomicAdd(&pointer->x, operand.x), atomicAdd(&pointer->y, operand.y)};
}
EMULATOR_INLINE float4 atomicAdd(float4* pointer, float4 operand) {
  return {atomicAdd(&pointer->x, operand.x), atomicAdd(&pointer->y, operand.y), atomicAdd(&pointer->z, operand.z),
          atomicAdd(&pointer->w, operand.w)};
}

// Arithmetic.
#pragma GCC visibility push(hidden)
namespace emulator {
// With a rounding mode of its own: 'z', 'm', 'p'.
double rounded(char operation, char mode, double a, double b, double c);
float rounded(char operation, char mode, float a, float b, float c);
float float_of(double x, char mode);
void trap();
uint64_t clock();  // a number that grows; clock() gives it, too
bool is_shared(uint64_t pointer);
}  // namespace emulator
#pragma GCC visibility pop
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
// With a rounding mode: to nearest, toward zero, up, down.
#define EMULATOR_ROUNDED(type, name, operation, nearest, parameters, ...)                              \
  EMULATOR_INLINE type name##_rn parameters { return nearest; }                                        \
  EMULATOR_INLINE type name##_rz parameters { return emulator::rounded(operation, 'z', __VA_ARGS__); } \
  EMULATOR_INLINE type name##_ru parameters { return emulator::rounded(operation, 'p', __VA_ARGS__); } \
  EMULATOR_INLINE type name##_rd parameters { return emulator::rounded(operation, 'm', __VA_ARGS__); }
#define EMULATOR_ROUNDED_OF_TWO(type, prefix)                                     \
  EMULATOR_ROUNDED(type, prefix##add, '+', a + b, (type a, type b), a, b, type{}) \
  EMULATOR_ROUNDED(type, prefix##sub, '-', a - b, (type a, type b), a, b, type{}) \
  EMULATOR_ROUNDED(type, prefix##mul, '*', a* b, (type a, type b), a, b, type{})  \
  EMULATOR_ROUNDED(type, prefix##div, '/', a / b, (type a, type b), a, b, type{}) \
  EMULATOR_ROUNDED(type, prefix##rcp, '/', type{1} / a, (type a), type{1}, a, type{})
EMULATOR_ROUNDED_OF_TWO(float, __f)
EMULATOR_ROUNDED_OF_TWO(double, __d)
EMULATOR_ROUNDED(float, __fmaf, 'f', __builtin_fmaf(a, b, c), (float a, float b, float c), a, b, c)
EMULATOR_ROUNDED(double, __fma, 'f', __builtin_fma(a, b, c), (double a, double b, double c), a, b, c)
EMULATOR_INLINE float __fdividef(float a, float b) { return a / b; }
EMULATOR_INLINE float __fsqrt_rn(float a) { return std::sqrt(a); }
EMULATOR_INLINE float __saturatef(float a) { return a > 0.0f ? a < 1.0f ? a : 1.0f : 0.0f; }
EMULATOR_INLINE float rsqrtf(float a) { return 1.0f / std::sqrt(a); }
using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;
// Of the lower 24 bits of each.
EMULATOR_INLINE unsigned __umul24(unsigned a, unsigned b) { return (a & 0xFFFFFF) * (b & 0xFFFFFF); }
EMULATOR_INLINE int emulator_low_24_bits(int a) { return static_cast<int>(static_cast<unsigned>(a) << 8) >> 8; }
EMULATOR_INLINE int __mul24(int a, int b) {
  return static_cast<int>(static_cast<unsigned>(emulator_low_24_bits(a)) *
                          static_cast<unsigned>(emulator_low_24_bits(b)));
}
// Four products of bytes, added to c (CUDA Math API, "Integer Intrinsics").
EMULATOR_INLINE int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) {
    c = static_cast<int>(static_cast<unsigned>(c) + static_cast<unsigned>(int8_t(a >> i) * int8_t(b >> i)));
  }
  return c;
}
EMULATOR_INLINE unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 32; i += 8) {
    c += (a >> i & 0xFF) * (b >> i & 0xFF);
  }
  return c;
}
EMULATOR_INLINE void __trap() { emulator::trap(); }
EMULATOR_INLINE long long clock64() { return static_cast<long long>(emulator::clock()); }
EMULATOR_INLINE void __nanosleep(unsigned) { emulator::wait_for_others(); }
EMULATOR_INLINE size_t __cvta_generic_to_shared(const void* pointer) { return emulator::shared_address(pointer); }
EMULATOR_INLINE size_t __cvta_generic_to_global(const void* pointer) { return reinterpret_cast<size_t>(pointer); }
EMULATOR_INLINE void* __cvta_shared_to_generic(size_t address) { return emulator::shared_pointer(address); }
EMULATOR_INLINE void* __cvta_global_to_generic(size_t address) { return reinterpret_cast<void*>(address); }
EMULATOR_INLINE unsigned __isShared(const void* pointer) {
  return emulator::is_shared(reinterpret_cast<uint64_t>(pointer));
}
EMULATOR_INLINE unsigned __isGlobal(const void* pointer) { return !__isShared(pointer); }
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
EMULATOR_INLINE long long __double_as_longlong(double x) { return emulator_bits<long long>(x); }
EMULATOR_INLINE double __longlong_as_double(long long x) { return emulator_bits<double>(x); }
EMULATOR_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
EMULATOR_INLINE int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
EMULATOR_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
EMULATOR_INLINE unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (unsigned bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1) << (31 - bit);
  return reversed;
}
// Each half byte of the selector names a byte of both numbers; its upper bit asks for copies of that byte's sign.
EMULATOR_INLINE unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  uint64_t both = static_cast<uint64_t>(y) << 32 | x;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    unsigned named = selector >> (4 * i) & 0xF;
    unsigned byte = static_cast<unsigned>(both >> (8 * (named & 7))) & 0xFF;
    result |= (named & 8 ? byte & 0x80 ? 0xFFu : 0u : byte) << (8 * i);
  }
  return result;
}
EMULATOR_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((static_cast<uint64_t>(high) << 32 | low) << (shift & 31) >> 32);
}
EMULATOR_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((static_cast<uint64_t>(high) << 32 | low) >> (shift & 31));
}
EMULATOR_INLINE int __mulhi(int a, int b) { return static_cast<int>(static_cast<int64_t>(a) * b >> 32); }
EMULATOR_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
EMULATOR_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
EMULATOR_INLINE int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
EMULATOR_INLINE int __ffs(int x) { return __builtin_ffs(x); }
EMULATOR_INLINE unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32);
}

#include "cuda_intrinsics.h"

// The runtime's calls. A launch has ended when it returns, so a stream orders nothing. What the contract forbids is a
// finding: work on another stream, a wait, memory of its own.
#define EMULATOR_ERRORS(each)                                                                                          \
  each(cudaSuccess, 0, "no error") each(cudaErrorInvalidValue, 1, "invalid argument") each(cudaErrorMemoryAllocation,  \
                                                                                           2, "out of memory")         \
      each(cudaErrorInvalidConfiguration, 9, "invalid configuration argument") each(                                   \
          cudaErrorInvalidDeviceFunction, 98, "invalid device function") each(cudaErrorNoDevice, 100, "no device")     \
          each(cudaErrorInvalidDevice, 101, "invalid device ordinal") each(cudaErrorNotReady, 600, "device not ready") \
              each(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")                           \
                  each(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")                  \
                      each(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated")                     \
                          each(cudaErrorMisalignedAddress, 716, "misaligned address")                                  \
                              each(cudaErrorLaunchFailure, 719, "unspecified launch failure") each(                    \
                                  cudaErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch")    \
                                  each(cudaErrorNotSupported, 801, "operation not supported")                          \
                                      each(cudaErrorUnknown, 999, "unknown error")
#define EMULATOR_ENUMERATOR(name, value, text) name = value,
enum cudaError_t { EMULATOR_ERRORS(EMULATOR_ENUMERATOR) };
using cudaError = cudaError_t;
inline const char* cudaGetErrorName(cudaError_t error) {
#define EMULATOR_NAME(name, value, text) error == name ? #name:
  return EMULATOR_ERRORS(EMULATOR_NAME) "unrecognized error code";
}
inline const char* cudaGetErrorString(cudaError_t error) {
#define EMULATOR_TEXT(name, value, text) error == name ? text:
  return EMULATOR_ERRORS(EMULATOR_TEXT) "unrecognized error code";
}
inline cudaError_t emulator_error(int error) {  // an error of a call, which the runtime keeps
  emulator::last_error = error != 0 ? error : emulator::last_error;
  return static_cast<cudaError_t>(error);
}
// Begins each call that may fail; emulator_fail says which one does.
#define EMULATOR_CALL                        \
  if (emulator::call_fails(__func__)) {      \
    return emulator_error(cudaErrorUnknown); \
  }
inline cudaError_t cudaPeekAtLastError() { return static_cast<cudaError_t>(emulator::last_error); }
inline cudaError_t cudaGetLastError() {
  cudaError_t error = cudaPeekAtLastError();
  emulator::last_error = cudaSuccess;
  return error;
}

using cudaStream_t = void*;
inline cudaError_t emulator_forbidden(const char* what) {
  emulator::report_host("contract", what);
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() {
  return emulator_forbidden("waits (cudaDeviceSynchronize), while the contract says that nothing waits; leave it out");
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return emulator_forbidden("waits (cudaStreamSynchronize), while the contract says that nothing waits; leave it out");
}
template <typename T>
cudaError_t cudaMalloc(T** pointer, size_t) {
  *pointer = nullptr;
  emulator_forbidden("allocates (cudaMalloc); end with EXPORT_SGEMM_WITH_WORKSPACE and use the workspace instead");
  return cudaErrorMemoryAllocation;
}
template <typename T>
cudaError_t cudaMallocAsync(T** pointer, size_t bytes, cudaStream_t) {
  return cudaMalloc(pointer, bytes);
}
inline cudaError_t cudaFree(void*) { return cudaSuccess; }
inline cudaError_t cudaFreeAsync(void*, cudaStream_t) { return cudaSuccess; }

// The device: the limits of compute capability 9.0, and the SMs that the host has set.
#define EMULATOR_ATTRIBUTES(each)                                                                                      \
  each(cudaDevAttrMaxThreadsPerBlock, 1, 1024), each(cudaDevAttrMaxBlockDimX, 2, 1024),                                \
      each(cudaDevAttrMaxBlockDimY, 3, 1024), each(cudaDevAttrMaxBlockDimZ, 4, 64),                                    \
      each(cudaDevAttrMaxGridDimX, 5, 2147483647), each(cudaDevAttrMaxGridDimY, 6, 65535),                             \
      each(cudaDevAttrMaxGridDimZ, 7, 65535), each(cudaDevAttrMaxSharedMemoryPerBlock, 8, 48 << 10),                   \
      each(cudaDevAttrTotalConstantMemory, 9, 64 << 10), each(cudaDevAttrWarpSize, 10, 32),                            \
      each(cudaDevAttrMaxPitch, 11, 2147483647), each(cudaDevAttrMaxRegistersPerBlock, 12, 65536),                     \
      each(cudaDevAttrClockRate, 13, 1980000), each(cudaDevAttrTextureAlignment, 14, 512),                             \
      each(cudaDevAttrGpuOverlap, 15, 1), each(cudaDevAttrMultiProcessorCount, 16, emulator::sms),                     \
      each(cudaDevAttrKernelExecTimeout, 17, 0), each(cudaDevAttrIntegrated, 18, 0),                                   \
      each(cudaDevAttrCanMapHostMemory, 19, 1), each(cudaDevAttrComputeMode, 20, 0),                                   \
      each(cudaDevAttrConcurrentKernels, 31, 1), each(cudaDevAttrEccEnabled, 32, 1), each(cudaDevAttrPciBusId, 33, 0), \
      each(cudaDevAttrPciDeviceId, 34, 0), each(cudaDevAttrTccDriver, 35, 0),                                          \
      each(cudaDevAttrMemoryClockRate, 36, 2619000), each(cudaDevAttrGlobalMemoryBusWidth, 37, 5120),                  \
      each(cudaDevAttrL2CacheSize, 38, 50 << 20), each(cudaDevAttrMaxThreadsPerMultiProcessor, 39, 2048),              \
      each(cudaDevAttrAsyncEngineCount, 40, 3), each(cudaDevAttrUnifiedAddressing, 41, 1),                             \
      each(cudaDevAttrPciDomainId, 50, 0), each(cudaDevAttrTexturePitchAlignment, 51, 32),                             \
      each(cudaDevAttrComputeCapabilityMajor, 75, 9), each(cudaDevAttrComputeCapabilityMinor, 76, 0),                  \
      each(cudaDevAttrStreamPrioritiesSupported, 78, 1), each(cudaDevAttrGlobalL1CacheSupported, 79, 1),               \
      each(cudaDevAttrLocalL1CacheSupported, 80, 1), each(cudaDevAttrMaxSharedMemoryPerMultiprocessor, 81, 228 << 10), \
      each(cudaDevAttrMaxRegistersPerMultiprocessor, 82, 65536), each(cudaDevAttrManagedMemory, 83, 1),                \
      each(cudaDevAttrIsMultiGpuBoard, 84, 0), each(cudaDevAttrMultiGpuBoardGroupID, 85, 0),                           \
      each(cudaDevAttrHostNativeAtomicSupported, 86, 0), each(cudaDevAttrSingleToDoublePrecisionPerfRatio, 87, 2),     \
      each(cudaDevAttrPageableMemoryAccess, 88, 0), each(cudaDevAttrConcurrentManagedAccess, 89, 1),                   \
      each(cudaDevAttrComputePreemptionSupported, 90, 1), each(cudaDevAttrCooperativeLaunch, 95, 1),                   \
      each(cudaDevAttrMaxSharedMemoryPerBlockOptin, 97, emulator::MAX_DYNAMIC_SHARED),                                 \
      each(cudaDevAttrHostRegisterSupported, 99, 1), each(cudaDevAttrMaxBlocksPerMultiprocessor, 106, 32),             \
      each(cudaDevAttrMaxPersistingL2CacheSize, 108, 32 << 20),                                                        \
      each(cudaDevAttrMaxAccessPolicyWindowSize, 109, 128 << 20),                                                      \
      each(cudaDevAttrReservedSharedMemoryPerBlock, 111, 1 << 10), each(cudaDevAttrMemoryPoolsSupported, 115, 1),      \
      each(cudaDevAttrClusterLaunch, 120, 1), each(cudaDevAttrIpcEventSupport, 125, 1),                                \
      each(cudaDevAttrMemSyncDomainCount, 126, 4), each(cudaDevAttrMpsEnabled, 133, 0)
#define EMULATOR_ATTRIBUTE(name, number, value) name = number
enum cudaDeviceAttr { EMULATOR_ATTRIBUTES(EMULATOR_ATTRIBUTE) };
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  EMULATOR_CALL
#define EMULATOR_VALUE(name, number, value) attribute == name ? static_cast<int>(value) : 0
  *value = 0;
  for (int each : {EMULATOR_ATTRIBUTES(EMULATOR_VALUE)}) {  // at most one is not 0
    *value += each;
  }
  return cudaSuccess;
}
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor, totalConstMem;
  int regsPerBlock, regsPerMultiprocessor, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
  int major, minor, multiProcessorCount, maxThreadsPerMultiProcessor, maxBlocksPerMultiProcessor, l2CacheSize;
  int memoryBusWidth, concurrentKernels, cooperativeLaunch, asyncEngineCount;
};
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  EMULATOR_CALL
  *properties = {"emulator",
                 size_t{80} << 30,
                 48 << 10,
                 227 << 10,
                 228 << 10,
                 64 << 10,
                 65536,
                 65536,
                 32,
                 1024,
                 {1024, 1024, 64},
                 {2147483647, 65535, 65535},
                 9,
                 0,
                 emulator::sms,
                 2048,
                 32,
                 50 << 20,
                 5120,
                 1,
                 1,
                 0};
  return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
  EMULATOR_CALL
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int* count) {
  EMULATOR_CALL
  *count = 1;
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
  EMULATOR_CALL
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
inline cudaError_t cudaDriverGetVersion(int* version) {
  EMULATOR_CALL
  *version = 13000;
  return cudaSuccess;
}
inline cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

// Limits of the device, which an emulated kernel does not come near.
enum cudaLimit {
  cudaLimitStackSize = 0,
  cudaLimitPrintfFifoSize = 1,
  cudaLimitMallocHeapSize = 2,
  cudaLimitMaxL2FetchGranularity = 5,
  cudaLimitPersistingL2CacheSize = 6
};
inline cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) {
  EMULATOR_CALL
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  EMULATOR_CALL
  *value = limit == cudaLimitStackSize               ? 1 << 10
           : limit == cudaLimitMaxL2FetchGranularity ? 64
           : limit == cudaLimitPersistingL2CacheSize ? 0
                                                     : 8 << 20;
  return cudaSuccess;
}
inline cudaError_t cudaCtxResetPersistingL2Cache() {
  EMULATOR_CALL
  return cudaSuccess;
}

// Of a kernel. What its attributes are on a GPU, g++ cannot know: these are possible ones.
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9,
  cudaFuncAttributeNonPortableClusterSizeAllowed = 13
};
enum cudaSharedCarveout {
  cudaSharedmemCarveoutDefault = -1,
  cudaSharedmemCarveoutMaxL1 = 0,
  cudaSharedmemCarveoutMaxShared = 100
};
enum cudaFuncCache {
  cudaFuncCachePreferNone,
  cudaFuncCachePreferShared,
  cudaFuncCachePreferL1,
  cudaFuncCachePreferEqual
};
enum cudaSharedMemConfig {
  cudaSharedMemBankSizeDefault,
  cudaSharedMemBankSizeFourByte,
  cudaSharedMemBankSizeEightByte
};
struct cudaFuncAttributes {
  size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
  int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA, maxDynamicSharedSizeBytes;
  int preferredShmemCarveout;
};
template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute attribute, int value) {
  EMULATOR_CALL
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) {
    return cudaSuccess;
  }
  if (value < 0 || static_cast<size_t>(value) > emulator::MAX_DYNAMIC_SHARED) {
    return emulator_error(cudaErrorInvalidValue);
  }
  emulator::allow_dynamic_shared(reinterpret_cast<const void*>(kernel), static_cast<size_t>(value));
  return cudaSuccess;
}
template <typename Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, Kernel* kernel) {
  EMULATOR_CALL
  const void* address = reinterpret_cast<const void*>(kernel);
  int dynamic = static_cast<int>(emulator::allowed_dynamic_shared(address));
  *attributes = {emulator::static_shared_of(address), 0, 0, 1024, 64, 90, 90, 0, dynamic, -1};
  return cudaSuccess;
}
template <typename Kernel>
cudaError_t cudaFuncSetCacheConfig(Kernel*, cudaFuncCache) {
  EMULATOR_CALL
  return cudaSuccess;
}
template <typename Kernel>
cudaError_t cudaFuncSetSharedMemConfig(Kernel*, cudaSharedMemConfig) {
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
inline cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }
template <typename Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel* kernel, int threads, size_t bytes) {
  EMULATOR_CALL
  if (threads < 1 || threads > 1024) {
    return emulator_error(cudaErrorInvalidValue);
  }
  emulator::asked_occupancy = true;
  size_t own = emulator::static_shared_of(reinterpret_cast<const void*>(kernel));
  *blocks = static_cast<int>(emulator::blocks_per_sm(static_cast<unsigned>(threads), own + bytes));
  return cudaSuccess;
}
template <typename Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, Kernel* kernel, int threads,
                                                                   size_t bytes, unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, threads, bytes);
}
template <typename Kernel>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, Kernel*, size_t = 0, int limit = 0) {
  EMULATOR_CALL
  emulator::asked_occupancy = true;
  *block = limit > 0 && limit < 256 ? limit : 256;
  *grid = emulator::sms * (2048 / *block);
  return cudaSuccess;
}
template <typename Kernel, typename Bytes>
cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int* grid, int* block, Kernel* kernel, Bytes,
                                                           int limit = 0) {
  return cudaOccupancyMaxPotentialBlockSize(grid, block, kernel, 0, limit);
}
template <typename Kernel>
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, Kernel*, int, int) {
  EMULATOR_CALL
  *bytes = 48 << 10;
  return cudaSuccess;
}
inline cudaError_t cudaMemset2DAsync(void* pointer, size_t pitch, int value, size_t width, size_t height,
                                     cudaStream_t stream = nullptr) {
  return emulator_error(emulator::queue_copy(pointer, pitch, nullptr, 0, value, width, height, stream));
}
inline cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t stream = nullptr) {
  return cudaMemset2DAsync(pointer, bytes, value, bytes, 1, stream);
}
inline cudaError_t cudaMemset(void* pointer, int value, size_t bytes) { return cudaMemsetAsync(pointer, value, bytes); }
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
inline cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                     size_t height, cudaMemcpyKind kind, cudaStream_t stream = nullptr) {
  if (kind == cudaMemcpyDeviceToHost) {
    emulator_forbidden("copies to the host's memory, which waits, while the contract says that nothing waits");
  }
  return emulator_error(emulator::queue_copy(to, to_pitch, from, from_pitch, 0, width, height, stream));
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream = nullptr) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  emulator_forbidden("waits (cudaMemcpy), while the contract says that nothing waits; use cudaMemcpyAsync");
  return cudaMemcpyAsync(to, from, bytes, kind);
}

// Variables of the GPU.
template <typename T>
cudaError_t cudaGetSymbolAddress(void** pointer, const T& symbol) {
  EMULATOR_CALL
  *pointer = const_cast<std::remove_cv_t<T>*>(&symbol);
  return cudaSuccess;
}
template <typename T>
cudaError_t cudaGetSymbolSize(size_t* bytes, const T& symbol) {
  EMULATOR_CALL
  *bytes = sizeof symbol;
  return cudaSuccess;
}
template <typename T>
cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* from, size_t bytes, size_t offset = 0,
                                    cudaMemcpyKind kind = cudaMemcpyHostToDevice, cudaStream_t stream = nullptr) {
  return cudaMemcpyAsync(reinterpret_cast<char*>(const_cast<std::remove_cv_t<T>*>(&symbol)) + offset, from, bytes, kind,
                         stream);
}
template <typename T>
cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* from, size_t bytes, size_t offset = 0,
                               cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  emulator_forbidden("waits (cudaMemcpyToSymbol), while the contract says that nothing waits");
  return cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind);
}

// Streams and events.
using cudaEvent_t = void*;
#define cudaStreamLegacy (reinterpret_cast<cudaStream_t>(1))
#define cudaStreamPerThread (reinterpret_cast<cudaStream_t>(2))
constexpr unsigned cudaStreamDefault = 0, cudaStreamNonBlocking = 1;
constexpr unsigned cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2;
inline cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  EMULATOR_CALL
  *stream = emulator::create_stream();
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return cudaStreamCreate(stream); }
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  return cudaStreamCreate(stream);
}
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  EMULATOR_CALL
  *id = reinterpret_cast<uintptr_t>(stream);
  return cudaSuccess;
}
inline cudaError_t cudaStreamGetFlags(cudaStream_t, unsigned* flags) {
  EMULATOR_CALL
  *flags = cudaStreamNonBlocking;
  return cudaSuccess;
}
inline cudaError_t cudaStreamGetPriority(cudaStream_t, int* priority) {
  EMULATOR_CALL
  *priority = 0;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  EMULATOR_CALL
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone,
  cudaStreamCaptureStatusActive,
  cudaStreamCaptureStatusInvalidated
};
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};
inline cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  EMULATOR_CALL
  *status = emulator::is_capturing() ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
inline cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  EMULATOR_CALL
  static cudaStreamCaptureMode present = cudaStreamCaptureModeGlobal;
  std::swap(present, *mode);
  return cudaSuccess;
}
inline cudaError_t cudaEventCreate(cudaEvent_t* event) {
  EMULATOR_CALL
  *event = emulator::create_event();
  return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr) {
  EMULATOR_CALL
  return emulator_error(emulator::record_event(event, stream));
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned = 0) {
  EMULATOR_CALL
  return emulator_error(emulator::wait_for_event(stream, event));
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return emulator_forbidden("waits (cudaEventSynchronize), while the contract says that nothing waits; leave it out");
}
