"""How large the error of a product may be: bounds that follow from the arithmetic that a rung declares, its precision.

u = 2**-24 is the unit roundoff of IEEE binary32, gamma(n) = n u / (1 - n u) where n u < 1/2. docs/checking.md derives
the bounds.

`fp32` is arithmetic in binary32. `tf32` is that of tensor cores: A and B lose all but 10 bits of their fraction, their
products are exact, sums are truncated. M. Fasi, N. J. Higham, M. Mikaitis, S. Pranesh, Numerical behavior of NVIDIA
tensor cores, PeerJ Computer Science 7:e330, 2021.
"""

from __future__ import annotations

import math
from typing import Any

UNIT_ROUNDOFF = 2.0**-24  # of IEEE binary32, round to nearest
FALSE_ALARM = 1e-9  # with which probability the statistical test may blame a right product
# The largest error of one operation whose result underflows: half the smallest subnormal, or all of what is flushed.
UNDERFLOW = {"gradual": 2.0**-150, "flushed": 2.0**-126}
# What is lost of an element of A or B on its way into a product: relative, and absolute where it is subnormal.
OPERAND_ERROR = {"fp32": (0.0, 0.0), "tf32": (2.0**-10, 2.0**-136)}


def componentwise_bound(k: int, precision: str = "fp32") -> float:
    """gamma(k + 3): the largest |error| of an element, divided by its |alpha| |A| |B| + |beta| |C|.

    Holds for a sum of k products in any order, with or without fused multiply-adds, for alpha applied to the sum or to
    an operand, and for the addition of beta C: no term passes through more than k + 3 roundings.
    N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM 2002, lemma 3.1 and section 3.5.
    From n u = 1/2 on, gamma(n) is (1 + u)^n - 1 instead: n roundings cause no larger error, and n u / (1 - n u) is
    infinite at n u = 1 and negative beyond.

    Of `tf32`, (1 + e)^2 (1 + gamma(4k + 6)) - 1 with e = 2^-10, the error of an operand.
    """
    lost, _ = OPERAND_ERROR[precision]
    n = _roundings(k, precision)
    linear = n * UNIT_ROUNDOFF
    gamma = linear / (1 - linear) if linear < 0.5 else math.expm1(n * math.log1p(UNIT_ROUNDOFF))
    return gamma if lost == 0 else (1 + lost) ** 2 * (1 + gamma) - 1


def _roundings(k: int, precision: str) -> int:
    """How many errors of one unit roundoff a term of a sum of k products goes through, and those after the sum.

    A tensor core adds some terms at a time to the sum and truncates each of them to the largest one's last place, two
    units: at most two such errors for each term and each step, of which there are no more than terms.
    """
    return k + 3 if precision == "fp32" else 2 * (2 * k + 3)


def underflow_bound(
    k: int,
    alpha: float,
    beta: float,
    largest_A: float,
    largest_B: float,
    subnormals: str,
    precision: str = "fp32",
) -> float:
    """What underflow may add to an element's error, absolute; `subnormals` is `gradual` (IEEE 754) or `flushed`.

    With gradual underflow a product may be off by half the smallest subnormal more, and a sum is exact there: Higham,
    as above, equation (2.8) and its discussion. There are k products, amplified by what they are multiplied with
    afterwards, and those with alpha and beta. Flushing adds the same for each sum and each operand.
    """
    amplified = max(1.0, abs(alpha), largest_A, largest_B)
    operations = k * (1 if abs(alpha) == 1 else 2) + 2  # alpha may be multiplied with each element of A
    of_operands = k * max(1.0, abs(alpha)) * (largest_A + largest_B)
    if subnormals == "flushed":
        operations = 3 * k + 3 + abs(beta) + of_operands
    lost = OPERAND_ERROR[precision][1] * of_operands
    return (UNDERFLOW[subnormals] * operations * amplified + lost) * (1 + componentwise_bound(k, precision))


def statistical_bound(k: int, columns: Any, precision: str = "fp32", tests: int = 1) -> Any:
    """The largest Euclidean norm of the errors of an FP32 product, divided by the root of the sum of its squared terms.

    u sqrt((k + 3) t(1) t(columns)), t(n) = 1 + 2 sqrt(x / n) + 2 x / n, x = ln(2 / p): exceeded with a probability of
    at most p, if rounding errors are independent with mean zero and the signs of the inputs are random. `columns` is
    the sum of the squared terms over the largest part that one column has of it. Of a row of C it is their sum over
    the largest part that one element has; of a column the same. p is FALSE_ALARM, divided among so many `tests`.
    `columns` may be an array, of as many bounds.

    The model and the use of Hoeffding's inequality: N. J. Higham and T. Mary, A New Approach to Probabilistic Rounding
    Error Analysis, SIAM J. Sci. Comput. 41(5), 2019; with random data: the same, Sharper Probabilistic Backward Error
    Analysis for Basic Linear Algebra Kernels with Random Data, SIAM J. Sci. Comput. 42(5), 2020. The tail of a sum of
    squares: B. Laurent and P. Massart, Adaptive Estimation of a Quadratic Functional, Ann. Statist. 28(5), 2000,
    lemma 1. docs/checking.md puts them together.

    Truncated sums have no mean of zero, but still the signs of the inputs: of `tf32` it is ((1 + e)^2 - 1 +
    u (4k + 6)) sqrt(t(columns)).
    """
    n = _roundings(k, precision)
    if precision == "fp32":
        return UNIT_ROUNDOFF * (n * _tail(1, tests) * _tail(columns, tests)) ** 0.5
    lost, _ = OPERAND_ERROR[precision]
    return ((1 + lost) ** 2 - 1 + UNIT_ROUNDOFF * n) * _tail(columns, tests) ** 0.5


def _tail(n: Any, tests: int) -> Any:
    """What the mean of n squared standard normal variables exceeds with a probability of at most p / 2."""
    x = math.log(2 * tests / FALSE_ALARM)
    return 1 + 2 * (x / n) ** 0.5 + 2 * x / n
