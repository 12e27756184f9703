"""Who does what in a block of a tutorial rung, from the rung's constants: results, global loads, shared accesses.

The index arithmetic of each kernel stands here once more, as functions of its macros; tests/test_drawings.py holds them
against the kernels in the emulator and against the profiles. The addresses of a warp's lanes give the passes of the
load/store pipe that each of its instructions takes, without a profile.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

BANKS = 32  # of shared memory, 4 bytes each; it serves 128 bytes at a time: 32 threads of 4 bytes, 8 of 16
SECTOR = 8  # floats that global memory delivers at least
LINE, TAGS = 32, 4  # floats of a line of L1, and lines that it looks up in a pass, since Volta
WARP_LOADS = 4 * 32  # floats that one instruction of a warp loads at most; an engine copies more without the pipe

Element = tuple[int, int]  # row and column of a matrix
Constants = Mapping[str, int]


@dataclass(frozen=True)
class Access:
    """An instruction of warp 0 on a tile in shared memory.

    `words` are the first of the `width` words that each lane asks for, `steps` the step along k that they belong to.
    `times` is how many instructions like it a warp executes for one tile of k.
    """

    name: str
    words: tuple[int, ...]
    steps: tuple[int, ...]
    width: int
    times: int

    def groups(self) -> list[range]:
        """The lanes that shared memory serves together."""
        size = BANKS // self.width
        return [range(at, min(at + size, len(self.words))) for at in range(0, len(self.words), size)]

    def asked(self, lanes: Iterable[int]) -> dict[int, set[int]]:
        """The different words that these lanes ask for, by bank."""
        banks: dict[int, set[int]] = defaultdict(set)
        for lane in lanes:
            for word in range(self.words[lane], self.words[lane] + self.width):
                banks[word % BANKS].add(word)
        return banks

    def turns(self, lanes: Iterable[int]) -> int:
        """How often a bank is asked by these lanes; 1 is no conflict."""
        return max(map(len, self.asked(lanes).values()))

    @property
    def passes(self) -> int:
        """Passes of the load/store pipe that the instruction takes.

        Since Volta each pass returns 128 bytes, of twice as many lanes where all lanes i and i ^ 1, or all lanes i and
        i ^ 2, ask for the same address (Greg Smith, forums.developer.nvidia.com/t/77228).
        """
        lanes, size, found = len(self.words), 2 * BANKS // self.width, 0
        for at in range(0, lanes, size):
            part = range(at, min(at + size, lanes))
            pairs = ([(lane, lane ^ bit) for lane in part if lane ^ bit < lanes] for bit in (1, 2))
            together = self.width == 1 or any(all(self.words[a] == self.words[b] for a, b in each) for each in pairs)
            groups = [part] if together else [part[: size // 2], part[size // 2 :]]
            found += sum(self.turns(group) for group in groups if group)
        return found

    @property
    def degree(self) -> int:
        """The most turns that a group of its lanes takes."""
        return max(map(self.turns, self.groups()))

    @property
    def conflicts(self) -> int:
        """Turns beyond one for each group of lanes."""
        return sum(self.turns(lanes) - 1 for lanes in self.groups())


@dataclass(frozen=True)
class Layout:
    """What a block does: its tile, who owns which result, and what warp 0 asks of global and shared memory.

    `tile` is BM, BN and BK, where 0 says that no tiles are copied. `owner` takes the row and the column of a result in
    the block's tile and gives the thread. `loads` are the elements of A and B that the first global load or copy of
    warp 0 fetches; `used` are the words of shared memory that a tile of A and of B fill. `stages` are the
    buffers that take turns, where there are any.
    """

    tile: tuple[int, int, int]
    threads: int
    owner: Callable[[int, int], int]
    loads: Mapping[str, frozenset[Element]]
    accesses: tuple[Access, ...] = ()
    used: Mapping[str, frozenset[int]] = field(default_factory=dict)
    stages: int = 2

    @cached_property
    def owned(self) -> dict[int, list[Element]]:
        """The results of each thread, row by row."""
        found: dict[int, list[Element]] = defaultdict(list)
        for row in range(self.tile[0]):
            for col in range(self.tile[1]):
                found[self.owner(row, col)].append((row, col))
        return dict(found)

    @property
    def is_whole(self) -> bool:
        """Whether the threads share the block's tile evenly, in two stages at least, as the rungs' asserts demand."""
        return (
            self.stages > 1
            and set(self.owned) == set(range(self.threads))
            and len(set(map(len, self.owned.values()))) == 1
        )

    def passes_per_ffma(self, k: int, n: int) -> float:
        """Passes of the load/store pipe for each FFMA of a warp, in a product whose A has rows of k and B of n floats.

        Without a tile a step of k is one load of A and one of B for one FFMA. With one they are what a warp loads from
        and stores to shared memory, and its part of the tile's global loads.
        """
        loaded = {}
        for name, width in (("A", k), ("B", n)):
            elements = self.loads[name]
            passes = global_passes(row * width + col for row, col in elements) if len(elements) <= WARP_LOADS else 0
            loaded[name] = passes / len(elements)
        bm, bn, bk = self.tile
        if not bk:
            return sum(loaded[name] * len(self.loads[name]) for name in loaded)
        ffmas = bm * bn * bk / 32 / self.warps
        shared = sum(access.passes * access.times for access in self.accesses)
        return (shared + bk * (bm * loaded["A"] + bn * loaded["B"]) / self.warps) / ffmas

    def of_warp(self, warp: int) -> list[Element]:
        """The results of a warp."""
        return sorted(each for tid in range(32 * warp, 32 * warp + 32) for each in self.owned.get(tid, ()))

    @property
    def warps(self) -> int:
        """The warps of a block that compute results."""
        return -(-self.threads // 32)

    def access(self, name: str) -> Access:
        """The shared access of this name."""
        return next(each for each in self.accesses if each.name == name)


def global_passes(words: Iterable[int]) -> int:
    """Passes that L1 takes for these words of global memory: by the words of a bank, and by TAGS lines at a time.

    (Greg Smith, forums.developer.nvidia.com/t/49571.)
    """
    banks, asked = defaultdict(int), set(words)
    for word in asked:
        banks[word % BANKS] += 1
    return max(*banks.values(), math.ceil(len({word // LINE for word in asked}) / TAGS))


def pieces(elements: Iterable[Element]) -> list[tuple[int, int, int, int]]:
    """The rectangles that a set of elements is made of: row, column, rows, columns of each."""
    runs: dict[int, list[tuple[int, int]]] = {}  # row -> (column, columns)
    for row, col in sorted(set(elements)):
        in_row = runs.setdefault(row, [])
        if in_row and sum(in_row[-1]) == col:
            in_row[-1] = (in_row[-1][0], in_row[-1][1] + 1)
        else:
            in_row.append((col, 1))
    found: dict[tuple[int, int, int], int] = {}  # (column, columns, row behind the last) -> rows
    for row, in_row in runs.items():
        for col, cols in in_row:
            found[col, cols, row + 1] = found.pop((col, cols, row), 0) + 1
    return sorted((end - rows, col, rows, cols) for (col, cols, end), rows in found.items())


def sectors(elements: Iterable[Element]) -> dict[Element, set[int]]:
    """The sectors of a row-major matrix that elements lie in: row and number in the row -> words used of its 8."""
    found: dict[Element, set[int]] = defaultdict(set)
    for row, col in sorted(elements):
        found[row, col // SECTOR].add(col % SECTOR)
    return dict(found)


Place = Callable[[int, int], int]  # step of p, row of A or column of B -> word of the tile


def _one_each(constants: Constants, owner: Callable[[int, int], int], at: Callable[[int], Element]) -> Layout:
    """One result a thread and no shared memory; `at` is where a thread's result is."""
    bm, bn = constants["BM"], constants["BN"]
    results = [at(tid) for tid in range(min(32, bm * bn))]
    loads = {"A": frozenset((row, 0) for row, _ in results), "B": frozenset((0, col) for _, col in results)}
    return Layout((bm, bn, 0), bm * bn, owner, loads)


def naive(constants: Constants) -> Layout:
    """Neighbouring threads compute neighbouring rows."""
    bm = constants["BM"]
    return _one_each(constants, lambda row, col: col * bm + row, lambda tid: (tid % bm, tid // bm))


def coalesced(constants: Constants) -> Layout:
    """Neighbouring threads compute neighbouring columns."""
    bn = constants["BN"]
    return _one_each(constants, lambda row, col: row * bn + col, lambda tid: divmod(tid, bn))


Widths = tuple[int, int]  # words of A and of B that a thread accesses at once


@dataclass(frozen=True)
class Tiles:
    """The sides of a block's tiles and of a thread's."""

    bm: int
    bn: int
    bk: int
    tm: int
    tn: int

    @classmethod
    def of(cls, constants: Constants) -> Tiles:
        """Those that the macros of a rung name."""
        return cls(*(constants[name] for name in ("BM", "BN", "BK", "TM", "TN")))

    def layout(
        self,
        threads: int,
        owner: Callable[[int, int], int],
        first: Callable[[int], Element],
        places: tuple[Place, Place],
        loaded: Widths = (4, 4),
        copied: Widths = (4, 4),
        steps: int = 0,
    ) -> Layout:
        """The layout of a rung that copies these tiles to shared memory; `first` is a thread's first result.

        A thread copies `copied` neighbours at once, of A along p, of B along the row, but stores those of A one by one.
        Of A neighbouring threads copy so many `steps` of p, by default all of the tile.
        """
        bm, bn, bk = self.bm, self.bn, self.bk
        lanes = range(min(32, threads))
        results = [first(t) for t in lanes]
        steps, across = steps or bk // copied[0], bn // copied[1]
        from_a = [(t // steps, t % steps * copied[0]) for t in lanes]
        from_b = [(t // across, t % across * copied[1]) for t in lanes]
        place_a, place_b = places

        def access(name: str, place: Place, at: Sequence[Element], width: int, elements: int) -> Access:
            words = tuple(place(p, index) for p, index in at)
            return Access(name, words, tuple(p for p, _ in at), width, elements // width)

        return Layout(
            tile=(bm, bn, bk),
            threads=threads,
            owner=owner,
            loads={"A": _vectors(from_a, copied[0]), "B": _vectors(from_b, copied[1])},
            accesses=(
                access("load of A", place_a, [(0, row) for row, _ in results], loaded[0], bk * self.tm),
                access("load of B", place_b, [(0, col) for _, col in results], loaded[1], bk * self.tn),
                access("store of A", place_a, [(p, row) for row, p in from_a], 1, bm * bk // threads),
                access("store of B", place_b, from_b, copied[1], bk * bn // threads),
            ),
            used={
                "A": frozenset(place_a(p, row) for p in range(bk) for row in range(bm)),
                "B": frozenset(place_b(p, col) for p in range(bk) for col in range(bn)),
            },
        )

    def by_thread(self, places: tuple[Place, Place], loaded: Widths = (4, 4), copied: Widths = (4, 4)) -> Layout:
        """TM x TN neighbouring results a thread, threads row by row."""
        tm, tn, across = self.tm, self.tn, self.bn // self.tn

        def owner(row: int, col: int) -> int:
            return row // tm * across + col // tn

        def first(tid: int) -> Element:
            return tid // across * tm, tid % across * tn

        return self.layout(self.bm // tm * across, owner, first, places, loaded, copied)

    def by_element(self) -> Layout:
        """Tiles that are copied element by element, A's as it is.

        The compiler joins loads of up to 4 neighbours: of A along p, of B along the row.
        """
        places: tuple[Place, Place] = (lambda p, row: row * self.bk + p, lambda p, col: p * self.bn + col)
        return self.by_thread(places, (math.gcd(self.bk, 4), math.gcd(self.tn, 4)), (1, 1))


def _vectors(first: Iterable[Element], width: int) -> frozenset[Element]:
    """The elements that lanes fetch, each `width` of a row from its first on."""
    return frozenset((row, col + v) for row, col in first for v in range(width))


def tiled(constants: Constants) -> Layout:
    """Square tiles, and one result a thread."""
    return Tiles(*[constants["TILE"]] * 3, 1, 1).by_element()


def tiled_1d(constants: Constants) -> Layout:
    """A column of results a thread."""
    return Tiles.of({**constants, "TN": 1}).by_element()


def tiled_2d(constants: Constants) -> Layout:
    """A tile of results a thread."""
    return Tiles.of(constants).by_element()


def vectorized(constants: Constants) -> Layout:
    """Tiles that are copied by 16 bytes, A's transposed on its way."""
    tiles = Tiles.of(constants)
    return tiles.by_thread((lambda p, row: p * tiles.bm + row, lambda p, col: p * tiles.bn + col))


def conflict_free(constants: Constants) -> Layout:
    """LAYOUT = 1 or 2 of the tiles' rows."""
    tiles = Tiles.of(constants)
    return tiles.by_thread({1: _reordered, 2: _padded}[constants["LAYOUT"]](tiles))


def _reordered(tiles: Tiles) -> tuple[Place, Place]:
    """LAYOUT = 1: of A's rows half trade places, of B the first vectors of all threads come before the second."""
    bm, bn, bk, tn = tiles.bm, tiles.bn, tiles.bk, tiles.tn
    gap = 128 // tn
    pitch = bn + (tn // 4 - 1) * gap

    def place_b(p: int, col: int) -> int:
        return p * pitch + col % tn // 4 * (bn // tn * 4 + gap) + col // tn * 4 + col % 4

    return lambda p, row: p * bm + (row ^ (p // 4 * (128 // bk) % 32)), place_b


def _padded(tiles: Tiles) -> tuple[Place, Place]:
    """LAYOUT = 2: gaps between A's rows and steps of p, and a vector left out after every 32 columns of B."""
    gap = 128 // tiles.bk
    pitch_a, pitch_b = tiles.bm + 32 - gap, tiles.bn + tiles.bn // 32 * 4
    return lambda p, row: p * pitch_a + row + p // 4 * gap, lambda p, col: p * pitch_b + col + col // 32 * 4


def warp_tiled(constants: Constants, copied: Widths = (4, 4), steps: int = 0) -> Layout:
    """Warps of WM x WN results; a thread's TM x TN are blocks of 4 x 4 that lie STEP rows or columns apart."""
    tiles, wm, wn = Tiles.of(constants), constants["WM"], constants["WN"]
    pitch = tiles.bm + 4
    across, lanes_across = tiles.bn // wn, wn // tiles.tn
    step_m, step_n = 4 * wm // tiles.tm, 4 * wn // tiles.tn

    def owner(row: int, col: int) -> int:
        lane = row % wm % step_m // 4 * lanes_across + col % wn % step_n // 4
        return 32 * (row // wm * across + col // wn) + lane

    def first(tid: int) -> Element:
        warp, lane = divmod(tid, 32)
        return warp // across * wm + lane // lanes_across * 4, warp % across * wn + lane % lanes_across * 4

    places: tuple[Place, Place] = (lambda p, row: p * pitch + row, lambda p, col: p * tiles.bn + col)
    return tiles.layout(tiles.bm // wm * across * 32, owner, first, places, copied=copied, steps=steps)


def async_copy(constants: Constants) -> Layout:
    """Asynchronous copies, of A element by element, 8 steps of p beside each other."""
    return replace(warp_tiled(constants, copied=(1, 4), steps=8), stages=constants["STAGES"])


def tma(constants: Constants) -> Layout:
    """As `async_copy`, but one thread has all of B's tile copied."""
    layout = async_copy(constants)
    _, bn, bk = layout.tile
    box = frozenset((p, col) for p in range(bk) for col in range(bn))
    loads = tuple(each for each in layout.accesses if each.name.startswith("load"))
    return replace(layout, loads={**layout.loads, "B": box}, accesses=loads)


LAYOUTS: Mapping[str, Callable[[Constants], Layout]] = {
    **{"naive": naive, "coalesced": coalesced, "tiled": tiled, "tiled_1d": tiled_1d, "tiled_2d": tiled_2d},
    **{"vectorized": vectorized, "conflict_free": conflict_free, "warp_tiled": warp_tiled},
    **{"double_buffered": warp_tiled, "async_copy": async_copy, "tma": tma},
}


def layout_of(entry: str, constants: Constants) -> Layout | None:
    """The layout of an entry with these constants; None where it has none, they make no tile, or one is missing."""
    try:
        layout = LAYOUTS[entry](constants)
        return layout if layout.is_whole else None
    except (KeyError, ZeroDivisionError):
        return None
