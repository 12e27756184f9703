"""Print the summary of the run, remove what is derived of rungs that are gone, and fail where a rung failed."""

from pathlib import Path

from ladder.show.summary import run_summary, why_run_fails
from ladder.system.errors import LadderError
from ladder.system.terminal import job, say
from ladder.tables.files import read_table

with job(snakemake):
    folder = Path(snakemake.input.rungs).parents[1]
    rungs, timings = read_table(snakemake.input.rungs), read_table(snakemake.input.timings)
    given = snakemake.input
    shipped, sustained, surveyed = (
        read_table(paths[0]) if paths else None for paths in (given.shipped, given.sustained, given.surveyed)
    )
    text = run_summary(rungs, timings, snakemake.params.headline, folder, shipped, sustained, surveyed)
    say("\n" + text)
    Path(snakemake.log[0]).write_text(text)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
        elif path.is_file() and str(path) not in snakemake.params.made:
            path.unlink()
    if why := why_run_fails(rungs):
        raise LadderError(why)
