"""Where the records of another run are: a folder on disk, or a git revision."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

from ladder.records import store
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT


def find_baseline(baseline: str, gpu: str, folder: Path) -> Path:
    """The folder of time records that `baseline` names: one on disk, or a git revision's, unpacked into `folder`.

    A folder may be a checkout, a results/GPU folder, its raw/ or the records' own. Raises LadderError where nothing
    is recorded there.
    """
    place = Path(baseline)
    if place.is_dir():
        for inside in (f"results/{gpu}/raw/time", "raw/time", "time", "."):
            if any((place / inside).glob("*.zip")):
                return place / inside
        raise LadderError(f"baseline: {baseline}: holds no time records of {gpu}; name a folder such as results/{gpu}")
    records_there = f"results/{gpu}/raw/time"
    archive = _git("archive", "--format=tar", baseline, records_there)
    if archive.returncode != 0:
        reason = archive.stderr.decode(errors="replace").strip().splitlines()
        raise LadderError(
            f"baseline: {baseline!r} is no folder, and no git revision with {records_there}"
            f" ({reason[-1] if reason else 'git says nothing'}); name a results folder or a commit"
        )
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder / records_there


def unpacked(revision: str, folder: Path) -> Path:
    """The checkout that is named: a folder on disk, or a git revision, unpacked into `folder`, which is made.

    Raises LadderError for what is neither.
    """
    if (Path(revision) / "workflow").is_dir():
        return Path(revision).resolve()
    archive = _git("archive", "--format=tar", revision, "--", "config", "kernels", "workflow")
    if archive.returncode != 0:
        reason = archive.stderr.decode(errors="replace").strip().splitlines()
        told = reason[-1] if reason else "git says nothing"
        raise LadderError(f"against: {revision!r} is no checkout and no git revision ({told}); name one of them")
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


def identity(baseline: str, gpu: str) -> str:
    """What a baseline is at present: a revision's commit, or a digest of the folder's records; empty where unknown.

    Snakemake compares anew when it changes.
    """
    if not baseline:
        return ""
    if Path(baseline).is_dir():
        with contextlib.suppress(LadderError):
            return store.digest_files(sorted(find_baseline(baseline, gpu, Path()).glob("*.zip")))
        return ""
    return _git("rev-parse", "--verify", "--quiet", f"{baseline}^{{commit}}").stdout.decode().strip()


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """What git says in this checkout; a failure where there is no git."""
    command = ["git", "-C", str(ROOT), *arguments]
    try:
        return subprocess.run(command, capture_output=True, check=False)
    except OSError:
        return subprocess.CompletedProcess(command, 127, b"", b"git is not installed")
