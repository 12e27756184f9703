"""How long check and time of the whole ladder take on two GPUs of a kind beside one: results/GPU/raw/pair.json."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ladder.records.provenance import now, software
from ladder.records.store import read_record, write_json
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT, shown
from recording import planned

RECORD = "pair.json"
MOST_RATIO = 0.6  # of the wall time of one GPU that two should take at most
UNTIL = ("--until", "time")  # all stages take longer than many leases last
SIZES = "sizes=[1024,4096]"


def snakemake(project: Path, results: Path, settings: Sequence[str], arguments: Sequence[str] = ()) -> None:
    """Run the workflow of a project with the folder of results that is given; LadderError where it fails."""
    command = [sys.executable, "-m", "snakemake", "--cores", "all", *arguments]
    command += ["--config", f"results={results}", *settings]
    log = results.with_suffix(".log")
    with log.open("wb") as file:
        status = subprocess.run(command, cwd=project, stdout=file, stderr=file, check=False).returncode
    if status:
        said = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("gemm-ladder: ")]
        raise LadderError(f"pair: {said[-1].partition(': ')[2] if said else f'snakemake ended with status {status}'}")


def wall_times(
    project: Path,
    compiled: Path,
    uuids: Sequence[str],
    pairs: int,
    settings: Sequence[str],
    arguments: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Measure everything on all these GPUs and on the first of them, so many times in turn.

    Each run begins with a copy of `compiled`, a folder of results that holds no record, so that it measures all and
    compiles nothing. Keys of each: devices (their UUIDs), begins_at, wall_s.
    """
    runs = []
    for number in range(2 * pairs):
        # both, one, one, both, ...: a drift is in both alike
        devices = list(uuids if number % 4 in (0, 3) else uuids[:1])
        results = compiled.with_name(f"run-{number}")
        shutil.copytree(compiled, results)
        begins_at, begun = now(), time.monotonic()
        snakemake(project, results, [*settings, f"devices=[{','.join(devices)}]"], arguments)
        runs.append({"devices": devices, "begins_at": begins_at, "wall_s": round(time.monotonic() - begun, 3)})
        shutil.rmtree(results)
    return runs


def medians(runs: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """The median wall times in seconds of the runs on several GPUs and of those on one."""
    several, one = ([run["wall_s"] for run in runs if (len(run["devices"]) > 1) == more] for more in (True, False))
    return statistics.median(several), statistics.median(one)


def ratio(runs: Sequence[Mapping[str, Any]]) -> float:
    """The median wall time of the runs on several GPUs over that of the runs on one."""
    several, one = medians(runs)
    return several / one


def record_gpu(pairs: int = 1) -> None:
    """On two GPUs of one kind, so many times each (1): results/GPU/raw/pair.json.

    Every rung is checked, and timed at SIZES.
    """
    run = planned(RECORD, gpus=2)
    uuids, settings = [device.uuid for device in run.devices[:2]], [f"gpu={run.gpu.name}", SIZES]
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder:
        compiled = Path(folder) / "compiled"
        compiled.mkdir()
        snakemake(ROOT, compiled, [*settings, "measure=false"], ("--until", "compile"))
        runs = wall_times(ROOT, compiled, uuids, pairs, settings, UNTIL)
    where = {"measured_at": runs[0]["begins_at"], "gpu": vars(run.device), "software": software(ROOT)}
    found = round(ratio(runs), 4)
    asked = {"arguments": list(UNTIL), "settings": settings}
    write_json(run.raw() / RECORD, {"stage": "pair", "where": where, **asked, "runs": runs, "ratio": found})
    print(f"{shown(run.raw() / RECORD)}: {found:.3f} of the time of one GPU (at most {MOST_RATIO} is wanted)")


def pair(results: Path = ROOT / "results") -> str:
    """What docs/measuring.md says of the records that ship, as a Markdown table: a line for each kind of GPU."""
    records = [read_record(path) for path in sorted(results.glob(f"*/raw/{RECORD}"))]
    if not records:
        return "This is not recorded yet: `python tools pair gpu` records it on two GPUs."
    lines = ["| GPU | day | on two | on one | ratio |", "| --- | --- | --- | --- | --- |"]
    for record in records:
        several, one = medians(record["runs"])
        where = record["where"]
        times = f"{several:.0f} s | {one:.0f} s | {record['ratio']:.2f}"
        lines.append(f"| {where['gpu']['name']} | {where['measured_at'][:10]} | {times} |")
    return "\n".join(lines)


COMMANDS = {"gpu": record_gpu}
