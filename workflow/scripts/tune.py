"""Make the table and the figure of the recorded trials, and the GPU's tuned file; print what was chosen."""

from pathlib import Path

from ladder.config.sources import source_digest
from ladder.config.tuned_file import Tuned, read_tuned, tuned_text
from ladder.measure.tune.stage import trial_rungs
from ladder.model.shape import Shape
from ladder.records import store
from ladder.records.trials import Record
from ladder.show.figures import tuning
from ladder.show.static import draw, save
from ladder.system.terminal import job, say
from ladder.tables.files import write_table
from ladder.tables.trials import choose, trial_table, trials_recorded_on, with_earlier

with job(snakemake):
    params, output = snakemake.params, snakemake.output
    (gpu,), ladder = params.gpu, {rung.name: rung for rung in params.ladder}
    found = [Record.read(Path(name), Path(name).name.split(".")[0]) for name in snakemake.input.trials]
    rungs = [rung for template in params.rungs for rung in trial_rungs(template, gpu)]
    digests = {rung.name: source_digest(rung) for rung in rungs}
    shapes = {entry: [*map(Shape.parse, listed)] for entry, listed in params.shapes.items()}
    best = choose(found, ladder, shapes, digests)
    if output.tuned:
        path = Path(output.tuned[0])
        earlier = read_tuned(path).rungs if path.exists() else {}
        best = with_earlier(best, earlier, shapes, ladder)
        store.write_text(path, tuned_text(gpu.name, Tuned(tuple(map(Shape.parse, params.sizes)), best)))
    table = trial_table(found, best, digests)
    write_table(table, Path(output.table))
    save(draw(tuning.figure(table), trials_recorded_on(found)), [Path(output.svg), Path(output.png)])
    text = "".join(
        f"{rung:<24} {shape!s:>8}  {' '.join(f'{key}={value}' for key, value in macros.items())}\n"
        for rung, classes in best.items()
        for shape, macros in classes.items()
    )
    Path(snakemake.log[0]).write_text(text)
    for line in params.not_tuned:
        say(line)
    if output.tuned:  # else these are read again with every other record, and were said when they were made
        say(f"\n{text}{len(table['trial'].unique())} trials: {output.table}; tuned: {output.tuned[0]}")
