"""Set what others published beside what is measured here, as a table and a figure."""

from pathlib import Path

from ladder.show.figures import published
from ladder.show.static import draw, save
from ladder.system.terminal import job
from ladder.tables.files import read_table, write_table
from ladder.tables.published import compare_published

with job(snakemake):
    output = snakemake.output
    table = compare_published(read_table(snakemake.input.timings), read_table(snakemake.input.geomeans))
    caption = f"Recorded on {snakemake.params.recorded}; published figures and sources: workflow/data/published.csv"
    figure = published.figure(table, list(read_table(snakemake.input.rungs)["rung"]))
    save(draw(figure, caption), [Path(output.svg), Path(output.png)])
    write_table(table, Path(output.table))
