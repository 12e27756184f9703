"""Compile one rung into its folder."""

from pathlib import Path

from ladder.build.compile import build
from ladder.build.toolchain import find_nvcc
from ladder.config.plan import plan_of_run
from ladder.system.terminal import Progress, one_line_errors

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    rung = run.by_name(snakemake.wildcards.kernel)
    progress = Progress("compile", rung.name, [needed.name for needed in run.needed])
    nvcc = find_nvcc(snakemake.params.nvcc)
    record = build(rung, run.gpu, nvcc, snakemake.params.flags, Path(snakemake.output[0]))
    Path(snakemake.log[0]).write_text(record["log"])
    progress.ended(record["status"], record["message"] or run.gpu.architecture)
