"""The errors against k of every recorded rung, as a table and a figure."""

from pathlib import Path

from ladder.config.plan import plan_of_run, recorded_on
from ladder.config.sources import source_digest
from ladder.records import store
from ladder.show.figures import accuracy
from ladder.show.static import draw, save
from ladder.system.terminal import one_line_errors
from ladder.tables.accuracy import accuracy_table, changed_since
from ladder.tables.files import read_table, write_table

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    recorded = {path.stem: store.read_json(path) for path in map(Path, snakemake.input.records)}
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
    figure = accuracy.figure(table, rungs, run.baseline.name, ladder)
    save(draw(figure, caption), [Path(snakemake.output.svg), Path(snakemake.output.png)])
