"""The figures: one message each, the same colour for the same rung everywhere, cuBLAS and the ceiling as references."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure
from PIL import Image

from ladder.model.precision import name_of

WIDTH, HEIGHT, DPI = 6.5, 5.2, 150  # inches, without the labels at the right, and dots an inch
LABEL_GAP = 0.038  # smallest distance of two labels, as a share of the axis
# Paul Tol's «muted» scheme, nine colours that colour-blind readers can tell apart (SRON, Colour Schemes).
PALETTE = ("#332288", "#cc6677", "#117733", "#88ccee", "#882255", "#44aa99", "#999933", "#aa4499", "#ddcc77")
_LINES = ("-", (0, (4, 1)), (0, (1, 1)))  # one for each time that the colours are used up
_FACES = (None, "white", "white")  # of the markers, in step with the lines; None is the line's own colour
_MARKERS = "osD^vPX*<>"  # ten for nine colours: entries of one colour have different ones
PLAIN = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}  # behind a text, so that no grid line crosses it
TEXT_SIZES = {"axes.titlesize": 12, "axes.labelsize": 10, "xtick.labelsize": 9, "ytick.labelsize": 9}
FIXED = {"svg.hashsalt": "gemm-ladder", "svg.fonttype": "path", "font.family": "DejaVu Sans"}


def styles(rungs: pd.DataFrame, baseline: str, ladder: Sequence[str] = ()) -> dict[str, dict[str, object]]:
    """Colour, line and marker of each rung by its entry's place in the ladder; the baseline is black and dashed.

    Variants of one entry share its colour and differ in their markers. `rungs` is the table of rungs, `ladder` the
    entries in climbing order, which are the table's own where it is empty. A rung may be named by its label.
    """
    named = [*ladder, *(name_of(name).split("@")[0] for name in rungs["rung"])]
    entries = [entry for entry in dict.fromkeys(named) if entry != baseline]
    found: dict[str, dict[str, object]] = {baseline: {"color": "black", "marker": "None", "linestyle": "--"}}
    variants: dict[str, int] = {}
    for name in rungs["rung"]:
        if name == baseline:
            continue
        entry = name_of(name).split("@")[0]
        index = entries.index(entry)
        variants[entry] = variants.get(entry, -1) + 1
        color, lap = PALETTE[index % len(PALETTE)], index // len(PALETTE) % len(_LINES)
        found[name] = {
            "color": color,
            "linestyle": _LINES[lap],
            "marker": _MARKERS[(index + variants[entry]) % len(_MARKERS)],
            "markerfacecolor": _FACES[lap] or color,
        }
    return found


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Sorted heights moved as little as needed to stand at least `gap` apart, from 0 to 1 if there is room.

    Runs of labels that collide are merged and laid out around their mean: the pool-adjacent-violators idea.
    """
    groups: list[list[float]] = []
    for height in heights:
        groups.append([height])
        while len(groups) > 1 and _bottom(groups[-1], gap) < _bottom(groups[-2], gap) + len(groups[-2]) * gap:
            last = groups.pop()
            groups[-1] += last
    places = [_bottom(group, gap) + index * gap for group in groups for index in range(len(group))]
    floor, ceiling = 0.0, 1.0
    for index, place in enumerate(places):
        places[index] = max(place, floor)
        floor = places[index] + gap
    for index in reversed(range(len(places))):
        places[index] = min(places[index], ceiling)
        ceiling = places[index] - gap
    return places


def _bottom(group: Sequence[float], gap: float) -> float:
    return sum(group) / len(group) - (len(group) - 1) * gap / 2


def save(figure: Figure, paths: Sequence[Path]) -> None:
    """Write a figure as SVG, and as PNG of at most 256 colours; the bytes depend on what is drawn alone."""
    with mpl.rc_context({**mpl.rcParamsDefault, **FIXED}):
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".svg":
                figure.savefig(path, metadata={"Date": None, "Creator": None})
                continue
            drawn = BytesIO()
            figure.savefig(drawn, format="rgba")
            pixels = figure.canvas.get_width_height()
            picture = Image.frombytes("RGBA", pixels, drawn.getvalue()).convert("RGB")
            # Median cut, of Pillow's methods the one that keeps the grid's greys without a tint, refined until a round
            # moves no more than a thousand pixels.
            few = picture.quantize(256, method=Image.Quantize.MEDIANCUT, kmeans=1000, dither=Image.Dither.NONE)
            few.save(path, format="png", optimize=True)
