"""A rung for use elsewhere: `python workflow/library.py fastest` builds libgemm_ladder.so and what goes with it."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

from ladder.build.compile import build, compile_command
from ladder.build.toolchain import find_nvcc, require_architecture, run_compiler
from ladder.commands.bench import COMMAND_LINE, setting
from ladder.config.documents import read_yaml
from ladder.config.plan import Plan, plan
from ladder.model.rung import Rung
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT, require_temporary_folder, resolved, shown
from ladder.system.terminal import exit_status

LIBRARY_PARTS = ROOT / "kernels" / "library"
LIBRARY_NAME, SHIM_NAME = "libgemm_ladder.so", "libgemm_ladder_cublas.so"


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status: 1, with one line on the standard error, where nothing was built."""
    asked = _parser().parse_args(arguments)

    def work() -> None:
        require_temporary_folder()
        given = {**dict(map(setting, asked.config)), "kernels": [asked.rung]}
        config = {**read_yaml(ROOT / "config" / "config.yaml"), **given}
        run = plan(config, dict.fromkeys(given, COMMAND_LINE))
        output = resolved(Path.cwd() / asked.output, COMMAND_LINE)
        make_library(run, run.rungs[0], output)
        print(f"{asked.rung} for {run.gpu.title}: {shown(output)}")

    return exit_status("library", work)


def make_library(run: Plan, rung: Rung, folder: Path) -> None:
    """Build a rung as the plan would, and put library, shim, header and Python module into a folder.

    Raises LadderError for what is no rung or computes less than SGEMM, and where it does not compile.
    """
    if rung.role != "rung" or rung.claims:
        raise LadderError(f"{COMMAND_LINE}: {rung.name}: only a rung that computes all of SGEMM makes a library")
    nvcc, flags = find_nvcc(run.settings["compile"]["nvcc"]), run.settings["compile"]["flags"]
    require_architecture(nvcc, run.gpu)
    record = build(rung, run.gpu.target, nvcc, flags, folder / "rung")
    if record["status"] != "ok":
        raise LadderError(f"{rung.name}: {record['status']}: {record['message']}")
    text = f"{rung.name} ({rung.precision}) for {run.gpu.title}"
    capability = run.gpu.compute_capability.replace(".", "")
    command = compile_command(rung, run.gpu.target, nvcc, flags, folder / "rung" / LIBRARY_NAME)
    own = [f"-Xlinker=--version-script={LIBRARY_PARTS / 'exports.map'}", f"-DGEMM_LADDER_CAPABILITY={capability}"]
    own += [f'-DGEMM_LADDER_DESCRIPTION="{text}"', str((LIBRARY_PARTS / "gemm_ladder.cu").relative_to(ROOT))]
    _compile([*command, *own], LIBRARY_PARTS / "gemm_ladder.cu")
    (folder / "rung" / LIBRARY_NAME).rename(folder / LIBRARY_NAME)
    make_shim(folder)
    for name in ("gemm_ladder.h", "gemm_ladder.py"):
        shutil.copyfile(LIBRARY_PARTS / name, folder / name)
    shutil.rmtree(folder / "rung")


def make_shim(folder: Path) -> None:
    """Build the shim for LD_PRELOAD in a folder that holds the library; raises LadderError where that fails."""
    options = ["-shared", "-fPIC", "-O2", "-std=c++17", "-fvisibility=hidden", "-Wall", "-Werror"]
    linked = [f"-L{folder}", "-lgemm_ladder", "-Wl,-rpath,$ORIGIN", "-ldl"]
    source = LIBRARY_PARTS / "cublas_shim.cpp"
    _compile(["g++", *options, f"-I{LIBRARY_PARTS}", "-o", str(folder / SHIM_NAME), str(source), *linked], source)


def _compile(command: list[str], source: Path) -> None:
    if error := run_compiler(command, source)[1]:
        raise LadderError(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python workflow/library.py",
        description="Build a rung as a library for C, Python and programs that call cuBLAS.",
    )
    parser.add_argument(
        "rung", nargs="?", default="fastest", help="a rung that computes all of SGEMM; without one, fastest"
    )
    parser.add_argument("--output", "-o", type=Path, default=ROOT / "build" / "library", help="a folder")
    parser.add_argument("--config", "-C", nargs="+", default=[], metavar="KEY=VALUE", help="gpu=h100-sxm, ladder=...")
    return parser
