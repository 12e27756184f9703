// What the stages that measure launch around a rung: they draw its operands anew, and verify what it computed.
//
// An operand lies in a region of 32-bit words: `lead` words in front, `rows` rows of `ld` words, words behind. Its
// elements follow from a key alone, so that they can be computed again instead of being kept. Every other word of the
// region is one NaN, whose payload follows from the key too.
typedef unsigned int word;
typedef unsigned long long u64;

enum Spread { FROM_MEMORY = -1, UNIFORM, WIDE, SPARSE, POISON };  // AGAIN + a spread: drawn and not compared
const int AGAIN = 16;
// What a verification counts, and its worst ratio.
enum Found { CHANGED, OUTSIDE, UNWRITTEN, NOT_FINITE, WORST, COUNTS };

// The parameters of a kernel that takes a region, and the region.
#define REGION word *words, long long lead, long long ld, long long length, int rows, int columns
#define MADE_REGION (Region{words, lead, ld, length, rows, columns})
struct Region {
  word* words;
  long long lead;
  long long ld;
  long long length;
  int rows;
  int columns;
};

// A 64-bit number whose bits look random: the finalizer of splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
__device__ u64 mix(u64 x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

__device__ word nan_of(u64 key) { return 0x7FC00000u | static_cast<word>(mix(~key) & 0x3FFFFFu); }

// A number between -1 and 1, all of them alike, with a fraction of 24 random bits however small it is: no coarser format
// holds it. Of WIDE also times 2^-30 to 2^30: a power of each element's own, of each row's, or of the whole matrix's, as
// the key has it. Of SPARSE zero in seven of eight places.
__device__ word drawn(u64 key, long long row, long long index, int spread) {
  u64 bits = mix(key + static_cast<u64>(index));
  int below = __clz(static_cast<int>(bits >> 32) | 1);  // the powers of two between 1 and the number
  word value = static_cast<word>(bits & 0x807FFFFFu) | static_cast<word>(126 - below) << 23;
  if (spread == WIDE) {
    u64 of_matrix = mix(~key);
    u64 power = of_matrix % 3 == 0 ? bits >> 23 & 0xFF : of_matrix % 3 == 1 ? mix(of_matrix + row) : of_matrix / 3;
    value += static_cast<word>(static_cast<int>(power % 61) - 30) << 23;
  } else if (spread == SPARSE && (bits >> 23 & 7) != 0) {
    value = 0;
  }
  return value;
}

// Fills a region. One row of blocks fills a row of it, and one more what lies in front and behind.
extern "C" __global__ void draw(REGION, u64 key, int spread) {
  const Region r = MADE_REGION;
  word outside = nan_of(key);
  long long x = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  long long step = gridDim.x * static_cast<long long>(blockDim.x);
  for (long long row = blockIdx.y; row <= r.rows; row += gridDim.y) {
    if (row == r.rows) {
      long long end = r.lead + r.rows * r.ld;
      for (long long i = x; i < r.lead; i += step) r.words[i] = outside;
      for (long long i = end + x; i < r.length; i += step) r.words[i] = outside;
      continue;
    }
    word* row_words = r.words + r.lead + row * r.ld;
    for (long long column = x; column < r.ld; column += step) {
      bool element = column < r.columns && spread != POISON;
      row_words[column] = element ? drawn(key, row, row * r.columns + column, spread) : outside;
    }
  }
}

__device__ double sum_of_warp(double value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, distance);
  return value;
}

// For each row of a region: product = row . x, weighted = row^2 . weights, squares = row^2 . 1. Where x is null it is
// drawn from `signs`, of +1 and -1; where weights are null they are 1. Elements are read (FROM_MEMORY) or drawn again;
// what was drawn is compared with what the region holds. A row is computed by blockDim.x threads, at most a block.
extern "C" __global__ void project(REGION, u64 key, int spread, u64 signs, const double* x, const double* weights,
                                   double* product, double* weighted, double* squares, double* found) {
  const Region r = MADE_REGION;
  __shared__ double sums[32][3];
  word outside = nan_of(key);
  double changed = 0, beyond = 0, unwritten = 0, not_finite = 0;
  long long step = gridDim.x * static_cast<long long>(blockDim.y);
  for (long long first = blockIdx.x * static_cast<long long>(blockDim.y); first < r.rows; first += step) {
    long long row = first + threadIdx.y;
    double sum = 0, sum_weighted = 0, sum_squares = 0;
    if (row < r.rows) {
      const word* held_row = r.words + r.lead + row * r.ld;
#pragma unroll 4
      for (int column = threadIdx.x; column < r.columns; column += blockDim.x) {
        word held = held_row[column];
        if (spread != FROM_MEMORY) {
          word expected = drawn(key, row, row * r.columns + column, spread % AGAIN);
          changed += spread < AGAIN && held != expected;
          held = expected;
        } else if ((held & 0x7F800000u) == 0x7F800000u) {
          unwritten += held == outside;
          not_finite += 1;
          held = 0;
        }
        double value = __uint_as_float(held);
        double factor = x != nullptr ? x[column] : (mix(signs + column) >> 63 ? 1.0 : -1.0);
        sum += value * factor;
        sum_weighted += value * value * (weights != nullptr ? weights[column] : 1.0);
        sum_squares += value * value;
      }
      for (long long column = r.columns + threadIdx.x; column < r.ld; column += blockDim.x) {
        beyond += held_row[column] != outside;
      }
    }
    if (threadIdx.x < 3) sums[threadIdx.y][threadIdx.x] = 0;
    __syncthreads();
    sum = sum_of_warp(sum);
    sum_weighted = sum_of_warp(sum_weighted);
    sum_squares = sum_of_warp(sum_squares);
    if (threadIdx.x % 32 == 0) {
      atomicAdd(&sums[threadIdx.y][0], sum);
      atomicAdd(&sums[threadIdx.y][1], sum_weighted);
      atomicAdd(&sums[threadIdx.y][2], sum_squares);
    }
    __syncthreads();
    if (threadIdx.x == 0 && row < r.rows) {
      product[row] = sums[threadIdx.y][0];
      weighted[row] = sums[threadIdx.y][1];
      squares[row] = sums[threadIdx.y][2];
    }
    __syncthreads();
  }
  if (blockIdx.x == 0) {
    long long end = r.lead + r.rows * r.ld;
    int thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    for (long long i = thread; i < r.lead; i += threads) beyond += r.words[i] != outside;
    for (long long i = end + thread; i < r.length; i += threads) beyond += r.words[i] != outside;
  }
  if (changed > 0) atomicAdd(&found[CHANGED], changed);
  if (beyond > 0) atomicAdd(&found[OUTSIDE], beyond);
  if (unwritten > 0) atomicAdd(&found[UNWRITTEN], unwritten);
  if (not_finite > 0) atomicAdd(&found[NOT_FINITE], not_finite);
}

// found[WORST] = the largest |computed - alpha product - beta addend| of a row, over what rounding may make of it.
// The bound of a row: `scale` sqrt(t(columns) terms), with t(n) = 1 + 2 sqrt(tail / n) + 2 tail / n. `terms` is the sum
// of its squared terms, and no column has more of it than alpha^2 squares_A largest^2 + beta^2 largest_C^2.
extern "C" __global__ void judge(int rows, double alpha, double beta, const double* computed, const double* product,
                                 const double* weighted_A, const double* squares_A, const double* addend,
                                 const double* squares_C, double largest, double scale, double tail, double* found) {
  for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < rows; row += gridDim.x * blockDim.x) {
    double expected = alpha * product[row];
    double terms = alpha * alpha * weighted_A[row];
    double of_a_column = alpha * alpha * squares_A[row] * largest * largest;
    if (beta != 0) {
      expected += beta * addend[row];
      terms += beta * beta * squares_C[row];
      of_a_column += beta * beta * largest * largest;
    }
    double columns = fmax(1.0, of_a_column > 0 ? terms / of_a_column : 1.0);
    double bound = scale * sqrt(terms * (1 + 2 * sqrt(tail / columns) + 2 * tail / columns)) + 1e-300;
    double ratio = fabs(computed[row] - expected) / bound;
    atomicMax(reinterpret_cast<u64*>(&found[WORST]), static_cast<u64>(__double_as_longlong(ratio)));
  }
}

// Keeps every SM to itself until `released` is set or `limit_ns` have gone by, and notes when the first block left, in
// nanoseconds of the GPU's clock, and how many left because of the limit.
extern "C" __global__ void occupy(const volatile int* released, u64 limit_ns, u64* left) {
  if (threadIdx.x == 0) {
    u64 begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do {
      __nanosleep(100);
      asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (*released == 0 && now - begin < limit_ns);
    atomicMin(&left[0], now);
    if (now - begin >= limit_ns) atomicAdd(&left[1], 1ull);
  }
  __syncthreads();
}

// The GPU's clock, in nanoseconds.
extern "C" __global__ void stamp(u64* at) {
  u64 now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  *at = now;
}

// Loads one word after the other, each from a place that follows from the last, and stores how many cycles each took: a
// word that is in the L2 cache takes about half as long as one that is not. What the words are does not matter. `lines`
// are of 128 bytes.
extern "C" __global__ void chase(const word* words, u64 lines, int loads, float* cycles) {
  u64 line = 0;
  long long begin = clock64();
  for (int i = 0; i < loads; ++i) {
    line = (line * 0x5851F42D4C957F2Dull + 0x14057B7EF767814Full + __ldcg(&words[line % lines * 32])) ^ (line >> 32);
  }
  *cycles = static_cast<float>(clock64() - begin + (line == 42)) / loads;
}
