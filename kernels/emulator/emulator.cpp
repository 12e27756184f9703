// The engine of the emulator: runs the threads of a CUDA block as fibers and watches every access to memory.
//
// g++ instruments a rung with -fsanitize=thread, which calls __tsan_readN and __tsan_writeN before each load and store,
// and with -fsanitize=undefined's checks, which call __ubsan_handle_*. Neither sanitizer's own runtime is linked: the
// functions are defined here (section "Hooks") and know blocks, barriers, shared memory and the product's matrices.
//
// emulator.h is what a rung knows of it; emulator_state.h has the fibers, the data and the findings; emulator_memory.h
// what an access is checked for; this file barriers and warps, the launch, the hooks, and the C interface. README.md says
// what is found and what is not.
#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emulator_coverage.h"
#include "emulator_memory.h"

namespace emulator {

EMULATOR_PLAIN static uint64_t next_batch() { return __atomic_add_fetch(&device.batch, 1, __ATOMIC_RELAXED); }

// The thread to run next; one is ready.
EMULATOR_PLAIN inline Thread& next_thread(Block& b) {
  for (;;) {
    Thread& t = b.threads[b.turn];
    b.turn = b.turn + b.step < b.count ? b.turn + b.step : b.turn + b.step - b.count;
    if (t.state == READY) {
      b.stamp = t.stamp;
      return t;
    }
  }
}

// Lets other threads run: from one to the next, for the processor foresees where a return leads that many threads take;
// the scheduler where none is ready.
EMULATOR_PLAIN inline void give_way(Thread* t, Block& b) {
  if (b.doubtful_count > 0) {
    settle(t);
  }
  if (b.ready == 0 || device.stop) {
    switch_context(t->context, b.scheduler);
  } else if (Thread& next = next_thread(b); &next != t) {
    switch_context(t->context, next.context);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Waiting for other threads and blocks. A thread that finds nothing changed lets the others of its block run; once all that
// are ready have found so for some time, the block is suspended and another runs.

EMULATOR_NOINLINE void made_progress() {
  __atomic_fetch_add(&device.progress, 1, __ATOMIC_RELAXED);
  this_block()->idle = 0;
}

// Another thread of the block, or another block where this one waits or has run for long: even a thread that changes
// something again and again, as a lock that it takes and gives back, may wait for others.
EMULATOR_PLAIN static void suspend_block(Thread* t, Block& b, bool waits) {
  if (b.doubtful_count > 0) {
    settle(t);
  }
  b.suspended = true;
  b.waits = waits;
  switch_context(t->context, b.scheduler);
  b.stamp = t->stamp;
}

EMULATOR_PLAIN static void let_others_run(Thread* t, Block& b) {
  bool waits = b.idle > 4 * b.ready + 16;
  if (waits || ++b.yields > 256 * b.ready + 16384) {
    suspend_block(t, b, waits);
  } else {
    give_way(t, b);
  }
  if (device.stop) {
    stop_launch(0);
  }
}

EMULATOR_PLAIN inline bool is_global(uintptr_t address) {
  return address - all_shared >= all_shared_bytes && address - stacks >= stacks_bytes;
}

// The thread has changed what others look at. Another block may go on before this one does: one that waits, or, as long
// as few run, a new one.
EMULATOR_PLAIN static void let_waiting_run(Thread* t, Block& b) {
  constexpr unsigned FEW = 4;
  bool any = device.first != nullptr || (device.used < FEW && b.launch->next < b.launch->turns);
  if (any && (next_random(b.random) & 3) != 0) {
    suspend_block(t, b, false);
    if (device.stop) {
      stop_launch(0);
    }
  }
}

// The thread has looked at what others may change, at a place in the code, and seen `value`.
EMULATOR_PLAIN static void look(Thread* t, uintptr_t code, uintptr_t address, uint64_t value) {
  Block& b = *t->block;
  uint64_t mixed = (code * 31 + address) * 0x9E3779B97F4A7C15u ^ value * 0xD1B54A32D192ED03u;
  uint32_t seen = static_cast<uint32_t>(mixed ^ mixed >> 32);
  bool again = false;
  for (uint32_t each : t->looks) {
    again = again || each == seen;
  }
  if (again) {
    ++b.idle;
  } else {
    b.idle = 0;
    t->looks[t->look++ % LAST_LOOKS] = seen;
  }
  t->barrier_at = code;
  let_others_run(t, b);
}

EMULATOR_NOINLINE void wait_for_others() {
  uintptr_t code = EMULATOR_CALLER;
  look(this_thread(), code, 0, 0);
}

EMULATOR_NOINLINE void atomic_begin(const void* pointer, unsigned bytes, bool sum, bool of_block) {
  uintptr_t code = EMULATOR_CALLER;
  Thread* t = this_thread();
  let_others_run(t, *t->block);
  Access access = of_block ? BLOCK_ATOMIC : sum ? SUM_ACCESS : ATOMIC_ACCESS;
  check(reinterpret_cast<uintptr_t>(pointer), bytes, access, code);
  pthread_mutex_lock(&atomic_lock);
}

EMULATOR_NOINLINE void atomic_end(const void* pointer, bool sum, bool of_block, uint64_t before, uint64_t after) {
  uintptr_t code = EMULATOR_CALLER, address = reinterpret_cast<uintptr_t>(pointer);
  Thread* t = this_thread();
  if (!sum && is_global(address)) {
    if (!of_block) {
      note_as_last(t, address);
    }
    bool fenced = t->fence_at > 0 || histories[t->block->id].fence_count > 0;
    acquire(t, address, before != after && fenced, false);
    if (before != after) {
      release(t, address, false);
    }
  }
  pthread_mutex_unlock(&atomic_lock);
  if (before != after) {
    made_progress();
    let_waiting_run(t, *t->block);
  } else {
    look(t, code, address, before);
  }
}

EMULATOR_PLAIN static void strong(uintptr_t address, unsigned bytes, Access access, uintptr_t code) {
  Thread* t = this_thread();
  if (t == nullptr) {
    return;
  }
  check(address, bytes, access, code);
  if (address - stacks < stacks_bytes) {
    return;
  }
  bool writes = !only_reads(access);
  if (is_global(address)) {
    pthread_mutex_lock(&atomic_lock);
    if (writes) {
      release(t, address, true);
    } else {
      acquire(t, address, false, true);
    }
    pthread_mutex_unlock(&atomic_lock);
  }
  if (writes) {
    made_progress();
    return;
  }
  uint64_t value = 0;
  memcpy(&value, reinterpret_cast<void*>(address), bytes < 8 ? bytes : 8);
  look(t, code, address, value);
}
EMULATOR_NOINLINE void strong_load(const void* pointer, unsigned bytes, bool of_block) {
  strong(reinterpret_cast<uintptr_t>(pointer), bytes, of_block ? BLOCK_READ : STRONG_READ, EMULATOR_CALLER);
}
EMULATOR_NOINLINE void strong_store(const void* pointer, unsigned bytes, bool of_block) {
  strong(reinterpret_cast<uintptr_t>(pointer), bytes, of_block ? BLOCK_WRITE : STRONG_WRITE, EMULATOR_CALLER);
}

EMULATOR_NOINLINE bool is_cooperative() { return this_block()->launch->as.cooperative; }

EMULATOR_NOINLINE void grid_barrier() {
  uintptr_t code = EMULATOR_CALLER;
  Thread* t = this_thread();
  Block& b = *t->block;
  Launch& launch = *b.launch;
  if (!launch.as.cooperative) {
    Where where;
    where.code = code;
    report("launch", where, "waits for the whole grid, which was not launched by cudaLaunchCooperativeKernel");
    stop_launch(719);
  }
  uint64_t phase = __atomic_load_n(&launch.phase, __ATOMIC_ACQUIRE);
  if (__atomic_add_fetch(&launch.arrived, 1, __ATOMIC_ACQ_REL) == launch.blocks) {
    launch.arrived = 0;
    launch.batch = next_batch();
    __atomic_store_n(&launch.phase, phase + 1, __ATOMIC_RELEASE);
    made_progress();
  }
  while (__atomic_load_n(&launch.phase, __ATOMIC_ACQUIRE) == phase) {
    look(t, code, 0, phase);
  }
  b.batch = launch.batch;
}

// ---------------------------------------------------------------------------------------------------------------------
// Barriers and warps.

EMULATOR_PLAIN static int barrier_at(int predicate, uintptr_t code) {
  Thread* t = this_thread();
  Block& b = *t->block;
  t->state = AT_BARRIER;
  t->barrier_at = code;
  b.predicate_sum += predicate != 0;
  ++b.at_barrier;
  --b.ready;
  give_way(t, b);
  return b.predicate_result;
}
EMULATOR_NOINLINE int barrier(int predicate) { return barrier_at(predicate, EMULATOR_CALLER); }

// If all lanes that this lane waits for have come (or left the kernel), hands each its value and lets them go on.
EMULATOR_NOINLINE static bool complete_warp(Block& b, unsigned first, unsigned lane, uintptr_t code) {
  Thread* lanes = b.threads + first;
  unsigned count = b.count - first < 32 ? b.count - first : 32;
  unsigned mask = lanes[lane].warp_mask, operation = lanes[lane].warp_operation;
  unsigned present = 0;
  bool awaited = false;
  Stamp latest = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (!(mask >> i & 1) || lanes[i].state == EXITED) {
      continue;
    }
    if (lanes[i].state != AT_WARP || lanes[i].warp_mask != mask || lanes[i].warp_operation != operation) {
      return false;
    }
    present |= 1u << i;
    Stamp interval = lanes[i].stamp & WARP_INTERVAL;
    latest = interval > latest ? interval : latest;
    awaited = awaited || lanes[i].awaited;
  }
  share_learned(lanes, present);
  uint32_t now = tick(b);
  if (lanes[lane].together != nullptr) {
    void* offers[32];
    for (unsigned i = 0; i < 32; ++i) {
      offers[i] = present >> i & 1 ? reinterpret_cast<void*>(lanes[i].offered) : nullptr;
    }
    if (present == ~0u) {
      lanes[lane].together(offers, present);
    } else {
      Where where;
      where.code = code;
      report("warp", where, "an instruction of a whole warp is executed by lanes %08x alone", present);
    }
  }
  if (b.ptx != nullptr) {
    merge_lanes(b, first, present, epoch_of(latest));
  }
  for (unsigned i = 0; i < count; ++i) {
    if (!(present >> i & 1)) {
      continue;
    }
    Thread& t = lanes[i];
    t.warp_tick = now;
    t.awaited = awaited;
    if (t.source_lane == -2) {  // a vote: all offers
      t.received = 0;
      for (unsigned j = 0; j < count; ++j) {
        t.received |= static_cast<uint64_t>((present >> j & 1) && lanes[j].offered != 0) << j;
      }
      t.received |= static_cast<uint64_t>(present) << 32;
    } else if (t.source_lane >= 0) {
      if (!(present >> t.source_lane & 1)) {
        Where where;
        where.code = code;
        report("warp", where, "lane %u takes a value from lane %d, which takes no part", i, t.source_lane);
      }
      t.received = static_cast<unsigned>(t.source_lane) < count ? lanes[t.source_lane].offered : ~0ull;
    }
    t.stamp = (t.stamp & ~WARP_INTERVAL) | (latest + 0x1000);
    t.state = READY;
    ++b.ready;
  }
  return true;
}

EMULATOR_PLAIN static uint64_t meet_warp_at(unsigned mask, unsigned operation, int source_lane, uint64_t offer,
                                            void (*together)(void* const*, unsigned), uintptr_t code) {
  Thread* t = this_thread();
  Block& b = *t->block;
  unsigned lane = t->number % 32;
  if (!(mask >> lane & 1)) {
    Where where;
    where.code = code;
    report("warp", where, "lane %u is not in its own mask %08x", lane, mask);
    stop_launch(719);
  }
  t->warp_mask = mask;
  t->warp_operation = operation;
  t->source_lane = source_lane;
  t->offered = offer;
  t->together = together;
  t->barrier_at = code;
  t->state = AT_WARP;
  --b.ready;
  if (complete_warp(b, t->number - lane, lane, code)) {
    b.stamp = t->stamp;
  } else {
    give_way(t, b);
  }
  return t->received;
}
EMULATOR_NOINLINE uint64_t meet_warp(unsigned mask, unsigned operation, int source_lane, uint64_t offer) {
  return meet_warp_at(mask, operation, source_lane, offer, nullptr, EMULATOR_CALLER);
}
EMULATOR_PLAIN static void meet_warp_together(unsigned mask, unsigned operation, void* offer,
                                              void (*together)(void* const*, unsigned), uintptr_t code) {
  meet_warp_at(mask, operation, -1, reinterpret_cast<uint64_t>(offer), together, code);
}

EMULATOR_NOINLINE unsigned active_lanes() {
  constexpr int ACTIVE = -3, ROUNDS = 64;  // what the source lane is of those that ask; who does not come by then
  uintptr_t code = EMULATOR_CALLER;
  Thread* t = this_thread();
  Block& b = *t->block;
  Thread* lanes = t - t->number % 32;
  unsigned count = b.count - lanes->number < 32 ? b.count - lanes->number : 32;
  t->source_lane = ACTIVE;
  t->offered = code;
  for (int round = 0; t->source_lane == ACTIVE; ++round) {
    unsigned mask = 0;
    bool others = false;
    for (unsigned i = 0; i < count; ++i) {
      bool asks = lanes[i].state == READY && lanes[i].source_lane == ACTIVE;
      mask |= asks && lanes[i].offered == code ? 1u << i : 0;
      others = others || (lanes[i].state == READY && !asks);
    }
    if (!others || round == ROUNDS) {
      for (unsigned i = 0; i < count; ++i) {
        if (mask >> i & 1) {
          lanes[i].source_lane = -1;
          lanes[i].received = mask;
        }
      }
    } else {
      give_way(t, b);
      if (device.stop) {
        stop_launch(0);
      }
    }
  }
  return static_cast<unsigned>(t->received);
}

// Ends the process where the machine lacks what the emulator needs, which is no fault of the rung.
EMULATOR_PLAIN [[noreturn]] inline void give_up(const char* call, int error) {
  fprintf(stderr, "emulator: %s: %s\n", call, strerror(error));
  _exit(71);  // EX_OSERR of sysexits.h
}

EMULATOR_PLAIN inline void* try_map(size_t bytes) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

EMULATOR_PLAIN inline char* map(size_t bytes) {
  void* memory = try_map(bytes);
  if (memory == MAP_FAILED) {
    give_up("mmap", errno);
  }
  return static_cast<char*>(memory);
}

}  // namespace emulator

#include "emulator_ptx.h"

namespace emulator {

// ---------------------------------------------------------------------------------------------------------------------
// The launch: workers take blocks in an order given by the seed, and run the block's threads from barrier to barrier,
// in another order each time.

EMULATOR_NOINLINE static void fiber() {
  const Launch& launch = *this_block()->launch;
  launch.invoke(launch.closure);
  Thread* t = this_thread();
  Block& b = *t->block;
  if (b.ptx != nullptr) {
    check_stores_done(t);
  }
  t->state = EXITED;
  --b.ready;
  ++b.exited;
  if (b.exited == b.count && b.ptx != nullptr) {
    check_left(b);
  }
  unsigned first = t->number & ~31u;
  for (unsigned i = first; i < first + 32 && i < b.count; ++i) {  // lanes that waited for this one only
    if (b.threads[i].state == AT_WARP) {
      complete_warp(b, first, i - first, b.threads[i].barrier_at);
    }
  }
  give_way(t, b);
}

// Reports threads that wait for others which will never come; from the scheduler, so that it names the thread itself.
EMULATOR_NOINLINE static void report_waiting(Block& b, State state, const char* kind, const char* text) {
  const Thread *waits = nullptr, *other = nullptr;
  for (unsigned i = 0; i < b.count; ++i) {
    const Thread& t = b.threads[i];
    (t.state == state ? waits : other) = &t;
  }
  Where where;
  where.code = waits->barrier_at;
  where.other_code = other != nullptr && other->state != EXITED ? other->barrier_at : 0;
  const Thread& o = other != nullptr ? *other : *waits;
  report(kind, where, text, b.index.x, b.index.y, b.index.z, waits->index.x, waits->index.y, waits->index.z, o.index.x,
         o.index.y, o.index.z, o.state == EXITED ? "has left the kernel" : "waits elsewhere");
}

// From a barrier of the block to the next its threads run in another order each time.
EMULATOR_PLAIN inline void begin_interval(Block& b) {
  b.step = static_cast<unsigned>(coprime_step(b.count, b.random));
  b.turn = static_cast<unsigned>(next_random(b.random) % b.count);
  b.interval_start = static_cast<Stamp>(b.interval) << 32;
}

// What lies between the static arrays and dynamic memory is of no array.
EMULATOR_PLAIN static void begin_dynamic_memory(Block& b, uintptr_t offset) {
  if (b.dynamic_offset != offset) {
    memset(b.shadow + static_bytes / 4, 0, ALIGNED_ALIKE / 4 * sizeof(Shadow));
    memset(b.shadow + static_bytes / 4, 0xFF, (offset - static_bytes) / 4 * sizeof(Shadow));  // NO_WORD
    b.dynamic_offset = offset;
  }
}

EMULATOR_NOINLINE static void start_block(Block& b, Launch& launch, uint64_t number) {
  b.launch = &launch;
  b.number = number;
  b.batch = launch.batch;
  uint3 grid = launch.as.grid;
  b.index = {static_cast<unsigned>(number % grid.x), static_cast<unsigned>(number / grid.x % grid.y),
             static_cast<unsigned>(number / grid.x / grid.y)};
  b.random = seed ^ (number + 1) * 0xD1B54A32D192ED03u;
  b.block_start = static_cast<Stamp>(++b.interval) << 32;
  b.count = b.ready = launch.threads;
  b.at_barrier = b.exited = b.idle = b.yields = b.doubtful_count = 0;
  b.predicate_sum = 0;
  b.suspended = b.has_sums = b.shares_memory = false;
  b.awaited = launch.before == 0 && !launch.before_begun;
  b.id = __atomic_fetch_add(&device.started, 1, __ATOMIC_RELAXED);
  b.clock = b.barrier_tick = 1;
  begin_history(b);
  b.ptx = nullptr;
  begin_dynamic_memory(b, static_bytes + launch.dynamic_shift);
  b.shared_bytes = b.dynamic_offset + launch.as.dynamic_bytes;
  for (unsigned i = 0; i < shared_array_count; ++i) {
    const SharedArray& array = shared_arrays[i];
    bool guard = strncmp(array.symbol, "_ZGV", 4) == 0;  // says whether g++ has to initialise another one: never
    memset(reinterpret_cast<void*>(b.shared + array.place), guard ? POISON : unwritten, array.bytes);
    if (guard) {
      b.shadow[array.place / 4].written = b.block_start;
      b.places[array.place / 4].written = 0;
    }
  }
  memset(reinterpret_cast<void*>(b.shared + b.dynamic_offset), unwritten, launch.as.dynamic_bytes);
  for (unsigned i = 0; i < b.count; ++i) {
    Thread& t = b.threads[i];
    t.block = &b;
    t.number = i;
    t.index = index_of(launch, i);
    t.stamp = b.block_start | i;
    t.state = READY;
    t.copy_count = t.batch = 0;
    t.source_lane = -1;
    t.awaited = b.awaited;
    memset(t.looks, 0, sizeof t.looks);
    t.fence_at = t.fence_covers = t.fence_warp = t.warp_tick = 0;
    char* stack = reinterpret_cast<char*>(stacks + (b.threads - all_threads + i) * STACK);
    prepare(t.context, stack, stack + STACK - (i * 320 % 8192 & ~63u), fiber);  // tops apart, for the caches' sake
  }
  begin_interval(b);
  if (launch.cluster_blocks > 1) {
    ptx_of(b);  // now: another block may ask for it at any time, and what lanes have told each other must be in it
  }
}

// Runs a block until all its threads have left the kernel, or all wait for another block (`suspended`).
EMULATOR_NOINLINE static void continue_block(Block& b) {
  b.suspended = false;
  b.idle = b.yields = 0;
  while (b.exited < b.count) {
    switch_context(b.scheduler, next_thread(b).context);  // back here once no thread is ready
    if (device.stop || b.suspended) {
      return;
    }
    if (b.at_barrier + b.exited < b.count) {
      report_waiting(b, AT_WARP, "warp", "block (%u,%u,%u) thread (%u,%u,%u) waits for its warp, thread (%u,%u,%u) %s");
      stop_launch(719);
      return;
    }
    if (b.at_barrier > 0) {
      share_known(b);
      ++b.interval;
      b.barrier_tick = tick(b);
      share_learned(b);
      uintptr_t site = 0;
      for (unsigned j = 0; j < b.count; ++j) {
        Thread& t = b.threads[j];
        // Other blocks of a cluster know them by number, so that they count on, with a new one behind the barrier.
        Stamp epochs = b.launch->cluster_blocks > 1 ? (t.stamp + EPOCH) & WARP_INTERVAL : 0;
        if (b.ptx != nullptr) {
          b.ptx->first_epochs[j] = epoch_of(epochs);
        }
        if (t.state == AT_BARRIER) {
          t.stamp = static_cast<Stamp>(b.interval) << 32 | epochs | j;
          t.state = READY;
          t.awaited = b.awaited;
          if (site != 0 && site != t.barrier_at) {
            Where where;
            where.code = t.barrier_at;
            where.other_code = site;
            report("divergent barrier", where,
                   "block (%u,%u,%u) thread (%u,%u,%u) waits at another barrier than others", b.index.x, b.index.y,
                   b.index.z, t.index.x, t.index.y, t.index.z);
          }
          site = t.barrier_at;
        }
      }
      b.ready = b.at_barrier;
      b.at_barrier = 0;
      b.predicate_result = b.predicate_sum;
      b.predicate_sum = 0;
      begin_interval(b);
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// The launch: host threads take blocks in an order given by the seed. Of those that are suspended they take the one that
// waits longest if anything has happened since, else a new one, as long as there is room for it on the SMs.

// ---------------------------------------------------------------------------------------------------------------------
// The library: where it lies, and what its symbol table says of the __shared__ arrays.

EMULATOR_PLAIN static const char* library_name() {
  Dl_info library;
  return dladdr(reinterpret_cast<void*>(&device), &library) == 0 ? "" : library.dli_fname;
}

EMULATOR_PLAIN static int find_library(dl_phdr_info* info, size_t, void* found) {
  uintptr_t here = reinterpret_cast<uintptr_t>(&device), low = UINTPTR_MAX, high = 0;
  ThreadLocals locals = {};
  for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) & p = info->dlpi_phdr[i];
    if (p.p_type == PT_LOAD) {
      low = info->dlpi_addr + p.p_vaddr < low ? info->dlpi_addr + p.p_vaddr : low;
      high = info->dlpi_addr + p.p_vaddr + p.p_memsz > high ? info->dlpi_addr + p.p_vaddr + p.p_memsz : high;
    } else if (p.p_type == PT_TLS) {
      locals = {reinterpret_cast<const char*>(info->dlpi_addr + p.p_vaddr), p.p_filesz, p.p_memsz};
    }
  }
  if (here < low || here >= high) {
    return 0;
  }
  image = low;
  image_end = high;
  *static_cast<ThreadLocals*>(found) = locals;
  return 1;
}

EMULATOR_PLAIN static int by_start(const void* one, const void* other) {
  uint64_t a = static_cast<const SharedArray*>(one)->start, b = static_cast<const SharedArray*>(other)->start;
  return a < b ? -1 : a > b;
}

EMULATOR_PLAIN static int by_base(const void* one, const void* other) {
  uintptr_t a = static_cast<const Buffer*>(one)->base, b = static_cast<const Buffer*>(other)->base;
  return a < b ? -1 : a > b;
}

// A variable's own name: what its demangled one ends with.
EMULATOR_PLAIN static void last_name(const char* symbol, char* text, size_t size) {
  int status = 0;
  char* demangled = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  const char* last = demangled != nullptr ? demangled : symbol;
  for (const char* c = last; (c = strstr(c, "::")) != nullptr;) {
    last = c += 2;
  }
  snprintf(text, size, "%s", last);
  free(demangled);
}

// The variables and local functions that are in the symbol table (ELF specification, "Symbol Table").
EMULATOR_PLAIN static void read_symbols() {
  int file = open(library_name(), O_RDONLY);
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0) {
    give_up("open", errno);
  }
  void* mapped = mmap(nullptr, status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (mapped == MAP_FAILED) {
    give_up("mmap", errno);
  }
  const char* base = static_cast<const char*>(mapped);
  const ElfW(Ehdr)* elf = reinterpret_cast<const ElfW(Ehdr)*>(base);
  const ElfW(Shdr)* sections = reinterpret_cast<const ElfW(Shdr)*>(base + elf->e_shoff);
  for (unsigned i = 0; i < elf->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) {
      continue;
    }
    const ElfW(Sym)* symbols = reinterpret_cast<const ElfW(Sym)*>(base + sections[i].sh_offset);
    const char* names = base + sections[sections[i].sh_link].sh_offset;
    size_t count = sections[i].sh_size / sizeof(ElfW(Sym));
    shared_arrays = static_cast<SharedArray*>(calloc(count, sizeof(SharedArray)));
    for (size_t j = 0; j < count; ++j) {
      if ((symbols[j].st_info & 0xF) == STT_TLS && symbols[j].st_shndx != SHN_UNDEF && symbols[j].st_size > 0) {
        SharedArray& array = shared_arrays[shared_array_count++];
        array.start = symbols[j].st_value;
        array.bytes = symbols[j].st_size;
        array.symbol = strdup(names + symbols[j].st_name);
        last_name(array.symbol, array.name, sizeof array.name);
      }
    }
    local_functions = static_cast<LocalFunction*>(calloc(count, sizeof(LocalFunction)));
    for (size_t j = 0; j < count && shared_array_count > 0; ++j) {
      if (symbols[j].st_info == (STB_LOCAL << 4 | STT_FUNC) && symbols[j].st_shndx != SHN_UNDEF) {
        local_functions[local_function_count++] = {image + symbols[j].st_value, strdup(names + symbols[j].st_name)};
      }
    }
    variables = static_cast<Buffer*>(calloc(count, sizeof(Buffer)));
    for (size_t j = 0; j < count; ++j) {
      const ElfW(Sym) & symbol = symbols[j];
      if ((symbol.st_info & 0xF) == STT_OBJECT && symbol.st_size > 0 && symbol.st_shndx < elf->e_shnum &&
          symbol.st_shndx != SHN_UNDEF) {
        const ElfW(Shdr) & section = sections[symbol.st_shndx];
        Buffer& b = variables[variable_count++];
        b.base = image + symbol.st_value;
        b.bytes = symbol.st_size;
        b.rows = 1;
        b.cols = b.ld = static_cast<int64_t>(b.bytes + 3) / 4;
        b.variable = b.readable = true;
        b.writable = (section.sh_flags & SHF_WRITE) != 0;
        b.defined = section.sh_type != SHT_NOBITS;
        last_name(names + symbol.st_name, b.name, sizeof b.name);
      }
    }
    qsort(variables, variable_count, sizeof(Buffer), by_base);
  }
  munmap(mapped, status.st_size);
}

// Reserves addresses for the stacks and the shared memory of so many places, where there are not as many yet.
EMULATOR_PLAIN static void make_room(uintptr_t places) {
  uintptr_t stack_bytes = places << block_shift, shared_bytes = places * SHARED_RESERVED;
  if (stack_bytes > stacks_bytes) {
    if (stacks_bytes > 0) {
      munmap(reinterpret_cast<void*>(stacks), stacks_bytes);
    }
    stacks = reinterpret_cast<uintptr_t>(map(stack_bytes));
    stacks_bytes = stack_bytes;
  }
  if (shared_bytes > all_shared_bytes) {
    if (all_shared_bytes > 0) {
      munmap(reinterpret_cast<void*>(all_shared), all_shared_bytes);
    }
    all_shared = reinterpret_cast<uintptr_t>(map(shared_bytes));
    all_shared_bytes = shared_bytes;
  }
}

// Once: finds the library, and a place for each of its __shared__ arrays.
EMULATOR_PLAIN static void prepare_library() {
  if (all_threads != nullptr) {
    return;
  }
  all_threads = reinterpret_cast<Thread*>(map(MAX_FIBERS * sizeof(Thread)));
  dl_iterate_phdr(find_library, &thread_locals);
  uintptr_t shared_bytes = thread_locals.bytes;
  read_symbols();
  if (shared_bytes == 0) {
    return;
  }
  qsort(shared_arrays, shared_array_count, sizeof(SharedArray), by_start);
  place_of_shared = static_cast<uint32_t*>(calloc(shared_bytes, sizeof(uint32_t)));
  uintptr_t end = 0;
  for (unsigned i = 0; i < shared_array_count; ++i) {
    SharedArray& array = shared_arrays[i];
    array.place = (end + ALIGNED_ALIKE - 1) / ALIGNED_ALIKE * ALIGNED_ALIKE + array.start % ALIGNED_ALIKE;
    end = array.place + array.bytes + GAP;
    if (array.start < shared_bytes) {
      place_of_shared[array.start] = static_cast<uint32_t>(array.place);
    }
  }
  static_bytes = (end + ALIGNED_ALIKE - 1) / ALIGNED_ALIKE * ALIGNED_ALIKE;
  if (static_bytes > DYNAMIC_AT) {
    give_up("static shared memory of all kernels", ENOMEM);
  }
}

// The place of that number, made when it is used first.
EMULATOR_PLAIN static Block& make_place(unsigned number) {
  Block& b = blocks[number];
  b.threads = all_threads + (static_cast<uintptr_t>(number) << block_shift) / STACK;
  b.shared = all_shared + number * SHARED_RESERVED + DYNAMIC_AT - static_bytes;
  if (b.shadow == nullptr) {
    b.seen = static_cast<Knowledge*>(calloc(2, sizeof(Knowledge)));
    b.known = b.seen + 1;
    b.dynamic_offset = static_bytes;
    size_t words = (static_bytes + SHARED_RESERVED - DYNAMIC_AT) / 4;
    b.shadow = reinterpret_cast<Shadow*>(map(words * sizeof(Shadow)));
    b.places = reinterpret_cast<Places*>(map(words * sizeof(Places)));
    memset(b.shadow, 0xFF, static_bytes / 4 * sizeof(Shadow));  // NO_WORD
    for (unsigned i = 0; i < shared_array_count; ++i) {
      const SharedArray& array = shared_arrays[i];
      memset(b.shadow + array.place / 4, 0, (array.bytes + 3) / 4 * sizeof(Shadow));
    }
  }
  return b;
}

EMULATOR_PLAIN static void forget_what_it_knows(Block& b) {
  for (unsigned i = 0; i < b.count && b.learned_threads > 0; ++i) {
    forget_learned(b.threads + i);
  }
  forget(*b.seen);
  forget(*b.known);
}

EMULATOR_PLAIN static void suspend(Block& b) {
  b.since = b.waits ? __atomic_load_n(&device.progress, __ATOMIC_RELAXED) : ~0ull;
  b.next = nullptr;
  (device.last != nullptr ? device.last->next : device.first) = &b;
  device.last = &b;
}

EMULATOR_PLAIN static Block* longest_suspended() {
  Block* b = device.first;
  device.first = b->next;
  device.last = device.first != nullptr ? device.last : nullptr;
  return b;
}

EMULATOR_PLAIN static double seconds_of(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + time.tv_nsec * 1e-9;
}

// Some blocks of a launch were to run, and have left what others need, or nothing: now all are, if there is time.
EMULATOR_PLAIN static void run_the_rest(Launch& launch) {
  uint64_t begun = launch.turns * launch.cluster_blocks;
  double expected_s = (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - device.began_s) * launch.clusters / launch.turns;
  double most_s = timeout_s / (device.left_for_others ? 2 : 12);
  if (launch.clusters <= FEW_CLUSTERS && expected_s <= most_s) {
    launch.turns = launch.clusters;
    launch.most_resident = begun < launch.most_resident ? static_cast<unsigned>(begun) : launch.most_resident;
  } else if (device.left_for_others) {
    report("timeout", Where(), "would not end in %.3g s of CPU time, and what some blocks leave others need", most_s);
    device.error = 702;  // cudaErrorLaunchTimeout
    device.stop = true;
  }
}

// The launch of which a block may start now: of two that run at a time the one that has started fewer of its blocks.
EMULATOR_PLAIN static Launch* startable() {
  Launch* found = nullptr;
  for (unsigned i = 0; i < device.launch_count; ++i) {
    Launch* each = device.launches[i];
    bool idle = each->resident == 0 && !device.has_written;
    if (each->next == each->turns && each->turns < each->clusters && (device.left_for_others || idle)) {
      run_the_rest(*each);
    }
    if (each->next < each->turns && each->resident + each->cluster_blocks <= each->most_resident &&
        (found == nullptr || each->next < found->next)) {
      found = each;
    }
  }
  return found;
}

// Starts the blocks of the next cluster; the first of them, the others being suspended.
EMULATOR_PLAIN static Block* start_next(Launch& launch) {
  uint64_t cluster = cluster_to_run(launch, launch.next++);
  uint3 shape = launch.as.cluster, grid = launch.as.grid;
  uint64_t wide = grid.x / shape.x, high = grid.y / shape.y;
  uint64_t x = cluster % wide * shape.x, y = cluster / wide % high * shape.y, z = cluster / wide / high * shape.z;
  Block* started[16];
  for (unsigned rank = 0; rank < launch.cluster_blocks; ++rank) {
    Block* b = device.free;
    if (b != nullptr) {
      device.free = b->next;
      make_place(static_cast<unsigned>(b - blocks));
    } else {
      b = &make_place(device.used++);
    }
    ++launch.resident;
    started[rank] = b;
    uint64_t at_x = x + rank % shape.x, at_y = y + rank / shape.x % shape.y, at_z = z + rank / shape.x / shape.y;
    start_block(*b, launch, (at_z * grid.y + at_y) * grid.x + at_x);
    b->cluster_rank = rank;
  }
  for (unsigned rank = 0; rank < launch.cluster_blocks; ++rank) {
    memcpy(started[rank]->cluster, started, launch.cluster_blocks * sizeof(Block*));
    if (rank > 0) {
      started[rank]->waits = false;  // it has not begun
      suspend(*started[rank]);
    }
  }
  return started[0];
}

// All blocks that there is room for wait, and nobody else runs: says which, and ends the launch.
EMULATOR_PLAIN static void report_deadlock() {
  const Block& b = *device.first;
  const Launch& launch = *b.launch;
  const Thread *waits = nullptr, *other = nullptr;
  bool own = true;  // all wait for threads of their own block or cluster, of which all blocks have begun
  for (const Block* each = &b; each != nullptr; each = each->next) {
    for (unsigned i = 0; i < each->count; ++i) {
      const Thread& t = each->threads[i];
      own = own && (t.state != READY || waits_for_its_own(t));
      if (t.state == READY && waits == nullptr) {
        waits = &t;
      } else if (t.state == READY && t.barrier_at != waits->barrier_at) {
        other = &t;
      }
    }
  }
  char what[192];
  describe_wait(*waits, what, sizeof what);
  Where where;
  where.code = waits->barrier_at;
  where.other_code = other != nullptr ? other->barrier_at : 0;
  uint3 block = waits->block->index, thread = waits->index;
  uint64_t left = launch.turns - launch.next;
  char rest[192] = "all others of the grid have ended";
  if (launch.some && own) {
    snprintf(rest, sizeof rest, "no other block can let them go on");
  } else if (launch.some) {
    snprintf(rest, sizeof rest, "of this grid only some blocks are run");
  } else if (left > 0) {
    snprintf(rest, sizeof rest, "%llu more of the grid start only when one of these ends, for %d SMs hold no more",
             static_cast<unsigned long long>(left * launch.cluster_blocks), sms);
  } else if (launch.resident > 1) {
    snprintf(rest, sizeof rest, "no other block of the grid is left");
  }
  report(launch.some && !own ? "timeout" : "deadlock", where,
         "block (%u,%u,%u) thread (%u,%u,%u) waits for %s: %u block%s, %s", block.x, block.y, block.z, thread.x,
         thread.y, thread.z, what, launch.resident, launch.resident == 1 ? " waits" : "s wait", rest);
}

constexpr double PATIENCE = 4;  // so many times the limit may a launch take as long as more of its blocks begin

EMULATOR_PLAIN static uint64_t blocks_begun() {
  uint64_t begun = 0;
  for (unsigned i = 0; i < device.launch_count; ++i) {
    begun += __atomic_load_n(&device.launches[i]->next, __ATOMIC_RELAXED);
  }
  return begun;
}

constexpr unsigned IDLE_ROUNDS = 200;  // of all blocks, without any change: as nobody waits for a number of looks

EMULATOR_PLAIN static void wait_a_moment() {
  timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_nsec += 1000000;
  end.tv_sec += end.tv_nsec / 1000000000;
  end.tv_nsec %= 1000000000;
  pthread_cond_timedwait(&device.changed, &device.lock, &end);
}

EMULATOR_PLAIN static void* work(void*) {
  bool waited = false;
  pthread_mutex_lock(&device.lock);
  while (!device.stop) {
    uint64_t progress = __atomic_load_n(&device.progress, __ATOMIC_RELAXED);
    Launch* launch = startable();
    Block* b = nullptr;
    bool idle = device.first != nullptr && device.first->since == progress;
    if (idle && launch == nullptr && device.running > 0 && !waited) {  // others may let it go on
      waited = true;
      wait_a_moment();
      continue;
    }
    waited = false;
    bool resumes = !idle && ++device.resumed % 2 == 0;  // in turn with new blocks, for which one that goes on may wait
    if (device.first != nullptr && (resumes || launch == nullptr)) {
      if (idle && device.running == 0 && ++device.idle_rounds > IDLE_ROUNDS * (device.used + 1)) {
        report_deadlock();
        device.error = 702;  // cudaErrorLaunchTimeout
        device.stop = true;
        break;
      }
      if (!idle) {
        device.idle_rounds = 0;
      }
      b = longest_suspended();
    } else if (launch != nullptr) {
      b = start_next(*launch);
      device.idle_rounds = 0;
    } else if (device.running > 0) {  // whose blocks may end, and make room
      wait_a_moment();
      continue;
    } else {
      break;
    }
    ++device.running;
    progress = __atomic_load_n(&device.progress, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&device.lock);
    continue_block(*b);
    pthread_mutex_lock(&device.lock);
    --device.running;
    if (__atomic_load_n(&device.progress, __ATOMIC_RELAXED) != progress) {
      device.idle_rounds = 0;
    }
    if (b->suspended && !device.stop) {
      suspend(*b);
    } else {
      forget_what_it_knows(*b);
      --b->launch->resident;
      b->next = device.free;
      device.free = b;
      __atomic_fetch_add(&device.progress, 1, __ATOMIC_RELAXED);
    }
    pthread_cond_signal(&device.changed);
  }
  pthread_cond_broadcast(&device.changed);
  pthread_mutex_unlock(&device.lock);
  return nullptr;
}

EMULATOR_PLAIN static unsigned host_threads() {
  cpu_set_t cpus;
  unsigned count = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
  if (worker_limit > 0 && count > static_cast<unsigned>(worker_limit)) {
    count = worker_limit;
  }
  return count < MAX_WORKERS ? count : MAX_WORKERS;
}

// Waits for a host thread for so long, and for a moment at least.
EMULATOR_PLAIN static bool joined_within(pthread_t host, double seconds) {
  double end_s = seconds_of(CLOCK_REALTIME) + (seconds > 0.01 ? seconds : 0.01);
  timespec end;
  end.tv_sec = static_cast<time_t>(end_s);
  end.tv_nsec = static_cast<long>((end_s - static_cast<double>(end.tv_sec)) * 1e9);
  return pthread_timedjoin_np(host, nullptr, &end) == 0;
}

// Runs all blocks of the launches of `device`.
EMULATOR_PLAIN static int run_launches() {
  unsigned most_threads = 32;
  uint64_t work_items = 0;
  for (unsigned i = 0; i < device.launch_count; ++i) {
    most_threads = device.launches[i]->threads > most_threads ? device.launches[i]->threads : most_threads;
    work_items += device.launches[i]->turns * device.launches[i]->cluster_blocks;
  }
  block_shift = __builtin_ctzll(STACK);
  while (STACK * most_threads > 1ull << block_shift) {
    ++block_shift;
  }
  unsigned most = static_cast<unsigned>(MAX_FIBERS * STACK >> block_shift);
  most = (most < MAX_BLOCKS ? most : MAX_BLOCKS) / device.launch_count;
  uint64_t places = 0;
  for (unsigned i = 0; i < device.launch_count; ++i) {
    Launch& each = *device.launches[i];
    each.most_resident = each.most_resident < most ? each.most_resident : most;
    uint64_t own = each.turns * each.cluster_blocks;
    places += own < each.most_resident ? own : each.most_resident;
  }
  make_room(places);
  device.stop = false;
  device.error = 0;
  device.free = device.first = device.last = nullptr;
  device.used = device.running = device.idle_rounds = device.started = 0;
  forget_order();
  device.progress = 0;
  device.left_for_others = device.has_written = false;
  device.accesses = 0;
  device.began_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  double end_s = device.began_s + timeout_s;
  uint64_t begun = places;  // may begin at once
  unsigned count = host_threads();
  count = count < work_items ? count : static_cast<unsigned>(work_items);
  pthread_t hosts[MAX_WORKERS];
  for (unsigned i = 0; i < count; ++i) {
    if (int error = pthread_create(&hosts[i], nullptr, work, nullptr)) {
      give_up("pthread_create", error);
    }
  }
  for (unsigned i = 0; i < count; ++i) {
    while (!joined_within(hosts[i], end_s - seconds_of(CLOCK_PROCESS_CPUTIME_ID))) {
      double now_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
      if (now_s >= end_s && now_s - device.began_s < PATIENCE * timeout_s && blocks_begun() > begun) {
        begun = blocks_begun();  // slow, and not endless
        end_s = now_s + timeout_s;
      } else if (!device.stop && now_s >= end_s) {
        report("timeout", Where(), "has not ended after %.3g s of CPU time", now_s - device.began_s);
        stop_launch(702);  // cudaErrorLaunchTimeout
      }
    }
  }
  constexpr unsigned KEPT = 64;  // places whose memory is used again; that of more is given back
  if (device.used > KEPT) {
    uintptr_t stacks_kept = static_cast<uintptr_t>(KEPT) << block_shift;
    madvise(reinterpret_cast<void*>(stacks + stacks_kept), stacks_bytes - stacks_kept, MADV_DONTNEED);
    madvise(reinterpret_cast<void*>(all_shared + KEPT * SHARED_RESERVED), all_shared_bytes - KEPT * SHARED_RESERVED,
            MADV_DONTNEED);
  }
  return device.error;
}

}  // namespace emulator

#include "emulator_host.h"

namespace emulator {

int last_error = 0;

EMULATOR_NOINLINE void report_host(const char* kind, const char* text) { report(kind, Where(), "%s", text); }

EMULATOR_NOINLINE unsigned blocks_per_sm(unsigned threads, size_t shared_bytes) {
  unsigned by_threads = THREADS_PER_SM / ((threads + 31) / 32 * 32);
  size_t by_memory = SHARED_PER_SM / (shared_bytes + 1024);  // 1 KiB of each block is the system's
  size_t count = by_threads < by_memory ? by_threads : by_memory;
  return static_cast<unsigned>(count < BLOCKS_PER_SM ? count : BLOCKS_PER_SM);
}

// The name of a function, also of one that is static or in an unnamed namespace; null if it has none.
EMULATOR_PLAIN static const char* function_name(const void* function) {
  for (unsigned i = 0; i < local_function_count; ++i) {
    if (local_functions[i].address == reinterpret_cast<uintptr_t>(function)) {
      return local_functions[i].name;
    }
  }
  Dl_info exported;
  return dladdr(function, &exported) == 0 ? nullptr : exported.dli_sname;
}

// The arrays that the kernel declares itself: their names are its own and more.
EMULATOR_NOINLINE size_t static_shared_of(const void* kernel) {
  prepare_library();
  size_t bytes = 0;
  const char* name = function_name(kernel);
  if (name == nullptr) {
    return bytes;
  }
  char encoded[256];
  bool mangled = strncmp(name, "_Z", 2) == 0;  // as no extern "C" kernel is
  snprintf(encoded, sizeof encoded, "%zu%s", strlen(name), name);
  const char* of_kernel = mangled ? name + 2 : encoded;
  for (unsigned i = 0; i < shared_array_count; ++i) {
    const char* symbol = shared_arrays[i].symbol;
    if (strncmp(symbol, "_ZZ", 3) == 0 && strncmp(symbol + 3, of_kernel, strlen(of_kernel)) == 0) {
      bytes += shared_arrays[i].bytes;
    }
  }
  return bytes;
}

constexpr size_t UNASKED = 48 * 1024;  // bytes of shared memory that a kernel has without being allowed to

struct Allowed {
  const void* kernel;
  size_t bytes;
};
static Allowed* allowed;
static uint32_t allowed_count, allowed_capacity;

EMULATOR_NOINLINE void allow_dynamic_shared(const void* kernel, size_t bytes) {
  for (uint32_t i = 0; i < allowed_count; ++i) {
    if (allowed[i].kernel == kernel) {
      allowed[i].bytes = bytes;
      return;
    }
  }
  append(allowed, allowed_count, allowed_capacity) = {kernel, bytes};
}
EMULATOR_NOINLINE size_t allowed_dynamic_shared(const void* kernel) {
  size_t own = kernel != nullptr ? static_shared_of(kernel) : 0;
  size_t most = own < UNASKED ? UNASKED - own : 0;
  for (uint32_t i = 0; i < allowed_count; ++i) {
    if (kernel == allowed[i].kernel) {
      return allowed[i].bytes;
    }
    most = kernel == nullptr && allowed[i].bytes > most ? allowed[i].bytes : most;
  }
  return most;
}

EMULATOR_NOINLINE void require_threads(unsigned most, unsigned, unsigned) {
  uintptr_t code = EMULATOR_CALLER;
  const Thread* t = this_thread();
  if (t->block->count > most) {
    Where where;
    where.code = code;
    report("launch", where, "is launched with %u threads in a block, and its __launch_bounds__ are %u", t->block->count,
           most);
    stop_launch(701);  // cudaErrorLaunchOutOfResources
  }
}

EMULATOR_NOINLINE int run_grid(void (*invoke)(const void*), const void* closure, uintptr_t kernel, bool is_kernel,
                               const char* name, const Configuration& as) {
  prepare_library();
  if (fails("a launch")) {
    failed.name = name;
    failed.kernel = kernel;
    return 719;  // cudaErrorLaunchFailure
  }
  if (told_count < sizeof told_launches / sizeof *told_launches) {
    told_launches[told_count++] = {is_kernel ? kernel : 0,
                                   {as.grid.x, as.grid.y, as.grid.z},
                                   {as.block.x, as.block.y, as.block.z},
                                   as.dynamic_bytes,
                                   strstr(as.file, "launch.cuh") != nullptr};
  }
  if (coverage.on) {
    cover_launch(kernel, closure, as);
  }
  pthread_mutex_lock(&launch_lock);
  Launch launch = {};
  launch.invoke = invoke;
  launch.closure = closure;
  launch.kernel = kernel;
  launch.name = name;
  launch.as = as;
  device.launches[0] = &launch;
  device.launch_count = 1;
  check_stream(as.stream, "work", "fourth argument of the launch");
  uint3 grid = as.grid, block = as.block, cluster = as.cluster;
  uint64_t threads = static_cast<uint64_t>(block.x) * block.y * block.z;
  uint64_t cluster_blocks = static_cast<uint64_t>(cluster.x) * cluster.y * cluster.z;
  const void* address = is_kernel ? reinterpret_cast<const void*>(kernel) : nullptr;
  size_t own_bytes = is_kernel ? static_shared_of(address) : 0;
  int error = 0;
  const char* too_large = grid.x == 0 || grid.y == 0 || grid.z == 0 ? "a grid has at least one block along x, y and z"
                          : grid.x > 0x7FFFFFFF                     ? "a grid has at most 2147483647 blocks along x"
                          : grid.y > 65535 || grid.z > 65535
                              ? "a grid has at most 65535 blocks along y and z; number the tiles along x (tile_grid)"
                          : threads == 0          ? "a block has at least one thread"
                          : threads > MAX_THREADS ? "a block has at most 1024 threads"
                          : block.z > 64          ? "a block has at most 64 threads along z"
                                                  : nullptr;
  if (too_large != nullptr) {
    report("launch", Where(), "is launched with a grid of (%u,%u,%u) blocks of (%u,%u,%u) threads: %s", grid.x, grid.y,
           grid.z, block.x, block.y, block.z, too_large);
    error = 9;  // cudaErrorInvalidConfiguration
  } else if (cluster_blocks == 0 || cluster_blocks > 16 || grid.x % cluster.x != 0 || grid.y % cluster.y != 0 ||
             grid.z % cluster.z != 0) {
    report("launch", Where(), "a grid of (%u,%u,%u) blocks has no clusters of (%u,%u,%u)", grid.x, grid.y, grid.z,
           cluster.x, cluster.y, cluster.z);
    error = 912;  // cudaErrorInvalidClusterSize
  } else if (own_bytes > UNASKED) {
    report("launch", Where(), "has %zu bytes of __shared__ arrays, and nvcc compiles %zu at most; use dynamic memory",
           own_bytes, UNASKED);
    error = 1;  // cudaErrorInvalidValue
  } else if (own_bytes + as.dynamic_bytes > MAX_DYNAMIC_SHARED) {
    report("launch", Where(), "%zu bytes of shared memory are more than %zu", own_bytes + as.dynamic_bytes,
           MAX_DYNAMIC_SHARED);
    error = 1;  // cudaErrorInvalidValue
  } else if (as.dynamic_bytes > allowed_dynamic_shared(address)) {
    report("launch", Where(),
           "asks for more than 48 KiB of shared memory, for which cudaFuncSetAttribute(kernel, "
           "cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) has to be called first");
    error = 1;  // cudaErrorInvalidValue
  }
  // As in a cubin: behind the kernel's own arrays, aligned as it is declared, and to 16 bytes at least.
  launch.dynamic_shift = (own_bytes + dynamic_alignment - 1) / dynamic_alignment * dynamic_alignment % ALIGNED_ALIKE;
  launch.threads = static_cast<unsigned>(threads);
  launch.cluster_blocks = static_cast<unsigned>(cluster_blocks);
  launch.blocks = static_cast<uint64_t>(grid.x) * grid.y * grid.z;
  if (error == 0) {
    keep_largest(is_kernel ? kernel : 0, name, threads);
    launch.most_resident = blocks_per_sm(launch.threads, as.dynamic_bytes) * static_cast<unsigned>(sms);
    launch.most_resident = launch.most_resident > cluster_blocks ? launch.most_resident : launch.cluster_blocks;
    if (as.cooperative && launch.blocks > launch.most_resident) {
      report("launch", Where(), "a cooperative launch of %llu blocks, of which %d SMs hold %u",
             static_cast<unsigned long long>(launch.blocks), sms, launch.most_resident);
      error = 720;  // cudaErrorCooperativeLaunchTooLarge
    }
  }
  if (error == 0) {
    set_turns(launch);
    if (capturing) {
      void* copy = aligned_alloc(128, (as.closure_bytes + 127) / 128 * 128);  // as a tensor map has to be, and more
      memcpy(copy, closure, as.closure_bytes);
      launch.closure = copy;
      Graph& graph = graphs[graph_count - 1];
      append(graph.work, graph.count, graph.capacity).launch = launch;
    } else {
      error = run_now(&launch, nullptr);
    }
  }
  device.launch_count = 0;
  device.launches[0] = nullptr;
  pthread_mutex_unlock(&launch_lock);
  return error;
}

// ---------------------------------------------------------------------------------------------------------------------
// Text.

struct Place {  // of an address in the source
  uintptr_t code;
  char line[128], function[128];
};

// Asks addr2line, once for an address: the innermost call that stands in a .cu file, else the innermost of all; and the
// outermost function, which is the kernel.
EMULATOR_PLAIN static const Place& place_of(uintptr_t code) {
  static Place known[4 * MAX_FINDINGS];
  static unsigned count;
  for (unsigned i = 0; i < count; ++i) {
    if (known[i].code == code) {
      return known[i];
    }
  }
  count = count < 4 * MAX_FINDINGS ? count : 0;
  Place& p = known[count++];
  p.code = code;
  snprintf(p.line, sizeof p.line, "code +0x%zx", static_cast<size_t>(code - image));
  snprintf(p.function, sizeof p.function, "kernel");
  char command[1024], line[1024], name[1024];
  snprintf(command, sizeof command, "addr2line -Cfi -e '%s' 0x%zx 2>/dev/null", library_name(),
           static_cast<size_t>(code - image));
  FILE* pipe = popen(command, "r");
  bool found = false, in_rung = false;
  while (pipe != nullptr && fgets(name, sizeof name, pipe) && fgets(line, sizeof line, pipe)) {
    line[strcspn(line, " \n")] = 0;
    name[strcspn(name, "(\n")] = 0;
    snprintf(p.function, sizeof p.function, "%s", name + (strncmp(name, "void ", 5) == 0 ? 5 : 0));  // of a template
    if (line[0] != '?' && (!found || (!in_rung && strstr(line, ".cu:") != nullptr))) {
      const char* slash = strrchr(line, '/');
      snprintf(p.line, sizeof p.line, "%s", slash == nullptr ? line : slash + 1);
      found = true;
      in_rung = strstr(line, ".cu:") != nullptr;
    }
  }
  if (pipe != nullptr) {
    pclose(pipe);
  }
  return p;
}

}  // namespace emulator

// ---------------------------------------------------------------------------------------------------------------------
// Hooks that g++ calls.

#define EMULATOR_ACCESS(name, bytes, access, function)                                            \
  EMULATOR_HOOK void __tsan_##name(void* p) {                                                     \
    emulator::function(reinterpret_cast<uintptr_t>(p), bytes, emulator::access, EMULATOR_CALLER); \
  }
EMULATOR_ACCESS(read4, 4, READ, check_quickly)
EMULATOR_ACCESS(read8, 8, READ, check_quickly)
EMULATOR_ACCESS(read16, 16, READ, check_quickly)
EMULATOR_ACCESS(read1, 1, READ, check)
EMULATOR_ACCESS(read2, 2, READ, check)
EMULATOR_ACCESS(write1, 1, WRITE, check)
EMULATOR_ACCESS(write2, 2, WRITE, check)
EMULATOR_ACCESS(write4, 4, WRITE, check_quickly)
EMULATOR_ACCESS(write8, 8, WRITE, check_quickly)
EMULATOR_ACCESS(write16, 16, WRITE, check_quickly)
EMULATOR_ACCESS(unaligned_read2, 2, READ, check)
EMULATOR_ACCESS(unaligned_read4, 4, READ, check)
EMULATOR_ACCESS(unaligned_read8, 8, READ, check)
EMULATOR_ACCESS(unaligned_read16, 16, READ, check)
EMULATOR_ACCESS(unaligned_write2, 2, WRITE, check)
EMULATOR_ACCESS(unaligned_write4, 4, WRITE, check)
EMULATOR_ACCESS(unaligned_write8, 8, WRITE, check)
EMULATOR_ACCESS(unaligned_write16, 16, WRITE, check)
#define EMULATOR_VOLATILE(bytes)                                                                        \
  EMULATOR_HOOK void __tsan_volatile_read##bytes(void* p) {                                             \
    emulator::strong(reinterpret_cast<uintptr_t>(p), bytes, emulator::STRONG_READ, EMULATOR_CALLER);    \
  }                                                                                                     \
  EMULATOR_HOOK void __tsan_volatile_write##bytes(void* p) {                                            \
    emulator::strong(reinterpret_cast<uintptr_t>(p), bytes, emulator::STRONG_WRITE, EMULATOR_CALLER);   \
  }                                                                                                     \
  EMULATOR_HOOK void __tsan_unaligned_volatile_read##bytes(void* p) { __tsan_volatile_read##bytes(p); } \
  EMULATOR_HOOK void __tsan_unaligned_volatile_write##bytes(void* p) { __tsan_volatile_write##bytes(p); }
EMULATOR_VOLATILE(1)
EMULATOR_VOLATILE(2)
EMULATOR_VOLATILE(4)
EMULATOR_VOLATILE(8)
EMULATOR_VOLATILE(16)
EMULATOR_HOOK void __tsan_read_range(void* p, __SIZE_TYPE__ bytes) {
  emulator::check(reinterpret_cast<uintptr_t>(p), static_cast<unsigned>(bytes), emulator::READ, EMULATOR_CALLER);
}
EMULATOR_HOOK void __tsan_write_range(void* p, __SIZE_TYPE__ bytes) {
  emulator::check(reinterpret_cast<uintptr_t>(p), static_cast<unsigned>(bytes), emulator::WRITE, EMULATOR_CALLER);
}
namespace emulator {
// Of memcpy and its like, which cuda_runtime.h names so; a kernel's arguments are nobody's memory.
EMULATOR_PLAIN static void check_range(const void* pointer, size_t bytes, Access access, uintptr_t code) {
  uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  const Block* b = this_block();
  const Launch* launch = b != nullptr ? b->launch : nullptr;
  if (bytes > 0 &&
      (launch == nullptr || address - reinterpret_cast<uintptr_t>(launch->closure) >= launch->as.closure_bytes)) {
    check(address, bytes < UINT32_MAX ? static_cast<unsigned>(bytes) : UINT32_MAX, access, code);
  }
}
}  // namespace emulator
// Of an object with virtual functions the pointer to them, which its constructor writes, and a destructor before it writes.
EMULATOR_HOOK void __tsan_vptr_update(void** p, void*) {
  emulator::check_range(p, sizeof *p, emulator::WRITE, EMULATOR_CALLER);
}
EMULATOR_HOOK void __tsan_vptr_read(void** p) { emulator::check_range(p, sizeof *p, emulator::READ, EMULATOR_CALLER); }
EMULATOR_HOOK void* emulator_memmove(void* to, const void* from, __SIZE_TYPE__ bytes) {
  emulator::check_range(from, bytes, emulator::READ, EMULATOR_CALLER);
  emulator::check_range(to, bytes, emulator::WRITE, EMULATOR_CALLER);
  return memmove(to, from, bytes);
}
EMULATOR_HOOK void* emulator_memcpy(void* to, const void* from, __SIZE_TYPE__ bytes) {
  emulator::check_range(from, bytes, emulator::READ, EMULATOR_CALLER);
  emulator::check_range(to, bytes, emulator::WRITE, EMULATOR_CALLER);
  return memmove(to, from, bytes);
}
EMULATOR_HOOK void* emulator_memset(void* to, int value, __SIZE_TYPE__ bytes) {
  emulator::check_range(to, bytes, emulator::WRITE, EMULATOR_CALLER);
  return memset(to, value, bytes);
}

namespace emulator {
// The thread-local variables of the calling host thread, made when it first asks for one. Those that are __shared__ arrays
// are there as well, and nobody uses them.
EMULATOR_NOINLINE static char* of_host_thread() {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  static pthread_key_t key;
  pthread_once(&once, []() EMULATOR_PLAIN { pthread_key_create(&key, free); });
  char* own = static_cast<char*>(pthread_getspecific(key));
  if (own == nullptr) {
    prepare_library();
    own = static_cast<char*>(aligned_alloc(1024, (thread_locals.bytes + 1023) / 1024 * 1024));
    memcpy(own, thread_locals.image, thread_locals.image_bytes);
    memset(own + thread_locals.image_bytes, 0, thread_locals.bytes - thread_locals.image_bytes);
    pthread_setspecific(key, own);
  }
  return own;
}
}  // namespace emulator
// Thread-local variables of a kernel are __shared__ arrays: the running block's.
struct emulator_tls_index {
  unsigned long module, offset;
};
EMULATOR_HOOK void* __tls_get_addr(const emulator_tls_index* of) {
  using namespace emulator;
  const Block* b = this_block();
  return b == nullptr ? of_host_thread() + of->offset
                      : reinterpret_cast<void*>(b->shared + place_of_shared[of->offset]);
}

// std::atomic in host code; CUDA has none for kernels.
#define EMULATOR_HOST_UPDATE(bits, name)                                                                     \
  EMULATOR_HOOK uint##bits##_t __tsan_atomic##bits##_fetch_##name(volatile void* p, uint##bits##_t v, int) { \
    return __atomic_fetch_##name(static_cast<volatile uint##bits##_t*>(p), v, __ATOMIC_SEQ_CST);             \
  }
#define EMULATOR_HOST_ATOMICS(bits)                                                                                    \
  EMULATOR_HOOK uint##bits##_t __tsan_atomic##bits##_load(const volatile void* p, int) {                               \
    return __atomic_load_n(static_cast<const volatile uint##bits##_t*>(p), __ATOMIC_SEQ_CST);                          \
  }                                                                                                                    \
  EMULATOR_HOOK void __tsan_atomic##bits##_store(volatile void* p, uint##bits##_t v, int) {                            \
    __atomic_store_n(static_cast<volatile uint##bits##_t*>(p), v, __ATOMIC_SEQ_CST);                                   \
  }                                                                                                                    \
  EMULATOR_HOOK uint##bits##_t __tsan_atomic##bits##_exchange(volatile void* p, uint##bits##_t v, int) {               \
    return __atomic_exchange_n(static_cast<volatile uint##bits##_t*>(p), v, __ATOMIC_SEQ_CST);                         \
  }                                                                                                                    \
  EMULATOR_HOOK bool __tsan_atomic##bits##_compare_exchange_strong(volatile void* p, void* expected, uint##bits##_t v, \
                                                                   int, int) {                                         \
    return __atomic_compare_exchange_n(static_cast<volatile uint##bits##_t*>(p),                                       \
                                       static_cast<uint##bits##_t*>(expected), v, false, __ATOMIC_SEQ_CST,             \
                                       __ATOMIC_SEQ_CST);                                                              \
  }                                                                                                                    \
  EMULATOR_HOOK bool __tsan_atomic##bits##_compare_exchange_weak(volatile void* p, void* expected, uint##bits##_t v,   \
                                                                 int, int) {                                           \
    return __tsan_atomic##bits##_compare_exchange_strong(p, expected, v, 0, 0);                                        \
  }                                                                                                                    \
  EMULATOR_HOST_UPDATE(bits, add)                                                                                      \
  EMULATOR_HOST_UPDATE(bits, sub)                                                                                      \
  EMULATOR_HOST_UPDATE(bits, and)                                                                                      \
  EMULATOR_HOST_UPDATE(bits, or)                                                                                       \
  EMULATOR_HOST_UPDATE(bits, xor)                                                                                      \
  EMULATOR_HOST_UPDATE(bits, nand)
EMULATOR_HOST_ATOMICS(8)
EMULATOR_HOST_ATOMICS(16)
EMULATOR_HOST_ATOMICS(32)
EMULATOR_HOST_ATOMICS(64)
EMULATOR_HOOK void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
EMULATOR_HOOK void __tsan_atomic_signal_fence(int) {}

EMULATOR_HOOK void __tsan_init() {}
EMULATOR_HOOK void __tsan_func_entry(void*) {}
EMULATOR_HOOK void __tsan_func_exit() {}

// The handlers' first argument starts with the place in the source.
struct emulator_ubsan_place {
  const char* file;
  uint32_t line, column;
};
namespace emulator {
EMULATOR_NOINLINE static void undefined(const void* data, const char* text) {
  const emulator_ubsan_place& place = *static_cast<const emulator_ubsan_place*>(data);
  const char* slash = strrchr(place.file, '/');
  Where where;
  where.code = reinterpret_cast<uintptr_t>(data);  // one finding a place
  where.file = slash == nullptr ? place.file : slash + 1;
  where.line = place.line;
  report("undefined behaviour", where, "%s", text);
  stop_launch(719);  // cudaErrorLaunchFailure; in host code the launch that follows clears it
}
}  // namespace emulator
EMULATOR_HOOK void __ubsan_handle_add_overflow(void* data, void*, void*) {
  emulator::undefined(data, "integer overflow in +");
}
EMULATOR_HOOK void __ubsan_handle_sub_overflow(void* data, void*, void*) {
  emulator::undefined(data, "integer overflow in -");
}
EMULATOR_HOOK void __ubsan_handle_mul_overflow(void* data, void*, void*) {
  emulator::undefined(data, "integer overflow in *");
}
EMULATOR_HOOK void __ubsan_handle_negate_overflow(void* data, void*) {
  emulator::undefined(data, "integer overflow in -");
}
EMULATOR_HOOK void __ubsan_handle_divrem_overflow(void* data, void*, void*) {
  emulator::undefined(data, "division by zero or overflow");
}
EMULATOR_HOOK void __ubsan_handle_shift_out_of_bounds(void* data, void*, void*) {
  emulator::undefined(data, "undefined shift");
}
EMULATOR_HOOK void __ubsan_handle_out_of_bounds(void* data, void* index) {
  char text[64];
  snprintf(text, sizeof text, "index %td outside its array", reinterpret_cast<ptrdiff_t>(index));
  emulator::undefined(data, text);
}
EMULATOR_HOOK void __ubsan_handle_type_mismatch_v1(void* data, void* pointer) {
  struct Mismatch {
    emulator_ubsan_place place;
    const void* type;
    unsigned char log_alignment;
  };
  const Mismatch& m = *static_cast<const Mismatch*>(data);
  const char* slash = strrchr(m.place.file, '/');
  emulator::Where where;
  where.code = reinterpret_cast<uintptr_t>(data);
  where.file = slash == nullptr ? m.place.file : slash + 1;
  where.line = m.place.line;
  emulator::misaligned(reinterpret_cast<uintptr_t>(pointer), 1u << m.log_alignment, where);
}

// A kernel's clock(), in the place of the C library's, which would give another number each time.
extern "C" __attribute__((visibility("hidden"))) clock_t clock() noexcept {
  return static_cast<clock_t>(emulator::clock());
}

// ---------------------------------------------------------------------------------------------------------------------
// The interface for the host; README.md describes it.

#define EMULATOR_API extern "C" __attribute__((visibility("default"), used)) EMULATOR_PLAIN

namespace emulator {
// A product begins: what kernels have written to variables is of an earlier one.
EMULATOR_PLAIN static void forget_writes_to_variables() {
  for (unsigned i = 0; i < variable_count; ++i) {
    for (uintptr_t word = 0; variables[i].shadow != nullptr && word * 4 < variables[i].bytes; ++word) {
      variables[i].shadow[word] =
          variables[i].shadow[word] > GLOBAL_WRITTEN ? OF_EARLIER_PRODUCT : variables[i].shadow[word];
      variables[i].readers[word] = 0;
    }
  }
}
}  // namespace emulator

EMULATOR_API void emulator_reset(uint64_t seed) {
  using namespace emulator;
  for (unsigned i = 0; i < buffer_count; ++i) {
    if (buffers[i].shadow != nullptr) {
      munmap(buffers[i].shadow, buffers[i].bytes / 4 * 2 * sizeof(GlobalStamp));
      free(buffers[i].parts);
    }
  }
  buffer_count = input_count = finding_count = 0;
  device.batch = device.skipped = 0;
  before = {};
  any_queued = asked_occupancy = false;
  forget_writes_to_variables();
  forget_streams();
  forget_graphs();
  last_error = 0;
  work_count = call_count = failing = told_count = 0;
  emulator::seed = seed;
}

EMULATOR_API int emulator_register_buffer(const char* name, const void* pointer, int64_t rows, int64_t cols, int64_t ld,
                                          const char* access) {
  using namespace emulator;
  if (buffer_count == MAX_BUFFERS || rows < 0 || cols < 0 || ld < 1) {
    return 1;
  }
  if (rows == 0 || cols == 0) {
    return 0;
  }
  Buffer& b = buffers[buffer_count++];
  memset(&b, 0, sizeof b);
  snprintf(b.name, sizeof b.name, "%s", name);
  b.base = reinterpret_cast<uintptr_t>(pointer);
  b.bytes = ((rows - 1) * ld + cols) * 4;
  b.rows = rows;
  b.cols = cols;
  b.ld = ld;
  b.defined = strchr(access, 'r') != nullptr;
  b.writable = strchr(access, 'w') != nullptr;
  b.between_blocks = strchr(access, 'b') != nullptr;
  b.readable = b.defined || b.writable;
  if (b.readable && !b.writable) {
    inputs[input_count++] = {b.base, b.bytes};
  }
  if (b.writable) {
    void* shadow = try_map(b.bytes / 4 * 2 * sizeof(GlobalStamp));
    if (shadow == MAP_FAILED) {
      --buffer_count;
      return 1;
    }
    b.shadow = static_cast<GlobalStamp*>(shadow);
    b.readers = b.shadow + b.bytes / 4;
    b.parts = static_cast<uint8_t*>(calloc(b.bytes / 4 / PART + 1, 1));
  }
  return 0;
}

EMULATOR_API int emulator_report(char* text, size_t size) {
  using namespace emulator;
  check_streams_joined();
  size_t used = 0;
  int count = 0;
  if (size > 0) {
    text[0] = 0;
  }
  static char told[MAX_FINDINGS][512];  // kind, lines and array of each line of the report
  for (unsigned i = 0; i < finding_count; ++i) {
    const Finding& f = findings[i];
    // A return address is one instruction too far.
    const char* at = f.at[0] != 0 ? f.at : f.code != 0 ? place_of(f.code - 1).line : nullptr;
    const char* other = f.other_code != 0 ? place_of(f.other_code - 1).line : nullptr;
    if (strcmp(f.kind, "divergent barrier") == 0 && other != nullptr && strcmp(at, other) == 0) {
      continue;  // one barrier of the source that the compiler has written twice
    }
    char line[1024];
    snprintf(told[count], sizeof told[count], "%s|%s|%s|%s|%zx", f.kind, at != nullptr ? at : "",
             other != nullptr ? other : "", f.array, static_cast<size_t>(f.kernel));
    bool again = false;
    for (int j = 0; j < count && !again; ++j) {
      again = strcmp(told[j], told[count]) == 0;
    }
    if (again) {
      continue;
    }
    const char* kernel = f.name != nullptr ? f.name : f.kernel != 0 ? place_of(f.kernel).function : "host code";
    int length = snprintf(line, sizeof line, "%s: %s ", f.kind, kernel);
    if (f.on_device) {
      length += snprintf(line + length, sizeof line - length, "block (%u,%u,%u) thread (%u,%u,%u) ", f.block.x,
                         f.block.y, f.block.z, f.thread.x, f.thread.y, f.thread.z);
    }
    length += snprintf(line + length, sizeof line - length, "%s", f.text);
    if (at != nullptr) {
      length += snprintf(line + length, sizeof line - length, "; %s", at);
    }
    if (other != nullptr) {
      length += snprintf(line + length, sizeof line - length, "; the other: %s", other);
    }
    ++count;
    if (used + length + 2 <= size) {
      used += snprintf(text + used, size - used, "%s\n", line);
    }
  }
  return count;
}

EMULATOR_API int emulator_only_unwritten() {
  using namespace emulator;
  for (unsigned i = 0; i < finding_count; ++i) {
    if (!findings[i].of_unwritten) {
      return 0;
    }
  }
  return finding_count > 0;
}
namespace emulator {
// The elements of a matrix that kernels have written.
template <typename Do>
EMULATOR_PLAIN static void for_each_written(const Buffer& b, Do&& tell) {
  for (uintptr_t part = 0, words = b.parts != nullptr ? b.bytes / 4 : 0; part * PART < words; ++part) {
    uintptr_t end = (part + 1) * PART < words ? (part + 1) * PART : words;
    for (uintptr_t word = b.parts[part] != 0 ? part * PART : end; word < end; ++word) {
      if (int64_t column = static_cast<int64_t>(word) % b.ld; b.shadow[word] > GLOBAL_WRITTEN && column < b.cols) {
        tell(static_cast<int64_t>(word) / b.ld, column, b.shadow[word]);
      }
    }
  }
}
}  // namespace emulator
EMULATOR_API void emulator_set_unwritten(int byte) { emulator::unwritten = byte; }
EMULATOR_API void emulator_written(const void* pointer, unsigned char* written) {
  using namespace emulator;
  for (unsigned i = 0; i < buffer_count; ++i) {
    const Buffer& b = buffers[i];
    if (b.base == reinterpret_cast<uintptr_t>(pointer)) {
      for_each_written(
          b, [&](int64_t row, int64_t column, GlobalStamp) EMULATOR_PLAIN { written[row * b.cols + column] = 1; });
    }
  }
}
// How many elements of a matrix no block of a launch can have written, if each of those that did not run writes as many as
// the one that wrote most.
EMULATOR_API int64_t emulator_uncovered(const void* pointer) {
  using namespace emulator;
  constexpr unsigned MOST = 1024;  // blocks of a launch that have run
  for (unsigned i = 0; i < buffer_count; ++i) {
    const Buffer& b = buffers[i];
    if (b.base != reinterpret_cast<uintptr_t>(pointer) || device.batch >= LAST_BATCH) {
      continue;
    }
    uint32_t* written = static_cast<uint32_t*>(calloc((device.batch + 1) * MOST, sizeof(uint32_t)));
    bool all_counted = true;
    for_each_written(b, [&](int64_t, int64_t, GlobalStamp stamp) EMULATOR_PLAIN {
      all_counted = all_counted && id_of(stamp) < MOST;
      ++written[(stamp >> 53 & LAST_BATCH) * MOST + id_of(stamp) % MOST];
    });
    int64_t covered = 0, elements = b.rows * b.cols;
    for (uint64_t batch = 0; batch <= device.batch; ++batch) {
      int64_t most = 0;
      for (unsigned block = 0; block < MOST; ++block) {
        int64_t own = written[batch * MOST + block];
        most = own > most ? own : most;
        covered += own;
      }
      covered += most * static_cast<int64_t>(left_of_batch[batch]);
    }
    free(written);
    return all_counted && covered < elements ? elements - covered : 0;
  }
  return 0;
}
EMULATOR_API const char* emulator_variable_written() {
  using namespace emulator;
  for (unsigned i = 0; i < variable_count; ++i) {
    for (uintptr_t word = 0; variables[i].shadow != nullptr && word * 4 < variables[i].bytes; ++word) {
      if (variables[i].shadow[word] > GLOBAL_WRITTEN) {
        return variables[i].name;
      }
    }
  }
  return "";
}
EMULATOR_API void emulator_set_sms(int count) { emulator::sms = count; }
EMULATOR_API void emulator_set_stream(const void* stream) {
  emulator::stream = stream;
  emulator::forget_streams();
}
EMULATOR_API void emulator_begin_capture() {
  using namespace emulator;
  if (graph_count < sizeof graphs / sizeof *graphs) {
    ++graph_count;
  }
  capturing = true;
}
EMULATOR_API int emulator_end_capture() {
  emulator::capturing = false;
  return static_cast<int>(emulator::graph_count) - 1;
}
// What was written before counts as never written: the host has filled all matrices anew.
EMULATOR_API void emulator_begin_replay() {
  using namespace emulator;
  for (unsigned i = 0; i < buffer_count; ++i) {
    if (buffers[i].shadow != nullptr) {
      memset(buffers[i].shadow, 0, buffers[i].bytes / 4 * 2 * sizeof(GlobalStamp));
    }
  }
  forget_writes_to_variables();
  before = {};
  any_queued = false;
}
EMULATOR_API int emulator_replay(int graph, int beside) {
  using namespace emulator;
  pthread_mutex_lock(&launch_lock);
  int error = replay(graphs[graph], beside < 0 ? nullptr : graphs + beside);
  pthread_mutex_unlock(&launch_lock);
  return error;
}
EMULATOR_API void emulator_begin_coverage(const int64_t* dimensions) {
  using namespace emulator;
  memset(&coverage, 0, sizeof coverage);
  memcpy(coverage.dimensions, dimensions, sizeof coverage.dimensions);
  coverage.on = true;
}
// Writes the features, then the number of each comparison and how near its sides came. Stores how many of each, and how
// many branches and comparisons host code came to.
EMULATOR_API void emulator_end_coverage(uint64_t* numbers, uint64_t* counts) {
  using namespace emulator;
  coverage.on = false;
  uint64_t features = 0, comparisons = 0;
  for (uint64_t feature : coverage.features) {
    if (feature != 0) {
      numbers[features++] = feature;
    }
  }
  for (const Nearness& each : coverage.nearest) {
    if (each.comparison != 0) {
      numbers[features + 2 * comparisons] = each.comparison;
      numbers[features + 2 * comparisons++ + 1] = each.distance;
    }
  }
  counts[0] = features;
  counts[1] = comparisons;
  counts[2] = coverage.calls;
}
EMULATOR_API uint64_t emulator_work() { return emulator::work_count; }
EMULATOR_API uint64_t emulator_launches(const void** first) {
  *first = emulator::told_launches;
  return emulator::told_count;
}
EMULATOR_API uint64_t emulator_largest_blocks(const void** first) {
  *first = emulator::largest_blocks;
  return emulator::largest_count;
}
EMULATOR_API uint64_t emulator_calls() { return emulator::call_count; }
EMULATOR_API void emulator_fail(uint64_t call) {
  emulator::failing = call == 0 || call == emulator::EVERY_CALL ? call : emulator::call_count + call;
}
EMULATOR_API void emulator_set_last_error(int error) { emulator::last_error = error; }
EMULATOR_API const char* emulator_failed() {
  using namespace emulator;
  static char text[256];
  const char* kernel = failed.name != nullptr ? failed.name
                       : failed.kernel != 0   ? place_of(failed.kernel).function
                                              : "";
  snprintf(text, sizeof text, "%s%s%s", failed.call, *kernel != 0 ? " of " : "", kernel);
  return text;
}
EMULATOR_API void emulator_set_workers(int count) { emulator::worker_limit = count; }
EMULATOR_API uint64_t emulator_skipped() { return emulator::device.skipped; }
EMULATOR_API int emulator_asked_occupancy() { return emulator::asked_occupancy; }
EMULATOR_API void emulator_set_most_blocks(uint64_t count) { emulator::most_blocks = count; }
EMULATOR_API void emulator_set_most_accesses(uint64_t count) { emulator::most_accesses = count; }
EMULATOR_API void emulator_set_timeout(double seconds) { emulator::timeout_s = seconds; }
