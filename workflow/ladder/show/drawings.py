"""One drawing a tutorial rung: its tiles, threads, banks and buffers, as SVG made from the rung's own constants."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from xml.sax.saxutils import escape

from ladder.config.search_space import macros_of
from ladder.model.layouts import BANKS, SECTOR, Access, Constants, Element, Layout, layout_of, pieces, sectors
from ladder.model.rung import Rung
from ladder.show.dark import for_both

# Colours of ladder.figures.PALETTE, by what they mean in every drawing.
OF_A, OF_B, WARP, THREAD = "#88ccee", "#ddcc77", "#44aa99", "#332288"
COPY, STORE, MULTIPLY = "#aa4499", "#999933", "#117733"
PALE_A, PALE_B, PALE_WARP, PALER_WARP, PALE_COPY = "#dbf0fa", "#f5f1dc", "#bee2dc", "#daefeb", "#e3c4e2"
ONE_TURN, TWO_TURNS, MORE_TURNS = "#44aa99", "#cc6677", "#882255"  # of a bank
INK, _GREY, PALE, PAPER = "#1b1f24", "#57606a", "#d0d7de", "#ffffff"

ACROSS, MARGIN = 400, 10  # of a drawing, in its own units; a phone shows it 315 pixels wide
INNER = ACROSS - 2 * MARGIN
_SIZE, SMALL, LEADING = 14, 12, 18  # of text, of text inside figures, from line to line
TITLE, TITLE_LEADING = 17, 22
# Width of a character over the size of the font, for the widest of the usual sans-serif fonts, on average.
PLAINPICTURE_WIDTH, BOLDPICTURE_WIDTH = 0.56, 0.64


@dataclass(frozen=True)
class Panel:
    """A part of a drawing: its height and its elements, in coordinates that begin at its own top."""

    height: float
    elements: tuple[str, ...]


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _tag(name: str, content: str = "", **attributes: float | str) -> str:
    written = "".join(
        f' {key.replace("_", "-")}="{_number(value) if isinstance(value, (int, float)) else value}"'
        for key, value in attributes.items()
    )
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def _group(elements: Iterable[str], **attributes: float | str) -> str:
    return _tag("g", "\n" + "\n".join(elements) + "\n", **attributes)


def _box(x: float, y: float, width: float, height: float, fill: str = "", **more: float | str) -> str:
    """A rectangle; without a fill it has that of its group."""
    return _tag("rect", x=x, y=y, width=width, height=height, **({"fill": fill} if fill else {}), **more)


def _text(x: float, y: float, words: str, size: int = _SIZE, fill: str = INK, **more: float | str) -> str:
    """A line of text; its group, or else the drawing, names the usual size and colour."""
    own = ({"font_size": size} if size != _SIZE else {}) | ({"fill": fill} if fill != INK else {})
    return _tag("text", escape(words), x=x, y=y, **own, **more)


def _middle(x: float, y: float, words: str, fill: str = INK) -> str:
    return _text(x, y, words, SMALL, text_anchor="middle", fill=fill)


def _row_label(x: float, y: float, words: str) -> str:
    return _text(x, y, words, SMALL, text_anchor="end", fill=_GREY)


def _outline(elements: Iterable[Element], x: float, y: float, x_scale: float, y_scale: float) -> str:
    """The rectangles of elements of a matrix whose element 0, 0 lies at x, y; 2 wide and high at least."""
    rectangles = []
    for row, col, rows, cols in pieces(elements):
        wide, high = (_number(max(each, 2)) for each in (cols * x_scale, rows * y_scale))
        rectangles.append(f"M{_number(x + col * x_scale)} {_number(y + row * y_scale)}h{wide}v{high}h-{wide}z")
    return "".join(rectangles)


def _region(*outlines: str, fill: str, **more: float | str) -> str:
    return _tag("path", d="".join(outlines), fill=fill, **more)


def _arrow(x: float, y: float, dx: float, dy: float) -> str:
    """A line from a place on, along one axis, with a head."""
    x2, y2 = x + dx, y + dy
    head = [(x2, y2), *((x2 - 7, y2 + side) if dx else (x2 + side, y2 - 7) for side in (-4, 4))]
    points = " ".join(f"{_number(a)},{_number(b)}" for a, b in head)
    line = _tag("line", x1=x, y1=y, x2=x2, y2=y2, stroke=_GREY, stroke_width=1.5)
    return line + _tag("polygon", points=points, fill=_GREY)


def _cells(x: float, y: float, size: tuple[float, float], colors: Sequence[str]) -> list[str]:
    """A row of cells of these colours in a frame, with lines between them."""
    width, height = size
    runs, begin = [], 0
    for end in range(1, len(colors) + 1):
        if end == len(colors) or colors[end] != colors[begin]:
            runs.append(_box(x + begin * width, y, (end - begin) * width, height, colors[begin]))
            begin = end
    lines = "".join(f"M{_number(x + i * width)} {_number(y)}v{_number(height)}" for i in range(1, len(colors)))
    frame = _box(x, y, len(colors) * width, height, "none", stroke=PALE)
    return [*runs, _tag("path", d=lines, stroke=PALE, stroke_width=0.8), frame]


def wrapped(words: str, size: int, width: float, bold: bool = False) -> list[str]:
    """The words in lines that fit the width in any usual sans-serif font; `32 x 8` and `BK = 16` stay together."""
    for sign in (" x ", " = ", " + "):
        words = words.replace(sign, sign.replace(" ", "\u00a0"))
    most = int(width / (size * (BOLDPICTURE_WIDTH if bold else PLAINPICTURE_WIDTH)))
    return textwrap.wrap(words, most, break_long_words=False, break_on_hyphens=False)


def _paragraph(words: str, x: float = MARGIN, bold: bool = False, size: int = _SIZE, leading: int = LEADING) -> Panel:
    lines = wrapped(words, size, ACROSS - MARGIN - x, bold)
    weight = {"font_weight": "bold"} if bold else {}
    texts = tuple(_text(x, leading * (i + 1) - 4, line, size, **weight) for i, line in enumerate(lines))
    return Panel(leading * len(lines), texts)


def _entry(color: str, words: str) -> Panel:
    """An entry of a legend."""
    said = _paragraph(words, MARGIN + 20)
    return Panel(said.height + 3, (_box(MARGIN, 3, 12, 12, color), *said.elements))


def _gap(height: float) -> Panel:
    return Panel(height, ())


def _heading(words: str) -> list[Panel]:
    return [_gap(14), _paragraph(words, bold=True), _gap(5)]


def _stacked(panels: Iterable[Panel]) -> Panel:
    height, groups = 0.0, []
    for panel in panels:
        if panel.elements:
            groups.append(_group(panel.elements, transform=f"translate(0 {_number(height)})"))
        height += panel.height
    return Panel(height, tuple(groups))


def _extent(elements: Iterable[Element]) -> tuple[int, int]:
    """How many different rows and columns there are."""
    rows, cols = zip(*elements, strict=True)
    return len(set(rows)), len(set(cols))


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'s' if number != 1 else ''}"


def _results(elements: Sequence[Element]) -> str:
    """`8 x 8 results, in 4 blocks of 4 x 4`."""
    rows, cols = _extent(elements)
    parts = pieces(elements)
    blocks = f", in {len(parts)} blocks of {parts[0][2]} x {parts[0][3]}" if len(parts) > 1 else ""
    return f"{rows} x {cols} results{blocks}" if len(elements) > 1 else "1 result"


def _fetched(name: str, elements: Iterable[Element]) -> str:
    """`8 rows x 64 bytes of A`, on one line."""
    rows, cols = _extent(elements)
    return f"{_count(rows, 'row')} x {4 * cols} bytes of {name}".replace(" ", "\u00a0")


def _block(layout: Layout, constants: Constants, load: str = "one load of warp 0") -> list[Panel]:
    """The block's tiles of A, B and C; whose results are whose; what warp 0 fetches at once."""
    bm, bn, bk = layout.tile
    names = ["TILE"] * 3 if "TILE" in constants else ["BM", "BN", "BK"]
    along = f"{names[2]} = {bk} steps along k at a time" if bk else "step by step along k"
    head = f"{_count(layout.threads, 'thread')} compute {names[0]} x {names[1]} = {bm} x {bn} results, {along}"
    of_a, of_b = (_fetched(name, layout.loads[name]) for name in ("A", "B"))
    return [
        *_heading(head),
        _tiles(layout),
        _entry(WARP, f"warp 0 of {layout.warps}: {_results(layout.of_warp(0))}"),
        _entry(THREAD, f"thread 0: {_results(layout.owned[0])}"),
        _entry(COPY, f"{load}: {of_a} or {of_b}"),
    ]


def _tiles(layout: Layout) -> Panel:
    """A at the left, B above, C: the block's tile of each, to one scale, and in C's the warps."""
    bm, bn, bk = layout.tile
    pad, gap, label = 20, 16, 18
    scale = min((INNER - gap - 2 * pad - 96) / bn, (INNER - gap - 4 * pad) / (bn + bk), 300 / (bm + bk), 9)
    wide_c, high_c = max(bn * scale + 2 * pad, 144), bm * scale + 2 * pad
    wide_a, high_b = INNER - gap - wide_c, max(64.0, bk * scale + 2 * pad)
    left_c, top_c = MARGIN + wide_a + gap, label + high_b + gap
    row, col = top_c + pad, left_c + (wide_c - bn * scale) / 2  # where the block's tile of C begins
    at_a, at_b = MARGIN + (wide_a - bk * scale) / 2, label + (high_b - bk * scale) / 2

    matrices = [
        _box(MARGIN, top_c, wide_a, high_c), _box(left_c, label, wide_c, high_b), _box(left_c, top_c, wide_c, high_c),
    ]  # fmt: skip
    warps = [_outline(layout.of_warp(warp), col, row, scale, scale) for warp in range(layout.warps)]
    loads = [
        _outline(layout.loads["A"], at_a, row, scale, scale), _outline(layout.loads["B"], col, at_b, scale, scale),
    ]  # fmt: skip
    parts = [
        _group(matrices, fill=PAPER, stroke=_GREY),
        _box(MARGIN, row, wide_a, bm * scale, PALE_A),
        _box(col, label, bn * scale, high_b, PALE_B),
    ]
    if bk:
        tiles = [_box(at_a, row, bk * scale, bm * scale, OF_A), _box(col, at_b, bn * scale, bk * scale, OF_B)]
        parts.append(_group(tiles, stroke=INK))
    parts += [
        _region(*warps[1:], fill=PALER_WARP, stroke=INK, stroke_width=0.6),
        _region(warps[0], fill=WARP, stroke=INK, stroke_width=0.6),
        _region(_outline(layout.owned[0], col, row, scale, scale), fill=THREAD),
        _region(*loads, fill=COPY),
        _arrow(MARGIN + 8, top_c + high_c - 9, wide_a - 16, 0),
        _arrow(left_c + wide_c - 9, label + 8, 0, high_b - 16),
        _text(MARGIN, top_c - 5, "A, m x k"),
        _text(left_c, label - 5, "B, k x n"),
        _text(left_c + wide_c, label - 5, f"{bn} columns", SMALL, text_anchor="end", fill=_GREY),
        _text(left_c, top_c + high_c + 15, "C, m x n"),
        _text(MARGIN, top_c + high_c + 15, f"{bm} rows", SMALL, fill=_GREY),
    ]
    return Panel(top_c + high_c + 26, tuple(parts))


def _warp(layout: Layout, _: Constants) -> list[Panel]:
    """Warp 0 enlarged, its threads numbered; what thread 0 multiplies in a step along k at the left and above."""
    results = layout.of_warp(0)
    own = layout.owned[0]
    rows, cols = ({element[axis] for element in results} for axis in (0, 1))
    strip, gap, label = 14, 6, 18
    left, top = MARGIN + label + strip + gap, label + strip + gap
    (_, _, tall, across), *_ = pieces(own)
    x_scale = min((ACROSS - MARGIN - left) / len(cols), 300 / len(rows), 24)
    y_scale = max(x_scale, min(16 / tall, 260 / len(rows)))

    def of_c(elements: Iterable[Element]) -> str:
        return _outline(elements, left, top, x_scale, y_scale)

    def of_a(elements: Iterable[Element]) -> str:
        return _outline({(row, 0) for row, _ in elements}, MARGIN + label, top, strip, y_scale)

    def of_b(elements: Iterable[Element]) -> str:
        return _outline({(0, col) for _, col in elements}, left, label, x_scale, strip)

    lanes = range(min(32, layout.threads))
    every = next((step for step in (1, 2, 4, 8, 16) if step * across * x_scale >= 16), 32)
    numbers = []
    for lane in lanes[::every]:
        (r, c, _, _), *_ = pieces(layout.owned[lane])
        x, y = left + (c + across / 2) * x_scale, top + (r + tall / 2) * y_scale + 4.3
        numbers.append(_text(x, y, str(lane), fill=INK if lane else PAPER))
    parts = [
        _region(of_a(results), fill=OF_A),
        _region(of_b(results), fill=OF_B),
        _region(*(of_c(layout.owned[lane]) for lane in lanes[1:]), fill=PALE_WARP, stroke=PAPER),
        _region(of_c(own), of_a(own), of_b(own), fill=THREAD, stroke=PAPER),
        _group(numbers, text_anchor="middle", font_size=SMALL),
        _text(MARGIN, top + 12, "A"),
        _text(left, label - 5, "B"),
    ]
    m, n = _extent(own)
    said = (
        f"In a step along k thread 0 multiplies {_count(m, 'value')} of A by {n} of B (dark). The warp needs "
        f"{len(rows)} + {len(cols)} values for its {len(results)} multiply-adds."
    )
    heading = _heading("Warp 0: which thread computes what")
    return [*heading, Panel(top + len(rows) * y_scale + 8, tuple(parts)), _paragraph(said)]


def _sectors(layout: Layout, _: Constants) -> list[Panel]:
    """The sectors of global memory that warp 0 fetches for one step along k, and the words used of them."""
    cell, height, gap, row_height = 10.6, 11, 9, 16
    panels = _heading("What warp 0 fetches in one step along k, in sectors of 32 bytes")
    total = 0
    for name, color in (("A", PALE_A), ("B", PALE_B)):
        found = list(sectors(layout.loads[name]).values())
        total += len(found)
        used = 4 * sum(map(len, found))
        panels.append(_paragraph(f"{name}: {_count(len(found), 'sector')}, {used} of {32 * len(found)} bytes used"))
        parts = []
        for index, words in enumerate(found):
            x, y = MARGIN + index % 4 * (SECTOR * cell + gap), index // 4 * row_height + 3
            parts += _cells(x, y, (cell, height), [COPY if word in words else color for word in range(SECTOR)])
        panels.append(Panel(-(-len(found) // 4) * row_height + 6, tuple(parts)))
    lanes = min(32, layout.threads)
    return [*panels, _paragraph(f"{_count(total, 'sector')} for {lanes} multiply-adds")]


def _turns_color(turns: int) -> str:
    return {0: PAPER, 1: ONE_TURN, 2: TWO_TURNS}.get(turns, MORE_TURNS)


def _lanes(lanes: Sequence[int]) -> str:
    return f"{lanes[0]}" if len(lanes) == 1 else f"{lanes[0]}-{lanes[-1]}"


def _shared(*names: str) -> Callable[[Layout, Constants], list[Panel]]:
    """The panels that show these shared accesses."""

    def panels(layout: Layout, _: Constants) -> list[Panel]:
        head = "Shared memory: in a turn each of its 32 banks gives one word of 4 bytes"
        found = [*_heading(head), *(panel for name in names for panel in _banks(layout, name))]
        if any(word not in layout.used[name[-1]] for name in names for word in _drawn_words(layout.access(name))):
            found.append(_entry(PALE, "gap: words that hold nothing"))
        return found

    return panels


def _slowest(access: Access) -> range:
    """Of the groups of lanes that are served together the first that takes most turns: the one that is drawn."""
    return max(access.groups(), key=access.turns)


def _drawn_words(access: Access) -> list[int]:
    """The words of all lines of 32 banks that the drawn lanes touch."""
    lines = {word // BANKS for words in access.asked(_slowest(access)).values() for word in words}
    return [BANKS * line + bank for line in sorted(lines) for bank in range(BANKS)]


def _banks(layout: Layout, name: str) -> list[Panel]:
    """The lines of 32 banks that threads served together touch in an access, and how many words of each bank."""
    access = layout.access(name)
    group = _slowest(access)
    asked, most = access.asked(group), access.turns(group)
    left, height = MARGIN + 58, 16
    cell = (ACROSS - MARGIN - left) / BANKS
    used = layout.used[name[-1]]
    parts, y, last = [], 2.0, ""
    drawn = _drawn_words(access)
    for words in (drawn[at : at + BANKS] for at in range(0, len(drawn), BANKS)):
        here = [lane for lane in group if access.words[lane] in words]
        label = f"step {access.steps[here[0]]}" if here else last
        parts += [_row_label(left - 8, y + 12, label)] if label != last else []
        last = label
        colors = [
            _turns_color(len(asked[word % BANKS])) if word in asked.get(word % BANKS, ())
            else PAPER if word in used else PALE
            for word in words
        ]  # fmt: skip
        parts += _cells(left, y, (cell, height - 2), colors)
        parts += _vectors(access, here, left, y, (cell, height - 2), _turns_color(most))
        y += height
    y += 4
    numbers = [len(asked.get(bank, ())) for bank in range(BANKS)]
    parts.append(_row_label(left - 8, y + 12, "words"))
    parts += _cells(left, y, (cell, height), [_turns_color(number) for number in numbers])
    digits = [
        _text(left + (bank + 0.5) * cell, y + 12, str(number), fill=PAPER if number > 2 else INK)
        for bank, number in enumerate(numbers)
        if number > 1
    ]
    parts.append(_group(digits, text_anchor="middle", font_size=SMALL))
    y += 30
    parts.append(_row_label(left - 8, y, "bank"))
    parts += [_middle(left + (bank + 0.5) * cell, y, str(bank), _GREY) for bank in (0, 8, 16, 24, 31)]
    shares = len({access.words[lane] for lane in group}) < len(group)
    one = "One word of a bank, which threads share" if shares else "One word of a bank at most"
    verdict = f"{f'{most} different words of a bank' if most > 1 else one}: {_count(most, 'turn')}"
    head = f"{name[0].upper()}{name[1:]}, {4 * access.width} bytes each, threads {_lanes(group)} together:"
    return [_paragraph(head), Panel(y + 5, tuple(parts)), _paragraph(verdict), _gap(8)]


def _vectors(
    access: Access, lanes: Iterable[int], x: float, y: float, size: tuple[float, float], color: str
) -> list[str]:
    """Over the vectors of a line their frames, and in each the threads that ask for it."""
    by_word: dict[int, list[int]] = {}
    for lane in lanes:
        by_word.setdefault(access.words[lane], []).append(lane)
    parts = []
    for word, same in by_word.items() if access.width == 4 else ():
        begin, width = x + word % BANKS * size[0], access.width * size[0]
        parts.append(_box(begin, y, width, size[1], color, stroke=INK))
        parts.append(_middle(begin + width / 2, y + 11.5, _lanes(same), PAPER if color == MORE_TURNS else INK))
    return parts


@dataclass(frozen=True)
class Bar:
    """Of a time line: what is done with a tile, by its colour, in which row, from when to when.

    Time 0 is the begin of the first multiplication, 1 the time that one takes.
    """

    row: int
    begin: float
    end: float
    action: str
    tile: int


def buffered_in_registers(tiles: int, steps: int) -> list[Bar]:
    """Two buffers and registers: a tile is loaded while the one before is multiplied, and stored in its last step."""
    bars = []
    for tile in range(tiles):
        stored = tile - 1 / steps
        bars += [
            Bar(0, tile - 1, stored, PALE_COPY, tile),
            Bar(1 + tile % 2, stored, tile, STORE, tile),
            Bar(1 + tile % 2, tile, tile + 1, MULTIPLY, tile),
        ]
    return bars


def buffered_in_stages(tiles: int, stages: int) -> list[Bar]:
    """A buffer a stage: the first are filled at once; later a tile is copied once the one before it is multiplied."""
    bars = []
    for tile in range(tiles):
        begin = -1 if tile < stages else tile - stages + 1
        bars += [
            Bar(tile % stages, begin, tile, PALE_COPY, tile),
            Bar(tile % stages, tile, tile + 1, MULTIPLY, tile),
        ]
    return bars


def _time_line(rows: Sequence[str], bars: Iterable[Bar], until: int, barriers: bool) -> Panel:
    """Rows of bars up to a time; with the barriers of all warps, or else with dots where a buffer is full and empty."""
    left, height = MARGIN + 70, 26
    unit = (ACROSS - MARGIN - left) / (until + 1)
    bottom = len(rows) * height

    def at(time: float) -> float:
        return left + (min(time, until) + 1) * unit

    parts = [_row_label(left - 8, row * height + 17, name) for row, name in enumerate(rows)]
    parts += [_box(left, row * height + 2, (until + 1) * unit, height - 5, "#eef1f4") for row in range(len(rows))]
    dots = []
    for bar in bars:
        if bar.begin >= until:
            continue
        y = bar.row * height
        width = at(bar.end) - at(bar.begin)
        parts.append(_box(at(bar.begin), y + 2, width, height - 5, bar.action, stroke=PAPER))
        if bar.action != STORE:
            x = at(bar.begin) + min(unit, width) / 2
            parts.append(_middle(x, y + 17, str(bar.tile), INK if bar.action == PALE_COPY else PAPER))
        if bar.action == MULTIPLY:
            dots += [(at(bar.begin), y, INK), *([(at(bar.end), y, PAPER)] if bar.end < until else [])]
    if barriers:
        lines = "".join(f"M{_number(at(time))} 0v{bottom}" for time in range(until))
        parts.append(_tag("path", d=lines, stroke=INK, stroke_width=1.3, stroke_dasharray="4 3"))
    else:
        circles = [_tag("circle", cx=x, cy=y + height / 2 - 0.5, r=3.8, fill=fill) for x, y, fill in dots]
        parts.append(_group(circles, stroke=INK))
    parts += [_arrow(left, bottom + 9, (until + 1) * unit, 0), _row_label(left - 8, bottom + 13, "time")]
    return Panel(bottom + 22, tuple(parts))


BARRIERS = "Dashed: a barrier of all warps, one for each tile."


def _turns(
    head: str, rows: Sequence[str], bars: Iterable[Bar], until: int, said: Sequence[Panel], note: str = ""
) -> list[Panel]:
    """Buffers that take turns, with what the colours mean; a note says what dots in the place of barriers are."""
    return [
        *_heading(f"{head} buffers take turns. The numbers are those of the tiles along k."),
        _time_line(rows, bars, until, barriers=not note),
        *said,
        _entry(MULTIPLY, "a tile that is multiplied"),
        _paragraph(f"{note or BARRIERS} The lengths are not measured."),
    ]


def _two_buffers(layout: Layout, _: Constants) -> list[Panel]:
    bars = buffered_in_registers(7, layout.tile[2])
    said = [
        _entry(PALE_COPY, "a tile on its way from global memory to registers"),
        _entry(STORE, "its store to shared memory, before the last of the steps along k"),
    ]
    return _turns("Two", ["registers", "buffer 0", "buffer 1"], bars, 6, said)


def _stages(layout: Layout, _: Constants, own_warps: bool = False) -> list[Panel]:
    stages = layout.stages
    dots = (
        f"Full dot: the tile has arrived. Open dot: each of the {layout.warps} warps that multiply has given the "
        "buffer back. They do not wait for each other."
    )
    said = _entry(PALE_COPY, f"a tile on its way to the buffer{', by warps that only copy' if own_warps else ''}")
    rows = [f"buffer {stage}" for stage in range(stages)]
    bars = buffered_in_stages(3 * stages, stages)
    return _turns(f"STAGES = {stages}", rows, bars, 2 * stages, [said], dots if own_warps else "")


@dataclass(frozen=True)
class Picture:
    """What is drawn of a rung: its message, and the panels that show its layout.

    The message may name constants, and what `_said` finds in the layout.
    """

    message: str
    panels: Sequence[Callable[[Layout, Constants], list[Panel]]]


LOADS, CONFLICTING = ("load of A", "load of B"), ("load of B", "store of A")
PICTURES: Mapping[str, Picture] = {
    "naive": Picture("a warp that walks down a column fetches {sectors}", (_block, _sectors)),
    "coalesced": Picture("a warp that walks along a row fetches {sectors}", (_block, _sectors)),
    "tiled": Picture(
        "a block loads each element of its tiles once, and {TILE} threads read it from shared memory",
        (_block, _warp, _shared(*LOADS)),
    ),
    "tiled_1d": Picture(
        "an element of B, once loaded, serves a column of {TM} results",
        (_block, _warp, _shared(*LOADS)),
    ),
    "tiled_2d": Picture(
        "{TM} + {TN} loaded values serve the {TM} x {TN} results of a thread",
        (_block, _warp, _shared(*LOADS)),
    ),
    "vectorized": Picture("16 bytes an access{conflicts}", (_block, _warp, _shared(*CONFLICTING))),
    "conflict_free": Picture("{order}{conflicts}", (_block, _warp, _shared(*CONFLICTING))),
    "warp_tiled": Picture(
        "a warp covers {WM} x {WN} results and needs {WM} + {WN} values a step",
        (_block, _warp, _shared(*CONFLICTING)),
    ),
    "double_buffered": Picture("the next tile is on its way while a tile is multiplied", (_two_buffers, _block, _warp)),
    "async_copy": Picture(
        "{ahead} on the way while a tile is multiplied",
        (_stages, partial(_block, load="one copy of warp 0"), _warp),
    ),
    "tma": Picture(
        "warps of their own copy, up to {ahead} ahead of those that multiply",
        (
            partial(_stages, own_warps=True),
            partial(_block, load="one copy by a warp (A) or by the copy engine (B)"),
            _warp,
        ),
    ),
}


def is_drawn(rung: Rung) -> bool:
    """Whether there is a drawing of a rung: of those of the tutorial."""
    return rung.entry in PICTURES


def constants_of(rung: Rung) -> dict[str, int]:
    """The macros of a rung as the largest products are computed with: of its tuned build, else the source's defaults.

    Those that are no whole numbers are left out.
    """
    own: dict[str, object] = {**macros_of(rung)}
    given = {**rung.macros, **(rung.tuned[-1].macros if rung.tuned else {})}
    own |= {name: value for name, value in given.items() if name in own}
    return {name: int(str(value)) for name, value in own.items() if str(value).isdigit()}


def title(entry: str, constants: Constants) -> str:
    """The message of an entry's drawing, `tiled_2d: 8 + 8 loaded values serve ...`."""
    return _said(entry, constants, layout_of(entry, constants))


def _said(entry: str, constants: Constants, layout: Layout | None) -> str:
    """The message with its words: what warp 0 fetches, the worst conflict, tiles on the way, the order of rows."""
    if layout is None:
        return f"{entry}: its constants make no tile that can be drawn"
    of_a, of_b = (len(sectors(layout.loads[name])) for name in ("A", "B"))
    fetched = f"{_count(of_a, 'sector')} of A and {of_b} of B for {min(32, layout.threads)} multiply-adds"
    worst = max(layout.accesses, key=lambda access: access.degree, default=None)
    conflicts = ", and no bank conflict"
    if worst and worst.degree > 1:
        conflicts = f", but a {worst.name} asks a bank for {worst.degree} words"
    order = "the tiles' rows in another order" if constants.get("LAYOUT") == 1 else "gaps in the tiles' rows"
    words = {"sectors": fetched, "conflicts": conflicts, "order": order, "ahead": _count(layout.stages - 1, "tile")}
    return f"{entry}: {PICTURES[entry].message.format(**words, **constants)}"


def drawing(entry: str, constants: Constants) -> str:
    """The drawing of an entry with these constants, as SVG; equal constants give equal bytes."""
    layout = layout_of(entry, constants)
    said = _said(entry, constants, layout)
    head = _paragraph(said, bold=True, size=TITLE, leading=TITLE_LEADING)
    panels = [panel for make in PICTURES[entry].panels for panel in make(layout, constants)] if layout else []
    sheet = _stacked([_gap(8), head, *panels, _gap(10)])
    body = "\n".join([_tag("title", escape(said)), _box(0, 0, ACROSS, sheet.height, PAPER), *sheet.elements])
    frame = f'viewBox="0 0 {ACROSS} {_number(sheet.height)}" font-family="sans-serif" font-size="{_SIZE}" fill="{INK}"'
    return for_both(f'<svg xmlns="http://www.w3.org/2000/svg" {frame}>\n{body}\n</svg>\n')


def picture(rung: Rung) -> list[str]:
    """The drawing of a rung as lines of its page, with its caption; empty where it has none."""
    if not is_drawn(rung):
        return []
    constants = constants_of(rung)
    build = ", ".join(f"{name}={value}" for name, value in constants.items())
    caption = f"Drawn from the constants that the largest products are computed with: {build}."
    return [f"![{title(rung.entry, constants)}](../drawings/{rung.name}.svg)", "", caption, ""]
