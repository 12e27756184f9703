"""What the recorded trials say: their table, and the best trial of each size."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd

from ladder.model.rung import Rung, parse_variant
from ladder.model.shape import Shape
from ladder.records.digests import CURRENT, state_of
from ladder.records.provenance import ORIGIN, origin
from ladder.records.trials import FINAL, SCREEN, Record

COLUMNS = [
    *("rung", "trial", "status", "message", "registers", "spill_bytes", "shape", "m", "n", "k", "round", "samples"),
    *("time_ms", "gflops", "cublas_gflops", "speedup_over_cublas", "chosen_for", "source", *ORIGIN, "measured_at"),
]
Chosen = Mapping[str, Mapping[Shape, Mapping[str, int]]]  # macros, by rung and size


def trial_table(records: Sequence[Record], best: Chosen, digests: Mapping[str, str]) -> pd.DataFrame:
    """One row a trial and shape, of the round that took more samples; one row a trial that was never timed.

    Columns: rung (the entry), trial (its macros), status (`ok`, `wrong`, `failed`, `does not compile`), message,
    registers (a thread), spill_bytes (a thread's stores), shape, m, n, k, round, samples, time_ms (median), gflops,
    cublas_gflops (in the same process), speedup_over_cublas, chosen_for (the rungs whose class of this size it is),
    source (`current` or `changed since`), card, cublas_version, commit, measured_at. `digests` are the source digests
    of the trials as they are now.
    """
    chosen: dict[tuple[str, str], list[str]] = {}
    for rung, classes in best.items():
        entry, own = parse_variant(rung)
        for shape, macros in classes.items():
            key = frozenset({**own, **{name: str(value) for name, value in macros.items()}}.items())
            chosen.setdefault((entry, f"{shape} {sorted(key)}"), []).append(rung)
    rows = []
    for record in records:
        for name in dict.fromkeys(name for name, _ in record.trials):
            trial = _decisive(record, name)
            batch = record.batches.get(trial["batch"] or "", {})
            _, macros = parse_variant(name)
            common = {
                "rung": record.entry,
                "trial": name,
                **{key: trial[key] for key in ("status", "message", "registers", "spill_bytes", "round")},
                "source": state_of(trial["source_digest"], digests.get(name)),
                **origin([batch["where"]] if batch else []),
                "measured_at": batch.get("where", {}).get("measured_at", ""),
            }
            rows += [common] if not trial["times_s"] else []
            for text, times in trial["times_s"].items():
                shape = Shape.parse(text)
                median, beside = float(np.median(times)), float(np.median(batch["times_s"][text]))
                best_of = chosen.get((record.entry, f"{text} {sorted(macros.items())}"), [])
                rows.append(
                    {
                        **common,
                        **{"shape": text, "m": shape.m, "n": shape.n, "k": shape.k, "samples": len(times)},
                        "time_ms": 1e3 * median,
                        "gflops": shape.flop / median / 1e9,
                        "cublas_gflops": shape.flop / beside / 1e9,
                        "speedup_over_cublas": beside / median,
                        "chosen_for": " ".join(best_of),
                    }
                )
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.astype({name: "Int64" for name in ("registers", "spill_bytes", "m", "n", "k", "samples")})


def _decisive(record: Record, name: str) -> dict[str, object]:
    """A trial's entry of the round that decides: what failed, else the second round, else the first."""
    rounds = [record.trials[name, each] for each in (FINAL, SCREEN) if (name, each) in record.trials]
    return next((trial for trial in rounds if trial["status"] != "ok"), rounds[0])


def choose(
    records: Sequence[Record],
    ladder: Mapping[str, Rung],
    shapes: Mapping[str, Sequence[Shape]],
    digests: Mapping[str, str],
) -> Chosen:
    """The fastest sound trial of the second round, by rung and size; of a variant among those with its macros.

    `shapes` are those at which each entry is tuned. Only trials of the sources as they are now count. A size that has
    none is left out, and so is a rung that has none at any size or whose macros leave nothing to choose.
    """
    rungs: dict[str, dict[Shape, dict[str, int]]] = {}
    for record in records:
        for rung in (rung for rung in ladder.values() if rung.entry == record.entry):
            classes: dict[Shape, dict[str, int]] = {}
            for shape in shapes[record.entry]:
                found = [
                    (score, macros)
                    for name, macros, score in _finals(record, str(shape), digests)
                    if rung.macros.items() <= macros.items()
                ]
                if found:
                    _, macros = min(found, key=lambda pair: pair[0])
                    classes[shape] = {k: int(v) for k, v in macros.items() if k not in rung.macros}
            if classes and all(classes.values()):
                rungs[rung.name] = classes
    return {name: rungs[name] for name in ladder if name in rungs}


def with_earlier(best: Chosen, earlier: Chosen, tried: Collection[str], ladder: Mapping[str, Rung]) -> Chosen:
    """What was chosen now and, of rungs whose entry was not tried now, earlier; those of the ladder in its order."""
    kept = {name: earlier[name] for name in earlier if name in ladder and ladder[name].entry not in tried}
    return {name: {**kept, **best}[name] for name in ladder if name in kept or name in best}


def _finals(record: Record, shape: str, digests: Mapping[str, str]) -> list[tuple[str, dict[str, str], float]]:
    """Name, macros and time over cuBLAS's of the sound trials of the second round at a shape."""
    found = []
    for (name, stage), trial in record.trials.items():
        current = state_of(trial["source_digest"], digests.get(name)) == CURRENT
        if stage == FINAL and current and _decisive(record, name)["status"] == "ok" and shape in trial["times_s"]:
            beside = record.batches[trial["batch"]]["times_s"][shape]
            ratio = float(np.median(trial["times_s"][shape]) / np.median(beside))
            found.append((name, parse_variant(name)[1], ratio))
    return found


def trials_recorded_on(records: Sequence[Record]) -> str:
    """On what and when the trials were measured, as the figure's caption says it."""
    places = [batch["where"] for record in records for batch in record.batches.values()]
    days = sorted({place["measured_at"][:10] for place in places})
    names = " and ".join(sorted({place["gpu"]["name"] for place in places}))
    return f"Recorded on {names}, {' to '.join(dict.fromkeys([days[0], days[-1]]))}." if places else ""
