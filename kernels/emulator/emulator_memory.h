// Of the emulator's engine: what every access of a kernel to shared and global memory is checked for.
#pragma once

#include "emulator_clocks.h"
#include "emulator_state.h"

namespace emulator {

// ---------------------------------------------------------------------------------------------------------------------
// Shared memory: races, reads of what was never written, asynchronous copies. Words of 4 bytes; smaller accesses count
// as writes but are not checked.

enum Access { READ, WRITE, ATOMIC_ACCESS, COPY_IN, STRONG_READ, STRONG_WRITE };

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
  where.other_code = other_at == 0 ? 0 : image + other_at;
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

// Is there nothing between the other access, of this interval, and the running thread's?
EMULATOR_PLAIN inline bool unordered(Stamp other, Stamp me, bool several_lanes) {
  if (((other ^ me) & WARP) != 0) {
    return true;
  }
  return ((other & THREAD) != (me & THREAD) || several_lanes) && (other & WARP_INTERVAL) >= (me & WARP_INTERVAL);
}

EMULATOR_NOINLINE static void check_written(Thread* t, Shadow& s, size_t word, Access access, uintptr_t code) {
  Stamp other = s.written;
  if ((other & ~IN_FLIGHT) < t->block->block_start) {
    if (access == READ || access == ATOMIC_ACCESS) {
      report_shared(t, t->stamp, 0, word, access, code, "uninitialised read",
                    "%s %s that no thread of this block has written");
    }
  } else if (other & IN_FLIGHT) {
    report_shared(t, other, t->block->places[word].written, word, access, code, "asynchronous copy",
                  "%s %s while the copy that thread (%u,%u,%u) issued is in flight");
  } else if ((other >> 32) != (t->stamp >> 32) || (access == ATOMIC_ACCESS && (other & ATOMIC))) {
  } else if (t->block->ptx != nullptr && (other & THREAD) >= t->block->count) {
    if (!is_known(t, *t->block, other & THREAD, epoch_of(other))) {
      report_shared(t, t->stamp, t->block->places[word].written, word, access, code, "asynchronous copy",
                    "%s %s, which a copy brought for whose completion it has not waited");
    }
  } else if (t->block->ptx != nullptr ? !is_known(t, *t->block, other & THREAD, epoch_of(other))
                                      : unordered(other, t->stamp, false)) {
    report_shared(t, other, t->block->places[word].written, word, access, code, "race",
                  "%s %s, which thread (%u,%u,%u) wrote, with no barrier between");
  }
}

// Is reading a word harmless? It is if it was written in an earlier interval of this block and has landed, or if the
// thread itself wrote it in this one.
EMULATOR_PLAIN inline bool safe_to_read(const Block& b, Stamp written) {
  return written - b.block_start < b.interval_start - b.block_start || ((written ^ b.stamp) & ~WARP_INTERVAL) == 0;
}

EMULATOR_PLAIN inline __attribute__((always_inline)) void note_read(Block& b, size_t word, uintptr_t code) {
  if (b.ptx != nullptr) {
    note_reader(b, word, b.stamp & THREAD, epoch_of(b.stamp), static_cast<uint32_t>(code - image));
    return;
  }
  Shadow& s = b.shadow[word];
  Stamp me = b.stamp, apart = s.read ^ me;
  if (apart >> 32 != 0) {
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
  b.places[word].read = static_cast<uint32_t>(code - image);
}

// Somebody is going to write to a word of block `b`: do all that have read it in this interval know him, or he them?
EMULATOR_NOINLINE static void check_readers(Thread* t, Block& b, size_t word, const char* verb, uintptr_t code) {
  const Shadow& s = b.shadow[word];
  if (static_cast<uint32_t>(s.read >> 32) != b.interval) {
    return;
  }
  for (uint64_t each : b.readers[word].of) {
    for (uint32_t lanes = static_cast<uint32_t>(each); lanes != 0; lanes &= lanes - 1) {
      unsigned number = static_cast<unsigned>(each >> 52) * 32 + __builtin_ctz(lanes);
      if (is_known(t, b, number, each >> 32 & 0xFFFFF)) {
        continue;
      }
      Where where;
      where.code = code;
      where.other_code = image + b.places[word].read;
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

EMULATOR_PLAIN inline void shared_write(Thread* t, size_t word, Access access, uintptr_t code) {
  Shadow& s = t->block->shadow[word];
  Stamp me = t->stamp;
  bool same = (s.written >> 32) == (me >> 32);
  if ((same && ((s.written ^ me) & (THREAD | ATOMIC))) || (s.written & IN_FLIGHT) || access == ATOMIC_ACCESS) {
    check_written(t, s, word, access, code);
  }
  if (t->block->ptx != nullptr) {
    check_readers(t, *t->block, word, access == COPY_IN ? "copies to" : "writes", code);
    s.read = 0;
  } else if ((s.read >> 32) == (me >> 32) &&
             ((s.read & SEVERAL_WARPS) || unordered(s.read, me, (s.read & SEVERAL_LANES) != 0))) {
    bool several = (s.read & (SEVERAL_LANES | SEVERAL_WARPS)) != 0;
    report_shared(t, s.read, t->block->places[word].read, word, access, code, "race",
                  several ? "%s %s, which several threads, (%u,%u,%u) among them, read, with no barrier between"
                          : "%s %s, which thread (%u,%u,%u) read, with no barrier between");
  }
  s.written = me | (access == ATOMIC_ACCESS ? ATOMIC : access == COPY_IN ? IN_FLIGHT : 0);
  t->block->places[word].written = static_cast<uint32_t>(code - image);
}

EMULATOR_PLAIN inline void shared_access(Thread* t, size_t offset, unsigned bytes, Access access, uintptr_t code) {
  for (size_t word = offset / 4; word * 4 < offset + bytes; ++word) {
    if (bytes < 4) {
      if (access != READ) {
        t->block->shadow[word].written = t->stamp;
      }
    } else if (access == READ) {
      if (!safe_to_read(*t->block, t->block->shadow[word].written)) {
        check_written(t, t->block->shadow[word], word, READ, code);
      }
      note_read(*t->block, word, code);
    } else {
      shared_write(t, word, access, code);
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Global memory: the buffers that the host has registered. A word's stamp, in 64 bits:
//   63 set   62..51 the launch   50..27 the block   26..11 the interval between barriers   10 atomic   9..0 the thread

constexpr uint64_t GLOBAL_WRITTEN = 1ull << 63, GLOBAL_ATOMIC = 1 << 10;

EMULATOR_PLAIN inline uint64_t global_stamp(const Thread* t, bool atomic) {
  return GLOBAL_WRITTEN | (t->block->serial & 0xFFF) << 51 | (t->block->number & 0xFFFFFF) << 27 |
         (t->stamp >> 32 & 0xFFFF) << 11 | (atomic ? GLOBAL_ATOMIC : 0) | t->number;
}

// Two accesses that nothing orders. Blocks are taken as ordered once the later one has both used an atomic and fenced.
EMULATOR_PLAIN inline bool global_race(const Thread* t, uint64_t other, uint64_t me) {
  if (!(other & GLOBAL_WRITTEN) || ((other ^ me) >> 51) != 0 || (other & me & GLOBAL_ATOMIC)) {
    return false;
  }
  if (((other ^ me) >> 27) != 0) {
    return !(t->block->fenced && t->block->used_atomics);
  }
  bool same_warp = ((other ^ me) & WARP) == 0;
  return ((other ^ me) >> 11) == 0 && ((other ^ me) & THREAD) != 0 && !(same_warp && (t->stamp & WARP_INTERVAL) != 0);
}

EMULATOR_NOINLINE static void outside(const Thread* t, uintptr_t address, unsigned bytes, Access access,
                                      uintptr_t code) {
  Where where;
  where.code = code;
  const char* verb = access == READ || access == STRONG_READ ? "reads" : "writes";
  const Block& b = *t->block;
  uintptr_t offset = address - b.shared;
  const SharedArray* array = offset < b.dynamic_offset ? shared_array_at(offset) : nullptr;
  if (array != nullptr) {
    where.array = array->name;
    report("out of bounds", where, "%s %u bytes at %zu of %zu bytes of %s", verb, bytes,
           static_cast<size_t>(offset - array->place), static_cast<size_t>(array->bytes), array->name);
  } else if (address - all_shared < ALL_SHARED_BYTES) {
    report("out of bounds", where, "%s %u bytes at %td of %zu bytes of dynamic shared memory", verb, bytes,
           static_cast<ptrdiff_t>(offset - b.dynamic_offset), b.launch->as.dynamic_bytes);
  } else {
    const Buffer* nearest = nullptr;
    uintptr_t least = UINTPTR_MAX;
    for (unsigned i = 0; i < buffer_count; ++i) {
      const Buffer& b = buffers[i];
      uintptr_t distance = address < b.base             ? b.base - address
                           : address < b.base + b.bytes ? 0
                                                        : address - b.base - b.bytes;
      if (distance < least) {
        least = distance;
        nearest = &b;
      }
    }
    int64_t element = static_cast<int64_t>(address - nearest->base) / 4, ld = nearest->ld;
    int64_t row = element >= 0 ? element / ld : -((-element + ld - 1) / ld);
    report("out of bounds", where, "%s %u bytes outside %s (%lld x %lld, ld %lld), at row %lld, column %lld", verb,
           bytes, nearest->name, static_cast<long long>(nearest->rows), static_cast<long long>(nearest->cols),
           static_cast<long long>(ld), static_cast<long long>(row), static_cast<long long>(element - row * ld));
  }
  stop_launch(700);  // cudaErrorIllegalAddress
}

EMULATOR_NOINLINE static void buffer_access(Thread* t, Buffer& b, uintptr_t address, unsigned bytes, Access access,
                                            uintptr_t code) {
  Where where;
  where.code = code;
  bool atomic = access == ATOMIC_ACCESS || access == STRONG_READ || access == STRONG_WRITE;
  bool is_read = access == READ || access == ATOMIC_ACCESS || access == STRONG_READ;
  bool is_write = access == WRITE || access == ATOMIC_ACCESS || access == STRONG_WRITE;
  uint64_t me = global_stamp(t, atomic);
  for (uintptr_t word = (address - b.base) / 4; word * 4 < address + bytes - b.base; ++word) {
    long long row = static_cast<long long>(word) / b.ld, col = static_cast<long long>(word) % b.ld;
    uint64_t other = b.shadow == nullptr ? 0 : __atomic_load_n(b.shadow + word, __ATOMIC_RELAXED);
    uint3 o = index_of(*t->block->launch, other & THREAD);
    bool race = global_race(t, other, me);
    if (is_write && !b.writable) {
      report("forbidden write", where, "writes %s[%lld][%lld], which is an input", b.name, row, col);
      stop_launch(700);
    }
    if (is_write && col >= b.cols) {
      report("out of bounds", where, "writes %s[%lld][%lld], between the matrix's %lld columns and ld %lld", b.name,
             row, col, static_cast<long long>(b.cols), static_cast<long long>(b.ld));
    }
    if (race) {
      report("race", where, "%s %s[%lld][%lld], which thread (%u,%u,%u) of %s block wrote, with nothing between",
             is_write ? "writes" : "reads", b.name, row, col, o.x, o.y, o.z,
             ((other ^ me) >> 27) != 0 ? "another" : "the same");
    }
    if (is_read && !b.readable) {
      report("forbidden read", where, "reads %s[%lld][%lld], which this product must not read", b.name, row, col);
    } else if (is_read && !b.defined && other == 0) {
      report("uninitialised read", where, "reads %s[%lld][%lld], which holds nothing yet", b.name, row, col);
    }
    if (is_write) {
      __atomic_store_n(b.shadow + word, me, __ATOMIC_RELAXED);
    }
  }
}

EMULATOR_PLAIN inline void global_access(Thread* t, uintptr_t address, unsigned bytes, Access access, uintptr_t code) {
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
  if (buffer_count != 0 &&
      address - image >= image_end - image) {  // in the library: __device__ and __constant__ variables
    outside(t, address, bytes, access, code);
  }
}

static void check_local(Thread* t, uintptr_t address, Access access, uintptr_t code);
static bool remote_access(Thread* t, uintptr_t address, unsigned bytes, Access access, uintptr_t code);

// Every access of a kernel comes to this function or the next.
EMULATOR_NOINLINE static void check(uintptr_t address, unsigned bytes, Access access, uintptr_t code) {
  Thread* t = this_thread();
  if (t == nullptr) {
    return;
  }
  if (device.stop) {
    stop_launch(0);
  }
  const Block& b = *t->block;
  uintptr_t offset = address - b.shared;
  if (offset < b.shared_bytes && offset + bytes <= b.shared_bytes && b.shadow[offset / 4].written != NO_WORD &&
      b.shadow[(offset + bytes - 1) / 4].written != NO_WORD) {
    Access plain = access == STRONG_READ ? READ : access == STRONG_WRITE ? WRITE : access;
    shared_access(t, offset, bytes, plain, code);
  } else if (address - all_shared < ALL_SHARED_BYTES) {
    if (!remote_access(t, address, bytes, access, code)) {
      outside(t, address, bytes, access, code);
    }
  } else if (address - stacks >= STACKS_BYTES) {
    global_access(t, address, bytes, access, code);
  } else if (b.has_sums) {  // a local variable
    check_local(t, address, access, code);
  }
}

// The usual harmless accesses to a word of shared memory, which change at most its stamps: if this is one, it is done.
EMULATOR_PLAIN inline __attribute__((always_inline)) bool usual(Block& b, size_t word, Access access, uintptr_t code) {
  Shadow& s = b.shadow[word];
  if (access == READ) {
    bool safe = safe_to_read(b, s.written);
    if (safe && ((s.read ^ b.stamp) & ~LANE) != SEVERAL_LANES) {  // else another lane of this warp has noted it
      note_read(b, word, code);
    }
    return safe;
  }
  bool first = s.written < b.interval_start && s.read < b.interval_start;  // access of anybody in this interval
  if (first) {
    s.written = b.stamp;
    b.places[word].written = static_cast<uint32_t>(code - image);
  }
  return first;
}

// Tells the usual accesses at once: to shared memory, and reads of an input.
EMULATOR_PLAIN inline __attribute__((always_inline)) void check_quickly(uintptr_t address, unsigned bytes,
                                                                        Access access, uintptr_t code) {
  Block* block = this_block();
  if (block == nullptr) {
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

EMULATOR_NOINLINE void fence() { this_block()->fenced = true; }

EMULATOR_NOINLINE void host_write(const void* pointer, size_t bytes) {
  uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  for (unsigned i = 0; i < buffer_count; ++i) {
    const Buffer& b = buffers[i];
    if (b.writable && address - b.base < b.bytes) {
      for (uintptr_t word = (address - b.base) / 4; word * 4 < address - b.base + bytes && word * 4 < b.bytes; ++word) {
        b.shadow[word] = GLOBAL_WRITTEN;
      }
    }
  }
}

EMULATOR_NOINLINE static void misaligned(uintptr_t address, unsigned bytes, const Where& where) {
  for (unsigned i = 0; i < buffer_count; ++i) {
    const Buffer& b = buffers[i];
    if (address - b.base < b.bytes) {
      long long element = static_cast<long long>(address - b.base) / 4;
      report("misaligned", where, "accesses %s[%lld][%lld] with an alignment of %u bytes, which its address lacks",
             b.name, element / b.ld, element % b.ld, bytes);
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
  if (target - all_shared >= ALL_SHARED_BYTES) {
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
