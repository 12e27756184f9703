"""Programs of others with and without the shim of `make library`: results/GPU/raw/library.json."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from ladder.commands.library import SHIM_NAME, make_library
from ladder.config.plan import RESULTS, Plan
from ladder.records.provenance import now, software
from ladder.records.store import read_json
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT
from recording import record_as

RUNG = "fastest"
CUPY_SOURCE = "CUPY_SOURCE"  # the environment variable that names a checkout of CuPy, for its tests are in no wheel
CUPY_TESTS = "tests/cupy_tests/math_tests/test_matmul.py"
TIME_LIMIT_S = 1800
_REPORT = re.compile(r"^gemm_ladder: (\d+) of (\d+) FP32 products by ", re.MULTILINE)


def run(command: list[str], shim: Path | None, cwd: Path = ROOT) -> tuple[subprocess.CompletedProcess, dict[str, int]]:
    """Run a program, with a shim before its cuBLAS or without; and of its FP32 products how many were the shim's."""
    own = {"LD_PRELOAD": str(shim), "GEMM_LADDER_SHIM": "report"} if shim else {}
    ended = subprocess.run(
        command, cwd=cwd, env={**os.environ, **own}, capture_output=True, text=True, check=False, timeout=TIME_LIMIT_S
    )
    counts = [(int(ours), int(products)) for ours, products in _REPORT.findall(ended.stderr)]
    return ended, {"by_the_shim": sum(ours for ours, _ in counts), "fp32_products": sum(each for _, each in counts)}


def torch_model(shim: Path | None) -> dict[str, Any]:
    """What tools/shimmed_model.py prints, and the shim's counts; raises LadderError where the program fails."""
    ended, counts = run([sys.executable, str(ROOT / "tools/shimmed_model.py")], shim)
    if ended.returncode:
        said = (ended.stderr.strip() or "nothing was said").splitlines()[-1]
        raise LadderError(f"library: the model of torch.nn ended with status {ended.returncode}: {said}")
    return {**json.loads(ended.stdout.splitlines()[-1]), **counts}


def cupy_tests(shim: Path | None) -> dict[str, Any]:
    """How each of CuPy's tests of matmul ended, the seconds that they took, and the shim's counts.

    Raises LadderError where none of them ran.
    """
    source = Path(os.environ[CUPY_SOURCE]).resolve()
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder:
        report = Path(folder) / "report.xml"
        # from its folder of tests, so that the CuPy that is installed is tested, and not the checkout
        options = ["-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        begun = time.monotonic()
        command = [sys.executable, "-m", "pytest", *options, str(source / CUPY_TESTS)]
        ended, counts = run(command, shim, source / "tests")
        wall_s = round(time.monotonic() - begun, 3)
        outcomes = read_outcomes(report) if report.exists() else {}
    if not outcomes:
        said = (ended.stdout.strip() or ended.stderr.strip() or "nothing was said").splitlines()[-1]
        raise LadderError(f"library: {source / CUPY_TESTS}: pytest ran no test: {said}")
    return {"program": CUPY_TESTS, "outcomes": outcomes, "wall_s": wall_s, **counts}


def read_outcomes(report: Path) -> dict[str, str]:
    """`passed`, `failure`, `error` or `skipped` of each test in pytest's report as JUnit's XML."""
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        found[name] = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
    return found


def missing_torch() -> str:
    """Why the model of torch.nn cannot run; empty where it can."""
    return "" if find_spec("torch") else f"{sys.executable} has no PyTorch; install torch there"


def missing_cupy() -> str:
    """Why CuPy's tests cannot run; empty where they can."""
    if not find_spec("cupy"):
        return f"{sys.executable} has no CuPy; run make env"
    source = os.environ.get(CUPY_SOURCE)
    if not source:
        return f"CuPy's tests are in no wheel; set {CUPY_SOURCE} to a checkout of the version that is installed"
    return "" if (Path(source) / CUPY_TESTS).exists() else f"{CUPY_SOURCE}: {source}: holds no {CUPY_TESTS}"


def judged_model(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """What is wrong with the model's products with the shim; empty where all are within FP32's bound."""
    name, worst = max(after["shares_of_bound"].items(), key=lambda pair: pair[1])
    return f"{name}: its error is {worst:.3g} of FP32's bound" if not worst <= 1 else ""


def judged_tests(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Which tests end otherwise with the shim than without; empty where none does."""
    ends = before["outcomes"], after["outcomes"]
    other = sorted(name for name in ends[0].keys() | ends[1].keys() if ends[0].get(name) != ends[1].get(name))
    more = f" (and {len(other) - 1} more)" if len(other) > 1 else ""
    return f"{other[0]}: ends otherwise than without the shim{more}" if other else ""


Judge = Callable[[Mapping[str, Any], Mapping[str, Any]], str]
PROGRAMS: dict[str, tuple[Callable[[], str], Callable[[Path | None], dict[str, Any]], Judge]] = {
    "torch.nn": (missing_torch, torch_model, judged_model),
    "CuPy": (missing_cupy, cupy_tests, judged_tests),
}


def programs(shim: Path) -> list[dict[str, Any]]:
    """Each program that can run here without the shim, with it, and without it again, and what is wrong with it.

    Says in a line each how it ended, or why it was left out. Raises LadderError where none can run.
    """
    found = []
    for name, (missing, measured, judged) in PROGRAMS.items():
        if reason := missing():
            print(f"library: {name}: left out: {reason}")
            continue
        before, with_shim, after = (measured(each) for each in (None, shim, None))
        wrong = judged(before, with_shim)
        found.append({"name": name, "wrong": wrong, "before": before, "with": with_shim, "after": after})
        print(f"library: {name}: {wrong or told(found[-1])}")
    if not found:
        raise LadderError("library: no program to run; the lines above say what is missing")
    return found


def told(found: Mapping[str, Any]) -> str:
    """The times of a program with the shim and without, and how many of its products were the shim's, in words."""

    def seconds(measured: Mapping[str, Any]) -> float:
        return measured["wall_s"] if "wall_s" in measured else float(np.median(measured["times_ms"])) / 1e3

    without = (seconds(found["before"]) + seconds(found["after"])) / 2
    own, shim = seconds(found["with"]), found["with"]
    share = f"{shim['by_the_shim']} of {shim['fp32_products']} products by the rung"
    return f"{1e3 * own:.4g} ms with the shim, {1e3 * without:.4g} ms without ({own / without:.3f}); {share}"


def programs_with_the_shim(gpu: str) -> str:
    """The table of docs/library.md: each recorded program without the shim, with it, and without it again."""
    record = read_json(RESULTS / gpu / "raw/library.json")
    lines = [
        "| program | products by the rung | without | with | without again | what came of it |",
        "| --- |" + " --- |" * 5,
    ]
    for each in record["programs"]:
        runs = [each[when] for when in ("before", "with", "after")]
        with_shim = each["with"]
        if "outcomes" in with_shim:
            passed = [sum(end == "passed" for end in run["outcomes"].values()) for run in runs]
            what, times = "CuPy's tests of `matmul`, the whole process", [f"{run['wall_s']:.1f} s" for run in runs]
            came = f"{passed[1]} of {len(with_shim['outcomes'])} tests pass, {passed[0]} without"
        else:
            what = (
                f"a step of three linear layers in {with_shim['program'].partition('+')[0].replace('torch', 'PyTorch')}"
            )
            times = [f"{float(np.median(run['times_ms'])):.2f} ms" for run in runs]
            worst = [f"{100 * max(run['shares_of_bound'].values()):.1f} %" for run in runs]
            came = f"the largest error is {worst[1]} of FP32's bound, {worst[0]} without"
        count = f"{with_shim['by_the_shim']} of {with_shim['fp32_products']}"
        lines.append(f"| {' | '.join([what, count, *times, each['wrong'] or came])} |")
    card, day = record["where"]["gpu"]["name"], record["where"]["measured_at"][:10]
    lines += ["", f"`{record['library']}` on {card}, {day}, `results/{gpu}/raw/library.json`."]
    return "\n".join(lines)


def on_gpu(planned: Plan) -> dict[str, Any]:
    """The library of a rung, built for this GPU, and every program that can run here with and without its shim."""
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder:
        make_library(planned, planned.by_name(RUNG), Path(folder))
        found = programs(Path(folder) / SHIM_NAME)
    where = {"measured_at": now(), "gpu": vars(planned.device), "software": software(ROOT)}
    return {"where": where, "library": RUNG, "programs": found}


def record_gpu() -> None:
    """On a GPU: results/GPU/raw/library.json."""
    record_as("library.json", on_gpu)


COMMANDS = {"gpu": record_gpu}
