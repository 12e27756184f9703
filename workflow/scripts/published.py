"""Set what others published beside what is measured here, as a table and a figure."""

from pathlib import Path

from ladder.records.store import write_text
from ladder.show.figures import published
from ladder.show.published_page import published_page
from ladder.show.static import draw, save
from ladder.system.terminal import job
from ladder.tables.files import read_table, write_table
from ladder.tables.published import Here, compare_published

with job(snakemake):
    output = snakemake.output
    (gpu,), trials = snakemake.params.gpu, snakemake.input.trials
    paths = {name: getattr(snakemake.input, name) for name in ("timings", "profiles", "paper", "advice")}
    paths |= {name: found[0] for name, found in (("trials", trials), ("hardware", snakemake.input.hardware)) if found}
    table = compare_published(Here(gpu, **{name: read_table(path) for name, path in paths.items()}))
    caption = f"Recorded on {snakemake.params.recorded}; published figures and sources: workflow/data/published.csv"
    figure = published.figure(table, list(read_table(snakemake.input.rungs)["rung"]))
    save(draw(figure, caption), [Path(output.svg), Path(output.png)])
    write_table(table, Path(output.table))
    write_text(Path(output.page), published_page(table))
