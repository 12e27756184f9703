// Of the emulator's engine: what a block knows of the writes of others.
//
// The protocol is that of the PTX memory model's release and acquire patterns (PTX ISA, "Memory Consistency Model"): the
// threads of a block write and meet at a barrier, one of them fences and sets a flag or counts by an atomic; a thread of
// another block sees that, fences, and meets its block at a barrier. A fence of the writers before the barrier counts as
// well, as in CUDA's sample threadFenceReduction and in CUTLASS's semaphore.
//
// Each block has a clock, which ticks at its barriers, fences and releases. A write is known by the clock of its block; so
// is a release, an atomic or volatile access that may tell others of writes. A word that is accessed so has the latest
// release of each block that those who read it learn of (a vector clock: C. Fidge, F. Mattern, 1988).
#pragma once

#include "emulator_state.h"

namespace emulator {

// Of each block, by its `id`, the clock of its latest release that is known; 0 where none is.
struct Knowledge {
  uint32_t* of;
  uint32_t count;
};

struct Release {
  uint32_t at;
  uint32_t covered;  // what the block wrote before this is ordered before it: fenced behind a barrier of the block
  uint32_t barrier;  // the latest barrier of the block before it
  uint32_t own;      // what the thread itself wrote before this is: its latest fence
  uint32_t warp, warp_own;  // the latest meeting of the warp before it; before that fence
  uint32_t thread;
};
struct Fence {
  uint32_t at, thread;
};

// Of a block that may have ended.
struct History {
  uint3 index;
  Release* releases;
  Fence* fences;
  uint32_t release_count, release_capacity, fence_count, fence_capacity;
};

// Of a thread that has accessed a word so since the last barrier: what it has seen, and what it may rely on, for it has
// fenced since. A barrier hands it to the block.
struct Learned {
  Knowledge seen, known;
  uintptr_t word;  // of the latest volatile read, whose value came after the look at the word's releases
};

struct Word {
  uintptr_t address;
  Knowledge released;
};

constexpr unsigned CLOCK_BITS = 18;
constexpr uint32_t LAST_TICK = (1u << CLOCK_BITS) - 1;

static History* histories;  // by id
static uint32_t history_capacity;
static Word* words;  // a hash table
static uint32_t word_count, word_capacity;

EMULATOR_PLAIN inline void learn(Knowledge& to, const Knowledge& from) {
  if (from.count > to.count) {
    to.of = static_cast<uint32_t*>(realloc(to.of, from.count * sizeof(uint32_t)));
    memset(to.of + to.count, 0, (from.count - to.count) * sizeof(uint32_t));
    to.count = from.count;
  }
  for (uint32_t i = 0; i < from.count; ++i) {
    to.of[i] = from.of[i] > to.of[i] ? from.of[i] : to.of[i];
  }
}
EMULATOR_PLAIN inline void learn_of(Knowledge& to, uint32_t id, uint32_t at) {
  if (to.count <= id) {
    to.of = static_cast<uint32_t*>(realloc(to.of, (id + 1) * sizeof(uint32_t)));
    memset(to.of + to.count, 0, (id + 1 - to.count) * sizeof(uint32_t));
    to.count = id + 1;
  }
  to.of[id] = at;
}
EMULATOR_PLAIN inline uint32_t latest(const Knowledge& of, uint32_t id) { return id < of.count ? of.of[id] : 0; }
EMULATOR_PLAIN inline void forget(Knowledge& of) {
  free(of.of);
  of = {};
}

template <typename T>
EMULATOR_PLAIN inline T& append(T*& list, uint32_t& count, uint32_t& capacity) {
  if (count == capacity) {
    capacity = capacity * 2 + 16;
    list = static_cast<T*>(realloc(list, capacity * sizeof(T)));
  }
  return list[count++];
}

EMULATOR_PLAIN inline uint32_t tick(Block& b) { return b.clock < LAST_TICK ? ++b.clock : b.clock; }

// Of the word at an address; null if there is none and none is to be made. With `atomic_lock` held, as all below.
EMULATOR_PLAIN static Word* word_at(uintptr_t address, bool make) {
  if (make && word_count * 2 >= word_capacity) {
    Word* old = words;
    uint32_t old_capacity = word_capacity;
    word_capacity = word_capacity == 0 ? 256 : word_capacity * 4;
    words = static_cast<Word*>(calloc(word_capacity, sizeof(Word)));
    word_count = 0;
    for (uint32_t i = 0; i < old_capacity; ++i) {
      if (old[i].address != 0) {
        *word_at(old[i].address, true) = old[i];
      }
    }
    free(old);
  }
  if (word_capacity == 0) {
    return nullptr;
  }
  for (uint64_t place = (address >> 2) * 0x9E3779B97F4A7C15u >> 20;; ++place) {
    Word& word = words[place & (word_capacity - 1)];
    if (word.address == address) {
      return &word;
    }
    if (word.address == 0) {
      if (!make) {
        return nullptr;
      }
      word.address = address;
      ++word_count;
      return &word;
    }
  }
}

// Before a launch.
EMULATOR_PLAIN static void forget_order() {
  for (uint32_t i = 0; i < history_capacity; ++i) {
    free(histories[i].releases);
    free(histories[i].fences);
  }
  for (uint32_t i = 0; i < word_capacity; ++i) {
    forget(words[i].released);
  }
  free(histories);
  free(words);
  histories = nullptr;
  words = nullptr;
  history_capacity = word_count = word_capacity = 0;
}

EMULATOR_PLAIN static void begin_history(Block& b) {
  pthread_mutex_lock(&atomic_lock);
  if (b.id >= history_capacity) {
    uint32_t more = history_capacity * 2 > b.id + 64 ? history_capacity * 2 : b.id + 64;
    histories = static_cast<History*>(realloc(histories, more * sizeof(History)));
    memset(histories + history_capacity, 0, (more - history_capacity) * sizeof(History));
    history_capacity = more;
  }
  histories[b.id].index = b.index;
  pthread_mutex_unlock(&atomic_lock);
}

EMULATOR_PLAIN static Learned& learned_of(Thread* t) {
  if (t->learned == nullptr) {
    t->learned = static_cast<Learned*>(calloc(1, sizeof(Learned)));
    ++t->block->learned_threads;
  }
  return *t->learned;
}
EMULATOR_PLAIN static void forget_learned(Thread* t) {
  if (t->learned != nullptr) {
    forget(t->learned->seen);
    forget(t->learned->known);
    free(t->learned);
    t->learned = nullptr;
    --t->block->learned_threads;
  }
}

// What a volatile read has returned may have been stored after the look at the word's releases: looks again.
EMULATOR_PLAIN static void look_at_word_again(Thread* t) {
  if (t->learned != nullptr && t->learned->word != 0) {
    if (const Word* word = word_at(t->learned->word, false)) {
      learn(t->learned->seen, word->released);
    }
    t->learned->word = 0;
  }
}

EMULATOR_PLAIN static void note_fence(Thread* t) {
  Block& b = *t->block;
  pthread_mutex_lock(&atomic_lock);
  History& history = histories[b.id];
  uint32_t at = tick(b);
  append(history.fences, history.fence_count, history.fence_capacity) = {at, t->number};
  t->fence_at = at;
  t->fence_covers = b.barrier_tick;
  t->fence_warp = t->warp_tick;
  look_at_word_again(t);
  if (t->learned != nullptr || b.seen->count > 0) {
    Learned& learned = learned_of(t);
    learn(learned.known, learned.seen);
    learn(learned.known, *b.seen);
  }
  pthread_mutex_unlock(&atomic_lock);
}

// The thread is about to store to a word that others look at, or to update it: what may others rely on that see it?
EMULATOR_PLAIN static void release(Thread* t, uintptr_t address, bool store) {
  Block& b = *t->block;
  History& history = histories[b.id];
  bool tells = history.fence_count > 0 || b.known->count > 0;
  Word* word = word_at(address, true);
  if (store) {  // what was released by it before is not to be seen any more
    forget(word->released);
  }
  if (tells && t->learned != nullptr) {
    learn(word->released, t->learned->known);
  }
  if (tells) {
    learn(word->released, *b.known);
  }
  uint32_t before = history.release_count > 0 ? history.releases[history.release_count - 1].covered : 0;
  uint32_t at = tick(b);
  append(history.releases, history.release_count, history.release_capacity) = {
      at,
      t->fence_covers > before ? t->fence_covers : before,
      b.barrier_tick,
      t->fence_at,
      t->warp_tick,
      t->fence_warp,
      t->number};
  learn_of(word->released, b.id, at);
}

// The thread sees a word that others store to. Who updates it behind a fence of its own, as who takes a ticket, may rely on
// what it sees without another one.
EMULATOR_PLAIN static void acquire(Thread* t, uintptr_t address, bool fenced_update, bool volatile_read) {
  const Word* word = word_at(address, false);
  if (word != nullptr || volatile_read) {
    Learned& learned = learned_of(t);
    look_at_word_again(t);
    learned.word = volatile_read ? address : 0;
    if (word != nullptr) {
      learn(learned.seen, word->released);
      if (fenced_update) {
        learn(learned.known, word->released);
      }
    }
  }
}

// The block has met at a barrier: what its threads have learned is known to all.
EMULATOR_PLAIN static void share_learned(Block& b) {
  if (b.learned_threads > 0) {
    pthread_mutex_lock(&atomic_lock);
    for (unsigned i = 0; i < b.count && b.learned_threads > 0; ++i) {
      Thread& t = b.threads[i];
      if (t.learned != nullptr) {
        look_at_word_again(&t);
        learn(*b.seen, t.learned->seen);
        learn(*b.known, t.learned->known);
        forget_learned(&t);
      }
    }
    pthread_mutex_unlock(&atomic_lock);
  }
}

// Threads of the block have met at a barrier that is not all of its: counts as one of all.
EMULATOR_PLAIN static void meet_some(Block& b) {
  b.barrier_tick = tick(b);
  share_learned(b);
}

// The blocks have met: each knows what the others have written and learned.
EMULATOR_PLAIN static void meet_blocks(Block* const* met, unsigned count) {
  Knowledge all = {};
  for (unsigned i = 0; i < count; ++i) {
    Block& b = *met[i];
    meet_some(b);
    pthread_mutex_lock(&atomic_lock);
    History& history = histories[b.id];
    uint32_t at = tick(b);
    append(history.releases, history.release_count, history.release_capacity) = {at, at, at, at, at, at, 0};
    learn(all, *b.known);
    learn_of(all, b.id, at);
    pthread_mutex_unlock(&atomic_lock);
  }
  for (unsigned i = 0; i < count; ++i) {
    pthread_mutex_lock(&atomic_lock);
    learn(*met[i]->known, all);
    pthread_mutex_unlock(&atomic_lock);
  }
  forget(all);
}

// Lanes of a warp have met: each knows what one has learned.
EMULATOR_PLAIN static void share_learned(Thread* lanes, unsigned present) {
  Block& b = *lanes->block;
  if (b.learned_threads == 0) {
    return;
  }
  pthread_mutex_lock(&atomic_lock);
  Learned all = {};
  for (unsigned i = 0; i < 32; ++i) {
    if ((present >> i & 1) && lanes[i].learned != nullptr) {
      look_at_word_again(lanes + i);
      learn(all.seen, lanes[i].learned->seen);
      learn(all.known, lanes[i].learned->known);
    }
  }
  for (unsigned i = 0; i < 32 && all.seen.count > 0; ++i) {
    if (present >> i & 1) {
      Learned& learned = learned_of(lanes + i);
      learn(learned.seen, all.seen);
      learn(learned.known, all.known);
    }
  }
  forget(all.seen);
  forget(all.known);
  pthread_mutex_unlock(&atomic_lock);
}

// Does a release of the block, up to the clock `known`, tell of what the thread wrote at the clock `at`? Of a read only the
// order counts.
EMULATOR_PLAIN static bool told(const History& history, uint32_t known, uint32_t thread, uint32_t at, bool was_read) {
  uint32_t fence = ~0u;  // the thread's first one after it
  uint32_t low = 0, high = history.fence_count;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    (history.fences[middle].at > at ? high : low) = history.fences[middle].at > at ? middle : middle + 1;
  }
  for (; low < history.fence_count && fence == ~0u; ++low) {
    fence = history.fences[low].thread == thread ? history.fences[low].at : ~0u;
  }
  for (uint32_t i = history.release_count; i > 0; --i) {
    const Release& r = history.releases[i - 1];
    bool same_warp = (r.thread ^ thread) < 32;
    if (r.at > known) {
      continue;
    }
    if (was_read ? at < r.barrier || (r.thread == thread && at < r.at) || (same_warp && at < r.warp)
                 : at < r.covered || fence < r.barrier || (r.thread == thread && at < r.own) ||
                       (same_warp && (at < r.warp_own || fence < r.warp))) {
      return true;
    }
    if (r.at < at) {
      return false;
    }
  }
  return false;
}

// Is what a thread of another block did ordered before what this thread is about to do? If not, why. `strong`: an access
// that goes to the memory that all share.
EMULATOR_PLAIN static bool ordered(Thread* t, uint32_t id, uint32_t thread, uint32_t at, bool was_read, bool strong,
                                   const char** why) {
  Block& b = *t->block;
  pthread_mutex_lock(&atomic_lock);
  look_at_word_again(t);
  const History& history = histories[id];
  uint32_t known = latest(*b.known, id), seen = latest(*b.seen, id);
  if (t->learned != nullptr) {
    uint32_t own_known = latest(t->learned->known, id), own_seen = latest(t->learned->seen, id);
    known = known > own_known ? known : own_known;
    seen = seen > own_seen ? seen : own_seen;
  }
  seen = seen > known ? seen : known;
  bool found = told(history, strong || was_read ? seen : known, thread, at, was_read);
  if (!found) {
    uint32_t of_another = 0;  // what another thread of this block has seen
    for (unsigned i = 0; i < b.count; ++i) {
      if (b.threads[i].learned != nullptr) {
        uint32_t other = latest(b.threads[i].learned->seen, id);
        of_another = other > of_another ? other : of_another;
      }
    }
    const Release* last = history.release_count > 0 ? history.releases + history.release_count - 1 : nullptr;
    if (seen > 0 && told(history, seen, thread, at, was_read)) {
      *why = "this block has no fence behind the flag or counter that it has seen";
    } else if (of_another > seen && told(history, of_another, thread, at, was_read)) {
      *why = "this block has no barrier behind the flag or counter that one of its threads has seen";
    } else if (last == nullptr) {
      *why = "with nothing between";
    } else if (seen == 0 && of_another == 0) {
      *why = "and this block has seen no flag or counter of that block";
    } else if (last->at < at) {
      *why = "after its last flag or counter";
    } else if (was_read || (at >= last->barrier && last->thread != thread)) {
      *why = "that block has no barrier between this and its flag or counter";
    } else {
      *why = "that block has no fence between this and its flag or counter";
    }
  }
  pthread_mutex_unlock(&atomic_lock);
  return found;
}

// Is what a thread stored at the clock `at` the first that it let others see behind a fence of its own, with no barrier
// between? Then that is a flag as well, whatever flags come after it.
EMULATOR_PLAIN static bool is_flag(const History& history, uint32_t thread, uint32_t at) {
  uint32_t fence = 0;
  for (uint32_t i = history.release_count; i > 0; --i) {
    const Release& r = history.releases[i - 1];
    if (r.thread != thread || r.at > at + 1) {
      continue;
    }
    if (fence != 0) {
      return r.at < fence;
    }
    if (r.at != at + 1 || r.own <= r.barrier) {
      return false;
    }
    fence = r.own;
  }
  return fence != 0;
}

// Has this block seen a flag or counter that a thread of another block set behind a volatile store, with no fence between? A
// thread that has done both, or has met the other at a barrier, means to tell of it; yet the store may come later. What the
// store itself has released does not count: it may be such a flag.
EMULATOR_PLAIN static bool told_without_fence(Thread* t, uint32_t id, uint32_t thread, uint32_t at) {
  Block& b = *t->block;
  pthread_mutex_lock(&atomic_lock);
  look_at_word_again(t);
  const History& history = histories[id];
  uint32_t seen = latest(*b.seen, id), known = latest(*b.known, id);
  if (t->learned != nullptr) {
    uint32_t own = latest(t->learned->seen, id);
    seen = seen > own ? seen : own;
  }
  seen = seen > known ? seen : known;
  bool without = told(history, seen, thread, at + 1, true) && !told(history, seen, thread, at, false) &&
                 !is_flag(history, thread, at);
  pthread_mutex_unlock(&atomic_lock);
  return without;
}

}  // namespace emulator
