"""Compare this run's time records with the baseline's."""

from pathlib import Path

from ladder.config.plan import plan_of_run
from ladder.model.shape import Shape
from ladder.show.comparison import compare_with, days
from ladder.show.figures import comparison
from ladder.show.static import draw, save
from ladder.system.terminal import one_line_errors
from ladder.tables.files import write_table

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    shapes = [Shape.parse(shape) for shape in snakemake.params.shapes]
    baseline = run.settings["baseline"]
    table = compare_with(baseline, run.gpu.name, snakemake.params.rungs, shapes, run.raw() / "time")
    caption = (
        f"{run.gpu.title}, recorded {days(table, 'measured_at')}, against {baseline}, "
        f"recorded {days(table, 'baseline_measured_at')}; verdicts by NVBench's robust comparison."
    )
    save(draw(comparison.figure(table), caption), [Path(snakemake.output.svg), Path(snakemake.output.png)])
    write_table(table, Path(snakemake.output.table))
