"""FP32 accuracy on tensor cores: the kernel splits each number into two TF32 parts and adds three products.

Sums of few steps are computed in FP32.
"""

import cuda.tile as ct
from split import split_product_of_tile
from tiles import store_tile, tile_of


@ct.kernel
def gemm(
    A, B, C, alpha, beta,
    BM: ct.Constant[int], BN: ct.Constant[int], BK: ct.Constant[int], GROUP: ct.Constant[int],
):  # fmt: skip
    row, col = tile_of(ct.bid(0), A.shape[0], B.shape[1], BM, BN, GROUP)
    store_tile(C, alpha, beta, split_product_of_tile(A, B, row, col, BM, BN, BK), row, col, BM, BN)
