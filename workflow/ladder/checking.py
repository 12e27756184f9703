"""The check stage: a verdict for every case, recorded whatever the rung does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ladder import records
from ladder.build import Build
from ladder.config import Shape
from ladder.errors import LadderError
from ladder.worker import OUT_OF_MEMORY, Event, Outcome, run_worker

PLAIN = {"alpha": 1, "beta": 0, "padding": 0, "offset": 0, "family": "uniform"}
EMULATED_FLOP = 1 << 26  # of the largest product that is emulated,
EMULATED_WHOLE = 1 << 25  # of the largest that is emulated whole, and
EMULATED_SIDE = 1 << 16  # its largest dimension: what is beyond takes long on a CPU, so that only
EMULATED_BLOCKS = 64  # blocks of it are emulated, each launch's last one among them
EMULATED_SMALL = 1 << 16  # flop up to which a shape is emulated with every case, and not with one of them, and
EMULATED_SHORT = 1 << 10  # the k: a kernel's tile is no smaller where the product is
EMULATED_FAMILIES = 1 << 22  # flop up to which it is emulated with every family of inputs, and
EMULATED_TWICE = 1 << 20  # twice, in two orders
EMULATED_LONG = 1 << 9  # k beyond which there is one SM, for which a product of any size has tiles enough
# Beyond the cases of a GPU: one matrix of three unaligned; and rows so far apart, reserved and not filled, that an
# offset into a matrix needs more than 31 bits, and into two of them more than 32.
EMULATED_ALONE: tuple[dict[str, Any], ...] = (
    *(
        {"shape": "65x68x20", **PLAIN, "alpha": -1, "beta": -1, "padding": 4, "offset": offset}
        for offset in ([1, 0, 0], [0, 1, 0], [0, 0, 1])
    ),
    {"shape": "129x132x36", **PLAIN, "beta": 1, "padding": 1 << 26},
    {"shape": "129x5x35", **PLAIN, "padding": 1 << 26},
)


def all_cases(
    shapes: list[Shape],
    cases: list[Mapping[str, Any]],
    timed: list[Shape],
    families: list[str] | None = None,
    family_shapes: list[Shape] | None = None,
) -> list[dict[str, Any]]:
    """Every shape with every combination of scalars and layout on uniform inputs, the family's shapes with those that
    multiply on every other family, then the shapes to be timed as they are timed.
    """
    crossed = [{"shape": str(shape), **PLAIN, **case} for shape in dict.fromkeys(shapes) for case in cases]
    crossed += [
        {"shape": str(shape), **PLAIN, **case, "family": family}
        for family in families or ()
        for shape in family_shapes or ()
        for case in cases
        if case.get("alpha", 1) != 0
    ]
    return crossed + [case for case in ({"shape": str(shape), **PLAIN} for shape in timed) if case not in crossed]


def emulated_cases(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the cases that the emulator has the time for.

    All of small shapes; of every larger one and family a single one, another each time; of a very large or long one
    some blocks (`blocks`) at beta = 0, where it shows which elements they have computed. Of a long sum a GPU with a
    single SM (`sms`). Then EMULATED_ALONE.
    """
    chosen: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for case in cases:
        chosen.setdefault((case["shape"], case["family"]), []).append(case)
    kept = []
    for turn, ((text, family), of_shape) in enumerate(chosen.items()):
        shape = Shape.parse(text)
        if shape.flop > (EMULATED_FLOP if family == PLAIN["family"] else EMULATED_FAMILIES):
            continue
        if shape.k > EMULATED_LONG:
            of_shape = [case | {"sms": 1} for case in of_shape]
        computing = [case for case in of_shape if case["alpha"] != 0] or of_shape
        if shape.flop > EMULATED_WHOLE or max(shape.m, shape.n, shape.k) > EMULATED_SIDE:
            kept += [case | {"blocks": EMULATED_BLOCKS} for case in computing if case["beta"] == 0][:1]
            continue
        small = shape.flop <= EMULATED_SMALL and shape.k <= EMULATED_SHORT
        kept += of_shape if small else [computing[turn % len(computing)]]
    return kept + [dict(case) for case in EMULATED_ALONE]


def emulated_runs(case: Mapping[str, Any]) -> int:
    """How often the emulator computes a case, with another order of blocks and threads each time."""
    return 2 if Shape.parse(case["shape"]).flop <= EMULATED_TWICE else 1


def check_rung(
    made: Build,
    cases: list[dict[str, Any]],
    device: int,
    time_limit_s: float,
    environment: Callable[[dict[str, Any]], dict[str, Any]],
    log: Path,
    progress: Callable[[int, dict[str, Any]], None],
    runs: int = 1,
    declared: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Check a rung and return its record.

    Keys: status (`pass`, `failed`, or why it could not be checked: the compile record's status), message, where (with
    wall_s, the seconds that it took), runs (how often each case was computed) and whether all gave the same bits
    (identical), cases (those that ran, with errors and verdict), and `declared`: what the rung says of itself,
    `deterministic`, `subnormals` and `precision` of kernels.yaml. Raises LadderError where the GPU has too little free
    memory, which says nothing about the rung.
    """
    compiled = made.record
    if compiled["status"] != "ok":
        return {"status": compiled["status"], "message": compiled["message"], "cases": []}
    done: list[dict[str, Any]] = []
    current: dict[str, Any] = {}

    def on_event(event: Event) -> None:
        if "starts" in event:
            current.update(event["starts"])
            progress(len(done), event["starts"])
        else:
            done.append(event["case"])

    where = environment(compiled)
    begun = time.monotonic()
    request = {
        **{"library": str(made.library), "device": device, "cases": cases},
        **{"runs": [runs] * len(cases), "declared": dict(declared or {})},
    }
    outcome = run_worker("ladder.check_worker", request, on_event, time_limit_s, log)
    where["wall_s"] = round(time.monotonic() - begun, 3)
    if OUT_OF_MEMORY in outcome.message and all(case["verdict"] == "pass" for case in done):
        raise LadderError(f"check: {made.folder.name}: {verdict([], current, outcome)[1]}")
    status, message = verdict(done, current, outcome)
    identical = all(case.pop("identical", True) for case in done)
    return {
        **{"status": status, "message": message, "where": where},
        **{"declared": dict(declared or {}), "runs": runs},
        **{"identical": identical and status == "pass", "cases": done},
    }


def verdict(done: list[dict[str, Any]], current: Mapping[str, Any], outcome: Outcome) -> tuple[str, str]:
    """`pass` or `failed`, and what failed in one line, of the cases that ran, the one begun last and how it ended."""
    wrong = [case for case in done if case["verdict"] != "pass"]
    if wrong:
        more = f" (and {len(wrong) - 1} more of {len(done)} cases)" if len(wrong) > 1 else ""
        return "failed", f"{describe(wrong[0])}: {wrong[0]['verdict']}{more}"
    if outcome.status != "ok":
        return "failed", f"{describe(current)}: {outcome.message}" if current else outcome.message
    return "pass", ""


def describe(case: Mapping[str, Any]) -> str:
    """A case in the words of a message: its shape, and what differs from alpha 1, beta 0 and a tight layout."""
    extras = [
        f"{key.replace('family', 'inputs')} {format(case[key], 'g') if isinstance(case[key], float) else case[key]}"
        for key, value in PLAIN.items()
        if case.get(key, value) != value
    ]
    return ", ".join([case["shape"], *extras])


def still_to_check(
    path: Path, cases: list[dict[str, Any]], where: Mapping[str, Any], runs: int, declared: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The cases that the record at a path does not hold as passed.

    What it holds counts where the rung passed as this very build, computed as often, held to the same declaration, on
    the same GPU and with the same driver, packages and commit; otherwise all cases are to be checked.
    """
    if not path.exists():
        return cases
    earlier = records.read_json(path)
    if (earlier["status"], earlier.get("runs"), earlier.get("declared")) != ("pass", runs, dict(declared)):
        return cases
    if any(earlier["where"][key] != where[key] for key in ("compile", "gpu", "software")):
        return cases
    held = {_identity(case) for case in earlier["cases"]}
    return [case for case in cases if _identity(case) not in held]


def merge_check(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Add to a passed record the cases that an earlier one of the same build holds and this run did not ask for.

    Where none was computed twice, wall_s is that of both runs. `identical` is true where it is in both.
    """
    if record["status"] != "pass" or not path.exists():
        return record
    earlier = records.read_json(path)
    if earlier["status"] != "pass" or earlier["where"]["compile"] != record["where"]["compile"]:
        return record
    if earlier.get("declared", record.get("declared")) != record.get("declared"):
        return record  # what is held was judged as something else
    now = {_identity(case) for case in record["cases"]}
    kept = [case for case in earlier["cases"] if _identity(case) not in now]
    merged = record | {"cases": record["cases"] + kept}
    if kept and len(kept) == len(earlier["cases"]) and "wall_s" in record["where"]:
        wall_s = round(record["where"]["wall_s"] + earlier["where"].get("wall_s", 0), 3)
        merged |= {"where": record["where"] | {"wall_s": wall_s}}
    if kept and "identical" in record:
        merged |= {"identical": record["identical"] and earlier.get("identical", True)}
    return merged


def _identity(case: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a case is told from others by; a record from before there were families has none."""
    return (case["shape"], *(case.get(key, value) for key, value in PLAIN.items()))
