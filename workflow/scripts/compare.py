"""Say how this run compares with the baseline, and fail where the configuration asks for that."""

from pathlib import Path

from ladder.show.comparison import report
from ladder.system.errors import LadderError
from ladder.system.terminal import job, say
from ladder.tables.files import read_table

with job(snakemake):
    params, path = snakemake.params, Path(snakemake.input[0])
    table = read_table(path)
    missing = [name for name in params.rungs if name not in set(table["rung"])]
    text = report(table, missing, params.baseline)
    say(f"\n{text}\nTable and figure: {path.parent}")
    Path(snakemake.log[0]).write_text(text)
    slower = int((table["verdict"] == "slower").sum())
    if params.fail_on == "slower" and slower:
        raise LadderError(f"fail_on: slower: {slower} of {len(table)} are slower than the baseline")
