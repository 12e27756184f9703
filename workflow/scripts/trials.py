"""Check and time an entry's trials, batch by batch."""

from pathlib import Path

from ladder.build.compile import Build
from ladder.config.plan import plan_of_run
from ladder.measure.tune.stage import Search, default_trial, round_settings, shape_cases
from ladder.model.cases import all_cases
from ladder.model.shape import Shape
from ladder.records import store
from ladder.records.provenance import environment
from ladder.records.trials import Record
from ladder.system.paths import ROOT
from ladder.system.process import gpu_lock
from ladder.system.terminal import Progress, one_line_errors

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    entry, log = snakemake.wildcards.entry, Path(snakemake.log[0])
    tune, shapes = snakemake.params.tune, [Shape.parse(shape) for shape in snakemake.params.shapes]
    names = store.read_json(Path(snakemake.input.builds))["trials"]
    builds = {name: Build(Path(snakemake.input.builds).with_suffix("") / name) for name in names}
    progress = Progress("tune", entry, run.tuned_entries)

    def where(compiled, digest):
        place = environment(ROOT, run.device, compiled, digest)
        keys = ("nvcc", "flags", "architecture")
        return {**place, "compile": {key: place["compile"][key] for key in keys}}

    baseline = Build(Path(snakemake.input.baseline))
    search = Search(
        entry=entry,
        builds=builds,
        compiled={name: made.record for name, made in builds.items()},
        baseline=run.baseline.name,
        baseline_build=baseline,
        cases=[case.as_record() for case in all_cases(map(Shape.parse, tune["shapes"]), snakemake.params.cases, [])],
        shapes=[str(shape) for shape in shapes],
        settings=round_settings(tune, snakemake.params.timing),
        final_cases=shape_cases(shapes),
        finalists=tune["finalists"],
        default=default_trial(entry, run.ladder),
        variants=[rung.macros for rung in run.ladder.values() if rung.entry == entry],
        batch=tune["batch"],
        device=run.settings["device"],
        time_limit_s=tune["time_limit_s"],
        where=where,
        log=log,
        progress=progress,
    )
    with gpu_lock(run.device.uuid):  # which what is left of a killed run may hold, and be writing the record
        record = Record.read(Path(snakemake.output[0]), entry)
        search.run(record)
    failed = [name for (name, _), trial in record.trials.items() if trial["status"] not in ("ok", "does not compile")]
    progress(f"done: {len(names)} trials" + (f", {len(failed)} not right or not running" if failed else ""))
