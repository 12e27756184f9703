"""Tiled FP32: a block computes a BM x BN tile of C, in steps of BK along k.

Threads, shared memory and copies are the compiler's choice. Outside A and B it loads zeros.
"""

import cuda.tile as ct
from tiles import ZERO, store_tile, tile_of


@ct.kernel
def gemm(
    A, B, C, alpha, beta,
    BM: ct.Constant[int], BN: ct.Constant[int], BK: ct.Constant[int], GROUP: ct.Constant[int],
):  # fmt: skip
    row, col = tile_of(ct.bid(0), A.shape[0], B.shape[1], BM, BN, GROUP)
    total = ct.zeros((BM, BN), dtype=ct.float32)
    for p in range(ct.cdiv(A.shape[1], BK)):
        a = ct.load(A, (row, p), (BM, BK), padding_mode=ZERO)
        b = ct.load(B, (p, col), (BK, BN), padding_mode=ZERO)
        total = ct.mma(a, b, total)
    store_tile(C, alpha, beta, total, row, col, BM, BN)
