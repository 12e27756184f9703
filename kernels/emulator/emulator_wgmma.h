// Of the emulator's engine: wgmma. PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
//
// Each of the 128 threads of a warp group leaves what it gives to a product and goes on. Once the last of them has come,
// the product is computed, from shared memory to sums that the group keeps; a thread's registers hold NaN meanwhile, and
// get their part of the sums when the thread has waited for the product.
#pragma once

#include <stddef.h>

namespace emulator {

constexpr unsigned GROUP_THREADS = 128, MAX_SUMS = 16, MAX_PRODUCTS = 64;

struct Sums {  // 64 rows of n numbers, and where the threads want them
  void* places[GROUP_THREADS][128];
  uintptr_t from[GROUP_THREADS], to[GROUP_THREADS];   // the bytes of a thread's, where they are next to each other
  bool begun[GROUP_THREADS], touched[GROUP_THREADS];  // in flight; written since the last wgmma.fence
  uint64_t last_group[GROUP_THREADS];                 // in which a thread's chain of products ends
  bool used, in_floats;
  int n;
  float of[64][256];
};
struct Product {
  Wgmma as;
  Sums* sums;
  uint64_t a_descriptor, b_descriptor;
  uint64_t number, group;
  unsigned given;
  bool adds, from_registers;
  uint32_t a[GROUP_THREADS][4];
};
struct WarpGroup {
  unsigned background;
  uint64_t issued[GROUP_THREADS], committed[GROUP_THREADS], waited[GROUP_THREADS], fences[GROUP_THREADS];
  uint64_t computed;  // products that all threads have given
  double A[16][256], B[16][256];
  Product products[MAX_PRODUCTS];
  Sums sums[MAX_SUMS];
};

EMULATOR_PLAIN static void forget_products(Ptx& p) {
  for (WarpGroup* g : p.groups) {
    if (g != nullptr && g->background != 0) {
      memset(g, 0, offsetof(WarpGroup, A));
      for (Product& each : g->products) {
        each.number = 0;
      }
      for (Sums& each : g->sums) {
        each.used = false;
        memset(each.begun, 0, sizeof each.begun);
        memset(each.touched, 0, sizeof each.touched);
        memset(each.from, 0, sizeof each.from);
        memset(each.to, 0, sizeof each.to);
        memset(each.places, 0, sizeof each.places);
      }
    }
  }
}

EMULATOR_PLAIN static WarpGroup& group_of(Thread* t, uintptr_t code) {
  Block& b = *t->block;
  Ptx& p = ptx_of(b);
  unsigned number = t->number / GROUP_THREADS;
  if ((number + 1) * GROUP_THREADS > b.count) {
    find("wgmma", code, "uses wgmma in a warp group of fewer than 128 threads");
    stop_launch(719);
  }
  if (p.groups[number] == nullptr) {
    p.groups[number] = reinterpret_cast<WarpGroup*>(map(sizeof(WarpGroup)));
  }
  WarpGroup& g = *p.groups[number];
  if (g.background == 0) {
    g.background = background_number(b, PRODUCTS_OF_GROUP, number) + 1;
  }
  return g;
}

// Where chunks of an operand lie, from its descriptor: PTX ISA, "Strides", "Matrix Descriptor Format".
struct Operand {
  uint32_t start, leading, stride;  // bytes
  int swizzle;                      // as of `swizzled`
};
EMULATOR_PLAIN static Operand operand_of(uint64_t descriptor, uintptr_t code) {
  if (descriptor >> 49 & 7) {
    find("wgmma", code, "gives a descriptor with a base offset, which the emulator does not know: align the tile");
    stop_launch(801);
  }
  constexpr int SWIZZLES[] = {0, 3, 2, 1};
  return {static_cast<uint32_t>(descriptor & 0x3FFF) << 4, static_cast<uint32_t>(descriptor >> 16 & 0x3FFF) << 4,
          static_cast<uint32_t>(descriptor >> 32 & 0x3FFF) << 4, SWIZZLES[descriptor >> 62]};
}
// The place of an element: `line` is the row of A or the column of B.
EMULATOR_PLAIN inline uint32_t place_in(const Operand& o, bool k_major, uint32_t line, uint32_t k, uint32_t bytes) {
  uint32_t at, span = 16u << o.swizzle;
  if (k_major) {
    uint32_t in_row = k * bytes;
    at = line % 8 * span + line / 8 * o.stride + (o.swizzle == 0 ? in_row / 16 * o.leading + in_row % 16 : in_row);
  } else {
    uint32_t lines = span / bytes, unit = line % lines * bytes;
    at = o.swizzle == 0 ? line / lines * o.stride + unit + k % 8 * span + k / 8 * o.leading
                        : line / lines * o.leading + unit + k % 8 * span + k / 8 * o.stride;
  }
  return swizzled(o.start + at, o.swizzle);
}

// A descriptor has 18 bits of an address. A GPU's block needs no more; here a block has the static arrays of all kernels
// below its dynamic memory, so that several places may have these bits. It is the first of which the block has written 128
// bytes, which lie together in each layout of an operand; if there is none, the first that it has written at all.
constexpr uint32_t ADDRESSED = 1 << 18;
EMULATOR_PLAIN static uint32_t written_place(const Block& b, uintptr_t base, uint32_t start) {
  for (uintptr_t words : {32, 1}) {
    for (uintptr_t place = base + start; place < b.shared_bytes; place += ADDRESSED) {
      uintptr_t word = place / 4, end = std::min(word + words, b.shared_bytes / 4);
      while (word < end && (b.shadow[word].written & ~IN_FLIGHT) >= b.block_start &&
             b.shadow[word].written != NO_WORD) {
        ++word;
      }
      if (word == end) {
        return static_cast<uint32_t>(place - base);
      }
    }
  }
  return start;
}

// Reads `lines` x k elements of an operand; checks each chunk of 16 bytes once.
EMULATOR_NOINLINE static bool read_operand(Thread* t, uint64_t descriptor, const Wgmma& as, bool transposed,
                                           uint32_t lines, double (*to)[256], const WarpGroup& g, uint64_t group,
                                           uintptr_t code) {
  Block& b = *t->block;
  Operand o = operand_of(descriptor, code);
  uint32_t bytes = as.operands == TF32 ? 4 : 2, depth = static_cast<uint32_t>(as.k), each = 16 / bytes;
  uintptr_t base = window(b) - b.shared;
  o.start = written_place(b, base, o.start);
  unsigned background = g.background - 1;
  uint32_t across = transposed ? depth : lines, along = transposed ? lines : depth;
  for (uint32_t i = 0; i < across; ++i) {
    for (uint32_t j = 0; j < along; j += each) {
      uint32_t line = transposed ? j : i, k = transposed ? i : j;
      uintptr_t place = base + place_in(o, !transposed, line, k, bytes);
      if (!check_source(t, place, 16, background, static_cast<uint32_t>(group & 0xFFFFF), "multiplies", code)) {
        return false;
      }
      const char* from = reinterpret_cast<const char*>(b.shared + place);
      for (uint32_t e = 0; e < each; ++e) {
        uint32_t word = 0;
        memcpy(&word, from + e * bytes, bytes);
        to[transposed ? k : k + e][transposed ? line + e : line] = number_of(as.operands, word);
      }
    }
  }
  return true;
}

// sums += A . B: `A` and `B` have k as their first index. Truncates each sum.
__attribute__((optimize("O3"),
               target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"))) EMULATOR_NOINLINE static void
multiply_group(float (*sums)[256], const double (*A)[256], const double (*B)[256], int n, int k, bool adds) {
  for (int i = 0; i < 64; ++i) {
    alignas(64) double row[256];
    for (int j = 0; j < n; ++j) {
      row[j] = adds ? static_cast<double>(sums[i][j]) : 0.0;
    }
    for (int p = 0; p < k; ++p) {
      double a = A[p][i];
      for (int j = 0; j < n; ++j) {
        row[j] += a * B[p][j];
      }
    }
    for (int j = 0; j < n; ++j) {
      float nearest = static_cast<float>(row[j]);
      uint32_t bits;
      memcpy(&bits, &nearest, 4);
      double apart = static_cast<double>(nearest) - row[j];
      // One less in magnitude where the nearest float lies beyond; an infinity that only rounding made stays.
      bool beyond = (row[j] > 0 ? apart > 0 : apart < 0) && (bits & 0x7FFFFFFFu) < 0x7F800000u;
      bits -= beyond ? 1u : 0u;
      memcpy(&sums[i][j], &bits, 4);
    }
  }
}

EMULATOR_PLAIN inline int row_of(unsigned thread, int i) {
  return static_cast<int>(thread / 32 * 16 + thread % 32 / 4) + 8 * (i / 2 % 2);
}
EMULATOR_PLAIN inline int column_of(unsigned thread, int i) {
  return i / 4 * 8 + static_cast<int>(thread % 4) * 2 + i % 2;
}

EMULATOR_NOINLINE static void compute(Thread* t, WarpGroup& g, Product& product, uintptr_t code) {
  auto &A = g.A, &B = g.B;
  const Wgmma& as = product.as;
  bool whole = true;
  if (product.from_registers) {
    int each = as.operands == TF32 ? 1 : 2;
    for (unsigned thread = 0; thread < GROUP_THREADS; ++thread) {
      for (int r = 0; r < 4; ++r) {
        for (int e = 0; e < each; ++e) {
          uint32_t word = each == 1 ? product.a[thread][r] : product.a[thread][r] >> (16 * e) & 0xFFFF;
          A[r / 2 * 4 * each + static_cast<int>(thread % 4) * each + e]
           [thread / 32 * 16 + thread % 32 / 4 + 8 * (r % 2)] = number_of(as.operands, word);
        }
      }
    }
  } else {
    whole = read_operand(t, product.a_descriptor, as, as.transposed_a != 0, 64, A, g, product.group, code);
  }
  whole = whole && read_operand(t, product.b_descriptor, as, as.transposed_b != 0, static_cast<uint32_t>(as.n), B, g,
                                product.group, code);
  if (!whole) {
    return;
  }
  if (as.sign_a * as.sign_b < 0) {
    for (int k = 0; k < as.k; ++k) {
      for (int i = 0; i < 64; ++i) {
        A[k][i] = -A[k][i];
      }
    }
  }
  multiply_group(product.sums->of, A, B, as.n, as.k, product.adds);
  if (!as.in_floats) {
    for (auto& row : product.sums->of) {
      for (int j = 0; j < as.n; ++j) {
        row[j] = emulator_ptx::float_of(emulator_ptx::half_of(row[j]));
      }
    }
  }
}

// A thread accesses a local variable: are these sums that are in flight?
EMULATOR_NOINLINE static void check_local(Thread* t, uintptr_t address, Access access, uintptr_t code) {
  WarpGroup* g = t->block->ptx->groups[t->number / GROUP_THREADS % MAX_GROUPS];
  unsigned me = t->number % GROUP_THREADS;
  if (g == nullptr || g->issued[me] == 0) {
    return;
  }
  for (Sums& each : g->sums) {
    if (address - each.from[me] < each.to[me] - each.from[me]) {
      if (each.begun[me]) {
        find("wgmma", code, "%s sums of a product that it has not waited for", access == READ ? "reads" : "writes");
      } else if (access != READ) {
        each.touched[me] = true;
      }
    }
  }
}

EMULATOR_NOINLINE void wgmma_fence() {
  uintptr_t code = EMULATOR_CALLER;
  Thread* t = this_thread();
  WarpGroup& g = group_of(t, code);
  unsigned me = t->number % GROUP_THREADS;
  meet_warp_at(~0u, 20, -1, 0, nullptr, code);  // .sync
  ++g.fences[me];
  for (Sums& each : g.sums) {
    each.touched[me] = false;
  }
}

EMULATOR_NOINLINE void wgmma(const Wgmma& as, void* const* d, const uint32_t* a, uint64_t a_descriptor,
                             uint64_t b_descriptor, bool adds) {
  uintptr_t code = EMULATOR_CALLER;
  Thread* t = this_thread();
  Block& b = *t->block;
  WarpGroup& g = group_of(t, code);
  unsigned me = t->number % GROUP_THREADS;
  int count = as.in_floats ? as.n / 2 : as.n / 4;
  if (g.fences[me] == 0) {
    find("wgmma", code, "begins a product with no wgmma.fence before");
    g.fences[me] = 1;
  }
  uint64_t number = g.issued[me]++;
  if (number >= g.computed + MAX_PRODUCTS) {
    wait_until(t, code, {Waiting::GROUP, t->number / GROUP_THREADS, 0, number},
               [&]() EMULATOR_PLAIN { return number < g.computed + MAX_PRODUCTS; });
  }
  Product& product = g.products[number % MAX_PRODUCTS];
  if (product.number != number + 1) {  // the first thread to come
    product.as = as;
    product.number = number + 1;
    product.given = 0;
    product.adds = adds;
    product.from_registers = a != nullptr;
    product.a_descriptor = a_descriptor;
    product.b_descriptor = b_descriptor;
    product.group = g.committed[me];
    product.sums = nullptr;
    for (Sums& each : g.sums) {
      if (each.places[me][0] == d[0] && (product.sums == nullptr || each.used)) {
        product.sums = &each;
      }
    }
    if (product.sums == nullptr || !product.sums->used) {
      for (Sums& each : g.sums) {
        if (product.sums == nullptr && !each.used) {
          product.sums = &each;
        }
      }
      if (product.sums == nullptr) {
        find("wgmma", code, "has more than %u sums in flight", MAX_SUMS);
        stop_launch(719);
      }
      memset(product.sums->begun, 0, sizeof product.sums->begun);
      product.sums->used = true;
      product.sums->n = as.n;
      product.sums->in_floats = as.in_floats;
    }
  } else if (memcmp(&product.as, &as, sizeof as) != 0 || product.adds != adds || product.a_descriptor != a_descriptor ||
             product.b_descriptor != b_descriptor || product.group != g.committed[me]) {
    find("wgmma", code, "gives another shape, descriptor or group to a product than other threads of its warp group");
    stop_launch(719);
  }
  Sums& sums = *product.sums;
  if (sums.n != as.n || sums.in_floats != as.in_floats) {
    find("wgmma", code, "adds to sums that another wgmma, of another shape, is still computing");
    stop_launch(719);
  }
  if (!sums.begun[me]) {
    sums.begun[me] = true;
    if (sums.touched[me] && sums.places[me][0] == d[0]) {
      find("wgmma", code, "begins a product with sums that were written since the last wgmma.fence");
    }
    sums.touched[me] = false;
    uintptr_t first = reinterpret_cast<uintptr_t>(d[0]), last = reinterpret_cast<uintptr_t>(d[count - 1]);
    sums.from[me] = first;
    sums.to[me] = last - first == 4u * (static_cast<unsigned>(count) - 1) ? last + 4 : first;
    for (int i = 0; i < count; ++i) {
      sums.places[me][i] = d[i];
      for (int half = 0; half < (as.in_floats ? 1 : 2); ++half) {
        int element = as.in_floats ? i : 2 * i + half;
        uint32_t word;
        memcpy(&word, d[i], 4);
        sums.of[row_of(me, element)][column_of(me, element)] =
            as.in_floats ? emulator_ptx::as<float>(word)
                         : emulator_ptx::float_of(emulator_ptx::Half{static_cast<uint16_t>(word >> (16 * half))});
      }
      memset(d[i], POISON, 4);
    }
    b.has_sums = true;
  }
  sums.last_group[me] = product.group;
  if (a != nullptr) {
    memcpy(product.a[me], a, sizeof product.a[me]);
  }
  if (++product.given == GROUP_THREADS) {
    compute(t, g, product, code);
    ++g.computed;
    made_progress();
  }
}

EMULATOR_NOINLINE void wgmma_commit_group() {
  uintptr_t code = EMULATOR_CALLER;
  Thread* t = this_thread();
  ++group_of(t, code).committed[t->number % GROUP_THREADS];
}

EMULATOR_NOINLINE void wgmma_wait_group(uint32_t newest) {
  uintptr_t code = EMULATOR_CALLER;
  Thread* t = this_thread();
  Block& b = *t->block;
  WarpGroup& g = group_of(t, code);
  unsigned me = t->number % GROUP_THREADS;
  meet_warp_at(~0u, 21, -1, 0, nullptr, code);  // .sync
  if (g.committed[me] <= newest) {
    return;
  }
  uint64_t complete = g.committed[me] - newest;  // groups
  // Products of the groups that are waited for have been given by all threads.
  uint64_t last = g.issued[me];
  while (last > 0 && last > g.computed) {
    const Product& product = g.products[(last - 1) % MAX_PRODUCTS];
    if (product.number == last && product.group < complete) {
      break;
    }
    --last;
  }
  wait_until(t, code, {Waiting::GROUP, t->number / GROUP_THREADS, 0, last},
             [&]() EMULATOR_PLAIN { return g.computed >= last; });
  g.waited[me] = complete;
  uint32_t& known = known_by(b, t->number)[g.background - 1];
  known = known > complete ? known : static_cast<uint32_t>(complete & 0xFFFFF);
  for (Sums& sums : g.sums) {
    if (!sums.used || !sums.begun[me] || sums.last_group[me] >= complete) {
      continue;
    }
    int count = sums.in_floats ? sums.n / 2 : sums.n / 4;
    for (int i = 0; i < count; ++i) {
      uint32_t word = 0;
      for (int half = 0; half < (sums.in_floats ? 1 : 2); ++half) {
        int element = sums.in_floats ? i : 2 * i + half;
        float sum = sums.of[row_of(me, element)][column_of(me, element)];
        word |= sums.in_floats ? emulator_ptx::as<uint32_t>(sum)
                               : static_cast<uint32_t>(emulator_ptx::half_of(sum).bits) << (16 * half);
      }
      memcpy(sums.places[me][i], &word, 4);
    }
    sums.begun[me] = false;
    bool all = true;
    for (unsigned i = 0; i < GROUP_THREADS; ++i) {
      all = all && !sums.begun[i];
    }
    sums.used = !all;
  }
}

}  // namespace emulator
