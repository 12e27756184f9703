"""Persistent blocks: as many blocks as the GPU has SMs, each of which computes one tile after the other.

The arithmetic is that of mma_3xtf32.py. Bulk copies (TMA) take descriptors, for which Triton needs memory of its own at
run time. A rung has none, so the copies stay those of mma_3xtf32.py.
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
    tiles = tl.cdiv(m, BM) * tl.cdiv(n, BN)
    for number in range(tl.program_id(0), tiles, tl.num_programs(0)):
        row, col = tile_of(number, m, n, BM, BN, GROUP)
        total = split_product_of_tile(A, B, m, n, k, lda, ldb, row, col, BM, BN, BK)
        store_tile(C, ldc, m, n, alpha, beta, total, row, col, BM, BN)
