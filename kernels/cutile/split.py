"""The product of one tile with FP32 accuracy, on tensor cores where the sums are long."""

import cuda.tile as ct
from tiles import ZERO

INFINITY = float("inf")
SHORT = 16  # steps of a sum: of fewer than 5, FP32 allows less than splitting loses; the rest is margin


@ct.function
def split_product_of_tile(A, B, row, col, BM, BN, BK):
    """The tile of A . B from three TF32 products, and of short sums from FP32 multiply-adds.

    A TF32 part has 11 bits, so two hold 22 of a number's 24: a product loses up to 2^-21 of its size. FP32 may lose
    (k + 3) 2^-24.
    """
    total = ct.zeros((BM, BN), dtype=ct.float32)
    if A.shape[1] < SHORT:
        for p in range(A.shape[1]):
            column = ct.load(A, (row, p), (BM, 1), padding_mode=ZERO)
            line = ct.load(B, (p, col), (1, BN), padding_mode=ZERO)
            total = total + column * line
    else:
        for p in range(ct.cdiv(A.shape[1], BK)):
            a = ct.load(A, (row, p), (BM, BK), padding_mode=ZERO)
            b = ct.load(B, (p, col), (BK, BN), padding_mode=ZERO)
            total = split_product(a, b, total)
    return total


@ct.function
def split_product(a, b, total):
    """total + a . b, each number as the sum of two TF32 numbers: three products, of which the smallest come first.

    They meet in FP32, where an addition rounds; the tensor cores' truncates. Where an operand is infinite or NaN, the
    two small products are no numbers: they count as zero, and the large one has the result.
    """
    a_high, b_high = high_part(a), high_part(b)
    a_low = ct.astype(a - a_high, ct.tfloat32)
    b_low = ct.astype(b - b_high, ct.tfloat32)
    a_high, b_high = ct.astype(a_high, ct.tfloat32), ct.astype(b_high, ct.tfloat32)
    small = ct.mma(a_low, b_high, ct.zeros(total.shape, dtype=ct.float32))
    small = ct.mma(a_high, b_low, small)
    small = ct.where(ct.abs(small) < INFINITY, small, 0.0)
    return total + ct.mma(a_high, b_high, small)


@ct.function
def high_part(x):
    """The upper 11 bits of each number: rounded to the nearest, the largest floats would become infinite."""
    return ct.where(ct.isnan(x), x, ct.bitcast(ct.bitcast(x, ct.int32) & -8192, ct.float32))
