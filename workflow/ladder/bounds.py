"""How large the error of an FP32 product may be: bounds that follow from the arithmetic.

Two bounds, because each catches what the other lets through:

- component-wise, a theorem: a sum of k products, in any order, with the scaling by alpha and the addition of beta * C,
  satisfies |error| <= gamma(k + 3) (|alpha| |A| |B| + |beta| |C|) with gamma(n) = n u / (1 - n u) and u = 2**-24.
  N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM 2002, sections 3.1 and 3.5.
- norm-wise, a statement about many rounding errors of random sign: they grow like sqrt(k), not like k.
  N. J. Higham and T. Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41(5), 2019.
  For terms of random sign the partial sums grow like a random walk and the error of sequential summation is about
  0.4 sqrt(k) u of the result; the bound allows ten times that. A product of inputs rounded to TF32 has an error of
  about 3e-4 of the result, at any k, and is above the bound up to k of about a million.
"""

from __future__ import annotations

import math

UNIT_ROUNDOFF = 2.0**-24  # of IEEE binary32, round to nearest


def componentwise_bound(k: int) -> float:
    """gamma(k + 3): the largest |error| of an element, divided by its |alpha| |A| |B| + |beta| |C|."""
    n = k + 3
    return n * UNIT_ROUNDOFF / (1 - n * UNIT_ROUNDOFF)


def normwise_bound(k: int) -> float:
    """(4 sqrt(k) + 8) u: the largest Frobenius norm of the error, divided by the size of the terms that were summed.

    That size is the norm of the result, or what it would be with random signs where the terms cancel:
    hypot(||alpha A B||, |alpha| sqrt(sum of (A_ip B_pj)**2), ||beta C||).
    """
    return (4 * math.sqrt(k) + 8) * UNIT_ROUNDOFF
