// A sum over k that is split among several blocks: into how many splits, and the kernel that adds them.
#pragma once

#include <cfloat>
#include <climits>

#include "gemm.cuh"
#include "vector.cuh"

constexpr int MOST_SPLITS = 128;

// The number of splits of k with the fewest cycles on the busiest SM, where a block computes rows x cols results from
// `steps` steps of k at a time. The model:
// - An SM takes rows * cols * steps / 128 cycles of FMAs for a tile of `steps` steps, at 80 % of the peak. A block
//   takes some 2500 cycles more, to fill its stages and to store its results. Blocks on one SM share its FMAs, so they
//   count as if one followed the other.
// - More splits than one cost a launch, 3000 cycles. Of each result 8 bytes a split and 4 for C are moved, 16 bytes a
//   cycle and SM.
// A split sums at most `longest` steps of k, if MOST_SPLITS are enough for that.
inline int splits_for(const Gemm& g, int rows, int cols, int steps, int longest = INT_MAX) {
  int sms = 1;
  sm_count(&sms);
  int64_t tiles = static_cast<int64_t>(ceil_div(g.m, rows)) * ceil_div(g.n, cols);
  int tiles_k = ceil_div(g.k, steps);
  double results = static_cast<double>(g.m) * g.n;
  int best = 1, best_each = tiles_k;
  double best_cycles = 0.0;
  for (int splits = 1; splits <= MOST_SPLITS && splits <= tiles_k; ++splits) {
    int each = ceil_div(tiles_k, splits);
    if (ceil_div(tiles_k, each) != splits) {
      continue;  // with so many the last one has nothing to do
    }
    double waves = static_cast<double>((tiles * splits + sms - 1) / sms);
    double cycles = waves * (each * (rows * cols * steps / 128 / 0.8) + 2500.0);
    if (splits > 1) {
      cycles += 3000.0 + results * (8.0 * splits + 4.0) / (16.0 * sms);
    }
    bool shorter = best_each > longest / steps;
    if (splits == 1 || shorter || cycles < best_cycles) {
      best = splits;
      best_each = each;
      best_cycles = cycles;
    }
  }
  return best;
}

// The workspace for the sums of all splits, of which each is an m x n matrix.
inline size_t split_bytes(const Gemm& g, int splits) { return splits > 1 ? sizeof(float) * splits * g.m * g.n : 0; }

// C = alpha * (the sums of all splits, in their order) + beta * C: no atomics, so every run gives the same bits. A
// thread adds WIDTH neighbouring results. What one addition loses is added with the next (W. Kahan, Further Remarks on
// Reducing Truncation Errors, Commun. ACM 8(1), 1965).
template <int WIDTH>
__global__ void __launch_bounds__(256) add_splits(Gemm g, int splits, const float* sums) {
  int64_t i = (blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x) * WIDTH;
  int64_t results = static_cast<int64_t>(g.m) * g.n;
  if (i >= results) {
    return;
  }
  alignas(16) float sum[4] = {};
  float lost[WIDTH] = {};
#pragma unroll 4
  for (int s = 0; s < splits; ++s) {
    alignas(16) float part[WIDTH];
    copy_vector<WIDTH>(part, sums + s * results + i);
#pragma unroll
    for (int v = 0; v < WIDTH; ++v) {
      float more = part[v] - lost[v];
      float total = sum[v] + more;
      lost[v] = fabsf(total) <= FLT_MAX ? (total - sum[v]) - more : 0.0f;
      sum[v] = total;
    }
  }
  int row = static_cast<int>(i / g.n);
  int col = static_cast<int>(i % g.n);
  store_vector(g, row, col, sum, 0, WIDTH, vector_width(g.C, g.ldc));
}

inline cudaError_t launch_add_splits(const Gemm& g, int splits, const float* sums, cudaStream_t stream) {
  int width = g.n % 4 == 0 ? 4 : 1;
  int64_t threads = static_cast<int64_t>(g.m) * g.n / width;
  auto add = width == 4 ? add_splits<4> : add_splits<1>;
  return launch(add, dim3(static_cast<unsigned>((threads + 255) / 256)), dim3(256), 0, stream, g, splits, sums);
}
