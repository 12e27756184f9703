"""The shape of a product."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, order=True)
class Shape:
    """The shape of one product: A is m x k, B is k x n, C is m x n."""

    m: int
    n: int
    k: int

    @classmethod
    def parse(cls, text: str | int) -> Shape:
        """Read `1024` (square) or `MxNxK`; raises ValueError for anything else."""
        parts = str(text).split("x")
        if len(parts) not in (1, 3) or not all(re.fullmatch(r"[0-9]+", part) for part in parts):
            raise ValueError(f"{text!r} is neither a positive integer nor MxNxK")
        numbers = [int(part) for part in parts]
        return cls(*(numbers * 3 if len(numbers) == 1 else numbers))

    def __str__(self) -> str:
        """`1024` for a square product, else `MxNxK`."""
        return str(self.m) if self.m == self.n == self.k else f"{self.m}x{self.n}x{self.k}"

    @property
    def flop(self) -> int:
        """Floating-point operations of the product, 2 m n k: a multiplication and an addition for each term."""
        return 2 * self.m * self.n * self.k


def work_key(shape: Shape) -> tuple[int, Shape]:
    """The key that sorts shapes by the work they are."""
    return shape.flop, shape


def in_order(shapes: list[Shape]) -> list[str]:
    """Shapes by the work they are, as text."""
    return [str(shape) for shape in sorted(shapes, key=work_key)]
