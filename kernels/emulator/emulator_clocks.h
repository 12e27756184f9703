// Of the emulator's engine: who knows of whose accesses, where threads of a block meet otherwise than all at once or by
// warps: at named barriers, at mbarriers, and with what goes on in the background.
//
// Vector clocks (L. Lamport, Time, clocks, and the ordering of events in a distributed system, CACM 21(7), 1978; C.
// Flanagan, S. N. Freund, FastTrack, PLDI 2009). A thread's epoch is the interval between two synchronisations of its
// warp, which its stamp has; it grows with each release. known[u] of a thread is the first epoch of u that it does not
// know to be over. What has been before a barrier of the whole block is known to all, so all clocks begin anew there.
//
// Numbers of threads: those of the block, then those of the other blocks of its cluster, rank by rank, then what goes
// on in the background (a Background each). A block that has none of this has no clocks and is checked by its stamps.
#pragma once

#include "emulator_state.h"

namespace emulator {

constexpr unsigned MAX_KNOWN = 1024;  // a stamp has 10 bits for a thread
constexpr unsigned MAX_BARRIERS = 512, MAX_TRANSFERS = 4096, MAX_READS = 12, MAX_GROUPS = 8;
constexpr Stamp EPOCH = 0x1000;

using Clock = uint32_t[MAX_KNOWN];

EMULATOR_PLAIN inline uint32_t epoch_of(Stamp stamp) { return static_cast<uint32_t>(stamp) >> 12; }

// The readers of a word in this interval: lanes of a warp with one epoch each. mask | epoch << 32 | warp << 52
struct Readers {
  uint64_t of[MAX_READS];
};

enum BackgroundKind : uint8_t { COPIES_OF_BARRIER, PRODUCTS_OF_GROUP, STORES_OF_THREAD };
struct Background {
  BackgroundKind kind;
  unsigned owner;  // a barrier's number, a warp group, a thread
};

struct Barrier {   // an mbarrier
  uint32_t place;  // in the block's shared memory
  uint32_t expected, pending, dropped;
  int64_t bytes;  // announced and not arrived
  uint64_t phase;
  uint32_t background, interval, polls, in_flight;
  bool seen_by_copies;  // a fence has shown its initialisation
  Stamp initialised;
  Clock gathering, complete;
};

struct NamedBarrier {
  unsigned expected, arrived, predicates, result;
  uint64_t phase;
  uint32_t interval;
  Clock gathering, complete;
};

struct Transfer {  // to shared memory, in the background
  Barrier* barrier;
  char *to, *image;
  uint32_t bytes;
  bool arrives;  // as a thread does, and brings no bytes
  Copy* copies;  // of cp.async, in place of an image
  unsigned copy_count;
};

struct Sums;
struct WarpGroup;

struct Waiting {  // what a thread waits for, for the report of a deadlock
  enum : uint8_t { NOTHING, MBARRIER, NAMED, GROUP, CLUSTER } kind;
  unsigned number, threads;
  uint64_t phase;
};

struct Ptx {  // of a block
  Clock known[MAX_KNOWN];
  uint32_t interval_of_known[MAX_KNOWN];
  uint32_t first_epochs[MAX_THREADS];  // of each thread, in this interval
  // Up to where accesses by threads are visible to the asynchronous proxy: all of earlier intervals, and of this one.
  uint32_t proxy_interval;
  Clock proxy;
  Clock no_clock;
  Barrier barriers[MAX_BARRIERS];
  unsigned barrier_count;
  NamedBarrier named[16];
  Background background[MAX_KNOWN];
  unsigned background_count;
  Transfer transfers[MAX_TRANSFERS];
  unsigned transfer_count;
  // Groups of bulk stores: how many have been committed and are done, and which the latest store is of, from 1 on.
  uint32_t stores_committed[MAX_THREADS], stores_done[MAX_THREADS], latest_store[MAX_THREADS];
  uintptr_t code_of_store[MAX_THREADS];
  bool has_stores;
  uint32_t store_background[MAX_THREADS];
  Waiting waiting[MAX_THREADS];
  WarpGroup* groups[MAX_GROUPS];
  uint32_t cluster_arrived, cluster_interval;
  uint64_t cluster_phase;
  uint8_t cluster_half[MAX_THREADS];
  uint64_t cluster_waits[MAX_THREADS];
  Clock cluster_gathering, cluster_complete;
  // Accesses of other blocks to this one's shared memory: behind which epoch of each thread, behind which phase of the
  // cluster's barrier all are over, and where the latest was.
  Clock remote;
  uint64_t remote_phase;
  uint32_t remote_word;
  uintptr_t remote_code;
  uint32_t registers[32];
};

// Whether the cluster has more threads than have numbers: then what goes on between its blocks is not followed.
EMULATOR_PLAIN inline bool too_many_threads(const Block& b) { return b.launch->cluster_blocks * b.count > MAX_KNOWN; }
// Whether the last number may be that of a thread or of what goes on in the background, for which none is left.
EMULATOR_PLAIN inline bool is_of_two(const Block& b, unsigned number) {
  return number == MAX_KNOWN - 1 && b.launch->cluster_blocks > 1 && b.launch->cluster_blocks * b.count == MAX_KNOWN;
}
// How many threads the block's cluster has, and the number that a thread of one of its blocks has for another of them.
EMULATOR_PLAIN inline unsigned cluster_threads(const Block& b) {
  return too_many_threads(b) ? b.count : b.launch->cluster_blocks * b.count;
}
EMULATOR_PLAIN inline unsigned number_for(const Block& other, const Block& b, unsigned number) {
  unsigned blocks = b.launch->cluster_blocks;
  if (&other == &b || number >= b.count) {
    return number;
  }
  if (too_many_threads(b)) {
    return MAX_KNOWN - 1;
  }
  return (b.cluster_rank + blocks - other.cluster_rank) % blocks * b.count + number;
}

// A clock that was begun in an earlier interval of its block tells nothing new of the block itself: all know that what was
// before the interval is over. It does of the other blocks of the cluster.
EMULATOR_PLAIN inline void begin_clock(uint32_t* clock, uint32_t& interval, const Block& b) {
  if (interval != b.interval) {
    unsigned kept = interval == 0 ? b.count : cluster_threads(b);
    interval = b.interval;
    for (unsigned i = 0; i < b.count; ++i) {
      clock[i] = b.ptx->first_epochs[i];
    }
    memset(clock + kept, 0, (MAX_KNOWN - kept) * sizeof *clock);
  }
}
EMULATOR_PLAIN inline uint32_t* known_by(Block& b, unsigned number) {
  Ptx& p = *b.ptx;
  begin_clock(p.known[number], p.interval_of_known[number], b);
  return p.known[number];
}
__attribute__((optimize("O3"))) EMULATOR_PLAIN inline void merge(uint32_t* __restrict__ to,
                                                                 const uint32_t* __restrict__ from, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    to[i] = to[i] > from[i] ? to[i] : from[i];
  }
}
EMULATOR_PLAIN inline unsigned width_of(const Block& b) {
  unsigned all = cluster_threads(b) + b.ptx->background_count;
  return all < MAX_KNOWN ? all : MAX_KNOWN;
}

// Does the running thread, of whichever block, know that an access to the block's memory is over?
EMULATOR_PLAIN inline bool is_known(Thread* t, const Block& b, unsigned number, uint32_t epoch) {
  Block& own = *t->block;
  if (&own == &b) {
    return number == t->number || (number == MAX_KNOWN - 1 && too_many_threads(b)) || is_of_two(b, number) ||
           epoch < known_by(own, t->number)[number];
  }
  if (number >= cluster_threads(b) || too_many_threads(b)) {
    return true;  // what goes on in the background of another block is not followed
  }
  Block& owner = *b.cluster[(b.cluster_rank + number / b.count) % b.launch->cluster_blocks];
  unsigned here = number_for(own, owner, number % b.count);
  return here == t->number || epoch < known_by(own, t->number)[here];
}

EMULATOR_PLAIN inline void next_epoch(Thread* t) {
  t->stamp += EPOCH;
  if (t == this_thread()) {
    t->block->stamp = t->stamp;
  }
}
// What a thread has done and knows, becomes known to who acquires this clock, which is one of block `b`.
EMULATOR_NOINLINE static void release_to(uint32_t* clock, Block& b, Thread* t) {
  Block& own = *t->block;
  const uint32_t* known = known_by(own, t->number);
  uint32_t mine = epoch_of(t->stamp) + 1;
  if (&own == &b) {
    merge(clock, known, width_of(b));
    clock[t->number] = clock[t->number] > mine ? clock[t->number] : mine;
  } else if (cluster_threads(b) > b.count) {
    unsigned blocks = b.launch->cluster_blocks;
    for (unsigned i = 0; i < blocks; ++i) {  // rank by rank, as each block counts them
      unsigned there = (own.cluster_rank + i + blocks - b.cluster_rank) % blocks;
      merge(clock + there * b.count, known + i * b.count, b.count);
    }
    uint32_t& entry = clock[number_for(b, own, t->number)];
    entry = entry > mine ? entry : mine;
  }
  next_epoch(t);
}
EMULATOR_PLAIN inline void acquire_from(const uint32_t* clock, Thread* t) {
  Block& b = *t->block;
  merge(known_by(b, t->number), clock, width_of(b));
}
// All threads of a block are about to leave its barrier: of the other blocks of the cluster each knows what any knew.
EMULATOR_NOINLINE static void share_known(Block& b) {
  unsigned others = b.ptx == nullptr ? 0 : cluster_threads(b) - b.count;
  if (others == 0) {
    return;
  }
  uint32_t any[MAX_KNOWN] = {};
  for (unsigned i = 0; i < b.count; ++i) {
    merge(any, known_by(b, i) + b.count, others);
  }
  for (unsigned i = 0; i < b.count; ++i) {
    memcpy(known_by(b, i) + b.count, any, others * sizeof any[0]);
  }
}

// Lanes of a warp have met: all know what any of them knows.
EMULATOR_NOINLINE static void merge_lanes(Block& b, unsigned first, unsigned present, uint32_t latest) {
  uint32_t all[MAX_KNOWN];
  unsigned width = width_of(b);
  memset(all, 0, width * sizeof all[0]);
  for (unsigned i = 0; i < 32; ++i) {
    if (present >> i & 1) {
      merge(all, known_by(b, first + i), width);
    }
  }
  for (unsigned i = 0; i < 32; ++i) {
    if (present >> i & 1) {
      all[first + i] = latest + 1;
    }
  }
  for (unsigned i = 0; i < 32; ++i) {
    if (present >> i & 1) {
      memcpy(b.ptx->known[first + i], all, width * sizeof all[0]);
    }
  }
}

// The thread that stands for what goes on in the background.
EMULATOR_PLAIN inline unsigned background_number(Block& b, BackgroundKind kind, unsigned owner) {
  Ptx& p = *b.ptx;
  unsigned first = cluster_threads(b);
  if (first + p.background_count < MAX_KNOWN) {
    p.background[p.background_count++] = {kind, owner};
  }
  unsigned last = first + p.background_count;
  return last > first ? last - 1 : MAX_KNOWN - 1;
}

// Is this reader the bulk stores of a thread, in a group that the thread has not waited for? A barrier holds up no engine.
EMULATOR_PLAIN inline bool still_stores(const Block& b, unsigned number, uint32_t group) {
  unsigned first = cluster_threads(b);
  if (number < first || number - first >= b.ptx->background_count) {
    return false;
  }
  const Background& by = b.ptx->background[number - first];
  return by.kind == STORES_OF_THREAD && b.ptx->store_background[by.owner] == number &&
         b.ptx->stores_done[by.owner] <= group;
}

// A word is read for the first time in this interval.
EMULATOR_NOINLINE static void forget_readers(Block& b, Shadow& s, Readers& r) {
  bool of_this_block = s.read >= b.block_start;
  bool keeps = b.shares_memory && of_this_block;  // other blocks, which that barrier has not held up
  for (uint64_t& each : r.of) {
    unsigned first = static_cast<unsigned>(each >> 52) * 32;
    if (keeps && first >= b.count && first < cluster_threads(b)) {
      continue;
    }
    uint32_t storing = 0;
    for (uint32_t lanes = b.ptx->has_stores && of_this_block ? static_cast<uint32_t>(each) : 0; lanes != 0;
         lanes &= lanes - 1) {
      unsigned lane = __builtin_ctz(lanes);
      storing |= still_stores(b, first + lane, each >> 32 & 0xFFFFF) ? 1u << lane : 0;
    }
    each = storing == 0 ? 0 : (each >> 32 << 32 | storing);
  }
}
// Notes that a thread (or what goes on in the background) has read a word of the block.
EMULATOR_PLAIN inline void note_reader(Block& b, size_t word, unsigned number, uint32_t epoch, uint32_t code) {
  Shadow& s = b.shadow[word];
  Readers& r = b.readers[word];
  if ((s.read >> 32) != b.interval) {
    forget_readers(b, s, r);
    s.read = static_cast<Stamp>(b.interval) << 32 | number;
  }
  uint64_t group = static_cast<uint64_t>(epoch & 0xFFFFF) << 32 | static_cast<uint64_t>(number / 32) << 52;
  for (uint64_t& each : r.of) {
    if (each == 0 || (each >> 32) == (group >> 32)) {
      each = (each | 1ull << (number % 32)) | group;
      break;
    }
  }
  b.places[word].read = code;
}

}  // namespace emulator
