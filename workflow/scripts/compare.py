"""Say how this run compares with the baseline, and fail where the configuration asks for that."""

from pathlib import Path

from ladder.config.plan import plan_of_run
from ladder.show.comparison import report
from ladder.system.errors import LadderError
from ladder.system.terminal import one_line_errors, say
from ladder.tables.files import read_table

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    table = read_table(snakemake.input[0])
    missing = [rung.name for rung in run.rungs if rung.name not in set(table["rung"])]
    text = report(table, missing, run.settings["baseline"])
    say(f"\n{text}\nTable and figure: {Path(snakemake.input[0]).parent}")
    Path(snakemake.log[0]).write_text(text)
    slower = int((table["verdict"] == "slower").sum())
    if run.settings["fail_on"] == "slower" and slower:
        raise LadderError(f"fail_on: slower: {slower} of {len(table)} are slower than the baseline")
