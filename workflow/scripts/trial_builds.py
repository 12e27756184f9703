"""Compile every legal combination of an entry's parameters, side by side."""

from collections import Counter
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
    progress(f"{len(rungs)} legal combinations")
    folder = output.with_suffix("")
    nvcc = find_nvcc(snakemake.params.nvcc)
    compiled = build_trials(rungs, run.gpu, nvcc, snakemake.params.flags, folder, snakemake.threads)
    Path(snakemake.log[0]).write_text("".join(f"{name}\n{record['log']}\n" for name, record in compiled.items()))
    store.write_json(output, {"trials": list(compiled)})
    progress(
        ", ".join(f"{count} {status}" for status, count in Counter(r["status"] for r in compiled.values()).items())
    )
