"""Set every GPU that has records beside the others."""

from pathlib import Path

from ladder.model.claims import in_words
from ladder.model.shape import Shape
from ladder.show.figures import cards, gpus, gpus_by_size
from ladder.show.static import draw, save
from ladder.system.terminal import job
from ladder.tables.across import across_table, caption
from ladder.tables.cards import cards_table
from ladder.tables.files import write_table

with job(snakemake):
    params, output = snakemake.params, snakemake.output
    shapes = [Shape.parse(shape) for shape in params.shapes] or None
    results, own = Path(params.results), [Path(raw) for raw in params.own]
    table = across_table(results, params.rungs, shapes, params.baseline, params.first, own)
    where = caption(table)
    claims = {rung.name: in_words(rung.claims) for rung in params.rungs}
    save(draw(gpus.figure(table, params.baseline, claims), where), [Path(output.svg), Path(output.png)])
    save(draw(gpus_by_size.figure(table, claims), where), [Path(output.by_size_svg), Path(output.by_size_png)])
    write_table(table, Path(output.table))
    apart = cards_table(results, {rung.name for rung in params.rungs if rung.role != "floor"}, shapes)
    save(draw(cards.figure(apart), ""), [Path(output.cards_svg), Path(output.cards_png)])
    write_table(apart, Path(output.cards))
