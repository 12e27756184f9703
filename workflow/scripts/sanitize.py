"""Say what compute-sanitizer has found; fails where it found something, or where nothing is recorded."""

import sys
from pathlib import Path

from ladder.measure.sanitize.stage import sanitizer_report
from ladder.records import store
from ladder.system.terminal import one_line_errors

with one_line_errors(snakemake.log[0]):
    found = [store.read_json(Path(path)) for path in snakemake.input]
    text, failed = sanitizer_report(found, snakemake.params.measuring, snakemake.params.gpu)
    Path(snakemake.log[0]).write_text(text)
    print(text, end="", file=sys.stderr, flush=True)
    sys.exit(1 if failed else 0)
