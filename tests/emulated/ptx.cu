// Inline PTX, a family of instructions a kernel: one block of 128 threads, which leaves numbers in the 64 x 64 of C.
//
// i is the thread, c is C, zero at first, b is B, whose element e is e % 61 - 30. `run` starts the kernel that k counts.
#include <cuda_fp16.h>

#include "bulk_copy.cuh"
#include "gemm.cuh"
#include "kernel_of_threads.cuh"
#include "wgmma.cuh"

#define TWO(op, x, y)                                  \
  ([](unsigned a, unsigned b) {                        \
    unsigned d;                                        \
    asm(op " %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b)); \
    return d;                                          \
  }(x, y))
#define THREE(op, x, y, z)                                         \
  ([](unsigned a, unsigned b, unsigned c) {                        \
    unsigned d;                                                    \
    asm(op " %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c)); \
    return d;                                                      \
  }(x, y, z))

KERNEL(integers) {
  if (i != 0) return;
  unsigned found[] = {TWO("add.s32", 7, ~0u),
                      TWO("sub.u32", 7, 9),
                      TWO("mul.lo.s32", 1000, 1000),
                      TWO("mul.hi.u32", 1u << 31, 6),
                      TWO("min.s32", ~0u, 3),
                      TWO("min.u32", ~0u, 3),
                      TWO("and.b32", 12, 10),
                      TWO("xor.b32", 12, 10),
                      TWO("shl.b32", 3, 4),
                      TWO("shr.u32", ~0u, 28),
                      TWO("shl.b32", 3, 32),
                      THREE("mad.lo.u32", 5, 6, 7),
                      THREE("prmt.b32", 0x03020100, 0x07060504, 0x5140),
                      THREE("shf.l.wrap.b32", 0x80000000, 1, 1),
                      THREE("bfe.u32", 0xABCD, 4, 8),
                      TWO("div.s32", 17, 5),
                      TWO("rem.u32", 17, 5),
                      THREE("dp4a.u32.u32", 0x01020304, 0x01010101, 5)};
  unsigned lop, wide, popcount, leading, in, packed;
  asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(lop) : "r"(12), "r"(10), "r"(6));
  asm("{\n.reg .u64 d;\nmul.wide.u32 d, %1, %2;\nshr.u64 d, d, 32;\ncvt.u32.u64 %0, d;\n}"
      : "=r"(wide)
      : "r"(1u << 31), "r"(6));
  asm("popc.b32 %0, %1;" : "=r"(popcount) : "r"(0xF0F0));
  asm("clz.b32 %0, %1;" : "=r"(leading) : "r"(0xFFFF));
  asm("bfi.b32 %0, %1, %2, 4, 8;" : "=r"(in) : "r"(0xAB), "r"(0xF00F));
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {h, l}; }" : "=r"(packed) : "r"(0x00010002));
  int at = 0;
  for (unsigned each : found) c[at++] = static_cast<float>(static_cast<int>(each));
  for (unsigned each : {lop, wide, popcount, leading, in, packed}) c[at++] = static_cast<float>(each);
}

KERNEL(floats) {
  if (i != 0) return;
  float x = 1.0f, tiny = 0x1p-30f, up, down, nearest, fused, rounded, smaller, chosen;
  unsigned tf32, halves;
  asm("add.rp.f32 %0, %1, %2;" : "=f"(up) : "f"(x), "f"(tiny));
  asm("add.rz.f32 %0, %1, %2;" : "=f"(down) : "f"(-x), "f"(-tiny));
  asm("add.f32 %0, %1, 0f40490FDB;" : "=f"(nearest) : "f"(x));
  asm("fma.rn.f32 %0, %1, %1, %2;" : "=f"(fused) : "f"(1.0f + 0x1p-20f), "f"(-1.0f));
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(tf32) : "f"(1.0f + 0x1p-11f));
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(2.0f), "f"(1.0f + 0x1p-11f));
  asm("cvt.rni.f32.f32 %0, %1;" : "=f"(rounded) : "f"(2.5f));
  asm("min.f32 %0, %1, %2;" : "=f"(smaller) : "f"(NAN), "f"(-3.0f));
  asm("{\n.reg .pred p;\nsetp.gt.f32 p, %1, 2.5;\n@p bra yes%=;\nmov.f32 %0, 1.0;\nbra end%=;\nyes%=:\nmov.f32 %0, "
      "2.0;\nend%=:\n}"
      : "=f"(chosen)
      : "f"(3.0f));
  float found[] = {up,
                   down,
                   nearest,
                   fused,
                   __uint_as_float(tf32),
                   static_cast<float>(halves >> 16),
                   static_cast<float>(halves & 0xFFFF),
                   rounded,
                   smaller,
                   chosen};
  int at = 0;
  for (float each : found) c[at++] = each;
}

KERNEL(loads_and_stores) {
  __shared__ alignas(16) float s[512];
  float4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(b + 4 * i));
  auto at = static_cast<uint32_t>(__cvta_generic_to_shared(s + 4 * i));
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(v.x), "f"(v.y));
  asm volatile("st.shared.v2.b32 [%0+8], {%1, %2};" ::"r"(at), "r"(__float_as_uint(v.z)), "r"(__float_as_uint(v.w)));
  __syncthreads();
  float mirrored;
  asm volatile("ld.shared.f32 %0, [%1];"
               : "=f"(mirrored)
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(s + 511 - i))));
  asm volatile("st.global.cs.f32 [%0], %1;" ::"l"(c + i), "f"(mirrored));
  unsigned old;
  asm volatile("atom.global.add.f32 %0, [%1], %2;" : "=r"(old) : "l"(c + 128), "f"(1.0f));
  asm volatile("red.global.max.s32 [%0], %1;" ::"l"(c + 129), "r"(i));
}

KERNEL(warps) {
  unsigned lane, up, ballot, same, sum, elected, rank;
  int inside;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm volatile("{ .reg .pred p; shfl.sync.up.b32 %0|p, %2, 3, 0, -1; selp.s32 %1, 1, 0, p; }"
               : "=r"(up), "=r"(inside)
               : "r"(i));
  asm volatile("{ .reg .pred p; setp.eq.u32 p, %1, 5; vote.sync.ballot.b32 %0, p, 0xffffffff; }"
               : "=r"(ballot)
               : "r"(lane));
  asm volatile("match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(same) : "r"(lane / 16));
  asm volatile("redux.sync.add.u32 %0, %1, 0xffffffff;" : "=r"(sum) : "r"(lane));
  asm volatile("{ .reg .pred p; elect.sync %0|p, 0xffffffff; selp.u32 %1, 1, 0, p; }" : "=r"(rank), "=r"(elected));
  c[i] = static_cast<float>(up + 1000 * inside);
  c[128 + i] = static_cast<float>(ballot + same + sum + elected + rank);
}

KERNEL(asynchronous_copies) {
  __shared__ alignas(16) float s[512];
  auto at = static_cast<uint32_t>(__cvta_generic_to_shared(s + 4 * i));
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(at), "l"(b + 4 * i), "r"(i % 2 ? 16 : 8));
  asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
  for (int v = 0; v < 4; ++v) c[4 * i + v] = s[4 * i + v];
}

KERNEL(matrices) {
  __shared__ alignas(16) __half s[16][16], t[16][16];
  for (int e = i; e < 256; e += 128) s[e / 16][e % 16] = __float2half(static_cast<float>(e));
  __syncthreads();
  if (i < 32) {
    unsigned r[4], x[4];
    auto from = static_cast<uint32_t>(__cvta_generic_to_shared(&s[i % 16][i / 16 * 8]));
    auto to = static_cast<uint32_t>(__cvta_generic_to_shared(&t[i % 16][i / 16 * 8]));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(from));
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(r[0]),
                 "r"(r[1]), "r"(r[2]), "r"(r[3]));
    for (int j = 0; j < 4; ++j) {
      c[(i * 4 + j) * 4] = static_cast<float>(__ushort_as_half(r[j] & 0xFFFF));
      c[(i * 4 + j) * 4 + 1] = static_cast<float>(__ushort_as_half(r[j] >> 16));
      c[(i * 4 + j) * 4 + 2] = static_cast<float>(__ushort_as_half(x[j] & 0xFFFF));
      c[(i * 4 + j) * 4 + 3] = static_cast<float>(__ushort_as_half(x[j] >> 16));
    }
  }
  __syncthreads();
  for (int e = i; e < 256; e += 128) c[512 + e] = static_cast<float>(t[e / 16][e % 16]);
}

// 16 x 8 = 16 x 16 . 16 x 8 of B's first numbers, in FP16; then TF32 (16 x 8 . 8 x 8) and INT8 (16 x 32 . 32 x 8).
KERNEL(tensor_cores) {
  if (i >= 32) return;
  int g = i / 4, q = i % 4;
  auto A = [&](int r, int k) { return b[r * 32 + k]; };
  auto B = [&](int k, int n) { return b[1000 + k * 8 + n]; };
  auto two = [](float x, float y) {
    return static_cast<unsigned>(__half_as_ushort(__float2half(x))) |
           static_cast<unsigned>(__half_as_ushort(__float2half(y))) << 16;
  };
  float d[4] = {1, 2, 3, 4};
  unsigned a[4], m[2];
  for (int j = 0; j < 4; ++j) a[j] = two(A(g + j % 2 * 8, 2 * q + j / 2 * 8), A(g + j % 2 * 8, 2 * q + 1 + j / 2 * 8));
  for (int j = 0; j < 2; ++j) m[j] = two(B(2 * q + 8 * j, g), B(2 * q + 1 + 8 * j, g));
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(m[0]), "r"(m[1]));
  for (int j = 0; j < 4; ++j) c[(g + j / 2 * 8) * 8 + 2 * q + j % 2] = d[j] - static_cast<float>(j + 1);
  for (int j = 0; j < 4; ++j) a[j] = __float_as_uint(A(g + j % 2 * 8, q + j / 2 * 4));
  for (int j = 0; j < 2; ++j) m[j] = __float_as_uint(B(q + 4 * j, g));
  float e[4] = {};
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(e[0]), "+f"(e[1]), "+f"(e[2]), "+f"(e[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(m[0]), "r"(m[1]));
  for (int j = 0; j < 4; ++j) c[128 + (g + j / 2 * 8) * 8 + 2 * q + j % 2] = e[j];
  auto four = [](auto f) {
    unsigned word = 0;
    for (int v = 0; v < 4; ++v) word |= (static_cast<unsigned>(static_cast<int>(f(v))) & 255) << (8 * v);
    return word;
  };
  for (int j = 0; j < 4; ++j) a[j] = four([&](int v) { return A(g + j % 2 * 8, 4 * q + v + j / 2 * 16); });
  for (int j = 0; j < 2; ++j) m[j] = four([&](int v) { return B(4 * q + v + 16 * j, g); });
  int s[4] = {};
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(m[0]), "r"(m[1]));
  for (int j = 0; j < 4; ++j) c[256 + (g + j / 2 * 8) * 8 + 2 * q + j % 2] = static_cast<float>(s[j]);
}

KERNEL(named_barriers) {
  __shared__ float s[64];
  if (i >= 64) {
    s[i - 64] = b[i];
    asm volatile("bar.arrive 3, 128;" ::: "memory");
  } else {
    asm volatile("bar.sync 3, 128;" ::: "memory");
    c[i] = s[63 - i];
  }
}

KERNEL(bulk_copies) {
  __shared__ alignas(128) float s[512];
  __shared__ uint64_t full;
  if (i == 0) {
    mbarrier_init(&full, 1);
    mbarrier_init_fence();
  }
  __syncthreads();
  if (i == 0) {
    mbarrier_arrive_expect(&full, sizeof s);
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(s)),
                 "l"(b), "r"(2048), "r"(shared_address(&full))
                 : "memory");
  }
  mbarrier_wait(&full, 0);
  for (int e = i; e < 512; e += 128) s[e] = 2 * s[e];
  bulk_copy_fence();
  __syncthreads();
  if (i == 0) {
    asm volatile(
        "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], "
        "%2;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::"l"(c),
        "r"(shared_address(s)), "r"(2048)
        : "memory");
  }
}

// A box of 8 rows of 32 floats with the 128-byte swizzle, which begins at column 48 of 64: the rest lies outside.
KERNEL(tensor_copies) {
  __shared__ alignas(1024) float s[256];
  __shared__ uint64_t full;
  if (i == 0) {
    mbarrier_init(&full, 1);
    mbarrier_init_fence();
  }
  __syncthreads();
  if (i == 0) {
    mbarrier_arrive_expect(&full, sizeof s);
    bulk_copy_box(s, map, 5, 48, &full);
  }
  mbarrier_wait(&full, 0);
  for (int e = i; e < 256; e += 128) c[e] = s[e];
}

#define FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])

constexpr int A_BYTES = 64 * 128, B_BYTES = 32 * 128;

// 64 x 32 = 64 x 16 . 16 x 32, of which B lies along n (transposed) or along k.
template <bool ALONG_N>
__device__ void products_of_a_group(unsigned i, float* c, const float* b, unsigned char* A, unsigned char* B) {
  for (int e = i; e < 64 * 16; e += 128) {
    int r = e / 16, k = e % 16;
    *reinterpret_cast<__half*>(A + r * 128 + ((k * 2) ^ (r % 8 * 16))) = __float2half(b[r * 16 + k]);
  }
  for (int e = i; e < 32 * 16; e += 128) {
    int k = e / 32, n = e % 32;
    __half x = __float2half(b[2000 + k * 32 + n]);
    if (ALONG_N) {  // 64 bytes of n in each row of k, with the 64-byte swizzle
      *reinterpret_cast<__half*>(B + k * 64 + ((n * 2) ^ (k / 2 % 4 * 16))) = x;
    } else {
      *reinterpret_cast<__half*>(B + n * 128 + ((k * 2) ^ (n % 8 * 16))) = x;
    }
  }
  bulk_copy_fence();
  __syncthreads();
  float d[16] = {};
  uint64_t of_A = tile_descriptor(A);
  uint64_t of_B =
      ALONG_N ? ((shared_address(B) & 0x3FFFF) >> 4 | uint64_t{1} << 16 | uint64_t{512 / 16} << 32 | uint64_t{2} << 62)
              : tile_descriptor(B);
  wgmma_fence();
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
      "%14, %15}, %16, %17, 1, 1, 1, 0, %18;"
      : FOUR(d, 0), FOUR(d, 4), FOUR(d, 8), FOUR(d, 12)
      : "l"(of_A), "l"(of_B), "n"(ALONG_N ? 1 : 0));
  wgmma_commit();
  wgmma_wait<0>();
  for (int j = 0; j < 16; ++j) {
    c[(i / 32 * 16 + i % 32 / 4 + 8 * (j / 2 % 2)) * 32 + j / 4 * 8 + i % 4 * 2 + j % 2] = d[j];
  }
}
KERNEL(wgmma_along_k) {
  __shared__ alignas(1024) unsigned char A[A_BYTES], B[B_BYTES];
  products_of_a_group<false>(i, c, b, A, B);
}
KERNEL(wgmma_along_n) {
  __shared__ alignas(1024) unsigned char A[A_BYTES], B[B_BYTES];
  products_of_a_group<true>(i, c, b, A, B);
}
// The static arrays of other kernels, which a GPU's block does not have, are no reason for another result.
template <int>
__global__ void __launch_bounds__(128) another_kernel(Gemm g, const __grid_constant__ CUtensorMap) {
  __shared__ float s[12 * 1024];
  s[threadIdx.x] = g.B[threadIdx.x];
  g.C[threadIdx.x] = s[threadIdx.x];
}
KERNEL(wgmma_dynamic) {
  extern __shared__ unsigned char tiles[];
  products_of_a_group<false>(i, c, b, tiles, tiles + A_BYTES);
}

// Each of two blocks writes to the other, and says so by an mbarrier there.
__global__ void __cluster_dims__(2, 1, 1) clusters_kernel(Gemm g, const __grid_constant__ CUtensorMap) {
  __shared__ float s[128];
  __shared__ uint64_t full;
  unsigned i = threadIdx.x;
  int rank = cluster_rank();
  if (i == 0) {
    mbarrier_init(&full, 128);
    mbarrier_init_fence();
  }
  cluster_barrier();
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(s + i)), "r"(1 - rank));
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(static_cast<float>(1000 * rank + i)) : "memory");
  mbarrier_arrive_at(&full, 1 - rank);
  mbarrier_wait(&full, 0);
  g.C[128 * rank + i] = s[127 - i];
  cluster_barrier();
}

using Kernel = void (*)(Gemm, CUtensorMap);
const Kernel kernels[] = {
    integers_kernel,      floats_kernel,        loads_and_stores_kernel, warps_kernel,       asynchronous_copies_kernel,
    matrices_kernel,      tensor_cores_kernel,  named_barriers_kernel,   bulk_copies_kernel, tensor_copies_kernel,
    wgmma_along_k_kernel, wgmma_along_n_kernel, wgmma_dynamic_kernel,    clusters_kernel};
const Kernel others[] = {another_kernel<0>, another_kernel<1>, another_kernel<2>,
                         another_kernel<3>, another_kernel<4>, another_kernel<5>};

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  CUtensorMap map = {};
  if (!make_tensor_map(&map, g.B, 64, 64, 64, 8, 32, CU_TENSOR_MAP_SWIZZLE_128B)) {
    return cudaErrorInvalidValue;
  }
  Kernel kernel = g.k > 0 ? kernels[g.k - 1] : others[g.m % 6];
  return launch(kernel, dim3(kernel == clusters_kernel ? 2 : 1), dim3(128), A_BYTES + B_BYTES, stream, g, map);
}

EXPORT_SGEMM(run)
