// What inline PTX is rewritten to (workflow/ladder/build/ptx.py): a function for each instruction, on the bits of its
// registers. Names and rules are those of the PTX ISA's chapter "Instruction Set". What several threads do together, or
// what goes on in the background, is declared here and stands in emulator_ptx.h.
#pragma once

#include <cmath>
#include <cstring>
#include <type_traits>

#include "cuda_runtime.h"
#include "small_floats.h"

#pragma GCC visibility push(hidden)
namespace emulator {

// Reports a finding of the running thread and, unless it is harmless, ends the launch.
void require_alignment(const void* pointer, unsigned bytes);

uint32_t sm_of_block();
uint32_t dynamic_shared_bytes();
void set_registers(uint32_t count, bool more);
void grid_launch_dependents();
void grid_wait();

int named_barrier(uint32_t number, uint32_t threads, bool arrives_only, bool predicate);
void fence_block();
void fence_proxy_async();
void fence_mbarrier_init();

void mbarrier_init(void* barrier, uint32_t count);
void mbarrier_inval(void* barrier);
uint64_t mbarrier_arrive(void* barrier, uint32_t count, uint32_t expected_bytes, bool drops);
void mbarrier_expect_tx(void* barrier, uint32_t bytes);
void mbarrier_complete_tx(void* barrier, uint32_t bytes);
bool mbarrier_test(void* barrier, uint64_t phase, bool is_parity, bool may_wait);
uint32_t mbarrier_pending(uint64_t state);
void mbarrier_arrive_after_copies(void* barrier, bool noinc);

enum Reduction { COPY, ADD, MIN, MAX, INC, DEC, AND, OR, XOR };
using ReduceBulk = void (*)(void* to, const void* from);
void bulk_load(void* to, const void* from, uint32_t bytes, void* barrier, uint32_t blocks);
void bulk_store(void* to, const void* from, uint32_t bytes, ReduceBulk reduce = nullptr, uint32_t element_bytes = 0);
void tensor_load(void* to, const void* map, int dimensions, const int32_t* at, void* barrier, uint32_t blocks);
void tensor_store(const void* map, int dimensions, const int32_t* at, const void* from, Reduction reduction);
void bulk_commit();
void bulk_wait(uint32_t newest, bool read);

enum Element { F16, BF16, TF32, F64, S8, U8, F32, S32 };
struct Mma {
  int m, n, k;
  Element a, b, sums;
  bool saturates;
};
void mma(const Mma& as, uint32_t* d, const uint32_t* a, const uint32_t* b, const uint32_t* c);
void mma(const Mma& as, uint64_t* d, const uint64_t* a, const uint64_t* b, const uint64_t* c);
void load_matrices(const void* row, int count, bool transposed, uint32_t* to);
void store_matrices(void* row, int count, bool transposed, const uint32_t* from);
struct Wgmma {
  int n, k;
  Element operands;
  int in_floats, sign_a, sign_b, transposed_a, transposed_b;  // no padding: products are compared by their bytes
};
void wgmma(const Wgmma& as, void* const* d, const uint32_t* a, uint64_t a_descriptor, uint64_t b_descriptor, bool adds);
void wgmma_fence();
void wgmma_commit_group();
void wgmma_wait_group(uint32_t newest);

uint64_t map_shared(uint64_t address, uint32_t rank);

}  // namespace emulator
#pragma GCC visibility pop

namespace emulator_ptx {

// Registers. Each is kept as the unsigned number of its width; get and set give it the type of an instruction.
struct Bits128 {
  uint64_t low, high;
};
struct Tf32 {
  uint32_t bits;
};
template <typename T, int COUNT>
struct Vector {
  T of[COUNT];
};

template <size_t BYTES>
using Unsigned = std::conditional_t<
    BYTES == 1, uint8_t,
    std::conditional_t<BYTES == 2, uint16_t,
                       std::conditional_t<BYTES == 4, uint32_t, std::conditional_t<BYTES == 8, uint64_t, Bits128>>>>;

// Of a register as wide as the type or wider.
template <typename T, typename Register>
EMULATOR_INLINE T get(Register bits) {
  if constexpr (std::is_same_v<T, bool>) {
    return bits != 0;
  } else if constexpr (std::is_same_v<Register, Bits128>) {
    return as<T>(bits);
  } else if constexpr (std::is_same_v<T, Bits128>) {
    return {bits, 0};
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(bits);
  } else {
    return as<T>(static_cast<Unsigned<sizeof(T)>>(bits));
  }
}
template <typename T, typename Register, typename Value>
EMULATOR_INLINE void set(Register& to, Value value) {
  if constexpr (std::is_same_v<T, bool> || std::is_integral_v<T>) {
    to = static_cast<Register>(static_cast<T>(value));  // extended by its sign where the type has one
  } else if constexpr (std::is_same_v<T, Bits128>) {
    to = value;
  } else {
    to = static_cast<Register>(as<Unsigned<sizeof(T)>>(static_cast<T>(value)));
  }
}

// Operands of an asm statement.
template <typename Register, typename T>
EMULATOR_INLINE Register in(const T& value) {
  using Plain = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<Plain, bool> || std::is_enum_v<Plain>) {
    return static_cast<Register>(value);
  } else if constexpr (std::is_integral_v<Plain> && std::is_integral_v<Register>) {
    return static_cast<Register>(value);
  } else if constexpr (std::is_array_v<Plain>) {
    return as<Register>(&value[0]);
  } else if constexpr (std::is_same_v<Plain, float> && sizeof(Register) == 8) {
    return as<Register>(static_cast<double>(value));
  } else if constexpr (std::is_same_v<Plain, double> && sizeof(Register) == 4) {
    return as<Register>(static_cast<float>(value));
  } else {
    Plain copy = value;
    return as<Register>(copy);
  }
}
template <typename T, typename Register>
EMULATOR_INLINE void out(T& to, Register bits) {
  if constexpr (std::is_integral_v<std::remove_cv_t<T>> || std::is_enum_v<std::remove_cv_t<T>>) {
    to = static_cast<std::remove_cv_t<T>>(bits);
  } else {
    to = as<std::remove_cv_t<T>>(bits);
  }
}
template <typename T>
EMULATOR_INLINE void* place(T& sum) {
  return const_cast<std::remove_cv_t<T>*>(&sum);
}

EMULATOR_INLINE char* generic(uint64_t address) { return reinterpret_cast<char*>(address); }
EMULATOR_INLINE char* shared(uint64_t address) { return emulator::shared_pointer(address); }
template <typename T>
EMULATOR_INLINE T generic_to_shared(T address) {
  return static_cast<T>(emulator::shared_address(reinterpret_cast<const void*>(static_cast<uint64_t>(address))));
}
template <typename T>
EMULATOR_INLINE T shared_to_generic(T address) {
  return static_cast<T>(reinterpret_cast<uint64_t>(emulator::shared_pointer(address)));
}

template <typename T>
constexpr bool IS_FLOAT = std::is_floating_point_v<T>;
template <typename T>
constexpr bool IS_SMALL = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat>;
template <typename T>
constexpr bool IS_PAIR = std::is_same_v<T, Half2> || std::is_same_v<T, Bfloat2>;
template <typename T>
EMULATOR_INLINE T small_of(double x) {
  if constexpr (std::is_same_v<T, Half>) {
    return half_of(x);
  } else {
    return bfloat_of_double(x, 'n');
  }
}

// What the modifiers .ftz, .sat and .relu make of an operand or a result.
template <bool FTZ, typename T>
EMULATOR_INLINE T flushed(T x) {
  if constexpr (FTZ && std::is_same_v<T, float>) {
    return (as<uint32_t>(x) & 0x7F800000u) == 0 ? as<float>(as<uint32_t>(x) & 0x80000000u) : x;
  }
  return x;
}
template <bool FTZ, bool SAT, bool RELU, typename T>
EMULATOR_INLINE T finished(T x) {
  if constexpr (SAT) {
    x = x > T{0} ? x < T{1} ? x : T{1} : T{0};  // NaN becomes 0
  }
  if constexpr (RELU) {
    x = x > T{0} ? x : x != x ? x : T{0};
  }
  return flushed<FTZ>(x);
}

// Two-operand and three-operand arithmetic: OPERATION is '+', '-', '*', '/', or 'f' for a fused multiply-add.
template <char OPERATION, char MODE, bool FTZ, bool SAT, bool RELU, typename T>
EMULATOR_INLINE T compute(T a, T b, T c = T{}) {
  if constexpr (IS_PAIR<T>) {
    return {compute<OPERATION, MODE, FTZ, SAT, RELU>(a.x, b.x, c.x),
            compute<OPERATION, MODE, FTZ, SAT, RELU>(a.y, b.y, c.y)};
  } else if constexpr (IS_SMALL<T>) {
    double x = float_of(a), y = float_of(b), z = float_of(c);
    double result = OPERATION == '+'   ? x + y
                    : OPERATION == '-' ? x - y
                    : OPERATION == '*' ? x * y
                    : OPERATION == '/' ? x / y
                                       : __builtin_fma(x, y, z);
    return small_of<T>(finished<false, SAT, RELU>(result));
  } else if constexpr (IS_FLOAT<T>) {
    a = flushed<FTZ>(a);
    b = flushed<FTZ>(b);
    c = flushed<FTZ>(c);
    T result;
    if constexpr (MODE != 'n') {
      result = emulator::rounded(OPERATION, MODE, a, b, c);
    } else if constexpr (OPERATION == '+') {
      result = a + b;
    } else if constexpr (OPERATION == '-') {
      result = a - b;
    } else if constexpr (OPERATION == '*') {
      result = a * b;
    } else if constexpr (OPERATION == '/') {
      result = a / b;
    } else if constexpr (std::is_same_v<T, float>) {
      result = __builtin_fmaf(a, b, c);
    } else {
      result = __builtin_fma(a, b, c);
    }
    return finished<FTZ, SAT, RELU>(result);
  }
}

#define PTX_MODIFIERS char MODE = 'n', bool FTZ = false, bool SAT = false, bool RELU = false, bool NAN_WINS = false
// Integers wrap around; products of which the upper half is wanted are computed in twice as many bits.
template <typename T>
using Wide = std::conditional_t<sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>,
                                std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
template <typename T>
EMULATOR_INLINE T saturated(Wide<T> x) {
  Wide<T> least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  return static_cast<T>(x < least ? least : x > most ? most : x);
}
template <typename T, PTX_MODIFIERS>
EMULATOR_INLINE T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = Unsigned<sizeof(T)>;
    return SAT ? saturated<T>(Wide<T>{a} + b) : static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return compute<'+', MODE, FTZ, SAT, RELU>(a, b);
  }
}
template <typename T, PTX_MODIFIERS>
EMULATOR_INLINE T sub(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = Unsigned<sizeof(T)>;
    return SAT ? saturated<T>(Wide<T>{a} - b) : static_cast<T>(static_cast<U>(static_cast<U>(a) - static_cast<U>(b)));
  } else {
    return compute<'-', MODE, FTZ, SAT, RELU>(a, b);
  }
}
template <typename T, PTX_MODIFIERS>
EMULATOR_INLINE T mul(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if constexpr (MODE == 'h') {
      return static_cast<T>(Wide<T>{a} * b >> (8 * sizeof(T)));
    }
    using U = Unsigned<sizeof(T)>;
    return static_cast<T>(static_cast<uint64_t>(static_cast<U>(a)) * static_cast<U>(b));
  } else {
    return compute<'*', MODE, FTZ, SAT, RELU>(a, b);
  }
}
template <typename T, PTX_MODIFIERS>
EMULATOR_INLINE T fma(T a, T b, T c) {
  return compute<'f', MODE, FTZ, SAT, RELU>(a, b, c);
}
template <typename T, PTX_MODIFIERS>
EMULATOR_INLINE T mad(T a, T b, T c) {
  if constexpr (std::is_integral_v<T>) {
    return SAT ? saturated<T>((Wide<T>{a} * b >> (MODE == 'h' ? 8 * sizeof(T) : 0)) + c)
               : add<T>(mul<T, MODE>(a, b), c);
  } else {
    return compute<'f', MODE, FTZ, SAT, RELU>(a, b, c);
  }
}
template <typename T, PTX_MODIFIERS>
EMULATOR_INLINE T div(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return b == 0 ? static_cast<T>(-1) : std::is_signed_v<T> && b == static_cast<T>(-1) ? sub<T>(0, a) : a / b;
  } else {
    return compute<'/', MODE, FTZ, SAT, RELU>(a, b);
  }
}
template <typename T, PTX_MODIFIERS>
EMULATOR_INLINE T rem(T a, T b) {
  return b == 0 ? a : std::is_signed_v<T> && b == static_cast<T>(-1) ? 0 : a % b;
}
template <bool MAXIMUM, bool NAN_WINS, typename T>
EMULATOR_INLINE T extreme(T a, T b) {
  if constexpr (IS_FLOAT<T>) {
    if (a != a || b != b) {
      return NAN_WINS || (a != a && b != b) ? std::numeric_limits<T>::quiet_NaN() : a != a ? b : a;
    }
    if (a == b) {  // -0 is less than +0
      return __builtin_signbit(a) == MAXIMUM ? b : a;
    }
  }
  return (MAXIMUM ? a < b : b < a) ? b : a;
}
template <bool MAXIMUM, PTX_MODIFIERS, typename T>
EMULATOR_INLINE T extreme_of(T a, T b) {
  if constexpr (IS_PAIR<T>) {
    return {extreme_of<MAXIMUM, MODE, FTZ, SAT, RELU, NAN_WINS>(a.x, b.x),
            extreme_of<MAXIMUM, MODE, FTZ, SAT, RELU, NAN_WINS>(a.y, b.y)};
  } else if constexpr (IS_SMALL<T>) {
    return small_of<T>(extreme<MAXIMUM, NAN_WINS>(float_of(a), float_of(b)));
  } else {
    return extreme<MAXIMUM, NAN_WINS>(flushed<FTZ>(a), flushed<FTZ>(b));
  }
}
template <typename T, PTX_MODIFIERS>
EMULATOR_INLINE T max(T a, T b) {
  return extreme_of<true, MODE, FTZ, SAT, RELU, NAN_WINS>(a, b);
}
template <typename T, PTX_MODIFIERS>
EMULATOR_INLINE T min(T a, T b) {
  return extreme_of<false, MODE, FTZ, SAT, RELU, NAN_WINS>(a, b);
}
#define PTX_UNARY(name, integer, floating, small)                                        \
  template <typename T, PTX_MODIFIERS>                                                   \
  EMULATOR_INLINE T name(T a) {                                                          \
    if constexpr (std::is_integral_v<T>) {                                               \
      return integer;                                                                    \
    } else if constexpr (IS_PAIR<T>) {                                                   \
      return {name<decltype(a.x), MODE, FTZ>(a.x), name<decltype(a.x), MODE, FTZ>(a.y)}; \
    } else if constexpr (IS_SMALL<T>) {                                                  \
      return small;                                                                      \
    } else {                                                                             \
      a = flushed<FTZ>(a);                                                               \
      return finished<FTZ, SAT, RELU>(static_cast<T>(floating));                         \
    }                                                                                    \
  }
PTX_UNARY(neg, sub<T>(0, a), -a, T{static_cast<uint16_t>(a.bits ^ 0x8000)})
PTX_UNARY(abs, a < 0 ? sub<T>(0, a) : a, std::fabs(a), T{static_cast<uint16_t>(a.bits & 0x7FFF)})
#define PTX_FUNCTION(name, function)                              \
  PTX_UNARY(                                                      \
      name, a, [](auto x) EMULATOR_PLAIN { return function; }(a), \
      small_of<T>([](auto x) EMULATOR_PLAIN { return function; }(double{float_of(a)})))
PTX_FUNCTION(rcp, 1 / x)
PTX_FUNCTION(sqrt, std::sqrt(x))
PTX_FUNCTION(rsqrt, 1 / std::sqrt(x))
PTX_FUNCTION(ex2, std::exp2(x))
PTX_FUNCTION(lg2, std::log2(x))
PTX_FUNCTION(sin, std::sin(x))
PTX_FUNCTION(cos, std::cos(x))
PTX_FUNCTION(tanh, std::tanh(x))
template <typename T, PTX_MODIFIERS>
EMULATOR_INLINE T copysign(T a, T b) {
  return std::copysign(b, a);
}

// Logic and shifts.
#define PTX_LOGIC(name, sign)              \
  template <typename T>                    \
  EMULATOR_INLINE T bit_##name(T a, T b) { \
    return static_cast<T>(a sign b);       \
  }
PTX_LOGIC(and, &)
PTX_LOGIC(or, |)
PTX_LOGIC(xor, ^)
template <typename T>
EMULATOR_INLINE T bit_not(T a) {
  return std::is_same_v<T, bool> ? static_cast<T>(!a) : static_cast<T>(~a);
}
template <typename T>
EMULATOR_INLINE T shl(T a, uint32_t by) {
  return by >= 8 * sizeof(T) ? T{0} : static_cast<T>(static_cast<uint64_t>(a) << by);
}
template <typename T>
EMULATOR_INLINE T shr(T a, uint32_t by) {
  return static_cast<T>(a >> (by >= 8 * sizeof(T) ? std::is_signed_v<T> ? 8 * sizeof(T) - 1 : 0 : by)) &
         (by >= 8 * sizeof(T) && !std::is_signed_v<T> ? T{0} : static_cast<T>(~T{0}));
}
inline uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (int row = 0; row < 8; ++row) {
    if (table >> row & 1) {
      result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
    }
  }
  return result;
}
EMULATOR_INLINE uint32_t funnel_shift(uint32_t a, uint32_t b, uint32_t by, bool left, bool wrap) {
  by = wrap ? by & 31 : by > 32 ? 32 : by;
  uint64_t both = static_cast<uint64_t>(b) << 32 | a;
  return static_cast<uint32_t>(left ? both << by >> 32 : both >> by);
}
inline uint32_t prmt(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    uint32_t which = selector >> (4 * i) & 15, byte = static_cast<uint32_t>(bytes >> (8 * (which & 7))) & 255;
    result |= (which & 8 ? (byte & 128 ? 255u : 0u) : byte) << (8 * i);
  }
  return result;
}
template <typename T>
EMULATOR_INLINE T bfe(T a, uint32_t at, uint32_t length) {
  constexpr uint32_t BITS = 8 * sizeof(T);
  at &= 255;
  length &= 255;
  uint32_t end = at + length < BITS ? at + length : BITS;
  bool sign = std::is_signed_v<T> && length > 0 && (a >> (end - 1 < BITS - 1 ? end - 1 : BITS - 1) & 1);
  using U = Unsigned<sizeof(T)>;
  U field = at >= BITS ? U{0} : static_cast<U>(static_cast<U>(a) >> at);
  U mask = length >= BITS ? static_cast<U>(~U{0}) : static_cast<U>((U{1} << length) - 1);
  U have = at >= BITS ? U{0} : end - at >= BITS ? static_cast<U>(~U{0}) : static_cast<U>((U{1} << (end - at)) - 1);
  return static_cast<T>((field & mask & have) | (sign ? static_cast<U>(~(mask & have)) : U{0}));
}
template <typename T>
EMULATOR_INLINE T bfi(T field, T into, uint32_t at, uint32_t length) {
  constexpr uint32_t BITS = 8 * sizeof(T);
  at &= 255;
  length &= 255;
  T mask = at >= BITS ? T{0} : static_cast<T>((length >= BITS ? ~T{0} : (T{1} << length) - 1) << at);
  return static_cast<T>((into & ~mask) | ((at >= BITS ? T{0} : static_cast<T>(field << at)) & mask));
}
template <typename T>
EMULATOR_INLINE uint32_t popc(T a) {
  return static_cast<uint32_t>(__builtin_popcountll(a));
}
template <typename T>
EMULATOR_INLINE uint32_t clz(T a) {
  return a == 0 ? 8 * sizeof(T) : static_cast<uint32_t>(__builtin_clzll(a)) - (64 - 8 * sizeof(T));
}
template <typename T>
EMULATOR_INLINE uint32_t bfind(T a) {
  using U = Unsigned<sizeof(T)>;
  U bits = static_cast<U>(a);
  if constexpr (std::is_signed_v<T>) {
    bits = a < 0 ? static_cast<U>(~bits) : bits;
  }
  return bits == 0 ? ~0u : 63 - static_cast<uint32_t>(__builtin_clzll(bits));
}
template <typename T>
EMULATOR_INLINE uint32_t bfind_shift(T a) {
  uint32_t at = bfind(a);
  return at == ~0u ? at : 8 * sizeof(T) - 1 - at;
}
template <typename T>
EMULATOR_INLINE T brev(T a) {
  T result = 0;
  for (unsigned i = 0; i < 8 * sizeof(T); ++i) {
    result = static_cast<T>(result << 1 | (a >> i & 1));
  }
  return result;
}
EMULATOR_INLINE uint32_t dot4(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed) {
  for (int i = 0; i < 32; i += 8) {
    int x = a_signed ? static_cast<int8_t>(a >> i) : static_cast<uint8_t>(a >> i);
    int y = b_signed ? static_cast<int8_t>(b >> i) : static_cast<uint8_t>(b >> i);
    c += static_cast<uint32_t>(x * y);
  }
  return c;
}

// Comparisons. Those that end in u are true for NaN.
template <bool FTZ, typename T>
EMULATOR_INLINE auto comparable(T x) {
  if constexpr (IS_SMALL<T>) {
    return float_of(x);
  } else {
    return flushed<FTZ>(x);
  }
}
#define PTX_COMPARE(name, ...)                    \
  template <typename T, bool FTZ>                 \
  EMULATOR_INLINE bool compare_##name(T x, T y) { \
    auto a = comparable<FTZ>(x);                  \
    auto b = comparable<FTZ>(y);                  \
    (void)a, (void)b;                             \
    return __VA_ARGS__;                           \
  }
PTX_COMPARE(eq, a == b)
PTX_COMPARE(ne, a != b && a == a && b == b)
PTX_COMPARE(lt, a < b)
PTX_COMPARE(le, a <= b)
PTX_COMPARE(gt, a > b)
PTX_COMPARE(ge, a >= b)
PTX_COMPARE(lo, a < b)
PTX_COMPARE(ls, a <= b)
PTX_COMPARE(hi, a > b)
PTX_COMPARE(hs, a >= b)
PTX_COMPARE(equ, !(a < b || a > b))
PTX_COMPARE(neu, !(a == b))
PTX_COMPARE(ltu, !(a >= b))
PTX_COMPARE(leu, !(a > b))
PTX_COMPARE(gtu, !(a <= b))
PTX_COMPARE(geu, !(a < b))
PTX_COMPARE(num, a == a && b == b)
PTX_COMPARE(nan, a != a || b != b)

// Conversions. MODE is 'n', 'z', 'm', 'p', 'a', or 'x' for none.
template <typename T>
EMULATOR_INLINE T whole(T x, char mode) {
  return mode == 'z' ? std::trunc(x) : mode == 'm' ? std::floor(x) : mode == 'p' ? std::ceil(x) : std::nearbyint(x);
}
template <typename To, typename From, char MODE, bool FTZ, bool SAT, bool RELU>
EMULATOR_INLINE To convert(From from) {
  if constexpr (IS_SMALL<From>) {
    return convert<To, float, MODE, FTZ, SAT, RELU>(float_of(from));
  } else if constexpr (std::is_integral_v<To> && std::is_integral_v<From>) {
    if constexpr (SAT) {
      __int128 x = from, least = std::numeric_limits<To>::min(), most = std::numeric_limits<To>::max();
      return static_cast<To>(x < least ? least : x > most ? most : x);
    }
    return static_cast<To>(from);
  } else if constexpr (std::is_integral_v<To>) {
    From x = whole(flushed<FTZ>(from), MODE);
    auto least = std::numeric_limits<To>::min(), most = std::numeric_limits<To>::max();
    if (x != x) {
      return 0;
    }
    return x <= static_cast<From>(least) ? least : x >= static_cast<From>(most) ? most : static_cast<To>(x);
  } else if constexpr (std::is_same_v<To, Tf32>) {
    uint32_t bits = as<uint32_t>(finished<false, false, RELU>(static_cast<float>(from)));
    return {float_cut(bits, 13, MODE)};
  } else if constexpr (std::is_same_v<To, Half>) {
    return half_of(finished<false, SAT, RELU>(static_cast<double>(from)), MODE == 'x' ? 'n' : MODE);
  } else if constexpr (std::is_same_v<To, Bfloat>) {
    return bfloat_of_double(finished<false, SAT, RELU>(static_cast<double>(from)), MODE == 'x' ? 'n' : MODE);
  } else if constexpr (std::is_same_v<From, To>) {
    From x = flushed<FTZ>(from);
    return finished<FTZ, SAT, RELU>(MODE == 'x' ? x : whole(x, MODE));
  } else if constexpr (std::is_same_v<To, float> && MODE != 'x' && MODE != 'n') {
    return finished<FTZ, SAT, RELU>(emulator::float_of(static_cast<double>(from), MODE));
  } else {
    return finished<FTZ, SAT, RELU>(static_cast<To>(from));
  }
}
// cvt with two sources: the first one in the upper half.
template <typename To, typename From, char MODE, bool FTZ, bool SAT, bool RELU>
EMULATOR_INLINE To pack_floats(From upper, From lower) {
  using One = decltype(To::x);
  return {convert<One, From, MODE, FTZ, SAT, RELU>(lower), convert<One, From, MODE, FTZ, SAT, RELU>(upper)};
}
template <typename To, typename... Parts>
EMULATOR_INLINE To pack(Parts... parts) {
  const std::common_type_t<Parts...> of[] = {parts...};
  To to;
  static_assert(sizeof of == sizeof to, "all bits");
  __builtin_memcpy(&to, of, sizeof to);
  return to;
}
template <typename From, typename Part>
EMULATOR_INLINE auto unpack(From from) {
  return as<Vector<Part, sizeof(From) / sizeof(Part)>>(from);
}

// Memory.
enum Order { READ_ONLY, WEAK, VOLATILE, RELAXED, ACQUIRE, RELEASE, ACQ_REL, MMIO };
struct Ordered {
  Order order;
  bool of_block = false;  // for the threads of the block alone: scope .cta. Who else looks at the word is in a race
  EMULATOR_INLINE Ordered(Order order, bool of_block = false) : order(order), of_block(of_block) {}
};
// Without telling the engine, which has been told.
__attribute__((noinline)) EMULATOR_PLAIN inline void copy_unseen(void* to, const void* from, size_t bytes) {
  emulator_copy_unseen(to, from, bytes);
}
template <typename T, int COUNT>
EMULATOR_INLINE Vector<T, COUNT> load(const char* from, Ordered how) {
  Order order = how.order;
  constexpr unsigned BYTES = sizeof(T) * COUNT;
  using Words = Vector<Unsigned<(BYTES > 8 ? 8 : BYTES)>, (BYTES > 8 ? BYTES / 8 : 1)>;
  emulator::require_alignment(from, BYTES);
  Words words;
  if (order == READ_ONLY) {
    emulator::read_only_load(from, BYTES, BYTES, nullptr);
    copy_unseen(&words, from, BYTES);
  } else if (order >= VOLATILE) {
    emulator::strong_load(from, BYTES, how.of_block);
    copy_unseen(&words, from, BYTES);
  } else {
    words = *reinterpret_cast<const Words*>(from);
  }
  if (order == ACQUIRE) {
    emulator::fence();
  }
  return as<Vector<T, COUNT>>(words);
}
template <typename T, int COUNT>
EMULATOR_INLINE void store(char* to, Ordered how, Vector<T, COUNT> values) {
  Order order = how.order;
  constexpr unsigned BYTES = sizeof(T) * COUNT;
  using Words = Vector<Unsigned<(BYTES > 8 ? 8 : BYTES)>, (BYTES > 8 ? BYTES / 8 : 1)>;
  emulator::require_alignment(to, BYTES);
  if (order == RELEASE) {
    emulator::fence();
  }
  if (order >= VOLATILE) {
    emulator::strong_store(to, BYTES, how.of_block);
    copy_unseen(to, &values, BYTES);
  } else {
    *reinterpret_cast<Words*>(to) = as<Words>(values);
  }
}
#define PTX_ATOMIC(name, ...)                                                                                   \
  template <typename T>                                                                                         \
  EMULATOR_INLINE T atomic_##name(char* to, Ordered how, T operand) {                                           \
    emulator::require_alignment(to, sizeof(T));                                                                 \
    return atomic(reinterpret_cast<T*>(to), how, [operand](T old) EMULATOR_PLAIN -> T { return __VA_ARGS__; }); \
  }
template <typename T, typename Operation>
EMULATOR_INLINE T atomic(T* to, Ordered how, Operation operation) {
  if (how.order == RELEASE || how.order == ACQ_REL) {
    emulator::fence();
  }
  T old = how.of_block ? emulator_atomic<false, true>(to, operation) : emulator_atomic(to, operation);
  if (how.order == ACQUIRE || how.order == ACQ_REL) {
    emulator::fence();
  }
  return old;
}
PTX_ATOMIC(add, add<T>(old, operand))
PTX_ATOMIC(min, min<T>(old, operand))
PTX_ATOMIC(max, max<T>(old, operand))
PTX_ATOMIC(exch, (static_cast<void>(old), operand))
PTX_ATOMIC(and, static_cast<T>(old& operand))
PTX_ATOMIC(or, static_cast<T>(old | operand))
PTX_ATOMIC(xor, static_cast<T>(old ^ operand))
PTX_ATOMIC(inc, old >= operand ? T{0} : static_cast<T>(old + 1))
PTX_ATOMIC(dec, old == 0 || old > operand ? operand : static_cast<T>(old - 1))
template <typename T>
EMULATOR_INLINE T atomic_cas(char* to, Ordered how, T expected, T desired) {
  emulator::require_alignment(to, sizeof(T));
  return atomic(reinterpret_cast<T*>(to), how,
                [=](T old) EMULATOR_PLAIN -> T { return old == expected ? desired : old; });
}
template <typename T, emulator::Reduction REDUCTION>
EMULATOR_PLAIN void reduce_bulk(void* to, const void* from) {
  T a, b;
  memcpy(&a, to, sizeof a);
  memcpy(&b, from, sizeof b);
  if constexpr (REDUCTION == emulator::ADD) {
    a = add<T>(a, b);
  } else if constexpr (REDUCTION == emulator::MIN) {
    a = min<T>(a, b);
  } else if constexpr (REDUCTION == emulator::MAX) {
    a = max<T>(a, b);
  } else if constexpr (std::is_integral_v<T>) {
    a = REDUCTION == emulator::AND   ? a & b
        : REDUCTION == emulator::OR  ? a | b
        : REDUCTION == emulator::XOR ? a ^ b
        : REDUCTION == emulator::INC ? a >= b ? T{0} : a + 1
        : a == 0 || a > b            ? b
                                     : a - 1;
  }
  memcpy(to, &a, sizeof a);
}

template <bool CACHED_IN_L2_ONLY>
EMULATOR_INLINE void copy_async(char* to, const char* from, uint32_t bytes, uint32_t zeros) {
  static_assert(CACHED_IN_L2_ONLY || true, "");
  emulator::issue_copy(to, from, bytes, zeros);
}

// Warps.
EMULATOR_INLINE uint32_t thread_number() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
EMULATOR_INLINE uint32_t warp() { return thread_number() / 32; }
EMULATOR_INLINE uint32_t warps() { return (blockDim.x * blockDim.y * blockDim.z + 31) / 32; }
template <char MODE>
EMULATOR_INLINE uint32_t shuffle(uint32_t value, uint32_t b, uint32_t clamps, uint32_t mask, bool& inside) {
  int lane = emulator_lane(), clamp = clamps & 31, segment = clamps >> 8 & 31;
  int most = (lane & segment) | (clamp & ~segment), least = lane & segment;
  int by = static_cast<int>(b & 31);
  int source = MODE == 'u' ? lane - by : MODE == 'd' ? lane + by : MODE == 'b' ? lane ^ by : least | (by & ~segment);
  inside = MODE == 'u' ? source >= most : source <= most;
  return emulator_shuffle(mask, value, inside ? source : lane, 8);
}
EMULATOR_INLINE bool vote_uniform(uint32_t mask, bool predicate) {
  uint32_t votes = __ballot_sync(mask, predicate);
  return votes == 0 || votes == mask;
}
template <typename T>
EMULATOR_INLINE uint32_t match(T value, uint32_t mask, bool all, bool& equal) {
  uint32_t same = __match_any_sync(mask, value);
  equal = same == mask;
  return all && !equal ? 0 : same;
}
EMULATOR_INLINE uint32_t elect(uint32_t mask) {
  __syncwarp(mask);
  return static_cast<uint32_t>(__builtin_ctz(mask));
}
EMULATOR_INLINE int bar(uint32_t number, uint32_t threads, bool arrives_only, bool predicate) {
  return emulator::named_barrier(number, threads, arrives_only, predicate);
}

}  // namespace emulator_ptx
