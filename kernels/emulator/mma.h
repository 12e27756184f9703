// nvcuda::wmma on the CPU (CUDA C++ Programming Guide, "Warp Matrix Functions"). Which lane has which elements of a
// fragment is not specified; here they are those of the mma instruction, of which a product consists.
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "ptx.h"

namespace nvcuda::wmma {

EMULATOR_INLINE float __float_to_tf32(float x) {
  return emulator_ptx::as<float>(emulator_ptx::float_cut(emulator_ptx::as<uint32_t>(x), 13, 'a'));
}

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}  // namespace precision

template <typename T>
struct Emulated;  // what a fragment of T holds, and its name for the engine
#define EMULATOR_ELEMENT(T, Stored, name)                        \
  template <>                                                    \
  struct Emulated<T> {                                           \
    using Type = Stored;                                         \
    static constexpr emulator::Element element = emulator::name; \
  };
EMULATOR_ELEMENT(__half, __half, F16)
EMULATOR_ELEMENT(__nv_bfloat16, __nv_bfloat16, BF16)
EMULATOR_ELEMENT(precision::tf32, float, TF32)
EMULATOR_ELEMENT(double, double, F64)
EMULATOR_ELEMENT(signed char, signed char, S8)
EMULATOR_ELEMENT(unsigned char, unsigned char, U8)
EMULATOR_ELEMENT(float, float, F32)
EMULATOR_ELEMENT(int, int, S32)
#undef EMULATOR_ELEMENT

// A product of M x N x K consists of those of one instruction, of ROWS x 8 x K; a lane has `each` elements of a register,
// and STEPS registers along k.
template <int M, int N, int K, typename T>
struct Parts {
  static constexpr int bytes = sizeof(typename Emulated<T>::Type), word = bytes == 8 ? 8 : 4, each = word / bytes;
  static constexpr int rows = M == 8 ? 8 : 16, halves = rows / 8, steps = K / (4 * each), down = M / rows,
                       across = N / 8;
};

struct Place {
  int row, col;
};
template <typename Use, int M, int N, int K, typename T>
constexpr int elements_of_lane() {
  using P = Parts<M, N, K, T>;
  return std::is_same_v<Use, matrix_a>   ? P::down * P::steps * P::halves * P::each
         : std::is_same_v<Use, matrix_b> ? P::across * P::steps * P::each
                                         : P::down * P::across * 2 * P::halves;
}
// Where in its matrix a lane's element is.
template <typename Use, int M, int N, int K, typename T>
EMULATOR_INLINE Place place_of_element(int i) {
  using P = Parts<M, N, K, T>;
  int lane = emulator_lane(), within = lane % 4 * P::each + i % P::each;
  if constexpr (std::is_same_v<Use, matrix_a>) {
    int half = i / P::each % P::halves, step = i / P::each / P::halves % P::steps;
    return {i / (P::each * P::halves * P::steps) * P::rows + lane / 4 + 8 * half, step * 4 * P::each + within};
  } else if constexpr (std::is_same_v<Use, matrix_b>) {
    return {i / P::each % P::steps * 4 * P::each + within, i / (P::each * P::steps) * 8 + lane / 4};
  } else {
    int part = i / (2 * P::halves), j = i % (2 * P::halves);
    return {part / P::across * P::rows + lane / 4 + j / 2 * 8, part % P::across * 8 + lane % 4 * 2 + j % 2};
  }
}

template <typename Use, int M, int N, int K, typename T, typename Layout = void>
struct fragment {
  using element_type = typename Emulated<T>::Type;
  using storage_element_type = element_type;
  static constexpr int num_elements = elements_of_lane<Use, M, N, K, T>(), num_storage_elements = num_elements;
  alignas(8) element_type x[num_elements];
};

template <typename Use, int M, int N, int K, typename T, typename Layout, typename V>
EMULATOR_INLINE void fill_fragment(fragment<Use, M, N, K, T, Layout>& to, V value) {
  for (auto& each : to.x) {
    each = static_cast<typename Emulated<T>::Type>(value);
  }
}

// Rows or columns begin at multiples of 16 bytes, the first at one of 32.
template <typename T>
EMULATOR_INLINE void require_layout(const T* at, unsigned ld) {
  emulator::require_alignment(at, 32);
  emulator::require_alignment(reinterpret_cast<const char*>(at) + sizeof(T) * ld, 16);
}
template <typename Use, int M, int N, int K, typename T, typename Layout, typename V>
EMULATOR_INLINE void emulator_load(fragment<Use, M, N, K, T, Layout>& to, const V* from, unsigned ld, bool by_rows) {
  __syncwarp();
  require_layout(from, ld);
  for (int i = 0; i < to.num_elements; ++i) {
    Place at = place_of_element<Use, M, N, K, T>(i);
    to.x[i] = from[by_rows ? static_cast<size_t>(at.row) * ld + at.col : static_cast<size_t>(at.col) * ld + at.row];
  }
  __syncwarp();
}
template <typename Use, int M, int N, int K, typename T, typename Layout, typename V>
EMULATOR_INLINE void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& to, const V* from, unsigned ld) {
  static_assert(!std::is_void_v<Layout>, "an accumulator is loaded with a layout");
  emulator_load(to, from, ld, std::is_same_v<Layout, row_major>);
}
template <int M, int N, int K, typename T, typename V>
EMULATOR_INLINE void load_matrix_sync(fragment<accumulator, M, N, K, T>& to, const V* from, unsigned ld,
                                      layout_t layout) {
  emulator_load(to, from, ld, layout == mem_row_major);
}
template <int M, int N, int K, typename T, typename V>
EMULATOR_INLINE void store_matrix_sync(V* to, const fragment<accumulator, M, N, K, T>& from, unsigned ld,
                                       layout_t layout) {
  __syncwarp();
  require_layout(to, ld);
  for (int i = 0; i < from.num_elements; ++i) {
    Place at = place_of_element<accumulator, M, N, K, T>(i);
    bool by_rows = layout == mem_row_major;
    to[by_rows ? static_cast<size_t>(at.row) * ld + at.col : static_cast<size_t>(at.col) * ld + at.row] = from.x[i];
  }
  __syncwarp();
}

template <int M, int N, int K, typename T, typename A, typename B, typename Sum>
EMULATOR_INLINE void mma_sync(fragment<accumulator, M, N, K, Sum>& d, const fragment<matrix_a, M, N, K, T, A>& a,
                              const fragment<matrix_b, M, N, K, T, B>& b, const fragment<accumulator, M, N, K, Sum>& c,
                              bool saturates = false) {
  using P = Parts<M, N, K, T>;
  using Word = std::conditional_t<P::word == 8, uint64_t, uint32_t>;
  constexpr int SUMS = 2 * P::halves * static_cast<int>(sizeof(d.x[0])) / P::word;  // words of a part
  const emulator::Mma as = {P::rows,  8, K, Emulated<T>::element, Emulated<T>::element, Emulated<Sum>::element,
                            saturates};
  const auto before = c;  // which may be d
  for (int part = 0; part < P::down * P::across; ++part) {
    emulator::mma(as, reinterpret_cast<Word*>(d.x) + part * SUMS,
                  reinterpret_cast<const Word*>(a.x) + part / P::across * P::steps * P::halves,
                  reinterpret_cast<const Word*>(b.x) + part % P::across * P::steps,
                  reinterpret_cast<const Word*>(before.x) + part * SUMS);
  }
}

}  // namespace nvcuda::wmma
