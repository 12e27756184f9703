"""Compile every combination of an entry's parameters that its restrictions allow, side by side."""

from pathlib import Path

from ladder.build.toolchain import find_nvcc
from ladder.measure.tune.stage import build_trials, trial_rungs
from ladder.records import store
from ladder.system.terminal import job

with job(snakemake, "tune") as progress:
    (template,), (gpu,), output = snakemake.params.rung, snakemake.params.gpu, Path(snakemake.output[0])
    rungs = trial_rungs(template, gpu)
    progress(f"{len(rungs)} combinations")
    nvcc = find_nvcc(snakemake.params.nvcc)
    folder, flags = output.with_suffix(""), snakemake.params.flags
    compiled = build_trials(rungs, gpu.target, nvcc, flags, folder, snakemake.threads)
    Path(snakemake.log[0]).write_text("".join(f"{name}\n{record['log']}\n" for name, record in compiled.items()))
    store.write_json(output, {"trials": list(compiled)})
    refused = sum(record["status"] != "ok" for record in compiled.values())
    progress(f"{len(rungs) - refused} compiled" + (f", {refused} refused by the compiler" if refused else ""))
