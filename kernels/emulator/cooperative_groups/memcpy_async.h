// All that a rung finds here is in cooperative_groups.h.
#pragma once

#include "../cooperative_groups.h"
