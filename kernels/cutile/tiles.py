"""What the rungs in cuTile share: the order of tiles, and the store of one."""

import cuda.tile as ct

ZERO = ct.PaddingMode.ZERO


@ct.function
def tile_of(number, m, n, BM, BN, GROUP):
    """The row and the column of tiles: numbered down the columns of GROUP rows, which share B in the L2 cache."""
    tiles_n = ct.cdiv(n, BN)
    first = number // (GROUP * tiles_n) * GROUP
    height = min(ct.cdiv(m, BM) - first, GROUP)
    index = number % (GROUP * tiles_n)
    return first + index % height, index // height


@ct.function
def store_tile(C, alpha, beta, total, row, col, BM, BN):
    """C = alpha * total + beta * C inside the matrix, without reading C at beta = 0."""
    total = alpha * total
    if beta != 0.0:
        total = total + beta * ct.load(C, (row, col), (BM, BN), padding_mode=ZERO)
    ct.store(C, (row, col), total)
