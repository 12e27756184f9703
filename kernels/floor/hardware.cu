// hardware: what this GPU does at most, part by part: latencies, bandwidths and rates, alone and beside each other.
//
// The library has a list of probes. Each starts one kernel that does a known number of accesses, bytes or FLOP and
// nothing else, and every block of it notes its SM's clock, and the clock that all SMs share, before and after. What a
// probe shows is that number over this time: nothing in a probe computes a product, so no rung can do better.
//
// A latency is that of one thread (or one warp, where lanes share banks) that needs each result for its next access.
// A bandwidth or a rate is that of as many threads as it takes, on all SMs at once. Loops have fixed trip counts, and
// who waits for another block or for the copy engine traps instead of waiting for ever.
#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "instructions.cuh"

// What a probe says of itself: the part of the GPU, what is measured of it (latency, bandwidth or rate), and how; the
// accesses, bytes or FLOP of one block; the blocks; and how many samples tell enough.
struct Probe {
  const char* of;
  const char* kind;
  const char* how;
  double count;
  int blocks;
  int samples;
};

// When a block began and ended: by its SM's clock in cycles, by the GPU's in nanoseconds.
struct Stamp {
  long long begin, end;
  unsigned long long begin_ns, end_ns;
};

template <typename Work>
__device__ __forceinline__ void timed(Stamp* stamps, Work work) {
  __syncthreads();
  unsigned long long begin_ns = global_ns();
  long long begin = clock64();
  work();
  __syncthreads();
  long long end = clock64();
  if (threadIdx.x == 0) {
    stamps[blockIdx.x] = {begin, end, begin_ns, global_ns()};
  }
}

// Never true, as all callers know and the compiler does not: their results have to be computed.
__device__ __forceinline__ void keep(bool never, Stamp* stamps) {
  if (never) {
    stamps[0].begin = 0;
  }
}

constexpr int WARP = 32;
constexpr int FULL = 1024;  // threads, with which an SM of any architecture is full or half full
constexpr int UNROLL = 8;   // accesses of a thread in one turn of a loop

// ---------------------------------------------------------------------------------------------------- shared memory

constexpr int SHARED_BYTES = 4096;  // a warp's widest stride

// Every lane follows a pointer to itself. Neighbouring lanes are WAYS accesses apart, so that as many share a bank.
template <int WORDS>
__global__ void shared_latency(Stamp* stamps, int ways, int turns) {
  __shared__ __align__(16) uint32_t words[SHARED_BYTES / 4];
  uint32_t at[WORDS] = {shared_address(words) + threadIdx.x * ways * 4 * WORDS};
  words[threadIdx.x * ways * WORDS] = at[0];
  timed(stamps, [&] {
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        load_shared<WORDS>(at, at[0]);
      }
    }
  });
  keep(at[0] == 1, stamps);
}

template <int WORDS>
__global__ void __launch_bounds__(FULL) shared_loads(Stamp* stamps, int ways, int turns) {
  __shared__ __align__(16) uint32_t words[SHARED_BYTES / 4];
  words[threadIdx.x] = threadIdx.x;
  uint32_t from = shared_address(words) + threadIdx.x % WARP * ways * 4 * WORDS;
  uint32_t sum = 0;
  timed(stamps, [&] {
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
      uint32_t found[UNROLL][WORDS];
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        load_shared<WORDS>(found[u], from);
      }
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
        for (int word = 0; word < WORDS; ++word) {
          sum ^= found[u][word];
        }
      }
    }
  });
  keep(sum == 0xFFFFFFFF, stamps);  // of numbers below 1024
}

template <int WORDS>
__global__ void __launch_bounds__(FULL) shared_stores(Stamp* stamps, int ways, int turns) {
  __shared__ __align__(16) uint32_t words[SHARED_BYTES / 4];
  uint32_t to = shared_address(words) + threadIdx.x % WARP * ways * 4 * WORDS;
  timed(stamps, [&] {
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        store_shared<WORDS>(to, threadIdx.x);
      }
    }
  });
  __syncthreads();
  keep(words[threadIdx.x % WARP * ways * WORDS] == 0xFFFFFFFF, stamps);
}

// ------------------------------------------------------------------------------------------------------ global memory

// Place number i, `apart` bytes from the next, holds the address of place i + hop, around `places`.
__global__ void make_chain(char* memory, int places, size_t apart, int hop) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < places; i += gridDim.x * blockDim.x) {
    *reinterpret_cast<char**>(memory + i * apart) = memory + (i + hop) % places * apart;
  }
}

template <Cache CACHE>
__global__ void chase(Stamp* stamps, const char* first, int warm, int turns) {
  auto at = reinterpret_cast<uint64_t>(first);
#pragma unroll 1
  for (int turn = 0; turn < warm; ++turn) {
    at = follow<CACHE>(at);
  }
  keep(at == 1, stamps);
  timed(stamps, [&] {
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        at = follow<CACHE>(at);
      }
    }
  });
  keep(at == 1, stamps);
}

// The place that a block reads or writes next: all blocks side by side, around `chunks` of `pitch` bytes. `step` is the
// number of blocks, around the chunks.
struct Walk {
  char* memory;
  size_t pitch;
  unsigned chunks, step;

  __device__ __forceinline__ unsigned first() const { return blockIdx.x % chunks; }
  __device__ __forceinline__ unsigned next(unsigned chunk) const {
    chunk += step;
    return chunk >= chunks ? chunk - chunks : chunk;
  }
  __device__ __forceinline__ char* at(unsigned chunk) const { return memory + chunk * pitch; }
};

// A thread's UNROLL loads of a turn are APART bytes apart.
template <Cache CACHE, int WORDS, int APART>
__global__ void __launch_bounds__(FULL) global_loads(Stamp* stamps, Walk walk, int warm, int turns) {
  uint32_t sum = 0;
  unsigned chunk = walk.first();
  auto sweep = [&](int count) {
#pragma unroll 1
    for (int turn = 0; turn < count; ++turn) {
      const char* from = walk.at(chunk) + threadIdx.x * 4 * WORDS;
      uint32_t found[UNROLL][WORDS];
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        load_global<CACHE, WORDS>(found[u], from + u * APART);
      }
      chunk = walk.next(chunk);
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
        for (int word = 0; word < WORDS; ++word) {
          sum ^= found[u][word];
        }
      }
    }
  };
  sweep(warm);
  timed(stamps, [&] { sweep(turns); });
  keep(sum == 0x9E3779B9, stamps);
}

__global__ void __launch_bounds__(FULL) global_stores(Stamp* stamps, Walk walk, int turns) {
  const uint32_t words[4] = {threadIdx.x, blockIdx.x, 1, 2};
  unsigned chunk = walk.first();
  timed(stamps, [&] {
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
      char* to = walk.at(chunk) + threadIdx.x * 16;
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        store_global(to + u * FULL * 16, words);
      }
      chunk = walk.next(chunk);
    }
  });
}

__global__ void __launch_bounds__(FULL) global_copies(Stamp* stamps, Walk from, Walk to, int turns) {
  unsigned chunk = from.first();
  timed(stamps, [&] {
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
      uint32_t found[UNROLL][4];
      const char* source = from.at(chunk) + threadIdx.x * 16;
      char* target = to.at(chunk) + threadIdx.x * 16;
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        load_global<L2, 4>(found[u], source + u * FULL * 16);
      }
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        store_global(target + u * FULL * 16, found[u]);
      }
      chunk = from.next(chunk);
    }
  });
}

// ------------------------------------------------------------------------------------- copies in the background

constexpr int COPYING = 256;     // threads that start cp.async
constexpr int COPIES = 4;        // of each thread in a stage
constexpr int COPY_STAGES = 4;   // under way
constexpr int BULK_STAGES = 32;  // bulk copies under way, at most

template <int BYTES>
__global__ void __launch_bounds__(COPYING) async_copies(Stamp* stamps, Walk walk, int turns) {
  extern __shared__ __align__(128) char stages[];
  constexpr int STAGE = COPYING * COPIES * BYTES;
  uint32_t first = shared_address(stages) + threadIdx.x * BYTES;
  unsigned chunk = walk.first();
  timed(stamps, [&] {
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
      const char* from = walk.at(chunk) + threadIdx.x * BYTES;
      uint32_t to = first + turn % COPY_STAGES * STAGE;
#pragma unroll
      for (int u = 0; u < COPIES; ++u) {
        copy_async<BYTES>(to + u * COPYING * BYTES, from + u * COPYING * BYTES);
      }
      copy_async_commit();
      copy_async_wait<COPY_STAGES - 1>();
      chunk = walk.next(chunk);
    }
    copy_async_wait<0>();
  });
}

// One copy of 16 bytes, waited for, and the next.
__global__ void async_copy_latency(Stamp* stamps, Walk walk, int turns) {
  __shared__ __align__(16) char to[16];
  unsigned chunk = walk.first();
  timed(stamps, [&] {
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
      copy_async<16>(shared_address(to), walk.at(chunk));
      copy_async_commit();
      copy_async_wait<0>();
      chunk = walk.next(chunk);
    }
  });
}

// Started by one thread: `copies` copies of the walk's pitch, as many of them under way as there are stages.
__device__ __forceinline__ void copy_in_bulk(const Walk& walk, uint32_t to, uint32_t barriers, int stages, int copies) {
  auto bytes = static_cast<int>(walk.pitch);
  unsigned chunk = walk.first();
  int slot = 0, parity = 1;  // of the copy before the last round's in this slot
#pragma unroll 1
  for (int copy = 0; copy < copies; ++copy) {
    if (copy >= stages) {
      mbarrier_wait(barriers + 8 * slot, parity);
    }
    bulk_copy(to + slot * bytes, walk.at(chunk), bytes, barriers + 8 * slot);
    chunk = walk.next(chunk);
    if (++slot == stages) {
      slot = 0;
      parity ^= 1;
    }
  }
#pragma unroll 1
  for (int left = 0; left < stages; ++left) {
    mbarrier_wait(barriers + 8 * slot, parity);
    if (++slot == stages) {
      slot = 0;
      parity ^= 1;
    }
  }
}

__global__ void __launch_bounds__(WARP) bulk_copies(Stamp* stamps, Walk walk, int stages, int copies) {
  extern __shared__ __align__(128) char to[];
  __shared__ uint64_t barriers[BULK_STAGES];
  mbarrier_init(shared_address(&barriers[threadIdx.x]));
  timed(stamps, [&] {
    if (threadIdx.x == 0) {
      copy_in_bulk(walk, shared_address(to), shared_address(barriers), stages, copies);
    }
  });
}

// ------------------------------------------------------------------------------------------------------- arithmetic

constexpr int FFMA_CHAINS = 32;  // sums of a thread that do not need each other
constexpr int FFMA_THREADS = 512;
constexpr int MMA_CHAINS = 8;
constexpr int MMA_THREADS = 512;

__global__ void ffma_latency(Stamp* stamps, int turns, float factor, float addend) {
  float sum = factor;
  timed(stamps, [&] {
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
      for (int u = 0; u < 8 * UNROLL; ++u) {  // so that the branch, of some 7 cycles, hardly counts
        sum = multiply_add(sum, factor, addend);
      }
    }
  });
  keep(sum == -1.0f, stamps);
}

// One 16-byte load from shared memory for every PER_LOAD FFMAs of a thread, which multiply by what it brings; none
// where PER_LOAD is 0.
template <int PER_LOAD>
__global__ void __launch_bounds__(FFMA_THREADS, 1) ffmas(Stamp* stamps, int turns, float factor, float addend) {
  __shared__ __align__(16) float words[SHARED_BYTES / 4];
  for (int i = threadIdx.x; i < SHARED_BYTES / 4; i += blockDim.x) {
    words[i] = factor;
  }
  uint32_t from = shared_address(words) + threadIdx.x % WARP * 16;
  float sum[FFMA_CHAINS];
#pragma unroll
  for (int i = 0; i < FFMA_CHAINS; ++i) {
    sum[i] = static_cast<float>(threadIdx.x + i);
  }
  timed(stamps, [&] {
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
      float factors[4] = {factor, factor, factor, factor};
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
        for (int i = 0; i < FFMA_CHAINS; ++i) {
          if (PER_LOAD != 0 && (u * FFMA_CHAINS + i) % (PER_LOAD != 0 ? PER_LOAD : 1) == 0) {
            uint32_t found[4];
            load_shared<4>(found, from);
#pragma unroll
            for (int word = 0; word < 4; ++word) {
              factors[word] = __uint_as_float(found[word]);
            }
          }
          sum[i] = multiply_add(sum[i], factors[i % 4], addend);
        }
      }
    }
  });
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < FFMA_CHAINS; ++i) {
    total += sum[i];
  }
  keep(total == -1.0f, stamps);  // of positive numbers
}

// A word of operands between 0.5 and 1 with random signs: one TF32, two FP16 or two BF16. Zeros would take less power.
template <Type TYPE>
__device__ __forceinline__ uint32_t operands(uint32_t number) {
  uint32_t random = (number + 1) * 2654435761u;
  random = (random ^ random >> 15) * 2246822519u;
  random ^= random >> 13;
  if constexpr (TYPE == TF32) {
    return (random & 0x807FE000) | 0x3F000000;
  } else if constexpr (TYPE == FP16) {
    return (random & 0x83FF83FF) | 0x38003800;
  } else {
    return (random & 0x807F807F) | 0x3F003F00;
  }
}

// One 16-byte load from shared memory for every PER_LOAD products of a warp, which multiply by it; none where it is 0.
template <Type TYPE, int CHAINS, int PER_LOAD>
__global__ void __launch_bounds__(MMA_THREADS, 1) mmas(Stamp* stamps, int turns) {
  __shared__ __align__(16) uint32_t words[SHARED_BYTES / 4];
  for (int i = threadIdx.x; i < SHARED_BYTES / 4; i += blockDim.x) {
    words[i] = operands<TYPE>(i);
  }
  uint32_t from = shared_address(words) + threadIdx.x % WARP * 16;
  float sums[CHAINS][4] = {};
  uint32_t A[4], B[2];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    A[i] = operands<TYPE>(8 * threadIdx.x + i);
    B[i % 2] = operands<TYPE>(8 * threadIdx.x + 4 + i);
  }
  timed(stamps, [&] {
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
        for (int i = 0; i < CHAINS; ++i) {
          if (PER_LOAD != 0 && (u * CHAINS + i) % (PER_LOAD != 0 ? PER_LOAD : 1) == 0) {
            load_shared<4>(A, from);
          }
          mma<TYPE>(sums[i], A, B);
        }
      }
    }
  });
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < CHAINS; ++i) {
    total += sums[i][0] + sums[i][1] + sums[i][2] + sums[i][3];
  }
  keep(total == 0.1f, stamps);
}

constexpr int GROUP = 128;                              // threads of a warp group
constexpr int GROUPS = 2;                               // that share the tensor cores of an SM
constexpr int WGMMA_THREADS = GROUPS * GROUP + WARP;    // and a warp that copies
constexpr int A_BYTES = 64 * 128, B_BYTES = 256 * 128;  // of a tile whose rows have 128 bytes
constexpr int STEPS = 128 / 32;                         // wgmma along such a row
constexpr int TILES = GROUPS * A_BYTES + B_BYTES;       // bytes
constexpr int BESIDE_BYTES = 16384, BESIDE_STAGES = 4;  // copies beside the products
[[maybe_unused]] constexpr int BESIDE =
    TILES / BESIDE_BYTES;  // of them for every step of k, as many bytes as it multiplies
constexpr int WGMMA_SHARED = 1024 + TILES + BESIDE_STAGES * BESIDE_BYTES;
static_assert(TILES % BESIDE_BYTES == 0, "the copies of a step are whole");

// Both groups multiply their 64 rows by the same 256 columns, STEPS instructions a turn; `latency`: one group, and each
// instruction is waited for. With `copies` the last warp copies as many bytes a turn as the groups multiply.
template <Type TYPE>
__global__ void __launch_bounds__(WGMMA_THREADS)
    wgmmas(Stamp* stamps, Walk walk, int turns, bool latency, bool copies) {
#if defined(HAS_WGMMA)
  extern __shared__ __align__(1024) char shared[];
  __shared__ uint64_t barriers[BESIDE_STAGES];
  uint32_t tiles = (shared_address(shared) + 1023) / 1024 * 1024;
  for (int i = threadIdx.x; i < TILES / 4; i += blockDim.x) {
    store_shared<1>(tiles + 4 * i, operands<TYPE>(i));
  }
  if (threadIdx.x < BESIDE_STAGES) {
    mbarrier_init(shared_address(&barriers[threadIdx.x]));
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  int group = threadIdx.x / GROUP;
  uint64_t A = tile_descriptor(tiles + group % GROUPS * A_BYTES), B = tile_descriptor(tiles + GROUPS * A_BYTES);
  float sums[128] = {};
  timed(stamps, [&] {
    if (group < (latency ? 1 : GROUPS)) {
      wgmma_begin();
      if (latency) {
#pragma unroll 1
        for (int turn = 0; turn < turns; ++turn) {
          wgmma<TYPE>(sums, A, B);
          wgmma_commit();
          wgmma_wait<0>();
        }
      } else {
#pragma unroll 1
        for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
          for (int step = 0; step < STEPS; ++step) {
            wgmma<TYPE>(sums, A + 2 * step, B + 2 * step);
          }
          wgmma_commit();
          wgmma_wait<1>();
        }
        wgmma_wait<0>();
      }
    } else if (threadIdx.x == GROUPS * GROUP && copies) {
      copy_in_bulk(walk, tiles + TILES, shared_address(barriers), BESIDE_STAGES, BESIDE * turns);
    }
  });
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < 128; ++i) {
    total += sums[i];
  }
  keep(total == 0.1f, stamps);
#endif
}

// ---------------------------------------------------------------------------------------------- launches and barriers

__global__ void nothing() {}

__global__ void block_barriers(Stamp* stamps, int turns) {
  timed(stamps, [&] {
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        asm volatile("bar.sync 0;" ::: "memory");
      }
    }
  });
}

template <bool FENCE>
__global__ void cluster_barriers(Stamp* stamps, int turns) {
  timed(stamps, [&] {
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        cluster_barrier<FENCE>();
      }
    }
  });
}

__global__ void grid_barriers(Stamp* stamps, unsigned* count, int turns) {
  timed(stamps, [&] {
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
      grid_barrier(count, (turn + 1) * gridDim.x);
    }
  });
}

// Each block of a pair follows a pointer to itself in the other's shared memory.
__global__ void cluster_latency(Stamp* stamps, int turns) {
  __shared__ uint32_t word;
  int rank = blockIdx.x % 2;
  if (threadIdx.x == 0) {
    word = address_at(shared_address(&word), rank);
  }
  cluster_barrier<true>();
  uint32_t at = address_at(shared_address(&word), 1 - rank);
  timed(stamps, [&] {
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        at = load_cluster(at);
      }
    }
  });
  keep(at == 1, stamps);
  cluster_barrier<true>();
}

// ------------------------------------------------------------------------------------------------------------ the host

namespace {

constexpr int SAMPLES = 16;
constexpr int LINES = 128;             // samples of L2's lines
constexpr int CHASED = 512;            // places of a chain: accesses of a latency
constexpr size_t LINE = 128;           // bytes
constexpr size_t ENOUGH = 1ull << 31;  // bytes of memory, of which half streams from DRAM and half is written
constexpr int LAUNCHES = 256;          // of which one sample is made

// What a launch is asked for beside its grid: blocks of a cluster, or that all blocks run at once.
struct Launch {
  int blocks, threads;
  size_t shared = 0;
  int cluster = 1;
  bool cooperative = false;
};

template <typename... Parameters, typename... Arguments>
cudaError_t start(void (*kernel)(Parameters...), const Launch& asked, Arguments... arguments) {
  if (asked.shared > 48 * 1024) {
    cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(asked.shared));
    if (error != cudaSuccess) {
      return error;
    }
  }
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(asked.blocks);
  config.blockDim = dim3(asked.threads);
  config.dynamicSmemBytes = asked.shared;
  config.attrs = attributes;
  if (asked.cluster > 1) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs].val.clusterDim.x = asked.cluster;
    attributes[config.numAttrs].val.clusterDim.y = attributes[config.numAttrs].val.clusterDim.z = 1;
    ++config.numAttrs;
  }
  if (asked.cooperative) {
    attributes[config.numAttrs].id = cudaLaunchAttributeCooperative;
    attributes[config.numAttrs++].val.cooperative = 1;
  }
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

struct Listed {
  std::string of, kind, how;
  double count;
  int blocks, samples;
  bool by_events;                              // the time is that between two events, for there is no stamp
  std::function<cudaError_t(int sample)> run;  // queues the work of a sample, on the default stream
};

// One GPU, its memory for the probes and their list.
struct Hardware {
  int sms = 0, capability = 0, shared_bytes = 0;
  size_t l2_bytes = 0, bytes = 0;
  char* memory = nullptr;
  Stamp* stamps = nullptr;
  unsigned* arrived = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  cudaGraphExec_t graph = nullptr;
  std::deque<Listed> probes;

  cudaError_t open();
  void list();
  void list_shared();
  void list_global();
  void list_copies();
  void list_arithmetic();
  void list_waiting();

  void add(const char* of, const char* kind, const std::string& how, double count, int blocks,
           std::function<cudaError_t(int)> run, int samples = SAMPLES, bool by_events = false) {
    probes.push_back({of, kind, how, count, blocks, samples, by_events, std::move(run)});
  }
  cudaError_t chain(char* first, int places, size_t apart, int hop) {
    make_chain<<<64, 256>>>(first, places, apart, hop);
    return cudaGetLastError();
  }
  // The chunks of `pitch` bytes in `in` bytes from `from` on, for a block on every SM; for one block where it is one.
  Walk walk(size_t pitch, size_t in, size_t from = 0) const {
    auto chunks = static_cast<unsigned>(in > pitch ? in / pitch : 1);
    return {memory + from, pitch, chunks, sms % chunks};
  }
  // What stays in L2; and what does not.
  Walk in_l2(size_t pitch) const { return walk(pitch, l2_bytes / 3); }
  Walk in_dram(size_t pitch) const { return walk(pitch, bytes / 2); }
  int turns_through(const Walk& walk) const { return static_cast<int>(walk.chunks / sms); }
};

Hardware* hardware = nullptr;

std::string bytes_a_thread(const char* what, int words) {
  return std::string(what) + ", " + std::to_string(4 * words) + " bytes a thread";
}

template <int WORDS>
void list_shared_of(Hardware& h) {
  constexpr int LANES = 32 / WORDS;  // that shared memory serves in one pass
  constexpr int TURNS = 512;
  for (int ways = 1; ways <= LANES; ways *= 2) {
    std::string suffix = ", " + std::to_string(ways) + "-way";
    int turns = TURNS / (ways * WORDS);  // a pass each: all take as long
    double bytes = 4.0 * WORDS * FULL * UNROLL * turns;
    h.add("shared memory", "latency", bytes_a_thread("load", WORDS) + suffix, UNROLL * 64.0, 1,
          [&h, ways](int) { return start(shared_latency<WORDS>, {1, WARP}, h.stamps, ways, 64); });
    h.add("shared memory", "bandwidth", bytes_a_thread("load", WORDS) + suffix, bytes, h.sms,
          [&h, ways, turns](int) { return start(shared_loads<WORDS>, {h.sms, FULL}, h.stamps, ways, turns); });
    h.add("shared memory", "bandwidth", bytes_a_thread("store", WORDS) + suffix, bytes, h.sms,
          [&h, ways, turns](int) { return start(shared_stores<WORDS>, {h.sms, FULL}, h.stamps, ways, turns); });
  }
}

void Hardware::list_shared() {
  list_shared_of<1>(*this);
  list_shared_of<2>(*this);
  list_shared_of<4>(*this);
}

template <int WORDS>
void list_loads_of(Hardware& h) {
  constexpr int OVERLAP = 512;                                   // L1: the loads of a turn begin so far apart
  constexpr size_t OF_L1 = FULL * 4 * WORDS + UNROLL * OVERLAP;  // bytes of a block
  constexpr size_t OF_L2 = size_t{FULL} * 4 * WORDS * UNROLL;    // bytes of a turn
  int l1_turns = 512 / WORDS, l2_turns = 256 / WORDS;
  h.add("L1", "bandwidth", bytes_a_thread("load", WORDS), double(OF_L2) * l1_turns, h.sms, [&h, l1_turns](int) {
    Walk own = h.walk(OF_L1, OF_L1 * h.sms);
    return start(global_loads<L1, WORDS, OVERLAP>, {h.sms, FULL}, h.stamps, own, 1, l1_turns);
  });
  h.add("L2", "bandwidth", bytes_a_thread("load", WORDS), double(OF_L2) * l2_turns, h.sms, [&h, l2_turns](int) {
    Walk shared = h.in_l2(OF_L2);
    return start(global_loads<L2, WORDS, FULL * 4 * WORDS>, {h.sms, FULL}, h.stamps, shared, 4, l2_turns);
  });
  int dram_turns = h.turns_through(h.in_dram(OF_L2));
  h.add("DRAM", "bandwidth", bytes_a_thread("load", WORDS), double(OF_L2) * dram_turns, h.sms, [&h, dram_turns](int) {
    Walk all = h.in_dram(OF_L2);
    return start(global_loads<L2, WORDS, FULL * 4 * WORDS>, {h.sms, FULL}, h.stamps, all, 0, dram_turns);
  });
}

void Hardware::list_global() {
  constexpr int TURNS = CHASED / UNROLL;
  add("L1", "latency", "load, 8 bytes, one thread", CHASED, 1, [this](int) {
    cudaError_t error = chain(memory, 32, LINE, 7);
    return error != cudaSuccess ? error : start(chase<L1>, {1, 1}, stamps, memory, 64, TURNS);
  });
  add("L2", "latency", "load, 8 bytes, one thread", CHASED, 1, [this](int) {
    cudaError_t error = chain(memory, CHASED, 5 * LINE, 77);
    return error != cudaSuccess ? error : start(chase<L2>, {1, 1}, stamps, memory, CHASED, TURNS);
  });
  auto line = [this](int sample) {  // a pointer to itself, in another line for each sample
    char* at = memory + sample % LINES * 37 * LINE;
    cudaError_t error = chain(at, 1, LINE, 0);
    return error != cudaSuccess ? error : start(chase<L2>, {1, 1}, stamps, at, UNROLL, TURNS);
  };
  add("L2", "latency", "one line a sample, one thread", CHASED, 1, line, LINES);
  add("DRAM", "latency", "load, 8 bytes, one thread", CHASED, 1, [this](int) {
    constexpr size_t APART = 33 * LINE * 8;
    cudaError_t error = chain(memory, CHASED, APART, 205);
    if (error == cudaSuccess) {  // what L2 held is gone
      error = cudaMemsetAsync(memory + bytes / 2, 0, 2 * l2_bytes < bytes / 2 ? 2 * l2_bytes : bytes / 2);
    }
    return error != cudaSuccess ? error : start(chase<L2>, {1, 1}, stamps, memory, 0, TURNS);
  });
  list_loads_of<1>(*this);
  list_loads_of<2>(*this);
  list_loads_of<4>(*this);
  constexpr size_t CHUNK = size_t{FULL} * 16 * UNROLL;
  add("L2", "bandwidth", "store, 16 bytes a thread", double(CHUNK) * 64, sms,
      [this](int) { return start(global_stores, {sms, FULL}, stamps, in_l2(CHUNK), 64); });
  Walk all = in_dram(CHUNK), half = walk(CHUNK, bytes / 2, bytes / 2);
  int turns = turns_through(all);
  add("DRAM", "bandwidth", "store, 16 bytes a thread", double(CHUNK) * turns, sms,
      [this, all, turns](int) { return start(global_stores, {sms, FULL}, stamps, all, turns); });
  add("DRAM", "bandwidth", "load and store, 16 bytes a thread", 2.0 * CHUNK * turns, sms,
      [this, all, half, turns](int) { return start(global_copies, {sms, FULL}, stamps, all, half, turns); });
}

void Hardware::list_copies() {
  if (capability < 80) {
    return;
  }
  add("cp.async", "latency", "16 bytes from L2, one thread", CHASED, 1,
      [this](int) { return start(async_copy_latency, {1, 1}, stamps, walk(LINE, LINE), CHASED); });
  auto copies = [this](auto kernel, int bytes_of_one, const char* how, bool from_dram) {
    size_t stage = size_t{COPYING} * COPIES * bytes_of_one;
    Walk place = from_dram ? in_dram(stage) : in_l2(stage);
    int turns = from_dram ? turns_through(place) : 2048 * 4 / bytes_of_one;
    add("cp.async", "bandwidth", how, double(stage) * turns, sms, [this, kernel, place, turns, stage](int) {
      return start(kernel, {sms, COPYING, COPY_STAGES * stage}, stamps, place, turns);
    });
  };
  copies(async_copies<4>, 4, "4 bytes a thread from L2", false);
  copies(async_copies<16>, 16, "16 bytes a thread from L2", false);
  copies(async_copies<16>, 16, "16 bytes a thread from DRAM", true);
  if (capability < 90) {
    return;
  }
  for (int bytes_of_one : {128, 1024, 4096, 16384}) {
    std::string size = std::to_string(bytes_of_one) + " bytes";
    auto room = static_cast<size_t>(bytes_of_one);
    int fitting = (shared_bytes - 2048) / bytes_of_one;
    int stages = fitting < BULK_STAGES ? fitting : BULK_STAGES;
    int copies_of_one = (4 << 20) / (bytes_of_one < 1024 ? 1024 : bytes_of_one);  // up to 4 MiB an SM
    add("bulk copy", "latency", size + " from L2, one at a time", 128, 1,
        [this, room](int) { return start(bulk_copies, {1, WARP, room}, stamps, walk(room, room), 1, 128); });
    add("bulk copy", "bandwidth", size + " from L2, " + std::to_string(stages) + " at a time",
        double(bytes_of_one) * copies_of_one, sms, [this, room, stages, copies_of_one](int) {
          return start(bulk_copies, {sms, WARP, room * stages}, stamps, in_l2(room), stages, copies_of_one);
        });
  }
  constexpr size_t LARGE = 16384;
  Walk place = in_dram(LARGE);
  int stages = static_cast<int>((shared_bytes - 2048) / LARGE), copies_of_one = turns_through(place);
  add("bulk copy", "bandwidth", "16384 bytes from DRAM, " + std::to_string(stages) + " at a time",
      double(LARGE) * copies_of_one, sms, [this, place, stages, copies_of_one](int) {
        return start(bulk_copies, {sms, WARP, LARGE * stages}, stamps, place, stages, copies_of_one);
      });
}

template <int PER_LOAD>
void list_ffmas(Hardware& h) {
  constexpr int TURNS = 512;
  std::string beside = PER_LOAD ? ", a 16-byte shared load every " + std::to_string(PER_LOAD) : "";
  h.add("FFMA", "rate", "FP32" + beside, 2.0 * FFMA_THREADS * FFMA_CHAINS * UNROLL * TURNS, h.sms,
        [&h](int) { return start(ffmas<PER_LOAD>, {h.sms, FFMA_THREADS}, h.stamps, TURNS, 0.75f, 1.0f); });
}

template <Type TYPE>
void list_mmas(Hardware& h, const std::string& type) {
  constexpr int TURNS = 512;
  double flop = 2.0 * 16 * 8 * depth_of(TYPE, h.capability == 75);  // of a warp's instruction
  double of_block = flop * MMA_THREADS / WARP * MMA_CHAINS * UNROLL * TURNS;
  h.add("mma.sync", "latency", type, double(UNROLL) * TURNS, 1,
        [&h](int) { return start(mmas<TYPE, 1, 0>, {1, WARP}, h.stamps, TURNS); });
  auto rate = [&h, of_block](auto kernel, const std::string& how) {
    h.add("mma.sync", "rate", how, of_block, h.sms,
          [&h, kernel](int) { return start(kernel, {h.sms, MMA_THREADS}, h.stamps, TURNS); });
  };
  rate(mmas<TYPE, MMA_CHAINS, 0>, type);
  rate(mmas<TYPE, MMA_CHAINS, 4>, type + ", a 16-byte shared load every 4");
  rate(mmas<TYPE, MMA_CHAINS, 2>, type + ", a 16-byte shared load every 2");
}

template <Type TYPE>
void list_wgmmas(Hardware& h, const std::string& type, int depth) {
  constexpr int TURNS = 256;
  double flop = 2.0 * 64 * 256 * depth;  // of a group's instruction
  Walk place = h.in_l2(BESIDE_BYTES);
  Launch one = {1, WGMMA_THREADS, WGMMA_SHARED}, all = {h.sms, WGMMA_THREADS, WGMMA_SHARED};
  h.add("wgmma", "latency", type + ", 64x256, waited for", TURNS, 1,
        [&h, one, place](int) { return start(wgmmas<TYPE>, one, h.stamps, place, TURNS, true, false); });
  h.add("wgmma", "rate", type, flop * GROUPS * STEPS * TURNS, h.sms,
        [&h, all, place](int) { return start(wgmmas<TYPE>, all, h.stamps, place, TURNS, false, false); });
  h.add("wgmma", "rate", type + ", bulk copies of as many bytes beside", flop * GROUPS * STEPS * TURNS, h.sms,
        [&h, all, place](int) { return start(wgmmas<TYPE>, all, h.stamps, place, TURNS, false, true); });
}

void Hardware::list_arithmetic() {
  add("FFMA", "latency", "FP32", UNROLL * 512.0, 1,
      [this](int) { return start(ffma_latency, {1, WARP}, stamps, 64, 0.75f, 1.0f); });
  list_ffmas<0>(*this);
  list_ffmas<32>(*this);
  list_ffmas<16>(*this);
  list_ffmas<8>(*this);
  if (capability >= 75) {
    list_mmas<FP16>(*this, "FP16");
  }
  if (capability >= 80) {
    list_mmas<BF16>(*this, "BF16");
    list_mmas<TF32>(*this, "TF32");
  }
  if (capability == 90) {
    list_wgmmas<FP16>(*this, "FP16", 16);
    list_wgmmas<BF16>(*this, "BF16", 16);
    list_wgmmas<TF32>(*this, "TF32", 8);
  }
}

void Hardware::list_waiting() {
  for (int threads : {32, 128, 256, 512, 1024}) {
    add("barrier", "latency", "of a block of " + std::to_string(threads) + " threads", UNROLL * 256.0, 1,
        [this, threads](int) { return start(block_barriers, {1, threads}, stamps, 256); });
  }
  if (capability >= 90) {
    add("shared memory", "latency", "load, 4 bytes, another block of the cluster", UNROLL * 64.0, 2,
        [this](int) { return start(cluster_latency, {2, 1, 0, 2}, stamps, 64); });
    for (int blocks : {2, 4, 8}) {
      auto barriers = [this, blocks](auto kernel, const char* how) {
        add("barrier", "latency", "of a cluster of " + std::to_string(blocks) + " blocks of 256 threads" + how,
            UNROLL * 64.0, blocks,
            [this, kernel, blocks](int) { return start(kernel, {blocks, 256, 0, blocks}, stamps, 64); });
      };
      barriers(cluster_barriers<true>, "");
      barriers(cluster_barriers<false>, ", without its fence");
    }
  }
  add("barrier", "latency", "of a grid, a block of 256 threads on every SM", 64, sms, [this](int) {
    cudaError_t error = cudaMemsetAsync(arrived, 0, sizeof(unsigned));
    return error != cudaSuccess ? error : start(grid_barriers, {sms, 256, 0, 1, true}, stamps, arrived, 64);
  });
  auto launches = [](int) {
    for (int i = 0; i < LAUNCHES; ++i) {
      nothing<<<1, WARP>>>();
    }
    return cudaGetLastError();
  };
  add("launch", "latency", "of an empty kernel behind another", LAUNCHES, 1, launches, SAMPLES, true);
  add(
      "launch", "latency", "of an empty kernel behind another, in a graph", LAUNCHES, 1,
      [this](int) { return cudaGraphLaunch(graph, nullptr); }, SAMPLES, true);
}

cudaError_t graph_of_launches(cudaGraphExec_t* made) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) {
    return error;
  }
  nothing<<<1, WARP, 0, stream>>>();  // loads its code, which a capture may not do
  error = cudaStreamSynchronize(stream);
  if (error != cudaSuccess) {
    return error;
  }
  error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  for (int i = 0; i < LAUNCHES && error == cudaSuccess; ++i) {
    nothing<<<1, WARP, 0, stream>>>();
    error = cudaGetLastError();
  }
  cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  error = error != cudaSuccess ? error : ended;
  return error != cudaSuccess ? error : cudaGraphInstantiate(made, graph, 0);
}

cudaError_t Hardware::open() {
  int device = 0, major = 0, minor = 0, l2 = 0;
  size_t free = 0, total = 0;
  cudaError_t error = cudaGetDevice(&device);
  auto read = [&](int* value, cudaDeviceAttr attribute) {
    error = error != cudaSuccess ? error : cudaDeviceGetAttribute(value, attribute, device);
  };
  read(&sms, cudaDevAttrMultiProcessorCount);
  read(&major, cudaDevAttrComputeCapabilityMajor);
  read(&minor, cudaDevAttrComputeCapabilityMinor);
  read(&l2, cudaDevAttrL2CacheSize);
  read(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  error = error != cudaSuccess ? error : cudaMemGetInfo(&free, &total);
  capability = 10 * major + minor;
  l2_bytes = l2;
  bytes = free / 2 < ENOUGH ? free / 2 / (1 << 20) * (1 << 20) : ENOUGH;
  if (error == cudaSuccess && bytes < 8 * l2_bytes) {
    error = cudaErrorMemoryAllocation;
  }
  error = error != cudaSuccess ? error : cudaMalloc(&memory, bytes);
  error = error != cudaSuccess ? error : cudaMemset(memory, 0, bytes);
  error = error != cudaSuccess ? error : cudaMalloc(&stamps, sms * sizeof(Stamp));
  error = error != cudaSuccess ? error : cudaMalloc(&arrived, sizeof(unsigned));
  error = error != cudaSuccess ? error : cudaEventCreate(&begin);
  error = error != cudaSuccess ? error : cudaEventCreate(&end);
  error = error != cudaSuccess ? error : graph_of_launches(&graph);
  return error != cudaSuccess ? error : cudaDeviceSynchronize();
}

void Hardware::list() {
  list_shared();
  list_global();
  list_copies();
  list_arithmetic();
  list_waiting();
}

}  // namespace

// The functions below return a cudaError_t. All times are of the current device.
extern "C" {

// Takes memory and makes the list; `count` is how many probes there are on this GPU.
__attribute__((visibility("default"))) int hardware_open(int* count) {
  hardware = new Hardware;
  cudaError_t error = hardware->open();
  if (error == cudaSuccess) {
    hardware->list();
    *count = static_cast<int>(hardware->probes.size());
  }
  return error;
}

// What probe `number` is; its texts stay.
__attribute__((visibility("default"))) int hardware_describe(int number, Probe* probe) {
  if (hardware == nullptr || number < 0 || number >= static_cast<int>(hardware->probes.size())) {
    return cudaErrorInvalidValue;
  }
  const Listed& each = hardware->probes[number];
  *probe = {each.of.c_str(), each.kind.c_str(), each.how.c_str(), each.count, each.blocks, each.samples};
  return cudaSuccess;
}

// One sample of a probe: the cycles that its blocks took, on average, and the nanoseconds from when the first began to
// when the last ended. Of launches, which note no clock, the cycles are 0.
__attribute__((visibility("default"))) int hardware_measure(int number, int sample, double* cycles, double* ns) {
  const Listed& probe = hardware->probes.at(number);
  cudaError_t error = cudaEventRecord(hardware->begin);
  error = error != cudaSuccess ? error : probe.run(sample);
  error = error != cudaSuccess ? error : cudaEventRecord(hardware->end);
  error = error != cudaSuccess ? error : cudaDeviceSynchronize();
  if (error != cudaSuccess) {
    return error;
  }
  if (probe.by_events) {
    float ms = 0;
    error = cudaEventElapsedTime(&ms, hardware->begin, hardware->end);
    *cycles = 0;
    *ns = ms * 1e6;
    return error;
  }
  std::vector<Stamp> found(probe.blocks);
  error = cudaMemcpy(found.data(), hardware->stamps, found.size() * sizeof(Stamp), cudaMemcpyDeviceToHost);
  unsigned long long first = found[0].begin_ns, last = 0;
  *cycles = 0;
  for (const Stamp& each : found) {
    *cycles += static_cast<double>(each.end - each.begin) / found.size();
    first = each.begin_ns < first ? each.begin_ns : first;
    last = each.end_ns > last ? each.end_ns : last;
  }
  *ns = static_cast<double>(last - first);
  return error;
}
}
