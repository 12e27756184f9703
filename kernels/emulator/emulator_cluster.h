// Of the emulator's engine: clusters of blocks. PTX ISA, "barrier.cluster", "mapa", "getctarank".
#pragma once

namespace emulator {

EMULATOR_NOINLINE uint32_t cluster_rank() { return this_block()->cluster_rank; }
EMULATOR_NOINLINE uint32_t cluster_size() { return this_block()->launch->cluster_blocks; }
EMULATOR_NOINLINE uint3 cluster_extent() { return this_block()->launch->as.cluster; }
EMULATOR_NOINLINE uint3 cluster_block() {
  const Block& b = *this_block();
  uint3 of = b.launch->as.cluster;
  return {b.index.x % of.x, b.index.y % of.y, b.index.z % of.z};
}
EMULATOR_NOINLINE uint3 cluster_index() {
  const Block& b = *this_block();
  uint3 of = b.launch->as.cluster;
  return {b.index.x / of.x, b.index.y / of.y, b.index.z / of.z};
}
EMULATOR_NOINLINE uint3 cluster_grid() {
  const Launch& launch = *this_block()->launch;
  uint3 of = launch.as.cluster, grid = launch.as.grid;
  return {grid.x / of.x, grid.y / of.y, grid.z / of.z};
}

// The kernel declares its cluster: a launch that does not know of it begins anew, before the kernel has done anything.
constexpr int NEEDS_CLUSTER = -1;
EMULATOR_NOINLINE void require_cluster(unsigned x, unsigned y, unsigned z) {
  uintptr_t code = EMULATOR_CALLER;
  Launch& launch = *this_block()->launch;
  uint3 has = launch.as.cluster;
  if (has.x == x && has.y == y && has.z == z) {
    return;
  }
  if (has.x * has.y * has.z == 1) {
    launch.wanted = {x, y, z};
    stop_launch(NEEDS_CLUSTER);
  }
  find("launch", code, "is launched in clusters of (%u,%u,%u) blocks, its __cluster_dims__ are (%u,%u,%u)", has.x,
       has.y, has.z, x, y, z);
  stop_launch(912);  // cudaErrorInvalidClusterSize
}

// The same place in another block of the cluster.
EMULATOR_NOINLINE static char* in_block(const Block& b, const void* pointer, unsigned rank, uintptr_t code) {
  const Block* owner = block_at(reinterpret_cast<uintptr_t>(pointer));
  if (rank >= b.launch->cluster_blocks || owner == nullptr) {
    find("cluster", code, "names block %u of a cluster of %u", rank, b.launch->cluster_blocks);
    stop_launch(719);
  }
  return reinterpret_cast<char*>(b.cluster[rank]->shared + (reinterpret_cast<uintptr_t>(pointer) - owner->shared));
}
EMULATOR_NOINLINE uint64_t map_shared(uint64_t address, uint32_t rank) {
  uintptr_t code = EMULATOR_CALLER;
  const Block& b = *this_block();
  if (rank >= b.launch->cluster_blocks) {
    find("cluster", code, "names block %u of a cluster of %u", rank, b.launch->cluster_blocks);
    stop_launch(719);
  }
  return (address & ((1u << RANK_AT) - 1)) | static_cast<uint64_t>(rank + 1) << RANK_AT;
}
EMULATOR_NOINLINE uint64_t map_generic(uint64_t address, uint32_t rank) {
  uintptr_t code = EMULATOR_CALLER;
  return reinterpret_cast<uint64_t>(in_block(*this_block(), reinterpret_cast<const void*>(address), rank, code));
}
EMULATOR_NOINLINE uint32_t rank_of(const void* pointer) {
  const Block* owner = block_at(reinterpret_cast<uintptr_t>(pointer));
  return owner == nullptr ? 0 : owner->cluster_rank;
}

// An access to the shared memory of another block of the cluster; false where it is none.
EMULATOR_NOINLINE static bool remote_access(Thread* t, uintptr_t address, unsigned bytes, Access access,
                                            uintptr_t code) {
  Block &own = *t->block, &b = *block_at(address);
  bool in_cluster = false;
  for (unsigned rank = 0; rank < own.launch->cluster_blocks; ++rank) {
    in_cluster = in_cluster || own.cluster[rank] == &b;
  }
  uintptr_t offset = address - b.shared;
  if (!in_cluster || &b == &own || offset + bytes > b.shared_bytes || b.shadow[offset / 4].written == NO_WORD) {
    return false;
  }
  if (b.launch != own.launch || b.exited == b.count) {
    find("cluster", code, "accesses %s of a block that has left the kernel", name_of(b, offset).text);
    stop_launch(719);
  }
  ptx_of(own);
  ClusterLock lock(own);
  ptx_of(b);
  b.shares_memory = true;
  if (own.ptx->cluster_phase == 0) {
    find("cluster", code, "accesses %s of another block, which may not have begun: the cluster has not met before",
         name_of(b, offset).text);
  }
  bool writes = !only_reads(access);
  unsigned mine = number_for(b, own, t->number);
  for (uintptr_t word = offset / 4; word * 4 < offset + bytes; ++word) {
    Shadow& s = b.shadow[word];
    if (!writes && (s.written & ~IN_FLIGHT) < b.block_start) {
      find("uninitialised read", code, "reads %s of another block, which has not written it",
           name_of(b, word * 4).text);
    } else if (s.written & IN_FLIGHT) {
      find("asynchronous copy", code, "accesses %s of another block while a copy to it is in flight",
           name_of(b, word * 4).text);
    } else if ((s.written & ~IN_FLIGHT) >= b.block_start && !(access == ATOMIC_ACCESS && (s.written & ATOMIC)) &&
               !is_known(t, b, s.written & THREAD, epoch_of(s.written))) {
      find("race", code, "%s %s of another block, which another thread wrote, with no barrier between",
           writes ? "writes" : "reads", name_of(b, word * 4).text);
    }
    if (writes) {
      check_readers(t, b, word, "writes", code);
      s.read = 0;
      s.written = static_cast<Stamp>(b.interval) << 32 | (t->stamp & WARP_INTERVAL) | mine |
                  (access == ATOMIC_ACCESS ? ATOMIC : 0);
      b.places[word].written = place_of_code(code, ALL_BYTES);
    } else {
      note_reader(b, word, mine, epoch_of(t->stamp), place_of_code(code, ALL_BYTES));
    }
  }
  Ptx& p = *b.ptx;
  uint64_t phase = own.ptx->cluster_phase + (own.ptx->cluster_half[t->number] != 0) + 1;
  if (phase >= p.remote_phase) {
    p.remote_phase = phase;
    p.remote_word = static_cast<uint32_t>(offset / 4);
    p.remote_code = code;
  }
  p.remote[mine] = epoch_of(t->stamp) + 1;
  return true;
}

// A block leaves the kernel: are all accesses of other blocks to its shared memory over, as one of its threads knows?
// They are behind a barrier of the cluster, which may order nothing else.
EMULATOR_NOINLINE static void check_left(Block& b) {
  ClusterLock lock(b);
  const Ptx& p = *b.ptx;
  if (p.cluster_phase >= p.remote_phase || too_many_threads(b)) {
    return;
  }
  for (unsigned number = b.count; number < cluster_threads(b); ++number) {
    bool over = p.remote[number] == 0;
    for (unsigned i = 0; i < b.count && !over; ++i) {
      over = p.remote[number] <= known_by(b, i)[number];
    }
    if (!over) {
      find("cluster", p.remote_code, "leaves the kernel; when another block accesses its %s, it may have left before",
           name_of(b, p.remote_word * 4).text);
      return;
    }
  }
}

// The barrier of all threads of a cluster, in two halves. It is kept by the first block.
EMULATOR_NOINLINE void cluster_arrive(bool releases) {
  uintptr_t code = EMULATOR_CALLER;
  Thread* t = this_thread();
  Block &b = *t->block, &first = *b.cluster[0];
  Ptx& p = ptx_of(b);
  if (p.cluster_half[t->number] != 0) {
    find("cluster", code, "arrives twice at the barrier of its cluster without waiting");
    stop_launch(719);
  }
  p.cluster_half[t->number] = 1;
  ClusterLock lock(b);
  for (unsigned rank = 0; rank < b.launch->cluster_blocks && releases; ++rank) {
    Block& each = *b.cluster[rank];
    Ptx& of = ptx_of(each);
    begin_clock(of.cluster_gathering, of.cluster_interval, each);
    if (&each != &b && !too_many_threads(b)) {  // what it knows of others they tell themselves, as all arrive
      uint32_t& entry = of.cluster_gathering[number_for(each, b, t->number)];
      entry = entry > epoch_of(t->stamp) + 1 ? entry : epoch_of(t->stamp) + 1;
    }
  }
  if (releases) {
    release_to(b.ptx->cluster_gathering, b, t);  // the last one, as it begins another epoch
  }
  b.stamp = t->stamp;
  Ptx& counted = *first.ptx;
  if (++counted.cluster_arrived == b.launch->cluster_blocks * b.count) {
    counted.cluster_arrived = 0;
    meet_blocks(b.cluster, b.launch->cluster_blocks);
    for (unsigned rank = 0; rank < b.launch->cluster_blocks; ++rank) {
      Ptx& of = *b.cluster[rank]->ptx;
      memcpy(of.cluster_complete, of.cluster_gathering, sizeof of.cluster_complete);
      for (unsigned i = 0; i < of.barrier_count; ++i) {
        of.barriers[i].initialised = 0;  // known to all
      }
      ++of.cluster_phase;
    }
  }
  made_progress();
}
EMULATOR_NOINLINE void cluster_wait() {
  uintptr_t code = EMULATOR_CALLER;
  Thread* t = this_thread();
  Block& b = *t->block;
  Ptx& p = ptx_of(b);
  if (p.cluster_half[t->number] != 1) {
    find("cluster", code, "waits at the barrier of its cluster without having arrived");
    stop_launch(719);
  }
  // The phase cannot end twice before this thread has waited.
  uint64_t arrived_in = p.cluster_waits[t->number]++;
  wait_until(t, code, {Waiting::CLUSTER, 0, 0, arrived_in},
             [&]() EMULATOR_PLAIN { return __atomic_load_n(&p.cluster_phase, __ATOMIC_ACQUIRE) > arrived_in; });
  p.cluster_half[t->number] = 0;
  ClusterLock lock(b);
  acquire_from(p.cluster_complete, t);
}

// ---------------------------------------------------------------------------------------------------------------------
// setmaxnreg.

EMULATOR_NOINLINE void set_registers(uint32_t count, bool more) {
  (void)more;
  uintptr_t code = EMULATOR_CALLER;
  if (count < 24 || count > 256 || count % 8 != 0) {
    find("registers", code, "sets %u registers for a thread; a multiple of 8 from 24 to 256 is possible", count);
    stop_launch(719);
  }
  Thread* t = this_thread();
  Block& b = *t->block;
  uint32_t* registers = ptx_of(b).registers;
  registers[t->number / 32] = count;
  uint64_t sum = 0;
  for (unsigned warp = 0; warp < (b.count + 31) / 32; ++warp) {
    if (registers[warp] == 0) {
      return;  // not all have asked yet
    }
    sum += registers[warp] * 32;
  }
  if (sum > 65536) {
    find("registers", code, "asks for %llu registers in all; an SM has 65536, so a warp waits for ever",
         static_cast<unsigned long long>(sum));
    stop_launch(719);
  }
}

}  // namespace emulator
