"""By what each fault of the corpus is caught: tests/faults/*.json and results/GPU/raw/faults.json."""

from __future__ import annotations

import os
import platform
import resource
import secrets
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from corpus import (
    CLASSES,
    CONTROLS,
    FAULTS,
    as_rung,
    base,
    emulate,
    expected,
    first_line,
    header,
    source_digest,
    the_plan,
    title,
)
from emulator import RUNGS, SMALL, compile_rung, run
from ladder.build.compile import Build, build
from ladder.build.emulator import EMULATED as PASSED
from ladder.build.emulator import EMULATOR, NEEDS_GPU, NOT_EMULATED, cached_engine
from ladder.build.library import Library
from ladder.build.toolchain import find_nvcc
from ladder.config.documents import read_yaml
from ladder.config.plan import Plan, plan
from ladder.measure.check.emulate import emulate_rung
from ladder.measure.check.stage import check_rung
from ladder.measure.sanitize.stage import TOOLS, require_sanitizer, run_tool, sanitizer_version
from ladder.model.rung import Rung
from ladder.records import provenance, store
from ladder.records.digests import present_source
from ladder.records.provenance import environment
from ladder.system.errors import LadderError
from ladder.system.nvml import Present
from ladder.system.paths import ROOT, shown
from ladder.system.process import LEASED
from recording import CORES, on_every_gpu, record_as

EMULATED = ROOT / "tests/faults/emulated.json"
SEEDS = ROOT / "tests/faults/seeds.json"
LADDER = ROOT / "tests/faults/ladder.json"
ON_GPU = ROOT / "results/h100-sxm/raw/faults.json"
LIMIT_S = 60.0  # of a case, and of a tool of compute-sanitizer
LIMIT_OF_ENDLESS_S = 20.0  # where the fault is known to be endless


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


def emulator_digest() -> str:
    """What identifies the emulator and its cases: entries of a record that has another one are recorded again."""
    files = sorted(path for path in EMULATOR.rglob("*") if path.suffix in (".h", ".cuh", ".cpp", ".txt"))
    files += [ROOT / "workflow/ladder" / path for path in ("model/drawn.py", "measure/inputs.py")]
    return store.digest(*(path.read_text() for path in files), *map(str, the_plan().emulated_cases()))


def record_each(
    path: Path,
    sources: Sequence[Path],
    key: Mapping[str, Any],
    of_one: Callable[[Path], Mapping[str, Any]],
    jobs: int,
    stays: Callable[[Path, Mapping[str, Any]], bool] = lambda source, entry: False,
) -> list[dict[str, Any]]:
    """A record with an entry for each source, written after each of them; returns the entries.

    What stands there already is kept where it is of the same source and has the values of `key`, so that a record that
    was broken off goes on, or where it `stays` whatever the key. `of_one` gives the rest of an entry.
    """
    held = {entry["name"]: entry for entry in store.read_json(path)["entries"]} if path.exists() else {}
    entries = {}
    for source in sources:
        known = held.get(source.stem, {"source_digest": ""})
        as_before = key.items() <= known.items() or stays(source, known)
        if known["source_digest"] == source_digest(source) and as_before:
            entries[source.stem] = known

    def entry(source: Path) -> dict[str, Any]:
        return {"name": source.stem, "source_digest": source_digest(source), **key, **of_one(source)}

    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed(pool.submit(entry, source) for source in sources if source.stem not in entries):
            name = done.result()["name"]
            entries[name] = done.result()
            store.write_json(path, {"where": where(), "entries": [entries[each] for each in sorted(entries)]})
            print(f"{len(entries)} of {len(sources)}: {name}", flush=True)
    return list(entries.values())


def record_emulator() -> None:
    """What the emulate stage says of every fault and control: tests/faults/emulated.json.

    A fault that was caught is not recorded again for a change of the emulator: tests/test_emulator.py computes the case
    that showed it.
    """

    def caught(source: Path, entry: Mapping[str, Any]) -> bool:
        return source in FAULTS and bool(by_emulator(source, entry))

    record_each(EMULATED, FAULTS + CONTROLS, {"emulator": emulator_digest()}, emulate, CORES, caught)


def record_seeds(count: int = 200) -> None:
    """Every sound kernel with so many orders of threads in the emulator: tests/faults/seeds.json.

    Raises LadderError where one of them was blamed.
    """
    key = {"emulator": emulator_digest(), "seeds": count}
    if alarms := sum(len(entry["alarms"]) for entry in record_each(SEEDS, RUNGS + CONTROLS, key, seeds_of(count), 1)):
        raise LadderError(f"{shown(SEEDS)}: {alarms} false alarms")


def seeds_of(count: int) -> Callable[[Path], Mapping[str, Any]]:
    """What becomes of a sound kernel with so many seeds: how many `products`, the `alarms`, and why there are none."""

    def of_one(source: Path) -> dict[str, Any]:
        begun, alarms, products = time.monotonic(), [], 0
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / f"{source.stem}.so"
            needs, precision = compile_rung(source, target), as_rung(source, Path(folder)).precision
            for case in SMALL if not needs else []:
                results = set()
                for seed in range(1, count + 1):
                    result, kinds, lines = run(Library(target), case, seed, data=0, precision=precision)
                    results.add(result)
                    if kinds:
                        alarms.append({"case": str(case), "seed": seed, "found": [*kinds, *lines]})
                if len(results) > 1:
                    alarms.append({"case": str(case), "seed": 0, "found": ["nondeterminism"]})
                products += count
        wall_s = round(time.monotonic() - begun)
        return {"needs": needs, "products": products, "alarms": alarms, "wall_s": wall_s}

    return of_one


def record_ladder() -> None:
    """How long the emulate stage takes on two CPUs: tests/faults/ladder.json.

    Each rung is built with its source's defaults, whatever the tuned files say; the engine once for all, as in a run.
    """
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    run_plan = plan(read_yaml(ROOT / "config/config.yaml") | {"measure": False, "tune": {"use": False}})
    rungs = [rung for rung in run_plan.rungs if rung.role == "rung"]
    cases = {rung.name: run_plan.emulated_cases(rung.name) for rung in rungs}

    def check(rung: Rung, folder: Path, engine: Path) -> dict[str, Any]:
        made = Build(folder / rung.name)
        store.write_json(made.folder / "compile.json", {"status": "ok"})
        record = emulate_rung(rung, made, cases[rung.name], 1, 60, folder / "log", engine)
        print(f"{rung.name}: {record['status']}  {record['message']}", flush=True)
        return {"name": rung.name, "status": record["status"], "cases": len(record["cases"])}

    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        engine = cached_engine(Path(folder))
        entries = list(pool.map(partial(check, folder=Path(folder), engine=engine), rungs))
    wall_s = round(time.monotonic() - begun)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    place = where() | {"cpus": 2, "wall_s": wall_s, "cpu_s": round(used.ru_utime + used.ru_stime)}
    store.write_json(LADDER, {"where": place, "cases": sum(map(len, cases.values())), "entries": entries})
    print(f"{wall_s} s, {place['cpu_s']} s of the CPUs")


def by_emulator(source: Path, entry: Mapping[str, Any]) -> str:
    """The kind of finding by which the emulator catches a fault; empty where it says nothing that it has to say."""
    return entry["found"] if entry.get("found", "") in expected(source) else ""


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


def by_sanitizer(entry: Mapping[str, Any], but: Collection[str] = ()) -> str:
    """The tools that blame a kernel, but those named; empty where none does."""
    return ", ".join(tool for tool in blaming_tools(entry) if tool not in but)


def blaming_tools(entry: Mapping[str, Any]) -> list[str]:
    """The tools of compute-sanitizer that blame a kernel."""
    return [tool["tool"] for tool in entry["sanitizer"] if tool["verdict"] == "failed"]


def by_gpu(entry: Mapping[str, Any] | None, but: Collection[str] = ()) -> str:
    """What the check on a GPU and the tools, but those named, find in a few words; empty where they find nothing."""
    if entry is None:
        return "not tried yet"
    return ", ".join(filter(None, (by_check(entry), by_sanitizer(entry, but))))


def false_alarms(gpu: Mapping[str, Mapping[str, Any]]) -> dict[Path, list[str]]:
    """The tools that blame a sound kernel, by its source: of a fault in that kernel they say nothing."""
    return {source: blaming_tools(gpu[source.stem]) for source in CONTROLS if source.stem in gpu}


def on_gpus(path: Path = ON_GPU) -> dict[str, dict[str, Any]]:
    """The entries of a GPU's record whose sources are as they were then, by name, each with `where` it was made."""
    digests = {source.stem: source_digest(source) for source in FAULTS + CONTROLS}
    record = store.read_record(path) if path.exists() else {"where": {}, "entries": []}
    return {
        entry["name"]: {"where": record["where"]} | entry
        for entry in record["entries"]
        if present_source(entry["source_digest"]) == digests.get(entry["name"])
    }


def seeds_in_all(record: Mapping[str, Any]) -> dict[str, Any]:
    """Of all sound kernels that ran with so many seeds: their names as `kernels`, how many products, and the alarms."""
    ran = [entry for entry in record["entries"] if entry["products"]]
    return {
        "where": record["where"],
        "seeds": min(entry["seeds"] for entry in ran),
        "cases": list(map(str, SMALL)),
        "kernels": [entry["name"] for entry in ran],
        "products": sum(entry["products"] for entry in ran),
        "alarms": [alarm for entry in ran for alarm in entry["alarms"]],
    }


# What a fault would take that no tool has caught, by the status of the emulate stage.
_MISSED = {
    NEEDS_GPU: "The emulator cannot run it",
    NOT_EMULATED: "The emulator does not wait for its end, which is no verdict",
    PASSED: "No case of the emulate stage shows it",
    "failed": "The emulator blames it for something that the fault does not explain",
}


def corpus() -> dict[str, Any]:
    """What docs/faults.md says of the four records; a fault may be newer than the GPU's.

    Keys: the records `emulated`, `gpu`, `seeds` and `ladder`; `rows`, one a fault, with what each tool says of it;
    `classes`, a row each with its rates; `controls`, a row each; `total`, the rates of all, with `tried`, how many
    faults were on a GPU, and `missed`, the rows of those that nothing has caught.
    """
    emulated, seeds, ladder = (store.read_json(path) for path in (EMULATED, SEEDS, LADDER))  # of no GPU
    in_emulator, gpu = {entry["name"]: entry for entry in emulated["entries"]}, on_gpus()
    alarms = false_alarms(gpu)
    rows = [
        {
            "name": source.stem,
            "what": title(source),
            "class": header(source, "Class"),
            "published": header(source, "Published"),
            "needs": header(source, "Would take") or _MISSED.get(in_emulator[source.stem]["status"], ""),
            "emulator": by_emulator(source, in_emulator[source.stem]),
            "unknown": {PASSED: "", "failed": ""}.get(status := in_emulator[source.stem]["status"], status),
            "on_gpu": by_gpu(gpu.get(source.stem), alarms.get(base(source), ())),
            "tried": source.stem in gpu,
            "check": source.stem in gpu and by_check(gpu[source.stem]),
            "sanitizer": source.stem in gpu and by_sanitizer(gpu[source.stem], alarms.get(base(source), ())),
        }
        for source in FAULTS
    ]

    def rates(some: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        counted = {key: sum(bool(row[key]) for row in some) for key in ("emulator", "tried", "check", "sanitizer")}
        return {"faults": len(some), "on_gpu": sum(bool(row["check"] or row["sanitizer"]) for row in some)} | counted

    controls = [
        {
            "name": source.stem,
            "what": first_line(source).partition(": no fault. ")[2].removesuffix("."),
            "emulator": {PASSED: "passes", "failed": in_emulator[source.stem]["found"] or "crashes"}.get(
                in_emulator[source.stem]["status"], in_emulator[source.stem]["status"]
            ),
            "on_gpu": by_gpu(gpu.get(source.stem)) or "passes",
            "blame": header(source, "Blamed by"),
            "blamed": in_emulator[source.stem]["status"] == "failed"
            or by_gpu(gpu.get(source.stem)) not in ("", "not tried yet"),
        }
        for source in CONTROLS
    ]
    classes = [
        {"class": name, "what": what, **rates([row for row in rows if row["class"] == name])}
        for name, what in CLASSES.items()
    ]
    missed = [row for row in rows if not (row["emulator"] or row["check"] or row["sanitizer"])]
    return {
        "rows": rows,
        "classes": classes,
        "total": rates(rows) | {"caught": len(rows) - len(missed)},
        "missed": missed,
        "controls": controls,
        "seeds": seeds_in_all(seeds),
        **{"emulated": emulated, "gpu": store.read_record(ON_GPU) | {"entries": list(gpu.values())}, "ladder": ladder},
    }


def record_gpu(limit_s: int = 600) -> None:
    """The check and compute-sanitizer on GPUs of one kind, for so many seconds: results/GPU/raw/faults.json."""
    with tempfile.TemporaryDirectory() as folder:
        watch = partial(on_gpu, folder=Path(folder), limit_s=limit_s)
        record_as(ON_GPU.name, watch, gpus=None, sizes=[64], profile={"enabled": False, "sizes": [64]})


def on_gpu(run: Plan, folder: Path, limit_s: float) -> dict[str, Any]:
    """The record of every fault and control: the verdicts of the check and of each of compute-sanitizer's tools.

    What the record of this kind of GPU has already stays there, with where it was made. The others are run, and several
    share a GPU: nothing is timed. The record is written after each of them. What has not begun when the limit in
    seconds is over is left out.
    """

    def endless(source: Path) -> bool:
        return "timeout" in expected(source)

    begun, seed = time.monotonic(), 1 + secrets.randbits(31)
    nvcc, sanitizer = find_nvcc("auto"), require_sanitizer()
    flags, runs = run.settings["compile"]["flags"], run.settings["check"]["runs"]
    held = on_gpus(path := run.raw() / ON_GPU.name)
    sources = [source for source in FAULTS + CONTROLS if source.stem not in held]
    sources.sort(key=endless)  # and so they slow nothing but their like
    if not sources:
        raise LadderError(f"{shown(path)}: has all faults and controls as they stand")
    version = {"sanitizer": sanitizer_version(sanitizer)}

    def of_one(source: Path, device: Present, turn: Any) -> dict[str, Any] | None:
        if time.monotonic() - begun > limit_s:
            return None
        most_s = LIMIT_OF_ENDLESS_S if endless(source) else LIMIT_S
        rung, log = as_rung(source, folder), folder / f"{source.stem}.log"
        made = Build(folder / source.stem)
        build(rung, run.gpu, nvcc, flags, made.folder)
        alone = replace(run, ladder={rung.name: rung})
        cases = alone.cases(rung.name) + alone.drawing(rung.name).cases(seed)
        watched = alone.sanitizer_cases(rung.name)
        check, watches = {"status": "failed", "message": "does not compile"}, []
        if made.record["status"] == "ok":
            with turn:
                if time.monotonic() - begun > limit_s:
                    return None
                started = time.monotonic()
                asked = (cases, LEASED, most_s, lambda _: {}, log, lambda *_: None, runs, rung.declared)
                found = check_rung(made, *asked, until_wrong=True)
            check = {key: found[key] for key in ("status", "message")}
            check |= {"wall_s": round(time.monotonic() - started, 1)}
            watches = [run_tool(sanitizer, tool, made.library, watched, LEASED, most_s, log) for tool in TOOLS]
        return {
            "name": source.stem,
            "kind": "fault" if source in FAULTS else "control",
            "source_digest": source_digest(source),
            "where": environment(ROOT, device, made.record, "") | version,
            "cases": len(cases),
            "drawn_by": seed,
            "sanitizer_cases": len(watched),
            "check": check,
            "sanitizer": [each | {"findings": each["findings"][:3]} for each in watches],
        }

    entries, record = list(held.values()), {}
    for entry in filter(None, on_every_gpu(run.devices, of_one, sources)):
        entries.append(entry)
        record = {
            "where": entry["where"] | {"wall_s": round(time.monotonic() - begun)},
            "cases": entry["cases"],
            "entries": sorted(entries, key=itemgetter("name")),
        }
        store.write_json(path, {"stage": path.stem, **record})
        blamed = by_check(entry), by_sanitizer(entry)
        print(f"{entry['name']}: {', '.join(filter(None, blamed)) or 'not caught'}", flush=True)
    if not record:
        raise LadderError(f"{shown(path)}: nothing has ended within {limit_s:g} s; give it more")
    return record


COMMANDS = {
    "emulator": record_emulator,
    "seeds": record_seeds,
    "ladder": record_ladder,
    "gpu": record_gpu,
}
