"""What the rungs in Triton share: the order of tiles, the product of one tile, and its store."""

import triton
import triton.language as tl


@triton.jit
def tile_of(number, m, n, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """The row and the column of tiles: numbered down the columns of GROUP rows, which share B in the L2 cache."""
    tiles_n = tl.cdiv(n, BN)
    first = number // (GROUP * tiles_n) * GROUP
    height = min(tl.cdiv(m, BM) - first, GROUP)
    index = number % (GROUP * tiles_n)
    return first + index % height, index // height


@triton.jit
def product_of_tile(
    A, B, m, n, k, lda, ldb, row, col,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The tile of A . B that begins at row * BM and col * BN; zeros stand for what lies outside A and B."""
    rows = row * BM + tl.arange(0, BM)
    cols = col * BN + tl.arange(0, BN)
    steps = tl.arange(0, BK)
    a = A + rows.to(tl.int64)[:, None] * lda + steps[None, :]
    b = B + steps.to(tl.int64)[:, None] * ldb + cols[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for p in range(0, k, BK):
        tile_a = tl.load(a, mask=(rows[:, None] < m) & (p + steps[None, :] < k), other=0.0)
        tile_b = tl.load(b, mask=(p + steps[:, None] < k) & (cols[None, :] < n), other=0.0)
        total = tl.dot(tile_a, tile_b, total, input_precision=PRECISION)
        a += BK
        b += BK * ldb
    return total


@triton.jit
def store_tile(C, ldc, m, n, alpha, beta, total, row, col, BM: tl.constexpr, BN: tl.constexpr):
    """C = alpha * total + beta * C inside the matrix, without reading C at beta = 0."""
    rows = row * BM + tl.arange(0, BM)
    cols = col * BN + tl.arange(0, BN)
    c = C + rows.to(tl.int64)[:, None] * ldc + cols[None, :]
    inside = (rows[:, None] < m) & (cols[None, :] < n)
    total = alpha * total
    if beta != 0.0:
        total += beta * tl.load(c, mask=inside, other=0.0)
    tl.store(c, total, mask=inside)
