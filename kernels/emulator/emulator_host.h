// Of the emulator's engine: what a rung's host code asks of the CUDA runtime. Streams and events, work that is queued,
// and its capture, by which it runs again later.
#pragma once

#include "emulator_memory.h"

namespace emulator {

// ---------------------------------------------------------------------------------------------------------------------
// Streams. Work runs as it is queued, so no order is ever wrong by chance; whether the streams and events that the host
// names order it is found by counting: of each stream, how much of the work of each other comes before what is queued next.

constexpr unsigned MAX_STREAMS = 32;

struct Stream {
  const void* handle;
  uint32_t behind[MAX_STREAMS];  // of itself: how much work has been queued on it
};

static Stream streams[MAX_STREAMS];  // the first is the one that sgemm is given, whose work begins with the call
static unsigned stream_count;
static uintptr_t created_streams;

EMULATOR_PLAIN static void forget_streams() {
  memset(streams, 0, sizeof streams);
  streams[0].handle = stream;
  streams[0].behind[0] = 1;
  stream_count = 1;
}

EMULATOR_PLAIN static Stream& stream_of(const void* handle) {
  if (stream_count == 0) {
    forget_streams();
  }
  for (unsigned i = 0; i < stream_count; ++i) {
    if (streams[i].handle == handle) {
      return streams[i];
    }
  }
  Stream& made = streams[stream_count < MAX_STREAMS ? stream_count++ : MAX_STREAMS - 1];
  made.handle = handle;
  return made;
}

EMULATOR_PLAIN static void come_behind(uint32_t* behind, const uint32_t* other) {
  for (unsigned i = 0; i < MAX_STREAMS; ++i) {
    behind[i] = behind[i] > other[i] ? behind[i] : other[i];
  }
}

// `which` argument of the call names the stream, as in `fourth argument of the launch`.
EMULATOR_NOINLINE void check_stream(const void* queued_on, const char* work, const char* which) {
  Stream& s = stream_of(queued_on);
  if (s.behind[0] == 0) {
    report("stream", Where(), "queues %s on another stream than it was given; name the stream as the %s", work, which);
    s.behind[0] = 1;
    streams[0].behind[&s - streams] = ~0u;  // told once
  }
  ++s.behind[&s - streams];
}

// When the call has ended: does the stream that it was given wait for all others?
EMULATOR_PLAIN static void check_streams_joined() {
  for (unsigned i = 1; i < stream_count; ++i) {
    if (streams[i].behind[i] > streams[0].behind[i]) {
      report("stream", Where(), "ends before the stream that it was given waits for its work on another stream");
      streams[0].behind[i] = streams[i].behind[i];
    }
  }
}

struct Event {
  uint32_t behind[MAX_STREAMS];
};
EMULATOR_NOINLINE void* create_stream() { return reinterpret_cast<void*>(0x57000000 + ++created_streams); }
EMULATOR_NOINLINE void* create_event() { return calloc(1, sizeof(Event)); }
// Both return an error of the runtime: there may be no event, where its creation has failed.
EMULATOR_NOINLINE int record_event(void* event, const void* on) {
  if (event == nullptr) {
    return 400;  // cudaErrorInvalidResourceHandle
  }
  memcpy(static_cast<Event*>(event)->behind, stream_of(on).behind, sizeof(Event));
  return 0;
}
EMULATOR_NOINLINE int wait_for_event(const void* on, const void* event) {
  if (event == nullptr) {
    return 400;
  }
  come_behind(stream_of(on).behind, static_cast<const Event*>(event)->behind);
  return 0;
}

// ---------------------------------------------------------------------------------------------------------------------
// Work: launches, and copies and fillings by rows.

struct Work {
  Launch launch;  // where it has threads
  void* to;
  const void* from;  // null for a filling
  size_t to_pitch, from_pitch, width, height;
  int value;
};
struct Graph {
  Work* work;
  uint32_t count, capacity;
};

static Graph graphs[16];
static unsigned graph_count;
static bool capturing;
EMULATOR_NOINLINE bool is_capturing() { return capturing; }
static uint64_t work_count;  // queued since the host has asked
static uint64_t call_count;  // calls of the runtime since then, of which those that queue work are some
constexpr uint64_t EVERY_CALL = UINT64_MAX;
static uint64_t failing = 0;  // which of these fails: EVERY_CALL, or 0 for none
struct Failed {               // the call that did: of a launch also the kernel's name or, without one, its address
  const char *call, *name;
  uintptr_t kernel;
};
static Failed failed;

struct Told {                                                    // of a launch since then
  uint64_t kernel, grid[3], block[3], dynamic_bytes, by_launch;  // the last: whether launch.cuh starts it
};
static Told told_launches[64];
static unsigned told_count;

struct Largest {    // block of a kernel since the library was loaded
  uint64_t kernel;  // its address, or 0 where the name alone is known
  const char* name;
  uint64_t threads;
};
static Largest* largest_blocks;
static uint32_t largest_count, largest_capacity;

EMULATOR_PLAIN static void keep_largest(uint64_t kernel, const char* name, uint64_t threads) {
  for (uint32_t i = 0; i < largest_count; ++i) {
    Largest& each = largest_blocks[i];
    if (each.kernel == kernel && each.name == name) {
      each.threads = each.threads > threads ? each.threads : threads;
      return;
    }
  }
  append(largest_blocks, largest_count, largest_capacity) = {kernel, name, threads};
}

EMULATOR_PLAIN static void forget_graphs() {
  for (unsigned i = 0; i < graph_count; ++i) {
    for (uint32_t j = 0; j < graphs[i].count; ++j) {
      free(const_cast<void*>(graphs[i].work[j].launch.closure));
    }
    free(graphs[i].work);
  }
  memset(graphs, 0, sizeof graphs);
  graph_count = 0;
  capturing = false;
}

EMULATOR_NOINLINE bool call_fails(const char* name) {
  bool does = ++call_count == failing || failing == EVERY_CALL;
  if (does) {
    failed = {name, nullptr, 0};
  }
  return does;
}

// Whether this work is the one that has to fail.
EMULATOR_PLAIN static bool fails(const char* name) {
  bool does = call_fails(name);
  work_count += !does;
  return does;
}

EMULATOR_PLAIN static void set_turns(Launch& launch) {
  launch.clusters = launch.blocks / launch.cluster_blocks;
  launch.turns =
      most_blocks > 0 && most_blocks < launch.clusters && !launch.as.cooperative ? most_blocks : launch.clusters;
}

// The kernel that was queued last, if nothing else was queued since.
struct Before {
  uint64_t batch;
  const void* stream;
};
static Before before;
static bool any_queued;                         // since the product began
static uint64_t left_of_batch[LAST_BATCH + 1];  // blocks that have not run

// Does no cluster come twice of those that are to run?
EMULATOR_PLAIN static bool all_differ(const Launch& launch) {
  for (uint64_t i = 0; i < launch.turns; ++i) {
    for (uint64_t j = 0; j < i; ++j) {
      if (cluster_to_run(launch, i) == cluster_to_run(launch, j)) {
        return false;
      }
    }
  }
  return true;
}

// The step between those that are to run, of some: about the golden section of all, so that they lie everywhere.
EMULATOR_PLAIN static void set_wide_step(Launch& launch) {
  launch.first = launch.clusters - 1;
  launch.stride = launch.clusters - launch.clusters / 8 * 3 - 1;
  bool few = launch.clusters <= FEW_CLUSTERS;
  while (few ? !coprime(launch.clusters, launch.stride) : !all_differ(launch)) {
    launch.stride = launch.stride > 1 ? launch.stride - 1 : launch.clusters - 1;
  }
  launch.at_zero = 1;
  while (few && (launch.first + launch.at_zero * launch.stride) % launch.clusters != 0) {
    ++launch.at_zero;
  }
}

EMULATOR_PLAIN static int run_now(Launch* launch, Launch* beside) {
  uint64_t batch = next_batch();
  device.launch_count = beside != nullptr ? 2 : 1;
  device.launches[0] = launch;
  device.launches[1] = beside;
  for (unsigned i = 0; i < device.launch_count; ++i) {
    Launch& each = *device.launches[i];
    each.batch = batch;
    each.before = each.as.early && each.as.stream == before.stream ? before.batch : 0;
    each.before_begun = each.as.early && !any_queued;
    each.next = each.arrived = each.phase = 0;
    each.resident = 0;
    // Of some blocks the last one is the first to run: what lies farthest goes wrong most easily. They are the same of
    // each launch with as many, for one may go on where another has ended.
    each.some = each.turns < each.clusters;
    uint64_t random = seed + batch + i;
    each.first = next_random(random) % each.clusters;
    each.stride = coprime_step(each.clusters, random);
    if (each.some) {
      set_wide_step(each);
    }
  }
  Before earlier = before;
  before = {batch, launch->as.stream};
  unsigned inputs_known = input_count;
  if (launch->before_begun || (beside != nullptr && beside->before_begun)) {
    input_count = 0;  // each read of an input counts
  }
  int error = run_launches();
  input_count = inputs_known;
  // What is begun again, for its blocks are those of clusters, leaves nothing out yet.
  uint64_t left = error == NEEDS_CLUSTER ? 0 : launch->blocks - launch->turns * launch->cluster_blocks;
  left_of_batch[batch & LAST_BATCH] = left;
  device.skipped += left;
  device.launch_count = 0;
  device.launches[0] = device.launches[1] = nullptr;
  if (error != NEEDS_CLUSTER) {
    any_queued = true;
    return error;
  }
  for (Launch* each : {launch, beside}) {
    if (each != nullptr && each->wanted.x > 0) {  // the kernel has said what its clusters are
      uint3 cluster = each->as.cluster = each->wanted, grid = each->as.grid;
      each->cluster_blocks = cluster.x * cluster.y * cluster.z;
      if (each->cluster_blocks > 16 || grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0) {
        report("launch", Where(), "a grid of (%u,%u,%u) blocks has no clusters of (%u,%u,%u)", grid.x, grid.y, grid.z,
               cluster.x, cluster.y, cluster.z);
        return 912;  // cudaErrorInvalidClusterSize
      }
      each->most_resident = each->most_resident > each->cluster_blocks ? each->most_resident : each->cluster_blocks;
      set_turns(*each);
    }
  }
  before = earlier;
  return run_now(launch, beside);
}

EMULATOR_PLAIN static void copy_now(const Work& w) {
  before = {};
  any_queued = true;
  const char* what = w.from != nullptr ? "copies to" : "fills";
  for (size_t row = 0; row < w.height; ++row) {
    char* to = static_cast<char*>(w.to) + row * w.to_pitch;
    if (w.from != nullptr) {
      const char* from = static_cast<const char*>(w.from) + row * w.from_pitch;
      host_access(from, w.width, false, "copies from");
      host_access(to, w.width, true, what);
      memmove(to, from, w.width);
    } else {
      host_access(to, w.width, true, what);
      memset(to, w.value, w.width);
    }
  }
}

// Does the calling function, or one that called it, have this in its frame?
EMULATOR_NOINLINE static bool on_host_stack(const void* pointer) {
  pthread_attr_t attributes;
  void* lowest = nullptr;
  size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
    return false;
  }
  pthread_attr_getstack(&attributes, &lowest, &bytes);
  pthread_attr_destroy(&attributes);
  return reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(lowest) < bytes;
}

EMULATOR_NOINLINE int queue_copy(void* to, size_t to_pitch, const void* from, size_t from_pitch, int value,
                                 size_t width, size_t height, const void* queued_on) {
  prepare_library();
  if (fails(from != nullptr ? "a copy" : "a memset")) {
    return 719;  // cudaErrorLaunchFailure
  }
  check_stream(queued_on, from != nullptr ? "a copy" : "a memset", "call's last argument");
  Work w = {};
  w.to = to;
  w.from = from;
  w.to_pitch = to_pitch;
  w.from_pitch = from_pitch;
  w.width = width;
  w.height = height;
  w.value = value;
  if (capturing) {
    if (from != nullptr && on_host_stack(from)) {
      report("capture", Where(),
             "copies from the host's stack, where a captured graph finds something else when it runs again; give the "
             "kernel this as an argument");
    }
    Graph& graph = graphs[graph_count - 1];
    append(graph.work, graph.count, graph.capacity) = w;
  } else {
    copy_now(w);
  }
  return 0;
}

// Runs what was captured once more; or two such, each piece of work of the one beside that of the other, as two streams
// may: kernels at the same time.
EMULATOR_PLAIN static int replay(Graph& graph, Graph* beside) {
  int error = 0;
  uint32_t count = beside != nullptr && beside->count > graph.count ? beside->count : graph.count;
  for (uint32_t i = 0; i < count && error == 0; ++i) {
    Work* one = i < graph.count ? graph.work + i : nullptr;
    Work* other = beside != nullptr && i < beside->count ? beside->work + i : nullptr;
    if (one != nullptr && other != nullptr && one->launch.threads > 0 && other->launch.threads > 0) {
      error = run_now(&one->launch, &other->launch);
      continue;
    }
    for (Work* each : {one, other}) {
      if (each != nullptr && each->launch.threads > 0) {
        error = error != 0 ? error : run_now(&each->launch, nullptr);
      } else if (each != nullptr) {
        copy_now(*each);
      }
    }
  }
  return error;
}

}  // namespace emulator
