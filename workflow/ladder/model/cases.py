"""The cases that a rung is checked with: on a GPU, in the emulator, and by compute-sanitizer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from ladder.model.shape import Shape

EMULATED_FLOP = 1 << 26  # of the largest product that is emulated,
EMULATED_WHOLE = 1 << 25  # of the largest that is emulated whole, and
EMULATED_SIDE = 1 << 16  # its largest dimension: what is beyond takes long on a CPU, so that only
EMULATED_ADDEND = 1 << 21  # elements of a C that it has the time to draw
EMULATED_BLOCKS = 64  # blocks of it are emulated, each launch's last one among them
EMULATED_FEW = 2  # of a product that has tiles for a whole GPU, for which some rungs have a kernel of their own,
EMULATED_LAST = 1  # and of one whose k is long too
EMULATED_MORE = 16  # where these have written nothing
EMULATED_PREPARED = 1 << 32  # flop of the largest product that is emulated where a workspace has to be filled first
EMULATED_SMALL = 1 << 16  # flop up to which a shape is emulated with every case, and not with one of them, and
EMULATED_SHORT = 1 << 10  # the k: a kernel's tile is no smaller where the product is
EMULATED_FAMILIES = 1 << 22  # flop up to which it is emulated with every family of inputs, and
EMULATED_TWICE = 1 << 20  # twice, in two orders; where it is
EMULATED_DRAWN_TWICE = 1 << 16  # drawn, which there are more of
EMULATED_LONG = 1 << 9  # k beyond which there is one SM, for which a product of any size has tiles enough
VECTOR = 4  # floats
WIDE = 1 << 18  # floats between rows: from there on a gap is not filled
# JSON has a name for none of these.
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_OF_FEW = ("sms", "blocks", "drawn", "probe")
_WORDS = {"family": "inputs", "sms": "SMs", "drawn": "drawn by seed"}


@dataclass(frozen=True, eq=False)
class Case:
    """One product that a rung has to compute: C = alpha A B + beta C, on inputs of a family (`measure.inputs`).

    padding and offset are floats, of the gap behind each row and before the first element: of all three matrices, or of
    A, B and C. Only the emulator reads sms, the SMs that the GPU has (0: its own number), and blocks, the most that a
    launch runs (0: all). A drawn case (`ladder.model.drawn`) has the seed that it was drawn by. A probe asks the host
    function for something else than the product alone: its name; empty for the product.
    """

    shape: Shape
    alpha: float = 1
    beta: float = 0
    padding: int | tuple[int, int, int] = 0
    offset: int | tuple[int, int, int] = 0
    family: str = "uniform"
    sms: int = 0
    blocks: int = 0
    drawn: int = 0
    probe: str = ""

    @property
    def _key(self) -> tuple[Any, ...]:
        """What makes a case the same: of scalars their text, for NaN equals nothing and -0.0 equals 0."""
        scalars = (f"{float(self.alpha)} {float(self.beta)}", self.padding, self.offset, self.family)
        return self.shape, *scalars, self.sms, self.blocks, self.drawn, self.probe

    def __eq__(self, other: object) -> bool:
        """Whether both are the same product, NaN scalars included."""
        return isinstance(other, Case) and self._key == other._key

    def __hash__(self) -> int:
        """Of what makes a case the same."""
        return hash(self._key)

    @property
    def is_finite(self) -> bool:
        """Whether the scalars are finite, and the inputs of a family that is not about infinities and NaN."""
        return math.isfinite(self.alpha) and math.isfinite(self.beta) and self.family != "nonfinite"

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Case:
        """The case of a record, of which it takes its own keys; what is missing there has its default."""
        values = {each.name: record[each.name] for each in fields(cls) if each.name in record}
        layout = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
        scalars = {key: _NOT_FINITE[values[key]] for key in ("alpha", "beta") if isinstance(values.get(key), str)}
        return cls(**values | layout | scalars | {"shape": Shape.parse(values["shape"])})

    def as_record(self) -> dict[str, Any]:
        """The case as records have it; of what few cases have (_OF_FEW), what is set."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        layout = {key: list(value) for key, value in values.items() if isinstance(value, tuple)}
        layout |= {key: str(values[key]) for key in ("alpha", "beta") if not math.isfinite(values[key])}
        kept = {key: value for key, value in values.items() if value or key not in _OF_FEW}
        return kept | layout | {"shape": str(self.shape)}

    def __str__(self) -> str:
        """In the words of a message: its shape, and what differs from the defaults."""
        plain = Case(self.shape).as_record()
        changed = {key: value for key, value in self.as_record().items() if not _same(value, plain.get(key))}
        values = {key: _short(value) if isinstance(value, float) else value for key, value in changed.items()}
        words = (f"{_WORDS.get(key, key)} {value}" for key, value in values.items())
        return ", ".join([str(self.shape), *words])

    def told(self) -> str:
        """`8x8x8, alpha 2`: as `str`, of a message in which a single number would not be read as a size."""
        shape = self.shape
        return f"{shape.m}x{shape.n}x{shape.k}{str(self).removeprefix(str(shape))}"

    @property
    def paddings(self) -> tuple[int, int, int]:
        """The paddings of A, B and C."""
        return self.padding if isinstance(self.padding, tuple) else (self.padding,) * 3

    @property
    def offsets(self) -> tuple[int, int, int]:
        """The offsets of A, B and C."""
        return self.offset if isinstance(self.offset, tuple) else (self.offset,) * 3

    @property
    def multiplies(self) -> bool:
        """Whether A and B are read: there is a product to compute."""
        return self.alpha != 0 and self.shape.k > 0


def _same(value: Any, other: Any) -> bool:
    """Whether two values of a case are the same; 0 and -0 are not, for a rung may take one of them for other than 0."""
    return value == other and (value != 0 or math.copysign(1, value) == math.copysign(1, other))


def _short(value: float) -> str:
    """Six digits of a number, or so many that one next to 1 does not look like 1."""
    short = f"{value:g}"
    return short if abs(float(short)) != 1 else f"{value:.9g}"


# One row of C or few, one column or few: a rung often has kernels of their own for these, which no case of tiles asks.
# Each has a long other side, long sums and a rest of k, one pointer or one leading dimension that is not aligned, gaps
# in B or C alone, offsets beyond 31 bits, or zeros that meet infinities.
_FEW_LINES = (
    *(Case(Shape(*sides, k)) for sides in ((1, 2085), (2085, 1)) for k in (7, 36)),
    *(Case(Shape(*sides, 613)) for sides in ((1, 40), (40, 1))),
    *(Case(Shape(*sides, 1029), beta=1) for sides in ((5, 37), (37, 5))),
    *(Case(Shape(37, 1, 1028), padding=(4, 0, 0), offset=offset) for offset in ((1, 0, 0), (0, 1, 0))),
    *(Case(Shape(1, 36, 1028), padding=(0, 4, 0), offset=offset) for offset in ((1, 0, 0), (0, 1, 0))),
    *(Case(Shape(37, 1, 68), padding=padding) for padding in ((0, 4, 0), (0, 0, 4))),
    Case(Shape(37, 8, 68), padding=(0, 0, 1)),
    *(Case(Shape(8, 36, 68), padding=padding) for padding in ((1, 0, 0), (0, 1, 0), (0, 0, 1))),
    *(Case(Shape(*sides, 36), padding=(1 << 26) + gap) for sides in ((1, 131), (131, 1)) for gap in (0, 1)),
    *(Case(Shape(*sides, 100), family="nonfinite") for sides in ((1, 70), (70, 1))),
)

LARGEST_SMS = 192  # about as many as the largest GPUs have

# Floats.
_OF_ONE_MATRIX = ((1, 0, 0), (0, 1, 0), (0, 0, 1), (2, 0, 0), (0, 2, 0), (0, 0, 2))
_OF_TWO_MATRICES = ((1, 1, 0), (1, 0, 1), (0, 1, 1))

# On a GPU and in the emulator: whole tiles of up to 256 rows and columns and of up to 64 steps, all aligned, for which
# a rung may have a kernel without guards; and products that lack one thing alone for that kernel, so that nothing else
# keeps a rung from taking it.
OF_WHOLE_TILES = (
    # Scalars that such a kernel may have shortcuts for.
    *(Case(Shape(256, 256, 64), *scalars) for scalars in ((1, -1), (-1, 1), (-1, 0), (-1.25, 0.75))),
    # One matrix begins one float off, or two, where pairs are still aligned; or the rows of one do.
    *(Case(Shape(256, 256, 64), beta=1, offset=offset) for offset in _OF_ONE_MATRIX),
    *(Case(Shape(256, 256, 64), beta=1, padding=padding) for padding in _OF_ONE_MATRIX),
    # Two begin alike, or their rows do: of what is compared or joined two that are not aligned may cancel.
    *(Case(Shape(256, 256, 64), beta=1, offset=offset) for offset in _OF_TWO_MATRICES),
    *(Case(Shape(256, 256, 64), beta=1, padding=padding) for padding in _OF_TWO_MATRICES),
    # Rows that are a multiple of 4 and not of 8, of 8 and not of 16, up to half a tile of 256; columns, and steps up to
    # half of 64.
    *(Case(Shape(256 + (1 << bits), 256, 64), beta=1) for bits in range(2, 8)),
    *(Case(Shape(256, 256 + (1 << bits), 64), beta=1) for bits in range(2, 8)),
    *(Case(Shape(256, 256, 64 + (1 << bits)), beta=1) for bits in range(2, 6)),
)

# Beyond the cases of a GPU. What lies between rows that are far apart is reserved and not filled.
EMULATED_ALONE = (
    # One matrix of three is not aligned.
    *(
        Case(Shape(65, 68, 20), alpha=-1, beta=-1, padding=4, offset=offset)
        for offset in ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    ),
    # All rows are aligned, and the last vector has a rest of k, of n or of both.
    Case(Shape(130, 132, 35), beta=1, padding=(1, 0, 0)),
    Case(Shape(130, 131, 36), beta=1, padding=(0, 1, 1)),
    Case(Shape(65, 67, 133), padding=(3, 1, 1)),
    # Only rows of C are aligned, and C begins within a vector: one that is aligned reaches into the tile before.
    *(Case(Shape(130, 128 + rest, 36), padding=(0, 0, 4 - rest), offset=(0, 0, 1)) for rest in (1, 2, 3)),
    # Whole tiles in all dimensions, and gaps in one matrix alone.
    *(Case(Shape(256, 256, 64), beta=1, padding=padding) for padding in ((4, 0, 0), (0, 4, 0), (0, 0, 4))),
    # An offset into a matrix needs more than 31 bits, into two of them more than 32; of many rows or many columns
    # beside few of the others; of eight rows; and a leading dimension does.
    Case(Shape(129, 132, 36), beta=1, padding=1 << 26),
    Case(Shape(1030, 5, 35), padding=(1 << 23, 1 << 26, 1 << 23)),
    Case(Shape(5, 1030, 133), padding=(1 << 31, 1 << 24, 1 << 31)),
    Case(Shape(9, 12, 36), padding=1 << 29),
    Case(Shape(3, 12, 4), beta=1, padding=1 << 32),
    Case(Shape(2, 5, 3), padding=(1 << 32) + 1),
    # Of whole tiles, all aligned, offsets into each matrix need more than 32 bits.
    Case(Shape(256, 256, 192), beta=1, padding=1 << 25),
    # More than a group of rows of tiles, each added to C once; more elements than a float counts; a tall and a wide C
    # with a rest of k.
    Case(Shape(2309, 260, 3), beta=1),
    Case(Shape(4097, 4097, 1), padding=(3, 0, 3), blocks=8),
    Case(Shape(1030, 5, 133)),
    Case(Shape(5, 1030, 133)),
    # More tiles of k than 8 bits count, with so many columns that rounding in one direction shows, and rows of B so far
    # apart that a later chunk of k begins beyond 31 bits.
    Case(Shape(5, 70, 8223), padding=(1, 1 << 22, 0), sms=1),
    # So large that tensor cores pay for a pre-pass, with tiles for 66 SMs, or for 32: lines of many scales, few numbers
    # but 0, steps of many scales with rows of B 2^32 apart, few numbers that are far larger, and huge lines.
    Case(Shape(1370, 1358, 579), -1.25, 0.75, (1, 2, 0), family="uneven", sms=66, blocks=EMULATED_FEW),
    Case(Shape(1028, 2060, 548), beta=-1, offset=(0, 0, 1), family="signed_zeros", sms=66, blocks=EMULATED_FEW),
    Case(Shape(1412, 1316, 580), -1, padding=(0, 1 << 32, 0), family="uneven_steps", sms=32, blocks=EMULATED_FEW),
    Case(Shape(1029, 1039, 1035), beta=1, padding=(0, 2, 6), family="outliers", sms=66, blocks=EMULATED_FEW),
    Case(Shape(1028, 1036, 1032), alpha=2.0**-110, family="huge", sms=66, blocks=EMULATED_FEW),
    # Of so few SMs that the pre-pass pays early, and with lines that tensor cores leave to others; all aligned or none.
    *(
        Case(Shape(780, 772, 580), beta=0.75, padding=padding, family="nonfinite", sms=8, blocks=EMULATED_FEW)
        for padding in (0, (1, 3, 1))
    ),
    # Larger still, aligned and of whole tiles but along k; with long sums too, twice; and with longer sums.
    Case(Shape(2240, 2304, 1036), sms=66, blocks=EMULATED_FEW),
    Case(Shape(2030, 2040, 2052), beta=1, padding=4, sms=66, blocks=EMULATED_LAST),
    Case(Shape(2030, 2040, 2052), -1, padding=4, family="wide_range", sms=66, blocks=EMULATED_LAST),
    Case(Shape(1030, 1040, 4100), sms=66, blocks=EMULATED_LAST),
    # Sums of zero times infinity; scalars near 0 that matter, for the matrices are huge, once with sums so long that
    # tensor cores compute them; scalars near 1.
    Case(Shape(17, 20, 36), alpha=math.inf, family="signed_zeros"),
    Case(Shape(17, 20, 36), alpha=2.0**-110, beta=-(2.0**-120), family="huge"),
    Case(Shape(17, 36, 613), alpha=2.0**-110, family="huge", sms=1),
    Case(Shape(17, 20, 1), alpha=1 + 2.0**-21, beta=1 - 2.0**-21),
    # Numbers that round to infinity in what tensor cores multiply, in A or in B, times small ones of two sizes; normal
    # numbers whose parts are subnormal there, in A or in B, times large ones; infinities in the first places alone,
    # with few columns, few rows and several tiles.
    *(Case(Shape(130, 132, 68), beta=beta, family="largest") for beta in (-1, 1)),
    *(Case(Shape(65, 68, k), family="largest", sms=1) for k in (612, 613)),
    *(Case(Shape(130, 132, 68), beta=beta, family="smallest") for beta in (0, 1)),
    *(Case(Shape(65, 68, k), family="smallest", sms=1) for k in (612, 613)),
    *(Case(shape, family="nonfinite_first") for shape in (Shape(70, 3, 100), Shape(3, 70, 100), Shape(65, 68, 20))),
    # Large tiles, of which one at least is whole, and rows of C that are not aligned.
    *(
        Case(Shape(128, n, k), beta=1, padding=(0, 0, 3), offset=(1, 0, 0), sms=1, blocks=EMULATED_FEW)
        for n, k in ((256, 96), (964, 28))
    ),
    *_FEW_LINES,
    # Sides of 4 to 28 tiles of 64 to 256, all of whose blocks run: the order in which blocks take tiles is one to one.
    *(Case(Shape(*sides, k)) for *sides, k in ((768, 512, 3), (640, 1410, 2), (1790, 1150, 1), (1150, 1790, 1))),
    # Two rows of 41 tiles, for which a division in floats gives the wrong row.
    *(Case(Shape(rows, columns, 3)) for rows, columns in ((33, 1310), (65, 2622), (129, 5248))),
    # Sums that many SMs split into many parts, two of them of 64 tiles and more; more than 256 small tiles.
    *(Case(shape, -1.25, 0.75, sms=sms) for shape, sms in ((Shape(9, 6, 5200), 160), (Shape(3, 5, 20011), 132))),
    *(Case(shape, beta=1, sms=160) for shape in (Shape(70, 2044, 132), Shape(8500, 3, 130), Shape(129, 2044, 68))),
    # A few tiles, not aligned, whose long sums a few SMs or many split; whole tiles of few steps.
    Case(Shape(33, 66, 1501), padding=(0, 1, 1)),
    Case(Shape(66, 70, 1501), beta=1, sms=132),
    Case(Shape(512, 320, 20)),
    # A tall C of one vector of columns, of few steps, on few SMs.
    Case(Shape(1508, 4, 4), -1.25, 0.75, sms=2),
    # Sums of middle length that are split into up to eight parts, of infinities, wide lines and zeros too; once not
    # aligned and with more columns than rows.
    Case(Shape(192, 256, 640), beta=1, sms=8),
    Case(Shape(192, 256, 640), family="nonfinite", sms=16),
    Case(Shape(130, 260, 420), -1, 0.75, sms=66),
    Case(Shape(64, 64, 700), family="wide_range", sms=1),
    # Pairs of columns, which are aligned in all rows of C or in every other one.
    *(Case(Shape(256, 260, 196), -1.25, padding=(0, 0, gap), sms=1) for gap in (0, 1)),
    Case(Shape(64, 192, 224), family="signed_zeros", sms=2),
    Case(Shape(771, 1029, 261), sms=66, blocks=EMULATED_FEW),
    # Tiles about as many as SMs, whose sums may be split: the workspace may be too small for another number of SMs than
    # a source names. For some sizes of tiles their number is a power of 2, where limits are.
    *(
        Case(Shape(*sides, k), sms=sms, blocks=EMULATED_FEW)
        for sms in (132, LARGEST_SMS)
        for *sides, k in ((256, 256, 512), (384, 384, 256), (512, 1024, 128))
    ),
    # Betas that count as 0 or are not numbers, where C is read by vectors: with guards and without.
    *(
        Case(Shape(*sides), beta=beta)
        for sides in ((65, 68, 36), (128, 128, 32))
        for beta in (-0.0, math.nan, math.inf)
    ),
    # Scalars that are not numbers where rows or columns are few, or where C is read by pairs.
    *(Case(Shape(*sides, 36), beta=math.nan) for sides in ((1, 70), (70, 1))),
    *(Case(Shape(*sides, 36), alpha=math.inf, family="signed_zeros") for sides in ((1, 70), (70, 1))),
    Case(Shape(130, 132, 36), beta=math.nan, offset=(0, 0, 2), sms=1),
    # A sum whose last steps are far larger; parts of sums whose offsets into A and C are beyond 31 bits.
    *(Case(Shape(17, 36, 5204), family=family, sms=1) for family in ("late", "last")),
    Case(Shape(9, 12, 613), padding=(1 << 29, 1 << 22, 1 << 29), sms=1),
)

GPU_ALONE = (
    # One dimension that a float does not hold, with more tiles than 16 bits count; more tiles of k than these count; a
    # thin C of more rows, or columns, than these count.
    Case(Shape((1 << 24) + 65, 1, 1)),
    Case(Shape(1, (1 << 24) + 65, 1)),
    Case(Shape(2, 3, (1 << 21) + 65), alpha=-1),
    Case(Shape(1, 1, (1 << 24) + 1), alpha=-1, family="last"),
    Case(Shape(65601, 13, 6), beta=1),
    Case(Shape(13, 65601, 6), beta=1),
    # So large that kernels of their own compute them, with a rest of m, n and k: rows that begin anywhere; then rows
    # that are all aligned, of ordinary numbers, of lines or steps of many scales, and with far larger last steps.
    Case(Shape(2031, 2041, 2049), -0.5, 1, (1, 0, 2)),
    *(
        Case(Shape(2030, 2040, 2052), beta=1, padding=(4, 8, 12), family=family)
        for family in ("uniform", "uneven", "uneven_steps")
    ),
    Case(Shape(2030, 2040, 8204), padding=(4, 8, 12), family="late"),
    # With many more columns than rows: of few numbers that are far larger, of numbers that cannot be split, of numbers
    # that round to infinity, of few numbers but 0, and of huge lines.
    *(
        Case(Shape(1006, 4044, 2052), beta=1, padding=(4, 8, 12), family=family)
        for family in ("outliers", "wide_range", "largest", "signed_zeros")
    ),
    Case(Shape(1006, 4044, 2052), alpha=2.0**-110, padding=(4, 8, 12), family="huge"),
    # With many more rows than columns, a few of numbers that cannot be split.
    Case(Shape(4044, 1004, 2052), beta=1, padding=(4, 8, 12), family="nonfinite"),
    # Many rows and columns, and a rest of both; some hundred tiles whose sums may be split.
    Case(Shape(4103, 4100, 70), beta=1),
    Case(Shape(790, 772, 517), beta=1),
)

# There too: rows so far apart that an offset into A and C, or into B, needs more than 31 bits, the last so that only a
# later chunk of k begins there; and the same of whole tiles, all aligned. The memory is reserved and not filled. A GPU
# that has not so much leaves it out.
BEYOND_31_BITS = (
    Case(Shape(9, 12, 36), alpha=-1, padding=(1 << 28, 0, 1 << 28)),
    Case(Shape(12, 12, 9), padding=(0, 1 << 28, 0)),
    Case(Shape(5, 70, 8223), padding=(0, 1 << 18, 0)),
    Case(Shape(256, 256, 64), beta=1, padding=((1 << 23) + (1 << 16), 0, (1 << 23) + (1 << 16))),
    Case(Shape(256, 256, 320), beta=1, padding=(0, 1 << 23, 0)),
)

# What is asked of the host function beside products (`measure.check.probes`), and for which: of several tiles, and of a
# sum so long that it may be split.
OTHER_ARGUMENTS = "other arguments"  # which changes the case itself
PROBES = ("refusals", "nothing to compute", "query", "capture", "two at once", OTHER_ARGUMENTS, "stream")
MANY_ELEMENTS = "many elements"  # of a C whose elements or tiles are too many for a narrow number
LARGE_WORKSPACE = "large workspace"  # whose offsets need more than 32 bits
# The emulator looks at streams in every case.
EMULATED_PROBES = (*PROBES[:-1], "errors", MANY_ELEMENTS, LARGE_WORKSPACE, "observed", "queued only")
_PROBED = (Case(Shape(65, 68, 36), alpha=1.5, beta=0.5), Case(Shape(33, 36, 518)))
# Whole tiles, for which a rung may take a kernel without guards if the first call of a process allowed it.
_WHOLE = Shape(128, 128, 32)
# Few columns, few rows and few steps, for which a rung may have launches of their own that fail.
_THIN = (Shape(70, 3, 100), Shape(3, 70, 100), Shape(65, 68, 5))
_LARGE = Shape(2030, 2040, 2052)  # and large with long sums,
_FOR_ONE_SM = Shape(1370, 1358, 579)  # or for many blocks on one SM
# A C of more elements than 32 bits count; one dimension that a float does not hold, with more tiles than 16 bits count.
# And 2^32 elements, a number that is 0 in 32 bits, and 2^32 + 1780, of which 32 bits keep a few blocks'.
_MANY = (
    Shape(140003, 140004, 4),
    Shape(1 << 16, 1 << 16, 4),
    Shape(65789, 65284, 4),
    Shape((1 << 25) + 65, 3, 4),
    Shape(3, (1 << 25) + 65, 4),
)
# A copy of A, or of B, has more than 2^31 elements, which are more than 2^32 bytes.
_LARGE_COPIES = (Shape((1 << 21) + 65, 68, 1028), Shape(68, (1 << 21) + 68, 1028))
# Beyond what is computed anywhere, for so many SMs that their number times that of tiles needs more than 31 bits; a row
# of A that fits in no shared memory; large matrices whose rows are not aligned, which a rung may copy first; and a
# single row, column or element, for which a rung may have a kernel of its own, the last with a sum of very many tiles.
_MOST = (1 << 30) + 1
_QUEUED_ONLY = (
    Case(Shape(_MOST, 3, 37), sms=LARGEST_SMS),
    Case(Shape(3, _MOST, 37), sms=LARGEST_SMS),
    Case(Shape(3, 5, (1 << 17) + 1)),
    Case(Shape(4095, 4097, 4099)),
    *(Case(Shape(*sides), sms=LARGEST_SMS) for sides in ((_MOST, 1, 37), (1, _MOST, 37), (1, 1, _MOST), (3, 5, _MOST))),
)


def probes(names: Iterable[str]) -> list[Case]:
    """The cases that probe the host function in each of these ways."""
    of = {
        MANY_ELEMENTS: [replace(_PROBED[0], shape=shape) for shape in _MANY],
        LARGE_WORKSPACE: [replace(_PROBED[0], shape=shape) for shape in _LARGE_COPIES],
        "errors": (
            *_PROBED,
            *(replace(_PROBED[0], shape=shape) for shape in _THIN),
            replace(_PROBED[1], sms=1),
            replace(_PROBED[1], shape=Shape(33, 36, 8197)),
            replace(_PROBED[1], shape=_LARGE, sms=66),
            replace(_PROBED[1], shape=_FOR_ONE_SM, sms=1),
        ),
        "queued only": _QUEUED_ONLY,
        OTHER_ARGUMENTS: (*_PROBED, replace(_PROBED[0], shape=_WHOLE)),
    }
    return [replace(case, probe=name) for name in names for case in of.get(name, _PROBED)]


def all_cases(
    shapes: Iterable[Shape],
    configured: Sequence[Mapping[str, Any]],
    timed: Iterable[Shape],
    families: Iterable[str] = (),
    family_shapes: Sequence[Shape] = (),
) -> list[Case]:
    """Every shape with every configured combination of scalars and layout on uniform inputs, the family's shapes with
    those that multiply on every other family, then the shapes to be timed as they are timed.
    """
    crossed = [Case(shape, **values) for shape in dict.fromkeys(shapes) for values in configured]
    crossed += [
        Case(shape, **{**values, "family": family})
        for family in families
        for shape in family_shapes
        for values in configured
        if values.get("alpha", 1) != 0
    ]
    return crossed + [case for case in map(Case, timed) if case not in crossed]


def emulated_cases(cases: Iterable[Case]) -> list[Case]:
    """Those of the cases that the emulator has the time for.

    All of small shapes; of every larger one and family a single one, another each time, with three gaps, of which
    some blocks (`blocks`) where the shape is very large or long. Of a long sum a GPU with a
    single SM (`sms`). Then OF_WHOLE_TILES, EMULATED_ALONE, and what probes the host function.
    """
    chosen: dict[tuple[Shape, str], list[Case]] = {}
    for case in cases:
        chosen.setdefault((case.shape, case.family), []).append(case)
    kept = []
    for turn, ((shape, family), of_shape) in enumerate(chosen.items()):
        if shape.flop > (EMULATED_FLOP if family == Case.family else EMULATED_FAMILIES):
            continue
        if shape.k > EMULATED_LONG:
            of_shape = [replace(case, sms=1) for case in of_shape]
        computing = [case for case in of_shape if case.alpha != 0] or of_shape
        if shape.flop > EMULATED_WHOLE or max(shape.m, shape.n, shape.k) > EMULATED_SIDE:
            cheap = [case for case in computing if case.beta == 0 or shape.m * shape.n <= EMULATED_ADDEND] or computing
            kept.append(_with_three_gaps(replace(cheap[turn % len(cheap)], blocks=EMULATED_BLOCKS)))
            continue
        small = shape.flop <= EMULATED_SMALL and shape.k <= EMULATED_SHORT
        kept += of_shape if small else [_with_three_gaps(computing[turn % len(computing)])]
    return [*kept, *OF_WHOLE_TILES, *EMULATED_ALONE, *probes(EMULATED_PROBES)]


def _with_three_gaps(case: Case) -> Case:
    """The case with another gap behind the rows of each matrix, as they are aligned, where it has one behind all."""
    gap = case.paddings[0]
    alike = gap > 0 and case.paddings == (gap, gap, gap)
    return replace(case, padding=(gap, gap + VECTOR, gap + 2 * VECTOR)) if alike else case


def is_unfinished(verdict: str) -> bool:
    """Whether a verdict or finding says no more than that a launch in the emulator was not waited for any longer."""
    return verdict.startswith("timeout: ")


def emulated_runs(case: Case) -> int:
    """How often the emulator computes a case, with another order of blocks and threads each time."""
    few = case.shape.flop <= (EMULATED_DRAWN_TWICE if case.drawn else EMULATED_TWICE)
    return 2 if few and case.shape.k <= EMULATED_SHORT else 1


def sanitizer_cases(shapes: Iterable[str | int], configured: Iterable[Mapping[str, Any]]) -> list[Case]:
    """Every shape with every configured combination of scalars and layout that multiplies anything, once."""
    cases = [Case(Shape.parse(shape), **values) for shape in dict.fromkeys(shapes) for values in configured]
    return list(dict.fromkeys(case for case in cases if case.alpha != 0))
