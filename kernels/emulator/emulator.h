// What a rung, compiled by g++, asks of the emulator's engine, which emulator.cpp is and which is compiled apart.
#pragma once

#include <stddef.h>
#include <stdint.h>

// What runs on a fiber without being a kernel must not report its own accesses.
#define EMULATOR_PLAIN __attribute__((no_sanitize("thread", "undefined"), no_sanitize_coverage))
#define EMULATOR_INLINE inline __attribute__((always_inline))

struct uint3 {
  unsigned x, y, z;
};

#pragma GCC visibility push(hidden)
namespace emulator {

constexpr size_t MAX_DYNAMIC_SHARED = 227 * 1024;  // of a block, as on compute capability 9.0

extern int sms;
extern bool asked_occupancy;  // since the reset

// The built-in variables, packed into one number: the compiler calls a const function for it once.
#define EMULATOR_CONST __attribute__((noinline, const)) EMULATOR_PLAIN
EMULATOR_CONST uint64_t thread_index();
EMULATOR_CONST uint64_t block_index();
EMULATOR_CONST uint64_t block_extent();
EMULATOR_CONST uint64_t grid_extent();
EMULATOR_INLINE constexpr uint3 unpack(uint64_t v) {
  return {static_cast<unsigned>(v), static_cast<unsigned>(v >> 32 & 0xFFFF), static_cast<unsigned>(v >> 48)};
}

EMULATOR_CONST char* dynamic_shared_memory();
bool declare_dynamic_alignment(size_t bytes);
// Addresses of shared memory as PTX has them, in 32 bits, and pointers.
uint64_t shared_address(const void* pointer);
char* shared_pointer(uint64_t address);

int barrier(int predicate);
// Meets the lanes of the mask. source_lane: whose offer to return, -1: none, -2: a bit for each non-zero offer.
uint64_t meet_warp(unsigned mask, unsigned operation, int source_lane, uint64_t offer);
// Those of the warp's lanes that come to this place before any goes on; each of them gets the same mask.
unsigned active_lanes();
// All blocks of a cooperative launch meet; one thread of each calls it, between two barriers of the block.
void grid_barrier();
bool is_cooperative();
void fence();
// Of a kernel that was launched early: what the kernel before it has written may be read, and what that reads written.
void grid_wait();
inline void grid_launch_dependents() {}

// An atomic operation: `begin` checks it and lets others run, the operation follows, `end` says what it has done. Between
// the two no other block accesses a word atomically. A `sum` of floats tells others nothing, but its order counts.
// A sum, whose order shows in its bits; whether it is atomic for the threads of its block alone.
void atomic_begin(const void* pointer, unsigned bytes, bool sum, bool of_block);
void atomic_end(const void* pointer, bool sum, bool of_block, uint64_t before, uint64_t after);
// A load or store as of a volatile variable: another block sees it, and others may be waited for.
void strong_load(const void* pointer, unsigned bytes, bool of_block = false);
void strong_store(const void* pointer, unsigned bytes, bool of_block = false);
// A load of what nobody may write while the kernel runs, at a place in the code.
void read_only_load(const void* pointer, unsigned bytes, unsigned alignment, const void* code);

// For what waits for another thread or block: `while (!come) wait_for_others(line);` in the one that waits, and
// made_progress() in each that may let another go on. A launch in which nobody can go on ends as a deadlock.
void wait_for_others();
void made_progress();

void issue_copy(void* to, const void* from, size_t bytes, size_t zeros);
void commit_copies();
// Waits for all but the `newest` last batches.
void wait_for_copies(unsigned newest);

// What host code does against the contract; the text has to last.
void report_host(const char* kind, const char* text);
extern int last_error;  // what cudaGetLastError tells
// Counts a call of the runtime or of the driver; whether it is the one that has to fail.
bool call_fails(const char* name);

// Streams and events. Work on a stream that does not come behind the one that sgemm was given is a finding, and so is work
// that the latter does not wait for.
void* create_stream();
bool is_capturing();
void* create_event();
int record_event(void* event, const void* on);
int wait_for_event(const void* on, const void* event);
// Queues a copy of rows, or without `from` a filling with a byte; returns a cudaError_t.
int queue_copy(void* to, size_t to_pitch, const void* from, size_t from_pitch, int value, size_t width, size_t height,
               const void* queued_on);

struct Configuration {  // of a launch
  uint3 grid, block;
  size_t dynamic_bytes = 0;
  const void* stream = nullptr;
  bool cooperative = false;
  uint3 cluster = {1, 1, 1};
  bool early = false;  // may begin before the kernel before it has ended, until it waits for it
  size_t closure_bytes = 0;
  const char* file = "";  // where the host starts it, if that is known
};
// Begins each kernel with __launch_bounds__, as cuda_syntax.py rewrites it.
void require_threads(unsigned most, unsigned blocks = 0, unsigned cluster_blocks = 0);
// Begins each kernel with __cluster_dims__, as ptx.py rewrites it.
void require_cluster(unsigned x, unsigned y = 1, unsigned z = 1);
// The blocks of so many threads with so much shared memory that run on an SM at a time, and the static shared memory of
// the kernel that is this function.
unsigned blocks_per_sm(unsigned threads, size_t shared_bytes);
size_t static_shared_of(const void* kernel);
// The dynamic shared memory that a kernel may have, beside its static, once the host has asked for it; of a kernel that is
// null what any may.
void allow_dynamic_shared(const void* kernel, size_t bytes);
size_t allowed_dynamic_shared(const void* kernel);
// Runs the kernel that `invoke(closure)` calls once for each thread; returns a cudaError_t. A closure is kept as its bytes
// where work is captured, so it holds the kernel's arguments by value. Findings name it as `name`
// says, or without one as the function at `kernel` is called; that is the kernel's if `is_kernel`.
int run_grid(void (*invoke)(const void*), const void* closure, uintptr_t kernel, bool is_kernel, const char* name,
             const Configuration& as);

}  // namespace emulator
#pragma GCC visibility pop
