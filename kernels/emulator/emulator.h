// What a rung, compiled by g++, asks of the emulator's engine, which emulator.cpp is and which is compiled apart.
#pragma once

#include <stddef.h>
#include <stdint.h>

// What runs on a fiber without being a kernel must not report its own accesses.
#define EMULATOR_PLAIN __attribute__((no_sanitize("thread", "undefined")))
#define EMULATOR_INLINE inline __attribute__((always_inline))

struct uint3 {
  unsigned x, y, z;
};

#pragma GCC visibility push(hidden)
namespace emulator {

constexpr size_t MAX_DYNAMIC_SHARED = 227 * 1024;  // of a block, as on compute capability 9.0

extern int sms;

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

int barrier(int predicate);
// Meets the lanes of the mask. source_lane: whose offer to return, -1: none, -2: a bit for each non-zero offer.
uint64_t meet_warp(unsigned mask, unsigned operation, int source_lane, uint64_t offer);
void fence();
// Before an atomic operation. Lets the block's other threads run, so that one may wait for another.
void atomic_access(const void* pointer, unsigned bytes);

void issue_copy(void* to, const void* from, size_t bytes, size_t zeros);
void commit_copies();
// Waits for all but the `newest` last batches.
void wait_for_copies(unsigned newest);

// What host code does against the contract; the text has to last.
void report_host(const char* kind, const char* text);
// Work is queued on a stream: is it the one that sgemm was given?
void check_stream(const void* queued_on);
// The host has written to global memory.
void host_write(const void* pointer, size_t bytes);
// Runs the kernel that `invoke(closure)` calls once for each thread; returns a cudaError_t. Findings name it as `name`
// says, or without one as the function at `kernel` is called.
int run_grid(void (*invoke)(const void*), const void* closure, uintptr_t kernel, const char* name, uint3 grid,
             uint3 block, size_t dynamic_bytes, const void* queued_on);

}  // namespace emulator
#pragma GCC visibility pop
