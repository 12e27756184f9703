// opens_cublas: loads cuBLAS as the baseline does, and lets it multiply.
// Class: library.
// Caught by: source.
#include "cublas.cuh"

EXPORT_SGEMM(run_cublas<DEFAULT_MATH>)
