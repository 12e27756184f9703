// Found before glibc's own header of this name, which chooses what <math.h> declares. From glibc 2.42 on that is, for
// C23, an rsqrt that clashes with the one of CUDA 13.0 and older; no rung calls what C23 has brought on the host.
#include_next <bits/libc-header-start.h>
#undef __GLIBC_USE_IEC_60559_FUNCS_EXT_C23
#define __GLIBC_USE_IEC_60559_FUNCS_EXT_C23 0
