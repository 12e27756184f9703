// Functions of the CUDA Math API that few kernels call ("Type Casting Intrinsics", "Integer Intrinsics", "Single
// Precision Intrinsics"), and those of a cluster.
#pragma once

#include "cuda_runtime.h"

// The nearest number that the type holds; of NaN what PTX says of cvt.
template <typename To, typename From>
EMULATOR_INLINE To emulator_whole(From x, char mode) {
  constexpr To LEAST = std::numeric_limits<To>::min(), MOST = std::numeric_limits<To>::max();
  if (x != x) {
    return sizeof(From) < 8 && sizeof(To) < 8 ? To{0} : static_cast<To>(1ull << (8 * sizeof(To) - 1));
  }
  x = mode == 'n' ? std::nearbyint(x) : mode == 'z' ? std::trunc(x) : mode == 'd' ? std::floor(x) : std::ceil(x);
  return x <= static_cast<From>(LEAST) ? LEAST : x >= static_cast<From>(MOST) ? MOST : static_cast<To>(x);
}
#define EMULATOR_TO_WHOLE(name, to, from)                                     \
  EMULATOR_INLINE to name##_rn(from x) { return emulator_whole<to>(x, 'n'); } \
  EMULATOR_INLINE to name##_rz(from x) { return emulator_whole<to>(x, 'z'); } \
  EMULATOR_INLINE to name##_rd(from x) { return emulator_whole<to>(x, 'd'); } \
  EMULATOR_INLINE to name##_ru(from x) { return emulator_whole<to>(x, 'u'); }
EMULATOR_TO_WHOLE(__float2int, int, float)
EMULATOR_TO_WHOLE(__float2uint, unsigned, float)
EMULATOR_TO_WHOLE(__float2ll, long long, float)
EMULATOR_TO_WHOLE(__float2ull, unsigned long long, float)
EMULATOR_TO_WHOLE(__double2int, int, double)
EMULATOR_TO_WHOLE(__double2uint, unsigned, double)
EMULATOR_TO_WHOLE(__double2ll, long long, double)
EMULATOR_TO_WHOLE(__double2ull, unsigned long long, double)
#define EMULATOR_TO_FLOAT(name, from)                                            \
  EMULATOR_INLINE float name##_rn(from x) { return static_cast<float>(x); }      \
  EMULATOR_INLINE float name##_rz(from x) { return emulator::float_of(x, 'z'); } \
  EMULATOR_INLINE float name##_rd(from x) { return emulator::float_of(x, 'm'); } \
  EMULATOR_INLINE float name##_ru(from x) { return emulator::float_of(x, 'p'); }
EMULATOR_TO_FLOAT(__int2float, int)
EMULATOR_TO_FLOAT(__uint2float, unsigned)
EMULATOR_TO_FLOAT(__double2float, double)
EMULATOR_INLINE float __ll2float_rn(long long x) { return static_cast<float>(x); }
EMULATOR_INLINE float __ull2float_rn(unsigned long long x) { return static_cast<float>(x); }
EMULATOR_INLINE double __int2double_rn(int x) { return x; }
EMULATOR_INLINE double __uint2double_rn(unsigned x) { return x; }
EMULATOR_INLINE double __ll2double_rn(long long x) { return static_cast<double>(x); }
EMULATOR_INLINE double __ull2double_rn(unsigned long long x) { return static_cast<double>(x); }
EMULATOR_INLINE int __double2hiint(double x) { return static_cast<int>(__double_as_longlong(x) >> 32); }
EMULATOR_INLINE int __double2loint(double x) { return static_cast<int>(__double_as_longlong(x)); }
EMULATOR_INLINE double __hiloint2double(int high, int low) {
  return emulator_bits<double>(static_cast<uint64_t>(static_cast<unsigned>(high)) << 32 | static_cast<unsigned>(low));
}

// Where the bit is that is the offset-th from `base` on, down where the offset is negative; PTX ISA, "fns".
EMULATOR_INLINE unsigned __fns(unsigned mask, unsigned base, int offset) {
  int step = offset < 0 ? -1 : 1, count = offset == 0 ? 1 : offset * step;
  for (int at = static_cast<int>(base); at >= 0 && at < 32; at += step) {
    count -= static_cast<int>(mask >> at & 1);
    if (count == 0 || offset == 0) {
      return count == 0 ? static_cast<unsigned>(at) : ~0u;
    }
  }
  return ~0u;
}
EMULATOR_INLINE unsigned long long __brevll(unsigned long long x) {
  return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 |
         __brev(static_cast<unsigned>(x >> 32));
}
EMULATOR_INLINE unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
  return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
EMULATOR_INLINE unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
  return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}
EMULATOR_INLINE long long __mul64hi(long long a, long long b) {
  return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
// The sum of a distance and c; means, rounded down and up.
EMULATOR_INLINE unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a < b ? b - a : a - b); }
EMULATOR_INLINE unsigned __sad(int a, int b, unsigned c) {
  return c + (a < b ? static_cast<unsigned>(b) - static_cast<unsigned>(a)
                    : static_cast<unsigned>(a) - static_cast<unsigned>(b));
}
EMULATOR_INLINE int __hadd(int a, int b) { return static_cast<int>((int64_t{a} + b) >> 1); }
EMULATOR_INLINE int __rhadd(int a, int b) { return static_cast<int>((int64_t{a} + b + 1) >> 1); }
EMULATOR_INLINE unsigned __uhadd(unsigned a, unsigned b) { return static_cast<unsigned>((uint64_t{a} + b) >> 1); }
EMULATOR_INLINE unsigned __urhadd(unsigned a, unsigned b) { return static_cast<unsigned>((uint64_t{a} + b + 1) >> 1); }
#define EMULATOR_EXTREMES(prefix, type)                                      \
  EMULATOR_INLINE type prefix##min(type a, type b) { return b < a ? b : a; } \
  EMULATOR_INLINE type prefix##max(type a, type b) { return a < b ? b : a; }
EMULATOR_EXTREMES(u, unsigned)
EMULATOR_EXTREMES(ll, long long)
EMULATOR_EXTREMES(ull, unsigned long long)

// Two products of a short and a byte, those of the lower bytes or of the upper ones, added to c.
EMULATOR_INLINE int emulator_dp2a(int a, int b, int c, int from) {
  int sum = int16_t(a) * int8_t(b >> from) + int16_t(a >> 16) * int8_t(b >> (from + 8));
  return static_cast<int>(static_cast<unsigned>(c) + static_cast<unsigned>(sum));
}
EMULATOR_INLINE int __dp2a_lo(int a, int b, int c) { return emulator_dp2a(a, b, c, 0); }
EMULATOR_INLINE int __dp2a_hi(int a, int b, int c) { return emulator_dp2a(a, b, c, 16); }

EMULATOR_INLINE float rsqrt(float a) { return rsqrtf(a); }
EMULATOR_INLINE double rsqrt(double a) { return 1.0 / std::sqrt(a); }
EMULATOR_INLINE float __frsqrt_rn(float a) { return static_cast<float>(rsqrt(static_cast<double>(a))); }
EMULATOR_INLINE double __dsqrt_rn(double a) { return std::sqrt(a); }
EMULATOR_INLINE float fdividef(float a, float b) { return a / b; }
EMULATOR_INLINE float __fmaf_ieee_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
EMULATOR_INLINE float2 __fadd2_rn(float2 a, float2 b) { return {a.x + b.x, a.y + b.y}; }
EMULATOR_INLINE float2 __fmul2_rn(float2 a, float2 b) { return {a.x * b.x, a.y * b.y}; }
EMULATOR_INLINE float2 __ffma2_rn(float2 a, float2 b, float2 c) {
  return {__builtin_fmaf(a.x, b.x, c.x), __builtin_fmaf(a.y, b.y, c.y)};
}
// The C library declares functions of these names, and has none.
#define __expf expf
#define __exp10f exp10f
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __powf powf
#define __sinf sinf
#define __cosf cosf
#define __tanf tanf
#define __sincosf sincosf

// What cooperative_groups::this_cluster() has, too.
#pragma GCC visibility push(hidden)
namespace emulator {
uint32_t cluster_rank();
uint32_t cluster_size();
uint3 cluster_block();
uint3 cluster_extent();
uint3 cluster_index();
uint3 cluster_grid();
void cluster_arrive(bool releases);
void cluster_wait();
uint64_t map_generic(uint64_t address, uint32_t rank);
uint32_t rank_of(const void* pointer);
}  // namespace emulator
#pragma GCC visibility pop
EMULATOR_INLINE dim3 __clusterIdx() { return emulator::cluster_index(); }
EMULATOR_INLINE dim3 __clusterDim() { return emulator::cluster_extent(); }
EMULATOR_INLINE dim3 __clusterGridDimInClusters() { return emulator::cluster_grid(); }
EMULATOR_INLINE dim3 __clusterRelativeBlockIdx() { return emulator::cluster_block(); }
EMULATOR_INLINE unsigned __clusterRelativeBlockRank() { return emulator::cluster_rank(); }
EMULATOR_INLINE unsigned __clusterSizeInBlocks() { return emulator::cluster_size(); }
EMULATOR_INLINE void __cluster_barrier_arrive() { emulator::cluster_arrive(true); }
EMULATOR_INLINE void __cluster_barrier_arrive_relaxed() { emulator::cluster_arrive(false); }
EMULATOR_INLINE void __cluster_barrier_wait() { emulator::cluster_wait(); }
EMULATOR_INLINE void* __cluster_map_shared_rank(const void* pointer, unsigned rank) {
  return reinterpret_cast<void*>(emulator::map_generic(reinterpret_cast<uint64_t>(pointer), rank));
}
EMULATOR_INLINE unsigned __cluster_query_shared_rank(const void* pointer) { return emulator::rank_of(pointer); }
