"""Records to and from a portable trace: `python workflow/trace.py export|import|validate`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ladder.commands.bench import COMMAND_LINE, setting
from ladder.config.documents import read_yaml, validated
from ladder.config.plan import plan
from ladder.records.trace import records_of, trace_of, write_records
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT, read_text, resolved, shown
from ladder.system.terminal import exit_status


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status: 1, with one line on the standard error, where it did not succeed."""
    asked = _parser().parse_args(arguments)
    command = {"export": export, "import": bring_in, "validate": validate}[asked.command]
    return exit_status("trace", lambda: command(asked))


def export(asked: argparse.Namespace) -> None:
    """Print the trace of the records that a run with these settings would show; LadderError where there are none."""
    given = {**dict(map(setting, asked.config)), "measure": False, **({"kernels": asked.rungs} if asked.rungs else {})}
    config = {**read_yaml(ROOT / "config" / "config.yaml"), **given}
    run = plan(config, dict.fromkeys(given, COMMAND_LINE))
    trace = trace_of(run.raw(), run.gpu.name, run.rungs)
    if not trace["rungs"]:
        raise LadderError(
            f"{shown(run.raw())}: holds no record of these rungs; name others, or gpu=, records=, results="
        )
    print(json.dumps(trace, allow_nan=False))


def bring_in(asked: argparse.Namespace) -> None:
    """Write the records of a trace below a folder of results, which holds none of them yet."""
    trace = read_trace(asked.file)
    folder = resolved(Path.cwd() / asked.folder, COMMAND_LINE)
    made = records_of(trace, folder)
    write_records(made)
    raw = next(iter(made)).parents[1] if made else asked.folder
    shown_by = f"snakemake --cores all --config gpu={trace['gpu']} records=shipped results={folder}"
    print(f"{len(made)} records: {raw}; to see them: {shown_by}")


def validate(asked: argparse.Namespace) -> None:
    """Say how much a trace holds; raises LadderError for what is none."""
    trace = read_trace(asked.file)
    records_of(trace, Path())
    timings = sum(len(rung["timings"]) for rung in trace["rungs"])
    counted = f"rungs: {len(trace['rungs'])}, timings: {timings}"
    print(f"{asked.file}: a valid trace of {trace['gpu']}; {counted}")


def read_trace(path: Path) -> dict[str, Any]:
    """A trace that keeps the schema; raises LadderError, with the key, where a file holds none."""
    try:
        document = json.loads(read_text(path))
    except ValueError as error:
        raise LadderError(f"{shown(path)}: is no JSON: {error}; export it anew") from None
    return validated(document, "trace", shown(path))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python workflow/trace.py", description="Records as a portable trace, and back.")
    commands = parser.add_subparsers(dest="command", required=True)
    exporting = commands.add_parser("export", help="print the recorded results as JSON")
    exporting.add_argument(
        "rungs", nargs="*", metavar="rung", help="naive, tiled@TILE=16; without any all that is recorded"
    )
    exporting.add_argument(
        "--config", "-C", nargs="+", default=[], metavar="KEY=VALUE", help="gpu=, records=, results="
    )
    importing = commands.add_parser("import", help="write the records of a trace; what is there is never overwritten")
    validating = commands.add_parser("validate", help="say whether a file keeps workflow/schemas/trace.schema.json")
    for each in (importing, validating):
        each.add_argument("file", type=Path)
    importing.add_argument("folder", type=Path, help="a folder of results, for --config results=FOLDER")
    return parser
