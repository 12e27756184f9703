"""The table of builds in the header of each tutorial rung, from the tables of the recorded GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from doc_numbers import GPU, cell, inner_loop
from ladder.config.gpus import read_gpu
from ladder.config.kernels import read_kernels
from ladder.config.plan import KERNELS
from ladder.config.search_space import defaults
from ladder.config.tuned_file import read_tuned, tuned_file, with_tuned
from ladder.model.rung import Rung
from ladder.model.shape import Shape, work_key
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT

TITLE = "// Builds on "
COLUMNS = "build tile thread threads registers KiB blocks warps FLOP/B LDS/FFMA FFMA"
LEGEND = """\
, written by tools/header_figures.py. Of a block: tile, threads, KiB of shared memory. Of a thread:
// its tile and registers. Of an SM: the blocks and warps that it holds. FLOP/B: for a byte of global memory. Of the
// inner loop's code: shared loads (LDS) for each multiply-add (FFMA), and the share of multiply-adds.
"""
_BLOCK = re.compile(rf"^{TITLE}.*\n(?://.*\n)*", re.MULTILINE)


def build_row(label: str, rung: str, size: str, macros: dict[str, int]) -> tuple[str, ...]:
    """A row of the header's table, as text: the build that computes the product of this size."""

    def of(column: str) -> int:
        return int(cell("resources", column, rung=rung, shape=size, multiplies=True))

    threads, blocks = of("block_threads"), of("blocks_per_sm")
    edge = macros.get("TILE")
    tile = (edge,) * 3 if edge else tuple(macros[name] for name in ("BM", "BN", "BK") if name in macros)
    return (
        label,
        " x ".join(map(str, tile)),
        f"{macros.get('TM', 1)} x {macros.get('TN', 1)}",
        str(threads),
        str(of("registers")),
        f"{(of('static_shared_bytes') + of('dynamic_shared_bytes')) / 1024:.1f}",
        str(blocks),
        f"{blocks * threads // 32} of 64",
        f"{cell('paper', 'intensity_global', rung=rung, shape=size):.4g}",
        f"{inner_loop(rung, 'shared_loads_per_ffma', size):.3g}",
        f"{inner_loop(rung, 'ffma_share', size):.1%}".replace("%", " %"),
    )


def builds_of(entry: str) -> Iterator[tuple[str, ...]]:
    """The rows of an entry of kernels.yaml: the rung before it at its largest size, then its own builds."""
    tuned = read_tuned(tuned_file(GPU))
    ladder = with_tuned(read_kernels(KERNELS), tuned_file(GPU))
    variants = [rung for rung in ladder.values() if rung.entry == entry]

    def sizes_of(rung: Rung) -> list[Shape]:
        return sorted(tuned.rungs.get(rung.name, tuned.sizes), key=work_key)

    def row(label: str, rung: Rung, size: Shape) -> tuple[str, ...]:
        macros = {**defaults((ROOT / "kernels" / rung.source).read_text()), **rung.macros_at(size)}
        return build_row(label, rung.name, str(size), {name: int(value) for name, value in macros.items()})

    if before := variants[0].before:
        yield row("before", ladder[before], sizes_of(variants[0])[-1])
    for rung in variants:
        name = rung.name.partition("@")[2]
        for size in sizes_of(rung) if rung.tuned else sizes_of(rung)[-1:]:
            yield row(", ".join(filter(None, (name, str(size) if rung.tuned else ""))) or "all", rung, size)


def block_of(entry: str) -> str:
    """The comment that a header ends with: its title, what the columns are, and the table, in Markdown."""
    rows = [tuple(COLUMNS.split()), *builds_of(entry)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)) + " |" for row in rows]
    lines.insert(1, "| " + " | ".join("-" * n for n in widths) + " |")
    table = "".join(f"// {line}\n" for line in lines)
    return f"{TITLE}{read_gpu(GPU).architecture}{LEGEND}//\n{table}"


def headers() -> dict[Path, str]:
    """Each source below kernels/sgemm whose header has a table of builds, with that table as it has to be.

    Raises LadderError where the header has several, or a table of the recorded GPU has no such build.
    """
    found = {}
    for path in sorted((ROOT / "kernels/sgemm").glob("*.cu")):
        blocks = _BLOCK.findall(source := path.read_text())
        if len(blocks) > 1:
            raise LadderError(f"kernels/sgemm/{path.name}: {len(blocks)} lines begin with {TITLE!r}; leave one")
        if blocks:
            found[path] = source.replace(blocks[0], block_of(path.stem))
    return found
