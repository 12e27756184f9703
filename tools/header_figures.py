"""Writes the builds of each tutorial rung into the table of its header, from the tables of the recorded GPU.

usage: python tools/header_figures.py [--check]    --check writes nothing and ends with 1 where a header is stale
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
GPU = "h100-sxm"
TABLES = ROOT / "results" / GPU / "tables"
TITLE = "// Builds on "
COLUMNS = "build tile thread threads registers KiB blocks warps FLOP/B LDS/FFMA FFMA"
LEGEND = """\
, written by tools/header_figures.py. Of a block: tile, threads, KiB of shared memory. Of a thread:
// its tile and registers. Of an SM: the blocks and warps that it holds. FLOP/B: for a byte of global memory. Of the
// inner loop's code: shared loads (LDS) for each multiply-add (FFMA), and the share of multiply-adds.
"""
_DEFAULT = re.compile(r"^#ifndef (\w+)\n#define \1 (\d+)$", re.MULTILINE)
_BLOCK = re.compile(rf"^{TITLE}.*\n(?://.*\n)*", re.MULTILINE)


def rows_of(table: str, **wanted: str) -> list[dict[str, str]]:
    """The rows of a table that have these values."""
    with (TABLES / f"{table}.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if all(row[key] == value for key, value in wanted.items())]


def one_row(table: str, **wanted: str) -> dict[str, str]:
    """The one such row; ends the program with one line where there are none or several."""
    found = rows_of(table, **wanted)
    if len(found) != 1:
        asked = ", ".join(f"{key} {value}" for key, value in wanted.items())
        sys.exit(f"{TABLES / table}.csv: {asked}: {len(found)} rows instead of one; make the tables anew")
    return found[0]


def macros_of(rung: str, source: str, tuned: dict[str, int]) -> dict[str, int]:
    """What a build of a rung is made with: the source's defaults, those of the variant's name, those of its tuning."""
    named = (macro.split("=") for macro in rung.partition("@")[2].split(",") if macro)
    return {name: int(value) for name, value in [*_DEFAULT.findall(source), *named, *tuned.items()]}


def build_row(label: str, rung: str, size: str, macros: dict[str, int]) -> tuple[str, ...]:
    """A row of the header's table, as text: the build that computes the product of this size."""
    resources = one_row("resources", rung=rung, shape=size, multiplies="True")
    loops = rows_of("instructions", rung=rung, kernel=resources["kernel"], part="inner loop")
    loop = next((row for row in loops if size in row["launched_at"].split()), None)
    if loop is None:
        sys.exit(f"{TABLES}/instructions.csv: {rung}: no inner loop at {size}; make the tables anew")
    threads, blocks = int(resources["block_threads"]), int(resources["blocks_per_sm"])
    shared = int(resources["static_shared_bytes"]) + int(resources["dynamic_shared_bytes"])
    edge = macros.get("TILE")
    tile = (edge,) * 3 if edge else tuple(macros[name] for name in ("BM", "BN", "BK") if name in macros)
    return (
        label,
        " x ".join(map(str, tile)),
        f"{macros.get('TM', 1)} x {macros.get('TN', 1)}",
        str(threads),
        resources["registers"],
        f"{shared / 1024:.1f}",
        str(blocks),
        f"{blocks * threads // 32} of 64",
        f"{float(one_row('paper', rung=rung, shape=size)['intensity_global']):.4g}",
        f"{float(loop['shared_loads_per_ffma']):.3g}",
        f"{float(loop['ffma_share']):.1%}".replace("%", " %"),
    )


def builds_of(entry: str) -> Iterator[tuple[str, ...]]:
    """The rows of an entry of kernels.yaml: the rung before it at the largest tuned size, then its own builds."""
    ladder = yaml.safe_load((ROOT / "config/kernels.yaml").read_text())
    tuned = yaml.safe_load((ROOT / f"config/tuned/{GPU}.yaml").read_text())
    sizes = [str(size) for size in tuned["sizes"]]

    def row(label: str, rung: str, size: str) -> tuple[str, ...]:
        source = (ROOT / "kernels" / ladder[rung.partition("@")[0]]["source"]).read_text()
        return build_row(label, rung, size, macros_of(rung, source, tuned["rungs"].get(rung, {}).get(size, {})))

    if before := ladder[entry].get("before"):
        yield row("before", before, sizes[-1])
    for variant in ladder[entry].get("variants", [{}]):
        name = ",".join(f"{key}={value}" for key, value in variant.items())
        rung = f"{entry}@{name}" if name else entry
        for size in sizes if rung in tuned["rungs"] else sizes[-1:]:
            label = ", ".join(part for part in (name, size if rung in tuned["rungs"] else "") if part)
            yield row(label or "all", rung, size)


def block_of(entry: str) -> str:
    """The comment that a header ends with: its title, what the columns are, and the table, in Markdown."""
    architecture = rows_of("resources")[0]["architecture"]
    rows = [tuple(COLUMNS.split()), *builds_of(entry)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)) + " |" for row in rows]
    lines.insert(1, "| " + " | ".join("-" * n for n in widths) + " |")
    table = "".join(f"// {line}\n" for line in lines)
    return f"{TITLE}{architecture}{LEGEND}//\n{table}"


def with_builds(entry: str, source: str) -> str:
    """A source with its table as it has to be; ends the program with one line where it has no place for one."""
    if len(_BLOCK.findall(source)) != 1:
        sys.exit(f"{entry}: the header needs one line that begins with {TITLE!r}; the table goes below it")
    return _BLOCK.sub(lambda _: block_of(entry), source)


def main(arguments: list[str]) -> None:
    """Write the tables, or name the headers that are stale."""
    if arguments not in ([], ["--check"]):
        sys.exit("header_figures: the only argument is --check")
    stale = []
    for path in sorted((ROOT / "kernels/sgemm").glob("*.cu")):
        source = path.read_text()
        if TITLE not in source or (new := with_builds(path.stem, source)) == source:
            continue
        stale.append(str(path.relative_to(ROOT)))
        if not arguments:
            path.write_text(new)
    for each in stale:
        print(f"{'stale' if arguments else 'written'}: {each}")
    if stale and arguments:
        sys.exit("run python tools/header_figures.py")


if __name__ == "__main__":
    main(sys.argv[1:])
