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

constexpr unsigned MAX_THREADS = 1024;  // of a block
constexpr unsigned POISON = 0xFF;       // of a byte: NaN as a float, -1 as an int

// ---------------------------------------------------------------------------------------------------------------------
// Fibers. Each has STACK bytes of one large mapping, so a stack pointer tells which thread of which block is running;
// nothing else is needed to find it, and a stack pointer outside the mapping is host code.

constexpr uintptr_t STACK = 64 * 1024;
constexpr uintptr_t MAX_FIBERS = 1 << 19;  // of all blocks that run at a time; no GPU has more threads

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
//   62..32 the interval between two barriers, counted over all blocks that have run in a place
//   31..12 the interval between two synchronisations of the warp
//   11, 10 flags;  9..0 the thread
using Stamp = uint64_t;
constexpr Stamp THREAD = 0x3FF, LANE = 0x1F, WARP = 0x3E0, WARP_INTERVAL = 0xFFFFF000;
constexpr Stamp SEVERAL_LANES = 0x400, SEVERAL_WARPS = 0x800;  // of a read
constexpr Stamp ATOMIC = 0x400, IN_FLIGHT = 1ull << 63;        // of a write
constexpr Stamp NO_WORD = ~0ull;                               // between two arrays: no access is usual

struct Shadow {
  Stamp written, read;
};
// Of the same, in the code, relative to the library; and in the upper four bits which of the word's bytes they were of.
struct Places {
  uint32_t written, read;
};
constexpr unsigned PLACE_BITS = 28;

struct Copy {  // an asynchronous copy that has been issued and not been waited for
  char* to;
  const char* from;
  unsigned bytes, zeros, batch;
};

enum State : uint8_t { READY, AT_BARRIER, AT_WARP, EXITED };

constexpr unsigned LAST_LOOKS = 4;

struct Block;
struct Buffer;
struct Knowledge;
struct Learned;
struct Ptx;  // emulator_clocks.h
struct Readers;
struct alignas(256) Thread {  // a power of two, to be found by shifts
  Context context;
  Block* block;
  Stamp stamp;
  uint3 index;
  unsigned number;
  State state;
  bool awaited;          // the kernel before this one has ended, as it knows; true but in one that was launched early
  uint8_t look;          // the oldest of `looks`
  uintptr_t barrier_at;  // where it waits, or has waited last
  uint32_t looks[LAST_LOOKS];  // what it has seen last where another thread may change it: see look_again
  // What others may know of its writes, and it of theirs: emulator_order.h.
  uint32_t fence_at, fence_covers, fence_warp, warp_tick;
  Learned* learned;
  // What the thread offers to its warp, and what it gets.
  unsigned warp_mask, warp_operation;
  int source_lane;
  uint64_t offered, received;
  void (*together)(void* const* offers, unsigned lanes);  // by the last lane to come; null where there is no such
  // Asynchronous copies, oldest first.
  Copy* copies;
  unsigned copy_count, copy_capacity, batch;
};

// A race of two plain writes to a word, as long as it is not known whether they write the same value.
struct Doubtful {
  uintptr_t address;
  uint32_t was, bytes;  // what the word held, and which of its bytes are written
  size_t word;
  uintptr_t code;
  uint64_t other;     // the stamp of the other write,
  uint32_t other_at;  // and in shared memory its place
  const Buffer* in;   // null of shared memory
  const char* why;
};
constexpr unsigned MOST_DOUBTFUL = 4;  // words of one store

struct Launch;
struct alignas(512) Block {  // a place for a block to run in; found by shifts, too
  Thread* threads;
  Stamp stamp;  // of the thread that runs
  Stamp block_start, interval_start;
  // Shared memory: the static arrays, and from dynamic_offset on what the launch asks for.
  uintptr_t shared, shared_bytes, dynamic_offset;
  Shadow* shadow;  // of each word of it; null until the place is used first
  Places* places;
  uint32_t interval;           // see Stamp
  unsigned turn, step, count;  // the thread to run next, if it is ready; from each to the one after; how many they are
  Context scheduler;
  Launch* launch;
  uint3 index;
  uint64_t number, batch;  // of the block in the grid; see Device
  unsigned ready, at_barrier, exited;
  int predicate_sum, predicate_result;
  uint32_t id, clock, barrier_tick;  // its number among those that run in the batch; see emulator_order.h
  unsigned learned_threads;
  Knowledge *seen, *known;
  bool awaited;           // as one of its threads knows
  bool suspended, waits;  // it lets other blocks run; for all its threads wait for another block, as it seems
  unsigned idle;          // how often in a row a thread has found nothing changed
  unsigned yields;        // how often one has looked since the block was last suspended
  uint64_t since;         // `device.progress` when it was suspended; if it does not wait, none
  Block* next;            // in the queue of those that are suspended, or that are free
  Block* cluster[16];     // the blocks of its cluster by their rank, itself among them
  unsigned cluster_rank;
  uint64_t random;
  Ptx *ptx, *all_ptx;           // null until the block needs it; until a block of this place has
  Readers* readers;             // of each word
  Doubtful* doubtful;           // MOST_DOUBTFUL, null until one is
  unsigned doubtful_count;      // of the thread that runs
  bool has_sums;                // of wgmma
  volatile bool shares_memory;  // a block of its cluster has accessed another one's memory
};

struct Buffer {
  char name[64];
  uintptr_t base, bytes;
  int64_t rows, cols, ld;
  bool readable, writable, defined;
  bool variable;               // one of the library's: a __device__ or __constant__ variable
  bool between_blocks;         // blocks leave there what others need
  uint64_t *shadow, *readers;  // a word each: the last write and the last read; see GlobalStamp
  uint8_t* parts;              // PART words each: whether a kernel has written any; null where nobody asks
};

constexpr uintptr_t PART = 4096;

struct Input {  // a buffer that may be read and not written
  uintptr_t base, bytes;
};

struct Launch {
  void (*invoke)(const void* closure);
  const void* closure;
  uintptr_t kernel;
  const char* name;
  Configuration as;
  uint3 wanted;  // the cluster that the kernel declares, where it is launched without one
  unsigned threads, cluster_blocks;
  uintptr_t dynamic_shift;  // of dynamic shared memory, from a multiple of ALIGNED_ALIKE
  uint64_t blocks;
  // Blocks start in an order that the seed gives, a cluster at a time; `turns` clusters do.
  uint64_t clusters, turns, next, first, stride;
  bool some;         // blocks are to run, and not all
  uint64_t at_zero;  // steps from the first of them to the beginning of the grid
  unsigned resident, most_resident;
  // The barrier of the whole grid.
  uint64_t arrived, phase;
  uint64_t batch;
  uint64_t before;    // the batch of the kernel beside which it may run, as it was launched early; 0 for none
  bool before_begun;  // it may run beside what was queued before sgemm was called
};

constexpr uint64_t FEW_CLUSTERS = 1 << 12, FAR = 1 << 16;

// The cluster to run as the i-th. Of some of many the second half are the first ones of the grid, and the first half come in
// pairs: one and the one before it, or FAR before it, which is the same to a kernel that keeps its number in 16 bits. What
// both write is a race.
EMULATOR_PLAIN inline uint64_t cluster_to_run(const Launch& launch, uint64_t i) {
  uint64_t clusters = launch.clusters, paired = launch.turns / 2;
  if (!launch.some) {
    return (launch.first + i * launch.stride) % clusters;
  }
  if (clusters <=
      FEW_CLUSTERS) {  // of a few the second is the first one of the grid, which has most to do as often as not
    uint64_t step = i < 2 ? i * launch.at_zero : i - 1 < launch.at_zero ? i - 1 : i;
    return (launch.first + step * launch.stride) % clusters;
  }
  uint64_t before = i % 2 == 0 ? 0 : i % 4 == 3 && clusters > FAR ? FAR : 1;
  return i < paired ? (launch.first + i / 2 * launch.stride + clusters - before) % clusters : i - paired;
}

// What runs at the moment.
struct Device {
  Launch* launches[2];
  unsigned launch_count;
  uint64_t batch;    // the launches that run at a time; what an earlier batch of the product wrote is known to all
  uint32_t started;  // blocks of them
  volatile bool stop;
  uint64_t skipped;               // blocks of earlier launches of the product that have not run
  volatile bool left_for_others;  // a block has written to such a buffer or variable, or atomically
  volatile bool has_written;      // a block has written to any
  double began_s;                 // of CPU time
  uint64_t accesses;              // of buffers and variables, but reads of an input
  int error;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  Block *free, *first, *last;  // places without a block; blocks that are suspended, the one that waits longest first
  unsigned used, running;      // places that have been used; host threads that run a block
  uint64_t progress;           // counts what may let a waiting block go on
  unsigned idle_rounds, resumed;
};

struct Finding {
  char kind[24];
  char text[256];
  char at[160];  // file and line, where the compiler said them
  uintptr_t code, other_code;
  char array[64];
  bool on_device;
  bool of_unwritten;
  uintptr_t kernel;
  const char* name;
  uint3 block, thread;
};

constexpr unsigned MAX_WORKERS = 64, MAX_BLOCKS = 8192, MAX_BUFFERS = 16, MAX_FINDINGS = 256, MAX_OF_A_KIND = 32;

// The shared memory of a place: static arrays end where dynamic memory starts. What is beyond the memory of the block is
// there to catch what runs over.
constexpr uintptr_t SHARED_RESERVED = 4 << 20, DYNAMIC_AT = SHARED_RESERVED - (1 << 19);

static Block blocks[MAX_BLOCKS];
static uintptr_t stacks, stacks_bytes;          // of the fibers
static uintptr_t all_shared, all_shared_bytes;  // of all places
static Thread* all_threads;                     // in the same order as the stacks
static unsigned block_shift;                    // of a distance on the stacks: the place that it is of
static uintptr_t image, image_end;              // where the library lies

// The __shared__ arrays of all kernels, which are the library's thread-local variables. Each block has all of them, in the
// same order, GAP bytes apart at least and aligned as in the library.
struct SharedArray {
  uint64_t start, bytes;  // among the library's thread-local variables
  uint64_t place;         // among the block's
  const char* symbol;
  char name[64];
};
constexpr uintptr_t GAP = 1024;
constexpr uintptr_t ALIGNED_ALIKE = 1024;  // no array needs a stricter alignment than tiles of the copy engine
static SharedArray* shared_arrays;
static unsigned shared_array_count;
EMULATOR_PLAIN inline uint32_t place_of_code(uintptr_t code, uint32_t bytes) {
  return static_cast<uint32_t>(code - image) | bytes << PLACE_BITS;
}
EMULATOR_PLAIN inline uintptr_t code_of(uint32_t place) { return image + (place & ((1u << PLACE_BITS) - 1)); }
struct LocalFunction {  // which the library does not export
  uintptr_t address;
  const char* name;
};
static LocalFunction* local_functions;
static unsigned local_function_count;
struct ThreadLocals {  // of the library: what they hold at first, as far as that is not zero, and how long they are
  const char* image;
  uintptr_t image_bytes, bytes;
};
static ThreadLocals thread_locals;
static uint32_t* place_of_shared;         // of each byte of the library's thread-local variables
static uintptr_t static_bytes;            // where dynamic shared memory may begin
static uintptr_t dynamic_alignment = 16;  // the strictest that an array in it is declared with
static Device device;
static Buffer buffers[MAX_BUFFERS];
static Buffer* variables;  // by their address
static unsigned variable_count;
static Input inputs[MAX_BUFFERS];
static unsigned buffer_count, input_count;
static Finding findings[MAX_FINDINGS];
static unsigned finding_count;
static uint64_t seed;
static int unwritten = POISON;  // of each byte of shared memory that nobody has written
static int worker_limit = 0;
bool asked_occupancy = false;
int sms = 8;
static double timeout_s = 60;
static uint64_t most_blocks = 0, most_accesses = 0;            // 0: any number
constexpr unsigned THREADS_PER_SM = 2048, BLOCKS_PER_SM = 32;  // as on compute capability 9.0
constexpr size_t SHARED_PER_SM = 228 * 1024;
static const void* stream = nullptr;  // that the host gives to sgemm
static pthread_mutex_t launch_lock = PTHREAD_MUTEX_INITIALIZER, finding_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t atomic_lock = PTHREAD_MUTEX_INITIALIZER;  // of words that are accessed atomically

// Where on the fibers' stacks the running code is; beyond stacks_bytes in host code.
EMULATOR_PLAIN inline uintptr_t place_on_stacks() {
#ifdef __x86_64__
  uintptr_t stack_pointer;
  __asm__("movq %%rsp, %0" : "=r"(stack_pointer));  // spares the hooks a frame
#else
  uintptr_t stack_pointer = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
#endif
  return stack_pointer - stacks;
}

// The running thread, and its block; null in host code.
EMULATOR_PLAIN inline Thread* this_thread() {
  uintptr_t place = place_on_stacks();
  return place < stacks_bytes ? all_threads + place / STACK : nullptr;
}
EMULATOR_PLAIN inline Block* this_block() {
  uintptr_t place = place_on_stacks();
  return place < stacks_bytes ? blocks + (place >> block_shift) : nullptr;
}

EMULATOR_PLAIN inline uint64_t pack(uint3 v) {
  return v.x | static_cast<uint64_t>(v.y) << 32 | static_cast<uint64_t>(v.z) << 48;
}
uint64_t thread_index() { return pack(this_thread()->index); }
uint64_t block_index() { return pack(this_block()->index); }
uint64_t block_extent() { return pack(this_block()->launch->as.block); }
uint64_t grid_extent() { return pack(this_block()->launch->as.grid); }
bool declare_dynamic_alignment(size_t bytes) {
  dynamic_alignment = bytes > dynamic_alignment ? bytes : dynamic_alignment;
  return true;
}
char* dynamic_shared_memory() {
  const Block& b = *this_block();
  return reinterpret_cast<char*>(b.shared + b.dynamic_offset);
}

EMULATOR_PLAIN inline uint64_t next_random(uint64_t& state) {  // splitmix64
  uint64_t z = (state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

EMULATOR_PLAIN inline bool coprime(uint64_t one, uint64_t other) {
  while (other != 0) {
    uint64_t rest = one % other;
    one = other;
    other = rest;
  }
  return one == 1;
}

// A step that visits all of 0 .. count - 1 from any start.
EMULATOR_PLAIN inline uint64_t coprime_step(uint64_t count, uint64_t& random) {
  for (;;) {
    uint64_t step = next_random(random) % count + 1;
    if (coprime(count, step)) {
      return step;
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Findings.

struct Where {
  uintptr_t code = 0, other_code = 0;
  const char* array = nullptr;  // of shared memory
  const char* file = nullptr;
  unsigned line = 0;
  bool of_unwritten = false;  // a read of shared memory or the workspace that nobody has written, which may not matter
};

// One finding for each kind and place in the code. A loop that the compiler has unrolled has many such places, so no kind
// may take them all; emulator_report tells those of one line once.
__attribute__((noinline, format(printf, 3, 4))) EMULATOR_PLAIN static void report(const char* kind, const Where& where,
                                                                                  const char* format, ...) {
  const Thread* t = this_thread();
  const Launch* launch = t != nullptr ? t->block->launch : device.launches[0];
  uintptr_t kernel = launch != nullptr ? launch->kernel : 0;
  pthread_mutex_lock(&finding_lock);
  bool known = finding_count == MAX_FINDINGS;
  unsigned of_this_kind = 0;
  for (unsigned i = 0; i < finding_count && !known; ++i) {
    const Finding& f = findings[i];
    if (strcmp(f.kind, kind) == 0) {
      known = (f.code == where.code && (where.code != 0 || f.kernel == kernel)) || ++of_this_kind == MAX_OF_A_KIND;
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
    snprintf(f.array, sizeof f.array, "%s", where.array != nullptr ? where.array : "");
    f.of_unwritten = where.of_unwritten;
    f.kernel = kernel;
    f.name = launch != nullptr ? launch->name : nullptr;
    if (t != nullptr) {
      f.on_device = true;
      f.block = t->block->index;
      f.thread = t->index;
    }
    ++finding_count;
  }
  pthread_mutex_unlock(&finding_lock);
}

// Ends the running thread and the launch, as a fault does on a GPU. Called on a fiber, it does not return.
EMULATOR_NOINLINE static void stop_launch(int error) {
  if (!device.stop) {
    device.error = error;
    device.stop = true;
  }
  if (Thread* t = this_thread()) {
    t->state = EXITED;
    switch_context(t->context, t->block->scheduler);
  }
}

EMULATOR_PLAIN inline uint3 index_of(const Launch& launch, unsigned number) {
  uint3 block = launch.as.block;
  unsigned plane = block.x * block.y;
  return {number % block.x, number % plane / block.x, number / plane};
}

}  // namespace emulator
