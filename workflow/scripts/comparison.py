"""Compare this run's time records with the baseline's."""

from pathlib import Path

from ladder.model.shape import Shape
from ladder.show.comparison import compare_with, days
from ladder.show.figures import comparison
from ladder.show.static import draw, save
from ladder.system.terminal import job
from ladder.tables.files import write_table

with job(snakemake):
    params, output, gpu = snakemake.params, snakemake.output, snakemake.params.gpu
    shapes, baseline = [Shape.parse(shape) for shape in params.shapes], params.baseline["name"]
    table = compare_with(baseline, gpu, params.rungs, shapes, Path(params.raw) / "time")
    caption = (
        f"{params.title}, recorded {days(table, 'measured_at')}, against {baseline}, "
        f"recorded {days(table, 'baseline_measured_at')}; verdicts by NVBench's robust comparison."
    )
    save(draw(comparison.figure(table), caption), [Path(output.svg), Path(output.png)])
    write_table(table, Path(output.table))
