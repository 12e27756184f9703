"""Compile every combination of an entry's parameters that its restrictions allow, side by side."""

from pathlib import Path

from ladder.build.toolchain import find_nvcc
from ladder.config.plan import plan_of_run
from ladder.measure.tune.stage import build_trials, trial_rungs
from ladder.records import store
from ladder.system.terminal import Progress, one_line_errors

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    entry, output = snakemake.wildcards.entry, Path(snakemake.output[0])
    progress = Progress("compile", entry, run.tuned_entries)
    rungs = trial_rungs(entry, run.ladder, run.gpu)
    progress(f"{len(rungs)} combinations")
    folder = output.with_suffix("")
    nvcc = find_nvcc(snakemake.params.nvcc)
    compiled = build_trials(rungs, run.gpu, nvcc, snakemake.params.flags, folder, snakemake.threads)
    Path(snakemake.log[0]).write_text("".join(f"{name}\n{record['log']}\n" for name, record in compiled.items()))
    store.write_json(output, {"trials": list(compiled)})
    refused = sum(record["status"] != "ok" for record in compiled.values())
    progress(f"{len(rungs) - refused} compiled" + (f", {refused} refused by the compiler" if refused else ""))
