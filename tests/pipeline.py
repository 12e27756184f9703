"""Copies of the project in which the tests run the pipeline for real, and what they ask of such a run."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEST_KERNELS = ROOT / "tests" / "kernels"
RECORDED = "h100-sxm"  # whose records a machine without a GPU shows
PARTS = ("config", "envs", "kernels", "profiles", "workflow", f"results/{RECORDED}/raw")

# What most tests run: a variant is among it, and all of it is recorded. The emulator gets a few small products; where a
# page is followed (tests/test_docs.py), those of the configuration.
FEW_RUNGS = ["cublas", "naive", "tiled@TILE=16"]
SIZES = "sizes=[512,1024]"
CHECK = "check={shapes: [1, 33x65x17], family_shapes: [33x65x17]}"
# Of what is recorded a copy holds what FEW_RUNGS need, one more rung, the trials of one entry and one experiment.
KEPT = {*FEW_RUNGS, "cublas_best", "coalesced", "tiled", "small_tiles"}


def few(*more: str) -> list[str]:
    """The configuration that most tests run, with more kernels."""
    return [f"kernels=[{','.join(FEW_RUNGS + list(more))}]", SIZES, CHECK]


FEW = few()


@dataclass(frozen=True)
class Run:
    """A finished run of Snakemake: its exit status and all that it printed."""

    status: int
    output: str

    @property
    def said(self) -> list[str]:
        """The pipeline's own lines, without their `gemm-ladder: `; progress and the summary are not among them."""
        return re.findall(r"^gemm-ladder: (.*)$", self.output, re.MULTILINE)

    @property
    def errors(self) -> list[str]:
        """The pipeline's own lines but the one that says what is measured or shown."""
        return [line for line in self.said if not line.startswith(("measuring on", "no GPU is measured"))]


def copy_project(folder: Path, records: bool = True) -> Path:
    """Copy the project's sources, and with `records` some of what is recorded (KEPT), but nothing that is derived."""
    folder.mkdir(parents=True)
    shutil.copy2(ROOT / "Snakefile", folder)
    for part in PARTS if records else PARTS[:-1]:
        shutil.copytree(ROOT / part, folder / part, ignore=_left_out)
    return folder


def _left_out(folder: str, names: list[str]) -> list[str]:
    """Those of the names in a folder of the project that a copy does not hold."""
    record = Path(folder).parent.name == "raw"
    return [
        name
        for name in names
        if name.startswith(".") or name == "__pycache__" or (record and name.partition(".")[0] not in KEPT)
    ]


def add_kernel(folder: Path, source: str, name: str | None = None) -> str:
    """Drop one of tests/kernels into a copy, beside `naive`, and enter it in kernels.yaml; returns its name."""
    shutil.copy2(TEST_KERNELS / f"{source}.cu", folder / "kernels" / "sgemm")
    name = name or source
    with (folder / "config" / "kernels.yaml").open("a") as file:
        file.write(f"\n{name}:\n  title: a kernel of the tests\n  source: sgemm/{source}.cu\n  before: naive\n")
    return name


def fenced(page: Path) -> list[tuple[str, str]]:
    """The fenced blocks of a page of documentation, in order: the language and the text of each."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def environment(folder: Path, gpu: bool, **more: str) -> dict[str, str]:
    """The environment of a process for a test's folder; without `gpu` the machine's GPUs, if any, are hidden from it.

    Where Python is told to write no bytecode, each of the many processes would compile every module again: theirs goes
    to a folder of this session's.
    """
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("GEMM_LADDER")}
    elsewhere = [one for one in inherited.get("PYTHONPATH", "").split(os.pathsep) if Path(one) != ROOT / "workflow"]
    own = str(folder / "workflow")  # where Snakemake finds the logger plugin
    inherited["PYTHONPATH"] = os.pathsep.join(filter(None, [more.pop("PYTHONPATH", ""), own, *elsewhere]))
    inherited["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    if inherited.pop("PYTHONDONTWRITEBYTECODE", None):
        session = next((part for part in folder.parents if re.fullmatch(r"pytest-\d+", part.name)), folder.parent)
        inherited["PYTHONPYCACHEPREFIX"] = str(session / "pycache")
    return inherited | ({} if gpu else {"CUDA_VISIBLE_DEVICES": "-1"}) | more


def command(config: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """The command line of Snakemake; two cores unless the arguments name others."""
    cores = [] if "--cores" in arguments else ["--cores", "2"]
    return [sys.executable, "-m", "snakemake", *cores, *arguments, *(("--config", *config) if config else ())]


# As much of pynvml as the plan of a run and jobs on stand-ins ask for. A handle is the name and the UUID of a card.
NVML = """
NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2
CARDS = CARDS_HERE


class NVMLError(Exception):
    pass


def nvmlDeviceGetHandleByIndex(index):
    return CARDS[index]


def nvmlDeviceGetHandleByUUID(uuid):
    return next(card for card in CARDS if card[1].startswith(uuid))


def __getattr__(name):
    answers = {
        "nvmlDeviceGetCudaComputeCapability": (9, 0),
        "nvmlSystemGetCudaDriverVersion": 13000,
        "nvmlSystemGetDriverVersion": "580.1",
        "nvmlSystemGetNVMLVersion": "13.580.1",
        "nvmlDeviceGetMemoryInfo": type("Memory", (), {"total": 1 << 36}),
    }
    of_card = {"nvmlDeviceGetName": 0, "nvmlDeviceGetUUID": 1}
    return lambda *given: given[0][of_card[name]] if name in of_card else answers.get(name, 1000)
"""
H100, H200 = "NVIDIA H100 80GB HBM3", "NVIDIA H200"  # as NVML names them


def a_machine(folder: Path, *cards: tuple[str, str]) -> dict[str, str]:
    """Variables of the environment that let a run find these cards, (name, UUID), by way of a folder that is made."""
    folder.mkdir()
    (folder / "pynvml.py").write_text(NVML.replace("CARDS_HERE", repr(cards)))
    return {"PYTHONPATH": str(folder)}


def an_h100(folder: Path, uuid: str = "GPU-0a1b2c3d-4e5f") -> dict[str, str]:
    """`a_machine` with one H100."""
    return a_machine(folder, (H100, uuid))


def with_stand_ins(project: Path) -> Path:
    """A copy of the project whose worker checks and times on no GPU (tests/stand_in.py); returns it.

    A check is one process there, which notes when it comes and goes.
    """
    stage = project / "workflow/ladder/measure/check/stage.py"
    stage.write_text(re.sub(r"^WORKERS = \d+", "WORKERS = 1", stage.read_text(), flags=re.MULTILINE))
    shutil.copy2(ROOT / "tests/stand_in.py", project / "workflow/ladder/measure/worker.py")
    return project


def snakemake(folder: Path, config: Sequence[str], *arguments: str, gpu: bool = False, **variables: str) -> Run:
    """Run Snakemake in a copy until it ends."""
    result = subprocess.run(
        command(config, arguments),
        cwd=folder,
        env=environment(folder, gpu, **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )
    return Run(result.returncode, result.stdout)


@contextmanager
def started(
    folder: Path, config: Sequence[str], *arguments: str, gpu: bool = False, **variables: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Start Snakemake in a copy, with its output in run.log, and kill it with all its children at the end."""
    with (folder / "run.log").open("wb") as log:
        process = subprocess.Popen(
            command(config, arguments),
            cwd=folder,
            env=environment(folder, gpu, **variables),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    """Return as soon as the condition holds; fails the test where it does not within the seconds given."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"nothing happened within {seconds} s"
        time.sleep(0.01)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder by its path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def selected(folder: Path, gpu: str = RECORDED) -> Path:
    """Where a run of a copy derives what it was asked for by its configuration."""
    return folder / "results" / gpu / "selected"


def derived(folder: Path, gpu: str = RECORDED) -> dict[str, bytes]:
    """Every table and figure of a copy, and whatever else lies in their folders."""
    results = folder / "results" / gpu
    return {name: content for name, content in contents(results).items() if not name.startswith("raw/")}


def copied(source: Path, target: Path) -> Path:
    """A copy of a copy, with what Snakemake knows of it and with the times of its files."""
    shutil.copytree(source, target)
    return target


def once(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that one process of the test session makes and all of them use."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, done, failed = shared / name, shared / f"{name}.done", shared / f"{name}.failed"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not failed.exists(), failed.read_text()
        if not done.exists():
            try:
                make(folder)
            except AssertionError as error:
                failed.write_text(str(error))
                raise
            done.touch()
    return folder


def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `source`, a copy of the project, `project`, where a run of FEW then ended, and its output `log`."""

    def make(folder: Path) -> None:
        project = copied(copy_project(folder / "source"), folder / "project")
        run = snakemake(project, FEW, "--cores", "4")
        (folder / "log").write_text(run.output)
        assert run.status == 0, run.output

    return once(tmp_path_factory, "finished", make)
