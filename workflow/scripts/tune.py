"""Make the table and the figure of the recorded trials, and the GPU's tuned file; print what was chosen."""

from pathlib import Path

from ladder.config.plan import plan_of_run
from ladder.config.sources import source_digest
from ladder.config.tuned import read_tuned, tuned_text
from ladder.measure.tune.stage import trial_rungs
from ladder.model.shape import Shape
from ladder.records import store
from ladder.records.trials import Record
from ladder.show.figures import tuning
from ladder.show.static import draw, save
from ladder.system.errors import LadderError
from ladder.system.terminal import one_line_errors, say
from ladder.tables.files import write_table
from ladder.tables.trials import choose, recorded_on, trial_table

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    path = Path(snakemake.params.tuned)
    if not snakemake.input:
        raise LadderError(f"tune: no trial is recorded for {run.gpu.title}; run it on a machine with that GPU")
    found = [Record.read(Path(name), Path(name).name.split(".")[0]) for name in snakemake.input.trials]
    rungs = [rung for entry in snakemake.params.entries for rung in trial_rungs(entry, run.ladder, run.gpu)]
    digests = {rung.name: source_digest(rung) for rung in rungs}
    best = choose(found, run.ladder, [Shape.parse(shape) for shape in snakemake.params.shapes], digests)
    if run.measuring:
        earlier = read_tuned(path) if path.exists() else None
        kept = earlier.rungs if earlier and earlier.sizes == best.sizes else {}
        tried = {rung.entry for rung in rungs}
        rest = {n: classes for n, classes in kept.items() if n in run.ladder and run.ladder[n].entry not in tried}
        named = {**rest, **best.rungs}
        best = type(best)(best.sizes, {name: named[name] for name in run.ladder if name in named})
        store.write_text(path, tuned_text(run.gpu.name, best))
    table = trial_table(found, best, digests)
    write_table(table, Path(snakemake.output.table))
    save(draw(tuning.figure(table), recorded_on(found)), [Path(snakemake.output.svg), Path(snakemake.output.png)])
    text = "".join(
        f"{rung:<24} {shape!s:>8}  {' '.join(f'{key}={value}' for key, value in macros.items())}\n"
        for rung, classes in best.rungs.items()
        for shape, macros in classes.items()
    )
    Path(snakemake.log[0]).write_text(text)
    if run.measuring:  # else these are read again with every other record, and were said when they were made
        say(f"\n{text}{len(table['trial'].unique())} trials: {snakemake.output.table}; tuned: {path}")
