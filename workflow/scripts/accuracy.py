"""The errors against k of every recorded rung, as a table and a figure."""

from pathlib import Path

from ladder import records
from ladder.accuracy import accuracy_figure, accuracy_table, changed_since
from ladder.figures import save
from ladder.plan import plan_of_run, recorded_on
from ladder.script import one_line_errors
from ladder.tables import read_table, write_table
from ladder.toolchain import source_digest

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    recorded = {path.stem: records.read_json(path) for path in map(Path, snakemake.input.records)}
    changed = changed_since(recorded, {rung.name: source_digest(rung) for rung in run.accurate})
    for name in changed:
        del recorded[name]
    table = accuracy_table(recorded, {rung.name: rung.precision for rung in run.accurate})
    write_table(table, Path(snakemake.output.table))
    rungs = read_table(snakemake.input.rungs)
    ladder = [rung.entry for rung in run.ladder.values() if rung.role == "rung"]
    caption = f"Recorded on {recorded_on(run.raw())}; time is the median of launches at that shape."
    if changed:
        caption += f" Left out, for the source has changed since: {', '.join(changed)}."
    figure = accuracy_figure(table, rungs, run.baseline.name, ladder, caption)
    save(figure, [Path(snakemake.output.svg), Path(snakemake.output.png)])
