// Of the emulator's engine: fibers, what is known of a launch, findings.
#pragma once

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emulator.h"

#if !defined(__x86_64__) || defined(EMULATOR_UCONTEXT)
#define EMULATOR_UCONTEXT
#include <ucontext.h>
#endif

#define EMULATOR_NOINLINE __attribute__((noinline)) EMULATOR_PLAIN
#define EMULATOR_HOOK extern "C" __attribute__((visibility("hidden"), used)) EMULATOR_PLAIN
#define EMULATOR_CALLER (reinterpret_cast<uintptr_t>(__builtin_return_address(0)))

namespace emulator {

constexpr unsigned MAX_THREADS = 1024;           // of a block
constexpr size_t DYNAMIC_RESERVED = 256 * 1024;  // what is beyond MAX_DYNAMIC_SHARED is there to catch what runs over
constexpr unsigned POISON = 0xFF;                // of a byte: NaN as a float, -1 as an int

// ---------------------------------------------------------------------------------------------------------------------
// Fibers. Each has STACK bytes of one large mapping, so a stack pointer tells which thread of which worker is running;
// nothing else is needed to find it, and a stack pointer outside the mapping is host code.

constexpr uintptr_t STACK = 64 * 1024;

#ifndef EMULATOR_UCONTEXT
// Saves what a function must preserve on the stack, stores the stack pointer at *from, continues at `to`.
extern "C" __attribute__((visibility("hidden"))) void emulator_switch(void** from, void* to);
__asm__(
    ".text\n.p2align 4\n.type emulator_switch, @function\n.hidden emulator_switch\n.globl emulator_switch\n"
    "emulator_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n"
    ".size emulator_switch, .-emulator_switch\n");

struct Context {
  void* stack_pointer;
};
EMULATOR_PLAIN inline void prepare(Context& context, char* stack, char* top, void (*entry)()) {
  (void)stack;
  void** words = reinterpret_cast<void**>(top) - 8;  // six registers, the address to return to, alignment
  memset(words, 0, 8 * sizeof(void*));
  words[6] = reinterpret_cast<void*>(entry);
  context.stack_pointer = words;
}
EMULATOR_PLAIN inline void switch_context(Context& from, Context& to) {
  emulator_switch(&from.stack_pointer, to.stack_pointer);
}
#else
struct Context {
  ucontext_t state;
};
EMULATOR_PLAIN inline void prepare(Context& context, char* stack, char* top, void (*entry)()) {
  getcontext(&context.state);
  context.state.uc_stack.ss_sp = stack;
  context.state.uc_stack.ss_size = top - stack;
  context.state.uc_link = nullptr;
  makecontext(&context.state, entry, 0);
}
EMULATOR_PLAIN inline void switch_context(Context& from, Context& to) { swapcontext(&from.state, &to.state); }
#endif

// ---------------------------------------------------------------------------------------------------------------------
// State.

// When and by whom a word of shared memory was accessed, in 64 bits:
//   63 set while an asynchronous copy has not landed
//   62..32 the interval between two barriers, counted over all blocks that a worker runs
//   31..12 the interval between two synchronisations of the warp
//   11, 10 flags;  9..0 the thread
using Stamp = uint64_t;
constexpr Stamp THREAD = 0x3FF, LANE = 0x1F, WARP = 0x3E0, WARP_INTERVAL = 0xFFFFF000;
constexpr Stamp SEVERAL_LANES = 0x400, SEVERAL_WARPS = 0x800;  // of a read
constexpr Stamp ATOMIC = 0x400, IN_FLIGHT = 1ull << 63;        // of a write

struct Shadow {
  Stamp written, read;
};
struct Places {  // of the same, in the code, relative to the library
  uint32_t written, read;
};

struct Copy {  // an asynchronous copy that has been issued and not been waited for
  char* to;
  const char* from;
  unsigned bytes, zeros, batch;
};

enum State : uint8_t { READY, AT_BARRIER, AT_WARP, EXITED };

struct Worker;
struct alignas(256) Thread {  // a power of two, to be found by shifts
  Context context;
  Worker* worker;
  Stamp stamp;
  uint3 index;
  unsigned number;
  State state;
  uintptr_t barrier_at;
  // What the thread offers to its warp, and what it gets.
  unsigned warp_mask, warp_operation;
  int source_lane;
  uint64_t offered, received;
  // Asynchronous copies, oldest first.
  Copy* copies;
  unsigned copy_count, copy_capacity, batch;
};

struct alignas(256) Worker {  // one host thread, which runs one block at a time; found by shifts, too
  Thread* threads;            // null until it has been made
  Stamp stamp;                // of the thread that runs
  Stamp block_start, interval_start;
  uintptr_t static_shared, static_bytes;  // the __shared__ arrays: the library's thread-local memory
  char* dynamic_shared;
  Shadow* shadow;  // one for each word of static shared memory, then of dynamic
  Places* places;
  size_t dynamic_word;  // where the latter start
  uint32_t interval;    // see Stamp
  unsigned turn, step;  // the thread to run next, if it is ready, and from each to the one after
  Context scheduler;
  uint3 block;
  uint64_t block_number;
  unsigned ready, at_barrier, exited;
  int predicate_sum, predicate_result;
  bool fenced, used_atomics;
  uint64_t random;
};

struct Buffer {
  char name[16];
  uintptr_t base, bytes;
  int64_t rows, cols, ld;
  bool readable, writable, defined;
  uint64_t* shadow;  // a word each: the last write; see global_stamp
};

struct Input {  // a buffer that may be read and not written
  uintptr_t base, bytes;
};

struct Launch {
  void (*invoke)(const void* closure);
  const void* closure;
  uintptr_t kernel;
  const char* name;
  uint3 grid, block;
  unsigned threads;
  size_t dynamic_bytes;
  uint64_t blocks, turns, next, first_block, block_stride;
  uint64_t serial;
  volatile bool stop;
  int error;
};

struct Finding {
  char kind[24];
  char text[256];
  char at[160];  // file and line, where the compiler said them
  uintptr_t code, other_code;
  int64_t shared_offset;  // into static shared memory, or -1
  bool on_device;
  uintptr_t kernel;
  const char* name;
  uint3 block, thread;
};

constexpr unsigned MAX_WORKERS = 64, MAX_BUFFERS = 16, MAX_FINDINGS = 256, MAX_OF_A_KIND = 32;
constexpr uintptr_t STACKS_BYTES = MAX_WORKERS * MAX_THREADS * STACK;

static Worker workers[MAX_WORKERS];
static uintptr_t stacks;            // of the fibers
static Thread* all_threads;         // in the same order
static uintptr_t image, image_end;  // where the library lies
static Launch now;
static Buffer buffers[MAX_BUFFERS];
static Input inputs[MAX_BUFFERS];
static unsigned buffer_count, input_count;
static Finding findings[MAX_FINDINGS];
static unsigned finding_count;
static uint64_t seed;
static int worker_limit = 0;
int sms = 8;
static double timeout_s = 60;
static uint64_t most_blocks = 0;
static const void* stream = nullptr;  // that the host gives to sgemm
static pthread_mutex_t launch_lock = PTHREAD_MUTEX_INITIALIZER, finding_lock = PTHREAD_MUTEX_INITIALIZER;
static thread_local char
    anchor;  // makes the library's thread-local memory exist; only __shared__ arrays stand beside it

// Where on the fibers' stacks the running code is; beyond STACKS_BYTES in host code.
EMULATOR_PLAIN inline uintptr_t place_on_stacks() {
#ifdef __x86_64__
  uintptr_t stack_pointer;
  __asm__("movq %%rsp, %0" : "=r"(stack_pointer));  // spares the hooks a frame
#else
  uintptr_t stack_pointer = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
#endif
  return stack_pointer - stacks;
}

// The running thread of a block, and what runs it; null in host code.
EMULATOR_PLAIN inline Thread* this_thread() {
  uintptr_t place = place_on_stacks();
  return place < STACKS_BYTES ? all_threads + place / STACK : nullptr;
}
EMULATOR_PLAIN inline Worker* this_worker() {
  uintptr_t number = place_on_stacks() / (MAX_THREADS * STACK);
  return number < MAX_WORKERS ? workers + number : nullptr;
}

EMULATOR_PLAIN inline uint64_t pack(uint3 v) {
  return v.x | static_cast<uint64_t>(v.y) << 32 | static_cast<uint64_t>(v.z) << 48;
}
uint64_t thread_index() { return pack(this_thread()->index); }
uint64_t block_index() { return pack(this_thread()->worker->block); }
uint64_t block_extent() { return pack(now.block); }
uint64_t grid_extent() { return pack(now.grid); }
char* dynamic_shared_memory() { return this_thread()->worker->dynamic_shared; }

EMULATOR_PLAIN inline uint64_t next_random(uint64_t& state) {  // splitmix64
  uint64_t z = (state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// A step that visits all of 0 .. count - 1 from any start.
EMULATOR_PLAIN inline uint64_t coprime_step(uint64_t count, uint64_t& random) {
  for (;;) {
    uint64_t step = next_random(random) % count + 1, a = count, b = step;
    while (b != 0) {
      uint64_t r = a % b;
      a = b;
      b = r;
    }
    if (a == 1) {
      return step;
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Findings.

struct Where {
  uintptr_t code = 0, other_code = 0;
  int64_t shared_offset = -1;
  const char* file = nullptr;
  unsigned line = 0;
};

// One finding for each kind and place in the code. A loop that the compiler has unrolled has many such places, so no kind
// may take them all; emulator_report tells those of one line once.
__attribute__((noinline, format(printf, 3, 4))) EMULATOR_PLAIN static void report(const char* kind, const Where& where,
                                                                                  const char* format, ...) {
  pthread_mutex_lock(&finding_lock);
  bool known = finding_count == MAX_FINDINGS;
  unsigned of_this_kind = 0;
  for (unsigned i = 0; i < finding_count && !known; ++i) {
    const Finding& f = findings[i];
    if (strcmp(f.kind, kind) == 0) {
      known = (f.code == where.code && (where.code != 0 || f.kernel == now.kernel)) || ++of_this_kind == MAX_OF_A_KIND;
    }
  }
  if (!known) {
    Finding& f = findings[finding_count];
    memset(&f, 0, sizeof f);
    snprintf(f.kind, sizeof f.kind, "%s", kind);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(f.text, sizeof f.text, format, arguments);
    va_end(arguments);
    if (where.file != nullptr) {
      snprintf(f.at, sizeof f.at, "%s:%u", where.file, where.line);
    }
    f.code = where.code;
    f.other_code = where.other_code;
    f.shared_offset = where.shared_offset;
    f.kernel = now.kernel;
    f.name = now.name;
    if (Thread* t = this_thread()) {
      f.on_device = true;
      f.block = t->worker->block;
      f.thread = t->index;
    }
    ++finding_count;
  }
  pthread_mutex_unlock(&finding_lock);
}

// Ends the running thread and the launch, as a fault does on a GPU. Called on a fiber, it does not return.
EMULATOR_NOINLINE static void stop_launch(int error) {
  if (!now.stop) {
    now.error = error;
    now.stop = true;
  }
  if (Thread* t = this_thread()) {
    t->state = EXITED;
    switch_context(t->context, t->worker->scheduler);
  }
}

EMULATOR_PLAIN inline uint3 index_of(unsigned number) {
  unsigned plane = now.block.x * now.block.y;
  return {number % now.block.x, number % plane / now.block.x, number / plane};
}

}  // namespace emulator
