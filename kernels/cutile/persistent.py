"""Persistent blocks: as many blocks as the GPU has SMs, each of which computes one tile after the other.

The arithmetic is that of mma_3xtf32.py.
"""

import cuda.tile as ct
from split import split_product_of_tile
from tiles import store_tile, tile_of


@ct.kernel
def gemm(
    A, B, C, alpha, beta,
    BM: ct.Constant[int], BN: ct.Constant[int], BK: ct.Constant[int], GROUP: ct.Constant[int],
):  # fmt: skip
    tiles = ct.cdiv(A.shape[0], BM) * ct.cdiv(B.shape[1], BN)
    for number in range(ct.bid(0), tiles, ct.num_blocks(0)):
        row, col = tile_of(number, A.shape[0], B.shape[1], BM, BN, GROUP)
        store_tile(C, alpha, beta, split_product_of_tile(A, B, row, col, BM, BN, BK), row, col, BM, BN)
