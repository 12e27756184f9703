"""The tables and figures of a survey, from its records."""

from pathlib import Path

from ladder.config.sources import source_digest
from ladder.records.survey import read_survey
from ladder.show.figures import survey
from ladder.show.origin import changed_line
from ladder.show.static import draw, save
from ladder.system.terminal import job
from ladder.tables.files import read_table, write_table
from ladder.tables.survey import Least, class_table, data_table, survey_table

with job(snakemake):
    params, output = snakemake.params, snakemake.output
    rungs = {rung.name: rung for rung in params.rungs}
    recorded = {path.name.partition(".")[0]: read_survey(path) for path in map(Path, snakemake.input.records)}
    found = {name: each for name, each in recorded.items() if each is not None}
    digests = {name: source_digest(rung) for name, rung in rungs.items()}
    classes = {name: rung.precision for name, rung in rungs.items()}
    libraries = {name: rung.baselines or (params.baseline,) for name, rung in rungs.items()}
    (gpu,), probes = params.gpu, snakemake.input.hardware
    least = Least.of(gpu, read_table(probes[0]) if probes else None, read_table(snakemake.input.timings))
    of_products = [make(found, classes, libraries, digests, least) for make in (survey_table, class_table)]
    tables = [*of_products, data_table(found, classes, libraries, digests)]
    for table, path in zip(tables, output.tables, strict=True):
        write_table(table, Path(path))
    caption = f"Recorded on {params.recorded}. {changed_line(tables[1])}".strip()
    names = read_table(snakemake.input.rungs)
    on_data = survey.on_data(tables[2], names, params.baseline, params.ladder)
    figures = survey.products(*tables[:2], names), survey.reached_bandwidth(*tables[:2], names), on_data
    for figure, *paths in zip(figures, output.svg, output.png, strict=True):
        save(draw(figure, caption), list(map(Path, paths)))
