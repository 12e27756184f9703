"""Tuning records: an entry's trials, in batches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladder.records import digests, store
from ladder.records.provenance import made_on

SCREEN, FINAL = "screen", "final"


@dataclass
class Record:
    """What is recorded of an entry's trials: the batches by their id, and the trials by name and round."""

    path: Path
    entry: str
    batches: dict[str, dict[str, Any]]
    trials: dict[tuple[str, str], dict[str, Any]]

    @classmethod
    def read(cls, path: Path, entry: str) -> Record:
        """The record at this path, empty where there is none; raises LadderError where it is damaged."""
        if not path.exists():
            return cls(path, entry, {}, {})
        content = store.read_record(path)
        try:
            batches = {batch["id"]: batch for batch in content["batches"]}
            trials = {(trial["trial"], trial["round"]): trial for trial in content["trials"]}
        except (KeyError, TypeError) as error:
            raise store.damaged(path, error) from None
        return cls(path, entry, batches, trials)

    def add(self, trials: Iterable[dict[str, Any]], batch: dict[str, Any] | None = None) -> None:
        """Add trials and the batch in which they were measured, and write the whole."""
        if batch is not None:
            while batch["id"] in self.batches:  # two batches that ended in one second
                batch["id"] += "+"
            self.batches[batch["id"]] = batch
        for trial in trials:
            self.trials[trial["trial"], trial["round"]] = trial | {"batch": batch["id"] if batch else None}
        self.write()

    def keep(self, names: Iterable[str]) -> None:
        """Drop the trials of other names, which are no longer part of the space, and batches that hold none."""
        wanted = set(names)
        self.trials = {key: trial for key, trial in self.trials.items() if key[0] in wanted}
        self.write()

    def write(self) -> None:
        """Replace the file."""
        used = {trial["batch"] for trial in self.trials.values()}
        self.batches = {name: batch for name, batch in sorted(self.batches.items()) if name in used}
        lists = {"batches": list(self.batches.values()), "trials": list(self.trials.values())}
        store.write_json(self.path, {"stage": "trials", "entry": self.entry, **lists})

    def held(self, trial: str, stage: str, digest: str, settings: str, on: tuple[str | None, ...]) -> bool:
        """Whether a trial of this build has been through a round with these settings, however that ended.

        It counts where it ran on this device and software, `on`, as `made_on` gives it.
        """
        found = self.trials.get((trial, stage))
        if found is None or found["batch"] is None:
            return False
        where = self.batches[found["batch"]]["where"]
        compiled = digests.at_present({**where["compile"], **found})
        return (compiled["build_digest"], where["config_digest"], made_on(where)) == (digest, settings, on)
