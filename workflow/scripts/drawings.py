"""Draw the tutorial's rungs from their constants."""

from pathlib import Path

from ladder.records.store import write_text
from ladder.show.drawings import drawing
from ladder.system.terminal import job

with job(snakemake):
    for path, (name, constants) in zip(snakemake.output, snakemake.params.constants.items(), strict=True):
        write_text(Path(path), drawing(name.partition("@")[0], constants))
