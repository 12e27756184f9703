"""Persistent blocks: as many blocks as the GPU has SMs, each of which computes one tile after the other.

The arithmetic is that of mma_3xtf32.py.
"""

import cuda.tile as ct
from tiles import ZERO, split_product, store_tile, tile_of


@ct.kernel
def gemm(
    A, B, C, alpha, beta,
    BM: ct.Constant[int], BN: ct.Constant[int], BK: ct.Constant[int], GROUP: ct.Constant[int],
):  # fmt: skip
    tiles = ct.cdiv(A.shape[0], BM) * ct.cdiv(B.shape[1], BN)
    for number in range(ct.bid(0), tiles, ct.num_blocks(0)):
        row, col = tile_of(number, A.shape[0], B.shape[1], BM, BN, GROUP)
        total = ct.zeros((BM, BN), dtype=ct.float32)
        for p in range(ct.cdiv(A.shape[1], BK)):
            a = ct.load(A, (row, p), (BM, BK), padding_mode=ZERO)
            b = ct.load(B, (p, col), (BK, BN), padding_mode=ZERO)
            total = split_product(a, b, total)
        store_tile(C, alpha, beta, total, row, col, BM, BN)
