"""Records a trial: times variants of kernels side by side with cuBLAS, and keeps their sources with the samples.

usage: python tools/trial.py NAME VARIANT... [--sizes 2048 4096] [-C KEY=VALUE...]

On a GPU. A variant is what `python workflow/bench.py` takes: a rung (`tma`, `tiled@TILE=16`) or a file of your own
(`mine.cu`, `mine.cu@BM=64,BN=64`), which is held to the precision of the first rung that is named. Each is compiled
and checked at these sizes, then the time stage times all of them in one process. The record is
results/GPU/raw/experiments/NAME.zip. Below sources/ it has the files that each variant was compiled from, and
variants.json, which names them by variant with its macros and digests.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "workflow")]

from ladder.build.compile import Build  # noqa: E402
from ladder.commands import bench  # noqa: E402
from ladder.config.plan import Plan  # noqa: E402
from ladder.config.sources import sources  # noqa: E402
from ladder.measure.time.stage import time_rung  # noqa: E402
from ladder.model.rung import Rung  # noqa: E402
from ladder.model.shape import in_order  # noqa: E402
from ladder.records import store  # noqa: E402
from ladder.records.provenance import environment, settings_digest  # noqa: E402
from ladder.system.errors import LadderError  # noqa: E402
from ladder.system.paths import shown  # noqa: E402
from ladder.system.process import LEASED, gpu_lock  # noqa: E402


def planned(variants: Sequence[str], sizes: Sequence[str], overrides: Sequence[str]) -> Plan:
    """The plan whose rungs are the variants. Raises LadderError where one cannot be, or two have the same name."""
    plans = [bench.planned(variant, sizes, [*overrides, "records=shipped"]) for variant in variants]
    rungs = [rung for each in plans for rung in each.rungs]
    names = [rung.name for rung in rungs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise LadderError(f"command line: {twice}: given twice; a variant needs a name of its own, rename its file")
    if like := next((rung for rung in rungs if not _is_file(rung)), None):
        same = {"precision": like.precision, "subnormals": like.subnormals, "baselines": like.baselines}
        rungs = [dataclasses.replace(rung, **same) if _is_file(rung) else rung for rung in rungs]
    return dataclasses.replace(plans[0], rungs=tuple(rungs))


def _is_file(rung: Rung) -> bool:
    return rung.entry.endswith(".cu")


def source_files(rungs: Sequence[Rung], builds: Mapping[str, Build]) -> dict[str, bytes]:
    """The members of the record below sources/: ENTRY/FILE for each file of a variant, and variants.json."""
    members: dict[str, bytes] = {}
    variants: dict[str, Any] = {}
    for rung in rungs:
        files = {f"sources/{rung.entry}/{path.name}": path.read_bytes() for path in sources(rung)}
        if clash := next((name for name, text in files.items() if members.get(name, text) != text), None):
            raise LadderError(f"{rung.name}: {clash}: differs from that of another variant; rename one of the files")
        members |= files
        compiled = builds[rung.name].record
        variants[rung.name] = {
            "files": list(files),
            "macros": dict(rung.macros),
            "tuned": [dict(each.macros) for each in rung.tuned],
            **{key: compiled[key] for key in ("source_digest", "build_digest")},
        }
    return members | {"sources/variants.json": store.to_json(variants).encode()}


def record_trial(name: str, run: Plan) -> Path:
    """Compile, check and time the variants of a plan; returns the record, which did not exist before.

    Raises LadderError where there is no GPU, the name is taken, or a variant does not compile, is wrong or fails.
    """
    target = run.raw() / "experiments" / f"{name}.zip"
    if not re.fullmatch(r"\w+", name):
        raise LadderError(f"command line: {name!r} is no name of a record; use letters, digits and _")
    if target.exists():
        raise LadderError(f"{shown(target)}: exists, and records are never replaced; give another name")
    if not run.measuring:
        raise LadderError(f"{run.headline}; run where `nvidia-smi` lists a GPU")
    needed = {rung.name: rung for rung in [*run.rungs, run.baseline]}
    names = list(needed)
    settings = run.settings["timing"]
    settings = {**settings, "reference_budget_s": settings["budget_s"]}  # no variant is a mere reference
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder:
        log, samples = Path(folder) / "log", Path(folder) / "samples.zip"
        with ThreadPoolExecutor() as pool:
            compiles = bench.compiling(run, list(needed.values()), Path(folder), pool)
            builds = {each: made.result() for each, made in compiles.items()}
        kept = source_files(run.rungs, builds)
        with gpu_lock(run.device.uuid):
            for each in names:
                bench.check(run, builds[each], log, names, full=False)
            where = environment(ROOT, run.device, builds[names[0]].record, settings_digest({"settings": settings}))
            expected = run.expected(names)
            shapes, device = in_order(list(run.shapes)), LEASED
            message = time_rung(names[0], builds, shapes, expected, settings, device, where, samples, log, _progress)
        if message:
            raise LadderError(f"{name}: not recorded: {message}")
        (files,) = store.read_runs(samples).values()
        record = store.run_record(files, samples) | {"stage": "experiments", "experiment": name}
        files |= {"record.json": store.to_json(record).encode()}
    store.add_run(target, files | kept)
    return target


def _progress(kernel: str, shape: str) -> None:
    print(f"[time] {kernel} at {shape}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Do what the arguments ask for; returns the exit status, which is 1 after one line on the standard error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("variants", nargs="+", metavar="variant")
    parser.add_argument("--sizes", nargs="+", default=bench.SIZES, metavar="SIZE", help="n or MxNxK")
    parser.add_argument("-C", "--config", nargs="+", default=[], metavar="KEY=VALUE", help="as snakemake takes them")
    asked = parser.parse_args(arguments)
    try:
        target = record_trial(asked.name, planned(asked.variants, asked.sizes, asked.config))
    except LadderError as error:
        print(f"record_trial: {error}", file=sys.stderr)
        return 1
    print(shown(target))
    print(f"Describe {asked.name} in docs/trials.yaml, then: snakemake --cores all --until experiments && make docs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
