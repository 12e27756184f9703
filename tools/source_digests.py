"""Carries the digests of recorded sources over to today's rule: writes workflow/data/source_digests.json.

usage: python tools/source_digests.py

Records from before comments stopped counting carry digests over the bytes of their sources. For each of them this takes
the sources of the commit that the record names out of git's history and computes the recorded digest again by the rule
over bytes. Only where both are equal it writes down what today's rule makes of the very same sources. Where they
differ, because the checkout had uncommitted changes, it looks through all commits that changed kernels or their tuning:
equal digests prove equal sources there too. What no commit has is listed under `unknown`, and stays 'changed since'.
"""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "workflow"))

import yaml
from ladder.config.cpp import canonical
from ladder.config.sources import source_digest
from ladder.config.tuned_file import read_tuned, size_classes
from ladder.model.rung import Rung, parse_variant, variant_name
from ladder.records import store
from ladder.records.digests import CARRIED_OVER, digest_of_build
from ladder.system.paths import ROOT

DECIDING = ["kernels", "config/kernels.yaml", "config/tuned"]  # what a digest of sources depends on


@dataclass
class Recorded:
    """A digest that records carry: of which rung on which GPU, by the first record's commit, and in which files."""

    gpu: str
    rung: str
    commit: str
    files: set[str] = field(default_factory=set)
    builds: set[tuple[str, str, str, tuple[str, ...]]] = field(default_factory=set)  # digest, nvcc, architecture, flags


def recorded_digests(results: Path) -> dict[str, Recorded]:
    """All digests of sources in the raw records of every GPU."""
    found: dict[str, Recorded] = {}
    for path in sorted(results.glob("*/raw/**/*")):
        file = str(path.relative_to(results))
        for content in _contents(path):
            batches = {batch["id"]: batch["where"] for batch in content.get("batches", ())}
            for name, where, compiled in _compiled(content, path.name.split(".")[0], {}):
                where = where or batches.get(compiled.get("batch")) or {}
                commit = where.get("software", {}).get("git_commit", "")
                one = found.setdefault(compiled["source_digest"], Recorded(file.split("/")[0], name, commit))
                one.files.add(file)
                made = {**where.get("compile", {}), **compiled}
                if "flags" in made:
                    flags = tuple(made["flags"][:-1])  # the last names the architecture
                    one.builds.add((made["build_digest"], made["nvcc"], made["architecture"], flags))
    return found


def _contents(path: Path) -> Iterator[Mapping[str, Any]]:
    if path.suffix == ".json":
        yield json.loads(path.read_bytes())
    elif path.suffix == ".gz":
        yield json.loads(gzip.decompress(path.read_bytes()))
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if not any(name.endswith("sources/variants.json") for name in names):  # else it has the sources themselves
                yield from (json.loads(archive.read(name)) for name in names if name.endswith("record.json"))


def _compiled(content: Any, name: str, where: Mapping[str, Any]) -> Iterator[tuple[str, Mapping, Mapping]]:
    """The rung, the place and the digests of everything compiled that a record tells of."""
    if isinstance(content, Mapping):
        name = content.get("trial") or content.get("rung") or name
        where = content.get("where") or where
        if {"source_digest", "build_digest"} <= content.keys():
            yield name, where, content
    for part in content.values() if isinstance(content, Mapping) else content if isinstance(content, list) else ():
        yield from _compiled(part, name, where)


class History:
    """The sources and the tuning as they were at commits of a repository, and what digests they have."""

    def __init__(self, repository: Path, folder: Path, recorded: Mapping[str, Recorded]):
        self.repository, self.folder = repository, folder
        self.names = sorted({(one.gpu, one.rung) for one in recorded.values()})

    @cached_property
    def commits(self) -> list[str]:
        """Those that changed what a digest depends on, the newest first."""
        return self._git("log", "--format=%H", "--", *DECIDING).decode().split()

    def find(self, digest: str, commits: Iterable[str]) -> tuple[str, Rung] | None:
        """The first of the commits whose sources have a digest, by the rule over bytes or by today's; and of what."""
        for commit in commits:
            rungs = self._rungs(commit)
            if digest in rungs:
                return commit, rungs[digest]
        return None

    def present(self, commit: str, rung: Rung) -> str:
        """What today's rule makes of a rung's sources at a commit."""
        return source_digest(rung, self._tree(commit) / "kernels")

    @cache  # noqa: B019  (one History lives as long as the process)
    def _rungs(self, commit: str) -> dict[str, Rung]:
        kernels, found = self._tree(commit) / "kernels", {}
        for rung in _rungs_at(kernels.parent, self.names):
            if (kernels / rung.source).is_file():
                found |= {source_digest(rung, kernels, seen): rung for seen in (canonical, str)}
        return found

    def _tree(self, commit: str) -> Path:
        """A folder with `kernels` and `config` as they were; empty for a commit that is not here."""
        tree = self.folder / commit
        if not tree.exists():
            tree.mkdir()
            if archive := self._git("archive", commit, "--", "kernels", "config"):
                with tarfile.open(fileobj=io.BytesIO(archive)) as files:
                    files.extractall(tree, filter="data")
        return tree

    def _git(self, *arguments: str) -> bytes:
        return subprocess.run(["git", "-C", str(self.repository), *arguments], capture_output=True, check=False).stdout


def _rungs_at(tree: Path, names: Iterable[tuple[str, str]]) -> Iterator[Rung]:
    """What there was to be measured at a commit: every rung of its ladder and each of these, tuned and not."""
    if not (tree / "config/kernels.yaml").is_file():
        return
    entries = yaml.safe_load((tree / "config/kernels.yaml").read_text())
    ladder = [variant_name(e, macros) for e, values in entries.items() for macros in values.get("variants") or [{}]]
    tuned = {path.stem: read_tuned(path) for path in sorted((tree / "config/tuned").glob("*.yaml"))}
    for gpu, name in sorted({*names, *((gpu, name) for gpu in [*tuned, ""] for name in ladder)}):
        entry, macros = parse_variant(name)
        if entry in entries:
            rung = Rung(name, entry, "", entries[entry]["source"], macros, "fp32", "rung", None, "5.0")
            yield rung
            if gpu in tuned and name in tuned[gpu].rungs:
                yield replace(rung, tuned=size_classes(tuned[gpu].sizes, tuned[gpu].rungs[name]))


def carried_over(recorded: Mapping[str, Recorded], history: History) -> dict[str, list[dict[str, Any]]]:
    """What is written: `digests`, each with the commit and the rung whose sources have it, and `unknown`."""
    rows: dict[str, list[dict[str, Any]]] = {"digests": [], "unknown": []}
    for digest, one in sorted(recorded.items(), key=lambda item: (item[1].rung, item[0])):
        own = one.commit.removesuffix("-dirty")
        found = history.find(digest, [own, *history.commits] if own else history.commits)
        sound = all(build == digest_of_build(digest, *made) for build, *made in one.builds)
        if not found or not sound:
            reason = "its build digest follows no known rule" if found else "no commit has its sources"
            row = {"recorded": digest, "rung": one.rung, "commit": one.commit, "reason": reason}
            rows["unknown"].append({**row, "records": sorted(one.files)})
        elif (present := history.present(*found)) != digest:
            rows["digests"].append({"recorded": digest, "present": present, "rung": found[1].name, "commit": found[0]})
    return rows


def main() -> None:
    """Write the file; say how many digests were found and which were not."""
    recorded = recorded_digests(ROOT / "results")
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder:
        rows = carried_over(recorded, History(ROOT, Path(folder), recorded))
    store.write_json(CARRIED_OVER, rows)
    print(f"{len(recorded)} digests in records: {len(rows['digests'])} carried over, {len(rows['unknown'])} unknown")
    for row in rows["unknown"]:
        print(f"  {row['recorded']}  {row['rung']}: {row['reason']}; {', '.join(row['records'])}")


if __name__ == "__main__":
    main()
