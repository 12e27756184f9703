"""Say what compute-sanitizer has found; fails where it found something, or where nothing is recorded."""

from pathlib import Path

from ladder.measure.sanitize.stage import sanitizer_report
from ladder.records import store
from ladder.system.errors import LadderError
from ladder.system.terminal import job, say

with job(snakemake):
    found = [store.read_record(Path(path)) for path in snakemake.input]
    text, failed = sanitizer_report(found, snakemake.params.measuring, snakemake.params.gpu)
    Path(snakemake.log[0]).write_text(text)
    say(text.rstrip("\n"))
    if failed:
        raise LadderError("sanitize: not every rung is recorded as clean")
