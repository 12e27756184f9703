"""By what each attack on the timing is caught: tests/attacks/compiled.json and results/GPU/raw/attacks.json."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from corpus import header, title
from ladder.build.borrowed import why_borrowed
from ladder.build.compile import Build, build, build_digest, compile_command
from ladder.build.toolchain import Nvcc, find_nvcc, run_compiler
from ladder.config.documents import read_yaml
from ladder.config.gpus import read_gpu
from ladder.config.plan import Plan
from ladder.config.sources import source_digest
from ladder.measure.check.stage import check_rung
from ladder.measure.time.stage import time_rung
from ladder.model.rung import Rung
from ladder.records import store
from ladder.records.provenance import environment, settings_digest
from ladder.records.timings import read_time_record
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT
from ladder.system.process import LEASED
from record_architectures import FLAGS
from recording import CORES, record_as

FOLDER = ROOT / "tests/attacks"
CONTROL = FOLDER / "control.cu"
ATTACKS = sorted(set(FOLDER.glob("*.cu")) - {CONTROL})
COMPILED = FOLDER / "compiled.json"
ON_GPU = ROOT / "results/h100-sxm/raw/attacks.json"

# What attacks do, in the words of a line `Class`, and in those of the page.
CLASSES = {
    "replay": "copies an earlier result",
    "look": "looks whether C has to be computed",
    "skip": "computes once, or not each time",
    "kept": "keeps a result in the workspace or in memory of its own",
    "prepared": "keeps prepared inputs between calls",
    "elsewhere": "computes off the clock: on another stream, by a callback, by a thread, or afterwards",
    "recognise": "recognises the process, the stream, the addresses, the tools or the number of the call",
    "inputs assumed": "computes what holds for the timed inputs alone",
    "inputs changed": "changes the inputs",
    "precision": "computes less, or less exactly",
    "cache": "keeps inputs in the L2 cache, or the cache from others",
    "limits": "changes limits of the device",
    "timer": "tampers with the timer",
    "reference": "tampers with what its result is compared with",
    "channel": "tampers with what the process reports",
    "baseline": "slows the references",
    "warm-up": "wastes the time for its samples",
    "library": "lets cuBLAS multiply",
    "leftover": "leaves memory, threads, handlers or settings behind",
}
# By what attacks have to be caught, in the words of a line `Caught by`.
KINDS = {
    "source": "the rung does not compile: it imports or exports what no rung may",
    "check": "the check fails",
    "values": "C is wrong in a timed launch",
    "late": "C is computed before the clock starts, or is not complete when it stops",
    "state": "something in the process or on the device is not what it was",
    "runtime": "the code or the tables of a library, or the timer, are not what they were",
    "rate": "the time is shorter than the GPU allows",
    "baseline": "the references take another time than before",
    "no gain": "the attack does not find what it waits for, and is not faster than the control",
}
BROKEN = "broken"  # the stage of an attack that the machine broke off
STAGES = {"compile": "compiler", "check": "check", "time": "timing"}
LEAST_TIME = 0.95  # of the control's: below it an attack has gained
SIZES = [1024, 2048]
CHECKED = {"shapes": [1, 64, 129, "33x65x17", "200x136x3"], "family_shapes": [128]}
SAMPLED = {"references": ["cublas", "naive"], "warmup": 3, "iterations": 20, "budget_s": 0.4}
SAMPLED |= {"reference_budget_s": 0.1, "time_limit_s": 30}


def expected(source: Path) -> set[str]:
    """The kinds of KINDS by which an attack has to be caught, of which one is enough."""
    return {kind.strip() for kind in header(source, "Caught by").split(",")}


def classes(source: Path) -> list[str]:
    """The classes of CLASSES that an attack is of, the main one first."""
    return [each.strip() for each in header(source, "Class").split(",")]


def rung_of(source: Path, like: Rung) -> Rung:
    """A source of the corpus as a rung, with what another rung says of itself."""
    path = os.path.relpath(source, ROOT / "kernels")
    return replace(like, name=source.stem, entry=source.stem, source=path, macros={}, tuned=(), before=None)


def _as_rung(source: Path) -> Rung:
    return rung_of(source, Rung("", "", "", "", {}, "fp32", "rung", None, "5.0"))


def digest_of(source: Path) -> str:
    """What identifies the code of an attack, its headers included."""
    return source_digest(_as_rung(source))


def harness() -> str:
    """What identifies the code that checks and times, by which a recorded verdict is old; words alone do not count."""
    measure = ROOT / "workflow/ladder/measure"
    files = {*measure.glob("*.[pc][yu]"), *(measure / "check").glob("*.py"), *(measure / "time").glob("*.py")}
    return store.digest_files(sorted(files - {measure / "check/in_common.py"}))


def is_caught(entry: Mapping[str, Any], control: Mapping[str, Any] | None, kinds: Iterable[str]) -> bool:
    """Whether a stage refused an attack or, where that is enough, it is at no size faster than the control."""
    if entry["stage"]:
        return entry["stage"] in STAGES
    times = (control or {}).get("times_ms") or {}
    slower = [entry["times_ms"][shape] >= LEAST_TIME * time_ms for shape, time_ms in times.items()]
    return "no gain" in kinds and bool(slower) and all(slower)


def attacks() -> dict[str, Any]:
    """What docs/attacks.md says.

    Keys: `rows`, one an attack, with its name, classes, what it does, the kinds it has to be caught by, whether it is
    caught (None where that is not recorded) and by what, and what it `needs` to be, where it is not; `groups`, the rows
    by the words of their main class; `kinds`; the `gpu` record or None; `gpus`, how many of a kind it is of; the `days`
    on which they measured; `sound`, its entries of sound rungs.
    """
    record = store.read_record(ON_GPU) if ON_GPU.exists() else None
    entries = {entry["name"]: entry for entry in (record or {}).get("entries", [])}
    rows, control = [], entries.get(CONTROL.stem)
    for source in ATTACKS:
        entry = entries.get(source.stem)
        rows.append(
            {
                "name": source.stem,
                "classes": classes(source),
                "what": title(source),
                "expected": sorted(expected(source), key=list(KINDS).index),
                "caught": entry and is_caught(entry, control, expected(source)),
                "by": entry and told(entry, control),
                "needs": header(source, "Would take"),
            }
        )
    groups = {words: [row for row in rows if row["classes"][0] == each] for each, words in CLASSES.items()}
    sound = (record or {}).get("sound", [])
    days = sorted({entry["measured_at"][:10] for entry in entries.values() if "measured_at" in entry})
    gpus = {entry["gpu"] for entry in entries.values() if "gpu" in entry}
    gpus |= {uuid for entry in sound for uuid in entry["gpus"]}
    found = {"rows": rows, "groups": groups, "kinds": KINDS, "gpu": record, "sound": sound}
    return found | {"gpus": len(gpus), "days": days}


def told(entry: Mapping[str, Any], control: Mapping[str, Any] | None) -> str:
    """What caught an attack, in the words of a table; its times over the control's where nothing did."""
    if entry["stage"]:
        message = entry["message"].removeprefix("dishonest: ").replace("|", "\\|").replace("<", "&lt;")
        return f"{STAGES.get(entry['stage'], 'not known')}: {message}"
    times = (control or {}).get("times_ms") or {}
    shares = [f"{entry['times_ms'][shape] / time_ms:.2f} at {shape}" for shape, time_ms in times.items()]
    return f"timed; its time over the control's: {', '.join(shares) or 'not known'}"


def compiled_on_cpu(source: Path, nvcc: Nvcc) -> dict[str, str]:
    """The name and build_digest of an attack, and in `message` why it does not compile, if it does not.

    What the record says of the same code, compiler and flags is taken from there.
    """
    one, rung = read_gpu("h100-sxm"), _as_rung(source)
    digest = build_digest(rung, one, nvcc, FLAGS)
    for held in store.read_json(COMPILED)["builds"] if COMPILED.exists() else []:
        if (held["name"], held["build_digest"]) == (source.stem, digest):
            return held
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / f"{source.stem}.o"
        command = [part for part in compile_command(rung, one, nvcc, FLAGS, made) if part != "--no-device-link"]
        _, error = run_compiler(["-c" if part == "-shared" else part for part in command], source)
        return {
            "name": source.stem,
            "build_digest": digest,
            "message": error or why_borrowed([made], Path(folder) / "library.so"),
        }


def record_compiled() -> None:
    """Compile each attack that has changed: tests/attacks/compiled.json."""
    nvcc, sources = find_nvcc(), [CONTROL, *ATTACKS]
    with ThreadPoolExecutor(CORES) as pool:
        builds = list(pool.map(partial(compiled_on_cpu, nvcc=nvcc), sources))
    store.write_json(COMPILED, {"nvcc": nvcc.version, "flags": FLAGS, "builds": builds})


def record_gpu(seconds: int = 600) -> None:
    """Compile, check and time each attack on a GPU; nothing begins after so many seconds, and the next run goes on."""
    _record(partial(on_gpu, limit_s=seconds))


def record_sound(repetitions: int = 10) -> None:
    """Time each rung of the ladder on a GPU so often, and count alarms; what an earlier run did is not done again."""
    _record(partial(sound_on_gpu, repetitions=repetitions))


def _record(measure: Callable[[Plan, Path], dict[str, Any]]) -> None:
    config = read_yaml(ROOT / "config/config.yaml")
    sections = {"sizes": SIZES, "profile": {"enabled": False, "sizes": SIZES}}
    sections |= {"check": config["check"] | CHECKED, "timing": config["timing"] | SAMPLED}
    with tempfile.TemporaryDirectory() as folder:
        record_as(ON_GPU.name, lambda run: measure(run, Path(folder)), **sections)


class Corpus:
    """The record of one GPU while it grows: it is written after each entry."""

    def __init__(self, run: Plan) -> None:
        """Read what an earlier run recorded."""
        self.path = run.raw() / ON_GPU.name
        self.record = store.read_record(self.path) if self.path.exists() else {"entries": [], "sound": []}

    def held(self, part: str) -> dict[str, dict[str, Any]]:
        """The entries of a part by their names."""
        return {entry["name"]: entry for entry in self.record[part]}

    def keep(self, part: str, entry: Mapping[str, Any], names: Iterable[str]) -> None:
        """Put an entry in place of the one of its name, drop what has another name than these, and write the record.

        What the machine broke off is no verdict, and takes no verdict's place.
        """
        held = self.held(part)
        broken = entry.get("stage") == BROKEN and entry["name"] in held
        entries = held if broken else held | {entry["name"]: dict(entry)}
        self.record[part] = [entries[name] for name in names if name in entries]
        store.write_json(self.path, {"stage": self.path.stem, **self.record})


def on_gpu(run: Plan, folder: Path, limit_s: float) -> dict[str, Any]:
    """The record with a verdict on each attack and on the control.

    An entry has its name, its source_digest and the harness's, the `stage` that refused it (`compile`, `check`, `time`;
    empty where none did; BROKEN where the machine broke it off), that stage's message, wall_s, times_ms, its median
    time at each size where it was timed, the `gpu` by its UUID and when it was `measured_at`. What an earlier run
    recorded of the same sources stays.
    """
    begun, corpus, measured_by = time.monotonic(), Corpus(run), harness()
    sources = {source.stem: source for source in [CONTROL, *ATTACKS]}
    held = corpus.held("entries")
    current = {name: {"source_digest": digest_of(source), "harness": measured_by} for name, source in sources.items()}
    wanted = [name for name in sources if not current[name].items() <= held.get(name, {}).items()]
    if not wanted:
        return corpus.record
    run = replace(run, rungs=tuple(rung_of(sources[name], run.first) for name in wanted))
    builds = compiled(run, folder)
    print(f"{len(wanted)} of {len(sources)} compiled after {time.monotonic() - begun:.0f} s", flush=True)
    corpus.record["where"] = place(run, builds[run.first.name])
    on = origin(corpus.record["where"])
    for name in wanted:
        if time.monotonic() - begun > limit_s:
            print("no time is left; run again to go on", flush=True)
            break
        started = time.monotonic()
        verdict = attacked(run, name, builds, folder)
        wall_s = round(time.monotonic() - started, 1)
        corpus.keep("entries", {"name": name, **current[name], **verdict, "wall_s": wall_s, **on}, sources)
        print(f"{name}: {verdict['stage'] or 'timed'}: {verdict['message'] or verdict['times_ms']}", flush=True)
    return corpus.record


def attacked(run: Plan, name: str, builds: Mapping[str, Build], folder: Path) -> dict[str, Any]:
    """What the stages say of an attack, in their order: the stage that refused it, its message, and times_ms."""
    made, log = builds[name], folder / f"{name}.log"
    if made.record["status"] != "ok":
        return {"stage": "compile", "message": made.record["message"], "times_ms": {}}
    try:
        device, check = LEASED, run.settings["check"]
        checked = check_rung(made, run.cases(), device, 30, lambda _: {}, log, lambda *_: None, check["runs"])
        if checked["status"] != "pass":
            return {"stage": "check", "message": checked["message"], "times_ms": {}}
        message, times_ms = timed(run, name, builds, folder)
    except LadderError as error:
        return {"stage": BROKEN, "message": str(error), "times_ms": {}}
    return {"stage": "time" if message else "", "message": message, "times_ms": times_ms}


def timed(run: Plan, name: str, builds: Mapping[str, Build], folder: Path) -> tuple[str, dict[str, float]]:
    """What the time stage says of a rung beside its references, and its median times in ms by size."""
    samples, log = folder / f"{name}.zip", folder / f"{name}.log"
    samples.unlink(missing_ok=True)
    beside = {each: builds[each] for each in run.side_by_side(name)}
    shapes, settings, device = list(map(str, run.timed(name))), run.settings["timing"], LEASED
    where = place(run, builds[name])
    expected_of = run.expected(list(beside))
    message = time_rung(name, beside, shapes, expected_of, settings, device, where, samples, log, lambda *_: None)
    if message:
        return message, {}
    timings = read_time_record(samples)
    return "", {str(shape): round(float(np.median(one.own.times_s)) * 1e3, 6) for shape, one in timings.items()}


def sound_on_gpu(run: Plan, folder: Path, repetitions: int) -> dict[str, Any]:
    """The record with an entry for each rung of the ladder: how often it was timed (`runs`), and the `alarms` raised.

    An alarm is what the time stage says where it keeps nothing. The runs of an earlier call count where the build and
    the harness are the same, on whichever GPU of this kind: `gpus` has their UUIDs.
    """
    corpus, measured_by = Corpus(run), harness()
    ladder = [rung for rung in run.rungs if rung.role != "floor" and rung.runs_on(run.gpu.compute_capability)]
    run = replace(run, rungs=(*ladder, rung_of(CONTROL, run.first)))
    builds, names = compiled(run, folder), [rung.name for rung in run.rungs]
    corpus.record["where"] = place(run, builds[run.first.name])
    for repetition, name in product(range(1, repetitions + 1), names):
        current = {"build_digest": builds[name].record["build_digest"], "harness": measured_by}
        held = corpus.held("sound").get(name, {})
        entry = (
            held if current.items() <= held.items() else {"name": name, **current, "runs": 0, "alarms": [], "gpus": []}
        )
        if entry["runs"] < repetition:
            message, _ = timed(run, name, builds, folder)
            alarms = entry["alarms"] + ([message] if message else [])
            gpus = sorted({*entry["gpus"], origin(corpus.record["where"])["gpu"]})
            corpus.keep("sound", entry | {"runs": entry["runs"] + 1, "alarms": alarms, "gpus": gpus}, names)
            print(f"{name}, {repetition} of {repetitions}: {message or 'no alarm'}", flush=True)
    return corpus.record


def compiled(run: Plan, folder: Path) -> dict[str, Build]:
    """The rungs of a plan and those beside them, as the pipeline builds them, on all cores."""
    nvcc, flags = find_nvcc(run.settings["compile"]["nvcc"]), run.settings["compile"]["flags"]
    with ThreadPoolExecutor(CORES) as pool:
        list(pool.map(lambda rung: build(rung, run.gpu, nvcc, flags, folder / rung.name), run.needed))
    return {rung.name: Build(folder / rung.name) for rung in run.needed}


def origin(where: Mapping[str, Any]) -> dict[str, str]:
    """The GPU of an entry, by its UUID, and when it was measured."""
    return {"gpu": where["gpu"]["uuid"], "measured_at": where["measured_at"]}


def place(run: Plan, made: Build) -> dict[str, Any]:
    """Where a build is measured."""
    return environment(ROOT, run.device, made.record, settings_digest(run.settings["timing"]))


COMMANDS = {"compile": record_compiled, "gpu": record_gpu, "sound": record_sound}
