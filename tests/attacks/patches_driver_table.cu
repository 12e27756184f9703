// patches_driver_table: replaces the pointer to cuEventElapsedTime in the timer's table by a function that takes off a fifth.
// Class: timer.
// Caught by: runtime, no gain.
//
// No code page and no import of a library changes: the runtime keeps the driver's functions in ordinary data.
#include <cinttypes>
#include <cstdio>
#include <sstream>

#include "attack.cuh"

using Elapsed = int (*)(float*, cudaEvent_t, cudaEvent_t);
uintptr_t hidden[2];  // the functions, inverted: their own pointers are not to be replaced

template <int VERSION>
int four_fifths(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  int error = reinterpret_cast<Elapsed>(~hidden[VERSION])(milliseconds, begin, end);
  *milliseconds *= 0.8f;
  return error;
}

void patch() {
  unsigned versions[] = {12000, 12080};
  for (int i = 0; i < 2; ++i) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    cudaGetDriverEntryPointByVersion("cuEventElapsedTime", &function, versions[i], cudaEnableDefault, &found);
    hidden[i] = ~reinterpret_cast<uintptr_t>(function);
  }
  std::istringstream maps(contents("/proc/self/maps"));
  bool timers = false;  // the zeroed data of a library is mapped behind it and has no name
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    char access[5] = {};
    std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s", &begin, &end, access);
    timers = line.find("libnvbench.so") != std::string::npos || (timers && line.find('/') == std::string::npos);
    if (!timers || std::string(access) != "rw-p" || line.find('[') != std::string::npos) {
      continue;
    }
    for (uintptr_t* word = reinterpret_cast<uintptr_t*>(begin); word < reinterpret_cast<uintptr_t*>(end); ++word) {
      if (*word != 0 && *word == ~hidden[1]) {
        *word = reinterpret_cast<uintptr_t>(four_fifths<1>);
      } else if (*word != 0 && *word == ~hidden[0]) {
        *word = reinterpret_cast<uintptr_t>(four_fifths<0>);
      }
    }
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool patched = false;
  if (under_timing(g) && !patched) {
    patched = true;
    patch();
  }
  return honest(g, stream);
}

EXPORT_SGEMM(run)
