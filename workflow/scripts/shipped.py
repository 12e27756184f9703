"""Compare the times of a device of the user's own with those that ship."""

from pathlib import Path

from ladder.show.figures import comparison
from ladder.show.static import draw, save
from ladder.system.terminal import job
from ladder.tables.files import read_table, write_table
from ladder.tables.shipped import shipped_table

with job(snakemake):
    params, output, gpu = snakemake.params, snakemake.output, snakemake.params.gpu
    shipped, own = Path(f"results/{gpu}/raw/time"), Path(params.raw) / "time"
    table = shipped_table(read_table(snakemake.input.timings), shipped, own, gpu)
    caption = f"{params.recorded}, against the records that ship, {params.shipped}; verdicts by NVBench's comparison."
    save(draw(comparison.figure(table, "the records that ship"), caption), [Path(output.svg), Path(output.png)])
    write_table(table, Path(output.table))
