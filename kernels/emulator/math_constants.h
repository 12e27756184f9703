// Constants of <math_constants.h> that a product may need (CUDA Math API).
#pragma once

#include "cuda_runtime.h"

#define CUDART_INF_F __int_as_float(0x7F800000)
#define CUDART_NAN_F __int_as_float(0x7FFFFFFF)
#define CUDART_MIN_DENORM_F __int_as_float(0x00000001)
#define CUDART_MAX_NORMAL_F __int_as_float(0x7F7FFFFF)
#define CUDART_NEG_ZERO_F __int_as_float(0x80000000)
#define CUDART_ZERO_F 0.0f
#define CUDART_ONE_F 1.0f
#define CUDART_INF __longlong_as_double(0x7FF0000000000000)
#define CUDART_NAN __longlong_as_double(0xFFF8000000000000)
