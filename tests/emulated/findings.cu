// What the emulator finds, one in each kernel, in the line that says so: one block of 64 threads.
//
// i is the thread, c is the row of C, zero at first, b that of B, 0 to 63. `run` starts the kernel that k counts.

#include <cuda_pipeline.h>

#include "gemm.cuh"
#include "second_kernel.cuh"

#define KERNEL(name)                                                                           \
  __device__ void name(unsigned i, float* c, const float* b);                                  \
  __global__ void __launch_bounds__(64) name##_kernel(Gemm g) { name(threadIdx.x, g.C, g.B); } \
  __device__ void name([[maybe_unused]] unsigned i, [[maybe_unused]] float* c, [[maybe_unused]] const float* b)

KERNEL(shift_too_far) { c[i] = 1 << (i % 2 + 31) * 2; }  // found: undefined behaviour: undefined shift

KERNEL(negative_shift) { c[i] = 1 << (int(i) - 60); }  // found: undefined behaviour: undefined shift

KERNEL(overflowing_sum) { c[i] = 2147483647 + int(i); }  // found: undefined behaviour: integer overflow in \+

KERNEL(overflowing_difference) { c[i] = -2147483647 - int(i); }  // found: undefined behaviour: integer overflow in -

KERNEL(overflowing_product) { c[i] = int(i) * 99999999; }  // found: undefined behaviour: integer overflow in \*

KERNEL(division_by_zero) { c[i] = 7 / int(i); }  // found: undefined behaviour: division by zero or overflow

KERNEL(index_outside_registers) {
  float r[4] = {};
  r[i / 8] = 1;  // found: undefined behaviour: index [4-7] outside its array
  c[i] = r[i % 4];
}

KERNEL(index_outside_static_shared) {
  __shared__ float s[64];
  s[i + 1] = 0;  // found: undefined behaviour: index 64 outside its array
  c[i] = 0;
}

KERNEL(outside_dynamic_shared) {
  dynamic_shared<float>()[i + 1] = 0;  // found: out of bounds: writes 4 bytes at 256 of 256 bytes .*
}

KERNEL(read_past_the_end) { c[i] = b[i + 1]; }  // found: out of bounds: reads 4 bytes outside B .*

KERNEL(read_before_the_start) { c[i] = b[int(i) - 1]; }  // found: out of bounds: reads 4 bytes outside B .*

KERNEL(write_past_the_end) { c[i + 1] = 0; }  // found: out of bounds: writes 4 bytes outside C .*

KERNEL(null_pointer) {
  if (i == 5) *static_cast<volatile float*>(nullptr) = 0;  // found: out of bounds: writes 4 bytes .*
}

KERNEL(input_written) { const_cast<float*>(b)[i] = 0; }  // found: forbidden write: writes B.*, which is an input

KERNEL(misaligned_float2) {
  c[i] = reinterpret_cast<const float2*>(b + 1)[i % 2].x;  // found: misaligned: accesses B.* an alignment of 8 bytes.*
}

KERNEL(misaligned_float4) {
  float4* to = reinterpret_cast<float4*>(c + 2);
  to[i % 2] = make_float4(0, 0, 0, 0);  // found: misaligned: accesses C.* an alignment of 16 bytes.*
}

KERNEL(misaligned_copy) {
  __shared__ __align__(16) float s[68];
  if (i == 0) __pipeline_memcpy_async(s, b + 1, 16);  // found: misaligned: accesses B.* an alignment of 16 bytes.*
}

KERNEL(two_barriers) {
  if (i < 32) {
    __syncthreads();
  } else {
    __syncthreads();  // found: divergent barrier: waits at another barrier than others
  }
}

KERNEL(uninitialised_shared) {
  __shared__ float s[64];
  if (i) s[i] = 0;
  __syncthreads();
  c[i] = s[i];  // found: uninitialised read: reads s \+ 0 bytes that no thread of this block has written
}

KERNEL(other_values_in_one_word) {
  __shared__ unsigned flag;
  if (i % 32 == 0) flag = i + 1;  // found: race: writes flag \+ 0 bytes, which thread .* wrote, with no barrier between
  __syncthreads();
  c[i] = flag;
}

KERNEL(other_values_in_two_words) {
  __shared__ uint2 flags;
  if (i % 32 == 0) flags = make_uint2(1, i);  // found: race: writes flags \+ 4 bytes, which thread .* wrote, .*
  __syncthreads();
  c[i] = flags.y;
}

KERNEL(equal_values_of_which_one_is_read) {
  __shared__ unsigned flag;
  if (i == 0) flag = 0;
  __syncthreads();
  if (i % 32 == 0) flag = 1;
  c[i] = flag;  // found: race: reads flag \+ 0 bytes, which thread .* wrote, with no barrier between
}

KERNEL(an_element_of_C_by_two_threads) {
  if (i % 32 == 0) c[0] = 1;  // found: race: writes C\[0\]\[0\], which thread .* of the same block wrote, .*
}

KERNEL(race) {
  __shared__ float s[64];
  s[i] = 0;
  __syncthreads();
  s[i] = b[i];
  c[i] = s[i ^ 33];  // found: race: (reads|writes) s \+ .* with no barrier between
}

KERNEL(race_of_warps_that_synchronise_apart) {
  __shared__ float s[64];
  s[i] = b[i];
  __syncthreads();
  s[i] = 2;
  __syncwarp();
  c[i] = s[i ^ 32];  // found: race: (reads|writes) s \+ .* with no barrier between
}

KERNEL(race_with_an_atomic_of_the_block) {
  i == 32 ? c[0] = 0 : atomicAdd_block(c, 1.0f);  // found: race: writes C.* thread .* of the same block wrote.*
}

KERNEL(race_in_global_memory) { c[i / 2] = b[i]; }  // found: race: writes C.* thread .* of the same block wrote.*

KERNEL(vote_of_half_the_lanes) {
  if (i % 32 < 16)
    c[i] = __any_sync(~0u, i == 1);  // found: warp: waits for its warp, thread .* waits elsewhere
  else {
    __syncthreads();
  }
}

KERNEL(vote_outside_the_mask) { c[i] = __ballot_sync(0xFFFF, 1); }  // found: warp: lane .* not in its own mask 0000ffff

KERNEL(shuffle_from_a_lane_outside_the_mask) {
  if (i % 32 < 16)
    c[i] = __shfl_sync(0xFFFF, b[i], 20);  // found: warp: lane [0-9]+ takes a value from lane 20, which takes no part
}

KERNEL(copy_not_waited_for) {
  __shared__ float s[64];
  __pipeline_memcpy_async(s + i, b + i, 4);
  __pipeline_commit();
  c[i] = s[i];  // found: asynchronous copy: reads s \+ .* in flight
}

KERNEL(copy_of_another_thread) {
  __shared__ float s[64];
  __pipeline_memcpy_async(s + i, b + i, 4);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  c[i] = s[i ^ 1];  // found: (uninitialised read|race): (reads s|copies to s) .*
}

KERNEL(memcpy_past_the_end) {
  __shared__ float s[65];
  if (i == 5) memcpy(s, b, 4 * (60 + i));  // found: out of bounds: reads 260 bytes outside B .*
  c[i] = 0;
}

KERNEL(memcpy_race) {
  __shared__ float s[64];
  if (i == 40) memcpy(s, b, i);
  c[i] = s[9];  // found: (uninitialised read|race): reads s \+ 36 bytes.*
}

KERNEL(race_in_a_byte) {
  __shared__ unsigned char s[128];
  s[i / 2 * 4] = static_cast<unsigned char>(i);  // found: race: writes s \+ .* with no barrier between
  __syncthreads();
  c[i] = s[0];
}

KERNEL(half_read_too_early) {
  __shared__ unsigned short s[64];
  s[i] = 1;
  c[i] = s[i ^ 33];  // found: (uninitialised read|race): reads s \+ .*
}

KERNEL(read_by_ldg_what_the_launch_wrote) {
  c[i] = 1;
  __syncthreads();
  float other = __ldg(c + (i ^ 1));  // found: race: reads C.* the cache that is not coherent .* same launch wrote it
  __syncthreads();
  c[i] = other;
}

KERNEL(launch_not_waited_for) {
  if (i == 3) c[0] = 1;  // found: race: writes C\[0\]\[0\], which the kernel launched before .* griddepcontrol.wait.*
}

KERNEL(call_before_not_waited_for) {
  float one = b[i];  // found: race: reads B\[0\]\[\d+\], which what was queued before .* griddepcontrol.wait before
  wait_for_first_kernel();
  c[i] = one + b[0];
}

KERNEL(shuffle_by_active_lanes) {
  if (i < 20) {
    c[i] = __shfl_sync(__activemask(), b[i], 30);  // found: warp: lane [0-9]+ takes a value from lane 30, which .*
  }
}

using Kernel = void (*)(Gemm);
const Kernel kernels[] = {shift_too_far_kernel,
                          negative_shift_kernel,
                          overflowing_sum_kernel,
                          overflowing_difference_kernel,
                          overflowing_product_kernel,
                          division_by_zero_kernel,
                          index_outside_registers_kernel,
                          index_outside_static_shared_kernel,
                          outside_dynamic_shared_kernel,
                          read_past_the_end_kernel,
                          read_before_the_start_kernel,
                          write_past_the_end_kernel,
                          null_pointer_kernel,
                          input_written_kernel,
                          misaligned_float2_kernel,
                          misaligned_float4_kernel,
                          misaligned_copy_kernel,
                          two_barriers_kernel,
                          uninitialised_shared_kernel,
                          other_values_in_one_word_kernel,
                          other_values_in_two_words_kernel,
                          equal_values_of_which_one_is_read_kernel,
                          an_element_of_C_by_two_threads_kernel,
                          race_kernel,
                          race_of_warps_that_synchronise_apart_kernel,
                          race_with_an_atomic_of_the_block_kernel,
                          race_in_global_memory_kernel,
                          vote_of_half_the_lanes_kernel,
                          vote_outside_the_mask_kernel,
                          shuffle_from_a_lane_outside_the_mask_kernel,
                          copy_not_waited_for_kernel,
                          copy_of_another_thread_kernel,
                          memcpy_past_the_end_kernel,
                          memcpy_race_kernel,
                          race_in_a_byte_kernel,
                          half_read_too_early_kernel,
                          read_by_ldg_what_the_launch_wrote_kernel,
                          launch_not_waited_for_kernel,
                          call_before_not_waited_for_kernel,
                          shuffle_by_active_lanes_kernel};

__global__ void first(Gemm g) { g.C[threadIdx.x] = 1; }

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  Kernel kernel = kernels[g.k - 1];
  if (kernel != launch_not_waited_for_kernel && kernel != call_before_not_waited_for_kernel) {
    return launch(kernel, dim3(1), dim3(64), 256, stream, g);
  }
  bool alone = kernel == call_before_not_waited_for_kernel;
  cudaError_t error = alone ? cudaSuccess : launch(first, dim3(1), dim3(1), 0, stream, g);
  return error != cudaSuccess ? error : launch_second(kernel, dim3(1), dim3(64), stream, g);
}

EXPORT_SGEMM(run)
