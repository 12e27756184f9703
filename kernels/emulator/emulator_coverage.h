// Which ways the host function takes: in a library of its own, for which nothing is computed, g++ calls the functions at the
// end of this file at each basic block and comparison of host code (GCC manual, -fsanitize-coverage). Kernels have no such
// calls (cuda_runtime.h).
#pragma once

#include "emulator_state.h"

namespace emulator {

constexpr uint32_t COVERAGE_SLOTS = 1 << 14;  // of hash tables; what finds no room is not kept
constexpr unsigned DIMENSIONS = 6;            // m, n, k, lda, ldb, ldc

// How near the two sides of a comparison came. `features` are numbers without a meaning: two calls of sgemm that share one
// took the same branch, had the same order in the same comparison, or launched the same kernel alike.
struct Nearness {
  uint64_t comparison, distance;
};
static struct Coverage {
  bool on;
  uint64_t calls;  // of the functions at the end
  uint64_t features[COVERAGE_SLOTS];
  Nearness nearest[COVERAGE_SLOTS];
  int64_t dimensions[DIMENSIONS];
} coverage;

EMULATOR_PLAIN inline uint64_t mixed(uint64_t one, uint64_t other) {
  uint64_t all = (one ^ other * 0xD1B54A32D192ED03u) * 0x9E3779B97F4A7C15u;
  return all ^ all >> 32;
}

// A place in the code wherever the library was loaded, so that what it finds is the same each time.
EMULATOR_PLAIN static uint64_t from_here(uint64_t place) { return place - reinterpret_cast<uintptr_t>(&coverage); }

// What is covered is a branch or a comparison (1) or a launch (3): the last bits of its number, which is never 0.
EMULATOR_PLAIN static void cover(uint64_t place, uint64_t what, unsigned kind = 1) {
  uint64_t feature = mixed(from_here(place), what) << 2 | kind;
  for (uint32_t i = 0; i < 16; ++i) {
    uint64_t& slot = coverage.features[(feature >> 8) + i & COVERAGE_SLOTS - 1];
    if (slot == 0 || slot == feature) {
      slot = feature;
      return;
    }
  }
}

EMULATOR_PLAIN static void come_near(uint64_t comparison, uint64_t distance) {
  for (uint32_t i = 0; i < 16; ++i) {
    Nearness& slot = coverage.nearest[(comparison >> 8) + i & COVERAGE_SLOTS - 1];
    if (slot.comparison == 0) {
      slot = {comparison, distance};
    }
    if (slot.comparison == comparison) {
      slot.distance = slot.distance < distance ? slot.distance : distance;
      return;
    }
  }
}

// Covers whether both are equal, next to each other, or farther apart.
EMULATOR_PLAIN static void compare(uint64_t place, int64_t one, int64_t other) {
  enum { EQUAL, ONE_LESS, ONE_MORE, LESS, MORE };
  bool less = one < other;
  uint64_t distance = less ? static_cast<uint64_t>(other) - one : static_cast<uint64_t>(one) - other;
  cover(place, distance == 0 ? EQUAL : distance == 1 ? (less ? ONE_LESS : ONE_MORE) : less ? LESS : MORE);
  come_near(mixed(from_here(place), 0) | 1, distance);
}

EMULATOR_PLAIN static void compare_floats(uint64_t place, double one, double other) {
  cover(place, one == other ? 0 : one < other ? 1 : one > other ? 2 : 3);
}

// Small numbers and powers of two are told apart, of others only between which powers they lie.
EMULATOR_PLAIN static uint64_t kind_of_number(uint64_t value) {
  return value <= 4 ? value : 2 * (63 - __builtin_clzll(value)) + ((value & value - 1) != 0);
}

// A launch by its kernel, grid and shared memory, and by each word of the kernel's arguments that is a small number and no
// dimension of the product: how many parts a sum has, say.
EMULATOR_PLAIN static void cover_launch(uint64_t kernel, const void* closure, const Configuration& as) {
  constexpr uint32_t FEW = 4, MOST = 64;
  const auto cover_words = [kernel](uint64_t which, uint64_t value)
                               EMULATOR_PLAIN { cover(kernel, mixed(which, value), 3); };
  cover_words(0, as.dynamic_bytes);
  cover_words(1, kind_of_number(as.grid.x < FEW ? as.grid.x : FEW));
  cover_words(2, kind_of_number(as.grid.y < MOST ? as.grid.y : MOST));
  cover_words(3, kind_of_number(as.grid.z < MOST ? as.grid.z : MOST));
  for (size_t at = sizeof(uint64_t); at + sizeof(uint32_t) <= as.closure_bytes; at += sizeof(uint32_t)) {
    uint32_t word = 0;
    memcpy(&word, static_cast<const char*>(closure) + at, sizeof word);
    bool is_dimension = false;
    for (int64_t each : coverage.dimensions) {
      is_dimension = is_dimension || each == word;
    }
    if (word <= MOST && !is_dimension) {
      cover_words(at, kind_of_number(word));
    }
  }
}

}  // namespace emulator

#define EMULATOR_COVERAGE(name, ...) extern "C" EMULATOR_PLAIN void __sanitizer_cov_trace_##name(__VA_ARGS__)
#define EMULATOR_COMPARISONS(name, type, compared)     \
  EMULATOR_COVERAGE(name, type one, type other) {      \
    if (emulator::coverage.on) {                       \
      ++emulator::coverage.calls;                      \
      emulator::compared(EMULATOR_CALLER, one, other); \
    }                                                  \
  }
EMULATOR_COMPARISONS(cmp1, int8_t, compare)
EMULATOR_COMPARISONS(cmp2, int16_t, compare)
EMULATOR_COMPARISONS(cmp4, int32_t, compare)
EMULATOR_COMPARISONS(cmp8, int64_t, compare)
EMULATOR_COMPARISONS(const_cmp1, int8_t, compare)
EMULATOR_COMPARISONS(const_cmp2, int16_t, compare)
EMULATOR_COMPARISONS(const_cmp4, int32_t, compare)
EMULATOR_COMPARISONS(const_cmp8, int64_t, compare)
EMULATOR_COMPARISONS(cmpf, float, compare_floats)
EMULATOR_COMPARISONS(cmpd, double, compare_floats)
EMULATOR_COVERAGE(pc, ) {
  if (emulator::coverage.on) {
    ++emulator::coverage.calls;
    emulator::cover(EMULATOR_CALLER, 8);
  }
}
// cases: how many values follow, the bits of each, and the values.
EMULATOR_COVERAGE(switch, uint64_t value, const uint64_t* cases) {
  for (uint64_t i = 0; emulator::coverage.on && i < cases[0]; ++i) {
    emulator::compare(EMULATOR_CALLER + i, static_cast<int64_t>(value), static_cast<int64_t>(cases[2 + i]));
  }
}
