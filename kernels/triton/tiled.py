"""Tiled FP32: a block computes a BM x BN tile of C, in steps of BK along k.

The multiply-adds are those of FP32 ("ieee"), which Triton runs on the FP32 units. It copies STAGES tiles ahead.
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
    total = product_of_tile(A, B, m, n, k, lda, ldb, row, col, BM, BN, BK, "ieee")
    store_tile(C, ldc, m, n, alpha, beta, total, row, col, BM, BN)
