"""The errors against k of every recorded rung, as a table and a figure."""

from pathlib import Path

from ladder import records
from ladder.accuracy import accuracy_figure, accuracy_table
from ladder.figures import save
from ladder.plan import plan, recorded_on
from ladder.script import one_line_errors
from ladder.tables import read_table, write_table

with one_line_errors(snakemake.log[0]):
    run = plan(snakemake.config)
    recorded = {path.stem: records.read_json(path) for path in map(Path, snakemake.input.records)}
    table = accuracy_table(recorded, {rung.name: rung.precision for rung in run.accurate})
    write_table(table, Path(snakemake.output.table))
    rungs = read_table(snakemake.input.rungs)
    ladder = [rung.entry for rung in run.ladder.values() if rung.role == "rung"]
    caption = f"Recorded on {recorded_on(run.raw())}; time is the median of launches at that shape."
    figure = accuracy_figure(table, rungs, run.baseline.name, ladder, caption)
    save(figure, [Path(snakemake.output.svg), Path(snakemake.output.png)])
