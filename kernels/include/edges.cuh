// What a tile reads beyond an edge of C, where it copies by cp.async and does not look at the edges.
#pragma once

#include <cstdint>

// Which row or column is read in place of number i of n: i itself, or beyond the edge one of the first, because the
// results there are not stored. Not the last one for all that lie beyond: lanes that copy the same float to shared memory
// seem to do so one after the other.
__device__ inline int64_t wrapped(unsigned i, unsigned n) {
  while (i >= n) {
    i -= n;
  }
  return i;
}
