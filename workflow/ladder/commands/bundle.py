"""Records of a device as one archive that is sent in, and such an archive taken into results once nothing is wrong."""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import lzma
import math
import os
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ladder.config import gpus
from ladder.config.documents import read_yaml, validated
from ladder.config.plan import Plan, plan
from ladder.config.sources import source_digest
from ladder.config.tuned_file import Tuned, tuned_file, tuned_text, with_tuned
from ladder.measure.hardware.stage import HARDWARE_PROBES
from ladder.measure.sanitize.stage import TOOLS
from ladder.measure.survey.stage import drawn
from ladder.measure.sustained.stage import impossible
from ladder.measure.time.plausible import FLOOR, above_ceiling, beyond_the_gpu, implausible
from ladder.measure.tune.stage import trial_rungs
from ladder.model.cases import BEYOND_31_BITS, Case
from ladder.model.shape import Shape
from ladder.records import digests, store
from ladder.records.hardware import read_hardware
from ladder.records.identity import DEVICES, places_of
from ladder.records.provenance import now
from ladder.records.survey import SURVEY_SETTINGS, read_survey
from ladder.records.sustained import read_sustained
from ladder.records.timings import BEFORE, LAUNCHES, measurements, unfinished
from ladder.records.trials import Record
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT, require_file, resolved, shown
from ladder.system.terminal import say, told
from ladder.tables.hardware import said_of
from ladder.tables.trials import choose

MANIFEST = "manifest.json"
SENT = {
    **{"check": ".json", "time": ".zip", "sustained": ".json", "profile": ".json.xz", "accuracy": ".json"},
    **{"survey": ".json.gz", "sanitize": ".json", "trials": ".json.gz"},
}
HARDWARE = "raw/hardware.json"
_RUNG = r"[a-z][a-z0-9_]*(@[A-Z][A-Z0-9_]*=[A-Za-z0-9_]+(,[A-Z][A-Z0-9_]*=[A-Za-z0-9_]+)*)?"
_RECORDS = "|".join(f"{stage}/{_RUNG}{re.escape(end)}" for stage, end in SENT.items())
_MEMBER = re.compile(rf"raw/({_RECORDS})|{re.escape(HARDWARE)}|tuned/[A-Za-z0-9][A-Za-z0-9_-]*\.yaml")
MOST_FILES, MOST_BYTES = 2000, 256 << 20  # of a bundle; the bytes are also the most of one record unpacked


def main(arguments: Sequence[str]) -> int:
    """`make` or `take` a bundle; the exit status is 1 where something is refused."""
    parser = argparse.ArgumentParser(prog="bundle.py", description=__doc__)
    commands = parser.add_subparsers(required=True, dest="command", metavar="COMMAND")
    one = commands.add_parser("make", help="write what a device of yours measured to one file that you can send in")
    one.add_argument("folder", nargs="?", type=Path, help="results/GPU/devices/DEVICE; not needed where there is one")
    one.add_argument("-o", "--output", type=Path, help="the file to write (gemm-ladder-GPU-DEVICE.zip)")
    one = commands.add_parser("take", help="check a bundle, and add its records to results where nothing is wrong")
    one.add_argument("bundle", type=Path)
    one.add_argument("--ship", action="store_true", help="as the records that ship for this GPU, where there are none")
    asked = parser.parse_args(arguments)
    with told():
        if asked.command == "make":
            return make(asked.folder or _only_device(ROOT / "results"), asked.output)
        return take(asked.bundle, ROOT / "results", asked.ship)


def _only_device(results: Path) -> Path:
    """The one folder of a device that holds records; raises LadderError where there are none or several."""
    found = [path.parent for path in sorted(results.glob(f"*/{DEVICES}/*/raw"))]
    if len(found) == 1:
        return found[0]
    problem = (
        f"several; name one: {', '.join(map(shown, found))}" if found else "none; measure on a GPU first: make run"
    )
    raise LadderError(f"{shown(results)}: folders of devices with records: {problem}")


def make(folder: Path, output: Path | None = None) -> int:
    """Write a bundle of the records in the folder of a device, without those of failed rungs and those of no result.

    Returns 1, having said in a line each what is wrong and written nothing, where `take` would refuse it. Raises
    LadderError where the folder is that of no device.
    """
    folder = resolved(Path.cwd() / folder, "command line")
    if folder.parent.name != DEVICES or not (folder / "raw").is_dir():
        raise LadderError(f"{shown(folder)}: holds no records of a device; name results/GPU/devices/DEVICE")
    gpu, device = folder.parents[1].name, folder.name
    members, failed = {}, set()
    for stage, ending in SENT.items():  # checks first
        for path in sorted((folder / "raw" / stage).glob(f"[a-z]*{ending}")):
            rung = path.name.removesuffix(ending)
            if _holds_a_result(path) and rung not in failed:
                members[f"raw/{stage}/{path.name}"] = path.read_bytes()
                continue
            failed |= {rung} if stage == "check" else set()
            why = "its rung did not pass its check" if rung in failed else "it holds no result"
            say(f"gemm-ladder: raw/{stage}/{path.name}: left out, for {why}")
    for path in (folder / HARDWARE, tuned_file(gpu, folder)):
        if path.exists() and (path.suffix == ".yaml" or _holds_a_result(path)):
            members[str(path.relative_to(folder))] = path.read_bytes()
        elif path.exists():
            say(f"gemm-ladder: {HARDWARE}: left out, for it holds no result")
    files = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
    manifest = {"schema_version": 1, "gpu": gpu, "device": device, "made_at": now(), "files": files}
    output = output or Path(f"gemm-ladder-{gpu}-{device}.zip")
    with tempfile.TemporaryDirectory() as place:
        made = Path(place) / output.name
        store.write_archive(made, {**members, MANIFEST: json.dumps(manifest, indent=1).encode()})
        refused = refusals(made, Path(place))
        for line in refused:
            say(f"gemm-ladder: {line}")
        if not refused:
            store.write_bytes(output, made.read_bytes())
    if not refused:
        say(f"gemm-ladder: {output}: {len(members)} files of {gpu} ({device}); docs/send-in.md says where it goes")
    return int(bool(refused))


def _holds_a_result(path: Path) -> bool:
    """Whether the stage of a record ended well; raises LadderError where the record is damaged."""
    if path.parent.name == "time":
        return store.read_failure(path) is None
    record = store.read_record(path)
    if path.parent.name == "profile":
        return bool(record["shapes"]) and not record["failure"]
    return record.get("status", "ok") in ("ok", "pass")


def take(bundle: Path, results: Path, ship: bool = False) -> int:
    """Add the records of a bundle to a folder of results; returns 1 where it is refused, in a line for each reason.

    They become those of a device of the user's own, or with `ship` those that ship. All of them are taken, or none.
    Raises LadderError where there are records in that place already, or where the bundle cannot be read.
    """
    results.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=results, prefix=".bundle-") as place:
        refused = refusals(bundle, Path(place))
        for line in refused:
            say(f"gemm-ladder: {bundle.name}: {line}")
        if refused:
            say(f"gemm-ladder: {bundle.name}: refused, and nothing of it is taken")
            return 1
        (raw,) = Path(place).glob(f"results/*/{DEVICES}/*/raw")
        gpu, device = raw.parents[2].name, raw.parent.name
        home = results / gpu / ("" if ship else f"{DEVICES}/{device}")
        target, tuned = home / "raw", tuned_file(gpu, None if ship else home)
        sent = tuned_file(gpu, raw.parent)
        if there := [path for path in (target, tuned) if path.exists() and (path == target or sent.exists())]:
            raise LadderError(f"{shown(there[0])}: holds records already; move them away, or leave the bundle")
        target.parent.mkdir(parents=True, exist_ok=True)
        number = sum(path.is_file() for path in raw.rglob("*"))
        if sent.exists():
            store.write_bytes(tuned, sent.read_bytes())
        os.rename(raw, target)  # at once, on one file system
    see = f"snakemake --cores all --config gpu={gpu} measure=false records={'shipped' if ship else device}"
    say(f"gemm-ladder: {shown(target)}: {number} records taken; to see them: {see}")
    return 0


def refusals(bundle: Path, place: Path) -> list[str]:
    """Why a bundle is not taken, in a line each; none where nothing is wrong.

    It is unpacked below `place`, as results/GPU/devices/DEVICE/raw. Raises LadderError where the file is no bundle.
    """
    members, manifest = _opened(bundle)
    files, gpu, device = manifest["files"], manifest["gpu"], manifest["device"]
    found = [f"{name}: in the manifest, and not in the bundle" for name in sorted(files.keys() - members.keys())]
    for name, content in sorted(members.items()):
        if name not in files:
            found.append(f"{name}: not in the manifest")
        elif hashlib.sha256(content).hexdigest() != files[name]:
            found.append(f"{name}: its digest is not that of the manifest")
    if gpu not in gpus.names():
        found.append(f"{gpu}: has no file in config/gpus, whose ceilings times are held to; send that file in first")
    if found:
        return found
    raw = place / "results" / gpu / DEVICES / device / "raw"
    for name, content in members.items():
        store.write_bytes(raw.parent / name, content)
    settings = read_yaml(ROOT / "config/config.yaml")
    run = plan({**settings, "gpu": gpu, "measure": False, "records": "shipped"})
    judges = {
        **{"check": _check, "time": _time, "sustained": _sustained, "profile": _parts, "accuracy": _parts},
        **{"survey": _survey, "sanitize": _sanitize, "trials": _trials, "raw": _hardware, "tuned": _tuned},
    }

    def without_place(error: LadderError) -> str:
        return str(error).replace(f"{place}/", "").replace(f"results/{gpu}/{DEVICES}/{device}/", "")

    try:
        ladder = with_tuned(run.ladder, tuned_file(gpu, raw.parent))
    except LadderError as error:
        return [without_place(error)]
    run = replace(run, ladder=ladder, rungs=tuple(ladder.get(rung.name, rung) for rung in run.rungs))
    for name in sorted(members):
        path = raw.parent / name
        try:
            found += [f"{name}: {line}" for line in judges[path.parent.name](path, run)]
        except LadderError as error:
            found.append(without_place(error))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            found.append(f"{name}: not as this version writes it ({type(error).__name__}: {error})")
    return found


def _opened(bundle: Path) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The records of a bundle by their names, and its manifest; LadderError for what is none or is too large."""

    def is_none(problem: str) -> LadderError:
        return LadderError(f"{bundle}: {problem}; make it anew: python workflow/bundle.py make")

    require_file(bundle)
    try:
        with zipfile.ZipFile(bundle) as archive:
            infos = archive.infolist()
            names = [info.filename for info in infos]
            if len(names) > MOST_FILES or sum(info.file_size for info in infos) > MOST_BYTES:
                raise is_none(f"more than {MOST_FILES} files or {MOST_BYTES >> 20} MiB")
            if odd := sorted(name for name in names if name != MANIFEST and not _MEMBER.fullmatch(name)):
                raise is_none(f"{odd[0]!r} is no place of a record")
            if MANIFEST not in names or len(set(names)) < len(names):
                raise is_none(f"no {MANIFEST}, or a name twice")
            members = {name: archive.read(name) for name in names}
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise is_none(f"is no bundle ({error})") from None
    for name, content in members.items():
        if _unpacked_bytes(name, content) > MOST_BYTES:
            raise is_none(f"{name}: more than {MOST_BYTES >> 20} MiB unpacked")
    try:
        manifest = json.loads(members.pop(MANIFEST))
    except ValueError as error:
        raise is_none(f"{MANIFEST} is no JSON ({error})") from None
    return members, validated(manifest, "bundle", f"{bundle}: {MANIFEST}")


def _unpacked_bytes(name: str, content: bytes) -> int:
    """How many bytes a packed record would take, at least where that is more than MOST_BYTES."""
    try:
        if name.endswith(".zip"):
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                most = sum(info.file_size for info in archive.infolist())
                if most <= MOST_BYTES and archive.namelist() == [store.TOGETHER]:
                    most = _unpacked_bytes(store.TOGETHER, archive.read(store.TOGETHER))
                return most
        if name.endswith(".xz"):
            with lzma.open(io.BytesIO(content)) as file:
                return len(file.read(MOST_BYTES + 1))
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, zlib.error, lzma.LZMAError):
        return 0  # whoever reads it says what is wrong
    return len(content)


def _of_this_ladder(record: Mapping[str, Any], run: Plan) -> Iterator[str]:
    """What is wrong with the places where parts of a rung's record were made, and with the sources that they are of."""
    rung = run.by_name(record["rung"])
    yield from _places(record, rung.name, {source_digest(each) for each in (rung, replace(rung, tuned=()))})


def _places(record: Mapping[str, Any], name: str, sources: set[str]) -> Iterator[str]:
    """What is wrong with those places; the sources of parts are not looked at where none are given."""
    places = list(places_of(record))
    if not places:
        yield "says nothing of where it was made"
    for where in places:
        gpu, commit = where["gpu"], where["software"]["git_commit"]
        if not all(isinstance(gpu.get(key), str) and gpu[key] for key in ("name", "uuid", "driver")):
            yield "names no card, UUID or driver"
        elif not re.fullmatch("[0-9a-f]{40}", commit):
            yield f"commit: {commit!r} is none; measure in a checkout of git"
        elif sources and digests.source_of(where) not in sources:
            yield _of_other_sources(name, commit)


def _of_other_sources(name: str, commit: str) -> str:
    return f"of other sources of {name} than this checkout's; take it in one of commit {commit[:12]}"


def _check(path: Path, run: Plan) -> Iterator[str]:
    record = store.read_record(path)
    yield from _of_this_ladder(record, run)
    rung = run.by_name(record["rung"])
    if record["status"] != "pass" or any(case["verdict"] != "pass" for case in record["cases"]):
        yield "a case did not pass"
    if record.get("declared") != rung.declared or record.get("claims", {}) != rung.claims:
        yield "held to another declaration than that of config/kernels.yaml"
    alone = replace(run, rungs=(rung,))  # what others are tuned for adds cases
    timed = {*alone.shapes, *alone.profile_shapes, *alone.sustained_sizes}  # of which a user may choose some
    asked = set(alone.cases(rung.name)) - {*BEYOND_31_BITS}  # for which not every GPU has the memory
    wanted = {case for case in asked if case.shape not in timed}
    if missing := wanted - _passed(record):
        some = min(missing, key=str)
        yield f"{len(missing)} of the {len(wanted)} cases that config/config.yaml asks for are missing, such as {some}"


def _passed(check: Mapping[str, Any]) -> set[Case]:
    return {Case.of(case) for case in check["cases"] if case["verdict"] == "pass"}


def _time(path: Path, run: Plan) -> Iterator[str]:
    runs = store.read_runs(path)
    if store.read_failure(path) or not runs:
        yield "holds an attempt that failed, or no run"
    for files in runs.values():
        record = store.run_record(files, path)
        yield from _of_this_ladder(record, run)
        if message := unfinished(files):
            yield message
            continue
        rung, settings = record["rung"], record["settings"]
        floor = run.by_name(rung).role == "floor"
        yield from [] if floor else _of_the_checked_build(path, record, record["shapes"])
        if record.get("launches") != LAUNCHES:
            yield "its launches are not verified"
            continue
        measured = list(measurements(files, record))
        if not set(record["shapes"]) <= {str(each.shape) for each in measured if each.kernel == rung}:
            yield "says shapes that were not measured"
        names = [name for name in record["builds"] if name != rung]
        steady = next((name for name in names if run.by_name(name).role == "baseline"), None)
        for each in measured:
            name = each.kernel.removesuffix(BEFORE)
            if run.by_name(name).role == "floor":
                continue
            if each.state["launches"]["verified"] < len(each.times_s):
                yield f"{name} at {each.shape}: not every launch that counts was verified"
            if name != rung and (wrong := beyond_the_gpu(each, run.expected([name])["ceiling"])):
                yield f"{name} at {each.shape}: {wrong}"
        ceiling = run.expected([rung])["ceiling"]
        if not floor and (wrong := implausible(measured, rung, steady, f"{steady}{BEFORE}", ceiling, settings)):
            yield wrong


def _sustained(path: Path, run: Plan) -> Iterator[str]:
    record = store.read_record(path)
    yield from _of_this_ladder(record, run)
    yield from _of_the_checked_build(path, record, record["shapes"])
    if record["status"] != "ok" or not read_sustained(path):
        yield f"ended as {record['status']!r}"
    elif wrong := impossible(record["rung"], record["parts"], run.expected([record["rung"]])["ceiling"]):
        yield wrong


def _parts(path: Path, run: Plan) -> Iterator[str]:
    record = store.read_record(path)
    if record.get("failure"):
        yield "holds an attempt that failed"
    else:
        yield from _of_this_ladder(record, run)


def _survey(path: Path, run: Plan) -> Iterator[str]:
    record = store.read_record(path)
    yield from _of_this_ladder(record, run)
    yield from _of_the_checked_build(path, record, ())
    if not read_survey(path):
        yield f"ended as {record['status']!r}"
        return
    if record["settings"] != {key: run.settings["survey"][key] for key in SURVEY_SETTINGS}:
        yield "has other settings than the survey of config/config.yaml"
        return
    own = record["rung"]
    products, data = drawn(record["settings"], run.by_name(own).claims, record["seed"])
    found = [(each["shape"], each["padding"]) for each in record["products"]]
    if found != [(str(case.shape), list(case.paddings)) for case in products]:
        yield f"its products are not those that seed {record['seed']} draws"
    if [{key: each[key] for key in ("family", "shape", "seed")} for each in record["data"]] != data:
        yield f"its data is not that which seed {record['seed']} draws"
    rows = [(each["shape"], each["times_us"]) for each in record["products"]]
    rows += [(each["shape"], {k: v["times_us"] for k, v in each["kernels"].items()}) for each in record["data"]]
    for shape, times in rows:
        for name, times_us in times.items():
            if wrong := _too_fast(run, name, shape, min(times_us) / 1e6):
                yield wrong
    if not all(math.isfinite(each["kernels"][own]["error_normwise"]) for each in record["data"]):
        yield "an error is no number"


def _sanitize(path: Path, run: Plan) -> Iterator[str]:
    record = store.read_record(path)
    yield from _of_this_ladder(record, run)
    yield from _of_the_checked_build(path, record, ())
    passed = {each["tool"] for each in record["tools"] if each["verdict"] == "pass" and not each["findings"]}
    if record["status"] != "pass" or passed != set(TOOLS):
        yield f"{', '.join(sorted(set(TOOLS) - passed)) or 'a tool'} did not pass"
    wanted = set(run.sanitizer_cases(record["rung"]))
    if missing := wanted - set(map(Case.of, record["cases"])):
        yield f"{len(missing)} of the {len(wanted)} cases that config/config.yaml asks for are missing"


def _hardware(path: Path, run: Plan) -> Iterator[str]:
    record = store.read_record(path)
    yield from _places(record, HARDWARE_PROBES.name, {source_digest(HARDWARE_PROBES)})
    found = read_hardware(path)
    if record["status"] != "ok" or not found:
        yield f"ended as {record['status']!r}"
        return
    for probe in found.probes:
        said = said_of(probe, run.gpu)
        if math.isnan(said):
            continue
        amounts = [probe.count * probe.blocks / ns for ns in probe.ns]  # GB/s or GFLOP/s
        most, unit = said / FLOOR, "GB/s"
        if probe.kind == "rate":
            clock_mhz = max(1e3 * cycles / ns for cycles, ns in zip(probe.cycles, probe.ns, strict=True))
            most, unit = 1e3 * said * max(1.0, clock_mhz / run.gpu.sm_clock_mhz), "GFLOP/s"
        if max(amounts) > most:
            what = f"{probe.of}, {probe.kind}, {probe.how}"
            yield f"{what}: {max(amounts):.4g} {unit} is impossible: this GPU reaches at most {most:.4g}"


def _trials(path: Path, run: Plan) -> Iterator[str]:
    entry = path.name.partition(".")[0]
    record = Record.read(path, entry)
    if entry not in run.tuned_entries:
        yield "is no entry that is tuned on this GPU"
        return
    yield from _places({"batches": list(record.batches.values())}, entry, set())
    rung = run.of_entry(entry)
    sources = {each.name: source_digest(each) for each in trial_rungs(rung, run.gpu)}
    for (name, _), trial in record.trials.items():
        if name not in sources:
            yield f"{name}: is none of the combinations that config/kernels.yaml declares"
        elif trial["times_s"] and digests.present_source(trial["source_digest"]) != sources[name]:
            yield _of_other_sources(name, record.batches[trial["batch"]]["where"]["software"]["git_commit"])
        for shape, times_s in trial["times_s"].items():
            if wrong := _too_fast(run, rung.name, shape, min(times_s)):
                yield f"{name}: {wrong}"


def _tuned(path: Path, run: Plan) -> Iterator[str]:
    trials = path.parents[1] / "raw/trials"
    found = [Record.read(trials / f"{e}.json.gz", e) for e in run.tuned_entries if (trials / f"{e}.json.gz").exists()]
    rungs = [rung for record in found for rung in trial_rungs(run.of_entry(record.entry), run.gpu)]
    shapes = {record.entry: run.tune_shapes_of(record.entry) for record in found}
    best = choose(found, run.ladder, shapes, {rung.name: source_digest(rung) for rung in rungs})
    if path.stem != run.gpu.name or path.read_text() != tuned_text(run.gpu.name, Tuned(run.tune_shapes, best)):
        yield "is not what the trials in the bundle choose"


def _too_fast(run: Plan, name: str, shape: str, seconds: float) -> str:
    """What is impossible about the shortest launch of a rung at a shape, whose clock is not recorded; or nothing."""
    ceiling = run.expected([name])["ceiling"]
    found = above_ceiling(Shape.parse(shape), seconds, ceiling[1], ceiling) if seconds > 0 else "no time"
    return f"{name} at {shape}: {found}" if found else ""


def _of_the_checked_build(path: Path, record: Mapping[str, Any], shapes: Iterable[str]) -> Iterator[str]:
    """What is wrong where what was measured did not pass its check before, as this build and at these shapes."""
    place = path.parents[1] / "check" / f"{record['rung']}.json"
    if not place.exists():
        yield "no check of it is in the bundle"
        return
    check = store.read_record(place)
    if digests.build_of(check["where"]) != digests.build_of(record["where"]):
        yield "measured another build than the one that was checked"
    if unchecked := set(shapes) - {str(case.shape) for case in _passed(check)}:
        yield f"measured at {', '.join(sorted(unchecked))}, where it was not checked"
