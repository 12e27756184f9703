"""Compile one rung into its folder."""

from pathlib import Path

from ladder.build import build
from ladder.plan import plan
from ladder.script import Progress, one_line_errors
from ladder.toolchain import find_nvcc

with one_line_errors(snakemake.log[0]):
    run = plan(snakemake.config)
    nvcc = find_nvcc(snakemake.params.nvcc)
    rung = run.by_name(snakemake.wildcards.kernel)
    record = build(rung, run.gpu, nvcc, snakemake.params.flags, Path(snakemake.output[0]))
    Path(snakemake.log[0]).write_text(record["log"])
    progress = Progress("compile", rung.name, [needed.name for needed in run.needed])
    progress(f"{run.gpu.architecture}  {record['status']}  {record['message']}".rstrip())
