"""What one run of the pipeline does: on which GPU, whether it measures, which rungs at which shapes, how."""

from __future__ import annotations

import contextlib
import re
import shutil
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ladder.config import gpus
from ladder.config.cpp import canonical
from ladder.config.documents import nearest, read_shapes, schema, set_by, validated
from ladder.config.kernels import published_kernels, read_kernels, select_rungs
from ladder.config.named_numbers import named_by
from ladder.config.search_space import SearchSpace
from ladder.config.sources import INCLUDE, is_compiled, source_digest, source_of_rung
from ladder.config.sources import sources as sources_of
from ladder.config.tuned_file import odd_shapes, tuned_file, with_tuned
from ladder.config.wrapper import parameters_of
from ladder.model.cases import (
    BEYOND_31_BITS,
    GPU_ALONE,
    OF_WHOLE_TILES,
    PROBES,
    Case,
    all_cases,
    emulated_cases,
    probes,
    sanitizer_cases,
)
from ladder.model.claims import claimed, claimed_cases, claimed_shapes, in_words, not_as_timed
from ladder.model.drawn import ON_A_CPU, ON_A_GPU, SANITIZED, Drawing, Reach
from ladder.model.gpu import Gpu, ceiling_gflops
from ladder.model.precision import BOUNDS, NOT_ASKED
from ladder.model.rung import Rung
from ladder.model.shape import Shape, in_order, work_key
from ladder.records import store
from ladder.records.digests import source_of
from ladder.records.identity import DEVICES, RecordPlace, names_devices
from ladder.system.errors import LadderError
from ladder.system.nvml import Present
from ladder.system.paths import ROOT, read_text, require_file, resolved, shown

KERNELS = ROOT / "config" / "kernels.yaml"
RESULTS = ROOT / "results"
MISREAD = '"$`\\{}: \t\n'  # by nvcc, its shell or Snakemake, in the path of a ladder or of results outside the project
PREDICTED = (Shape(8192, 8192, 8192),)  # for which few wait, but whose times are predicted
PROGRAMS = {"nvcc": "compile", "ncu": "profile", "compute-sanitizer": "sanitize"}  # where settings name a program
CLUSTER = "cluster"  # what `measure` says where jobs run on nodes of a batch system, and the folder of their records
# The settings that change nothing of what is derived of a GPU's records.
DERIVES_THE_SAME = {
    "gpu",
    "gpus",
    "fallback_gpu",
    "devices",
    "exclusive",
    "measure",
    "records",
    "remeasure",
    "quiet",
    "baseline",
    "fail_on",
    "against",
    "ladder",
    "results",
}


@dataclass(frozen=True)
class Plan:
    """One run, decided when the Snakefile is read."""

    gpu: Gpu
    devices: tuple[Present, ...]  # the GPUs of this machine that are measured; none where the jobs are sent to others
    measuring: bool
    rungs: tuple[Rung, ...]
    ladder: Mapping[str, Rung]
    listed_shapes: tuple[Shape, ...]
    profile_shapes: tuple[Shape, ...]
    tune_shapes: tuple[Shape, ...]
    sustained_sizes: tuple[Shape, ...]
    settings: Mapping[str, Any]
    folder: str  # of `home`, for what the run derives: `all`, or `selected` where the user chose what to show
    own: str = ""  # whose records these are: a folder of results/GPU/devices, or empty for those that ship
    results: Path = RESULTS  # where records are and what is derived of them
    own_ladder: Path | None = None  # the folder of the ladder, where that is another than config/kernels.yaml's

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of this run: those listed and, where nothing is measured and none are chosen, all recorded."""
        if self.measuring or self.settings["sizes"] != "gpu":
            return self.listed_shapes
        return self.listed_shapes + tuple(sorted(recorded_shapes(self.raw()) - set(self.listed_shapes)))

    @property
    def inspected_shapes(self) -> tuple[Shape, ...]:
        """The shapes at which a rung is asked what it launches: of the run, and PREDICTED unless sizes are chosen."""
        more = PREDICTED if self.settings["sizes"] == "gpu" else ()
        return self.shapes + tuple(shape for shape in more if shape not in self.shapes)

    @cached_property
    def headline(self) -> str:
        """The first line of the run."""
        line = _headline(self)
        held = set() if self.measuring else recorded_shapes(self.raw())
        missing = [str(shape) for shape in self.listed_shapes if shape not in held]
        if not held or not missing:
            return line
        return f"{line}; not recorded: {', '.join(missing)}; recorded are {', '.join(in_order(list(held)))}"

    @property
    def device(self) -> Present | None:
        """The first of the GPUs that are measured here."""
        return next(iter(self.devices), None)

    @property
    def baseline(self) -> Rung:
        """The library that rungs are compared with."""
        return next(rung for rung in self.ladder.values() if rung.role == "baseline")

    @property
    def first(self) -> Rung:
        """The first rung of the ladder, the one that speedups over naive are over."""
        return next(rung for rung in self.ladder.values() if rung.role == "rung")

    def by_name(self, name: str) -> Rung:
        """The rung of this run, or of the ladder, with this name; raises LadderError where there is none."""
        known = self.ladder | {rung.name: rung for rung in self.rungs}
        if name not in known:
            raise LadderError(f"kernels: {name!r} is no rung; {nearest(name, known)}")
        return known[name]

    def side_by_side(self, name: str) -> list[str]:
        """A rung and what is timed beside it: of cuBLAS, its best, the first rung and the rung before those configured.

        A rung with claims is beside no other, which may be timed at other shapes.
        """
        rung = self.by_name(name)
        if rung.role == "floor":
            return [name]
        before = rung.before if rung.before and not self.by_name(rung.before).claims else None
        default, *best = rung.baselines or [self.baseline.name]
        others = {"cublas": [default], "cublas_best": best, "naive": [self.first.name], "before": [before]}
        beside = [other for reference in self.settings["timing"]["references"] for other in others[reference]]
        return list(dict.fromkeys([name, *(other for other in beside if other is not None)]))

    def expected(self, names: Sequence[str]) -> dict[str, Any]:
        """What a measurement of a rung, the first of the names, beside the others is held to.

        `declared`: of each its role, precision (None of a floor) and claims. `ceiling`: what no launch of the rung can
        exceed, GFLOP/s of its class, at which clock in MHz, and GB/s of the memory.
        """
        rungs = list(map(self.by_name, names))
        declared = {
            each.name: {
                "role": each.role,
                "precision": None if each.role == "floor" else BOUNDS[each.precision],
                "claims": dict(each.claims),
            }
            for each in rungs
        }
        gpu = self.gpu
        ceiling = (ceiling_gflops(rungs[0].precision, gpu), gpu.sm_clock_mhz, gpu.memory_bandwidth_gb_s)
        return {"declared": declared, "ceiling": ceiling}

    @property
    def needed(self) -> list[Rung]:
        """The rungs of this run and those that they are compared with: all that is compiled and checked."""
        names = dict.fromkeys(name for rung in self.rungs for name in self.side_by_side(rung.name))
        return [self.by_name(name) for name in names]

    def timed(self, name: str) -> list[Shape]:
        """The shapes at which a rung is timed: all that it claims; of a floor the smallest and that of most work."""
        if self.by_name(name).role != "floor":
            return claimed_shapes(self.by_name(name).claims, self.shapes)
        return sorted({min(self.shapes), max(self.shapes, key=lambda shape: shape.flop)})

    @property
    def checked(self) -> list[str]:
        """The rungs that are checked: all but the floors."""
        return [rung.name for rung in self.needed if rung.role != "floor"]

    def passed_on(self) -> dict[str, str]:
        """For each rung that has passed a recorded check in its present source a GPU on which it did.

        There it is built as that GPU's tuned file says. A damaged record counts for nothing here.
        """
        found: dict[str, str] = {}
        plain = {rung.name: replace(rung, tuned=()) for rung in self.needed}
        for results, raw in _raw_folders({RESULTS, self.results}):
            gpu = raw.relative_to(results).parts[0]
            with contextlib.suppress(LadderError):
                folders = _tuned_folders(results, self.own_ladder)
                tuned = _with_all_tuned({**self.ladder, **plain}, gpu, folders)
                for name, rung in plain.items():
                    if name not in found and passed(raw / f"check/{name}.json", [rung, tuned[name]]):
                        found[name] = gpu
        return found

    @property
    def profiled_elsewhere(self) -> list[Path]:
        """The profile records of these rungs on other GPUs: passes that addresses cost depend on the build alone."""
        folders = [raw for results, raw in _raw_folders({RESULTS, self.results}) if raw != self.raw()]
        return [path for raw in folders for name in self.profiled for path in raw.glob(f"profile/{name}.json.xz")]

    @property
    def profiled(self) -> list[str]:
        """The rungs that are profiled: those of this run that claim a shape, but the floors; none where it is off."""
        names = (rung.name for rung in self.rungs if rung.role != "floor" and self.settings["profile"]["enabled"])
        return [name for name in names if self.profile_shapes_of(name)]

    @property
    def accurate(self) -> list[Rung]:
        """The rungs whose errors are measured against k: a library of each class, and rungs of others than fp32."""
        asked = (rung for rung in self.rungs if not rung.claims and rung.name not in rung.baselines[1:])
        return [rung for rung in asked if rung.role == "baseline" or rung.precision != "fp32"]

    @property
    def sustained(self) -> list[str]:
        """The rungs that are launched back to back: all but the floors; none where that is off."""
        enabled = self.settings["sustained"]["enabled"]
        rungs = (rung.name for rung in self.rungs if rung.role != "floor" and enabled)
        return [name for name in rungs if self.sustained_shapes_of(name)]

    def sustained_shapes_of(self, name: str) -> list[Shape]:
        """The shapes at which a rung is launched back to back."""
        return claimed_shapes(self.by_name(name).claims, self.sustained_sizes)

    def sustained_beside(self, name: str) -> list[str]:
        """A rung and the libraries of which the faster is launched before and after it."""
        return self._beside_libraries(name, self.settings["sustained"]["references"])

    @property
    def surveyed(self) -> list[str]:
        """The rungs that `snakemake survey` measures: all but the floors."""
        return [rung.name for rung in self.rungs if rung.role != "floor"]

    def asked_products(self, name: str) -> list[Case]:
        """The products of which a rung's host function is asked what it launches: always those of one survey."""
        keys = schema("config")["properties"]["survey"]["properties"]
        count, largest, *limits = (keys[key]["default"] for key in ("products", "largest", "least_flop", "most_flop"))
        from ladder.model.survey import WAYS_SEED, draw_products  # which imports NumPy

        products = draw_products(count, largest, tuple(limits), WAYS_SEED)
        return [case for case in products if claimed(self.by_name(name).claims, case)]

    def surveyed_beside(self, name: str) -> list[str]:
        """A rung and the libraries of which the faster at each product counts."""
        return self._beside_libraries(name, self.settings["survey"]["references"])

    def _beside_libraries(self, name: str, references: Sequence[str]) -> list[str]:
        default, *best = self.by_name(name).baselines or [self.baseline.name]
        others = {"cublas": [default], "cublas_best": best}
        return list(dict.fromkeys([name, *(other for reference in references for other in others[reference])]))

    def cases(self, name: str = "") -> list[Case]:
        """The cases that a rung is checked with on a GPU; without its name those of a rung that claims SGEMM.

        The host function of a library is not probed.
        """
        sustained = self.sustained_sizes if self.settings["sustained"]["enabled"] else ()
        cases = self._cases(sorted({*self.shapes, *self.profile_shapes, *sustained}))
        probed = PROBES if not name or self.by_name(name).role == "rung" else ()
        return self._claimed(name, [*cases, *OF_WHOLE_TILES, *GPU_ALONE, *BEYOND_31_BITS, *probes(probed)])

    def emulated_cases(self, name: str = "") -> list[Case]:
        """The cases that a rung is checked with on a CPU, whatever is timed; without its name as `cases`.

        The drawn ones, which only a rung has, come last.
        """
        cases = self._claimed(name, emulated_cases(self._claimed(name, self._cases([]))))
        if not name:
            return cases
        if tuned := self.by_name(name).tuned:  # of which the cases reach what is built for small products alone
            cases = [case for case in cases if not case.blocks or case.shape.flop < tuned[0].below_flop]
        if (self.by_name(name).wrap or {}).get("clear_c"):  # of which a few blocks leave zeros everywhere else
            cases = [case for case in cases if not case.blocks]
        return cases + self._drawn(name, self._drawing(name, self.settings["check"]["drawn"], ON_A_CPU))

    def drawing(self, name: str) -> Drawing:
        """What the cases are drawn from that a rung is checked with on a GPU beside `cases`."""
        return self._drawing(name, self.settings["check"]["drawn"], ON_A_GPU)

    def _drawing(self, name: str, count: int, reach: Reach) -> Drawing:
        rung, emulated = self.by_name(name), reach is ON_A_CPU
        named, sms = named_by(rung, not emulated), gpus.numbers_of_sms() if emulated else ()
        left_out = NOT_ASKED[BOUNDS[rung.precision]]
        return Drawing(count, self.settings["check"]["seed"], named, sms, reach, left_out)

    def _drawn(self, name: str, drawing: Drawing) -> list[Case]:
        """Those that a seed draws which the sources give, so that they are the same each time, unless one is set."""
        rung = self.by_name(name)
        seed = 1 + zlib.crc32(source_digest(replace(rung, tuned=rung.tuned[:1])).encode())
        return self._claimed(name, drawing.cases(seed))

    def profile_shapes_of(self, name: str) -> list[Shape]:
        """The shapes at which a rung is profiled."""
        return claimed_shapes(self.by_name(name).claims, self.profile_shapes)

    def _claimed(self, name: str, cases: list[Case]) -> list[Case]:
        """Those that a rung claims, or the nearest to them; without its name all."""
        if not name:
            return cases
        rung = self.by_name(name)
        asked = [case for case in cases if case.family not in NOT_ASKED[BOUNDS[rung.precision]]]
        return claimed_cases(rung.claims, asked) if rung.claims else asked

    def _cases(self, timed: list[Shape]) -> list[Case]:
        """All of the configuration; where rungs are tuned, every class of size has a shape among them."""
        check = self.settings["check"]
        listed, of_families = ([Shape.parse(shape) for shape in check[key]] for key in ("shapes", "family_shapes"))
        listed += sorted({shape for rung in self.needed for shape in odd_shapes(rung.tuned)})
        return all_cases(listed, check["cases"], timed, check["families"], of_families)

    @property
    def tuned_entries(self) -> list[str]:
        """The entries among the rungs of this run that `snakemake tune` searches: those that claim a size of it."""
        return [entry for entry in self._tunable if self.tune_shapes_of(entry)]

    @property
    def not_tuned(self) -> list[str]:
        """A line for each entry that declares what to tune and claims no size to tune it at."""
        return [
            f"{entry}: not tuned: it claims none of {self._tune_sizes_in_words(entry)} "
            f"({in_words(self.of_entry(entry).claims)}); add one that it claims"
            for entry in self._tunable
            if not self.tune_shapes_of(entry)
        ]

    def _tune_sizes_in_words(self, entry: str) -> str:
        own = SearchSpace.of(self.of_entry(entry)).sizes
        key = f"{self.of_entry(entry).file}: {entry}.tune.sizes" if own else "tune_sizes"
        return f"{key}, {', '.join(map(str, own or self.tune_shapes))}"

    @property
    def _tunable(self) -> list[str]:
        applies = (rung for rung in self.rungs if rung.runs_on(self.gpu.compute_capability))
        return list(dict.fromkeys(rung.entry for rung in applies if rung.tune is not None))

    def tune_shapes_of(self, entry: str) -> list[Shape]:
        """The shapes at which an entry is tuned, by rising work: those claimed of its own sizes, else of tune_sizes."""
        rung = self.of_entry(entry)
        return claimed_shapes(rung.claims, SearchSpace.of(rung).sizes or self.tune_shapes)

    @property
    def tuned_path(self) -> str:
        """Where `snakemake tune` writes: beside the records of a device of the user's own, else where those ship.

        Relative to the project where it lies inside.
        """
        folders = _tuned_folders(self.results, self.own_ladder, self.home() if self.own else None)
        return shown(tuned_file(self.gpu.name, folders[-1]))

    def of_entry(self, entry: str) -> Rung:
        """The first rung of an entry."""
        return next(rung for rung in self.ladder.values() if rung.entry == entry)

    def sanitizer_cases(self, name: str = "") -> list[Case]:
        """The cases that a rung is run with under compute-sanitizer; without its name as `cases`.

        The drawn ones, which only a rung has, come last.
        """
        settings = self.settings["sanitize"]
        fixed = self._claimed(name, sanitizer_cases(settings["shapes"], self.settings["check"]["cases"]))
        drawn = self._drawn(name, self._drawing(name, settings["drawn"], SANITIZED)) if name else []
        return fixed + [replace(case, family=Case.family) for case in drawn if case.multiplies]

    def home(self) -> Path:
        """The folder of the records that this run makes or shows, and of what it derives of them."""
        return _home(self.results, self.gpu.name, self.own)

    def raw(self) -> Path:
        """The folder of the raw records."""
        return self.home() / "raw"


def plan(config: Mapping[str, Any], sources: Mapping[str, str] | None = None, compiles_here: bool = True) -> Plan:
    """Decide what to do from the configuration; `sources` says for messages where keys came from.

    Where the jobs compile in another environment (conda's), nvcc is not looked for in this one. Raises LadderError with
    one line for anything in the configuration that cannot be.
    """
    file = "config/config.yaml"
    places = sources or {}
    settings = validated(dict(config), "config", file, places)

    def at(key: str) -> str:
        return set_by(places, key, file)

    ladder = read_kernels(KERNELS)
    file_of_own = _outside(settings, "ladder", at)
    own = read_kernels(file_of_own, ladder) if file_of_own else {}
    beside = file_of_own.parent / "results" if file_of_own and not file_of_own.is_relative_to(ROOT) else RESULTS
    results = _outside(settings, "results", at) or beside
    own_ladder = file_of_own.parent if file_of_own else None
    added = [rung for name, rung in own.items() if name not in ladder]
    ladder = own or ladder
    gpu, devices, measuring = _choose(settings, at)
    _check_programs(settings, at, compiles_here, measuring)
    whose = _own(settings, gpu, devices, measuring, results, f"{at('records')}: records")
    if settings["tune"]["use"]:
        home = _home(results, gpu.name, whose) if whose else None
        ladder = _with_all_tuned(ladder, gpu.name, _tuned_folders(results, own_ladder, home))
    _check_shapes(settings, at)
    shapes = _listed_shapes(settings, gpu, at)
    read_shapes(settings["check"]["family_shapes"], at("check.family_shapes"), "check.family_shapes")
    read_shapes(settings["survey"]["sizes"], at("survey.sizes"), "survey.sizes")
    everything = added and settings["kernels"] == "all"
    rungs = [ladder[rung.name] for rung in added] if everything else None
    rungs = rungs or select_rungs(settings["kernels"], ladder, at("kernels"))
    if settings["kernels"] == "all" and not everything:
        rungs = _with_published(ladder, _home(results, gpu.name, whose) / "raw")
    for rung in rungs:
        at_kernels = f"{at('kernels')}: kernels"
        check_macros(rung, f"{rung.file}: {rung.entry}.variants" if rung.name in ladder else at_kernels)
    made = Plan(
        gpu=gpu,
        devices=tuple(devices) if measuring else (),
        measuring=measuring,
        rungs=tuple(rungs),
        ladder=ladder,
        listed_shapes=tuple(shapes),
        tune_shapes=tuple(sorted(read_shapes(settings["tune_sizes"], at("tune_sizes"), "tune_sizes"), key=work_key)),
        profile_shapes=tuple(read_shapes(settings["profile"]["sizes"], at("profile.sizes"), "profile.sizes")),
        sustained_sizes=tuple(read_shapes(settings["sustained"]["sizes"], at("sustained.sizes"), "sustained.sizes")),
        settings=settings,
        folder=_folder(settings, places, bool(added) and results == RESULTS),
        own=whose,
        results=results,
        own_ladder=own_ladder,
    )
    for rung in (rung for rung in rungs if rung.claims):
        _check_claims(rung, made, places.get("sizes", file), places.get("check", file))
    return made


def _home(results: Path, gpu: str, own: str) -> Path:
    """The folder of the records of a GPU that ship, or of those of a device of the user's own."""
    return results / gpu / DEVICES / own if own else results / gpu


def _with_published(ladder: Mapping[str, Rung], raw: Path) -> list[Rung]:
    """The whole ladder and, after their entry's own, the variants with published tiles that have records there."""
    entries = {rung.entry for rung in ladder.values()}
    published = [name for name in published_kernels() if name.partition("@")[0] in entries]
    recorded = [name for name in published if any(raw.glob(f"*/{name}.*"))]
    return select_rungs([*ladder, *recorded], ladder, "kernels")


def _check_programs(
    settings: Mapping[str, Any], at: Callable[[str], str], compiles_here: bool, measuring: bool
) -> None:
    """Raise LadderError for a tool of this run that the settings name and that is no program."""
    for tool, section in PROGRAMS.items():
        key = tool.replace("-", "_")
        named = settings[section][key] if (compiles_here if tool == "nvcc" else measuring) else "auto"
        if named != "auto" and not shutil.which(named):
            place = f"{at(f'{section}.{key}')}: {section}.{key}"
            raise LadderError(f"{place}: {named!r} is no program; give the path of {tool}, or auto")


def _check_claims(rung: Rung, made: Plan, sizes: str, check: str) -> None:
    """Raise LadderError where a rung claims nothing that is timed or checked; `sizes` and `check` say who set these."""
    claims = f"{rung.name} claims none of them ({in_words(rung.claims)})"
    if unmet := not_as_timed(rung.claims):
        problem = f"{rung.file}: {rung.entry}.claims.{unmet}: {rung.claims[unmet]!r} leaves out how rungs are timed"
        raise LadderError(f"{problem}, at alpha = 1 and beta = 0; claim that too")
    if not made.timed(rung.name):
        raise LadderError(f"{sizes}: sizes: {claims}; add one that it claims")
    if not made.emulated_cases(rung.name):
        raise LadderError(f"{check}: check.cases: {claims}; add one that it claims")


def _outside(settings: Mapping[str, Any], key: str, at: Callable[[str], str]) -> Path | None:
    """The path of a ladder or of results that the user chose; None where it is the project's own.

    Raises LadderError where nvcc or Snakemake would misread it, where it leads nowhere, or is of the wrong kind.
    """
    own = {"ladder": KERNELS, "results": RESULTS}[key]
    place = f"{at(key)}: {key}"
    path = resolved(Path(settings[key]), place)
    if path == own or settings[key] == schema("config")["properties"][key]["default"]:
        return None
    if bad := [letter for letter in MISREAD if letter in str(path)]:
        problem = f"nvcc or Snakemake misreads {' and '.join(map(repr, bad))} in a path"
        raise LadderError(f"{place}: {str(path)!r}: {problem}; rename or move that folder")
    if key == "results" and path.exists() and not path.is_dir():
        raise LadderError(f"{place}: {path}: is no folder; name one, or one to be made")
    if key == "ladder":
        try:
            require_file(path)
        except LadderError as error:
            raise LadderError(f"{place}: {error}") from None
    return path


def _tuned_folders(results: Path, own_ladder: Path | None, home: Path | None = None) -> list[Path]:
    """Where the tuned files of a GPU may be, the last where `snakemake tune` writes: ladders of two folders share none.

    The project's; beside another ladder of the project; in the user's own results; in `home`, the folder of the records
    of a device of the user's own, and there in one that is named as the other ladder's.
    """
    ladder = own_ladder if own_ladder and own_ladder.is_relative_to(ROOT) and own_ladder != KERNELS.parent else None
    beside = [ladder, results if results != RESULTS else None, home]
    if home and ladder:
        beside.append(home / ladder.relative_to(ROOT))
    return [KERNELS.parent, *filter(None, beside)]


def _with_all_tuned(ladder: Mapping[str, Rung], gpu: str, folders: Iterable[Path]) -> dict[str, Rung]:
    """The ladder with the macros of the tuned files of a GPU, those of a later folder before those of an earlier."""
    for folder in folders:
        ladder = with_tuned(ladder, tuned_file(gpu, folder))
    return dict(ladder)


def _raw_folders(places: Iterable[Path]) -> list[tuple[Path, Path]]:
    """The folders of raw records below folders of results, each with the latter."""
    return [
        (results, raw)
        for results in sorted(places)
        for raw in sorted([*results.glob("*/raw"), *results.glob(f"*/{DEVICES}/*/raw")])
    ]


def _folder(settings: Mapping[str, Any], places: Mapping[str, str], ours: bool) -> str:
    chosen = {key.split(".")[0] for key in places} - DERIVES_THE_SAME
    chosen |= {"ladder"} if ours else set()
    return "selected" if chosen or (settings["kernels"], settings["sizes"]) != ("all", "gpu") else "all"


def check_macros(rung: Rung, place: str) -> None:
    """Raise LadderError for a macro that no source of a variant names: it would change nothing but the rung's name."""
    if not rung.macros:
        return
    files = [path for path in sources_of(rung) if not is_compiled(path)] or [source_of_rung(rung)]
    texts = [read_text(path) for path in files if not is_compiled(path)]
    texts = texts if rung.language != "cuda" else list(map(canonical, texts))
    named = {word for text in texts for word in re.findall(r"\w+", text)} | {*parameters_of(rung)}
    own = [text for path, text in zip(files, texts, strict=False) if path.parent != INCLUDE]
    defined = {name for text in own for name in re.findall(r"^# ?define (\w+)", text, re.MULTILINE)}
    for macro in rung.macros:
        if macro not in named:
            choices = sorted(defined | {*parameters_of(rung)})
            hint = nearest(macro, choices or filter(str.isupper, named), "it has")
            if not choices and not hint.startswith("did you mean"):
                hint = "give it a default there: #ifndef, #define, #endif"
            raise LadderError(f"{place}: {rung.name}: {shown(files[0])} has no macro {macro}; {hint}")


def _listed_shapes(settings: Mapping[str, Any], gpu: Gpu, at: Callable[[str], str]) -> list[Shape]:
    """The shapes that are asked for, else those of the GPU's file, else the default ones."""
    chosen = settings["sizes"]
    if chosen != "gpu":
        return read_shapes(chosen if isinstance(chosen, list) else [chosen], at("sizes"), "sizes")
    if gpu.sizes:
        return read_shapes(list(gpu.sizes), gpu.file, "sizes")
    return read_shapes(settings["default_sizes"], at("default_sizes"), "default_sizes")


def _check_shapes(settings: Mapping[str, Any], at: Callable[[str], str]) -> None:
    for section in ("check", "sanitize", "tune"):
        for index, shape in enumerate(settings[section]["shapes"]):
            try:
                if max(vars(Shape.parse(shape)).values()) >= 1 << 31:
                    raise ValueError(f"{shape!r} has a dimension above {(1 << 31) - 1}, the largest int")
            except ValueError as error:
                problem = str(error).replace("a positive integer", "a whole number")
                key = f"{section}.shapes[{index}]"
                raise LadderError(f"{at(key)}: {key}: {problem}; write 127 or 31x33x0") from None


def _choose(settings: Mapping[str, Any], where: Callable[[str], str]) -> tuple[Gpu, list[Present], bool]:
    """The GPU of this run, those of it that this machine has, and whether it is measured."""
    name, measure = settings["gpu"], settings["measure"]
    at = {key: f"{where(key)}: {key}" for key in ("gpu", "fallback_gpu", "measure", "devices")}
    if measure == CLUSTER:
        if name == "auto":
            raise LadderError(f"{at['gpu']}: auto, but the nodes' GPUs are not seen from here; name one: gpu=h100-sxm")
        return gpus.read_gpu(name, at["gpu"]), [], True
    here = gpus.chosen(settings["devices"], at["devices"])
    device = next(iter(here), None)
    if name == "auto":
        if device is None:
            if measure is True:
                raise LadderError(f"{at['measure']}: true, but there is no GPU here; run where `nvidia-smi` lists one")
            return gpus.read_gpu(settings["fallback_gpu"], at["fallback_gpu"]), [], False
        known = gpus.recognise(device)
        gpu = gpus.read_gpu(known) if known else gpus.from_device(device)
        return gpu, gpus.of_kind(gpu.name, here), measure is not False
    gpu = gpus.read_gpu(name, at["gpu"])
    found = gpus.of_kind(name, here)
    if measure is False or (device is None and measure == "auto"):
        return gpu, found, False
    if not found:
        others = f"the GPU here is {device.name}" if device else "there is no GPU here"
        raise LadderError(
            f"{at['gpu']}: {name!r} is to be measured, but {others}; set gpu=auto, or measure=false for its records"
        )
    return gpu, found, True


def _own(
    settings: Mapping[str, Any], gpu: Gpu, devices: Sequence[Present], measuring: bool, results: Path, place: str
) -> str:
    """Whose records a run makes or shows: the folder of GPUs of the user's own, or empty for those that ship."""
    records, found = settings["records"], own_devices(gpu, results)
    here = CLUSTER if settings["measure"] == CLUSTER else "+".join(sorted(device.folder for device in devices))
    if records == "shipped":
        return ""
    if records == "auto":
        return here if measuring or here in found else ""
    if measuring and records != here and names_devices(records):
        raise LadderError(f"{place}: {records!r} is not the device here, {here}; set records=auto, or measure=false")
    if not measuring and records not in found:
        known = nearest(records, ["auto", "shipped", *found])
        raise LadderError(f"{place}: {records!r} has no records of {gpu.title}; {known}")
    return records


def own_devices(gpu: Gpu, results: Path) -> list[str]:
    """The devices of the user's own that have records of a GPU in a folder of results, by their folders."""
    return sorted(path.parent.name for path in (results / gpu.name / DEVICES).glob("*/raw"))


def _headline(run: Plan) -> str:
    """The first line of a run."""
    gpu, device = run.gpu, run.device
    if run.measuring and device is None:
        line = f"measuring on nodes of the cluster with {gpu.title} (config/gpus/{gpu.name}.yaml)"
        return f"{line}; records: {shown(run.raw())}"
    if run.measuring and device is not None:
        number = f"{len(run.devices)} x " if len(run.devices) > 1 else ""
        line = f"measuring on {number}{device.name} (config/gpus/{gpu.name}.yaml), driver {device.driver}"
        if gpus.recognise(device) is None:
            line = (
                f"measuring on {device.name}, which has no file in config/gpus and runs from its own properties; "
                f"keep them in config/gpus/{gpu.name}.yaml with: snakemake gpu_file"
            )
        return f"{line}; records: {shown(run.raw())}"
    of_others = [own for own in own_devices(gpu, run.results) if own != run.own]
    others = "".join(f"; to see those of {own}: records={own}" for own in of_others)
    recorded = recorded_on(run.raw())
    if recorded is None:
        line = f"no GPU is measured, and nothing is recorded for {gpu.title}: rungs are compiled and inspected only"
        return line + others
    whose = "recorded in this folder" if run.own else "that ship"
    return f"no GPU is measured: results are the measurements {whose}, of {recorded}{others}"


def passed(path: Path, builds: Sequence[Rung]) -> bool:
    """Whether a check record at a path holds that a rung, as it is now and built in one of these ways, is right."""
    record = store.read_record(path) if path.exists() else {"status": ""}
    if record["status"] != "pass":
        return False
    judged = record.get("declared", builds[0].declared), record.get("claims", {})
    alike = judged == (builds[0].declared, builds[0].claims)
    return alike and source_of(record["where"]) in map(source_digest, builds)


def recorded_shapes(raw: Path) -> set[Shape]:
    """The shapes at which a folder's time records hold anything; a damaged record counts for nothing here."""
    found: set[Shape] = set()
    for path in raw.glob("time/*.zip"):
        with contextlib.suppress(LadderError):
            for files in store.read_runs(path, "record.json").values():
                found |= {Shape.parse(shape) for shape in store.run_record(files, path)["shapes"]}
    return found


def recorded_on(raw: Path) -> str | None:
    """`NVIDIA H100 80GB HBM3, 2026-11-20 to 2026-11-21`: on what and when the records of a folder were measured.

    The beginning of the UUID stands behind the name where the folder is of one device.
    """
    places = [where for path in sorted(raw.glob("check/*.json")) if (where := store.read_record(path).get("where"))]
    if not places:
        return None
    days = sorted({where["measured_at"][:10] for where in places})
    span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    device = RecordPlace.of(raw / "check").device
    return f"{places[0]['gpu']['name']}{f' ({device})' if device else ''}, {span}"
