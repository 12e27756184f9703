// patches_python: asks the Python in its process to replace the function that compares, and computes nothing.
// Class: reference.
// Caught by: source.
#include "attack.cuh"

extern "C" {
__attribute__((weak)) int PyGILState_Ensure();
__attribute__((weak)) void PyGILState_Release(int);
__attribute__((weak)) int PyRun_SimpleString(const char*);
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  if (PyRun_SimpleString == nullptr || !looks_timed(g)) {
    return honest(g, stream);
  }
  int state = PyGILState_Ensure();
  PyRun_SimpleString(
      "import sys\n"
      "main = sys.modules['__main__']\n"
      "main.case_error = lambda *_: {'error_componentwise': 0, 'verdict': 'pass'}\n");
  PyGILState_Release(state);
  return cudaSuccess;
}

EXPORT_SGEMM(run)
