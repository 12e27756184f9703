// Blocks that wait for each other: a way in each kernel. What follows "found" is what the emulator says of a fault.
//
// i is the thread, b the block; c is the row of C, zero at first, data and flags the workspace, of which flags are zero.
// `run` starts the kernel that k counts with BLOCKS blocks of 64 threads, which 8 SMs hold at a time.
#include <cooperative_groups.h>

#include "gemm.cuh"

constexpr unsigned BLOCKS = 16, THREADS = 64;

#define KERNEL(name)                                                                                        \
  __device__ void name(unsigned i, unsigned b, float* c, unsigned* flags, float* data);                     \
  __global__ void __launch_bounds__(THREADS) name##_kernel(Gemm g, unsigned* flags, float* data) {          \
    name(threadIdx.x, blockIdx.x, g.C, flags, data);                                                        \
  }                                                                                                         \
  __device__ void name([[maybe_unused]] unsigned i, [[maybe_unused]] unsigned b, [[maybe_unused]] float* c, \
                       [[maybe_unused]] unsigned* flags, [[maybe_unused]] float* data)

#define ACCESSES_OF(scope)                                                                           \
  __device__ void release_##scope(unsigned* to, unsigned value) {                                    \
    asm volatile("st.release." #scope ".global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");     \
  }                                                                                                  \
  __device__ unsigned acquire_##scope(const unsigned* from) {                                        \
    unsigned value;                                                                                  \
    asm volatile("ld.acquire." #scope ".global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory"); \
    return value;                                                                                    \
  }
ACCESSES_OF(cta)
ACCESSES_OF(gpu)

// Sound ones leave 0, 1, 2 .. in C.

KERNEL(barrier_by_counter) {
  data[b * THREADS + i] = i;
  __syncthreads();
  if (i == 0) {
    __threadfence();
    atomicAdd(flags, 1u);
    while (*static_cast<volatile unsigned*>(flags) < gridDim.x) {
    }
    __threadfence();
  }
  __syncthreads();
  if (b == 0) c[i] = data[(i % BLOCKS) * THREADS + i];
}

KERNEL(barrier_of_cooperative_groups) {
  data[b * THREADS + i] = i;
  cooperative_groups::this_grid().sync();
  data[(b + 1) % BLOCKS * THREADS + i] += 1;
  cooperative_groups::this_grid().sync();
  if (b == 0) c[i] = data[(i % BLOCKS) * THREADS + i] - 1;
}

KERNEL(each_waits_for_the_one_before) {
  if (b > 0) {
    if (i == 0) {
      while (atomicAdd(&flags[b - 1], 0u) == 0) {
      }
      __threadfence();
    }
    __syncthreads();
    data[b * THREADS + i] = data[(b - 1) * THREADS + i] + 1;
  } else {
    data[i] = 0;
  }
  __threadfence();
  __syncthreads();
  if (i == 0) atomicExch(&flags[b], 1u);
  if (b == BLOCKS - 1) c[i] = data[b * THREADS + i] - (BLOCKS - 1) + i;
}

KERNEL(lock) {
  __shared__ bool first;
  if (i == 0) {
    while (atomicCAS(&flags[0], 0u, 1u) != 0) {
    }
    __threadfence();
    first = flags[1] == 0;
  }
  __syncthreads();
  data[i] = first ? float(i) : data[i] + i;
  __syncthreads();
  if (i == 0) {
    ++flags[1];
    __threadfence();
    atomicExch(&flags[0], 0u);
  }
  __syncthreads();
  if (i == 0 && b == 0) {
    while (true) {
      while (atomicCAS(&flags[0], 0u, 1u) != 0) {
      }
      __threadfence();
      bool all = flags[1] == BLOCKS;
      if (all) {
        for (unsigned j = 0; j < THREADS; ++j) c[j] = data[j] / BLOCKS;
      }
      __threadfence();
      atomicExch(&flags[0], 0u);
      if (all) break;
    }
  }
}

KERNEL(last_block_adds) {
  __shared__ bool last;
  data[b * THREADS + i] = i;
  __threadfence();
  __syncthreads();
  if (i == 0) last = atomicAdd(flags, 1u) == gridDim.x - 1;
  __syncthreads();
  if (last) {
    __threadfence();
    float sum = 0;
    for (unsigned j = 0; j < BLOCKS; ++j) sum += data[j * THREADS + i];
    c[i] = sum / BLOCKS;
  }
}

// As the CUDA programming guide's sum of an array: no fence behind the ticket, whose thread fenced before it.
KERNEL(last_block_adds_as_in_the_guide) {
  __shared__ bool last;
  data[b * THREADS + i] = i;
  __threadfence();
  __syncthreads();
  if (i == 0) last = atomicInc(flags, BLOCKS) == BLOCKS - 1;
  __syncthreads();
  if (last) {
    float sum = 0;
    for (unsigned j = 0; j < BLOCKS; ++j) sum += data[j * THREADS + i];
    c[i] = sum / BLOCKS;
  }
}

KERNEL(tiles_by_a_counter) {
  __shared__ unsigned tile;
  for (;;) {
    __syncthreads();
    if (i == 0) tile = atomicAdd(flags, 1u);
    __syncthreads();
    if (tile >= THREADS) break;
    if (i == tile) c[i] = i;
  }
}

KERNEL(a_warp_looks_at_all_flags) {
  data[b * THREADS + i] = i;
  __threadfence();
  __syncthreads();
  if (i == 0) *static_cast<volatile unsigned*>(flags + b) = 1;
  if (b != 0) return;
  if (i < 32) {
    while (!__all_sync(~0u, i >= BLOCKS || *static_cast<volatile unsigned*>(flags + i) != 0)) {
    }
    __threadfence();
  }
  __syncthreads();
  c[i] = data[(i % BLOCKS) * THREADS + i];
}

KERNEL(a_block_looks_at_all_flags) {
  data[b * THREADS + i] = i;
  __threadfence();
  __syncthreads();
  if (i == 0) atomicExch(flags + b, 1u);
  if (b != 0) return;
  while (__syncthreads_or(i < BLOCKS && *static_cast<volatile unsigned*>(flags + i) == 0)) {
  }
  __threadfence();
  c[i] = data[(i % BLOCKS) * THREADS + i];
}

KERNEL(inclusive_sums_look_back) {
  // Of each block its own sum (flag 1) and that of all before it (flag 2), of 64 columns at once by one thread each.
  volatile float* values = data;
  volatile unsigned* states = flags;
  if (i == 0) {
    for (unsigned j = 0; j < THREADS; ++j) data[b * THREADS + j] = j;
    __threadfence();
    states[b] = 1;
    float before = 0;
    for (int from = int(b) - 1; from >= 0; --from) {
      unsigned state;
      while ((state = states[from]) == 0) {
      }
      __threadfence();
      before += state == 2 ? values[(BLOCKS + from) * THREADS + 1] : values[from * THREADS + 1];
      if (state == 2) break;
    }
    values[(BLOCKS + b) * THREADS + 1] = before + 1;
    __threadfence();
    states[b] = 2;
    if (b == BLOCKS - 1) {
      for (unsigned j = 0; j < THREADS; ++j) c[j] = j * (before + 1) / BLOCKS;
    }
  }
}

KERNEL(two_float_sums_on_zero) {
  float* sums = reinterpret_cast<float*>(flags + 64);
  if (b < 2) atomicAdd(sums + i, float(i) / 2);
  __threadfence();
  __syncthreads();
  if (i == 0) atomicAdd(flags, 1u);
  if (b == 0) {
    while (atomicAdd(flags, 0u) < gridDim.x) {
    }
    __threadfence();
    c[i] = sums[i];
  }
}

KERNEL(float_sums_in_turn) {
  if (i == 0) {
    while (*static_cast<volatile unsigned*>(flags) != b) {
    }
    __threadfence();
  }
  __syncthreads();
  atomicAdd(c + i, float(i) / BLOCKS);
  __syncthreads();
  if (i == 0) {
    __threadfence();
    *static_cast<volatile unsigned*>(flags) = b + 1;
  }
}

KERNEL(a_slot_is_written_again_after_it_was_read) {
  if (b > 1) return;
  for (unsigned round = 0; round < 4; ++round) {
    if (i == 0) {
      while (*static_cast<volatile unsigned*>(flags) != 2 * round + b) {
      }
      __threadfence();
    }
    __syncthreads();
    if (b == 0) {
      data[i] = i + round;
    } else {
      c[i] = data[i] - round;
    }
    __syncthreads();
    if (i == 0) {
      __threadfence();
      atomicAdd(flags, 1u);
    }
  }
}

KERNEL(two_flags_behind_one_fence) {
  volatile unsigned* states = flags;
  data[b * THREADS + i] = i;
  __syncthreads();
  if (i == 0) {
    __threadfence();
    states[b] = 1;
    states[BLOCKS + b] = 1;
    unsigned other = (b + 1) % BLOCKS;
    while (states[BLOCKS + other] == 0) {
    }
    while (states[other] == 0) {
    }
    __threadfence();
  }
  __syncthreads();
  if (b == 0) c[i] = data[(b + 1) % BLOCKS * THREADS + i];
}

KERNEL(flags_of_the_scope_that_they_need) {
  if (i == 0) {
    data[b] = 10 * b;
    release_cta(&flags[b], 1);
  } else if (i == 32) {
    while (acquire_cta(&flags[b]) == 0) {
    }
    data[BLOCKS + b] = data[b] + 1;
    release_gpu(&flags[BLOCKS + b], 1);
  }
  if (b == 0 && i < BLOCKS) {
    while (acquire_gpu(&flags[BLOCKS + i]) == 0) {
    }
    c[i] = data[BLOCKS + i] - 1 - 9 * i;
  } else if (b == 1 && i >= BLOCKS) {
    c[i] = i;
  }
}

// Faults.

KERNEL(flag_of_the_block_alone) {
  data[b * THREADS + i] = i;
  __syncthreads();
  unsigned other = (b + 1) % BLOCKS, is_set = 0;
  if (i == 0) release_cta(&flags[b], 1);
  while (i == 0 && is_set == 0) {
    asm volatile("ld.acquire.cta.global.u32 %0, [%1];" : "=r"(is_set) : "l"(&flags[other]));  // found: race: .*
  }
  __syncthreads();
  if (b == 0) c[i] = data[other * THREADS + i];
}

KERNEL(count_of_the_block_alone) {
  unsigned before = 0;
  if (i == 0) {
    asm volatile("atom.relaxed.cta.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(flags));  // found: race: .*
  }
  data[b * THREADS + i] = before;
}

KERNEL(no_fence_before_the_count) {
  __shared__ bool last;
  data[b * THREADS + i] = i;
  __syncthreads();
  if (i == 0) last = atomicAdd(flags, 1u) == gridDim.x - 1;
  __syncthreads();
  if (last) {
    __threadfence();
    for (unsigned j = 0; j < BLOCKS; ++j) {
      c[i] += data[j * THREADS + i];  // found: race: .*that block has no fence between this and its flag.*
    }
  }
}

KERNEL(no_barrier_before_the_count) {
  __shared__ bool last;
  data[b * THREADS + i] = i;
  __threadfence();
  if (i == 0) last = atomicAdd(flags, 1u) == gridDim.x - 1;
  __syncthreads();
  if (last) {
    __threadfence();
    for (unsigned j = 0; j < BLOCKS; ++j) {
      c[i] += data[j * THREADS + i];  // found: race: .*that block has no barrier between this and its flag.*
    }
  }
}

KERNEL(fence_before_the_write) {
  __shared__ bool last;
  __threadfence();
  data[b * THREADS + i] = i;
  __syncthreads();
  if (i == 0) last = atomicAdd(flags, 1u) == gridDim.x - 1;
  __syncthreads();
  if (last) {
    __threadfence();
    for (unsigned j = 0; j < BLOCKS; ++j) {
      c[i] += data[j * THREADS + i];  // found: race: .*that block has no fence between this and its flag.*
    }
  }
}

KERNEL(fence_of_the_block_alone) {
  __shared__ bool last;
  data[b * THREADS + i] = i;
  __threadfence_block();
  __syncthreads();
  if (i == 0) last = atomicAdd(flags, 1u) == gridDim.x - 1;
  __syncthreads();
  if (last) {
    __threadfence();
    for (unsigned j = 0; j < BLOCKS; ++j) {
      c[i] += data[j * THREADS + i];  // found: race: .*that block has no fence between this and its flag.*
    }
  }
}

KERNEL(no_fence_behind_the_flag) {
  data[b * THREADS + i] = i;
  __threadfence();
  __syncthreads();
  if (i == 0) {
    atomicAdd(flags, 1u);
    while (*static_cast<volatile unsigned*>(flags) < gridDim.x) {
    }
  }
  __syncthreads();
  float* to = data + (BLOCKS + b) * THREADS + i;
  *to = data[(b + 1) % BLOCKS * THREADS + i];  // found: race: .*this block has no fence behind the flag.*
}

KERNEL(no_barrier_behind_the_flag) {
  data[b * THREADS + i] = i;
  __threadfence();
  __syncthreads();
  if (i == 0) {
    atomicAdd(flags, 1u);
    while (*static_cast<volatile unsigned*>(flags) < gridDim.x) {
    }
    __threadfence();
  }
  float other = data[(b + 1) % BLOCKS * THREADS + i];  // found: race: .*this block has (no barrier|seen no flag).*
  if (other < 0) c[i] = other;
}

KERNEL(flag_before_the_data) {
  if (b == 0) {
    if (i == 0) {
      __threadfence();
      *static_cast<volatile unsigned*>(flags) = 1;
    }
    data[i] = i;
  } else if (b == 1) {
    while (*static_cast<volatile unsigned*>(flags) == 0) {
    }
    __threadfence();
    c[i] = data[i];  // found: (race|uninitialised read): .*
  }
}

KERNEL(an_atomic_and_a_fence_for_something_else) {
  data[b * THREADS + i] = i;
  __threadfence();
  __syncthreads();
  if (i == 0) atomicAdd(flags + b, 1u);
  __threadfence();
  if (b > 0) c[i] = data[i];  // found: (race|uninitialised read): .*
}

KERNEL(the_flag_of_another_block) {
  data[b * THREADS + i] = i;
  __threadfence();
  __syncthreads();
  if (i == 0) atomicExch(flags + b, 1u);
  if (b == BLOCKS - 1) {
    while (atomicAdd(flags, 0u) == 0) {
    }
    __threadfence();
    c[i] = data[3 * THREADS + i];  // found: (race|uninitialised read): .*
  }
}

KERNEL(look_back_without_a_fence) {
  volatile unsigned* states = flags;
  if (i == 0) {
    data[b * THREADS] = b;
    states[b] = 1;
    if (b > 0) {
      while (states[b - 1] == 0) {
      }
      __threadfence();
      c[b] = data[(b - 1) * THREADS];  // found: race: .*that block has no fence between this and its flag.*
    }
  }
}

KERNEL(volatile_data_between_two_flags) {
  volatile unsigned* states = flags;
  volatile float* values = data;
  if (i == 0) {
    __threadfence();
    states[b] = 1;
    values[b * THREADS] = b;
    states[BLOCKS + b] = 1;
    unsigned other = (b + 1) % BLOCKS;
    while (states[BLOCKS + other] == 0) {
    }
    __threadfence();
    c[b] = values[other * THREADS];  // found: race: .*that block has no fence between this and its flag.*
  }
}

KERNEL(a_slot_is_written_while_it_is_read) {
  if (b > 1) return;
  for (unsigned round = 0; round < 4; ++round) {
    if (b == 0) {
      data[i] = i + round;  // found: race: .*block \(1,0,0\) (read|wrote), .*
      __threadfence();
      __syncthreads();
      if (i == 0) atomicAdd(flags, 1u);
    } else {
      if (i == 0) {
        while (*static_cast<volatile unsigned*>(flags) <= round) {
        }
        __threadfence();
      }
      __syncthreads();
      c[i] = data[i];
      data[i] = 0;
      __syncthreads();
    }
  }
}

KERNEL(float_sums_in_whatever_order) {
  atomicAdd(c + i, float(i) / 3);  // found: nondeterminism: .*
}

KERNEL(float_sums_on_what_is_there) {
  if (b == 0) c[i] = i;
  __threadfence();
  __syncthreads();
  if (i == 0) {
    atomicAdd(flags, 1u);
    while (*static_cast<volatile unsigned*>(flags) < gridDim.x) {
    }
    __threadfence();
  }
  __syncthreads();
  if (b < 2) atomicAdd(c + i, 0.1f * (i + 1));  // found: nondeterminism: .*
}

KERNEL(flag_that_nobody_sets) {
  if (i == 0 && b == 3) {
    while (atomicAdd(&flags[5], 0u) == 0) {  // found: deadlock: .* 1 block waits.*
    }
  }
}

KERNEL(two_blocks_wait_for_each_other) {
  if (i == 0 && b < 2) {
    while (*static_cast<volatile unsigned*>(flags + 1 - b) == 0) {  // found: deadlock: .*: 2 blocks wait.*
    }
    *static_cast<volatile unsigned*>(flags + b) = 1;
  }
}

KERNEL(barrier_of_more_blocks_than_there_are) {
  __syncthreads();
  if (i == 0) {
    atomicAdd(flags, 1u);
    while (*static_cast<volatile unsigned*>(flags) < gridDim.x + 1) {  // found: deadlock: .*: 16 blocks wait.*
    }
  }
  __syncthreads();
}

KERNEL(grid_barrier_in_a_plain_launch) {
  cooperative_groups::this_grid().sync();  // found: launch: .*not launched by cudaLaunchCooperativeKernel.*
}

using Kernel = void (*)(Gemm, unsigned*, float*);
const Kernel kernels[] = {barrier_by_counter_kernel,
                          barrier_of_cooperative_groups_kernel,
                          each_waits_for_the_one_before_kernel,
                          lock_kernel,
                          last_block_adds_kernel,
                          last_block_adds_as_in_the_guide_kernel,
                          tiles_by_a_counter_kernel,
                          a_warp_looks_at_all_flags_kernel,
                          a_block_looks_at_all_flags_kernel,
                          inclusive_sums_look_back_kernel,
                          two_float_sums_on_zero_kernel,
                          float_sums_in_turn_kernel,
                          a_slot_is_written_again_after_it_was_read_kernel,
                          two_flags_behind_one_fence_kernel,
                          flags_of_the_scope_that_they_need_kernel,
                          flag_of_the_block_alone_kernel,
                          count_of_the_block_alone_kernel,
                          no_fence_before_the_count_kernel,
                          no_barrier_before_the_count_kernel,
                          fence_before_the_write_kernel,
                          fence_of_the_block_alone_kernel,
                          no_fence_behind_the_flag_kernel,
                          no_barrier_behind_the_flag_kernel,
                          flag_before_the_data_kernel,
                          an_atomic_and_a_fence_for_something_else_kernel,
                          the_flag_of_another_block_kernel,
                          look_back_without_a_fence_kernel,
                          volatile_data_between_two_flags_kernel,
                          a_slot_is_written_while_it_is_read_kernel,
                          float_sums_in_whatever_order_kernel,
                          float_sums_on_what_is_there_kernel,
                          flag_that_nobody_sets_kernel,
                          two_blocks_wait_for_each_other_kernel,
                          barrier_of_more_blocks_than_there_are_kernel,
                          grid_barrier_in_a_plain_launch_kernel};

size_t needed(const Gemm&) { return 4 * (1024 + 2 * BLOCKS * THREADS); }

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  unsigned* flags = static_cast<unsigned*>(workspace);
  float* data = static_cast<float*>(workspace) + 1024;
  Kernel kernel = kernels[g.k - 1];
  cudaMemsetAsync(flags, 0, 4096, stream);
  if (kernel == barrier_of_cooperative_groups_kernel) {
    Gemm copy = g;
    void* arguments[] = {&copy, &flags, &data};
    return cudaLaunchCooperativeKernel(kernel, dim3(BLOCKS), dim3(THREADS), arguments, 0, stream);
  }
  return launch(kernel, dim3(BLOCKS), dim3(THREADS), 0, stream, g, flags, data);
}

EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
