"""Set what others published beside what is measured here, as a table and a figure."""

from pathlib import Path

from ladder.config.plan import plan_of_run, recorded_on
from ladder.show.figures import published
from ladder.show.static import draw, save
from ladder.system.terminal import one_line_errors
from ladder.tables.files import read_table, write_table
from ladder.tables.published import compare_published

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    table = compare_published(read_table(snakemake.input.timings), read_table(snakemake.input.geomeans))
    caption = f"Recorded on {recorded_on(run.raw())}; published figures and sources: workflow/data/published.csv"
    figure = published.figure(table, list(read_table(snakemake.input.rungs)["rung"]))
    save(draw(figure, caption), [Path(snakemake.output.svg), Path(snakemake.output.png)])
    write_table(table, Path(snakemake.output.table))
