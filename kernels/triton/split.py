"""The product of one tile with FP32 accuracy, on tensor cores where the sums are long."""

import triton
import triton.language as tl
from tiles import product_of_tile

INFINITY = tl.constexpr(float("inf"))
SHORT = tl.constexpr(16)  # steps of a sum: of fewer than 5, FP32 allows less than splitting loses; the rest is margin


@triton.jit
def split_product_of_tile(
    A, B, m, n, k, lda, ldb, row, col,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """`product_of_tile` from three TF32 products (Triton's "tf32x3"), and of short sums from FP32 multiply-adds.

    A TF32 part has 11 bits, so two hold 22 of a number's 24: a product loses up to 2^-21 of its size. FP32 may lose
    (k + 3) 2^-24. The largest numbers round to infinite parts, so sums that are not finite are computed again in FP32.
    """
    if k < SHORT:
        total = fp32_product_of_tile(A, B, m, n, k, lda, ldb, row, col, BM, BN)
    else:
        total = product_of_tile(A, B, m, n, k, lda, ldb, row, col, BM, BN, BK, "tf32x3")
        finite = tl.abs(total) < INFINITY
        if tl.min(finite.to(tl.int32)) == 0:
            again = fp32_product_of_tile(A, B, m, n, k, lda, ldb, row, col, BM, BN)
            total = tl.where(finite, total, again)
    return total


@triton.jit
def fp32_product_of_tile(A, B, m, n, k, lda, ldb, row, col, BM: tl.constexpr, BN: tl.constexpr):
    """The tile of A . B that begins at row * BM and col * BN, a column of A times a row of B at a time."""
    rows = row * BM + tl.arange(0, BM)
    cols = col * BN + tl.arange(0, BN)
    a = A + rows.to(tl.int64) * lda
    b = B + cols
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(k):
        column = tl.load(a, mask=rows < m, other=0.0)
        line = tl.load(b, mask=cols < n, other=0.0)
        total += column[:, None] * line[None, :]
        a += 1
        b += ldb
    return total
