// Tiles of A and B by the copy engine, rounded to TF32 or not, although rows do not begin at multiples of 16 bytes.
//
// The engine asks for a matrix aligned to 16 bytes, with rows that are whole 16 bytes apart. Every fourth row of any
// matrix of floats is so far apart. So four maps describe a matrix, one for each row number modulo 4, its class. A map
// begins at the first float of its rows that is aligned. The floats before it, the head of a row, are none to three, and
// as many in all rows of a class. The engine does not read them; warps load them one by one.
#pragma once

#include "bulk_copy.cuh"

constexpr int CLASSES = 4;

struct ClassMaps {
  CUtensorMap of[CLASSES];
};

// Floats in the head of `row`.
__host__ __device__ inline int head_of(const float* matrix, int64_t ld, int row) {
  return static_cast<int>((0 - reinterpret_cast<uintptr_t>(matrix + row * ld) / 4) % 4);
}

// Whether four maps can describe the matrix: each needs a row and a column, and the distance of its rows has 40 bits.
inline bool has_class_maps(int rows, int cols, int64_t ld) {
  return rows >= CLASSES && cols >= 4 && ld < (int64_t{1} << 40) / 16;
}

// Maps for boxes of box_rows rows of a class and box_cols columns, rounded to TF32 if `to_tf32`.
inline bool make_class_maps(ClassMaps* maps, const float* matrix, int rows, int cols, int64_t ld, int box_rows,
                            int box_cols, CUtensorMapSwizzle swizzle, bool to_tf32) {
  bool made = has_class_maps(rows, cols, ld);
  for (int i = 0; i < CLASSES && made; ++i) {
    int head = head_of(matrix, ld, i);
    made = make_tensor_map(&maps->of[i], matrix + i * ld + head, ceil_div(rows - i, CLASSES), cols - head, CLASSES * ld,
                           box_rows, box_cols, swizzle, to_tf32);
  }
  return made;
}

// Maps whose lines begin one to four floats before their rows, so that they have the heads too. What stands there is the end of
// the row before, which nobody uses. Row 0 has no row before it: the map of its class begins at row 4, so that row 0 is its
// row -1 and arrives as zeros. Someone else loads it.
inline bool make_early_maps(ClassMaps* maps, const float* matrix, int rows, int cols, int64_t ld, int box_rows,
                            int box_cols, CUtensorMapSwizzle swizzle) {
  bool made = rows > CLASSES && has_class_maps(rows, cols, ld);
  for (int i = 0; i < CLASSES && made; ++i) {
    int first = i == 0 ? CLASSES : i, early = 4 - head_of(matrix, ld, i);
    made = make_tensor_map(&maps->of[i], matrix + first * ld - early, ceil_div(rows - first, CLASSES), cols + early,
                           CLASSES * ld, box_rows, box_cols, swizzle);
  }
  return made;
}

// Lets the engine read a map before it needs it.
__device__ inline void fetch_tensor_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Rounds to nearest, as the copy engine does.
__device__ inline float rounded_to_tf32(float x) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
}

// A's part of a stage: ROWS lines of 32 steps of k, those of a class together, with the engine's 128-byte swizzle. They
// arrive without the heads, which is a head too far to the left. Four warps move them to the right, in place, each those of
// one class; what falls out of a line waits in a register for the next stage.
template <int ROWS>
struct MovedLines {
  static constexpr int LINES = ROWS / CLASSES, BATCH = 8;
  static_assert(LINES % BATCH == 0, "the swizzle repeats after eight lines");

  int head, first_line, from, to;
  bool waits;  // the lane's float belongs to the next stage
  float waiting[LINES];

  // For the steps of k from `first` on. Zeros stand for what lies outside of A.
  __device__ MovedLines(const Gemm& g, int row, int first, int row_class) {
    int lane = threadIdx.x % 32;
    head = head_of(g.A, g.lda, row_class);
    int step = (lane + head) % 32;
    from = lane * 4;
    to = step * 4;
    waits = lane + head >= 32;
    first_line = row_class * LINES * 128;
#pragma unroll
    for (int i = 0; i < LINES; ++i) {
      int r = row + i * CLASSES + row_class, s = first + step;
      waiting[i] = waits && r < g.m && s < g.k ? g.A[r * g.lda + s] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < LINES; ++i) {
      waiting[i] = rounded_to_tf32(waiting[i]);  // not above: each load would wait for the one before
    }
  }

  __device__ void move(char* stage) {
#pragma unroll
    for (int batch = 0; batch < LINES; batch += BATCH) {
      char* lines = stage + first_line + batch * 128;
      float arrived[BATCH];
#pragma unroll
      for (int i = 0; i < BATCH; ++i) {
        arrived[i] = *reinterpret_cast<float*>(lines + i * 128 + (from ^ i * 16));
      }
      __syncwarp();
#pragma unroll
      for (int i = 0; i < BATCH; ++i) {
        *reinterpret_cast<float*>(lines + i * 128 + (to ^ i * 16)) = waits ? waiting[batch + i] : arrived[i];
        waiting[batch + i] = arrived[i];
      }
    }
  }
};

// B's part of a stage: 32 lines of COLS columns, those of a class together. The box of a class begins four floats before the
// tile, so that only the first tile of a row lacks something: the heads. A warp loads them, a line each lane. (With early maps
// the box begins at the tile's column of the map, and no line but row 0 lacks something.)
template <int COLS>
struct RawLinesOfB {
  static constexpr int STEPS = 32, LINES = STEPS / CLASSES, PITCH = COLS + 4;
  static constexpr int COPIED_BYTES = STEPS * PITCH * 4;
  static constexpr int CLASS_BYTES = LINES * PITCH * 4;
  static_assert(CLASS_BYTES % 128 == 0, "the engine copies to multiples of 128 bytes");

  // Where the tile's first column stands in a line, and where the line of a step of k begins.
  static __device__ int shift(int head) { return 4 - head; }
  static __device__ int line(int step) { return step % CLASSES * CLASS_BYTES + step / CLASSES * (PITCH * 4); }

  int head;
  const float* next;  // the lane's line in the stage after those that were loaded
  int steps;          // from there to the end of B
  float heads[3];

  // For the steps of k from `first` on.
  __device__ RawLinesOfB(const Gemm& g, int first) {
    int lane = threadIdx.x % 32;
    head = head_of(g.B, g.ldb, lane % CLASSES);
    next = g.B + (first + lane) * g.ldb;
    steps = g.k - first - lane;
  }

  __device__ void load(int64_t ldb) {
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      heads[i] = i < head && steps > 0 ? next[i] : 0.0f;
    }
    next += STEPS * ldb;
    steps -= STEPS;
  }

  __device__ void store(char* part) const {
    float* to = reinterpret_cast<float*>(part + line(threadIdx.x % 32)) + shift(head);
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      if (i < head) {
        to[i] = rounded_to_tf32(heads[i]);
      }
    }
  }
};
