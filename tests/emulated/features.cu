// What a rung may use, a feature a kernel: one block of 64 threads, of which each leaves a number in its c[i].
//
// i is the thread, c is the row of C, zero at first, b that of B, 0 to 63. `run` starts the kernel that k counts.

#include <cooperative_groups.h>
#include <cuda_pipeline.h>
#include <math_constants.h>
#include <mma.h>

#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/std/array>

#include "gemm.cuh"

#define KERNEL(name)                                                                           \
  __device__ void name(unsigned i, float* c, const float* b);                                  \
  __global__ void __launch_bounds__(64) name##_kernel(Gemm g) { name(threadIdx.x, g.C, g.B); } \
  __device__ void name([[maybe_unused]] unsigned i, [[maybe_unused]] float* c, [[maybe_unused]] const float* b)

KERNEL(ballot) { c[i] = __ballot_sync(~0u, i % 3 == 0) & 0xFFFF; }

KERNEL(ballot_of_half_a_warp) {
  unsigned half = i % 32 < 16 ? 0xFFFF : 0xFFFF0000;
  c[i] = __popc(__ballot_sync(half, i % 32 > 3));
}

KERNEL(any_and_all) { c[i] = __any_sync(~0u, i == 40) + 2 * __all_sync(~0u, i >= 32); }

KERNEL(shuffle) { c[i] = __shfl_sync(~0u, b[i], i % 32 / 8, 8); }

KERNEL(shuffle_xor) {
  float s = b[i];
  for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(~0u, s, d);
  c[i] = s;
}

KERNEL(shuffle_up_and_down) { c[i] = __shfl_up_sync(~0u, b[i], 2) + 100 * __shfl_down_sync(~0u, b[i], 1, 16); }

KERNEL(reduce_add_of_half_a_warp) { c[i] = __reduce_add_sync(i % 32 < 16 ? 0xFFFF : 0xFFFF0000, i); }

KERNEL(shuffle_of_eight_bytes) { c[i] = __shfl_sync(~0u, static_cast<double>(b[i]), 5); }

KERNEL(pairs) {
  if (i < 32) {
    float2 v = reinterpret_cast<const float2*>(b)[i];
    c[2 * i] = v.y;
    c[2 * i + 1] = v.x;
  }
}

KERNEL(quadruples) {
  if (i < 16) {
    float4 v = reinterpret_cast<const float4*>(b)[i];
    reinterpret_cast<float4*>(c)[i] = make_float4(v.w, v.z, v.y, v.x);
  }
}

KERNEL(ldg) { c[i] = __ldg(b + i) + __ldg(reinterpret_cast<const float4*>(b)).y + __ldcs(b + 2) + __ldcg(b + 3); }

KERNEL(cache_hints_of_stores) {
  if (i % 2)
    __stcs(c + i, b[i]);
  else
    __stcg(c + i, b[i]);
}

KERNEL(atomics_in_shared_memory) {
  __shared__ int s[5];
  if (i == 0) {
    s[0] = s[1] = 0;
    s[2] = 99;
    s[3] = -1;
    s[4] = 0;
  }
  __syncthreads();
  atomicAdd(&s[0], i);
  atomicMax(&s[1], i);
  atomicMin(&s[2], i + 7);
  if (i == 9) atomicExch(&s[3], 5);
  atomicOr(&s[4], 1 << i % 8);
  __syncthreads();
  c[i] = i < 5 ? s[i] : 0;
}

KERNEL(atomics_in_global_memory) {
  atomicAdd(c + i % 2, b[i]);
  if (i == 7) atomicSub(reinterpret_cast<int*>(c + 2), -1069547520);
}

KERNEL(atomics_of_the_block_and_of_the_system) {
  atomicAdd_block(c + i % 2, b[i]);
  __syncthreads();
  atomicAdd_system(c + i % 2, 1.0f);
  if (i < 32) atomicMax_block(reinterpret_cast<int*>(c + 2), __float_as_int(static_cast<float>(i)));
  if (i == 7) atomicCAS_block(reinterpret_cast<int*>(c + 3), 0, __float_as_int(2.0f));
}

KERNEL(compare_and_swap) {
  __shared__ unsigned turn, last;
  if (i == 0) turn = 0;
  __syncthreads();
  unsigned was = atomicCAS(&turn, 0u, i + 1u);
  if (was == 0) last = i + 1;
  __syncthreads();
  c[i] = last == turn;
  __syncthreads();
  if (i == 0) c[0] = atomicInc(&turn, 0u) > 0;
}

KERNEL(launch_bounds) { c[i] = blockDim.x * gridDim.x + warpSize; }

KERNEL(static_shared) {
  __shared__ float s[64];
  s[i] = b[i];
  __syncthreads();
  c[i] = s[63 - i];
}

KERNEL(dynamic_shared_memory) {
  float* s = dynamic_shared<float>();
  s[i] = b[i];
  __syncthreads();
  c[i] = s[(i + 1) % 64];
}

KERNEL(syncwarp) {
  __shared__ float s[64];
  s[i] = b[i];
  __syncwarp();
  float v = s[i ^ 1];
  __syncwarp();
  s[i] = v;
  c[i] = s[i];
}

KERNEL(syncthreads_with_a_predicate) {
  c[i] = __syncthreads_count(i % 4 == 0) + 100 * __syncthreads_or(i == 3) + 1000 * __syncthreads_and(i < 63);
}

KERNEL(pipeline) {
  __shared__ __align__(16) float s[192];
  __pipeline_memcpy_async(s + i, b + i, 4);
  if (i < 32) __pipeline_memcpy_async(s + 64 + 2 * i, b + 2 * i, 8);
  __pipeline_commit();
  if (i < 16) __pipeline_memcpy_async(s + 128 + 4 * i, b + 4 * i, 16, i < 8 ? 0 : 12);
  __pipeline_commit();
  __pipeline_wait_prior(1);
  __syncthreads();
  float v = s[i ^ 1] + s[64 + (i ^ 1)];
  __pipeline_wait_prior(0);
  __syncthreads();
  c[i] = v + 1000 * s[128 + (i ^ 1)];
}

__constant__ const float scale[2] = {2, 3};
__device__ __forceinline__ float twice(float x) { return x * scale[0]; }
KERNEL(constant_and_device_function) { c[i] = twice(b[i]) + scale[i % 2]; }

KERNEL(arithmetic) {
  c[i] = fmaf(b[i], 2.0f, 1.0f) + __fmul_rn(b[i], 0.5f) + min(i, 3u) + max(1.0f, 0.5f) + __umulhi(1u << 31, 6);
}

KERNEL(copies_and_fillings) {
  __shared__ float s[2][64];
  int thread = int(i);
  if (thread % 32 == 0) {
    memset(s[thread / 32], 0, sizeof s[0]);
    memcpy(s[thread / 32] + 1, b + thread, 4 * (30 + thread / 32));
  }
  __syncthreads();
  c[i] = s[i / 32][i % 32];
}

KERNEL(neighbouring_bytes) {
  __shared__ unsigned char bytes[64];
  __shared__ unsigned short halves[64];
  bytes[i] = static_cast<unsigned char>(i);
  halves[i] = static_cast<unsigned short>(1000 * i);
  __syncthreads();
  c[i] = bytes[63 - i] + halves[i ^ 1];
}

KERNEL(active_lanes) {
  if (i % 3 == 0) c[i] = __popc(__activemask()) + 100 * __shfl_sync(__activemask(), i, i / 32 == 0 ? 3 : 1);
}

// Of a product by wmma, plus 1: how many of a lane's elements are wrong. Layouts: 0 by rows, 1 by columns.
template <int M, int N, int K, int LAYOUT_A, int LAYOUT_B, typename T, typename Stored, typename Sum>
__device__ int wrong_of_wmma(int lane) {
  namespace wmma = nvcuda::wmma;
  __shared__ alignas(32) Stored a[M * K], b[K * N];
  __shared__ alignas(32) Sum c[M * N];
  using A = std::conditional_t<LAYOUT_A == 0, wmma::row_major, wmma::col_major>;
  using B = std::conditional_t<LAYOUT_B == 0, wmma::row_major, wmma::col_major>;
  for (int e = lane; e < M * K; e += 32) a[e] = static_cast<Stored>(static_cast<float>(e * 7 % 5));
  for (int e = lane; e < K * N; e += 32) b[e] = static_cast<Stored>(static_cast<float>(e * 11 % 7));
  __syncwarp();
  wmma::fragment<wmma::matrix_a, M, N, K, T, A> of_a;
  wmma::fragment<wmma::matrix_b, M, N, K, T, B> of_b;
  wmma::fragment<wmma::accumulator, M, N, K, Sum> sums;
  wmma::fill_fragment(sums, static_cast<Sum>(1.0f));
  wmma::load_matrix_sync(of_a, a, LAYOUT_A == 0 ? K : M);
  wmma::load_matrix_sync(of_b, b, LAYOUT_B == 0 ? N : K);
  wmma::mma_sync(sums, of_a, of_b, sums);
  wmma::store_matrix_sync(c, sums, N, wmma::mem_row_major);
  __syncwarp();
  int wrong = 0;
  for (int e = lane; e < M * N; e += 32) {
    float sum = 1;
    for (int p = 0; p < K; ++p) {
      float one = static_cast<float>(a[LAYOUT_A == 0 ? e / N * K + p : p * M + e / N]);
      sum += one * static_cast<float>(b[LAYOUT_B == 0 ? p * N + e % N : e % N * K + p]);
    }
    wrong += static_cast<float>(c[e]) != sum;
  }
  return wrong;
}
KERNEL(warp_matrices) {
  using nvcuda::wmma::precision::tf32;
  int wrong = 0;
  if (i < 32) {
    wrong += wrong_of_wmma<16, 16, 16, 0, 0, __half, __half, float>(i);
    wrong += wrong_of_wmma<32, 8, 16, 1, 0, __half, __half, float>(i);
    wrong += wrong_of_wmma<8, 32, 16, 0, 1, __half, __half, __half>(i);
    wrong += wrong_of_wmma<16, 16, 16, 1, 1, __nv_bfloat16, __nv_bfloat16, float>(i);
    wrong += wrong_of_wmma<16, 16, 8, 0, 1, tf32, float, float>(i);
    wrong += wrong_of_wmma<8, 8, 4, 1, 0, double, double, double>(i);
    wrong += wrong_of_wmma<16, 16, 16, 0, 1, signed char, signed char, int>(i);
  }
  c[i] = 7 + wrong;
}

KERNEL(barrier_of_the_block) {
  __shared__ float s[64];
  __shared__ cuda::barrier<cuda::thread_scope_block> all;
  if (i == 0) init(&all, 64);
  __syncthreads();
  cuda::memcpy_async(s + i, b + i, sizeof(float), all);
  all.arrive_and_wait();
  float other = s[63 - i];
  all.arrive_and_wait();
  s[i] = 1;
  all.wait(all.arrive());
  c[i] = other + s[i ^ 1];
}

KERNEL(pipeline_of_a_thread) {
  __shared__ float s[2][64];
  auto pipe = cuda::make_pipeline();
  for (int stage = 0; stage < 2; ++stage) {
    pipe.producer_acquire();
    cuda::memcpy_async(&s[stage][i], b + (stage == 0 ? i : 63 - i), cuda::aligned_size_t<4>(4), pipe);
    pipe.producer_commit();
  }
  pipe.consumer_wait();
  float first = s[0][i];
  pipe.consumer_release();
  cuda::pipeline_consumer_wait_prior<0>(pipe);
  c[i] = first + 100 * s[1][i];
}

KERNEL(tiles_of_a_tile) {
  namespace cg = cooperative_groups;
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  auto eight = cg::tiled_partition<8>(warp);
  cg::thread_block_tile<8> passed = eight;
  c[i] = eight.meta_group_rank() + 10 * eight.meta_group_size() + 100 * warp.meta_group_rank() +
         1000 * passed.thread_rank();
}

KERNEL(products_of_parts_of_an_int) {
  __builtin_assume(i < 64);
  c[i] = __dp4a(0x01FF0203, 0x02040608, static_cast<int>(i)) + __umul24(1u << 24 | 3, 5) + __mul24(-2, 3) +
         (CUDART_INF_F > b[i]);
}

KERNEL(atomics_with_an_order) {
  __shared__ int count;
  cuda::atomic_ref<int, cuda::thread_scope_block> shared(count);
  cuda::atomic_ref<float, cuda::thread_scope_device> largest(c[2]);
  cuda::std::array<int, 2> values = {64, 7};
  if (i == 0) count = 0;
  __syncthreads();
  shared.fetch_add(1, cuda::memory_order_relaxed);
  largest.fetch_max(b[i]);
  __syncthreads();
  if (i == 0) {
    c[0] = shared.load(cuda::std::memory_order_acquire);
    c[1] = shared.compare_exchange_strong(values[0], values[1]) + 10 * shared.exchange(9);
    c[3] = shared.load();
  }
}

struct Shape {
  __device__ virtual float of(float x) const { return x; }
};
struct Twice : Shape {
  float more;
  __device__ explicit Twice(float more) : more(more) {}
  __device__ float of(float x) const override { return 2 * x + more; }
};
__device__ __noinline__ float through(const Shape& shape, float x) { return shape.of(x); }

KERNEL(virtual_functions) { c[i] = through(Twice(1), b[i]) + 100 * through(Shape(), b[i]); }

KERNEL(threads_that_leave_before_a_barrier) {
  __shared__ float s[64];
  if (i % 32 >= 20 || i < 3) return;
  s[i] = b[i];
  __syncthreads();
  c[i] = s[i < 32 ? i + 32 : max(i - 32, 3)];
}

KERNEL(warps_that_leave_before_a_barrier) {
  if (i < 32) __syncthreads();
  c[i] = i;
}

KERNEL(equal_values_in_a_word) {
  __shared__ unsigned flag;
  __shared__ float4 sums;
  if (i == 0) flag = 0;
  __syncthreads();
  if (b[i] > 20) flag = 1;
  sums = make_float4(1, 2, 3, 4);
  __syncthreads();
  c[i] = flag + sums.w;
}

using Kernel = void (*)(Gemm);
const Kernel kernels[] = {ballot_kernel,
                          ballot_of_half_a_warp_kernel,
                          any_and_all_kernel,
                          shuffle_kernel,
                          shuffle_xor_kernel,
                          shuffle_up_and_down_kernel,
                          reduce_add_of_half_a_warp_kernel,
                          shuffle_of_eight_bytes_kernel,
                          pairs_kernel,
                          quadruples_kernel,
                          ldg_kernel,
                          cache_hints_of_stores_kernel,
                          atomics_in_shared_memory_kernel,
                          atomics_in_global_memory_kernel,
                          atomics_of_the_block_and_of_the_system_kernel,
                          compare_and_swap_kernel,
                          launch_bounds_kernel,
                          static_shared_kernel,
                          dynamic_shared_memory_kernel,
                          syncwarp_kernel,
                          syncthreads_with_a_predicate_kernel,
                          pipeline_kernel,
                          constant_and_device_function_kernel,
                          arithmetic_kernel,
                          copies_and_fillings_kernel,
                          neighbouring_bytes_kernel,
                          active_lanes_kernel,
                          warp_matrices_kernel,
                          barrier_of_the_block_kernel,
                          pipeline_of_a_thread_kernel,
                          tiles_of_a_tile_kernel,
                          products_of_parts_of_an_int_kernel,
                          atomics_with_an_order_kernel,
                          virtual_functions_kernel,
                          threads_that_leave_before_a_barrier_kernel,
                          warps_that_leave_before_a_barrier_kernel,
                          equal_values_in_a_word_kernel};

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(kernels[g.k - 1], dim3(1), dim3(64), 256, stream, g);
}

EXPORT_SGEMM(run)
