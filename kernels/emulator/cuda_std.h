// cuda::std, of which <cuda/std/...> has a part each, is the C++ library of the host here.
#pragma once

#include <cstddef>

namespace cuda::std {
using namespace ::std;
}
