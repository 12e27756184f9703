"""What a change did to the times: this checkout's rungs against those of another, timed in turn on this GPU."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from ladder.build.compile import Build
from ladder.commands.bench import COMMAND_LINE, setting
from ladder.config.documents import read_yaml
from ladder.config.plan import Plan, plan
from ladder.measure.pool import lease
from ladder.measure.regress.stage import time_in_turn
from ladder.model.shape import in_order
from ladder.records.baseline import unpacked
from ladder.records.provenance import environment, settings_digest
from ladder.records.store import write_text
from ladder.show.regression import Comparison, markdown
from ladder.system.errors import LadderError
from ladder.system.nvml import VISIBLE
from ladder.system.paths import ROOT, shown
from ladder.system.process import LEASED
from ladder.system.terminal import Progress, say
from ladder.tables.regression import CONFIRMED, SCREENED, aliases, decided, observed, suspects

COMPARED_SIZES = ["2048", "4096"]
NOTHING_SLOWER, SLOWER, NOT_COMPARED = 0, 1, 2

# Each side compiles its own rungs, with its own package, flags and tuned files.
BUILD = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from ladder.build.compile import build
from ladder.build.toolchain import find_nvcc
from ladder.config.documents import read_yaml
from ladder.config.plan import plan

asked = json.loads(sys.argv[1])
run = plan({**read_yaml(Path("config/config.yaml")), **asked["settings"]})
names, flags = asked["rungs"], run.settings["compile"]["flags"]
nvcc = find_nvcc(run.settings["compile"]["nvcc"])
rungs = [rung for rung in run.ladder.values() if rung.role == "rung"]
rungs = [rung for rung in rungs if not names or rung.name in names or rung.entry in names]
with ThreadPoolExecutor() as pool:
    list(pool.map(lambda rung: build(rung, run.gpu, nvcc, flags, Path(asked["folder"]) / rung.name), rungs))
"""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status: 0 where nothing is slower, 1 where something is, 2 for an error."""
    asked = _parser().parse_args(arguments)
    try:
        config = read_yaml(ROOT / "config/config.yaml") | dict(map(setting, asked.config)) | {"sizes": asked.sizes}
        run = plan(config, dict.fromkeys(["sizes"], COMMAND_LINE))
        found = regress(run, asked.against, asked.rungs, asked.summary)
    except LadderError as error:
        print(f"regress: {error}", file=sys.stderr, flush=True)
        return NOT_COMPARED
    except KeyboardInterrupt:
        return 130
    return SLOWER if found.slower else NOTHING_SLOWER


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python workflow/regress.py", description=__doc__)
    parser.add_argument("against", help="a git revision, or the folder of another checkout")
    parser.add_argument("rungs", nargs="*", metavar="rung", help="without any, those whose builds differ")
    parser.add_argument(
        "--sizes", nargs="+", default=COMPARED_SIZES, metavar="SIZE", help=f"n or MxNxK ({', '.join(COMPARED_SIZES)})"
    )
    parser.add_argument("--summary", type=Path, help="Markdown file; without it, comparison.md beside the records")
    parser.add_argument("--config", "-C", nargs="+", default=[], metavar="KEY=VALUE", help="as snakemake takes them")
    return parser


def regress(run: Plan, against: str, rungs: Sequence[str] = (), summary: Path | None = None) -> Comparison:
    """Compare and write the summary; rungs that compile to the same build are not timed.

    The summary is also appended to the file that $GITHUB_STEP_SUMMARY names. Raises LadderError where nothing can be
    compared: without a GPU, for a side that is none, or a rung that does not compile here or fails.
    """
    if not run.measuring:
        raise LadderError(f"{run.headline}; run where `nvidia-smi` lists a GPU")
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as temporary:
        folder = Path(temporary)
        sides = {"before": unpacked(against, folder / "checkout"), "after": ROOT}
        built = {side: _built(tree, run, rungs, folder / side) for side, tree in sides.items()}
        pairs, left_out = _pairs(built)
        same = [
            name for name, both in pairs.items() if len({each.record["build_digest"] for each in both.values()}) == 1
        ]
        changed = {name: both for name, both in pairs.items() if name not in same}
        with lease(run.devices) as device:
            run = replace(run, devices=(device,))
            table = compared(run, changed, in_order(list(run.shapes)), folder / "log")
    found = Comparison(table, against, tuple(same), left_out, f"{run.device.name}, driver {run.device.driver}")
    text = markdown(found)
    path = summary or run.raw().parent / "comparison.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    if step := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(step).open("a") as file:
            file.write(text)
    say(f"{text}\nSummary: {shown(path)}")
    return found


def compared(run: Plan, pairs: Mapping[str, Mapping[str, Build]], shapes: list[str], log: Path) -> pd.DataFrame:
    """Time pairs of builds in turn and decide, as `ladder.tables.regression` says; `decided`'s table."""

    def process(name: str, number: int, of: list[str]) -> pd.DataFrame:
        where = environment(ROOT, run.device, pairs[name]["after"].record, settings_digest({}))
        progress = Progress("regress", name)
        progress(f"process {number + 1}: {', '.join(of)}")
        timing, device = run.settings["timing"], LEASED
        expected, order = run.expected([name]), aliases(number)
        timings = time_in_turn(order, pairs[name], of, expected, timing, device, where, log, lambda *_: None)
        return observed(timings).assign(rung=name)

    return in_two_steps(list(pairs), shapes, process)


def in_two_steps(
    rungs: Sequence[str], shapes: list[str], process: Callable[[str, int, list[str]], pd.DataFrame]
) -> pd.DataFrame:
    """Screen every rung, confirm the suspects with new processes, and decide.

    `process` gives the rows of `observed` and rung for a rung, the number of its process and shapes. The processes of
    a step are of all rungs in turn.
    """
    empty = pd.DataFrame(columns=["shape", "time_ms_before", "time_ms", "change", "rung"])
    screened = [process(name, number, shapes) for number in range(SCREENED) for name in rungs]
    first = pd.concat(screened, ignore_index=True) if screened else empty
    again: dict[str, list[str]] = {}
    for name, shape in suspects(first):
        again.setdefault(name, []).append(shape)
    numbers = range(SCREENED, SCREENED + CONFIRMED)
    confirmed = [process(name, number, of) for number in numbers for name, of in again.items()]
    return decided(first, pd.concat(confirmed, ignore_index=True) if confirmed else empty)


def _built(tree: Path, run: Plan, rungs: Sequence[str], folder: Path) -> dict[str, Build]:
    """The rungs of a checkout, compiled by that checkout's own package."""
    folder.mkdir()
    settings = {"gpu": run.settings["gpu"]}
    request = json.dumps({"settings": settings, "rungs": list(rungs), "folder": str(folder)})
    path = {**os.environ, "PYTHONPATH": str(tree / "workflow"), VISIBLE: run.device.uuid}
    done = subprocess.run(
        [sys.executable, "-c", BUILD, request], cwd=tree, env=path, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise LadderError(f"{tree}: its rungs cannot be compiled: {lines[-1]}")
    return {each.parent.name: Build(each.parent) for each in sorted(folder.glob("*/compile.json"))}


def _pairs(built: Mapping[str, Mapping[str, Build]]) -> tuple[dict[str, dict[str, Build]], dict[str, str]]:
    """The builds of each rung that both sides have, and why others are left out."""
    pairs: dict[str, dict[str, Build]] = {}
    left_out: dict[str, str] = {}
    for name, after in built["after"].items():
        status = after.record["status"]
        if status == "failed":
            raise LadderError(f"{name}: does not compile: {after.record['message']}")
        if status != "ok":
            left_out[name] = after.record["message"]
        elif name not in built["before"] or built["before"][name].record["status"] != "ok":
            left_out[name] = "is new, or did not compile before"
        else:
            pairs[name] = {"before": built["before"][name], "after": after}
    gone = [name for name in built["before"] if name not in built["after"]]
    return pairs, left_out | dict.fromkeys(gone, "is gone")
