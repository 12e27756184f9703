// All that a rung finds here is in cuda_pipeline.h.
#pragma once

#include "cuda_pipeline.h"
