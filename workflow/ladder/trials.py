"""What the recorded trials say: their table, the best of each size, and the figure of what each parameter does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ladder.config import Rung, Shape, parse_variant
from ladder.figures import DPI, FIXED, PALETTE
from ladder.tuned import Tuned
from ladder.tuning import FINAL, SCREEN, Record

COLUMNS = [
    *("rung", "trial", "status", "message", "registers", "spill_bytes", "shape", "m", "n", "k", "round", "samples"),
    *("time_ms", "gflops", "cublas_gflops", "speedup_over_cublas", "chosen_for", "source", "measured_at"),
]
_CELL = (1.55, 1.15)  # inches of one axes of the figure


def trial_table(records: Sequence[Record], tuned: Tuned, digests: Mapping[str, str]) -> pd.DataFrame:
    """One row a trial and shape, of the round that took more samples; one row a trial that was never timed.

    Columns: rung (the entry), trial (its macros), status (`ok`, `wrong`, `failed`, `does not compile`), message,
    registers (a thread), spill_bytes (a thread's stores), shape, m, n, k, round, samples, time_ms (median), gflops,
    cublas_gflops (in the same process), speedup_over_cublas, chosen_for (the rungs whose class of this size it is),
    source (`current` or `changed since`), measured_at. `digests` are the source digests of the trials as they are now.
    """
    chosen: dict[tuple[str, str], list[str]] = {}
    for rung, classes in tuned.rungs.items():
        entry, own = parse_variant(rung)
        for shape, macros in classes.items():
            key = frozenset({**own, **{name: str(value) for name, value in macros.items()}}.items())
            chosen.setdefault((entry, f"{shape} {sorted(key)}"), []).append(rung)
    rows = []
    for record in records:
        for name in dict.fromkeys(name for name, _ in record.trials):
            trial = _decisive(record, name)
            batch = record.batches.get(trial["batch"] or "", {})
            _, macros = parse_variant(name)
            common = {
                "rung": record.entry,
                "trial": name,
                **{key: trial[key] for key in ("status", "message", "registers", "spill_bytes", "round")},
                "source": "current" if digests.get(name) == trial["source_digest"] else "changed since",
                "measured_at": batch.get("where", {}).get("measured_at", ""),
            }
            rows += [common] if not trial["times_s"] else []
            for text, times in trial["times_s"].items():
                shape = Shape.parse(text)
                median, beside = float(np.median(times)), float(np.median(batch["times_s"][text]))
                best_of = chosen.get((record.entry, f"{text} {sorted(macros.items())}"), [])
                rows.append(
                    {
                        **common,
                        **{"shape": text, "m": shape.m, "n": shape.n, "k": shape.k, "samples": len(times)},
                        "time_ms": 1e3 * median,
                        "gflops": shape.flop / median / 1e9,
                        "cublas_gflops": shape.flop / beside / 1e9,
                        "speedup_over_cublas": beside / median,
                        "chosen_for": " ".join(best_of),
                    }
                )
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.astype({name: "Int64" for name in ("registers", "spill_bytes", "m", "n", "k", "samples")})


def _decisive(record: Record, name: str) -> dict[str, object]:
    """A trial's entry of the round that decides: what failed, else the second round, else the first."""
    rounds = [record.trials[name, each] for each in (FINAL, SCREEN) if (name, each) in record.trials]
    return next((trial for trial in rounds if trial["status"] != "ok"), rounds[0])


def choose(
    records: Sequence[Record], ladder: Mapping[str, Rung], sizes: Sequence[Shape], digests: Mapping[str, str]
) -> Tuned:
    """The fastest sound trial of the second round, by rung and size; of a variant among those with its macros.

    Only trials of the sources as they are now count. A rung of which a size has none, or whose macros leave nothing to
    choose, is left out.
    """
    rungs: dict[str, dict[Shape, dict[str, int]]] = {}
    for record in records:
        for rung in (rung for rung in ladder.values() if rung.entry == record.entry):
            classes: dict[Shape, dict[str, int]] = {}
            for shape in sizes:
                found = [
                    (score, macros)
                    for name, macros, score in _finals(record, str(shape), digests)
                    if rung.macros.items() <= macros.items()
                ]
                if found:
                    _, macros = min(found, key=lambda pair: pair[0])
                    classes[shape] = {k: int(v) for k, v in macros.items() if k not in rung.macros}
            if len(classes) == len(sizes) and all(classes.values()):
                rungs[rung.name] = classes
    order = {name: place for place, name in enumerate(ladder)}
    sizes = tuple(sorted(sizes, key=lambda shape: shape.flop))
    return Tuned(sizes, {name: rungs[name] for name in sorted(rungs, key=order.__getitem__)})


def _finals(record: Record, shape: str, digests: Mapping[str, str]) -> list[tuple[str, dict[str, str], float]]:
    """Name, macros and time over cuBLAS's of the sound trials of the second round at a shape."""
    found = []
    for (name, stage), trial in record.trials.items():
        current = digests.get(name) == trial["source_digest"]
        if stage == FINAL and current and _decisive(record, name)["status"] == "ok" and shape in trial["times_s"]:
            beside = record.batches[trial["batch"]]["times_s"][shape]
            ratio = float(np.median(trial["times_s"][shape]) / np.median(beside))
            found.append((name, parse_variant(name)[1], ratio))
    return found


def recorded_on(records: Sequence[Record]) -> str:
    """On what and when the trials were measured, as the figure's caption says it."""
    places = [batch["where"] for record in records for batch in record.batches.values()]
    days = sorted({place["measured_at"][:10] for place in places})
    names = " and ".join(sorted({place["gpu"]["name"] for place in places}))
    return f"Recorded on {names}, {' to '.join(dict.fromkeys([days[0], days[-1]]))}." if places else ""


def trial_figure(trials: pd.DataFrame, caption: str) -> Figure:
    """One row of axes a rung, one column a parameter of it: a dot each trial, a line along the best of each value.

    Heights are shares of the rung's fastest trial at the size, so that sizes and rungs compare. `trials` is
    `trial_table`'s; parameters that only ever had one value are left out.
    """
    timed = trials.dropna(subset=["gflops"])
    timed = timed.assign(share=100 * timed["gflops"] / timed.groupby(["rung", "shape"])["gflops"].transform("max"))
    macros = pd.DataFrame([parse_variant(name)[1] for name in timed["trial"]], index=timed.index).apply(pd.to_numeric)
    rows: dict[str, list[str]] = {}
    for rung, part in timed.groupby("rung", sort=False):
        varied = [name for name in macros if macros.loc[part.index, name].nunique() > 1]
        if varied:
            rows[rung] = varied
    shapes = sorted(timed["shape"].unique(), key=lambda text: Shape.parse(text).flop)
    colors = {shape: PALETTE[index % len(PALETTE)] for index, shape in enumerate(shapes)}
    with mpl.rc_context({**mpl.rcParamsDefault, **FIXED}):
        sns.set_theme(style="whitegrid", rc={**FIXED, "axes.titlesize": 8, "axes.labelsize": 8})
        columns, lines = max(map(len, rows.values()), default=1), max(1, len(rows))
        size = (_CELL[0] * columns + 1.5, _CELL[1] * lines + 1.35)
        figure = Figure(figsize=size, dpi=DPI)
        grid = figure.add_gridspec(lines, columns)
        for line, (rung, varied) in enumerate(rows.items()):
            part = timed[timed["rung"] == rung]
            for column, name in enumerate(varied):
                axes = figure.add_subplot(grid[line, column])  # shared y axes take long to draw: each is set alike
                _one_parameter(axes, part, macros.loc[part.index, name], colors)
                axes.set_title(name, loc="left", pad=2)
                axes.tick_params(axis="y", labelleft=column == 0)
                if column == 0:
                    axes.set_ylabel(rung, fontsize=8, fontweight="bold")
        figure.text(0.02, 1 - 0.3 / size[1], "What each parameter does", fontsize=12, fontweight="bold")
        note = "% of the rung's fastest trial; a dot a trial, a line along the best of each value"
        figure.text(0.02, 1 - 0.52 / size[1], note, fontsize=8, color="dimgray")
        figure.text(0.02, 0.12 / size[1], caption, fontsize=7, color="dimgray")
        names = {shape: f"at {shape}" for shape in shapes}
        handles = [
            Line2D([], [], color=colors[shape], marker="o", markersize=4, label=names[shape]) for shape in shapes
        ]
        figure.legend(handles=handles, loc="upper right", ncols=len(shapes), fontsize=8, frameon=False)
        figure.subplots_adjust(
            left=0.75 / size[0],
            right=1 - 0.15 / size[0],
            top=1 - 0.9 / size[1],
            bottom=0.6 / size[1],
            hspace=0.75,
            wspace=0.12,
        )
        sns.despine(fig=figure, left=True)
        return figure


def _one_parameter(axes: mpl.axes.Axes, part: pd.DataFrame, values: pd.Series, colors: Mapping[str, str]) -> None:
    """A parameter's axes: its values side by side, the sizes beside each other at each."""
    ticks = sorted(values.unique())
    for index, (shape, color) in enumerate(colors.items()):
        rows = part[part["shape"] == shape]
        places = values.loc[rows.index].map(ticks.index) + 0.16 * (index - (len(colors) - 1) / 2)
        axes.plot(places, rows["share"], "o", color=color, alpha=0.35, markersize=2.5, markeredgewidth=0)
        best = rows.groupby(values.loc[rows.index])["share"].max()
        axes.plot([ticks.index(value) for value in best.index], best, color=color, linewidth=1.3)
    axes.set_xticks(range(len(ticks)), [f"{tick:g}" for tick in ticks], fontsize=7)
    axes.set_xlim(-0.5, len(ticks) - 0.5)
    axes.set_ylim(0, 105)
    axes.set_yticks([0, 50, 100])
    axes.tick_params(axis="y", labelsize=7)
    axes.grid(axis="x", visible=False)
