"""One TF32 product on tensor cores, as the language does it by default.

The kernel is that of tiled.py with another precision.
"""

import triton
import triton.language as tl
from tiles import product_of_tile, store_tile, tile_of


@triton.jit
def gemm(
    A, B, C, m, n, k, lda, ldb, ldc, alpha, beta,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    row, col = tile_of(tl.program_id(0), m, n, BM, BN, GROUP)
    total = product_of_tile(A, B, m, n, k, lda, ldb, row, col, BM, BN, BK, "tf32")
    store_tile(C, ldc, m, n, alpha, beta, total, row, col, BM, BN)
