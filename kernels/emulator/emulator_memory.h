// Of the emulator's engine: what every access of a kernel to shared and global memory is checked for.
#pragma once

#include "emulator_clocks.h"
#include "emulator_order.h"

namespace emulator {

// ---------------------------------------------------------------------------------------------------------------------
// Shared memory: races, reads of what was never written, asynchronous copies. Words of 4 bytes; of each its last write and
// its last reads are known, and which of its bytes they were of.

// BLOCK_ATOMIC is atomic for the threads of its block alone.
// Those of the block are atomic or volatile for its threads alone.
enum Access {
  READ,
  WRITE,
  ATOMIC_ACCESS,
  SUM_ACCESS,
  COPY_IN,
  STRONG_READ,
  STRONG_WRITE,
  READ_ONLY,
  BLOCK_ATOMIC,
  BLOCK_READ,
  BLOCK_WRITE
};
EMULATOR_PLAIN inline bool only_reads(Access access) {
  return access == READ || access == STRONG_READ || access == READ_ONLY || access == BLOCK_READ;
}

// The bytes of a word that an access to some from an address or offset on is of; each has a bit.
constexpr uint32_t ALL_BYTES = 0xF;
EMULATOR_PLAIN inline uint32_t bytes_of(uintptr_t word, uintptr_t from, unsigned bytes) {
  uintptr_t low = from > word * 4 ? from - word * 4 : 0, end = from + bytes - word * 4;
  return (ALL_BYTES << low) & (end >= 4 ? ALL_BYTES : (1u << end) - 1);
}

// The static array at an offset into a block's shared memory, or the one before it; null if that is dynamic.
EMULATOR_PLAIN static const SharedArray* shared_array_at(uintptr_t offset) {
  const SharedArray* found = nullptr;
  for (unsigned i = 0; i < shared_array_count && offset < static_bytes && shared_arrays[i].place <= offset; ++i) {
    found = shared_arrays + i;
  }
  return found;
}

EMULATOR_NOINLINE static void report_shared(Thread* t, Stamp other, uint32_t other_at, size_t word, Access access,
                                            uintptr_t code, const char* kind, const char* what) {
  Where where;
  where.code = code;
  where.other_code = other_at == 0 ? 0 : code_of(other_at);
  where.of_unwritten = other_at == 0 && access == READ;
  uintptr_t offset = word * 4;
  const SharedArray* array = shared_array_at(offset);
  char name[112];
  if (array != nullptr) {
    where.array = array->name;
    snprintf(name, sizeof name, "%s + %zu bytes", array->name, static_cast<size_t>(offset - array->place));
  } else {
    snprintf(name, sizeof name, "dynamic shared memory + %zu bytes",
             static_cast<size_t>(offset - t->block->dynamic_offset));
  }
  const char* verb = access == READ      ? "reads"
                     : access == WRITE   ? "writes"
                     : access == COPY_IN ? "copies to"
                                         : "updates";
  uint3 o = index_of(*t->block->launch, other & THREAD);
  report(kind, where, what, verb, name, o.x, o.y, o.z);
}

EMULATOR_PLAIN inline void report_shared_race(Thread* t, Stamp other, uint32_t other_at, size_t word, Access access,
                                              uintptr_t code) {
  report_shared(t, other, other_at, word, access, code, "race",
                "%s %s, which thread (%u,%u,%u) wrote, with no barrier between");
}

// Two plain writes of the same value to a word, as of a flag, do no harm whichever comes first; but of C each element is one
// thread's to write. What a store writes is known once it is done: `settle` looks at it then. False where there are too many,
// so that the race counts.
EMULATOR_NOINLINE static bool doubt(Thread* t, Doubtful race) {
  Block& b = *t->block;
  if (b.doubtful == nullptr) {
    b.doubtful = static_cast<Doubtful*>(calloc(MOST_DOUBTFUL, sizeof(Doubtful)));
  }
  if (b.doubtful_count == MOST_DOUBTFUL) {
    return false;
  }
  memcpy(&race.was, reinterpret_cast<void*>(race.address), sizeof race.was);
  b.doubtful[b.doubtful_count++] = race;
  return true;
}

// Is there nothing between the other access, of this interval, and the running thread's?
EMULATOR_PLAIN inline bool unordered(Stamp other, Stamp me, bool several_lanes) {
  if (((other ^ me) & WARP) != 0) {
    return true;
  }
  return ((other & THREAD) != (me & THREAD) || several_lanes) && (other & WARP_INTERVAL) >= (me & WARP_INTERVAL);
}

// Was the word written by another block of the cluster? A barrier of this block alone orders nothing then.
EMULATOR_PLAIN inline bool of_another_block(const Block& b, Stamp written) {
  unsigned number = written & THREAD;
  return b.shares_memory && number >= b.count && number < cluster_threads(b);
}

EMULATOR_NOINLINE static void check_written(Thread* t, Shadow& s, size_t word, uint32_t bytes, Access access,
                                            uintptr_t code) {
  Stamp other = s.written;
  bool same_bytes = (t->block->places[word].written >> PLACE_BITS & bytes) != 0;
  if ((other & ~IN_FLIGHT) < t->block->block_start) {
    if (access == READ || access == ATOMIC_ACCESS) {
      report_shared(t, t->stamp, 0, word, access, code, "uninitialised read",
                    "%s %s that no thread of this block has written");
    }
  } else if (other & IN_FLIGHT) {
    report_shared(t, other, t->block->places[word].written, word, access, code, "asynchronous copy",
                  "%s %s while the copy that thread (%u,%u,%u) issued is in flight");
  } else if (of_another_block(*t->block, other)) {
    if (!(access == ATOMIC_ACCESS && (other & ATOMIC)) && same_bytes &&
        !is_known(t, *t->block, other & THREAD, epoch_of(other))) {
      report_shared(t, t->stamp, t->block->places[word].written, word, access, code, "race",
                    "%s %s, which a thread of another block wrote, with no barrier of the cluster between");
    }
  } else if ((other >> 32) != (t->stamp >> 32) || (access == ATOMIC_ACCESS && (other & ATOMIC)) || !same_bytes) {
  } else if (t->block->ptx != nullptr && (other & THREAD) >= t->block->count) {
    if (!is_known(t, *t->block, other & THREAD, epoch_of(other))) {
      report_shared(t, t->stamp, t->block->places[word].written, word, access, code, "asynchronous copy",
                    "%s %s, which a copy brought for whose completion it has not waited");
    }
  } else if (t->block->ptx != nullptr ? !is_known(t, *t->block, other & THREAD, epoch_of(other))
                                      : unordered(other, t->stamp, false)) {
    uint32_t other_at = t->block->places[word].written;
    bool may_be_equal = access == WRITE && !(other & ATOMIC);
    if (!may_be_equal || !doubt(t, {t->block->shared + word * 4, 0, bytes, word, code, other, other_at})) {
      report_shared_race(t, other, other_at, word, access, code);
    }
  }
}

// Is reading a word harmless? It is if it was written in an earlier interval of this block and has landed, or if the
// thread itself wrote it in this one, or knows that the write is over.
EMULATOR_PLAIN inline bool safe_to_read(const Block& b, Stamp written) {
  if (written - b.block_start < b.interval_start - b.block_start || ((written ^ b.stamp) & ~WARP_INTERVAL) == 0) {
    return true;
  }
  unsigned me = b.stamp & THREAD;
  return b.ptx != nullptr && written >> 32 == b.interval && b.ptx->interval_of_known[me] == b.interval &&
         epoch_of(written) < b.ptx->known[me][written & THREAD];
}

EMULATOR_PLAIN inline __attribute__((always_inline)) void note_read(Block& b, size_t word, uintptr_t code,
                                                                    uint32_t bytes = ALL_BYTES) {
  uint32_t place = place_of_code(code, bytes);
  if (b.ptx != nullptr) {
    if (bytes == ALL_BYTES) {
      note_reader(b, word, b.stamp & THREAD, epoch_of(b.stamp), place);
    }
    return;
  }
  Shadow& s = b.shadow[word];
  Stamp me = b.stamp, apart = s.read ^ me;
  if (apart >> 32 != 0 || b.places[word].read >> PLACE_BITS != bytes) {
    s.read = me;
  } else if (s.read & SEVERAL_WARPS) {
    return;
  } else if (apart & WARP) {
    s.read |= SEVERAL_WARPS;
  } else {
    Stamp several = (s.read & SEVERAL_LANES) | (apart & THREAD ? SEVERAL_LANES : 0);
    if ((s.read & WARP_INTERVAL) < (me & WARP_INTERVAL)) {
      several = 0;  // what came before is ordered for the whole warp
    }
    s.read = me | several;
  }
  b.places[word].read = place;
}

// Somebody is going to write to a word of block `b`: do all that have read it in this interval know him, or he them?
EMULATOR_NOINLINE static void check_readers(Thread* t, Block& b, size_t word, const char* verb, uintptr_t code) {
  const Shadow& s = b.shadow[word];
  bool now = static_cast<uint32_t>(s.read >> 32) == b.interval;
  bool has_stores = b.ptx != nullptr && b.ptx->has_stores;
  if (!now && ((!b.shares_memory && !has_stores) || s.read < b.block_start)) {
    return;
  }
  const uint32_t* known = &b == t->block ? known_by(b, t->number) : nullptr;
  for (uint64_t each : b.readers[word].of) {
    for (uint32_t lanes = static_cast<uint32_t>(each); lanes != 0; lanes &= lanes - 1) {
      unsigned number = static_cast<unsigned>(each >> 52) * 32 + __builtin_ctz(lanes);
      if (known != nullptr && (each >> 32 & 0xFFFFF) < known[number]) {
        continue;
      }
      bool before = !now && (number >= cluster_threads(b) || (&b == t->block && number < b.count));
      uint32_t epoch = each >> 32 & 0xFFFFF;
      if (before ? !has_stores || !still_stores(b, number, epoch) : is_known(t, b, number, epoch)) {
        continue;
      }
      Where where;
      where.code = code;
      where.other_code = code_of(b.places[word].read);
      uintptr_t offset = word * 4;
      const SharedArray* array = offset < b.dynamic_offset ? shared_array_at(offset) : nullptr;
      where.array = array != nullptr ? array->name : nullptr;
      uint3 o = index_of(*b.launch, number % b.count);
      char reader[64];
      snprintf(reader, sizeof reader, "thread (%u,%u,%u)", o.x, o.y, o.z);
      unsigned background = number - cluster_threads(b);
      const char* who = number < b.count                                          ? reader
                        : number < cluster_threads(b)                             ? "a thread of another block"
                        : b.ptx->background[background].kind == PRODUCTS_OF_GROUP ? "a wgmma not waited for"
                                                                                  : "a bulk store not waited for";
      report("race", where, "%s %s + %zu bytes, which %s reads, with no barrier between", verb,
             array != nullptr ? array->name : "dynamic shared memory",
             static_cast<size_t>(offset - (array != nullptr ? array->place : b.dynamic_offset)), who);
      return;
    }
  }
}

EMULATOR_PLAIN inline void shared_write(Thread* t, size_t word, uint32_t bytes, Access access, uintptr_t code) {
  Shadow& s = t->block->shadow[word];
  Stamp me = t->stamp;
  bool same = (s.written >> 32) == (me >> 32);
  if ((same && ((s.written ^ me) & (THREAD | ATOMIC))) || t->block->shares_memory || (s.written & IN_FLIGHT) ||
      access == ATOMIC_ACCESS) {
    check_written(t, s, word, bytes, access, code);
  }
  if (t->block->ptx != nullptr) {
    check_readers(t, *t->block, word, access == COPY_IN ? "copies to" : "writes", code);
    s.read = 0;
  } else if ((s.read >> 32) == (me >> 32) && (t->block->places[word].read >> PLACE_BITS & bytes) != 0 &&
             ((s.read & SEVERAL_WARPS) || unordered(s.read, me, (s.read & SEVERAL_LANES) != 0))) {
    bool several = (s.read & (SEVERAL_LANES | SEVERAL_WARPS)) != 0;
    report_shared(t, s.read, t->block->places[word].read, word, access, code, "race",
                  several ? "%s %s, which several threads, (%u,%u,%u) among them, read, with no barrier between"
                          : "%s %s, which thread (%u,%u,%u) read, with no barrier between");
  }
  s.written = me | (access == ATOMIC_ACCESS ? ATOMIC : access == COPY_IN ? IN_FLIGHT : 0);
  t->block->places[word].written = place_of_code(code, bytes);
}

EMULATOR_PLAIN inline void shared_access(Thread* t, size_t offset, unsigned bytes, Access access, uintptr_t code) {
  for (size_t word = offset / 4; word * 4 < offset + bytes; ++word) {
    uint32_t part = bytes_of(word, offset, bytes);
    if (access == READ) {
      if (t->block->shares_memory || !safe_to_read(*t->block, t->block->shadow[word].written)) {
        check_written(t, t->block->shadow[word], word, part, READ, code);
      }
      note_read(*t->block, word, code, part);
    } else {
      shared_write(t, word, part, access, code);
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Global memory: the buffers that the host has registered. Who accessed a word and when, in 64 bits:
//   63 set   62..53 the batch of launches   52..35 the block's id   34..25 the thread   24..22 the kind
//   21..18 the bytes   17..0 the clock
using GlobalStamp = uint64_t;

constexpr GlobalStamp GLOBAL_WRITTEN = 1ull << 63;
constexpr GlobalStamp OF_EARLIER_PRODUCT = GLOBAL_WRITTEN | 1;  // of batch 0, as what the host has written is
constexpr uint64_t LAST_BATCH = 0x3FF, LAST_ID = 0x3FFFF;
// The kinds: plain; atomic or volatile; float sums in whatever order, of which one on zero is the first; atomic or volatile
// for the threads of its block.
constexpr unsigned PLAIN = 0, STRONG = 1, FIRST_SUM = 2, SUM = 3, STRONG_IN_BLOCK = 4;

EMULATOR_PLAIN inline GlobalStamp global_stamp(const Thread* t, unsigned kind, uint32_t bytes) {
  const Block& b = *t->block;
  uint64_t id = b.id < LAST_ID ? b.id : LAST_ID;
  return GLOBAL_WRITTEN | b.batch << 53 | id << 35 | static_cast<uint64_t>(t->number) << 25 | kind << 22 |
         bytes << CLOCK_BITS | b.clock;
}
EMULATOR_PLAIN inline uint32_t bytes_of(GlobalStamp stamp) { return stamp >> CLOCK_BITS & ALL_BYTES; }
EMULATOR_PLAIN inline uint32_t id_of(GlobalStamp stamp) { return stamp >> 35 & LAST_ID; }
EMULATOR_PLAIN inline uint32_t thread_of(GlobalStamp stamp) { return stamp >> 25 & THREAD; }
EMULATOR_PLAIN inline unsigned kind_of(GlobalStamp stamp) { return stamp >> 22 & 7; }
EMULATOR_PLAIN inline bool is_strong(GlobalStamp stamp, uint32_t to) {
  return kind_of(stamp) != PLAIN && (kind_of(stamp) != STRONG_IN_BLOCK || id_of(stamp) == to);
}

// Was it by a block that runs in the same batch of launches, and do its stamps tell when?
EMULATOR_PLAIN inline bool of_this_batch(const Thread* t, GlobalStamp other) {
  return (other & GLOBAL_WRITTEN) && (other >> 53 & LAST_BATCH) == t->block->batch && id_of(other) != LAST_ID &&
         (other & LAST_TICK) != LAST_TICK;
}

// Is there nothing between the other access and the running thread's? Two that are both atomic or volatile need nothing.
EMULATOR_PLAIN static bool global_race(Thread* t, GlobalStamp other, uint32_t bytes, bool was_read, bool strong,
                                       bool need_order, const char** why) {
  Block& b = *t->block;
  uint32_t id = id_of(other), thread = thread_of(other), at = other & LAST_TICK;
  if ((bytes_of(other) & bytes) == 0) {
    return false;
  }
  if (!t->awaited && (other & GLOBAL_WRITTEN) && (other >> 53 & LAST_BATCH) == (b.launch->before & LAST_BATCH)) {
    *why = "with no griddepcontrol.wait between";
    return true;
  }
  if (!of_this_batch(t, other) || (strong && is_strong(other, b.id) && !need_order)) {
    return false;
  }
  if (id == b.id) {
    bool same_warp = (thread ^ t->number) < 32;
    *why = "with nothing between";
    const char* unused;
    return thread != t->number && at >= b.barrier_tick && !(same_warp && at < t->warp_tick) &&
           !ordered(t, id, thread, at, was_read, true, &unused);
  }
  return !ordered(t, id, thread, at, was_read, strong, why);
}

// An element of a matrix, or of a variable, in words.
EMULATOR_PLAIN static const char* element_name(const Buffer& b, uintptr_t word, char (&text)[112]) {
  if (b.variable) {
    snprintf(text, sizeof text, "%s + %zu bytes", b.name, static_cast<size_t>(word * 4));
  } else {
    snprintf(text, sizeof text, "%s[%lld][%lld]", b.name, static_cast<long long>(word) / b.ld,
             static_cast<long long>(word) % b.ld);
  }
  return text;
}

// Why there is nothing to read in a buffer: that of which no other block needs anything is a result, which is not to be read
// before it is written.
EMULATOR_PLAIN static const char* nothing_in(const Buffer& b) {
  return b.between_blocks || b.variable ? "holds nothing yet"
                                        : "is not to be read where beta = 0, for it may hold a NaN";
}

EMULATOR_NOINLINE static void report_global_race(Thread* t, const Where& where, const Buffer& b, uintptr_t word,
                                                 GlobalStamp other, const char* what, const char* did,
                                                 const char* why) {
  char name[112];
  if ((other >> 53 & LAST_BATCH) != t->block->batch) {
    report("race", where, "%s %s, which the kernel launched before this one %s, %s", what, element_name(b, word, name),
           did, why);
    return;
  }
  const History& history = histories[id_of(other)];
  uint3 o = index_of(*t->block->launch, thread_of(other));
  char block[64] = "the same block";
  if (id_of(other) != t->block->id) {
    snprintf(block, sizeof block, "block (%u,%u,%u)", history.index.x, history.index.y, history.index.z);
  }
  report("race", where, "%s %s, which thread (%u,%u,%u) of %s %s, %s", what, element_name(b, word, name), o.x, o.y, o.z,
         block, did, why);
}

// The running thread's last store is done: did it write other values than those that were there?
EMULATOR_NOINLINE static void settle(Thread* t) {
  Block& b = *t->block;
  unsigned count = b.doubtful_count;
  b.doubtful_count = 0;
  for (unsigned i = 0; i < count; ++i) {
    const Doubtful& race = b.doubtful[i];
    const char *was = reinterpret_cast<const char*>(&race.was), *is = reinterpret_cast<const char*>(race.address);
    bool equal = true;
    for (unsigned byte = 0; byte < 4; ++byte) {
      equal = equal && (!(race.bytes >> byte & 1) || was[byte] == is[byte]);
    }
    if (equal) {
      continue;
    }
    if (race.in == nullptr) {
      report_shared_race(t, race.other, race.other_at, race.word, WRITE, race.code);
    } else {
      Where where;
      where.code = race.code;
      report_global_race(t, where, *race.in, race.word, race.other, "writes", "wrote", race.why);
    }
  }
}

EMULATOR_NOINLINE static void outside(const Thread* t, uintptr_t address, unsigned bytes, Access access,
                                      uintptr_t code) {
  Where where;
  where.code = code;
  const char* verb = only_reads(access) ? "reads" : "writes";
  const Block& b = *t->block;
  uintptr_t offset = address - b.shared;
  const SharedArray* array = offset < b.dynamic_offset ? shared_array_at(offset) : nullptr;
  if (array != nullptr) {
    where.array = array->name;
    report("out of bounds", where, "%s %u bytes at %zu of %zu bytes of %s", verb, bytes,
           static_cast<size_t>(offset - array->place), static_cast<size_t>(array->bytes), array->name);
  } else if (address - all_shared < all_shared_bytes) {
    report("out of bounds", where, "%s %u bytes at %td of %zu bytes of dynamic shared memory", verb, bytes,
           static_cast<ptrdiff_t>(offset - b.dynamic_offset), b.launch->as.dynamic_bytes);
  } else {
    const Buffer* nearest = nullptr;
    uintptr_t least = UINTPTR_MAX;
    bool in_library = address - image < image_end - image;
    for (unsigned i = 0; i < (in_library ? variable_count : buffer_count); ++i) {
      const Buffer& b = in_library ? variables[i] : buffers[i];
      uintptr_t distance = address < b.base             ? b.base - address
                           : address < b.base + b.bytes ? 0
                                                        : address - b.base - b.bytes;
      if (distance < least) {
        least = distance;
        nearest = &b;
      }
    }
    if (in_library && nearest != nullptr) {
      report("out of bounds", where, "%s %u bytes at %td of %zu bytes of %s", verb, bytes,
             static_cast<ptrdiff_t>(address - nearest->base), static_cast<size_t>(nearest->bytes), nearest->name);
    } else if (!in_library) {
      int64_t element = static_cast<int64_t>(address - nearest->base) / 4, ld = nearest->ld;
      int64_t row = element >= 0 ? element / ld : -((-element + ld - 1) / ld);
      report("out of bounds", where, "%s %u bytes outside %s (%lld x %lld, ld %lld), at row %lld, column %lld", verb,
             bytes, nearest->name, static_cast<long long>(nearest->rows), static_cast<long long>(nearest->cols),
             static_cast<long long>(ld), static_cast<long long>(row), static_cast<long long>(element - row * ld));
    }
  }
  stop_launch(700);  // cudaErrorIllegalAddress
}

EMULATOR_PLAIN inline bool is_zero(uintptr_t address, unsigned bytes) {
  float value = 0;
  double wide = 0;
  memcpy(bytes == 4 ? static_cast<void*>(&value) : &wide, reinterpret_cast<void*>(address), bytes == 4 ? 4 : 8);
  return value == 0 && wide == 0;
}

EMULATOR_NOINLINE static void buffer_access(Thread* t, Buffer& b, uintptr_t address, unsigned bytes, Access access,
                                            uintptr_t code) {
  Where where;
  where.code = code;
  uint64_t accesses = __atomic_load_n(&device.accesses, __ATOMIC_RELAXED) + 1;  // exact where one host thread works
  __atomic_store_n(&device.accesses, accesses, __ATOMIC_RELAXED);
  if (accesses == most_accesses) {
    report("timeout", Where(), "has not ended after %llu accesses", static_cast<unsigned long long>(accesses));
    stop_launch(702);  // cudaErrorLaunchTimeout
  }
  bool of_block = access == BLOCK_ATOMIC || access == BLOCK_READ || access == BLOCK_WRITE;
  bool strong =
      access == ATOMIC_ACCESS || access == STRONG_READ || access == STRONG_WRITE || access == SUM_ACCESS || of_block;
  bool is_write = !only_reads(access);
  bool is_read = !is_write || access == ATOMIC_ACCESS || access == SUM_ACCESS || access == BLOCK_ATOMIC;
  for (uintptr_t word = (address - b.base) / 4; word * 4 < address + bytes - b.base; ++word) {
    char name[112];
    unsigned kind = of_block ? STRONG_IN_BLOCK : strong ? STRONG : PLAIN;
    uint32_t part = bytes_of(word, address - b.base, bytes);
    long long col = static_cast<long long>(word) % b.ld;
    GlobalStamp other = b.shadow == nullptr ? 0 : __atomic_load_n(b.shadow + word, __ATOMIC_RELAXED);
    if (is_write && !b.writable) {
      report("forbidden write", where, "writes %s, which is an input", element_name(b, word, name));
      stop_launch(700);
    }
    if (is_write && col >= b.cols) {
      report("out of bounds", where, "writes %s, between the matrix's %lld columns and ld %lld",
             element_name(b, word, name), static_cast<long long>(b.cols), static_cast<long long>(b.ld));
    }
    if (!t->awaited && t->block->launch->before_begun && !b.variable) {
      report("race", where,
             "%s %s, which what was queued before this call may still %s, with no griddepcontrol.wait before",
             is_write ? "writes" : "reads", element_name(b, word, name), is_write ? "use" : "write");
    }
    const char* why = "";
    bool strong_to_it = of_block ? id_of(other) == t->block->id : strong;
    if (global_race(t, other, part, false, strong_to_it, false, &why)) {
      bool may_be_equal = access == WRITE && kind_of(other) == PLAIN && t->awaited && (b.between_blocks || b.variable);
      if (!may_be_equal || !doubt(t, {b.base + word * 4, 0, part, word, code, other, 0, &b, why})) {
        report_global_race(t, where, b, word, other, is_write ? "writes" : "reads", "wrote", why);
      }
    }
    if (access == STRONG_READ && kind_of(other) == STRONG && id_of(other) != t->block->id && of_this_batch(t, other) &&
        told_without_fence(t, id_of(other), thread_of(other), other & LAST_TICK)) {
      report_global_race(t, where, b, word, other, "reads", "wrote",
                         "that block has no fence between this and its flag or counter");
    }
    if (access == READ_ONLY && other > GLOBAL_WRITTEN && (other >> 53 & LAST_BATCH) == t->block->batch) {
      report("race", where, "reads %s by the cache that is not coherent (ld.global.nc), and the same launch wrote it",
             element_name(b, word, name));
    }
    if (is_read && !b.readable) {
      report("forbidden read", where, "reads %s, which this product must not read", element_name(b, word, name));
    } else if (is_read && !b.defined && other == 0 && !(b.variable && strong)) {
      if (device.skipped > 0) {
        report("timeout", where, "reads %s, which a block that did not run may write", element_name(b, word, name));
      } else {
        where.of_unwritten = access == READ && b.between_blocks;
        report("uninitialised read", where, "reads %s, which %s", element_name(b, word, name), nothing_in(b));
        where.of_unwritten = false;
      }
    } else if ((access == READ || access == READ_ONLY) && b.variable && other == OF_EARLIER_PRODUCT) {
      report("state", where, "reads %s, which an earlier product has written", element_name(b, word, name));
    }
    if (b.shadow == nullptr) {
      continue;
    }
    if (is_read) {
      __atomic_store_n(b.readers + word, global_stamp(t, kind, part), __ATOMIC_RELAXED);
    }
    if (is_write) {
      device.has_written = true;
      device.left_for_others = device.left_for_others || is_read || b.between_blocks || b.variable;
      GlobalStamp reader = is_read ? 0 : __atomic_load_n(b.readers + word, __ATOMIC_RELAXED);
      if (global_race(t, reader, part, true, strong, false, &why)) {
        report_global_race(t, where, b, word, reader, "writes", "read", why);
      }
      if (access == SUM_ACCESS) {
        kind = kind_of(other) != FIRST_SUM && is_zero(address, bytes) ? FIRST_SUM : SUM;
        if (kind_of(other) == SUM && id_of(other) != t->block->id &&
            global_race(t, other, part, false, strong, true, &why)) {
          report("nondeterminism", where,
                 "adds to %s as other blocks do, in whatever order they come; add in one order, or say in kernels.yaml "
                 "deterministic: false",
                 element_name(b, word, name));
        }
      }
      __atomic_store_n(b.shadow + word, global_stamp(t, kind, part), __ATOMIC_RELAXED);
      if (b.parts != nullptr) {
        __atomic_store_n(b.parts + word / PART, 1, __ATOMIC_RELAXED);
      }
    }
  }
}

// The variable of the library that holds an address; null where none does.
EMULATOR_PLAIN static Buffer* variable_at(uintptr_t address) {
  unsigned low = 0, high = variable_count;
  while (low < high) {
    unsigned middle = (low + high) / 2;
    if (variables[middle].base <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0 || address - variables[low - 1].base >= variables[low - 1].bytes) {
    return nullptr;
  }
  Buffer& b = variables[low - 1];
  if (b.shadow == nullptr && b.writable) {
    uintptr_t words = (b.bytes + 3) / 4;
    uint64_t* shadow = static_cast<uint64_t*>(calloc(2 * words, sizeof(GlobalStamp)));
    b.readers = shadow + words;
    uint64_t* none = nullptr;
    if (!__atomic_compare_exchange_n(&b.shadow, &none, shadow, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      free(shadow);
    }
    b.readers = b.shadow + words;
  }
  return &b;
}

EMULATOR_PLAIN inline void global_access(Thread* t, uintptr_t address, unsigned bytes, Access access, uintptr_t code) {
  if (buffer_count == 0) {
    return;
  }
  for (unsigned i = 0; i < buffer_count; ++i) {
    Buffer& b = buffers[i];
    uintptr_t offset = address - b.base;
    if (offset < b.bytes) {
      if (offset + bytes > b.bytes) {
        break;
      }
      buffer_access(t, b, address, bytes, access, code);
      return;
    }
  }
  bool in_library = address - image < image_end - image;
  if (Buffer* b = in_library ? variable_at(address) : nullptr; b != nullptr && address - b->base + bytes <= b->bytes) {
    buffer_access(t, *b, address, bytes, access, code);
  } else if (!in_library || b != nullptr || !only_reads(access)) {  // else a constant without name
    outside(t, address, bytes, access, code);
  }
}

// An atomic access to a word is noted before the lock of such words is taken. What another block has noted in between came
// first all the same. With `atomic_lock` held.
EMULATOR_NOINLINE static void note_as_last(Thread* t, uintptr_t address) {
  Buffer* found = address - image < image_end - image ? variable_at(address) : nullptr;
  for (unsigned i = 0; i < buffer_count && found == nullptr; ++i) {
    found = address - buffers[i].base < buffers[i].bytes ? &buffers[i] : nullptr;
  }
  if (found == nullptr || found->shadow == nullptr || address - found->base >= found->bytes) {
    return;
  }
  uintptr_t word = (address - found->base) / 4;
  for (GlobalStamp* noted : {found->shadow + word, found->readers + word}) {
    GlobalStamp other = __atomic_load_n(noted, __ATOMIC_RELAXED);
    if ((other >> 53 & LAST_BATCH) == t->block->batch && kind_of(other) == STRONG && id_of(other) != t->block->id) {
      __atomic_store_n(noted, global_stamp(t, STRONG, bytes_of(other)), __ATOMIC_RELAXED);
    }
  }
}

// Host code that reads or writes what only a GPU can: on a machine with one it would crash.
EMULATOR_NOINLINE static void check_host(uintptr_t address, bool write, uintptr_t code) {
  for (unsigned i = 0; i < buffer_count; ++i) {
    if (address - buffers[i].base < buffers[i].bytes) {
      Where where;
      where.code = code;
      report("contract", where, "%s %s, which is in the memory of the GPU", write ? "writes" : "reads",
             buffers[i].name);
      return;
    }
  }
}

static void misaligned(uintptr_t address, unsigned bytes, const Where& where);
static void check_local(Thread* t, uintptr_t address, Access access, uintptr_t code);
static bool remote_access(Thread* t, uintptr_t address, unsigned bytes, Access access, uintptr_t code);

// Every access of a kernel comes to this function or the next.
EMULATOR_NOINLINE static void check(uintptr_t address, unsigned bytes, Access access, uintptr_t code) {
  Thread* t = this_thread();
  if (t == nullptr) {
    check_host(address, access != READ, code);
    return;
  }
  if (device.stop) {
    stop_launch(0);
  }
  const Block& b = *t->block;
  if (b.doubtful_count > 0) {
    settle(t);
  }
  uintptr_t offset = address - b.shared;
  if (offset < b.shared_bytes && offset + bytes <= b.shared_bytes && b.shadow[offset / 4].written != NO_WORD &&
      b.shadow[(offset + bytes - 1) / 4].written != NO_WORD) {
    Access plain = only_reads(access)       ? READ
                   : access == STRONG_WRITE ? WRITE
                   : access == BLOCK_WRITE  ? WRITE
                   : access == SUM_ACCESS   ? ATOMIC_ACCESS
                   : access == BLOCK_ATOMIC ? ATOMIC_ACCESS
                                            : access;
    shared_access(t, offset, bytes, plain, code);
  } else if (address - all_shared < all_shared_bytes) {
    if (!remote_access(t, address, bytes, access, code)) {
      outside(t, address, bytes, access, code);
    }
  } else if (address - stacks >= stacks_bytes) {
    global_access(t, address, bytes, access, code);
  } else if (b.has_sums) {  // a local variable
    check_local(t, address, only_reads(access) ? READ : access, code);
  }
}

EMULATOR_NOINLINE void read_only_load(const void* pointer, unsigned bytes, unsigned alignment, const void* code) {
  uintptr_t caller = code != nullptr ? reinterpret_cast<uintptr_t>(code) : EMULATOR_CALLER;
  uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  if (address % alignment != 0) {
    Where where;
    where.code = caller;
    misaligned(address, alignment, where);
  }
  check(address, bytes, READ_ONLY, caller);
}

// `usual` of a read where threads know of each other by clocks; a function of its own, so that the others need no stack.
EMULATOR_NOINLINE static bool usual_with_clocks(Block& b, size_t word, uintptr_t code) {
  bool safe = safe_to_read(b, b.shadow[word].written);
  if (safe) {
    note_read(b, word, code);
  }
  return safe;
}

// The usual harmless accesses to a word of shared memory, which change at most its stamps: if this is one, it is done.
EMULATOR_PLAIN inline __attribute__((always_inline)) bool usual(Block& b, size_t word, Access access, uintptr_t code) {
  Shadow& s = b.shadow[word];
  if (b.shares_memory) {
    return false;
  }
  if (access == READ) {
    if (b.ptx != nullptr) {
      return usual_with_clocks(b, word, code);
    }
    bool safe = safe_to_read(b, s.written);
    if (safe && ((s.read ^ b.stamp) & ~LANE) != SEVERAL_LANES) {  // else another lane of this warp has noted it
      note_read(b, word, code);
    }
    return safe;
  }
  bool first = s.written < b.interval_start && s.read < b.interval_start;  // access of anybody in this interval
  first = first && (b.ptx == nullptr || !b.ptx->has_stores);
  if (first) {
    s.written = b.stamp;
    b.places[word].written = place_of_code(code, ALL_BYTES);
  }
  return first;
}

// Tells the usual accesses at once: to shared memory, and reads of an input.
EMULATOR_PLAIN inline __attribute__((always_inline)) void check_quickly(uintptr_t address, unsigned bytes,
                                                                        Access access, uintptr_t code) {
  Block* block = this_block();
  if (block == nullptr) {
    check_host(address, access != READ, code);
    return;
  }
  Block& b = *block;
  uintptr_t offset = address - b.shared;
  if (device.stop) {  // left to the full check
  } else if (offset < b.shared_bytes && offset + bytes <= b.shared_bytes) {
    size_t word = offset / 4, end = word + bytes / 4;
    while (usual(b, word, access, code)) {
      if (++word == end) {
        return;
      }
    }
  } else if (address - stacks < stacks_bytes && !b.has_sums) {
    return;  // a local variable
  } else if (access == READ) {
    for (unsigned i = 0; i < input_count; ++i) {
      const Input& input = inputs[i];
      if (address - input.base < input.bytes && address - input.base + bytes <= input.bytes) {
        return;
      }
    }
  }
  check(address, bytes, access, code);
}

EMULATOR_NOINLINE void grid_wait() {
  Thread* t = this_thread();
  t->awaited = t->block->awaited = true;
}

EMULATOR_NOINLINE void fence() { note_fence(this_thread()); }

// What host code queues that is no kernel writes or reads memory of the GPU: all of it must be of one buffer.
EMULATOR_NOINLINE static void host_access(const void* pointer, size_t bytes, bool write, const char* what) {
  uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  Buffer* found = address - image < image_end - image ? variable_at(address) : nullptr;
  for (unsigned i = 0; i < buffer_count && found == nullptr; ++i) {
    found = address - buffers[i].base < buffers[i].bytes ? buffers + i : nullptr;
  }
  if (buffer_count == 0 || bytes == 0) {
    return;
  }
  if (found == nullptr) {
    if (write) {
      report("out of bounds", Where(), "%s %zu bytes that are outside all matrices, the workspace and all variables",
             what, bytes);
    }
    return;
  }
  uintptr_t offset = address - found->base;
  if (offset + bytes > found->bytes) {
    report("out of bounds", Where(), "%s %zu bytes at %zu of %zu bytes of %s", what, bytes, static_cast<size_t>(offset),
           static_cast<size_t>(found->bytes), found->name);
  } else if (write && !found->writable) {
    report("forbidden write", Where(), "%s %s, which is an input", what, found->name);
  } else if (!write && !found->readable) {
    report("forbidden read", Where(), "%s %s, which this product must not read", what, found->name);
  }
  for (uintptr_t word = offset / 4; found->shadow != nullptr && word * 4 < offset + bytes && word * 4 < found->bytes;
       ++word) {
    if (write) {
      int64_t column = static_cast<int64_t>(word) % found->ld;
      if (column >= found->cols) {
        report("out of bounds", Where(), "%s the columns of %s between %lld and ld %lld", what, found->name,
               static_cast<long long>(found->cols), static_cast<long long>(found->ld));
        break;
      }
      found->shadow[word] = GLOBAL_WRITTEN;
    } else if (found->shadow[word] == 0 && !found->defined && !found->variable) {  // which may be the host's own
      report("uninitialised read", Where(), "%s %s, which %s", what, found->name, nothing_in(*found));
      break;
    }
  }
}

EMULATOR_NOINLINE static void misaligned(uintptr_t address, unsigned bytes, const Where& where) {
  for (unsigned i = 0; i < buffer_count; ++i) {
    const Buffer& b = buffers[i];
    if (address - b.base < b.bytes) {
      char name[112];
      report("misaligned", where, "accesses %s with an alignment of %u bytes, which its address lacks",
             element_name(b, (address - b.base) / 4, name), bytes);
      stop_launch(716);  // cudaErrorMisalignedAddress
    }
  }
  report("misaligned", where, "an access needs an alignment of %u bytes, which its address lacks", bytes);
  stop_launch(716);
}

// ---------------------------------------------------------------------------------------------------------------------
// Asynchronous copies: read when issued, in flight and poisoned until the wait that covers them.

EMULATOR_NOINLINE void issue_copy(void* to, const void* from, size_t bytes, size_t zeros) {
  uintptr_t code = EMULATOR_CALLER;
  Thread* t = this_thread();
  Where where;
  where.code = code;
  uintptr_t target = reinterpret_cast<uintptr_t>(to), source = reinterpret_cast<uintptr_t>(from);
  if ((bytes != 4 && bytes != 8 && bytes != 16) || zeros > bytes) {
    report("asynchronous copy", where, "copies %zu bytes with %zu zeros; 4, 8 and 16 bytes can be copied", bytes,
           zeros);
    stop_launch(1);
  }
  if (target % bytes != 0 || source % bytes != 0) {
    misaligned(target % bytes != 0 ? target : source, bytes, where);
  }
  if (target - all_shared >= all_shared_bytes) {
    report("asynchronous copy", where, "copies to memory that is not shared");
    stop_launch(700);
  }
  if (bytes > zeros) {
    check(source, static_cast<unsigned>(bytes - zeros), READ, code);
  }
  check(target, static_cast<unsigned>(bytes), COPY_IN, code);
  memset(to, POISON, bytes);
  if (t->copy_count == t->copy_capacity) {
    t->copy_capacity = t->copy_capacity * 2 + 64;
    t->copies = static_cast<Copy*>(realloc(t->copies, t->copy_capacity * sizeof(Copy)));
  }
  t->copies[t->copy_count++] = {static_cast<char*>(to), static_cast<const char*>(from), static_cast<unsigned>(bytes),
                                static_cast<unsigned>(zeros), t->batch};
}

EMULATOR_NOINLINE void commit_copies() { ++this_thread()->batch; }

EMULATOR_NOINLINE void wait_for_copies(unsigned newest) {
  Thread* t = this_thread();
  const Block& b = *t->block;
  unsigned done = 0;
  for (; done < t->copy_count && t->copies[done].batch + newest < t->batch; ++done) {
    const Copy& c = t->copies[done];
    memcpy(c.to, c.from, c.bytes - c.zeros);
    memset(c.to + c.bytes - c.zeros, 0, c.zeros);
    uintptr_t offset = reinterpret_cast<uintptr_t>(c.to) - b.shared;
    for (unsigned i = 0; i < c.bytes / 4; ++i) {
      b.shadow[offset / 4 + i].written = t->stamp;  // the copy lands here, for others after the next barrier
    }
  }
  t->copy_count -= done;
  memmove(t->copies, t->copies + done, t->copy_count * sizeof(Copy));
}

}  // namespace emulator
