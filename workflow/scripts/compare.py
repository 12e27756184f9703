"""Say how this run compares with the baseline, and fail where the configuration asks for that."""

from pathlib import Path

from ladder.show.comparison import report
from ladder.system.errors import LadderError
from ladder.system.terminal import job, say
from ladder.tables.files import read_table


def in_turn(against, rungs):
    """Time both sides in turn; raises LadderError where something is slower."""
    from ladder.commands.regress import regress
    from ladder.config.plan import plan

    found = regress(plan(snakemake.config), against, rungs)
    if found.slower:
        raise LadderError(f"against: {found.slower} of {len(found.table)} are slower than {against}")


def recorded(params, path):
    """Say what the table of two recorded runs says; raises LadderError where that is to fail."""
    table = read_table(path)
    missing = [name for name in params.rungs if name not in set(table["rung"])]
    text = report(table, missing, params.baseline)
    say(f"\n{text}\nTable and figure: {path.parent}")
    Path(snakemake.log[0]).write_text(text)
    slower = int((table["verdict"] == "slower").sum())
    if params.fail_on == "slower" and slower:
        raise LadderError(f"fail_on: slower: {slower} of {len(table)} are slower than the baseline")


with job(snakemake):
    if snakemake.params.against:
        in_turn(snakemake.params.against, snakemake.params.rungs)
    else:
        recorded(snakemake.params, Path(snakemake.input[0]))
