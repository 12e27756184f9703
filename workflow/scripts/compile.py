"""Compile one rung into its folder."""

from pathlib import Path

from ladder.build.compile import build
from ladder.build.toolchain import find_nvcc
from ladder.model.gpu import Target
from ladder.system.terminal import job

with job(snakemake) as progress:
    (rung,), target = snakemake.params.rung, Target(*snakemake.params.target)
    nvcc = find_nvcc(snakemake.params.nvcc)
    record = build(rung, target, nvcc, snakemake.params.flags, Path(snakemake.output[0]))
    compiler = f"compiler: {snakemake.params.compiler}\n" if snakemake.params.compiler else ""
    Path(snakemake.log[0]).write_text(compiler + record["log"])
    progress.ended(record["status"], record["message"] or target.architecture)
