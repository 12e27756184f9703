// All that a rung finds here is in cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
