"""Records by what each fault of the corpus is caught, and writes docs/faults.md from the records.

usage: python tests/record_faults.py emulator           every fault and control in the emulator
       python tests/record_faults.py gpu [SECONDS]      on a GPU: the check and compute-sanitizer's tools
       python tests/record_faults.py page               docs/faults.md from both records
       python tests/record_faults.py seeds [COUNT]      that many seeds of every sound kernel in the emulator
       python tests/record_faults.py ladder             how long the emulate stage takes on two cores
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "workflow"), str(ROOT / "tests")]
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "workflow"), os.environ.get("PYTHONPATH", "")])

from corpus import CONTROLS, FAULTS, RUNGS, SMALL, Library, compile_rung, emulate, expected, header, run  # noqa: E402
from ladder.build.compile import Build  # noqa: E402
from ladder.records import provenance, store  # noqa: E402

EMULATED = ROOT / "tests/faults/emulated.json"
SEEDS = ROOT / "tests/faults/seeds.json"
LADDER = ROOT / "tests/faults/ladder.json"
ON_GPU = ROOT / "results/h100-sxm/raw/faults.json"
TEMPLATE = ROOT / "tests/faults/page.md.j2"
PAGE = ROOT / "docs/faults.md"
CORES = len(os.sched_getaffinity(0))


def source_digest(source: Path) -> str:
    """What identifies a fault's own source."""
    return store.digest_files([source])


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
    """Every source compiled for the emulator; raises RuntimeError with g++'s message where one does not compile."""

    def build(source: Path) -> tuple[Path, Library]:
        target = folder / f"{source.stem}.so"
        result = compile_rung(source, target)
        if result.returncode != 0:
            raise RuntimeError(f"{source.name}: {result.stderr}")
        return source, Library(target)

    with ThreadPoolExecutor(CORES) as pool:
        return dict(pool.map(build, sources))


def record_emulator(folder: Path) -> None:
    """Run every fault and control in the emulator and record the kinds of what it finds."""
    libraries = compiled(FAULTS + CONTROLS, folder)
    entries = []
    for source, library in libraries.items():
        found, lines = emulate(library, source)
        entries.append(
            {"name": source.stem, "source_digest": source_digest(source), "found": sorted(found), "first": lines[:1]}
        )
    store.write_json(EMULATED, {"where": where(), "entries": entries})


def record_seeds(folder: Path, count: int) -> None:
    """Run every sound kernel with so many seeds over the small cases, and record each finding and each difference."""
    libraries = compiled(RUNGS + CONTROLS, folder)
    alarms, launches, begun = [], 0, time.monotonic()
    for source, library in libraries.items():
        for case in SMALL:
            results = set()
            for seed in range(1, count + 1):
                result, kinds, lines = run(library, case, seed, data=0)
                results.add(result)
                launches += 1
                if kinds:
                    alarms.append({"name": source.stem, "case": str(case), "seed": seed, "found": [*kinds, *lines]})
            if len(results) > 1:
                alarms.append({"name": source.stem, "case": str(case), "seed": 0, "found": ["nondeterminism"]})
        print(f"{source.stem}: {len(alarms)} alarms so far, {time.monotonic() - begun:.0f} s", flush=True)
    record = {
        "where": where() | {"wall_s": round(time.monotonic() - begun)},
        "seeds": count,
        "cases": [str(case) for case in SMALL],
        "products": launches,
        "kernels": [source.stem for source in libraries],
        "alarms": alarms,
    }
    store.write_json(SEEDS, record)
    if alarms:
        sys.exit(f"{len(alarms)} false alarms; see {SEEDS.relative_to(ROOT)}")


def record_ladder(folder: Path) -> None:
    """Compile every rung for the emulator and check it there as the emulate stage does, two at a time on two CPUs.

    The sources' defaults are built, whatever the tuned files say.
    """
    from ladder.config.documents import read_yaml
    from ladder.config.plan import plan
    from ladder.measure.check.emulate import emulate_rung

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    run_plan = plan(read_yaml(ROOT / "config/config.yaml") | {"measure": False, "tune": {"use": False}})
    cases = run_plan.emulated_cases()

    def check(rung: Any) -> dict[str, Any]:
        made = Build(folder / rung.name)
        store.write_json(made.folder / "compile.json", {"status": "ok"})
        record = emulate_rung(rung, made, cases, 1, 60, folder / "log")
        print(f"{rung.name}: {record['status']}  {record['message']}", flush=True)
        return {"name": rung.name, "status": record["status"], "cases": len(record["cases"])}

    begun = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        entries = list(pool.map(check, (rung for rung in run_plan.rungs if rung.role == "rung")))
    wall_s = round(time.monotonic() - begun)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    shapes = len({case.shape for case in cases})
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


def page(
    emulated: Mapping[str, Any], on_gpu: Mapping[str, Any], seeds: Mapping[str, Any], ladder: Mapping[str, Any]
) -> str:
    """docs/faults.md from the four records; a fault may be newer than the GPU's."""
    in_emulator = {entry["name"]: entry for entry in emulated["entries"]}
    entries = {entry["name"]: entry for entry in on_gpu["entries"]}
    rows = [
        {
            "name": source.stem,
            "what": source.read_text().splitlines()[0].partition(": ")[2].rstrip("."),
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
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    return environment.from_string(TEMPLATE.read_text()).render(
        rows=rows,
        caught=sum(bool(row["emulator"] or row["check"] or row["sanitizer"]) for row in rows),
        controls=len(CONTROLS),
        blamed=sorted(blamed),
        huge=[source.stem for source in FAULTS if header(source, "Case").startswith("huge")],
        emulated=emulated,
        gpu=on_gpu,
        seeds=seeds,
        ladder=ladder,
    )


def write_page() -> None:
    """Write docs/faults.md."""
    store.write_text(PAGE, page(*(store.read_json(path) for path in (EMULATED, ON_GPU, SEEDS, LADDER))))


def record_gpu(folder: Path, output: Path, limit_s: float) -> None:
    """Check every fault and control on the GPU, and watch them with compute-sanitizer.

    Several share the GPU: nothing is timed. What has not begun when the limit in seconds is over is not run.
    """
    from ladder.build.compile import build
    from ladder.build.toolchain import find_nvcc
    from ladder.config import gpus
    from ladder.config.documents import read_yaml
    from ladder.config.plan import plan
    from ladder.measure.check.stage import check_rung
    from ladder.measure.sanitize.stage import TOOLS, require_sanitizer, run_tool, sanitizer_version
    from ladder.records.provenance import environment
    from ladder.system import nvml

    begun = time.monotonic()
    here = nvml.present(0)
    gpu = gpus.read_gpu(gpus.recognise(here))
    nvcc, sanitizer = find_nvcc("auto"), require_sanitizer()
    configured = read_yaml(ROOT / "config/config.yaml")
    configured |= {"sizes": [64], "profile": {"enabled": False, "sizes": [64]}, "gpu": gpu.name, "measure": False}
    run_plan = plan(configured)
    cases, runs = run_plan.cases(), run_plan.settings["check"]["runs"]
    watched = run_plan.sanitizer_cases()
    naive = run_plan.ladder["naive"]
    kinds = dict.fromkeys((source.stem for source in FAULTS), "fault")
    kinds |= dict.fromkeys((source.stem for source in CONTROLS), "control")
    entries = [
        replace(naive, name=source.stem, source=os.path.relpath(source, ROOT / "kernels"), macros={})
        for source in FAULTS + CONTROLS
    ]
    # What never ends goes last, and so slows nothing but its like.
    never = {source.stem for source in FAULTS if "timeout" in expected(source)}
    flags = run_plan.settings["compile"]["flags"]

    def late() -> bool:
        return time.monotonic() - begun > limit_s

    def limit(rung: Any, seconds: float) -> float:
        return 20 if rung.name in never else seconds

    def compile_one(rung: Any) -> None:
        build(rung, gpu, nvcc, flags, folder / rung.name)

    def check_one(rung: Any) -> dict[str, Any]:
        if late():
            return {"status": "not run", "message": "no time was left"}
        started = time.monotonic()
        made = Build(folder / rung.name)
        log = folder / f"{rung.name}.log"
        record = check_rung(made, cases, 0, limit(rung, 30), lambda _: {}, log, lambda *_: None, runs)
        return {key: record[key] for key in ("status", "message")} | {"wall_s": round(time.monotonic() - started, 1)}

    def watch_one(rung: Any, tool: str) -> dict[str, Any]:
        if late():
            return {"tool": tool, "verdict": "not run", "message": "no time was left", "findings": []}
        log = folder / f"{rung.name}.{tool}.log"
        result = run_tool(sanitizer, tool, folder / rung.name / "library.so", watched, 0, limit(rung, 40), log)
        return result | {"findings": result["findings"][:3]}

    with ThreadPoolExecutor(CORES) as pool:
        list(pool.map(compile_one, entries))
        print(f"compiled after {time.monotonic() - begun:.0f} s", flush=True)
        sound = [rung for rung in entries if Build(folder / rung.name).record["status"] == "ok"]
        done: dict[str, dict[str, Any]] = {rung.name: {"check": None, "sanitizer": []} for rung in sound}
        for group in ([r for r in sound if r.name not in never], [r for r in sound if r.name in never]):
            checks = {r.name: pool.submit(check_one, r) for r in group}
            tools = {(r.name, tool): pool.submit(watch_one, r, tool) for tool in TOOLS for r in group}
            for name, future in checks.items():
                done[name]["check"] = future.result()
            print(f"checked after {time.monotonic() - begun:.0f} s", flush=True)
            for (name, _), future in tools.items():
                done[name]["sanitizer"].append(future.result())
            print(f"watched after {time.monotonic() - begun:.0f} s", flush=True)
    sample = Build(folder / sound[0].name).record
    record = {
        "where": environment(ROOT, here, sample, "")
        | {"sanitizer": sanitizer_version(sanitizer), "wall_s": round(time.monotonic() - begun)},
        "cases": len(cases),
        "sanitizer_cases": [case.as_record() for case in watched],
        "entries": [
            {
                "name": rung.name,
                "kind": kinds[rung.name],
                "source_digest": source_digest(ROOT / "kernels" / rung.source),
                **done.get(rung.name, {"check": {"status": "failed", "message": "does not compile"}, "sanitizer": []}),
            }
            for rung in entries
        ],
    }
    store.write_json(output, record)
    for entry in record["entries"]:
        tools = ", ".join(
            f"{t['tool']}: {t['verdict']} {t['wall_s']:.0f}s" for t in entry["sanitizer"] if "wall_s" in t
        )
        print(entry["name"], entry["check"], tools, flush=True)
        for tool in entry["sanitizer"]:
            if tool["message"]:
                print("    ", tool["tool"], tool["message"][:200])


def main() -> None:
    """Run the command."""
    command, *arguments = sys.argv[1:] or [""]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        commands: dict[str, Callable[[], None]] = {
            "emulator": lambda: record_emulator(folder),
            "page": write_page,
            "seeds": lambda: record_seeds(folder, int(arguments[0]) if arguments else 200),
            "ladder": lambda: record_ladder(folder),
            "gpu": lambda: record_gpu(
                folder, Path(os.environ.get("FAULTS_RECORD", ON_GPU)), float(arguments[0]) if arguments else 600
            ),
        }
        if command not in commands:
            sys.exit(__doc__)
        commands[command]()


if __name__ == "__main__":
    main()
