// What a generated wrapper (workflow/ladder/config/wrapper.py) hands to a kernel or function of another contract.
//
// It is included inside namespace gemm_ladder, behind gemm.cuh, so that no name of the wrapped source meets ours.
#pragma once

// A pointer of the contract as a pointer to whatever the parameter points to.
struct Pointer {
  const void* address;

  template <typename T>
  operator T*() const {
    return static_cast<T*>(const_cast<void*>(address));
  }
};

// alpha or beta as a number, or as the pointer to one that BLAS interfaces take.
struct Scalar {
  float value;

  operator float() const { return value; }
  operator const float*() const { return &value; }
};

constexpr int64_t ceil_quotient(int64_t a, int64_t b) { return a / b + (a % b != 0); }

inline dim3 extent(int64_t x, int64_t y = 1, int64_t z = 1) {
  return dim3(static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z));
}
