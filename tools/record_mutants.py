"""By what each of many small changes of the rungs, that nobody chose, is found: tests/mutants/RUNG.json."""

from __future__ import annotations

import difflib
import math
import re
import secrets
import shutil
import subprocess
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from threading import Lock
from typing import Any

from ladder.build.compile import Build, build, compile_command
from ladder.build.emulator import ARCHITECTURE, EMULATED, EMULATOR, NEEDS_GPU, cached_engine
from ladder.build.toolchain import find_nvcc, run_compiler, tool_beside
from ladder.config.cpp import canonical
from ladder.config.documents import read_yaml
from ladder.config.plan import Plan, plan
from ladder.config.sources import INCLUDE, sources
from ladder.measure.check.emulate import compile_source, emulate_library, other_branches
from ladder.measure.check.stage import check_rung
from ladder.measure.sanitize.stage import TOOLS, require_sanitizer, run_tool
from ladder.model.cases import Case
from ladder.model.rung import Rung
from ladder.records import provenance, store
from ladder.records.provenance import environment
from ladder.system.errors import LadderError
from ladder.system.nvml import Present
from ladder.system.paths import ROOT, shown
from ladder.system.process import LEASED
from mutants import Mutant, drawn, written
from mutation_operators import OPERATORS
from record_attacks import compiled, timed
from record_faults import where
from recording import CORES, on_every_gpu, record_as

FOLDER = ROOT / "tests/mutants"
EXPLAINED = FOLDER / "explained.yaml"
ON_GPU = ROOT / "results/h100-sxm/raw/mutants.json"
SIZES = [1024]  # at which mutants are timed
MUTANTS = 100  # of each rung that compile
PATIENCE_S = 120  # of wall time for a case; the emulator ends an endless launch after a few seconds of CPU time
INCLUDED = re.compile(r'#include "\.\./include/(.+)"')
KILLED, SURVIVED, EQUIVALENT = "killed", "survived", "equivalent"
SPEED = "speed"  # explained as one that changes only how fast a rung is
EXPLANATIONS = {"equivalent": EQUIVALENT, "speed": SPEED, "lacks": SURVIVED}


def configured() -> Plan:
    """The ladder with the defaults of its sources, whatever the tuned files say, for the configured GPU."""
    return plan(read_yaml(ROOT / "config/config.yaml") | {"measure": False, "tune": {"use": False}})


@cache
def place() -> dict[str, Any]:
    """When and with what this process tries mutants."""
    return where()


def ladder(run: Plan) -> dict[str, list[Rung]]:
    """The rungs whose mutants are recorded, by entry: each with its variants."""
    found: dict[str, list[Rung]] = {}
    for rung in run.rungs:
        if rung.role == "rung":
            found.setdefault(rung.entry, []).append(rung)
    return found


@dataclass
class Recording:
    """The record of one entry's mutants while it grows."""

    entry: str
    rungs: list[Rung]  # the variants
    under_way: int = 0  # mutants that are being tried
    lock: Lock = field(default_factory=Lock)

    @property
    def path(self) -> Path:
        """Where the record stands."""
        return FOLDER / f"{self.entry}.json"

    @property
    def digests(self) -> dict[str, str]:
        """What tells whether a record is of the present sources: a digest of each file's code, without comments."""
        return {path.name: store.digest(canonical(path.read_text())) for path in sources(self.rungs[0])}

    @cached_property
    def record(self) -> dict[str, Any]:
        """What an earlier run recorded of the present sources; else an empty record with a new seed."""
        held = store.read_json(self.path) if self.path.exists() else {}
        if held.get("sources") == self.digests:
            return held
        begun = {"rung": self.entry, "seed": secrets.randbits(32), "where": {}, "sources": self.digests}
        return begun | {"not_compiled": {}, "mutants": []}

    @property
    def begun(self) -> int:
        """How many mutants are recorded or being tried."""
        return len(self.record["mutants"]) + self.under_way

    @cached_property
    def waiting(self) -> list[Mutant]:
        """What has not been tried yet, in the order of the record's seed; the next one last."""
        tried = {each["id"] for each in self.record["mutants"]}.union(*self.record["not_compiled"].values())
        return [one for one in reversed(drawn(self.rungs[0], self.record["seed"])) if one.id not in tried]

    def next(self) -> Mutant | None:
        """The mutant to try next; None where so many as are asked for are recorded or tried, or there are no more."""
        if self.begun >= MUTANTS or not self.waiting:
            return None
        self.under_way += 1
        return self.waiting.pop()

    def keep(self, one: Mutant, verdict: Mapping[str, Any] | None) -> None:
        """Write what was found of a mutant; None says that it does not compile."""
        with self.lock:
            others = [each for each in self.record["mutants"] if each["id"] != one.id]
            if verdict is None:
                self.record["not_compiled"].setdefault(one.operator, []).append(one.id)
            else:
                others.append({**one.as_record(), **verdict})
            self.record |= {"mutants": others, "where": place()}
            store.write_json(self.path, self.record)
        said = ", ".join(str(value) for value in (verdict or {"verdict": "does not compile"}).values() if value != "")
        print(f"{self.entry} {one.id} {one.file}:{one.line} {one.operator}: {said}", flush=True)


def record_emulator(seconds: int = 600, workers: int = CORES) -> None:
    """Try mutants in the emulator by so many workers; nothing begins after so many seconds, the next run goes on.

    Next is a mutant of the rung of which the fewest have been tried. Of a rung that the emulator cannot run none is
    recorded.
    """
    deadline, run, turn, searches = time.monotonic() + seconds, configured(), Lock(), Searches()
    waiting = [Recording(entry, rungs) for entry, rungs in ladder(run).items()]

    def next_of_any() -> tuple[Recording, Mutant] | None:
        with turn:
            for each in sorted(waiting, key=lambda each: each.begun):
                if one := each.next():
                    return each, one
        return None

    def work(folder: Path) -> None:
        bench = Bench(run, folder, searches)
        while time.monotonic() < deadline and (found := next_of_any()):
            each, one = found
            try:
                verdict = bench.emulated(each.rungs, one)
                if verdict or bench.emulates(each.rungs[0]):
                    each.keep(one, verdict)
                else:
                    each.waiting.clear()
            except LadderError as error:  # of the machine, and says nothing about the mutant: the next run tries it
                print(f"{each.entry} {one.id}: {error}", flush=True)
            finally:
                with turn:
                    each.under_way -= 1

    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder, ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, (Path(folder) / str(number) for number in range(workers))))
    if next_of_any():
        print("no time is left; run again to go on", flush=True)


def record_compared(seconds: int = 600) -> None:
    """Compile what survived with nvcc; nothing begins after so many seconds. What has the same code is equivalent."""
    deadline, run = time.monotonic() + seconds, configured()
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder:
        bench = Bench(run, Path(folder), Searches())
        for each, entry in survivors(run):
            if "code" not in entry and time.monotonic() < deadline:
                one = Mutant.of(entry)
                code = bench.compared(each.rungs, one)
                each.keep(one, code and {**verdict_of(entry), **code})


def record_again(seconds: int = 600) -> None:
    """Try again, for so many seconds, what survived an earlier state of the check, and keep that it did.

    What has not been tried again at all comes first.
    """
    deadline, run = time.monotonic() + seconds, configured()
    commit = provenance.git_commit(ROOT)
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder:
        bench = Bench(run, Path(folder), Searches())
        for each, entry in sorted(survivors(run), key=lambda found: "again" in found[1]):
            if entry.get("again") != commit and time.monotonic() < deadline:
                one = Mutant.of(entry)
                try:
                    found = bench.emulated(each.rungs, one)
                    each.keep(one, found and {**verdict_of(entry), **found, "again": commit})
                except LadderError as error:  # of the machine: the next run tries it
                    print(f"{each.entry} {one.id}: {error}", flush=True)


def survivors(run: Plan) -> Iterator[tuple[Recording, dict[str, Any]]]:
    """Each mutant that has survived, and is not known to be equivalent, with the recording that has it."""
    told = explained()
    for name, rungs in ladder(run).items():
        each = Recording(name, rungs)
        for entry in list(each.record["mutants"]):
            if entry["verdict"] == SURVIVED and explained_verdict(entry, why(told, name, entry)) == SURVIVED:
                yield each, entry


def verdict_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What was found of a mutant, without what it is."""
    return {key: value for key, value in entry.items() if key not in {"id", *Mutant.__annotations__}}


class Searches:
    """What the search for branches has found in rungs, each once for all workers."""

    def __init__(self) -> None:
        """Begin with none."""
        self.lock = Lock()
        self.found: dict[str, Future[list[Case]]] = {}

    def of(self, name: str, search: Callable[[], list[Case]]) -> list[Case]:
        """What the search finds in the rung of that name: by the first who asks; the others wait for it."""
        with self.lock:
            is_first = name not in self.found
            found = self.found.setdefault(name, Future())
        if is_first:
            try:
                found.set_result(search())
            except BaseException as error:
                found.set_exception(error)
        return found.result()


class Bench:
    """Where mutants are compiled and run, in a folder of its own."""

    def __init__(self, run: Plan, folder: Path, searches: Searches) -> None:
        """Use what the plan says of cases and of the GPU to compile for."""
        self.run, self.folder, self.searches = run, folder, searches
        folder.mkdir(exist_ok=True)
        self.engine = cached_engine(ROOT / "build/emulator")
        self.known: dict[str, bool] = {}  # of rungs whether the emulator can run them
        self.codes: dict[str, str] = {}  # of rungs what identifies their code
        self.originals: dict[str, str] = {}  # and what the emulator runs of them
        self.cases: dict[str, list[Case]] = {}  # what they are checked with
        self.killers: Counter[Case] = Counter()  # which cases found anything

    def emulates(self, rung: Rung) -> bool:
        """Whether the emulator can run the rung itself."""
        if rung.name not in self.known:
            source = written(rung, None, self.folder / "original")
            self.known[rung.name] = self.emulate(rung, source, 1) != NEEDS_GPU
        return self.known[rung.name]

    def emulated(self, rungs: Sequence[Rung], one: Mutant) -> dict[str, Any] | None:
        """What the emulator says of a mutant: verdict, detector, kind and seconds; None where it does not compile.

        Each variant of the rung is tried until one does not pass.
        """
        begun = time.monotonic()
        for rung in rungs:
            if rung.name not in self.originals:  # in the same place, for its name is in the code
                source, library = written(rung, None, self.folder / "mutant"), self.folder / "library.so"
                self.compile(replace(rung, source=str(source)), library, source)
                self.originals[rung.name] = emulated_code(library)
        source, kinds = written(rungs[0], one, self.folder / "mutant"), []
        while len(kinds) < len(rungs) and not any(kinds):
            kinds.append(self.emulate(rungs[len(kinds)], source))
        if kinds[-1] == NEEDS_GPU:
            return None
        found = {"verdict": KILLED, "detector": "emulator"} if kinds[-1] else {"verdict": SURVIVED, "detector": ""}
        return {**found, "kind": kinds[-1], "seconds": round(time.monotonic() - begun, 1)}

    def compared(self, rungs: Sequence[Rung], one: Mutant) -> dict[str, Any] | None:
        """Whether nvcc makes of every variant what it makes of the original; None where it refuses the mutant."""
        source = written(rungs[0], one, self.folder / "mutant")
        for rung in rungs:
            if rung.name not in self.codes:
                self.codes[rung.name] = self.code(rung, written(rung, None, self.folder / "original"))
            code = self.code(rung, source)
            if not code:
                return None
            if code != self.codes[rung.name]:
                return {"verdict": SURVIVED, "code": "other"}
        return {"verdict": EQUIVALENT, "code": "same"}

    def emulate(self, rung: Rung, source: Path, most: int | None = None) -> str:
        """What the emulator finds in a rung with this source, in a few words; NEEDS_GPU where it does not compile.

        What is the same code in the emulator as the rung itself is not run. The cases that found most so far come
        first, then the smallest.
        """
        cases = sorted(self.cases_of(rung)[:most], key=lambda case: -self.killers[case])
        library, changed = self.folder / "library.so", replace(rung, source=str(source))
        if self.compile(changed, library, source):
            return NEEDS_GPU
        if emulated_code(library) == self.originals.get(rung.name):
            return ""
        record = emulate_library(
            changed, library, cases, 1, PATIENCE_S, self.folder / "log", first_only=True, until_wrong=True
        )
        self.killers.update(Case.of(case) for case in record["cases"] if case["verdict"] != "pass")
        return "" if record["status"] == EMULATED else kind_of(record["message"])

    def cases_of(self, rung: Rung) -> list[Case]:
        """What a rung is checked with, the smallest first, and what the search for branches adds to that."""
        if rung.name not in self.cases:
            cases = sorted(self.run.emulated_cases(rung.name), key=lambda case: case.shape.flop)
            library, made_with = self.folder / "coverage.so", (self.engine, ARCHITECTURE, ())
            added = self.searches.of(rung.name, lambda: other_branches(rung, cases, library, made_with, PATIENCE_S))
            self.cases[rung.name] = cases + added
        return self.cases[rung.name]

    def compile(self, rung: Rung, library: Path, source: Path) -> str:
        """Compile a rung with all that its cases reach for the emulator; why it needs a GPU, or nothing."""
        shutil.rmtree(library.with_suffix(".sources"), ignore_errors=True)
        return compile_source(rung, self.cases_of(rung), library, self.engine_for(source), ARCHITECTURE)

    def engine_for(self, source: Path) -> Path:
        """The emulator's engine; where a header is changed that its own headers include, with these beside it."""
        included = {name for path in EMULATOR.glob("*.*h") for name in INCLUDED.findall(path.read_text())}
        if all((source.parent / name).read_bytes() == (INCLUDE / name).read_bytes() for name in included):
            return self.engine
        shutil.rmtree(self.folder / "emulator", ignore_errors=True)
        shutil.copytree(EMULATOR, self.folder / "emulator")
        (self.folder / "include").unlink(missing_ok=True)
        (self.folder / "include").symlink_to(source.parent)
        (self.folder / "emulator" / self.engine.name).symlink_to(self.engine)
        return self.folder / "emulator" / self.engine.name

    def code(self, rung: Rung, source: Path) -> str:
        """What identifies all that a rung compiles to: kernels, what they need, the host's code and its constants."""
        nvcc = find_nvcc(self.run.settings["compile"]["nvcc"])
        flags = [flag for flag in self.run.settings["compile"]["flags"] if flag != "-lineinfo"]
        place = self.folder / "compiled"
        place.mkdir(exist_ok=True)
        for path in source.parent.iterdir():  # in one place, for its name is in the code
            (place / path.name).write_bytes(path.read_bytes())
        library = place / "library.so"
        changed = replace(rung, source=str(place / source.name))
        _, error = run_compiler(compile_command(changed, self.run.gpu, nvcc, flags, library), source)
        if error:
            return ""
        cuobjdump = tool_beside(nvcc, "cuobjdump")
        return store.digest(
            said(cuobjdump, "-sass", "-res-usage", library),
            said("objdump", "-d", "--no-show-raw-insn", library),
            said("objdump", "-s", "-j", ".rodata", "-j", ".data", library),
            said("nm", "--dynamic", "--defined-only", "--print-size", library),  # what it exports, and how long that is
        )


def emulated_code(library: Path) -> str:
    """What identifies what a library for the emulator does; places in the source count, names of files do not."""
    sections = [f"--only-section={name}" for name in (".text*", ".data*", ".rodata*", ".t*", ".init_array*")]
    copy = library.with_suffix(".code")
    subprocess.run(["objcopy", "-O", "binary", *sections, library, copy], check=True)
    return store.digest(copy.read_bytes(), said("nm", "--dynamic", "--defined-only", "--print-size", library))


def said(*command: str | Path) -> str:
    """What a tool prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def kind_of(message: str) -> str:
    """A finding in a few words: the emulator's kind, or what is wrong with the result."""
    if found := re.search(rf": ({'|'.join(FINDINGS)}): ", message):
        return found[1]
    return next((words for mark, words in _KINDS.items() if mark in message), "values")


# kernels/emulator/README.md
FINDINGS = (
    *("race", "uninitialised read", "asynchronous copy", "divergent barrier", "warp", "out of bounds"),
    *("forbidden read", "forbidden write", "misaligned", "undefined behaviour", "launch", "contract", "stream"),
)
_KINDS = {
    "not finished": "does not end",
    "no progress": "does not end",
    "crashed": "crash",
    "killed by": "crash",
    "exit status": "crash",
    "must not": "crash",
    "bound": "values",
    "norm": "values",
    "that belongs": "values",
    "NaN or infinity": "values",
    "differs from the first": "not deterministic",
    "wrote": "writes outside",
    "sgemm returned": "error returned",
    "no answer": "crash",
    "launch_observer": "launch",
    "observed_sms": "launch",
}

# On a GPU


def record_gpu(seconds: int = 600) -> None:
    """On GPUs: check, watch and time what is recorded; nothing begins after so many seconds.

    First comes what survived and is not explained, last what is explained as equivalent. What survived other cases of
    the check on a GPU, and the emulator too, is tried again.
    """
    sections = {"sizes": SIZES, "profile": {"enabled": False, "sizes": SIZES}, "tune": {"use": False}}
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder:
        watch = partial(on_gpu, folder=Path(folder), limit_s=seconds)
        record_as(ON_GPU.name, watch, gpus=None, **sections)


def on_gpu(run: Plan, folder: Path, limit_s: float) -> dict[str, Any]:
    """The record with an entry for each mutant that is not known to be equivalent, by its id and its rung's entry.

    Of an entry: the mutant's `rung`, `id`, the `detector` (`check`, `sanitizer`, `timing`, empty where it survived) and
    what that said (`message`), wall_s, the `gpu` by its UUID, a digest of the check's `cases`, and `again` where it
    survived other cases before. What an earlier run recorded stays, but for such survivors. The record grows by as many
    as there are cores at a time: they are compiled, checked and watched together on all GPUs of the kind, and timed one
    after the other on the first.
    """
    begun, path = time.monotonic(), run.raw() / ON_GPU.name
    record = store.read_record(path) if path.exists() else {"entries": []}
    names, told = ladder(run), explained()
    cases = store.digest(*map(str, run.cases()))
    held = {(entry["rung"], entry["id"]): entry for entry in record["entries"]}
    recorded = [(each, entry) for each in map(Recording, names, names.values()) for entry in each.record["mutants"]]

    def is_wanted(found: Mapping[str, Any] | None, verdict: str) -> bool:
        if found is None:
            return verdict != EQUIVALENT
        return verdict == SURVIVED and not found["detector"] and found.get("cases") != cases

    wanted = [pair for pair in recorded if is_wanted(held.get((pair[0].entry, pair[1]["id"])), pair[1]["verdict"])]
    turns = (SURVIVED, SPEED, KILLED, EQUIVALENT)

    def turn_of(pair: tuple[Recording, dict[str, Any]]) -> tuple[int, bool]:
        name, entry = pair[0].entry, pair[1]
        return turns.index(explained_verdict(entry, why(told, name, entry))), (name, entry["id"]) in held

    wanted.sort(key=turn_of)
    references = compiled(replace(run, rungs=(run.baseline,)), folder)
    while wanted and time.monotonic() - begun < limit_s:
        batch, wanted = wanted[:CORES], wanted[CORES:]
        seen = dict(on_every_gpu(run.devices, partial(seen_of, run, folder, batch), range(len(batch))))
        unseen = [rung for number, (each, _) in enumerate(batch) if seen[number] is None for rung in each.rungs]
        lacking = [rung for rung in unseen if not references.keys() >= set(run.side_by_side(rung.name))]
        references |= compiled(replace(run, rungs=tuple(lacking)), folder)
        for number, (each, entry) in enumerate(batch):
            found = seen[number] or OnGpu(run, folder, each, entry).timed(references) | {"gpu": run.device.uuid}
            key = each.entry, entry["id"]
            again = {"again": True} if key in held else {}
            record["entries"] = [one for one in record["entries"] if (one["rung"], one["id"]) != key]
            record["entries"].append({"rung": key[0], "id": key[1], **found, "cases": cases, **again})
            record["where"] = environment(ROOT, run.device, references[run.baseline.name].record, "")
            store.write_json(path, {"stage": path.stem, **record})
            print(f"{each.entry} {entry['id']}: {found['detector'] or 'survived'} {found['message']}", flush=True)
    return record


def seen_of(
    run: Plan, folder: Path, batch: Sequence[tuple[Recording, Mapping[str, Any]]], number: int, gpu: Present, turn: Any
) -> tuple[int, dict[str, Any] | None]:
    """The number of a mutant in a batch and what is seen of it on a GPU, by `on_every_gpu`; None where nothing is."""
    found = OnGpu(run, folder, *batch[number]).seen(turn)
    return number, found and found | {"gpu": gpu.uuid}


@dataclass(frozen=True)
class OnGpu:
    """One mutant on the GPU, its variants one after the other."""

    run: Plan
    folder: Path
    recording: Recording
    entry: Mapping[str, Any]

    def builds(self) -> Iterator[tuple[Rung, Build]]:
        """The variants with the mutant's build of each, compiled where it is not yet."""
        home = self.folder / self.recording.entry / self.entry["id"]
        source = written(self.recording.rungs[0], Mutant.of(self.entry), home / "sources")
        for rung in self.recording.rungs:
            made = Build(home / rung.name)
            if not (made.folder / "compile.json").exists():
                compile_settings = self.run.settings["compile"]
                nvcc = find_nvcc(compile_settings["nvcc"])
                build(replace(rung, source=str(source)), self.run.gpu, nvcc, compile_settings["flags"], made.folder)
            yield rung, made

    def seen(self, turn: Any) -> dict[str, Any] | None:
        """What the check, in its turn, or compute-sanitizer says of a variant; None where all pass both.

        Cases of the check are drawn by the mutant's id.
        """
        begun, device, runs = time.monotonic(), LEASED, self.run.settings["check"]["runs"]
        for rung, made in self.builds():
            log, seed = made.folder / "log", 1 + zlib.crc32(self.entry["id"].encode())
            cases = self.run.cases(rung.name) + self.run.drawing(rung.name).cases(seed)
            asked = (cases, device, 60, lambda _: {}, log, lambda *_: None, runs, rung.declared)
            with turn:
                said = check_rung(made, *asked, until_wrong=True)
            found = {"detector": "check", "message": said["message"]} if said["status"] != "pass" else None
            for tool in TOOLS if not found and made.library.exists() else ():
                watched = self.run.sanitizer_cases(rung.name)
                result = run_tool(require_sanitizer(), tool, made.library, watched, device, 60, log)
                if result["verdict"] == "failed":
                    found = {"detector": "sanitizer", "message": f"{tool}: {result['message']}"}
            if found:
                return {**found, "wall_s": round(time.monotonic() - begun, 1)}
        return None

    def timed(self, references: Mapping[str, Build]) -> dict[str, Any]:
        """What the time stage says of the variants beside their references; no detector where it has nothing to say."""
        begun, message = time.monotonic(), ""
        for rung, made in self.builds():
            message = message or timed(self.run, rung.name, {**references, rung.name: made}, self.folder)[0]
        found = {"detector": "timing" if message else "", "message": message}
        return {**found, "wall_s": round(time.monotonic() - begun, 1)}


# The page


def mutants() -> dict[str, Any]:
    """What docs/mutants.md says.

    Keys: `rungs`, `operators` and `kinds`, rows with a name, `killed`, `equivalent`, `speed`, `survived`, and the
    `rate` in percent with its interval; `all`, the same of all, and `both`, of the emulator and a GPU together;
    `survivors` of the emulator, each with its rung, place, diff and `why`, the explanation or none, and `on_gpu`, what
    was found there, or None where it was not tried; `not_compiled`; the `gpu` record or None; `where` of the newest
    record; `not_emulated`.
    """
    held = {path.stem: store.read_json(path) for path in sorted(FOLDER.glob("*.json"))}
    told = explained()
    gpu = store.read_record(ON_GPU) if ON_GPU.exists() else None
    found = {(entry["rung"], entry["id"]): entry for entry in (gpu or {}).get("entries", [])}
    entries = []
    for rung, record in held.items():
        for entry in record["mutants"]:
            reason = why(told, rung, entry)
            verdict = explained_verdict(entry, reason)
            tried = found.get((rung, entry["id"]))
            detector = entry["detector"] or (tried or {}).get("detector", "")
            entries.append({**entry, "rung": rung, "verdict": verdict, "by": detector, "why": reason, "on_gpu": tried})
    if unknown := set(told) - {f"{rung} {entry['id']}" for entry in entries for rung in (entry["rung"], "all")}:
        raise LadderError(f"{shown(EXPLAINED)}: {sorted(unknown)[0]}: no such mutant is recorded; remove it")
    survivors = [entry for entry in entries if entry["verdict"] == SURVIVED]
    counted = [entry for entry in entries if entry["verdict"] in (KILLED, SURVIVED)]
    both = [{**entry, "verdict": KILLED} if entry["by"] else entry for entry in counted]
    return {
        "all": rate("all", entries),
        "both": rate("both", both),
        "rungs": [rate(name, some) for name, some in grouped(entries, "rung").items()],
        "operators": [rate(name, some) for name, some in grouped(entries, "operator").items()],
        "kinds": sorted(Counter(entry["kind"] for entry in entries if entry["kind"]).items(), key=lambda x: -x[1]),
        "own": sum(entry["operator"] in OPERATORS for entry in entries),
        "survivors": [{**entry, "diff": diff(Mutant.of(entry))} for entry in survivors],
        "explained": [
            {**entry, "reason": entry["why"][key]}
            for key in ("equivalent", "speed")
            for entry in entries
            if entry["verdict"] == EXPLANATIONS[key] and key in entry["why"]
        ],
        "again": sum("again" in entry for entry in entries if entry["verdict"] == KILLED),
        "not_compiled": sum(len(ids) for record in held.values() for ids in record["not_compiled"].values()),
        "detectors": Counter(entry["by"] for entry in counted if entry["by"]),
        "not_emulated": sorted(set(ladder(configured())) - set(held)),
        "where": max((record["where"] for record in held.values()), key=lambda place: place["measured_at"]),
        "gpu": gpu,
    }


def explained() -> dict[str, dict[str, str]]:
    """What explained.yaml says of each mutant, named `RUNG ID`, or `all ID` for that of every rung.

    That is `equivalent`, why no product differs, `speed`, why nothing else does than the time, or what the check
    `lacks`. Raises LadderError where an entry has another form.
    """
    found = {}
    for number, entry in enumerate(read_yaml(EXPLAINED)):
        if len(entry) != 2 or not entry.keys() & set(EXPLANATIONS) or not entry.get("mutants"):
            place = f"{shown(EXPLAINED)}: [{number}]"
            raise LadderError(f"{place}: give mutants, and one of equivalent, speed (why) and lacks (what is missing)")
        for each in entry["mutants"]:
            found[each] = {key: value for key, value in entry.items() if key != "mutants"}
    return found


def why(told: Mapping[str, dict[str, str]], rung: str, entry: Mapping[str, Any]) -> dict[str, str]:
    """What is told of a mutant of a rung, or of the same change in every rung."""
    return told.get(f"{rung} {entry['id']}") or told.get(f"all {entry['id']}", {})


def explained_verdict(entry: Mapping[str, Any], reason: Mapping[str, str]) -> str:
    """What becomes of a survivor by what is told of it; the verdict of any other."""
    return next((EXPLANATIONS[key] for key in reason if entry["verdict"] == SURVIVED), entry["verdict"])


def grouped(entries: Sequence[Mapping[str, Any]], key: str) -> dict[str, list[Mapping[str, Any]]]:
    """The entries by what they have under a key."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for entry in sorted(entries, key=lambda entry: entry[key]):
        found.setdefault(entry[key], []).append(entry)
    return found


def rate(name: str, entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How many of some mutants were killed, of those that are not equivalent, with the interval of 95 %."""
    count = Counter(entry["verdict"] for entry in entries)
    killed, survived = count[KILLED], count[SURVIVED]
    low, high = wilson(killed, killed + survived)
    return {
        **{"name": name, "killed": killed, "survived": survived},
        **{"equivalent": count[EQUIVALENT], "speed": count[SPEED]},
        "rate": f"{100 * killed / max(1, killed + survived):.1f} ({100 * low:.1f} to {100 * high:.1f})",
    }


def wilson(hits: int, trials: int, z: float = 1.96) -> tuple[float, float]:
    """The interval of 95 % for a share (E. B. Wilson, J. Am. Stat. Assoc. 22(158), 1927, pages 209-212)."""
    if not trials:
        return 0.0, 1.0
    share, weight = hits / trials, z * z / trials
    middle, half = share + weight / 2, z * math.sqrt(share * (1 - share) / trials + weight / (4 * trials))
    return max(0.0, (middle - half) / (1 + weight)), min(1.0, (middle + half) / (1 + weight))


def diff(one: Mutant) -> str:
    """The lines that a mutant changes, as `diff` marks them."""
    lines = difflib.ndiff(one.old.splitlines(), one.new.splitlines())
    return "\n".join(line.rstrip() for line in lines if line[0] in "-+")


COMMANDS = {"emulator": record_emulator, "again": record_again, "compare": record_compared, "gpu": record_gpu}
