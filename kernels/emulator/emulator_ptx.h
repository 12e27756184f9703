// Of the emulator's engine: what inline PTX asks for beside memory and arithmetic (ptx.h): named barriers, mbarriers, bulk
// and tensor copies, tensor cores, clusters. Each follows the section of the PTX ISA that has its name.
#pragma once

#include <fenv.h>
#include <math.h>

#include "emulator_tensor_map.h"
#include "ptx.h"

namespace emulator {

// ---------------------------------------------------------------------------------------------------------------------
// Shared memory by its addresses: from 1024 on static arrays, then dynamic memory. The rank of another block stands above.

constexpr unsigned RANK_AT = 24;

EMULATOR_PLAIN inline uintptr_t window(const Block& b) {
  uintptr_t low = shared_array_count > 0 ? shared_arrays[0].place : b.dynamic_offset;
  return b.shared + low / 1024 * 1024 - 1024;
}
EMULATOR_PLAIN inline Block* block_at(uintptr_t address) {
  uintptr_t place = address - all_shared;
  return place < all_shared_bytes ? blocks + place / SHARED_RESERVED : nullptr;
}
EMULATOR_NOINLINE uint64_t shared_address(const void* pointer) {
  uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  const Block *own = this_block(), *b = block_at(address);
  if (b == nullptr || own == nullptr) {
    return address;
  }
  return (address - window(*b)) | (b == own ? 0 : static_cast<uint64_t>(b->cluster_rank + 1) << RANK_AT);
}
EMULATOR_NOINLINE char* shared_pointer(uint64_t address) {
  const Block* b = this_block();
  uint64_t rank = address >> RANK_AT & 0xFF;
  if (address >> 32 != 0 || rank > b->launch->cluster_blocks) {
    return reinterpret_cast<char*>(address);
  }
  return reinterpret_cast<char*>(window(rank == 0 ? *b : *b->cluster[rank - 1]) + (address & ((1u << RANK_AT) - 1)));
}
EMULATOR_NOINLINE bool is_shared(uint64_t pointer) { return block_at(pointer) != nullptr; }
EMULATOR_NOINLINE void require_alignment(const void* pointer, unsigned bytes) {
  uintptr_t code = EMULATOR_CALLER;
  if (reinterpret_cast<uintptr_t>(pointer) % bytes != 0) {
    Where where;
    where.code = code;
    misaligned(reinterpret_cast<uintptr_t>(pointer), bytes, where);
  }
}
EMULATOR_NOINLINE uint32_t dynamic_shared_bytes() {
  return static_cast<uint32_t>(this_block()->launch->as.dynamic_bytes);
}

// A finding of the running thread, at the place in the code that called the instruction.
__attribute__((format(printf, 3, 4))) EMULATOR_NOINLINE static void find(const char* kind, uintptr_t code,
                                                                         const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  Where where;
  where.code = code;
  report(kind, where, "%s", text);
}
// `name + n bytes` of shared memory.
struct Named {
  char text[112];
};
EMULATOR_PLAIN inline Named name_of(const Block& b, uintptr_t offset) {
  Named named;
  if (const SharedArray* array = offset < b.dynamic_offset ? shared_array_at(offset) : nullptr) {
    snprintf(named.text, sizeof named.text, "%s + %zu bytes", array->name, static_cast<size_t>(offset - array->place));
  } else {
    snprintf(named.text, sizeof named.text, "dynamic shared memory + %zu bytes",
             static_cast<size_t>(offset - b.dynamic_offset));
  }
  return named;
}

EMULATOR_NOINLINE void trap() {
  find("trap", EMULATOR_CALLER, "executes trap");
  stop_launch(719);
}
EMULATOR_NOINLINE uint64_t clock() {
  static uint64_t ticks;
  return __atomic_add_fetch(&ticks, 16, __ATOMIC_RELAXED);
}
EMULATOR_NOINLINE uint32_t sm_of_block() { return static_cast<uint32_t>(this_block()->number % sms); }

static void forget_products(Ptx& p);
static char* in_block(const Block& b, const void* pointer, unsigned rank, uintptr_t code);

// What a block has once it first needs more than barriers of all its threads.
EMULATOR_NOINLINE static Ptx& ptx_of(Block& b) {
  if (b.ptx == nullptr) {
    if (b.all_ptx == nullptr) {
      b.all_ptx = reinterpret_cast<Ptx*>(map(sizeof(Ptx)));
      b.readers = reinterpret_cast<Readers*>(map(SHARED_RESERVED / 4 * sizeof(Readers)));
    }
    Ptx& p = *b.all_ptx;
    for (unsigned i = 0; i < p.transfer_count; ++i) {
      free(p.transfers[i].image);
      free(p.transfers[i].copies);
    }
    p.barrier_count = p.background_count = p.transfer_count = 0;
    p.proxy_interval = p.cluster_interval = p.cluster_arrived = 0;
    p.cluster_phase = p.remote_phase = 0;
    memset(p.remote, 0, sizeof p.remote);
    for (NamedBarrier& each : p.named) {
      each.expected = each.arrived = each.predicates = each.interval = 0;
      each.phase = 0;
    }
    memset(p.interval_of_known, 0, sizeof p.interval_of_known);
    memset(p.first_epochs, 0, sizeof p.first_epochs);
    memset(p.latest_store, 0, sizeof p.latest_store);
    p.has_stores = false;
    memset(p.stores_committed, 0, sizeof p.stores_committed);
    memset(p.stores_done, 0, sizeof p.stores_done);
    memset(p.waiting, 0, sizeof p.waiting);
    memset(p.cluster_half, 0, sizeof p.cluster_half);
    memset(p.cluster_waits, 0, sizeof p.cluster_waits);
    forget_products(p);
    memset(p.registers, 0, sizeof p.registers);
    b.ptx = &p;
  }
  return *b.ptx;
}

static pthread_mutex_t ptx_lock_of_clusters = PTHREAD_MUTEX_INITIALIZER;
// Blocks of a cluster may run on different host threads.
struct ClusterLock {
  bool held;
  EMULATOR_PLAIN explicit ClusterLock(const Block& b) : held(b.launch->cluster_blocks > 1) {
    if (held) {
      pthread_mutex_lock(&ptx_lock_of_clusters);
    }
  }
  EMULATOR_PLAIN ~ClusterLock() { release(); }
  EMULATOR_PLAIN void release() {
    if (held) {
      held = false;
      pthread_mutex_unlock(&ptx_lock_of_clusters);
    }
  }
};

// Waits until `come()`; says what it waits for.
template <typename Come>
EMULATOR_PLAIN static void wait_until(Thread* t, uintptr_t code, const Waiting& what, Come come) {
  Waiting& waiting = t->block->ptx->waiting[t->number];
  waiting = what;
  while (!come()) {
    look(t, code, what.kind, what.phase);
  }
  waiting.kind = Waiting::NOTHING;
  t->awaited = t->block->awaited;
}

// ---------------------------------------------------------------------------------------------------------------------
// bar and barrier.

EMULATOR_NOINLINE int named_barrier(uint32_t number, uint32_t threads, bool arrives_only, bool predicate) {
  uintptr_t code = EMULATOR_CALLER;
  Thread* t = this_thread();
  Block& b = *t->block;
  if (number > 15 || threads % 32 != 0 || threads > (b.count + 31) / 32 * 32) {
    find("barrier", code,
         "uses barrier %u with %u threads; barriers are 0 to 15, of a multiple of 32 of its %u threads", number,
         threads, b.count);
    stop_launch(719);
  }
  if (number == 0 && (threads == 0 || threads >= b.count) && !arrives_only &&
      (b.ptx == nullptr || b.ptx->named[0].arrived == 0)) {
    return barrier_at(predicate, code);
  }
  Ptx& p = ptx_of(b);
  NamedBarrier& n = p.named[number];
  if (threads == 0) {
    threads = b.count;
  }
  if (n.arrived > 0 && n.expected != threads) {
    find("barrier", code, "arrives at barrier %u for %u threads, others for %u", number, threads, n.expected);
    stop_launch(719);
  }
  if (n.arrived == 0) {
    n.predicates = 0;
  }
  n.expected = threads;
  begin_clock(n.gathering, n.interval, b);
  release_to(n.gathering, b, t);
  n.predicates += predicate;
  uint64_t phase = n.phase;
  if (++n.arrived >= n.expected || (n.expected > b.count && n.arrived == b.count)) {
    memcpy(n.complete, n.gathering, sizeof n.complete);
    meet_some(b);
    n.result = n.predicates;
    n.arrived = 0;
    ++n.phase;
    made_progress();
  }
  if (arrives_only) {
    return 0;
  }
  wait_until(t, code, {Waiting::NAMED, number, 0, phase}, [&]() EMULATOR_PLAIN { return n.phase != phase; });
  acquire_from(n.complete, t);
  return static_cast<int>(n.result);
}

EMULATOR_NOINLINE void fence_block() {}

// What the thread knows of, and what it has written, becomes visible to copies and products in the background.
EMULATOR_NOINLINE void fence_proxy_async() {
  Thread* t = this_thread();
  Block& b = *t->block;
  Ptx& p = ptx_of(b);
  ClusterLock lock(b);
  if (p.proxy_interval != b.interval) {
    p.proxy_interval = b.interval;
    memset(p.proxy, 0, sizeof p.proxy);
  }
  merge(p.proxy, known_by(b, t->number), width_of(b));
  p.proxy[t->number] = epoch_of(t->stamp) + 1;
  next_epoch(t);
  for (unsigned i = 0; i < p.barrier_count; ++i) {
    p.barriers[i].seen_by_copies = true;
  }
}
EMULATOR_NOINLINE void fence_mbarrier_init() {
  Ptx& p = ptx_of(*this_block());
  for (unsigned i = 0; i < p.barrier_count; ++i) {
    p.barriers[i].seen_by_copies = true;
  }
}

// Has everything that stands in a word been shown to the background?
EMULATOR_PLAIN inline bool is_in_proxy(const Block& b, Stamp written) {
  const Ptx& p = *b.ptx;
  unsigned number = written & THREAD;
  if (number >= cluster_threads(b) || is_of_two(b, number) || (written & ~IN_FLIGHT) < b.block_start) {
    return true;
  }
  uint32_t interval = static_cast<uint32_t>(written >> 32) & 0x7FFFFFFF;
  return interval < p.proxy_interval || (interval == p.proxy_interval && epoch_of(written) < p.proxy[number]);
}

// ---------------------------------------------------------------------------------------------------------------------
// mbarrier. The object in shared memory names one of the block's; writing over it is noticed.

constexpr uint64_t BARRIER_MARK = 0x6D626172ull << 32;

EMULATOR_NOINLINE static Barrier& barrier_of(const void* object, Block*& b, uintptr_t code, bool uses) {
  uintptr_t address = reinterpret_cast<uintptr_t>(object);
  Thread* t = this_thread();
  b = block_at(address);
  if (b == nullptr || address - b->shared + 8 > b->shared_bytes) {
    find("mbarrier", code, "uses an mbarrier that is not in shared memory");
    stop_launch(700);
  }
  const Shadow* words = b->shadow + (address - b->shared) / 4;
  if (words[0].written == NO_WORD || words[1].written == NO_WORD) {
    outside(t, address, 8, WRITE, code);
  }
  if (address % 8 != 0) {
    Where where;
    where.code = code;
    misaligned(address, 8, where);
  }
  if (b != t->block && (b->launch != t->block->launch || b->exited == b->count)) {
    find("cluster", code, "uses an mbarrier of a block that has left the kernel");
    stop_launch(719);
  }
  uint64_t value;
  memcpy(&value, object, 8);
  Ptx& p = ptx_of(*b);
  if ((value & ~0xFFFFFFFFull) != BARRIER_MARK || static_cast<uint32_t>(value) >= p.barrier_count) {
    if (!uses) {
      return p.barriers[MAX_BARRIERS - 1];
    }
    find("mbarrier", code, "uses the mbarrier at %s, which holds none: it was not initialised, or was written over",
         name_of(*b, address - b->shared).text);
    stop_launch(719);
  }
  Barrier& m = p.barriers[static_cast<uint32_t>(value)];
  if (uses && b == t->block && static_cast<uint32_t>(m.initialised >> 32) == b->interval &&
      !is_known(t, *b, m.initialised & THREAD, epoch_of(m.initialised))) {
    uint3 o = index_of(*b->launch, m.initialised & THREAD);
    find("race", code, "uses the mbarrier at %s, which thread (%u,%u,%u) initialised, with no barrier between",
         name_of(*b, m.place).text, o.x, o.y, o.z);
  }
  return m;
}

EMULATOR_NOINLINE void mbarrier_init(void* object, uint32_t count) {
  uintptr_t code = EMULATOR_CALLER;
  Thread* t = this_thread();
  Block* b;
  Barrier& old = barrier_of(object, b, code, false);
  Ptx& p = *b->ptx;
  if (count == 0 || count >= 1u << 20) {
    find("mbarrier", code, "initialises an mbarrier for %u arrivals; 1 to 1048575 are possible", count);
    stop_launch(719);
  }
  Barrier* m = &old;
  if (&old == &p.barriers[MAX_BARRIERS - 1]) {
    if (p.barrier_count == MAX_BARRIERS - 1) {
      find("mbarrier", code, "initialises more than %u mbarriers", MAX_BARRIERS - 1);
      stop_launch(719);
    }
    m = &p.barriers[p.barrier_count];
    m->background = background_number(*b, COPIES_OF_BARRIER, p.barrier_count);
    ++p.barrier_count;
    m->phase = 0;
  } else {
    find("mbarrier", code, "initialises the mbarrier at %s once more; mbarrier.inval has to come first",
         name_of(*b, reinterpret_cast<uintptr_t>(object) - b->shared).text);
  }
  m->place = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(object) - b->shared);
  m->expected = m->pending = count;
  m->dropped = m->polls = m->in_flight = 0;
  m->bytes = 0;
  m->phase = (m->phase + 1) & ~1ull;
  m->interval = b->interval;
  m->seen_by_copies = false;
  memset(m->gathering, 0, sizeof m->gathering);
  memset(m->complete, 0, sizeof m->complete);
  next_epoch(t);
  m->initialised = t->stamp;
  next_epoch(t);
  uint64_t value = BARRIER_MARK | static_cast<uint64_t>(m - p.barriers);
  memcpy(object, &value, 8);
}
EMULATOR_NOINLINE void mbarrier_inval(void* object) {
  Block* b;
  barrier_of(object, b, EMULATOR_CALLER, true);
  memset(object, 0, 8);
}

// If all has arrived, the next phase begins.
EMULATOR_NOINLINE static void complete_phase(Block& b, Barrier& m) {
  if (m.pending > 0 || m.bytes != 0) {
    return;
  }
  begin_clock(m.gathering, m.interval, b);
  memcpy(m.complete, m.gathering, sizeof m.complete);
  meet_some(b);
  uint32_t& entry = m.complete[m.background];
  entry = (static_cast<uint32_t>(m.phase) & 0xFFFFF) + 1;
  ++m.phase;
  m.expected -= m.dropped;
  m.dropped = 0;
  m.pending = m.expected;
  made_progress();
}

EMULATOR_PLAIN static void add_bytes(Barrier& m, int64_t bytes, uintptr_t code, const Block& b) {
  m.bytes += bytes;
  if (m.bytes >= 1 << 20 || m.bytes <= -(1 << 20)) {
    find("mbarrier", code, "makes the mbarrier at %s await %lld bytes; at most 1048575 are possible",
         name_of(b, m.place).text, static_cast<long long>(m.bytes));
    stop_launch(719);
  }
}

EMULATOR_NOINLINE uint64_t mbarrier_arrive(void* object, uint32_t count, uint32_t expected_bytes, bool drops) {
  uintptr_t code = EMULATOR_CALLER;
  Thread* t = this_thread();
  ClusterLock lock(*t->block);
  Block* b;
  Barrier& m = barrier_of(object, b, code, true);
  ptx_of(*t->block);
  uint64_t state = m.phase;
  if (count > m.pending) {
    find("mbarrier", code, "arrives %u times at the mbarrier at %s, whose phase %llu waits for %u of its %u arrivals",
         count, name_of(*b, m.place).text, static_cast<unsigned long long>(m.phase), m.pending, m.expected);
    stop_launch(719);
  }
  begin_clock(m.gathering, m.interval, *b);
  release_to(m.gathering, *b, t);
  add_bytes(m, expected_bytes, code, *b);
  m.dropped += drops ? count : 0;
  m.pending -= count;
  complete_phase(*b, m);
  made_progress();
  return state;
}
EMULATOR_NOINLINE void mbarrier_expect_tx(void* object, uint32_t bytes) {
  uintptr_t code = EMULATOR_CALLER;
  ClusterLock lock(*this_block());
  Block* b;
  Barrier& m = barrier_of(object, b, code, true);
  add_bytes(m, bytes, code, *b);
}
EMULATOR_NOINLINE void mbarrier_complete_tx(void* object, uint32_t bytes) {
  uintptr_t code = EMULATOR_CALLER;
  ClusterLock lock(*this_block());
  Block* b;
  Barrier& m = barrier_of(object, b, code, true);
  add_bytes(m, -static_cast<int64_t>(bytes), code, *b);
  complete_phase(*b, m);
}
EMULATOR_NOINLINE uint32_t mbarrier_pending(uint64_t state) { return static_cast<uint32_t>(state & 0xFFFFF); }

// Lands a transfer: what it has brought stands in shared memory for who knows of the phase that it belongs to.
EMULATOR_NOINLINE static void land(Block& b, unsigned number) {
  Ptx& p = *b.ptx;
  Transfer transfer = p.transfers[number];
  p.transfers[number] = p.transfers[--p.transfer_count];
  Barrier& m = *transfer.barrier;
  Stamp stamp = static_cast<Stamp>(b.interval) << 32 | (m.phase & 0xFFFFF) << 12 | m.background;
  if (transfer.image != nullptr) {
    memcpy(transfer.to, transfer.image, transfer.bytes);
    free(transfer.image);
    uintptr_t offset = reinterpret_cast<uintptr_t>(transfer.to) - b.shared;
    for (uintptr_t word = offset / 4; word * 4 < offset + transfer.bytes; ++word) {
      b.shadow[word].written = stamp;
    }
  }
  for (unsigned i = 0; i < transfer.copy_count; ++i) {
    const Copy& c = transfer.copies[i];
    memcpy(c.to, c.from, c.bytes - c.zeros);
    memset(c.to + c.bytes - c.zeros, 0, c.zeros);
    uintptr_t offset = reinterpret_cast<uintptr_t>(c.to) - b.shared;
    for (unsigned word = 0; word < c.bytes / 4; ++word) {
      b.shadow[offset / 4 + word].written = stamp;
    }
  }
  free(transfer.copies);
  --m.in_flight;
  if (transfer.arrives) {
    m.pending -= m.pending > 0;
  } else {
    m.bytes -= transfer.bytes;
  }
  complete_phase(b, m);
  made_progress();
}

// Lands one of a barrier's transfers, if any; of many, some.
EMULATOR_PLAIN static void land_some(Block& b, Barrier& m) {
  Ptx& p = *b.ptx;
  uint64_t phase = m.phase;
  for (unsigned some = m.in_flight / 8 + 1; some > 0 && m.in_flight > 0 && m.phase == phase; --some) {
    unsigned number = static_cast<unsigned>(next_random(b.random) % p.transfer_count);
    while (p.transfers[number].barrier != &m) {
      number = number + 1 < p.transfer_count ? number + 1 : 0;
    }
    land(b, number);
  }
}

// Whether a phase is complete. Who may wait does so, but how long is up to the hardware: now and then for one turn.
EMULATOR_NOINLINE bool mbarrier_test(void* object, uint64_t phase, bool is_parity, bool may_wait) {
  uintptr_t code = EMULATOR_CALLER;
  Thread* t = this_thread();
  Block* b;
  ClusterLock first_lock(*t->block);
  Barrier& m = barrier_of(object, b, code, true);
  first_lock.release();
  if (b != t->block) {
    find("mbarrier", code, "waits at an mbarrier of another block");
    stop_launch(719);
  }
  Waiting& waiting = b->ptx->waiting[t->number];
  waiting = {Waiting::MBARRIER, static_cast<unsigned>(&m - b->ptx->barriers), 0, phase};
  unsigned most_tries = !may_wait ? 2 : next_random(t->block->random) % 8 == 0 ? 1 : 64;
  for (unsigned tries = 0; tries < most_tries; ++tries) {
    {
      ClusterLock lock(*b);
      if (is_parity ? (m.phase & 1) != (phase & 1) : m.phase != phase) {
        m.polls = 0;
        acquire_from(m.interval == b->interval ? m.complete : b->ptx->no_clock, t);
        waiting.kind = Waiting::NOTHING;
        t->awaited = b->awaited;
        return true;
      }
      if (++m.polls > b->ready) {  // all others have had their turn
        m.polls = 0;
        land_some(*b, m);
        continue;
      }
    }
    look(t, code, m.place, m.phase);
  }
  return false;
}

EMULATOR_PLAIN static Transfer& new_transfer(Block& b, Barrier& m, uintptr_t code) {
  Ptx& p = *b.ptx;
  if (p.transfer_count == MAX_TRANSFERS) {
    find("asynchronous copy", code, "has more than %u copies in flight", MAX_TRANSFERS);
    stop_launch(719);
  }
  ++m.in_flight;
  Transfer& transfer = p.transfers[p.transfer_count++];
  transfer = {&m, nullptr, nullptr, 0, false, nullptr, 0};
  return transfer;
}

EMULATOR_NOINLINE void mbarrier_arrive_after_copies(void* object, bool noinc) {
  uintptr_t code = EMULATOR_CALLER;
  Thread* t = this_thread();
  Block* b;
  Barrier& m = barrier_of(object, b, code, true);
  if (noinc ? m.pending == 0 : false) {
    find("mbarrier", code, "arrives at the mbarrier at %s, whose phase waits for no more arrivals",
         name_of(*b, m.place).text);
    stop_launch(719);
  }
  m.pending += !noinc;
  Transfer& transfer = new_transfer(*b, m, code);
  transfer.arrives = true;
  transfer.copy_count = t->copy_count;
  if (t->copy_count > 0) {
    transfer.copies = static_cast<Copy*>(malloc(t->copy_count * sizeof(Copy)));
    memcpy(transfer.copies, t->copies, t->copy_count * sizeof(Copy));
    t->copy_count = 0;
  }
}

// For the report of a deadlock: what a thread waits for, and what is missing.
EMULATOR_NOINLINE static void describe_wait(const Thread& t, char* text, size_t size) {
  const Block& b = *t.block;
  snprintf(text, size, "what no thread does");
  if (b.ptx == nullptr) {
    return;
  }
  const Waiting& waiting = b.ptx->waiting[t.number];
  if (waiting.kind == Waiting::MBARRIER) {
    const Barrier& m = b.ptx->barriers[waiting.number];
    int length = snprintf(text, size, "phase %llu of the mbarrier at %s, which lacks",
                          static_cast<unsigned long long>(m.phase), name_of(b, m.place).text);
    const char* and_ = "";
    if (m.pending > 0 && length < static_cast<int>(size)) {
      length += snprintf(text + length, size - length, " %u of %u arrivals", m.pending, m.expected);
      and_ = " and";
    }
    if (m.bytes != 0 && length < static_cast<int>(size)) {
      snprintf(text + length, size - length,
               m.bytes > 0 ? "%s %lld more bytes" : "%s nothing but has got %lld bytes too many", and_,
               static_cast<long long>(m.bytes > 0 ? m.bytes : -m.bytes));
    }
  } else if (waiting.kind == Waiting::NAMED) {
    const NamedBarrier& n = b.ptx->named[waiting.number];
    snprintf(text, size, "barrier %u, at which %u of %u threads are", waiting.number, n.arrived, n.expected);
  } else if (waiting.kind == Waiting::GROUP) {
    snprintf(text, size, "a wgmma that not all 128 threads of its warp group have begun");
  } else if (waiting.kind == Waiting::CLUSTER) {
    snprintf(text, size, "the barrier of its cluster");
  }
}

// Whether what a thread waits for can come from its own block or cluster alone, and not by way of global memory.
EMULATOR_PLAIN static bool waits_for_its_own(const Thread& t) {
  return t.block->ptx != nullptr && t.block->ptx->waiting[t.number].kind != Waiting::NOTHING;
}

// ---------------------------------------------------------------------------------------------------------------------
// cp.async.bulk and cp.async.bulk.tensor.

// The background is going to write to a block's shared memory, on behalf of the running thread.
EMULATOR_NOINLINE static void check_target(Thread* t, Block& b, char* to, uint32_t bytes, uintptr_t code) {
  uintptr_t offset = reinterpret_cast<uintptr_t>(to) - b.shared;
  if (offset + bytes > b.shared_bytes || b.shadow[offset / 4].written == NO_WORD ||
      b.shadow[(offset + bytes - 1) / 4].written == NO_WORD) {
    find("out of bounds", code, "copies %u bytes to %s, beyond the shared memory of the block", bytes,
         name_of(b, offset).text);
    stop_launch(700);
  }
  unsigned mine = number_for(b, *t->block, t->number);
  Stamp stamp = static_cast<Stamp>(b.interval) << 32 | (t->stamp & WARP_INTERVAL) | mine | IN_FLIGHT;
  for (uintptr_t word = offset / 4; word * 4 < offset + bytes; ++word) {
    Shadow& s = b.shadow[word];
    if ((s.written & ~IN_FLIGHT) >= b.block_start) {
      unsigned other = s.written & THREAD;
      uint3 o = index_of(*b.launch, other % b.count);
      if (s.written & IN_FLIGHT) {
        find("asynchronous copy", code, "copies to %s while the copy that thread (%u,%u,%u) issued is in flight",
             name_of(b, word * 4).text, o.x, o.y, o.z);
      } else if (static_cast<uint32_t>(s.written >> 32) == b.interval && !is_known(t, b, other, epoch_of(s.written))) {
        find("race", code, "copies to %s, which %s wrote, with no barrier between", name_of(b, word * 4).text,
             other < cluster_threads(b) ? "another thread" : "another copy");
      } else if (!is_in_proxy(b, s.written)) {
        find("proxy", code,
             "copies to %s, which thread (%u,%u,%u) wrote, with no fence.proxy.async between: the copy may come first",
             name_of(b, word * 4).text, o.x, o.y, o.z);
      }
    }
    check_readers(t, b, word, "copies to", code);
    s.written = stamp;
    s.read = 0;
    b.places[word].written = place_of_code(code, ALL_BYTES);
  }
  memset(to, POISON, bytes);
}

// The background is going to read the block's shared memory; `number` and `epoch` stand for it.
EMULATOR_NOINLINE static bool check_source(Thread* t, uintptr_t offset, uint32_t bytes, unsigned number, uint32_t epoch,
                                           const char* verb, uintptr_t code) {
  Block& b = *t->block;
  if (offset + bytes > b.shared_bytes || b.shadow[offset / 4].written == NO_WORD ||
      b.shadow[(offset + bytes - 1) / 4].written == NO_WORD) {
    find("out of bounds", code, "%s %u bytes at %s, beyond the shared memory of the block", verb, bytes,
         name_of(b, offset).text);
    stop_launch(700);
  }
  for (uintptr_t word = offset / 4; word * 4 < offset + bytes; ++word) {
    Shadow& s = b.shadow[word];
    unsigned other = s.written & THREAD;
    uint3 o = index_of(*b.launch, other % b.count);
    if ((s.written & ~IN_FLIGHT) < b.block_start) {
      find("uninitialised read", code, "%s %s that no thread of this block has written", verb,
           name_of(b, word * 4).text);
      return false;
    }
    if (s.written & IN_FLIGHT) {
      find("asynchronous copy", code, "%s %s while the copy that thread (%u,%u,%u) issued is in flight", verb,
           name_of(b, word * 4).text, o.x, o.y, o.z);
      return false;
    }
    if (static_cast<uint32_t>(s.written >> 32) == b.interval && !is_known(t, b, other, epoch_of(s.written))) {
      find(other < cluster_threads(b) ? "race" : "asynchronous copy", code, "%s %s, which %s, with no barrier between",
           verb, name_of(b, word * 4).text,
           other < cluster_threads(b) ? "another thread wrote" : "a copy brought whose completion was not waited for");
      return false;
    }
    if (!is_in_proxy(b, s.written)) {
      find("proxy", code, "%s %s, which thread (%u,%u,%u) wrote, with no fence.proxy.async between", verb,
           name_of(b, word * 4).text, o.x, o.y, o.z);
      return false;
    }
    note_reader(b, word, number, epoch, place_of_code(code, ALL_BYTES));
  }
  return true;
}

EMULATOR_PLAIN inline void check_global(uintptr_t address, uint32_t bytes, Access access, uintptr_t code) {
  check(address, bytes, access, code);
}

EMULATOR_PLAIN static void begin_transfer(Thread* t, char* to, void* object, char* image_of, uint32_t bytes,
                                          uintptr_t code) {
  Block *b, *owner = block_at(reinterpret_cast<uintptr_t>(to));
  Barrier& m = barrier_of(object, b, code, true);
  if (owner != b) {
    find("mbarrier", code, "copies to another block than that of the mbarrier");
    stop_launch(719);
  }
  if (!m.seen_by_copies) {
    find("proxy", code, "uses the mbarrier at %s for a copy, with no fence.mbarrier_init or fence.proxy.async between",
         name_of(*b, m.place).text);
    m.seen_by_copies = true;
  }
  check_target(t, *b, to, bytes, code);
  Transfer& transfer = new_transfer(*b, m, code);
  transfer.to = to;
  transfer.image = image_of;
  transfer.bytes = bytes;
}

EMULATOR_PLAIN static void check_bulk(const void* shared, const void* other, uint32_t bytes, uintptr_t code) {
  for (const void* each : {shared, other}) {
    if (reinterpret_cast<uintptr_t>(each) % 16 != 0) {
      Where where;
      where.code = code;
      misaligned(reinterpret_cast<uintptr_t>(each), 16, where);
    }
  }
  if (bytes % 16 != 0) {
    find("asynchronous copy", code, "copies %u bytes at once, which is no multiple of 16", bytes);
    stop_launch(716);
  }
  if (block_at(reinterpret_cast<uintptr_t>(shared)) == nullptr) {
    find("asynchronous copy", code, "copies to or from memory that is not shared");
    stop_launch(700);
  }
}

// To shared memory, from global memory or the block's shared memory; to all blocks of the mask where it has any.
EMULATOR_NOINLINE void bulk_load(void* to, const void* from, uint32_t bytes, void* barrier, uint32_t in_blocks) {
  uintptr_t code = EMULATOR_CALLER;
  Thread* t = this_thread();
  Block& b = *t->block;
  ptx_of(b);
  check_bulk(to, from, bytes, code);
  if (const Block* source = block_at(reinterpret_cast<uintptr_t>(from)); source == &b) {
    unsigned number = background_number(b, STORES_OF_THREAD, t->number);
    check_source(t, reinterpret_cast<uintptr_t>(from) - b.shared, bytes, number, 0, "copies from", code);
  } else {
    check_global(reinterpret_cast<uintptr_t>(from), bytes, READ, code);
  }
  ClusterLock lock(b);
  for (unsigned rank = 0; rank < (in_blocks == 0 ? 1u : 16u); ++rank) {
    if (in_blocks == 0 || in_blocks >> rank & 1) {
      char* image_of = static_cast<char*>(malloc(bytes));
      memcpy(image_of, from, bytes);
      char* there = in_blocks == 0 ? static_cast<char*>(to) : in_block(b, to, rank, code);
      begin_transfer(t, there, in_blocks == 0 ? barrier : in_block(b, barrier, rank, code), image_of, bytes, code);
    }
  }
}

EMULATOR_PLAIN static unsigned store_number(Thread* t, uintptr_t code) {
  Block& b = *t->block;
  Ptx& p = *b.ptx;
  if (p.latest_store[t->number] == 0) {
    p.store_background[t->number] = background_number(b, STORES_OF_THREAD, t->number);
  }
  p.latest_store[t->number] = p.stores_committed[t->number] + 1;
  p.code_of_store[t->number] = code;
  p.has_stores = true;
  return p.store_background[t->number];
}

EMULATOR_NOINLINE void bulk_store(void* to, const void* from, uint32_t bytes, ReduceBulk reduce, uint32_t element) {
  uintptr_t code = EMULATOR_CALLER;
  Thread* t = this_thread();
  Block& b = *t->block;
  Ptx& p = ptx_of(b);
  check_bulk(from, to, bytes, code);
  unsigned number = store_number(t, code);
  check_source(t, reinterpret_cast<uintptr_t>(from) - b.shared, bytes, number, p.stores_committed[t->number],
               "stores from", code);
  check_global(reinterpret_cast<uintptr_t>(to), bytes, reduce != nullptr ? ATOMIC_ACCESS : WRITE, code);
  if (reduce == nullptr) {
    memcpy(to, from, bytes);
    return;
  }
  for (uint32_t at = 0; at + element <= bytes; at += element) {
    reduce(static_cast<char*>(to) + at, static_cast<const char*>(from) + at);
  }
}
EMULATOR_NOINLINE void bulk_commit() {
  Thread* t = this_thread();
  ++ptx_of(*t->block).stores_committed[t->number];
}
EMULATOR_NOINLINE void bulk_wait(uint32_t newest, bool read) {
  (void)read;  // what is stored is in global memory when it is issued; its source is held until this wait
  Thread* t = this_thread();
  Block& b = *t->block;
  Ptx& p = ptx_of(b);
  uint32_t committed = p.stores_committed[t->number];
  if (p.latest_store[t->number] > 0 && committed > newest) {
    p.stores_done[t->number] = committed - newest;
    uint32_t& known = known_by(b, t->number)[p.store_background[t->number]];
    known = known > committed - newest ? known : committed - newest;
  }
}

// The thread is about to leave the kernel: what its bulk stores read may then be another block's.
EMULATOR_PLAIN static void check_stores_done(Thread* t) {
  const Ptx& p = *t->block->ptx;
  if (p.latest_store[t->number] > p.stores_done[t->number]) {
    find("asynchronous copy", p.code_of_store[t->number],
         "leaves the kernel while a bulk store may still read shared memory; wait for it by "
         "cp.async.bulk.wait_group.read");
  }
}

// The pattern by which chunks of 16 bytes are permuted, of an address in shared memory: mode 0 none, 1 to 3 for 32, 64, 128
// bytes (CUDA C++ Programming Guide, "The TMA swizzle pattern").
EMULATOR_PLAIN inline uint32_t swizzled(uint32_t address, int mode) {
  return address ^ ((address >> 7 & ((1u << mode) - 1)) << 4);
}

// Of a box: calls `each(place in shared memory, place in global memory or null)` for every run of bytes of its rows.
template <typename Each>
EMULATOR_PLAIN static void for_each_run(const TensorMap& map, const int32_t* at, Each each) {
  uint32_t row_bytes = map.box[0] * map.element_bytes, index[5] = {};
  uint64_t rows = 1;
  for (int d = 1; d < map.dimensions; ++d) {
    rows *= map.box[d];
  }
  for (uint64_t row = 0; row < rows; ++row) {
    bool inside = true;
    int64_t offset = 0;
    for (int d = 1; d < map.dimensions; ++d) {
      int64_t coordinate = static_cast<int64_t>(at[d]) + static_cast<int64_t>(index[d]) * map.step[d];
      inside = inside && coordinate >= 0 && coordinate < static_cast<int64_t>(map.size[d]);
      offset += coordinate * static_cast<int64_t>(map.stride[d]);
    }
    for (uint32_t i = 0; i < map.box[0];) {
      int64_t column = static_cast<int64_t>(at[0]) + static_cast<int64_t>(i) * map.step[0];
      bool there = inside && column >= 0 && column < static_cast<int64_t>(map.size[0]);
      uint32_t count = 1;  // elements that are all there or all outside, and next to each other
      if (map.step[0] == 1) {
        int64_t left = there ? static_cast<int64_t>(map.size[0]) - column : inside && column < 0 ? -column : map.box[0];
        count = static_cast<uint32_t>(left < map.box[0] - i ? left : map.box[0] - i);
      }
      each(row * row_bytes + i * map.element_bytes, count * map.element_bytes,
           there ? static_cast<char*>(map.base) + offset + column * map.element_bytes : nullptr);
      i += count;
    }
    for (int d = 1; d < map.dimensions && ++index[d] == map.box[d]; ++d) {
      index[d] = 0;
    }
  }
}

EMULATOR_PLAIN static const TensorMap& map_of(const void* pointer, int dimensions, const int32_t* at,
                                              const void* shared, uintptr_t code) {
  const TensorMap& map = *static_cast<const TensorMap*>(pointer);
  if (reinterpret_cast<uintptr_t>(pointer) % 64 != 0) {
    Where where;
    where.code = code;
    misaligned(reinterpret_cast<uintptr_t>(pointer), 64, where);
  }
  if (map.mark != TENSOR_MAP_MARK || map.dimensions != dimensions) {
    find("tensor map", code, "uses a tensor map %s",
         map.mark == COPIED_MAP_MARK ? "of a parameter without __grid_constant__, of which each thread has a copy that "
                                       "no copy engine reads; write const __grid_constant__ CUtensorMap"
         : map.mark != TENSOR_MAP_MARK ? "that cuTensorMapEncodeTiled has not made"
                                       : "with another number of coordinates than it has dimensions");
    stop_launch(719);
  }
  // Not in the PTX ISA; an H100 ends such a launch with error 715, an illegal instruction.
  if (int64_t bytes = int64_t{at[0]} * map.element_bytes; bytes % 16 != 0) {
    find("tensor map", code, "uses a box that begins %lld bytes behind the begin of a row, which is no multiple of 16",
         static_cast<long long>(bytes));
    stop_launch(715);
  }
  uintptr_t address = reinterpret_cast<uintptr_t>(shared);
  const Block* b = block_at(address);
  if (b == nullptr) {
    find("asynchronous copy", code, "copies to or from memory that is not shared");
    stop_launch(700);
  }
  // Tiles of swizzled copies have to begin where their pattern does, or the reader would look elsewhere.
  unsigned alignment = 128;
  if ((address - window(*b)) % alignment != 0) {
    Where where;
    where.code = code;
    misaligned(address, alignment, where);
  }
  return map;
}

EMULATOR_NOINLINE void tensor_load(void* to, const void* pointer, int dimensions, const int32_t* at, void* barrier,
                                   uint32_t in_blocks) {
  uintptr_t code = EMULATOR_CALLER;
  Thread* t = this_thread();
  Block& b = *t->block;
  ptx_of(b);
  const TensorMap& map = map_of(pointer, dimensions, at, to, code);
  uint32_t bytes = map.element_bytes;
  for (int d = 0; d < dimensions; ++d) {
    bytes *= map.box[d];
  }
  uint32_t start =
      static_cast<uint32_t>(reinterpret_cast<uintptr_t>(to) - window(*block_at(reinterpret_cast<uintptr_t>(to))));
  char* box = static_cast<char*>(malloc(bytes + 16));
  memset(box, 0, bytes);
  for_each_run(map, at, [&](uint64_t place, uint32_t count, const char* from) EMULATOR_PLAIN {
    if (from == nullptr) {
      if (map.fills_nan) {
        memset(box + place, 0xFF, count);
      }
      return;
    }
    check_global(reinterpret_cast<uintptr_t>(from), count, READ, code);
    memcpy(box + place, from, count);
    if (map.tf32) {
      for (uint32_t i = 0; i < count; i += 4) {
        uint32_t word;
        memcpy(&word, box + place + i, 4);
        word = emulator_ptx::float_cut(word, 13, 'n');
        memcpy(box + place + i, &word, 4);
      }
    }
  });
  if (map.swizzle != 0) {
    char* plain = box;
    box = static_cast<char*>(malloc(bytes + 16));
    for (uint32_t chunk = 0; chunk < bytes; chunk += 16) {
      uint32_t place = swizzled(start + chunk, map.swizzle) - start;
      if (place < bytes) {
        memcpy(box + place, plain + chunk, 16);
      }
    }
    free(plain);
  }
  ClusterLock lock(b);
  if (in_blocks == 0) {
    begin_transfer(t, static_cast<char*>(to), barrier, box, bytes, code);
    return;
  }
  for (unsigned rank = 0; rank < 16; ++rank) {
    if (in_blocks >> rank & 1) {
      char* copy = static_cast<char*>(malloc(bytes));
      memcpy(copy, box, bytes);
      begin_transfer(t, in_block(b, to, rank, code), in_block(b, barrier, rank, code), copy, bytes, code);
    }
  }
  free(box);
}

EMULATOR_NOINLINE void tensor_store(const void* pointer, int dimensions, const int32_t* at, const void* from,
                                    Reduction reduction) {
  uintptr_t code = EMULATOR_CALLER;
  Thread* t = this_thread();
  Block& b = *t->block;
  Ptx& p = ptx_of(b);
  const TensorMap& map = map_of(pointer, dimensions, at, from, code);
  if (reduction != COPY && (reduction != ADD || map.element_bytes != 4 || !map.floats)) {
    find("tensor map", code, "reduces by an operation or of a type that the emulator does not know");
    stop_launch(801);
  }
  uint32_t bytes = map.element_bytes;
  for (int d = 0; d < dimensions; ++d) {
    bytes *= map.box[d];
  }
  uintptr_t address = reinterpret_cast<uintptr_t>(from);
  uint32_t start = static_cast<uint32_t>(address - window(b));
  unsigned number = store_number(t, code);
  check_source(t, address - b.shared, bytes, number, p.stores_committed[t->number], "stores from", code);
  for_each_run(map, at, [&](uint64_t place, uint32_t count, char* to) EMULATOR_PLAIN {
    if (to == nullptr) {
      return;
    }
    check_global(reinterpret_cast<uintptr_t>(to), count, reduction == COPY ? WRITE : ATOMIC_ACCESS, code);
    for (uint32_t i = 0; i < count; i += map.element_bytes) {
      const char* element =
          static_cast<const char*>(from) + (swizzled(start + static_cast<uint32_t>(place) + i, map.swizzle) - start);
      if (reduction == ADD) {
        emulator_ptx::reduce_bulk<float, ADD>(to + i, element);
      } else {
        memcpy(to + i, element, map.element_bytes);
      }
    }
  });
}

// ---------------------------------------------------------------------------------------------------------------------
// Arithmetic with a rounding mode of its own.

EMULATOR_PLAIN static int mode_of(char mode) {
  return mode == 'z' ? FE_TOWARDZERO : mode == 'm' ? FE_DOWNWARD : mode == 'p' ? FE_UPWARD : FE_TONEAREST;
}
template <typename T>
EMULATOR_NOINLINE static T rounded_as(char operation, char mode, volatile T a, volatile T b, volatile T c) {
  int before = fegetround();
  fesetround(mode_of(mode));
  volatile T result;
  switch (operation) {
    case '+':
      result = a + b;
      break;
    case '-':
      result = a - b;
      break;
    case '*':
      result = a * b;
      break;
    case '/':
      result = a / b;
      break;
    default:
      result = sizeof(T) == 4 ? static_cast<T>(fmaf(a, b, c)) : static_cast<T>(fma(a, b, c));
  }
  fesetround(before);
  return result;
}
EMULATOR_NOINLINE double rounded(char operation, char mode, double a, double b, double c) {
  return rounded_as<double>(operation, mode, a, b, c);
}
EMULATOR_NOINLINE float rounded(char operation, char mode, float a, float b, float c) {
  return rounded_as<float>(operation, mode, a, b, c);
}
EMULATOR_NOINLINE float float_of(double x, char mode) {
  int before = fegetround();
  fesetround(mode_of(mode));
  volatile double value = x;
  volatile float result = static_cast<float>(value);
  fesetround(before);
  return result;
}

// ---------------------------------------------------------------------------------------------------------------------
// ldmatrix, stmatrix and mma: by the warp's last lane to come, for all of them.

EMULATOR_PLAIN inline double number_of(Element kind, uint64_t bits) {
  switch (kind) {
    case F16:
      return emulator_ptx::float_of(emulator_ptx::Half{static_cast<uint16_t>(bits)});
    case BF16:
      return emulator_ptx::float_of(emulator_ptx::Bfloat{static_cast<uint16_t>(bits)});
    case TF32:
      return emulator_ptx::as<float>(static_cast<uint32_t>(bits) & 0xFFFFE000u);
    case F32:
      return emulator_ptx::as<float>(static_cast<uint32_t>(bits));
    case F64:
      return emulator_ptx::as<double>(bits);
    case S8:
      return static_cast<int8_t>(bits);
    case U8:
      return static_cast<uint8_t>(bits);
    default:
      return static_cast<int32_t>(bits);
  }
}
EMULATOR_PLAIN inline float toward_zero(double x) {
  float nearest = static_cast<float>(x);
  bool beyond = __builtin_isfinite(nearest) && __builtin_fabs(static_cast<double>(nearest)) > __builtin_fabs(x);
  return beyond ? emulator_ptx::as<float>(emulator_ptx::as<uint32_t>(nearest) - 1)
                : nearest;  // the next one toward zero
}

struct MmaOffer {
  const Mma* as;
  void* d;
  const void *a, *b, *c;
};
// Element e of register r of a lane: A has rows lane / 4 and 8 more, r by r, and each four lanes share k; B likewise.
template <typename Word, Element ELEMENT>
EMULATOR_NOINLINE static void multiply_warp(void* const* lanes, unsigned) {
  const auto* offers = reinterpret_cast<MmaOffer* const*>(lanes);
  const Mma& as = *offers[0]->as;
  double A[16][32], B[32][8];
  constexpr unsigned bits = ELEMENT == F64 ? 64 : ELEMENT == TF32 ? 32 : ELEMENT == F16 || ELEMENT == BF16 ? 16 : 8;
  constexpr int each = static_cast<int>(8 * sizeof(Word) / bits);
  int halves = as.m / 8;
  Element of_a = bits == 8 ? as.a : ELEMENT, of_b = bits == 8 ? as.b : ELEMENT;  // of 8 bits one may have no sign
  constexpr uint64_t mask = bits == 64 ? ~0ull : (1ull << bits) - 1;
  for (int lane = 0; lane < 32; ++lane) {
    const auto* a = static_cast<const Word*>(offers[lane]->a);
    const auto* b = static_cast<const Word*>(offers[lane]->b);
    for (int k = 0; k < as.k / (4 * each); ++k) {
      for (int e = 0; e < each; ++e) {
        int column = k * 4 * each + lane % 4 * each + e;
        for (int half = 0; half < halves; ++half) {
          A[lane / 4 + 8 * half][column] =
              number_of(of_a, static_cast<uint64_t>(a[k * halves + half]) >> (e * bits) & mask);
        }
        B[column][lane / 4] = number_of(of_b, static_cast<uint64_t>(b[k]) >> (e * bits) & mask);
      }
    }
  }
  bool packed = as.sums == F16;
  double sums[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const auto* c = static_cast<const Word*>(offers[lane]->c);
    for (int i = 0; i < 2 * halves; ++i) {
      uint64_t old = packed ? c[i / 2] >> (i % 2 * 16) & 0xFFFF : c[i];
      sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = number_of(as.sums, old);
    }
  }
  for (int row = 0; row < as.m; ++row) {
    for (int k = 0; k < as.k; ++k) {
      double a = A[row][k];
      for (int column = 0; column < 8; ++column) {  // several at a time, by instructions for vectors
        double& sum = sums[row][column];
        sum = as.sums == F64 ? fma(a, B[k][column], sum) : sum + a * B[k][column];
      }
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    auto* d = static_cast<Word*>(offers[lane]->d);
    for (int i = 0; i < 2 * halves; ++i) {
      double sum = sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
      if (as.sums == F64) {
        d[i] = static_cast<Word>(emulator_ptx::as<uint64_t>(sum));
      } else if (as.sums == F32) {
        d[i] = emulator_ptx::as<uint32_t>(toward_zero(sum));
      } else if (packed) {
        uint32_t keep = i % 2 == 0 ? 0 : static_cast<uint32_t>(d[i / 2]) & 0xFFFF;
        d[i / 2] = keep | static_cast<uint32_t>(emulator_ptx::half_of(sum).bits) << (i % 2 * 16);
      } else {
        auto exact = static_cast<int64_t>(sum);
        d[i] = static_cast<uint32_t>(as.saturates ? exact < INT32_MIN   ? INT32_MIN
                                                    : exact > INT32_MAX ? INT32_MAX
                                                                        : static_cast<int32_t>(exact)
                                                  : static_cast<int32_t>(static_cast<uint32_t>(exact)));
      }
    }
  }
}
EMULATOR_PLAIN static void (*multiplying(Element of_a))(void* const*, unsigned) {
  return of_a == TF32   ? multiply_warp<uint32_t, TF32>
         : of_a == F16  ? multiply_warp<uint32_t, F16>
         : of_a == BF16 ? multiply_warp<uint32_t, BF16>
                        : multiply_warp<uint32_t, S8>;
}
EMULATOR_NOINLINE void mma(const Mma& as, uint32_t* d, const uint32_t* a, const uint32_t* b, const uint32_t* c) {
  MmaOffer offer = {&as, d, a, b, c};
  meet_warp_together(~0u, 16, &offer, multiplying(as.a), EMULATOR_CALLER);
}
EMULATOR_NOINLINE void mma(const Mma& as, uint64_t* d, const uint64_t* a, const uint64_t* b, const uint64_t* c) {
  MmaOffer offer = {&as, d, a, b, c};
  meet_warp_together(~0u, 17, &offer, multiply_warp<uint64_t, F64>, EMULATOR_CALLER);
}

struct MatrixOffer {
  char* row;
  uint32_t* registers;
  int count;
  bool transposed;
};
// Lane 8 i + r names row r of matrix i; lane l holds elements 2 (l % 4) and the next of row l / 4 of each.
template <bool LOADS>
EMULATOR_NOINLINE static void move_matrices(void* const* lanes, unsigned) {
  const auto* offers = reinterpret_cast<MatrixOffer* const*>(lanes);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < offers[0]->count; ++i) {
      uint32_t& word = offers[lane]->registers[i];
      for (int e = 0; e < 2; ++e) {
        int row = lane / 4, column = lane % 4 * 2 + e;
        if (offers[0]->transposed) {
          int swapped = row;
          row = column;
          column = swapped;
        }
        char* element = offers[8 * i + row]->row + 2 * column;
        uint16_t bits = static_cast<uint16_t>(word >> (16 * e));
        if (LOADS) {
          memcpy(&bits, element, 2);
          word = (e == 0 ? 0 : word & 0xFFFF) | static_cast<uint32_t>(bits) << (16 * e);
        } else {
          memcpy(element, &bits, 2);
        }
      }
    }
  }
}
EMULATOR_PLAIN static void check_row(const void* row, int count, Access access, uintptr_t code) {
  Thread* t = this_thread();
  if (static_cast<int>(t->number % 32) >= 8 * count) {
    return;
  }
  uintptr_t address = reinterpret_cast<uintptr_t>(row);
  if (address % 16 != 0) {
    Where where;
    where.code = code;
    misaligned(address, 16, where);
  }
  if (block_at(address) == nullptr) {
    find("out of bounds", code, "reads or writes a matrix that is not in shared memory");
    stop_launch(700);
  }
  check(address, 16, access, code);
}
EMULATOR_NOINLINE void load_matrices(const void* row, int count, bool transposed, uint32_t* to) {
  uintptr_t code = EMULATOR_CALLER;
  check_row(row, count, READ, code);
  MatrixOffer offer = {static_cast<char*>(const_cast<void*>(row)), to, count, transposed};
  meet_warp_together(~0u, 18, &offer, move_matrices<true>, code);
}
EMULATOR_NOINLINE void store_matrices(void* row, int count, bool transposed, const uint32_t* from) {
  uintptr_t code = EMULATOR_CALLER;
  check_row(row, count, WRITE, code);
  MatrixOffer offer = {static_cast<char*>(row), const_cast<uint32_t*>(from), count, transposed};
  meet_warp_together(~0u, 19, &offer, move_matrices<false>, code);
}

}  // namespace emulator

#include "emulator_cluster.h"
#include "emulator_wgmma.h"
