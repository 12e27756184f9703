"""What nvcc makes of every rung for the architecture of every GPU file: tests/data/architectures.json."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ladder.build.compile import build_digest, compile_command
from ladder.build.resources import resource_report
from ladder.build.toolchain import Nvcc, find_nvcc, supported_architectures, tool_beside
from ladder.config import gpus
from ladder.config.documents import schema
from ladder.config.kernels import read_kernels
from ladder.config.plan import KERNELS
from ladder.model.gpu import Gpu
from ladder.model.rung import Rung
from ladder.records import store
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT

RECORD = ROOT / "tests/data/architectures.json"
FLAGS = schema("config")["properties"]["compile"]["properties"]["flags"]["default"]
NO_BOUND = 1024  # threads of a block that ptxas provides for where a kernel has no __launch_bounds__

# One GPU of each architecture stands for it: what one SM holds follows from the architecture.
GPUS = {found.architecture: found for name in gpus.names() if (found := gpus.read_gpu(name))}
ARCHITECTURES = sorted(GPUS, key=lambda each: int(re.sub(r"\D", "", each)))
RUNGS = read_kernels(KERNELS)


def compiled(rung: Rung, one: Gpu, nvcc: Nvcc) -> dict[str, Any]:
    """The device code of a rung, compiled as the pipeline does.

    Keys: build_digest, and kernels: for each symbol its registers and spill_bytes (stored and loaded) a thread, and
    threads, its largest block. Raises LadderError with the compiler's message where it does not compile.
    """
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "cubin"
        command = compile_command(rung, one, nvcc, FLAGS, cubin)
        command = ["-cubin" if part == "-shared" else part for part in command]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if result.returncode:
            raise LadderError(f"{rung.name}, {one.architecture}: {result.stderr}")
        lister = [tool_beside(nvcc, "cuobjdump"), "-elf", cubin]
        listed = subprocess.run(lister, capture_output=True, text=True, check=True).stdout
    threads = {}
    for symbol, attributes in re.findall(r"^\.nv\.info\.(\S+)\n(.*?)(?=^\S)", listed, re.MULTILINE | re.DOTALL):
        bound = re.search(r"EIATTR_MAX_THREADS\n.*\n\tValue:\t(0x\w+) (0x\w+) (0x\w+)", attributes)
        x, y, z = (int(size, 16) for size in bound.groups()) if bound else (NO_BOUND, 1, 1)
        threads[symbol] = x * y * z
    kernels = {
        symbol: {
            "registers": kernel["registers"],
            "spill_bytes": kernel["spill_store_bytes"] + kernel["spill_load_bytes"],
            "threads": threads[symbol],
        }
        for symbol, kernel in resource_report(result.stdout + result.stderr).items()
    }
    return {"build_digest": build_digest(rung, one, nvcc, FLAGS), "kernels": kernels}


def recorded(rung: Rung, one: Gpu, nvcc: Nvcc) -> dict[str, Any] | None:
    """What `compiled` said of the same sources, compiler and flags, from the record; None where that is not in it."""
    builds = store.read_json(RECORD)["builds"] if RECORD.exists() else {}
    found = builds.get(rung.name, {}).get(one.architecture)
    return found if found and found["build_digest"] == build_digest(rung, one, nvcc, FLAGS) else None


def cell(rung: Rung, one: Gpu, build: Mapping[str, Any] | None) -> str:
    """What the page says of a rung on an architecture: registers of the kernel that needs most, and spills."""
    if not rung.runs_on(one.compute_capability):
        return ""
    if build is None:
        return "CUDA 12"
    kernels = build["kernels"].values()
    registers = max((kernel["registers"] for kernel in kernels), default=0)
    spilled = max((kernel["spill_bytes"] for kernel in kernels), default=0)
    return f"{registers}, spills {spilled} B" if spilled else str(registers or "ok")


def architectures() -> str:
    """The table of docs/architectures.md, from the builds of the record."""
    builds = store.read_json(RECORD)["builds"]
    lines = ["| rung | " + " | ".join(ARCHITECTURES) + " |", "| --- |" + " --- |" * len(ARCHITECTURES)]
    for name, rung in RUNGS.items():
        cells = [cell(rung, GPUS[each], builds[name].get(each)) for each in ARCHITECTURES]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def record_builds() -> None:
    """Compile what has changed: tests/data/architectures.json."""
    nvcc = find_nvcc()
    known = supported_architectures(nvcc)
    wanted = [
        (rung, GPUS[each])
        for rung in RUNGS.values()
        for each in ARCHITECTURES
        if each.rstrip("a") in known and rung.runs_on(GPUS[each].compute_capability)
    ]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        done = list(pool.map(lambda pair: recorded(*pair, nvcc) or compiled(*pair, nvcc), wanted))
    builds: dict[str, dict[str, Any]] = {name: {} for name in RUNGS}
    for (rung, one), build in zip(wanted, done, strict=True):
        builds[rung.name][one.architecture] = build
    record = {"schema_version": store.SCHEMA_VERSION, "nvcc": nvcc.version, "flags": FLAGS, "builds": builds}
    store.write_json(RECORD, record)


COMMANDS = {"compile": record_builds}
