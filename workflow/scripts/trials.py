"""Check and time an entry's trials, batch by batch."""

from pathlib import Path

from ladder.build.compile import Build
from ladder.measure.pool import candidates, lease
from ladder.measure.tune.stage import Search, default_trial, round_settings, shape_cases
from ladder.model.cases import all_cases
from ladder.model.claims import claimed_cases
from ladder.model.shape import Shape
from ladder.records import store
from ladder.records.provenance import environment
from ladder.records.trials import Record
from ladder.system.paths import ROOT
from ladder.system.process import LEASED
from ladder.system.terminal import job

with job(snakemake, "tune") as progress:
    entry, params = snakemake.wildcards.entry, snakemake.params
    tune, output = params.tune, Path(snakemake.output[0])
    devices = candidates(snakemake.wildcards.gpu, params.devices, output)
    shapes = [Shape.parse(shape) for shape in params.shapes]
    listed, baseline = Path(snakemake.input.builds), Build(Path(snakemake.input.baseline))
    names = store.read_json(listed)["trials"]
    builds = {name: Build(listed.with_suffix("") / name) for name in names}

    def where(compiled, digest):
        place = environment(ROOT, device, compiled, digest)
        keys = ("nvcc", "flags", "architecture")
        return {**place, "compile": {key: place["compile"][key] for key in keys}}

    cases = all_cases(map(Shape.parse, tune["shapes"]), params.cases, [])
    search = Search(
        entry=entry,
        builds=builds,
        compiled={name: made.record for name, made in builds.items()},
        baseline=baseline.folder.name,
        baseline_build=baseline,
        cases=[case.as_record() for case in claimed_cases(params.rungs[0].claims, cases)],
        shapes=[str(shape) for shape in shapes],
        settings=round_settings(tune, params.timing),
        final_cases=shape_cases(shapes),
        finalists=tune["finalists"],
        default=default_trial(params.rungs[0]),
        variants=[rung.macros for rung in params.rungs],
        declared=params.rungs[0].declared,
        batch=tune["batch"],
        device=LEASED,
        time_limit_s=tune["time_limit_s"],
        where=where,
        log=Path(snakemake.log[0]),
        progress=progress,
    )
    with lease(devices) as device:  # which what is left of a killed run may hold, and be writing the record
        record = Record.read(output, entry)
        search.run(record)
    failed = [name for (name, _), trial in record.trials.items() if trial["status"] not in ("ok", "does not compile")]
    progress(f"done: {len(names)} trials" + (f", {len(failed)} not right or not running" if failed else ""))
