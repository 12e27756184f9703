"""Products that nobody chose: shapes and layouts drawn by a seed, and the classes that their rates are told by."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping

import numpy as np

from ladder.model.cases import Case
from ladder.model.shape import Shape

MULTIPLE = 16
MULTIPLES = 0.4  # of the shapes have m, n and k rounded to multiples of MULTIPLE
GAPS = 0.25  # of the products have gaps between the rows of A, B and C
LARGEST_GAP = 64  # elements
MOST_GRIDS = 100
WAYS_SEED = 1  # draws the products of which host functions are asked what they launch: the same on each machine
FAR = 8  # one dimension is long, or short, where it is so many times another one


def drawn_seed(configured: int | str) -> int:
    """The seed of a run: the configured one, or another each time where that is `new`."""
    return secrets.randbits(31) if configured == "new" else int(configured)


def draw_products(count: int, largest: int, flop: tuple[float, float], seed: int) -> list[Case]:
    """So many products by a seed: m, n and k log-uniform from 1 to `largest`, and 2mnk within the limits `flop`.

    The logarithms are a jittered grid: the cube is cut into equal cells and each cell gets a point, so that kinds of
    shapes differ less in number from seed to seed than independent points would. MULTIPLES of the shapes are rounded.
    Of the products with gaps half have leading dimensions that are a multiple of 4 floats longer. The order is random.
    Raises ValueError where the limits leave too few shapes.
    """
    random = np.random.default_rng(seed)
    parts = round((1.6 * count) ** (1 / 3)) + 1
    cells = np.stack(np.meshgrid(*[np.arange(parts)] * 3), axis=-1).reshape(-1, 3)
    shapes: dict[Shape, None] = {}
    for _ in range(MOST_GRIDS):
        if len(shapes) >= count:
            break
        logs = (random.permutation(cells) + random.random(cells.shape)) / parts * np.log(largest + 0.5)
        sides = np.clip(np.rint(np.exp(logs)), 1, largest).astype(int)
        rounded = random.permutation(len(sides)) < MULTIPLES * len(sides)
        sides[rounded] = np.clip(-(-sides[rounded] // MULTIPLE), 1, largest // MULTIPLE) * MULTIPLE
        found = (Shape(*map(int, row)) for row in sides)
        shapes |= dict.fromkeys(shape for shape in found if flop[0] <= shape.flop <= flop[1])
    if len(shapes) < count:
        raise ValueError(f"{count} shapes up to {largest} with {flop[0]:g} to {flop[1]:g} FLOP cannot be drawn")
    gaps = random.permutation(count) < GAPS * count
    return [
        Case(shape, padding=_gaps(random) if gap else 0) for shape, gap in zip(list(shapes)[:count], gaps, strict=True)
    ]


def _gaps(random: np.random.Generator) -> tuple[int, int, int]:
    step = int(random.choice([1, 4]))
    a, b, c = (step * int(each) for each in random.integers(1, LARGEST_GAP // step + 1, 3))
    return a, b, c


def _sides(case: Case) -> tuple[int, int, int]:
    return case.shape.m, case.shape.n, case.shape.k


def _leading_dimensions(case: Case) -> tuple[int, int, int]:
    a, b, c = case.paddings
    return case.shape.k + a, case.shape.n + b, case.shape.n + c


EVERY_PRODUCT = "all"
# A product belongs to each class whose condition it meets. The words stand in tables, figures and pages.
PRODUCT_CLASSES: Mapping[str, Callable[[Case], bool]] = {
    EVERY_PRODUCT: lambda case: True,
    "m and n at least 128": lambda case: min(case.shape.m, case.shape.n) >= 128,
    "m or n at most 16": lambda case: min(case.shape.m, case.shape.n) <= 16,
    "small: below 1e8 FLOP": lambda case: case.shape.flop < 1e8,
    "thin: m is 8 n or more": lambda case: case.shape.m >= FAR * case.shape.n,
    "flat: n is 8 m or more": lambda case: case.shape.n >= FAR * case.shape.m,
    "long k: 8 m and 8 n or more": lambda case: case.shape.k >= FAR * max(case.shape.m, case.shape.n),
    "short k: an eighth of m and n or less": lambda case: FAR * case.shape.k <= min(case.shape.m, case.shape.n),
    "squarish: sides within a factor of 4": lambda case: max(_sides(case)) <= 4 * min(_sides(case)),
    "rows aligned to 16 bytes": lambda case: all(ld % 4 == 0 for ld in _leading_dimensions(case)),
    "rows not aligned": lambda case: any(ld % 4 for ld in _leading_dimensions(case)),
    "gaps between rows": lambda case: any(case.paddings),
}


def least_bytes(shape: Shape) -> int:
    """The bytes that a product moves at least where beta = 0: A and B are read and C is written once, in FP32."""
    return 4 * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n)
