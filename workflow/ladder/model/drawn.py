"""Drawn cases: products that nobody chose, around every number that a rung's sources and its plan name.

Ten things of a case (_FACTORS) have _LEVELS levels each. An orthogonal array of strength 2 puts them together: among
_LEVELS**2 cases any level of one thing meets any level of another once (R. C. Bose, On the application of the
properties of Galois fields to the problem of construction of hyper-Graeco-Latin squares, Sankhya 3, 1938). A seed draws
which level has which number in the array, the order of the cases, and the values within each level.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, cycle, islice, product, zip_longest
from random import Random

from ladder.model.cases import VECTOR, Case
from ladder.model.shape import Shape

_LEVELS = 11  # a prime, of which the array has _LEVELS + 1 columns
_FACTORS = ("m", "n", "k", "alpha", "beta", "A", "B", "C", "family", "sms")
NOT_OF_16_BITS = 1 << 16
LONG_K = NOT_OF_16_BITS + 1  # a k that 16 bits do not hold
FEWEST = 16  # cases of so few rows, columns or steps that a source asks for them
MOST_AT_BOUNDS = 20  # cases at the bounds of regions
ANY = 1 << 40  # a bound of a region that is none: no dimension is as large
LANES_OF_A_WARP = 32
LONGEST_OF_WARPS = 9 * LANES_OF_A_WARP  # beyond the sums that warps share
WIDEST_MULTIPLE = 700  # up to which dimensions are drawn as multiples of a number
POWERS = tuple(1 << bits for bits in range(1, 9))
DRAWN_FAMILIES = (
    *("uniform", "positive", "huge", "normal", "wide_range", "uneven", "cancellation"),
    *("subnormal", "subnormal_B", "zero_tiles", "scattered"),
)
SHARED_LEVELS = {"uneven": "uneven_steps", "huge": "largest", "cancellation": "last"}  # a level may be of either


Bounded = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class Named:
    """The numbers that a rung names: `own` those of its source and macros, `others` those of its headers.

    `work` are limits of m n, m n k or 2 m n k: those of its classes of size, and whatever is large in its sources. A
    block computes a tile of m x n elements, k steps at a time, as `tile` says as far as that is known. `few` are the
    dimensions that the sources compare with a small number, each with that number. A region has the products that meet
    several such comparisons at once (`m > 1024 && n <= 33`): of each of its dimensions the least and the largest. So
    has a pair, of comparisons that stand in different places.
    """

    own: tuple[int, ...]
    others: tuple[int, ...] = ()
    work: tuple[int, ...] = ()
    tile: Shape = field(default_factory=lambda: Shape(64, 64, 16))
    few: tuple[tuple[str, int], ...] = ()
    regions: tuple[Bounded, ...] = ()
    pairs: tuple[Bounded, ...] = ()


def most_elements(shape: Shape) -> int:
    """How many elements the largest of a product's three matrices has."""
    return max(shape.m * shape.k, shape.k * shape.n, shape.m * shape.n)


@dataclass(frozen=True)
class Reach:
    """How much work drawn products may be.

    `flop` of most of them, and of the whole tiles that they are parts of `of_tiles`. Of one in eight the product may
    be of `most`, and its tiles of four times as much. No matrix has more than `elements`, so that a small GPU holds
    what a check keeps of it in FP64.
    """

    flop: int
    most: int
    of_tiles: int
    elements: int = 1 << 40


ON_A_CPU = Reach(1 << 20, 1 << 22, 1 << 23)
ON_A_GPU = Reach(1 << 26, 1 << 35, 1 << 40, elements=1 << 24)
SANITIZED = Reach(1 << 16, 1 << 18, 1 << 20)


@dataclass(frozen=True)
class Drawing:
    """What cases are drawn from but for the seed: `drawn_cases`. `seed` is the one that is asked for, 0 for any.

    Cases with inputs of the families that are `left_out` are drawn and not given.
    """

    count: int
    seed: int
    named: Named
    sms: tuple[int, ...]
    reach: Reach
    left_out: frozenset[str] = frozenset()

    def cases(self, seed: int) -> list[Case]:
        """The cases of a seed, or of the one that is asked for."""
        drawn = drawn_cases(self.seed or seed, self.count, self.named, self.sms, self.reach)
        return [case for case in drawn if case.family not in self.left_out]


def drawn_cases(seed: int, count: int, named: Named, sms: Sequence[int] = (), reach: Reach = ON_A_CPU) -> list[Case]:
    """So many cases, the same for the same arguments; their `sms` are 0 where no numbers of SMs are given.

    The first are of whole tiles in all dimensions but one, of a long sum, of few rows, columns or steps, just below and
    above a limit of work, or at a bound of a region.
    """
    random = Random(f"{seed}")
    first = [*_whole_tiles(random, named, reach), *_long_sum(random, named, reach)]
    few = _few(random, named, reach)
    shapes = [*first, *few, *_around_work(random, named, reach), *_at_bounds(random, named, reach)]
    tight = dict(zip(range(len(first), len(first) + len(few), 2), cycle(_TIGHT)))
    special = {name: cycle(random.sample(of, len(of))) for name, of in _SPECIAL.items()}
    seen: dict[str, set[tuple[bool, int, int, int]]] = {name: set() for name in "ABC"}
    found = []
    for turn, row in enumerate(_array(random, count)):
        level = dict(zip(_FACTORS, row, strict=False))
        if turn < len(shapes):
            shape = shapes[turn]
            plain = range(_NOT_ONE, _PLAIN) if shape.k >= LONG_K else range(_PLAIN)
            level |= {name: plain[level[name] % len(plain)] for name in ("alpha", "beta")} | tight.get(turn, {})
        else:
            work = (reach.most, 4 * reach.of_tiles) if turn % 8 == 0 else (reach.flop, reach.of_tiles)
            shape = _shape(random, [level[name] for name in "mnk"], named, *work, reach.elements)
        columns = {"A": shape.k, "B": shape.n, "C": shape.n}
        layouts = [_layout(random, level[name], columns[name], named, seen[name]) for name in "ABC"]
        alpha = next(special["alpha"]) if level["alpha"] == _LEVELS - 1 else _ALPHAS[level["alpha"]](random)
        case = Case(
            shape,
            alpha=alpha,
            beta=next(special["beta"]) if level["beta"] == _LEVELS - 1 else _BETAS[level["beta"]](random),
            padding=(layouts[0][0], layouts[1][0], layouts[2][0]),
            offset=(layouts[0][1], layouts[1][1], layouts[2][1]),
            family=_family(random, level["family"], alpha),
            sms=_sms(random, level["sms"], sms),
            drawn=seed,
        )
        found.append(case)
    return found


def _array(random: Random, count: int) -> list[list[int]]:
    """Rows of the orthogonal array, _LEVELS**2 at a time, with levels and rows in random order."""
    rows: list[list[int]] = []
    while len(rows) < count:
        names = [random.sample(range(_LEVELS), _LEVELS) for _ in _FACTORS]
        block = [
            [of[(a + column * b) % _LEVELS] for column, of in enumerate(names)]
            for a in range(_LEVELS)
            for b in range(_LEVELS)
        ]
        random.shuffle(block)
        rows += block
    return rows[:count]


# Dimensions: by level what is drawn around a number c that a rung names, no more than `most` where that is possible


def _times(random: Random, c: int, most: int) -> int:
    """A multiple of c, by a small number that is odd most of the time."""
    return c * min(random.choice((1, 1, 2, 3, 3, 5, 7)), max(1, min(most, WIDEST_MULTIPLE) // c))


_DIMENSIONS: tuple[Callable[[Random, int, int], int], ...] = (
    lambda random, c, most: 1,
    lambda random, c, most: random.randint(2, 9),
    lambda random, c, most: c,
    lambda random, c, most: c * min(random.choice((3, 3, 5, 7)), max(1, min(most, WIDEST_MULTIPLE) // c - 1) | 1),
    lambda random, c, most: _times(random, c, most) - 1,
    lambda random, c, most: _times(random, c, most) + 1,
    lambda random, c, most: _times(random, c, most) + random.randrange(4, max(5, c), 4),
    lambda random, c, most: _times(random, c, most) + random.randrange(1, max(2, c), 2),
    lambda random, c, most: _times(random, c, most) + random.randrange(2, max(3, c), 4),
    lambda random, c, most: round(math.exp(random.uniform(0, math.log(min(400, max(2, most)))))),
    lambda random, c, most: random.randint(min(most, 300), max(1, min(most, 1300))),
)


def _shape(random: Random, levels: Sequence[int], named: Named, flop: int, of_tiles: int, elements: int) -> Shape:
    """A shape of these levels, its dimensions drawn in any order, each with what the others leave to it."""
    sizes, tile = (
        [1, 1, 1],
        (named.tile.m, named.tile.n, 2 * named.tile.k),
    )  # to fill a tile's stages takes time as well
    left, tiles = flop // 2, max(1, of_tiles // (2 * math.prod(tile)))
    for index, others in zip(random.sample(range(3), 3), (2, 1, 0), strict=True):
        most = max(1, min(left // 8**others, tiles * tile[index], elements // max(sizes)))
        c = _number(random, named, most)
        size = _DIMENSIONS[levels[index]](random, c, most)
        sizes[index] = max(1, size - -(-max(0, size - most) // c) * c)  # of the same residue where that can be
        left //= sizes[index]
        tiles = max(1, tiles // -(-sizes[index] // tile[index]))
    return Shape(*sizes)


def _number(random: Random, named: Named, most: int) -> int:
    """A number that the rung names, a product or quotient of two, or a power of two; none that is too large."""
    kind = random.random()
    if kind < 0.5:
        found = named.own
    elif kind < 0.7:
        pairs = [random.choice(named.own or POWERS) for _ in range(2)]
        found = (pairs[0] * pairs[1], max(pairs) // max(1, min(pairs)))
    else:
        found = named.others if kind < 0.85 else POWERS
    return random.choice(
        [each for each in found if 2 <= each <= most] or [each for each in POWERS if each <= most] or [1]
    )


def _whole_tiles(random: Random, named: Named, reach: Reach) -> list[Shape]:
    """Whole tiles in two dimensions, and in the third one too, or one element or one vector more, or one less."""
    found = []
    for index in range(3):
        for more in (0, 1, -1, 4, 2):
            tile = [named.tile.m, named.tile.n, named.tile.k]
            times = [random.choice((1, 2, 3)), random.choice((1, 3)), random.choice((1, 3, 5, 7))]
            while 2 * math.prod(map(operator.mul, tile, times)) > reach.most and max(times) > 1:
                times[times.index(max(times))] -= 1
            sizes = list(map(operator.mul, tile, times))
            sizes[index] += more
            found.append(Shape(*(max(1, size) for size in sizes)))
    return [shape for shape in found if shape.flop <= 2 * reach.most]


def _long_sum(random: Random, named: Named, reach: Reach) -> list[Shape]:
    """A sum that is longer than 16 bits count, where the tiles that compute it are within reach."""
    if 2 * NOT_OF_16_BITS * named.tile.m * named.tile.n > 16 * reach.of_tiles:
        return []
    return [Shape(random.randint(1, 8), random.randint(1, 8), LONG_K + random.randrange(64))]


def _few(random: Random, named: Named, reach: Reach) -> list[Shape]:
    """So few rows, columns or steps as the sources ask for, where a kernel of their own may compute them.

    Warps may share the sum of such a kernel: half of these sums are of any number of warps, with a rest or without. One
    of a single row or column is longer than 16 bits count.
    """
    found = [
        Shape(**{"m": 1, "n": 1, "k": LONG_K + random.randrange(64), name: random.randint(1, number)})
        for name, number in random.sample(named.few, len(named.few))[:1]
        if name != "k"
    ]
    for name, number in islice(cycle(random.sample(named.few, len(named.few))), FEWEST):
        levels = [random.randrange(2, _LEVELS) for _ in "mnk"]
        room = reach.elements // max(number, LONGEST_OF_WARPS)
        drawn = _shape(random, levels, named, reach.flop, reach.of_tiles, room)
        sizes = vars(drawn) | {name: random.randint(1, number)}
        if random.random() < 1 / 2:
            sizes[name] = number
        if name != "k" and random.random() < 1 / 2:
            most = reach.of_tiles // (2 * named.tile.m * named.tile.n)
            sizes["k"] = min(
                LANES_OF_A_WARP * random.randint(1, 8)
                + random.choice((0, 0, 1, -1, -random.randrange(LANES_OF_A_WARP))),
                most,
            )
        found.append(Shape(**sizes))
    return found


def _around_work(random: Random, named: Named, reach: Reach) -> list[Shape]:
    """At some limits of work two products: one that does not exceed it, and one that does."""
    found: list[Shape] = []
    for limit in random.sample(named.work, min(len(named.work), 6)):
        k = random.choice((1, 2, 3, 4, 8, 16, 31, math.ceil(limit ** (1 / 3))))
        elements = int(limit / random.choice((1, k, 2 * k)))  # it may limit m n, m n k or 2 m n k
        m = max(1, round(math.sqrt(elements) * 2 ** random.uniform(-2, 2)))
        shapes = [Shape(m, max(1, elements // m), k), Shape(m, elements // m + 1, k)]
        if all(shape.flop <= reach.most and most_elements(shape) <= reach.elements for shape in shapes):
            found += shapes
    return found


def _at_bounds(random: Random, named: Named, reach: Reach) -> list[Shape]:
    """At a bound of each region a product with that dimension, then at another one; the other dimensions lie inside.

    A kernel for a region may be wrong in its last row or column alone, and one for all others where the region begins.
    """
    found: list[Shape] = []
    for regions in (named.regions, named.pairs):
        bounds = [random.sample(each, len(each)) for each in map(_bounds, random.sample(regions, len(regions)))]
        for region, name, size in filter(None, chain.from_iterable(zip_longest(*bounds))):
            sizes = {each: _inside(random, least, largest) for each, least, largest in region} | {name: size}
            left = reach.most // (2 * math.prod(sizes.values()))
            for free in random.sample([each for each in "mnk" if each not in sizes], 3 - len(sizes)):
                sizes[free] = _free(random, named, left)
                left //= sizes[free]
            shape = Shape(**sizes)
            if shape.flop <= 2 * reach.most and most_elements(shape) <= reach.elements:
                found.append(shape)
    return found[:MOST_AT_BOUNDS]


def _bounds(region: Bounded) -> list[tuple[Bounded, str, int]]:
    """The first and the last sizes inside of a region, and the next beyond, each with its dimension.

    What lies beside a single size is no bound.
    """
    return [
        (region, name, size)
        for name, least, largest in region
        for size in ({least} if least == largest else {least - 1, least, largest, largest + 1})
        if size < ANY and (least > 1 or size >= largest)
    ]


def _free(random: Random, named: Named, most: int) -> int:
    """A size of a dimension that a region leaves free: any, or just beyond a number that the rung names."""
    if random.random() < 1 / 2 or most < 2:
        return round(math.exp(random.uniform(0, math.log(max(1, min(most, WIDEST_MULTIPLE))))))
    largest = max((1, *(each for each in named.own if each < most)))
    return min(random.choice((largest, _number(random, named, most))) + random.randint(0, 9), most)


def _inside(random: Random, least: int, largest: int) -> int:
    """A size between two bounds, often at one of them; without an upper one hardly larger than the lower one."""
    if largest == ANY:
        return least + random.choice((0, 1, random.randint(0, 64)))
    return random.choice((least, largest, random.randint(least, largest)))


def _family(random: Random, level: int, alpha: float) -> str:
    """A family of a level. A rung may multiply A or B by alpha first, so that of the largest alpha must be 1 or -1."""
    family = DRAWN_FAMILIES[level]
    other = SHARED_LEVELS.get(family, family)
    return family if other == "largest" and abs(alpha) != 1 else random.choice((family, other))


# Scalars, by level; the first _PLAIN hide no wrong product behind a scalar that is 0, far from 1 or not finite


def _ordinary(random: Random) -> float:
    return random.choice((-1, 1)) * round(random.uniform(0.1, 8), 3)


def _tiny(random: Random) -> float:
    """Normal or subnormal in FP32."""
    return random.choice((-1, 1)) * 2.0 ** random.choice((random.randint(-120, -20), random.randint(-148, -127)))


def _huge(random: Random) -> float:
    return random.choice((-1, 1)) * 2.0 ** random.randint(20, 127)


def _one_of(*values: float) -> Callable[[Random], float]:
    return lambda random: random.choice(values)


_ONE, _MINUS, _ZERO = _one_of(1), _one_of(-1), _one_of(0)
_PLAIN, _NOT_ONE = 8, 6  # of the plain ones these and the following are not 1, -1 or 0 either
_ALPHAS = (_ONE, _ONE, _ONE, _MINUS, _MINUS, _ordinary, _ordinary, _ordinary, _tiny, _huge)
_BETAS = (_ZERO, _ZERO, _ZERO, _ONE, _ONE, _MINUS, _ordinary, _ordinary, _tiny, _huge)
# The last level: these in turn, so that none is left out.
_SPECIAL = {"alpha": (math.nan, math.inf, -math.inf, 0, -0.0), "beta": (math.nan, math.inf, -math.inf, -0.0)}


_TRIES = 12
_UNALIGNED, _WITH_GAP = 7, 4  # of these levels: no gap, and no aligned address; an aligned one, and rows that are not

# The layout of a matrix, by level: the gap that makes the leading dimension what it is to be, and the first element


def _layout(
    random: Random, level: int, columns: int, named: Named, seen: set[tuple[bool, int, int, int]]
) -> tuple[int, int]:
    """padding and offset in floats.

    Code for vectors may be wrong at single residues of columns, leading dimension and offset by the floats of a vector,
    and in a row of several tiles alone. So of several layouts of a level this is the first whose residues no such row
    had before, which `seen` collects. Where a level has none left, its gaps and offsets are those of other levels, but
    for the levels that _TIGHT asks for.
    """

    def residues(padding: int, offset: int) -> tuple[bool, int, int, int]:
        ld = columns + padding
        return columns > named.tile.n, columns % VECTOR, ld % VECTOR, offset % VECTOR

    tried = [_one_layout(random, level, columns, named) for _ in range(_TRIES)]
    if all(level not in levels.values() for levels in _TIGHT):
        others = list(product(range(VECTOR), repeat=2))
        tried += random.sample(others, len(others))
    found = next((each for each in tried if residues(*each) not in seen), tried[0])
    seen.add(residues(*found))
    return found


def _one_layout(random: Random, level: int, columns: int, named: Named) -> tuple[int, int]:
    def gap(modulus: int, remainder: int = 0) -> int:
        """The least gap, or a few more, after which ld % modulus is the remainder."""
        least = (remainder - columns) % modulus
        return least + modulus * random.choice((0, 0, 1, 3))

    return (
        lambda: (0, 0),
        lambda: (0, random.choice((4, 8, 12))),
        lambda: (gap(4), 0),
        lambda: (gap(4), random.choice((1, 2, 3))),
        lambda: (gap(4, 2), 0),
        lambda: (gap(4, 2), random.choice((1, 2, 3, 6))),
        lambda: (gap(2, 1), 0),
        lambda: (0, random.choice((1, 2, 3, 5))),
        lambda: (gap(32), random.choice((0, 1, 2, 3))),
        lambda: (random.choice(named.own or POWERS), random.choice((0, 1, 2, 3, 4))),
        lambda: (gap(2, 1), random.choice((1, 2, 3))),
    )[level]()


# Levels for every other product of few rows, columns or steps, for which a kernel of its own may ask for vectors: B and
# C have no gaps, or one of them alone, and rows of A begin at multiples of a vector. All addresses are aligned, or all
# but one.
_TIGHT = tuple(
    {"A": A, "B": B, "C": C}
    for A, B, C in (
        *((2, 0, 0), (2, _UNALIGNED, 0), (_UNALIGNED, 0, 0), (2, 0, _UNALIGNED)),
        *((2, _WITH_GAP, 0), (2, 0, _WITH_GAP)),
    )
)


def _sms(random: Random, level: int, sms: Sequence[int]) -> int:
    """0, the emulator's own number, at some levels; else a few, one of those given, or any."""
    if not sms or level < 3:
        return 0
    return random.choice((1, 2, 3, 5)) if level < 6 else random.choice(sms) if level < 9 else random.randint(1, 200)
