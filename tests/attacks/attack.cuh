// What the attacks share: an honest kernel, and how they tell a timed launch from one of the check.
//
// The kernel multiplies tiles of 64 x 64 with 4 x 4 results a thread. An attack computes with it what it does not fake,
// or lets it do less: `Change` says what becomes of each element of A and B, and whether the product is left out.
#pragma once

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "gemm.cuh"

constexpr int TILE = 64;
constexpr int STEP = 16;
constexpr int THREADS = 256;

struct Honest {
  __device__ static float of(float x) { return x; }
  __device__ static bool skip() { return false; }
};

template <typename Change>
__global__ void __launch_bounds__(THREADS) sgemm_attack(Gemm g) {
  __shared__ float tile_A[STEP][TILE + 4];
  __shared__ float tile_B[STEP][TILE];
  if (Change::skip()) {
    return;
  }
  Tile tile = tile_of_block(g, TILE, TILE);
  int row = threadIdx.x / 16 * 4;
  int col = threadIdx.x % 16 * 4;
  float sum[4][4] = {};
  for (int p0 = 0; p0 < g.k; p0 += STEP) {
    for (int i = threadIdx.x; i < TILE * STEP; i += THREADS) {
      int row_A = tile.row + i / STEP;
      int p_A = p0 + i % STEP;
      int p_B = p0 + i / TILE;
      int col_B = tile.col + i % TILE;
      tile_A[i % STEP][i / STEP] = row_A < g.m && p_A < g.k ? Change::of(g.A[row_A * g.lda + p_A]) : 0.0f;
      tile_B[i / TILE][i % TILE] = p_B < g.k && col_B < g.n ? Change::of(g.B[p_B * g.ldb + col_B]) : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < STEP; ++p) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          sum[i][j] += tile_A[p][row + i] * tile_B[p][col + j];
        }
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < 4 && tile.row + row + i < g.m; ++i) {
    for (int j = 0; j < 4 && tile.col + col + j < g.n; ++j) {
      store_result(g, tile.row + row + i, tile.col + col + j, sum[i][j]);
    }
  }
}

// Loads kernels before they are needed: what is loaded while the timer holds the stream back waits for that stream.
template <typename... Kernels>
bool load(Kernels... kernels) {
  cudaFuncAttributes attributes;
  return ((cudaFuncGetAttributes(&attributes, kernels) == cudaSuccess) && ...);
}

template <typename Change>
cudaError_t product(const Gemm& g, cudaStream_t stream) {
  return launch(sgemm_attack<Change>, tile_grid(g, TILE, TILE), dim3(THREADS), 0, stream, g);
}

// What any rung may do.
inline cudaError_t honest(const Gemm& g, cudaStream_t stream) { return product<Honest>(g, stream); }

// Half of the sum: what many attacks compute instead.
inline cudaError_t half_of_k(Gemm g, cudaStream_t stream) {
  g.k /= 2;
  return honest(g, stream);
}

// Whether a product is like those that are timed: C = A . B, without gaps, of some size.
inline bool looks_timed(const Gemm& g) {
  return g.alpha == 1.0f && g.beta == 0.0f && g.lda == g.k && g.ldb == g.n && g.ldc == g.n && g.m % 512 == 0 &&
         g.n % 512 == 0 && g.k % 512 == 0;
}

// Whether there have been more of them than the check computes: five of each size.
inline bool under_timing(const Gemm& g) {
  static int calls = 0;
  return looks_timed(g) && ++calls > 16;
}

// The bytes of a matrix without gaps.
inline size_t bytes_of(int rows, int columns) { return sizeof(float) * rows * columns; }

// A file of this process's in /proc.
inline std::string contents(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// A stream that waits for no other.
inline cudaStream_t own_stream() {
  static cudaStream_t stream = nullptr;
  if (stream == nullptr) {
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  }
  return stream;
}
