"""Numbers from recorded tables, and those of the README and the quick start: `write_docs.py` fills them in."""

import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "workflow")]

from ladder.config.documents import read_yaml  # noqa: E402
from ladder.records.digests import CHANGED_SINCE  # noqa: E402
from ladder.records.provenance import NOT_RECORDED  # noqa: E402
from ladder.records.store import read_record, read_runs, run_record  # noqa: E402
from ladder.records.timings import LAUNCHES  # noqa: E402
from ladder.show.origin import origin_columns, origin_line  # noqa: E402
from ladder.show.summary import run_summary  # noqa: E402
from ladder.system.errors import LadderError  # noqa: E402
from ladder.system.paths import shown  # noqa: E402
from ladder.tables.files import read_table  # noqa: E402
from ladder.tables.survey import SLOWER_BELOW  # noqa: E402

RESULTS = ROOT / "results"
GPU = "h100-sxm"  # the folder of results that is meant where none is named
Number = float | str  # of a table; shapes, names and words are text


def table(name: str, gpu: str = GPU) -> pd.DataFrame:
    """results/GPU/tables/NAME.csv; raises LadderError where there is none."""
    return _read(RESULTS / gpu / "tables" / f"{name}.csv")


@cache
def _read(path: Path) -> pd.DataFrame:
    if not path.exists():
        raise LadderError(f"{shown(path)}: there is no such table")
    return read_table(path)


def rows(name: str, /, gpu: str = GPU, **key: Any) -> pd.DataFrame:
    """The rows of a table whose columns have these values, compared as text.

    Raises LadderError where the table lacks such a column or row.
    """
    found, where = table(name, gpu), f"results/{gpu}/tables/{name}.csv"
    if unknown := [column for column in key if column not in found]:
        raise LadderError(f"{where}: no column {unknown[0]}; it has {', '.join(found.columns)}")
    for column, value in key.items():
        found = found[found[column].astype(str) == str(value)]
    if found.empty:
        asked = ", ".join(f"{column}={value}" for column, value in key.items())
        raise LadderError(f"{where}: no row with {asked}; name one that the table has")
    return found


def cell(name: str, column: str, /, gpu: str = GPU, **key: Any) -> Number:
    """The value of a column in the one row that the key names; raises LadderError unless there is exactly one."""
    found = rows(name, gpu, **key)
    asked = f"results/{gpu}/tables/{name}.csv: {', '.join(f'{each}={value}' for each, value in key.items())}"
    if column not in found:
        raise LadderError(f"{asked}: no column {column}; it has {', '.join(found.columns)}")
    if len(found) > 1:
        raise LadderError(f"{asked}: {len(found)} rows; name more columns")
    value = found[column].item()
    if pd.isna(value):
        raise LadderError(f"{asked}: column {column} is empty")
    return value


def inner_loop(rung: str, column: str, shape: int | str = 4096, gpu: str = GPU) -> float:
    """A count in the inner loop of the kernel that multiplies at a shape, by its column in tables/instructions.csv."""
    found = rows("instructions", gpu, rung=rung, part="inner loop")
    found = found[[str(shape) in launched.split() for launched in found["launched_at"]]]
    if len(found) != 1:
        many = f"{len(found)} inner loops of {rung} at {shape}, not one"
        raise LadderError(f"results/{gpu}/tables/instructions.csv: {many}")
    return float(found[column].item())


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def rate(gflops: float) -> str:
    """GFLOP/s as TFLOP/s with three digits, `407`, `56.0` or `6.76`, and never more than two behind the point."""
    return f"{gflops / 1e3:.{sum(gflops < power for power in (1e5, 1e4))}f}"


def shares_of_cublas(rung: str, gpu: str = GPU) -> pd.Series:
    """The rate of a rung over its baseline's, by shape."""
    rows = table("timings", gpu).dropna(subset=["speedup_over_cublas"])
    return rows[rows["rung"] == rung].set_index("shape")["speedup_over_cublas"]


def percent_of_cublas(rung: str, size: int = 4096, gpu: str = GPU) -> str:
    """That share at m = n = k = size; raises KeyError where it is not recorded."""
    return percent(shares_of_cublas(rung, gpu)[str(size)])


def ladder_rows() -> list[dict[str, str]]:
    """The rungs of kernels.yaml: title, source, `rung`, the fastest variant at 4096, and what is recorded of it.

    That is `rate` and `share` at 4096 and `lowest`, its lowest share; `not recorded` where it has no time there.
    """
    rates = table("timings")[table("timings")["shape"] == "4096"].set_index("rung")["gflops"]
    rows = [{"entry": entry, **told} for entry, told in read_yaml(ROOT / "config/kernels.yaml").items()]
    rows = [row for row in rows if "role" not in row]
    for row in rows:
        found = rates[rates.index.str.split("@").str[0] == row["entry"]]
        if found.empty:
            row |= {"rung": row["entry"], **dict.fromkeys(("rate", "share", "lowest"), NOT_RECORDED)}
            continue
        row["rung"] = found.idxmax()
        row["rate"], row["share"] = rate(found.max()), percent_of_cublas(row["rung"])
        shares = shares_of_cublas(row["rung"])
        row["lowest"] = f"{percent(shares.min())} at {shares.idxmin()}"
    return rows


def ladder_origin() -> dict[str, Any]:
    """From where the numbers of the ladder come: `line`, in words, and `columns`, by rung.

    The line is of all shapes, because the lowest share can be at any. The columns are what the rows at 4096 do not
    agree in.
    """
    recorded = [row["rung"] for row in ladder_rows() if row["share"] != NOT_RECORDED]
    timings = table("timings").set_index("rung").loc[recorded]
    shown = timings[timings["shape"] == "4096"]
    return {"line": origin_line(timings), "columns": origin_columns(shown).to_dict("index")}


def ladder_state(gpu: str) -> dict[str, str]:
    """What is recorded of the ladder on a GPU.

    `earlier` names the rungs that were timed from an earlier source, `untimed` those whose present build is not timed;
    `largest` is the largest m = n = k of any.
    """
    told, timed = table("rungs", gpu), table("timings", gpu)
    rungs = told[told["role"] == "rung"]
    there = rungs["rung"].isin(timed["rung"])
    changed = rungs["source"] == CHANGED_SINCE
    sizes = timed.loc[timed["rung"].isin(rungs["rung"]), "shape"].astype(str)
    return {
        "earlier": in_words(rungs.loc[there & changed, "rung"]),
        "untimed": in_words(rungs.loc[~there, "rung"]),
        "largest": str(sizes[sizes.str.isdigit()].astype(int).max()),
    }


def in_words(names: Iterable[str]) -> str:
    """`one`, `two` and `three`; empty without names."""
    quoted = [f"`{name}`" for name in names]
    return " and ".join([", ".join(quoted[:-1]), *quoted[-1:]] if len(quoted) > 1 else quoted)


def slower_below() -> float:
    """The share of the library's speed below which a drawn product counts as slower."""
    return SLOWER_BELOW


def fp32_libraries() -> str:
    """The libraries of FP32 that shares are of: `cublas`, or the faster of several."""
    listed = read_yaml(ROOT / "config/kernels.yaml").items()
    libraries = [entry for entry, told in listed if told.get("role") == "baseline" and "precision" not in told]
    names = [f"`{name}`" for name in libraries if name in set(table("timings")["baseline"])]
    return f"the faster of {' and '.join(names)} where both were timed" if len(names) > 1 else names[0]


def not_verified() -> str:
    """The rungs whose times, all or those of some shapes, are of before launches were verified; empty where none is."""
    whole, partly = [], []
    for path in sorted((RESULTS / GPU / "raw/time").glob("*.zip")):
        verified = {run.get("launches") == LAUNCHES for run in runs_of(path)}
        if False in verified:
            (partly if True in verified else whole).append(f"`{path.stem}`")
    parts = [f"of {', '.join(whole)}"] * bool(whole) + [f"of {', '.join(partly)} at some shapes"] * bool(partly)
    return " and ".join(parts)


def runs_of(path: Path) -> list[dict[str, Any]]:
    """The records of the runs in a time record."""
    return [run_record(files, path) for files in read_runs(path, "record.json").values()]


def slower_sizes(rungs: list[str]) -> str:
    """The shapes at which the interval of any of the rungs is below cuBLAS, and the lowest and highest such share."""
    rows = table("timings")
    slow = rows[rows["rung"].isin(rungs) & (rows["speedup_over_cublas_ci_high"] < 1)]
    shapes = sorted(set(slow["shape"]), key=lambda shape: [int(size) for size in shape.split("x")])
    shares = slow["speedup_over_cublas"]
    return f"{', '.join(shapes)} ({percent(shares.min())} to {percent(shares.max())} of cuBLAS)"


def slowest(rung: str, family: str) -> str:
    """The largest time of a rung over cuBLAS's at one shape of the table of accuracy, for a family of inputs."""
    rows = table("accuracy")[table("accuracy")["family"] == family]
    times = rows.pivot(index=["m", "n", "k"], columns="rung", values="time_ms")
    return f"{(times[rung] / times['cublas']).max():.1f}"


def largest_errors() -> dict[str, int | str]:
    """How many shapes and families of inputs are recorded, and the largest error of a split rung over cuBLAS's."""
    points, keys = read_record(RESULTS / GPU / "raw/errors.json")["points"], ["family", "m", "n", "k"]
    rows = pd.concat([pd.DataFrame({key: at[key] for key in keys} | at["errors_normwise"]) for at in points])
    largest = rows.drop(columns=[*keys, "cublas"]).div(rows["cublas"], axis=0).max(axis=1)
    positive = rows["family"] == "positive"
    counts = {"shapes": len(rows.drop_duplicates(keys[1:])), "families": rows["family"].nunique()}
    return counts | {"positive": f"{largest[positive].max():.2f}", "others": f"{largest[~positive].max():.2f}"}


def summary_block() -> str:
    """A line a rung, as `make run` ends."""
    return run_summary(table("rungs"), table("timings"), "", "").split("\n\n")[1].strip()
