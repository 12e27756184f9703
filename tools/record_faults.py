"""By what each fault of the corpus is caught: tests/faults/*.json and results/GPU/raw/faults.json."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from corpus import CONTROLS, FAULTS, emulate, expected, header, source_digest, title, written
from emulator import RUNGS, SMALL, compile_rung, run
from ladder.build.compile import Build, build
from ladder.build.library import Library
from ladder.build.toolchain import find_nvcc
from ladder.config.documents import read_yaml
from ladder.config.plan import Plan, plan
from ladder.measure.check.emulate import emulate_rung
from ladder.measure.check.stage import check_rung
from ladder.measure.sanitize.stage import TOOLS, require_sanitizer, run_tool, sanitizer_version
from ladder.model.rung import Rung
from ladder.records import provenance, store
from ladder.records.provenance import environment
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT, shown
from recording import record_as

EMULATED = ROOT / "tests/faults/emulated.json"
SEEDS = ROOT / "tests/faults/seeds.json"
LADDER = ROOT / "tests/faults/ladder.json"
ON_GPU = ROOT / "results/h100-sxm/raw/faults.json"
CORES = len(os.sched_getaffinity(0))


def where() -> dict[str, Any]:
    """When and with what a record of the emulator is made."""
    compiler = subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    return {
        "measured_at": provenance.now(),
        "git_commit": provenance.git_commit(ROOT),
        "compiler": f"g++ {compiler}",
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": CORES,
    }


def compiled(sources: Iterable[Path], folder: Path) -> dict[Path, Library]:
    """Every source compiled for the emulator; raises LadderError with g++'s message where one does not compile."""

    def library(source: Path) -> tuple[Path, Library]:
        target = folder / f"{source.stem}.so"
        if error := compile_rung(written(source, folder), target):
            raise LadderError(error)
        return source, Library(target)

    with ThreadPoolExecutor(CORES) as pool:
        return dict(pool.map(library, sources))


def record_emulator() -> None:
    """Every fault and control in the emulator: tests/faults/emulated.json."""
    entries = []
    with tempfile.TemporaryDirectory() as folder:
        for source, library in compiled(FAULTS + CONTROLS, Path(folder)).items():
            found, lines = emulate(library, source)
            said = {"found": sorted(found), "first": lines[:1]}
            entries.append({"name": source.stem, "source_digest": source_digest(source), **said})
    store.write_json(EMULATED, {"where": where(), "entries": entries})


def record_seeds(count: int = 200) -> None:
    """Every sound kernel with so many orders of threads in the emulator: tests/faults/seeds.json."""
    alarms, begun = [], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        libraries = compiled(RUNGS + CONTROLS, Path(folder))
        for source, library in libraries.items():
            for case in SMALL:
                named = {"name": source.stem, "case": str(case)}
                results = set()
                for seed in range(1, count + 1):
                    result, kinds, lines = run(library, case, seed, data=0)
                    results.add(result)
                    if kinds:
                        alarms.append({**named, "seed": seed, "found": [*kinds, *lines]})
                if len(results) > 1:
                    alarms.append({**named, "seed": 0, "found": ["nondeterminism"]})
            print(f"{source.stem}: {len(alarms)} alarms so far, {time.monotonic() - begun:.0f} s", flush=True)
    record = {
        "where": where() | {"wall_s": round(time.monotonic() - begun)},
        "seeds": count,
        "cases": [str(case) for case in SMALL],
        "products": count * len(SMALL) * len(libraries),
        "kernels": [source.stem for source in libraries],
        "alarms": alarms,
    }
    store.write_json(SEEDS, record)
    if alarms:
        raise LadderError(f"{shown(SEEDS)}: {len(alarms)} false alarms")


def record_ladder() -> None:
    """How long the emulate stage takes on two CPUs: tests/faults/ladder.json.

    Each rung is built with its source's defaults, whatever the tuned files say.
    """
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    run_plan = plan(read_yaml(ROOT / "config/config.yaml") | {"measure": False, "tune": {"use": False}})
    cases = run_plan.emulated_cases()

    def check(rung: Rung, folder: Path) -> dict[str, Any]:
        made = Build(folder / rung.name)
        store.write_json(made.folder / "compile.json", {"status": "ok"})
        record = emulate_rung(rung, made, cases, 1, 60, folder / "log")
        print(f"{rung.name}: {record['status']}  {record['message']}", flush=True)
        return {"name": rung.name, "status": record["status"], "cases": len(record["cases"])}

    begun = time.monotonic()
    rungs = [rung for rung in run_plan.rungs if rung.role == "rung"]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        entries = list(pool.map(partial(check, folder=Path(folder)), rungs))
    wall_s = round(time.monotonic() - begun)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    shapes = len({case["shape"] for case in cases})
    place = where() | {"cpus": 2, "wall_s": wall_s, "cpu_s": round(used.ru_utime + used.ru_stime)}
    store.write_json(LADDER, {"where": place, "cases": len(cases), "shapes": shapes, "entries": entries})
    print(f"{wall_s} s, {place['cpu_s']} s of the CPUs")


def by_emulator(entry: Mapping[str, Any]) -> str:
    """What the emulator found, in the words of a table; empty where it found nothing."""
    return ", ".join(entry["found"])


def by_check(entry: Mapping[str, Any]) -> str:
    """What the check on the GPU says of a fault, in a few words; empty where it passed."""
    if entry["check"]["status"] != "failed":
        return ""
    message = entry["check"]["message"]
    for mark, words in _CHECKED.items():
        if mark in message:
            return words
    return "failed"


_CHECKED = {
    "bound": "error bound",
    "norm": "error bound",
    "that belongs": "NaN or infinity",
    "NaN": "NaN or infinity",
    "differs from the first": "not deterministic",
    "wrote": "writes outside",
    "cudaErrorMisaligned": "misaligned address",
    "cudaErrorIllegal": "illegal address",
    "sgemm returned": "launch refused",
    "no progress": "does not end",
}


def by_sanitizer(entry: Mapping[str, Any]) -> str:
    """The tools that blame a kernel; empty where none does."""
    return ", ".join(tool["tool"] for tool in entry["sanitizer"] if tool["verdict"] == "failed")


def corpus() -> dict[str, Any]:
    """What docs/faults.md says of the four records; a fault may be newer than the GPU's.

    Keys: the records `emulated`, `gpu`, `seeds` and `ladder`; `rows`, one a fault, with what each tool says of it; how
    many are `caught` and how many `controls` there are; the names of those `blamed` and of the `huge` faults.
    """
    emulated, seeds, ladder = (store.read_json(path) for path in (EMULATED, SEEDS, LADDER))  # of no GPU
    gpu = store.read_record(ON_GPU)
    in_emulator = {entry["name"]: entry for entry in emulated["entries"]}
    entries = {entry["name"]: entry for entry in gpu["entries"]}
    rows = [
        {
            "name": source.stem,
            "what": title(source),
            "published": header(source, "Published"),
            "emulator": by_emulator(in_emulator[source.stem]),
            "check": by_check(entries[source.stem]) if source.stem in entries else None,
            "sanitizer": by_sanitizer(entries[source.stem]) if source.stem in entries else None,
        }
        for source in FAULTS
    ]
    sound = [entry for entry in entries.values() if entry["kind"] == "control"]
    blamed = {entry["name"] for entry in sound if by_check(entry) or by_sanitizer(entry)}
    blamed |= {source.stem for source in CONTROLS if in_emulator[source.stem]["found"]}
    return {
        "rows": rows,
        "caught": sum(bool(row["emulator"] or row["check"] or row["sanitizer"]) for row in rows),
        "controls": len(CONTROLS),
        "blamed": sorted(blamed),
        "huge": [source.stem for source in FAULTS if header(source, "Case").startswith("huge")],
        **{"emulated": emulated, "gpu": gpu, "seeds": seeds, "ladder": ladder},
    }


def record_gpu(limit_s: int = 600) -> None:
    """The check and compute-sanitizer on a GPU, for so many seconds: results/GPU/raw/faults.json."""
    with tempfile.TemporaryDirectory() as folder:
        watch = partial(on_gpu, folder=Path(folder), limit_s=limit_s)
        record_as(ON_GPU.name, watch, sizes=[64], profile={"enabled": False, "sizes": [64]})


def on_gpu(plan_of_run: Plan, folder: Path, limit_s: float) -> dict[str, Any]:
    """The record of every fault and control: the verdicts of the check and of each of compute-sanitizer's tools.

    Several share the GPU: nothing is timed. What has not begun when the limit in seconds is over is not run.
    """
    begun = time.monotonic()
    nvcc, sanitizer = find_nvcc("auto"), require_sanitizer()
    flags, runs = plan_of_run.settings["compile"]["flags"], plan_of_run.settings["check"]["runs"]
    cases, watched = plan_of_run.cases(), plan_of_run.sanitizer_cases()
    sources = {source.stem: source for source in FAULTS + CONTROLS}
    naive = replace(plan_of_run.ladder["naive"], macros={})
    # What never ends goes last, and so slows nothing but its like.
    never = {name for name, source in sources.items() if "timeout" in expected(source)}

    def late() -> bool:
        return time.monotonic() - begun > limit_s

    def limit(name: str, seconds: float) -> float:
        return 20 if name in never else seconds

    def compile_one(name: str) -> None:
        source = os.path.relpath(written(sources[name], folder), ROOT / "kernels")
        build(replace(naive, name=name, source=source), plan_of_run.gpu, nvcc, flags, folder / name)

    def check_one(name: str) -> dict[str, Any]:
        if late():
            return {"status": "not run", "message": "no time was left"}
        started, log = time.monotonic(), folder / f"{name}.log"
        made = Build(folder / name)
        record = check_rung(made, cases, 0, limit(name, 30), lambda _: {}, log, lambda *_: None, runs)
        return {key: record[key] for key in ("status", "message")} | {"wall_s": round(time.monotonic() - started, 1)}

    def watch_one(name: str, tool: str) -> dict[str, Any]:
        if late():
            return {"tool": tool, "verdict": "not run", "message": "no time was left", "findings": []}
        library, log = Build(folder / name).library, folder / f"{name}.{tool}.log"
        result = run_tool(sanitizer, tool, library, watched, 0, limit(name, 40), log)
        return result | {"findings": result["findings"][:3]}

    uncompiled = {"check": {"status": "failed", "message": "does not compile"}, "sanitizer": []}
    done = dict.fromkeys(sources, uncompiled)
    with ThreadPoolExecutor(CORES) as pool:
        list(pool.map(compile_one, sources))
        compiling = [name for name in sources if Build(folder / name).record["status"] == "ok"]
        print(f"compiled after {time.monotonic() - begun:.0f} s", flush=True)
        for group in ([n for n in compiling if n not in never], [n for n in compiling if n in never]):
            checks = [pool.submit(check_one, name) for name in group]
            tools = [[pool.submit(watch_one, name, tool) for tool in TOOLS] for name in group]
            for name, check, watches in zip(group, checks, tools, strict=True):
                done[name] = {"check": check.result(), "sanitizer": [watch.result() for watch in watches]}
                blamed = by_check(done[name]), by_sanitizer(done[name])
                print(f"{name}: {', '.join(filter(None, blamed)) or 'not caught'}", flush=True)
    built = environment(ROOT, plan_of_run.device, Build(folder / compiling[0]).record, "")
    return {
        "where": built | {"sanitizer": sanitizer_version(sanitizer), "wall_s": round(time.monotonic() - begun)},
        "cases": len(cases),
        "sanitizer_cases": watched,
        "entries": [
            {
                "name": name,
                "kind": "fault" if source in FAULTS else "control",
                "source_digest": source_digest(source),
                **done[name],
            }
            for name, source in sources.items()
        ],
    }


COMMANDS = {
    "emulator": record_emulator,
    "seeds": record_seeds,
    "ladder": record_ladder,
    "gpu": record_gpu,
}
