"""Draw the tutorial's rungs from their constants."""

from pathlib import Path

from ladder.drawings import drawing
from ladder.records import write_text
from ladder.script import one_line_errors

with one_line_errors(snakemake.log[0]):
    folder = Path(snakemake.output[0]).parent
    for name, constants in snakemake.params.constants.items():
        write_text(folder / f"{name}.svg", drawing(name.partition("@")[0], constants))
