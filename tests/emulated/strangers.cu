// What strangers' kernels use beside what features.cu has: one block of 128 threads, which leaves numbers in the C of
// 64 x 64 elements.
//
// i is the thread, c is C, zero at first, b is B, whose element e is e % 61 - 30; map has boxes of 8 x 32 elements of
// B. `run` starts the kernel that k counts.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cuda/barrier>
#include <cuda/ptx>

#include "bulk_copy.cuh"
#include "gemm.cuh"
#include "kernel_of_threads.cuh"

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;
namespace cde = cuda::device::experimental;

KERNEL(matches) {
  int equal, different;
  unsigned half = i % 32 < 16 ? 0xFFFF : 0xFFFF0000;
  c[i] = __popc(__match_any_sync(~0u, i % 5)) + 100 * (__ffs(__match_any_sync(half, i % 2 * 1.5)) - 1);
  unsigned same = __match_all_sync(half, 7ull, &equal);
  c[128 + i] = (same == half) + 2 * equal + 4 * (__match_all_sync(~0u, i % 32 == 9, &different) == 0) + 8 * different;
}

KERNEL(coalesced_lanes) {
  if (i % 4 == 3) return;
  cg::coalesced_group lanes = cg::coalesced_threads();
  float x = lanes.thread_rank();
  c[i] = lanes.size() + 100 * lanes.shfl(i, 1) + 1000 * (lanes.shfl_down(x, 2) - x) + 10000 * (x - lanes.shfl_up(x, 5));
  c[128 + i] = cg::reduce(lanes, x, cg::plus<float>()) + 1000 * cg::reduce(lanes, i, cg::greater<unsigned>());
  unsigned votes = lanes.ballot(i % 32 == 0 || i % 32 == 30);
  c[256 + i] = votes + lanes.any(i % 32 == 2) + 2 * lanes.all(i < 64);
  lanes.sync();
  c[384 + i] = lanes.match_any(i % 32 / 16);
}

KERNEL(lanes_of_ptx) {
  if (i % 4 == 3) return;
  unsigned lanes, second;
  asm volatile("activemask.b32 %0;" : "=r"(lanes));
  asm("fns.b32 %0, %1, 0, 2;" : "=r"(second) : "r"(lanes & 0xFF00));
  c[i] = __popc(lanes) + 100 * second;
}

KERNEL(partitions) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  auto threes = cg::labeled_partition(warp, i % 32 % 3);
  auto some = cg::binary_partition(warp, i % 32 < 5);
  auto eight = cg::tiled_partition<8>(warp);
  c[i] = threes.thread_rank() + 100 * threes.size() + 10000 * some.size();
  c[128 + i] = eight.match_any(i % 2) + 1000 * cg::reduce(eight, i % 8, cg::bit_xor<unsigned>());
  cg::invoke_one(eight, [&] { c[256 + i / 8] = cg::this_thread().size(); });
}

KERNEL(versions) {
#if CUDART_VERSION >= 12000 && __CUDACC_VER_MAJOR__ >= 12 && !defined(__CUDACC_RTC__)
  c[i] = (CUDART_VERSION >= 12000) + (__CUDACC_VER_MAJOR__ >= 12) + (__CUDACC_VER_MINOR__ >= 0);
#endif
}

KERNEL(builtin_atomics) {
  __shared__ int counter, flag;
  __shared__ unsigned bits;
  if (i == 0) {
    __nv_atomic_store_n(&counter, 5, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_BLOCK);
    bits = flag = 0;
  }
  __syncthreads();
  __nv_atomic_fetch_add(&counter, 2, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_BLOCK);
  __nv_atomic_or(&bits, 1u << i % 8, __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_BLOCK);
  __nv_atomic_fetch_max(&flag, static_cast<int>(i), __NV_ATOMIC_SEQ_CST);
  __nv_atomic_add(c + 5, 1.0f, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
  __nv_atomic_thread_fence(__NV_ATOMIC_SEQ_CST, __NV_THREAD_SCOPE_DEVICE);
  __syncthreads();
  if (i != 0) return;
  int expected = 127, other = 3, was;
  __nv_atomic_exchange(&counter, &other, &was, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_BLOCK);
  c[0] = was;
  c[1] = __nv_atomic_load_n(&counter, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_BLOCK);
  c[2] = __nv_atomic_load_n(&bits, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_BLOCK);
  c[3] = __nv_atomic_compare_exchange_n(&flag, &expected, 9, false, __NV_ATOMIC_RELEASE, __NV_ATOMIC_RELAXED,
                                        __NV_THREAD_SCOPE_DEVICE);
  c[4] = flag;
}

KERNEL(clocks) {
  long long begun = clock64();
  clock_t first = clock();
  __nanosleep(1);
  unsigned long long timer;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(timer));
  c[i] = (clock64() > begun) + 2 * (timer > 0) + 4 * (clock() != first) + 8 * (ptx::get_sreg_clock64() > 0);
}

KERNEL(integer_intrinsics) {
  __shared__ float s;
  int found[] = {static_cast<int>(__fns(0xB0, 0, 2)),
                 static_cast<int>(__fns(0xB0, 7, -2)),
                 static_cast<int>(__fns(0xB0, 4, 0)),
                 static_cast<int>(__fns(0xB0, 8, 1)),
                 static_cast<int>(__funnelshift_lc(1, 2, 40)),
                 static_cast<int>(__funnelshift_rc(1, 2, 1)),
                 static_cast<int>(__brevll(1) >> 60),
                 static_cast<int>(__mul64hi(1ll << 62, -8)),
                 static_cast<int>(__sad(-3, 4, 1)),
                 __hadd(-3, 4),
                 __rhadd(-3, 4),
                 static_cast<int>(umin(3u, 4u)),
                 static_cast<int>(llmax(3, 4)),
                 __float2int_rn(2.5f),
                 static_cast<int>(__float2uint_rz(-1.5f)),
                 static_cast<int>(__float2ll_ru(2.25f)),
                 __double2int_rd(-2.25),
                 __double2hiint(1.0),
                 __double2loint(__hiloint2double(1, 77)),
                 static_cast<int>(__reduce_xor_sync(~0u, i % 32 == 3 ? 5u : 0u)),
                 static_cast<int>(__isShared(&s) + 2 * __isGlobal(c)),
                 static_cast<int>(sizeof(long4) + sizeof(char3)),
                 __dp2a_lo(0x00020003, 0x01FF0405, 1),
                 __dp2a_hi(0x00020003, 0x01FF0405, 1),
                 __int2float_rz(16777217) == 16777216.0f,
                 __double2float_ru(1 + 0x1p-40) > 1.0f};
  for (int n = 0; i == 0 && n < 26; ++n) c[n] = found[n];
}

KERNEL(sums_of_vectors) {
  struct __builtin_align__(16) Four {
    float of[4];
  };
  atomicAdd(reinterpret_cast<float4*>(c), make_float4(1, 2, 3, sizeof(Four)));
  atomicAdd(reinterpret_cast<float2*>(c + 4), make_float2(i, 1));
  if (i == 0) c[6] = rsqrt(4.0f) + __expf(0) + __log2f(8) + fdividef(1, 2);
}

template <typename T2, typename T>
__device__ float of_small(T one, T two, T2 pair) {
  pair += __hmul2(pair, pair);
  T2 most = __hmax2(-pair, __hneg2(__habs2(pair)));
  float sum = static_cast<float>(__hfma_relu(one, two, -two)) + static_cast<float>(__hadd_sat(one, two));
  sum += 10 * (__heq(one, one) + __hgt(two, one) + __hltu(two, one) + __hbeq2(pair, pair));
  return sum + 100 * static_cast<float>(hsqrt(two * two)) + 1000 * (__low2float(pair) + __high2float(most));
}
KERNEL(halves) {
  __half one = __int2half_rn(1), two = __float2half(2.0f);
  __nv_bfloat16 other = __uint2bfloat16_rn(1), another = __float2bfloat16(2.0f);
  c[i] = of_small(one, two, __floats2half2_rn(1, 3));
  c[128 + i] = of_small(other, another, __floats2bfloat162_rn(1, 3));
  c[256 + i] = __half2int_rd(__float2half_rn(-2.5f)) +
               10 * __low2float(__highs2half2(__floats2half2_rn(1, 3), __half2half2(two)));
}

// A box of B; a line of B that is doubled and goes to C, and is added there to zeros.
KERNEL(copies_by_cuda_ptx) {
  __shared__ alignas(1024) float box[8 * 32];
  __shared__ alignas(16) float line[128];
  __shared__ uint64_t full;
  if (ptx::get_sreg_tid_x() == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::fence_proxy_async(ptx::space_shared);
  }
  __syncthreads();
  if (i == 0) {
    const int32_t at[] = {32, 8};
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, box, map, at, &full);
    ptx::cp_async_bulk(ptx::space_shared, ptx::space_global, line, b, sizeof line, &full);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full,
                                   sizeof box + sizeof line);
  }
  while (!ptx::mbarrier_try_wait_parity(&full, 0)) {
  }
  c[256 + i] = box[i] + 100 * ptx::get_sreg_laneid() + 10000 * ptx::get_sreg_nctaid_x();
  line[i] *= 2;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (i == 0) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, c, line, sizeof line);
    ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, reinterpret_cast<unsigned*>(c + 128),
                              reinterpret_cast<const unsigned*>(line), sizeof line);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
  }
}

KERNEL(copies_by_barriers) {
  __shared__ alignas(1024) float box[8 * 32];
  __shared__ alignas(16) float line[128];
  __shared__ cuda::barrier<cuda::thread_scope_block> full;
  if (i == 0) {
    init(&full, 128);
    cde::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  cuda::barrier<cuda::thread_scope_block>::arrival_token token;
  if (i == 0) {
    cde::cp_async_bulk_tensor_2d_global_to_shared(box, map, 32, 8, full);
    cde::cp_async_bulk_global_to_shared(line, b, sizeof line, full);
    token = cuda::device::barrier_arrive_tx(full, 1, sizeof box + sizeof line);
  } else {
    token = full.arrive();
  }
  full.wait(std::move(token));
  c[128 + i] = box[i];
  line[i] += 1;
  cde::fence_proxy_async_shared_cta();
  __syncthreads();
  if (i == 0) {
    cde::cp_async_bulk_shared_to_global(c, line, sizeof line);
    cde::cp_async_bulk_commit_group();
    cde::cp_async_bulk_wait_group_read<0>();
  }
}

using Kernel = void (*)(Gemm, CUtensorMap);
const Kernel kernels[] = {matches_kernel,    coalesced_lanes_kernel,    lanes_of_ptx_kernel,
                          partitions_kernel, versions_kernel,           builtin_atomics_kernel,
                          clocks_kernel,     integer_intrinsics_kernel, sums_of_vectors_kernel,
                          halves_kernel,     copies_by_cuda_ptx_kernel, copies_by_barriers_kernel};

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  CUtensorMap map = {};
  if (!make_tensor_map(&map, g.B, 64, 64, 64, 8, 32, CU_TENSOR_MAP_SWIZZLE_NONE)) {
    return cudaErrorInvalidValue;
  }
  return launch(kernels[g.k - 1], dim3(1), dim3(128), 0, stream, g, map);
}

EXPORT_SGEMM(run)
