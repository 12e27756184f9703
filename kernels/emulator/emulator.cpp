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
#include <errno.h>
#include <link.h>
#include <sched.h>
#include <unistd.h>

#include "emulator_memory.h"

namespace emulator {

// ---------------------------------------------------------------------------------------------------------------------
// Barriers and warps.

// The thread to run next; one is ready.
EMULATOR_PLAIN inline Thread& next_thread(Worker& w) {
  for (;;) {
    Thread& t = w.threads[w.turn];
    w.turn = w.turn + w.step < now.threads ? w.turn + w.step : w.turn + w.step - now.threads;
    if (t.state == READY) {
      w.stamp = t.stamp;
      return t;
    }
  }
}

// Lets other threads run: from one to the next, for the processor foresees where a return leads that many threads take;
// the scheduler where none is ready.
EMULATOR_PLAIN inline void give_way(Thread* t, Worker& w) {
  if (w.ready == 0 || now.stop) {
    switch_context(t->context, w.scheduler);
  } else if (Thread& next = next_thread(w); &next != t) {
    switch_context(t->context, next.context);
  }
}

EMULATOR_NOINLINE void atomic_access(const void* pointer, unsigned bytes) {
  check(reinterpret_cast<uintptr_t>(pointer), bytes, ATOMIC_ACCESS, EMULATOR_CALLER);
  Thread* t = this_thread();
  t->worker->used_atomics = true;
  give_way(t, *t->worker);
}

EMULATOR_NOINLINE int barrier(int predicate) {
  Thread* t = this_thread();
  Worker& w = *t->worker;
  t->state = AT_BARRIER;
  t->barrier_at = EMULATOR_CALLER;
  w.predicate_sum += predicate != 0;
  ++w.at_barrier;
  --w.ready;
  give_way(t, w);
  return w.predicate_result;
}

// If all lanes that this lane waits for have come (or left the kernel), hands each its value and lets them go on.
EMULATOR_NOINLINE static bool complete_warp(Worker& w, unsigned first, unsigned lane, uintptr_t code) {
  Thread* lanes = w.threads + first;
  unsigned count = now.threads - first < 32 ? now.threads - first : 32;
  unsigned mask = lanes[lane].warp_mask, operation = lanes[lane].warp_operation;
  unsigned present = 0;
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
  }
  for (unsigned i = 0; i < count; ++i) {
    if (!(present >> i & 1)) {
      continue;
    }
    Thread& t = lanes[i];
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
    ++w.ready;
  }
  return true;
}

EMULATOR_NOINLINE uint64_t meet_warp(unsigned mask, unsigned operation, int source_lane, uint64_t offer) {
  uintptr_t code = EMULATOR_CALLER;
  Thread* t = this_thread();
  Worker& w = *t->worker;
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
  t->barrier_at = code;
  t->state = AT_WARP;
  --w.ready;
  if (complete_warp(w, t->number - lane, lane, code)) {
    w.stamp = t->stamp;
  } else {
    give_way(t, w);
  }
  return t->received;
}

// ---------------------------------------------------------------------------------------------------------------------
// The launch: workers take blocks in an order given by the seed, and run the block's threads from barrier to barrier,
// in another order each time.

EMULATOR_NOINLINE static void fiber() {
  now.invoke(now.closure);
  Thread* t = this_thread();
  Worker& w = *t->worker;
  t->state = EXITED;
  --w.ready;
  ++w.exited;
  unsigned first = t->number & ~31u;
  for (unsigned i = first; i < first + 32 && i < now.threads; ++i) {  // lanes that waited for this one only
    if (w.threads[i].state == AT_WARP) {
      complete_warp(w, first, i - first, w.threads[i].barrier_at);
    }
  }
  give_way(t, w);
}

// Reports threads that wait for others which will never come; from the scheduler, so that it names the thread itself.
EMULATOR_NOINLINE static void report_waiting(Worker& w, State state, const char* kind, const char* text) {
  const Thread *waits = nullptr, *other = nullptr;
  for (unsigned i = 0; i < now.threads; ++i) {
    const Thread& t = w.threads[i];
    (t.state == state ? waits : other) = &t;
  }
  Where where;
  where.code = waits->barrier_at;
  where.other_code = other != nullptr && other->state != EXITED ? other->barrier_at : 0;
  const Thread& o = other != nullptr ? *other : *waits;
  report(kind, where, text, w.block.x, w.block.y, w.block.z, waits->index.x, waits->index.y, waits->index.z, o.index.x,
         o.index.y, o.index.z, o.state == EXITED ? "has left the kernel" : "waits elsewhere");
}

EMULATOR_NOINLINE static void run_block(Worker& w, uint64_t number) {
  unsigned threads = now.threads;
  w.block_number = number;
  w.block = {static_cast<unsigned>(number % now.grid.x), static_cast<unsigned>(number / now.grid.x % now.grid.y),
             static_cast<unsigned>(number / now.grid.x / now.grid.y)};
  w.random = seed ^ (number + 1) * 0xD1B54A32D192ED03u;
  w.block_start = static_cast<Stamp>(++w.interval) << 32;
  w.ready = threads;
  w.at_barrier = w.exited = 0;
  w.predicate_sum = 0;
  w.fenced = w.used_atomics = false;
  memset(reinterpret_cast<void*>(w.static_shared), POISON, w.static_bytes);
  memset(w.dynamic_shared, POISON, now.dynamic_bytes);
  for (unsigned i = 0; i < threads; ++i) {
    Thread& t = w.threads[i];
    t.number = i;
    t.index = index_of(i);
    t.stamp = w.block_start | i;
    t.state = READY;
    t.copy_count = t.batch = 0;
    char* stack = reinterpret_cast<char*>(stacks + (w.threads - all_threads + i) * STACK);
    prepare(t.context, stack, stack + STACK - (i * 320 % 8192 & ~63u), fiber);  // tops apart, for the caches' sake
  }
  while (w.exited < threads) {
    w.step = static_cast<unsigned>(coprime_step(threads, w.random));
    w.turn = static_cast<unsigned>(next_random(w.random) % threads);
    w.interval_start = static_cast<Stamp>(w.interval) << 32;
    switch_context(w.scheduler, next_thread(w).context);  // back here once no thread is ready
    if (now.stop) {
      return;
    }
    if (w.at_barrier + w.exited < threads) {
      report_waiting(w, AT_WARP, "warp", "block (%u,%u,%u) thread (%u,%u,%u) waits for its warp, thread (%u,%u,%u) %s");
      stop_launch(719);
      return;
    }
    if (w.at_barrier > 0) {
      if (w.exited > 0) {
        report_waiting(w, AT_BARRIER, "divergent barrier",
                       "block (%u,%u,%u) thread (%u,%u,%u) waits at the barrier, thread (%u,%u,%u) %s");
      }
      ++w.interval;
      uintptr_t site = 0;
      for (unsigned j = 0; j < threads; ++j) {
        Thread& t = w.threads[j];
        if (t.state == AT_BARRIER) {
          t.stamp = static_cast<Stamp>(w.interval) << 32 | j;
          t.state = READY;
          if (site != 0 && site != t.barrier_at) {
            Where where;
            where.code = t.barrier_at;
            where.other_code = site;
            report("divergent barrier", where,
                   "block (%u,%u,%u) thread (%u,%u,%u) waits at another barrier than others", w.block.x, w.block.y,
                   w.block.z, t.index.x, t.index.y, t.index.z);
          }
          site = t.barrier_at;
        }
      }
      w.ready = w.at_barrier;
      w.at_barrier = 0;
      w.predicate_result = w.predicate_sum;
      w.predicate_sum = 0;
    }
  }
}

EMULATOR_PLAIN static int find_library(dl_phdr_info* info, size_t, void* found) {
  uintptr_t here = reinterpret_cast<uintptr_t>(&now), low = UINTPTR_MAX, high = 0, tls_bytes = 0;
  for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) & p = info->dlpi_phdr[i];
    if (p.p_type == PT_LOAD) {
      low = info->dlpi_addr + p.p_vaddr < low ? info->dlpi_addr + p.p_vaddr : low;
      high = info->dlpi_addr + p.p_vaddr + p.p_memsz > high ? info->dlpi_addr + p.p_vaddr + p.p_memsz : high;
    } else if (p.p_type == PT_TLS) {
      tls_bytes = p.p_memsz;
    }
  }
  if (here < low || here >= high) {
    return 0;
  }
  image = low;
  image_end = high;
  Worker* w = static_cast<Worker*>(found);
  w->static_shared = reinterpret_cast<uintptr_t>(info->dlpi_tls_data);
  w->static_bytes = tls_bytes;
  w->dynamic_word = (tls_bytes + 15) / 16 * 4;
  return 1;
}

EMULATOR_PLAIN inline void* try_map(size_t bytes) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

// Ends the process where the machine lacks what the emulator needs, which is no fault of the rung.
EMULATOR_PLAIN [[noreturn]] inline void give_up(const char* call) {
  fprintf(stderr, "emulator: %s: %s\n", call, strerror(errno));
  _exit(71);  // EX_OSERR of sysexits.h
}

EMULATOR_PLAIN inline char* map(size_t bytes) {
  void* memory = try_map(bytes);
  if (memory == MAP_FAILED) {
    give_up("mmap");
  }
  return static_cast<char*>(memory);
}

EMULATOR_PLAIN static void* work(void* argument) {
  Worker& w = *static_cast<Worker*>(argument);
  anchor = 1;
  __asm__ volatile("" : : "r"(&anchor) : "memory");
  dl_iterate_phdr(find_library, &w);
  if (w.shadow == nullptr) {
    size_t words = w.dynamic_word + DYNAMIC_RESERVED / 4;
    w.shadow = reinterpret_cast<Shadow*>(map(words * sizeof(Shadow)));
    w.places = reinterpret_cast<Places*>(map(words * sizeof(Places)));
  }
  for (;;) {
    uint64_t turn = __atomic_fetch_add(&now.next, 1, __ATOMIC_RELAXED);
    if (turn >= now.turns || now.stop) {
      return nullptr;
    }
    run_block(w, (now.first_block + turn * now.block_stride) % now.blocks);
  }
}

EMULATOR_PLAIN static unsigned make_workers() {
  cpu_set_t cpus;
  unsigned count = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
  if (worker_limit > 0 && count > static_cast<unsigned>(worker_limit)) {
    count = worker_limit;
  }
  count = count < MAX_WORKERS ? count : MAX_WORKERS;
  if (stacks == 0) {
    stacks = (reinterpret_cast<uintptr_t>(map(STACKS_BYTES + STACK)) + STACK - 1) / STACK * STACK;
    all_threads = reinterpret_cast<Thread*>(map(MAX_WORKERS * MAX_THREADS * sizeof(Thread)));
  }
  for (unsigned i = 0; i < count; ++i) {
    Worker& w = workers[i];
    if (w.threads == nullptr) {
      w.threads = all_threads + i * MAX_THREADS;
      w.dynamic_shared = map(DYNAMIC_RESERVED);  // whole pages, so aligned to 1024 bytes
      for (unsigned j = 0; j < MAX_THREADS; ++j) {
        w.threads[j].worker = &w;
      }
    }
  }
  return count;
}

EMULATOR_PLAIN static double seconds_of(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + time.tv_nsec * 1e-9;
}

// Waits for a worker for so long, and for a moment at least.
EMULATOR_PLAIN static bool joined_within(pthread_t host, double seconds) {
  double end_s = seconds_of(CLOCK_REALTIME) + (seconds > 0.01 ? seconds : 0.01);
  timespec end;
  end.tv_sec = static_cast<time_t>(end_s);
  end.tv_nsec = static_cast<long>((end_s - static_cast<double>(end.tv_sec)) * 1e9);
  return pthread_timedjoin_np(host, nullptr, &end) == 0;
}

EMULATOR_NOINLINE void check_stream(const void* queued_on) {
  if (queued_on != stream) {
    report("stream", Where(),
           "queues work on another stream than it was given; name the stream as the fourth argument of the launch");
  }
}

EMULATOR_NOINLINE void report_host(const char* kind, const char* text) { report(kind, Where(), "%s", text); }

EMULATOR_NOINLINE int run_grid(void (*invoke)(const void*), const void* closure, uintptr_t kernel, const char* name,
                               uint3 grid, uint3 block, size_t dynamic_bytes, const void* queued_on) {
  pthread_mutex_lock(&launch_lock);
  Worker unused;
  dl_iterate_phdr(find_library, &unused);
  now.kernel = kernel;
  now.name = name;
  check_stream(queued_on);
  uint64_t threads = static_cast<uint64_t>(block.x) * block.y * block.z;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7FFFFFFF || grid.y > 65535 || grid.z > 65535 ||
      threads == 0 || threads > MAX_THREADS || block.z > 64) {
    report("launch", Where(), "a grid of (%u,%u,%u) blocks of (%u,%u,%u) threads cannot be launched", grid.x, grid.y,
           grid.z, block.x, block.y, block.z);
    pthread_mutex_unlock(&launch_lock);
    return 9;  // cudaErrorInvalidConfiguration
  }
  if (dynamic_bytes > MAX_DYNAMIC_SHARED) {
    report("launch", Where(), "%zu bytes of dynamic shared memory are more than %zu", dynamic_bytes,
           MAX_DYNAMIC_SHARED);
    pthread_mutex_unlock(&launch_lock);
    return 1;  // cudaErrorInvalidValue
  }
  unsigned count = make_workers();
  now.invoke = invoke;
  now.closure = closure;
  now.grid = grid;
  now.block = block;
  now.threads = static_cast<unsigned>(threads);
  now.dynamic_bytes = dynamic_bytes;
  now.blocks = static_cast<uint64_t>(grid.x) * grid.y * grid.z;
  now.next = 0;
  ++now.serial;
  uint64_t random = seed + now.serial;
  now.turns = most_blocks > 0 && most_blocks < now.blocks ? most_blocks : now.blocks;
  // Of some blocks the last one is the first to run: what lies farthest goes wrong most easily.
  now.first_block = now.turns < now.blocks ? now.blocks - 1 : next_random(random) % now.blocks;
  now.block_stride = coprime_step(now.blocks, random);
  now.stop = false;
  now.error = 0;

  double end_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID) + timeout_s;
  count = count < now.turns ? count : static_cast<unsigned>(now.turns);
  pthread_t hosts[MAX_WORKERS];
  for (unsigned i = 0; i < count; ++i) {
    if (pthread_create(&hosts[i], nullptr, work, workers + i) != 0) {
      give_up("pthread_create");
    }
  }
  for (unsigned i = 0; i < count; ++i) {
    while (!joined_within(hosts[i], end_s - seconds_of(CLOCK_PROCESS_CPUTIME_ID))) {
      if (!now.stop && seconds_of(CLOCK_PROCESS_CPUTIME_ID) >= end_s) {
        report("timeout", Where(), "the launch has not ended after %.3g s of CPU time", timeout_s);
        stop_launch(702);  // cudaErrorLaunchTimeout
      }
    }
  }
  int error = now.error;
  now.kernel = 0;
  now.name = nullptr;
  pthread_mutex_unlock(&launch_lock);
  return error;
}

// ---------------------------------------------------------------------------------------------------------------------
// Text.

struct Place {  // of an address in the source
  uintptr_t code;
  char line[128], function[128];
};
struct SharedArray {
  uint64_t start, bytes;
  char name[64];
};

EMULATOR_PLAIN static const char* library_name() {
  Dl_info library;
  return dladdr(reinterpret_cast<void*>(&now), &library) == 0 ? "" : library.dli_fname;
}

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
    snprintf(p.function, sizeof p.function, "%s", name);
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

// The __shared__ array that holds an offset into static shared memory, and where in it. readelf knows the arrays.
EMULATOR_PLAIN static void name_shared(int64_t offset, char* text, size_t size) {
  static SharedArray arrays[256];
  static unsigned count;
  static bool loaded;
  char command[1024], line[1024];
  snprintf(command, sizeof command, "readelf -Ws '%s' 2>/dev/null", library_name());
  FILE* pipe = loaded ? nullptr : popen(command, "r");
  while (pipe != nullptr && fgets(line, sizeof line, pipe) && count < 256) {
    unsigned long long start, bytes;
    char type[16], symbol[512];
    if (sscanf(line, " %*d: %llx %llu %15s %*s %*s %*s %511s", &start, &bytes, type, symbol) == 4 &&
        strcmp(type, "TLS") == 0) {
      int status = 0;
      char* demangled = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
      const char* last = demangled != nullptr ? demangled : symbol;
      for (const char* c = last; (c = strstr(c, "::")) != nullptr;) {
        last = c += 2;
      }
      arrays[count] = {start, bytes, ""};
      snprintf(arrays[count++].name, sizeof arrays[0].name, "%s", last);
      free(demangled);
    }
  }
  if (pipe != nullptr) {
    pclose(pipe);
  }
  loaded = true;
  uint64_t at = static_cast<uint64_t>(offset);
  snprintf(text, size, "shared memory + %llu bytes", static_cast<unsigned long long>(at));
  for (unsigned i = 0; i < count; ++i) {
    if (at - arrays[i].start < arrays[i].bytes) {
      snprintf(text, size, "%s + %llu bytes", arrays[i].name, static_cast<unsigned long long>(at - arrays[i].start));
    }
  }
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
EMULATOR_HOOK void __tsan_read_range(void* p, __SIZE_TYPE__ bytes) {
  emulator::check(reinterpret_cast<uintptr_t>(p), static_cast<unsigned>(bytes), emulator::READ, EMULATOR_CALLER);
}
EMULATOR_HOOK void __tsan_write_range(void* p, __SIZE_TYPE__ bytes) {
  emulator::check(reinterpret_cast<uintptr_t>(p), static_cast<unsigned>(bytes), emulator::WRITE, EMULATOR_CALLER);
}
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

// ---------------------------------------------------------------------------------------------------------------------
// The interface for the host; README.md describes it.

#define EMULATOR_API extern "C" __attribute__((visibility("default"), used)) EMULATOR_PLAIN

EMULATOR_API void emulator_reset(uint64_t seed) {
  using namespace emulator;
  for (unsigned i = 0; i < buffer_count; ++i) {
    if (buffers[i].shadow != nullptr) {
      munmap(buffers[i].shadow, buffers[i].bytes / 4 * sizeof(uint64_t));
    }
  }
  buffer_count = input_count = finding_count = 0;
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
  b.readable = b.defined || b.writable;
  if (b.readable && !b.writable) {
    inputs[input_count++] = {b.base, b.bytes};
  }
  if (b.writable) {
    void* shadow = try_map(b.bytes / 4 * sizeof(uint64_t));
    if (shadow == MAP_FAILED) {
      --buffer_count;
      return 1;
    }
    b.shadow = static_cast<uint64_t*>(shadow);
  }
  return 0;
}

EMULATOR_API int emulator_report(char* text, size_t size) {
  using namespace emulator;
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
    char what[400], name[128] = "", line[1024];
    snprintf(what, sizeof what, "%s", f.text);
    const char* anonymous = f.shared_offset < 0 ? nullptr : strstr(f.text, "shared memory");
    if (anonymous != nullptr) {
      name_shared(f.shared_offset, name, sizeof name);
      snprintf(what, sizeof what, "%.*s%s%s", static_cast<int>(anonymous - f.text), f.text, name,
               anonymous + strlen("shared memory"));
    }
    name[strcspn(name, "+")] = 0;
    snprintf(told[count], sizeof told[count], "%s|%s|%s|%s|%zx", f.kind, at != nullptr ? at : "",
             other != nullptr ? other : "", name, static_cast<size_t>(f.kernel));
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
    length += snprintf(line + length, sizeof line - length, "%s", what);
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

EMULATOR_API void emulator_set_sms(int count) { emulator::sms = count; }
EMULATOR_API void emulator_set_stream(const void* stream) { emulator::stream = stream; }
EMULATOR_API void emulator_set_workers(int count) { emulator::worker_limit = count; }
EMULATOR_API void emulator_set_most_blocks(uint64_t count) { emulator::most_blocks = count; }
EMULATOR_API void emulator_set_timeout(double seconds) { emulator::timeout_s = seconds; }
