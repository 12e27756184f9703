"""FP32 accuracy on tensor cores: Triton splits each number into two TF32 parts and adds three products ("tf32x3").

The kernel is that of tiled.py with another product. Sums of few steps are computed in FP32.
"""

import triton
import triton.language as tl
from split import split_product_of_tile
from tiles import store_tile, tile_of


@triton.jit
def gemm(
    A, B, C, m, n, k, lda, ldb, ldc, alpha, beta,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    row, col = tile_of(tl.program_id(0), m, n, BM, BN, GROUP)
    total = split_product_of_tile(A, B, m, n, k, lda, ldb, row, col, BM, BN, BK)
    store_tile(C, ldc, m, n, alpha, beta, total, row, col, BM, BN)
