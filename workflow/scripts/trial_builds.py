"""Compile every legal combination of an entry's parameters, side by side."""

from collections import Counter
from pathlib import Path

from ladder.build.toolchain import find_nvcc
from ladder.measure.tune.stage import build_trials, trial_rungs
from ladder.records import store
from ladder.system.terminal import job

with job(snakemake, "tune") as progress:
    (template,), (gpu,), output = snakemake.params.rung, snakemake.params.gpu, Path(snakemake.output[0])
    rungs = trial_rungs(template, gpu)
    progress(f"{len(rungs)} legal combinations")
    nvcc = find_nvcc(snakemake.params.nvcc)
    folder, flags = output.with_suffix(""), snakemake.params.flags
    compiled = build_trials(rungs, gpu.target, nvcc, flags, folder, snakemake.threads)
    Path(snakemake.log[0]).write_text("".join(f"{name}\n{record['log']}\n" for name, record in compiled.items()))
    store.write_json(output, {"trials": list(compiled)})
    counts = Counter(record["status"] for record in compiled.values())
    progress(", ".join(f"{count} {status}" for status, count in counts.items()))
