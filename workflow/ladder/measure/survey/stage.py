"""The survey stage: a rung beside its references on products and data that nobody chose."""

from __future__ import annotations

import math
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ladder.build.compile import Build
from ladder.measure.account import Account
from ladder.measure.survey.data import drawn_amount
from ladder.measure.time.plausible import above_ceiling
from ladder.measure.time.stage import collect
from ladder.measure.worker import WORKER
from ladder.model.bounds import UNIT_ROUNDOFF, componentwise_bound
from ladder.model.cases import Case
from ladder.model.claims import Claims, claimed
from ladder.model.shape import Shape
from ladder.model.survey import draw_products
from ladder.records.survey import SURVEY_SAMPLING, SURVEY_SETTINGS
from ladder.records.timings import samples_s, unfinished
from ladder.system.errors import LadderError
from ladder.system.process import Event, run_worker


def drawn(settings: Mapping[str, Any], claims: Claims, seed: int) -> tuple[list[Case], list[dict[str, Any]]]:
    """The products of a survey by its seed, and its data (family, shape, a seed of its own); those that are claimed.

    Raises LadderError where the settings leave too few products.
    """
    limits = settings["least_flop"], settings["most_flop"]
    try:
        products = draw_products(settings["products"], settings["largest"], limits, seed)
    except ValueError as error:
        raise LadderError(f"survey: {error}; set fewer products, or other limits") from None
    data = [
        {"family": family, "shape": str(shape), "seed": zlib.crc32(f"{seed} {family} {shape}".encode())}
        for shape in map(Shape.parse, settings["sizes"])
        for family in settings["families"]
        if claimed(claims, Case(shape))
    ]
    return [case for case in products if claimed(claims, case)], data


def survey_rung(
    rung: str,
    builds: Mapping[str, Build],
    expected: Mapping[str, Any],
    settings: Mapping[str, Any],
    seed: int,
    device: int,
    where: Mapping[str, Any],
    log: Path,
    progress: Callable[[str, str], None],
) -> dict[str, Any]:
    """Time a rung and its references on what `drawn` draws, in one process, and return its record.

    `builds` has the rung first; `expected` is what `Plan.expected` says of it. Keys: status (`ok`; `dishonest`, where a
    launch did not compute its product; or `failed`) with its message, where, builds, seed, settings, products (a case
    each, with times_us and errors by kernel) and data (family, shape, seed, amount, and by kernel times_us and the
    errors); both empty unless the status is ok. Errors are error_normwise and error_componentwise of
    `ladder.measure.accuracy.worker.measure`, those of products on normal numbers. Raises LadderError where the machine
    broke it off.
    """
    products, data = drawn(settings, expected["declared"][rung]["claims"], seed)
    errors: dict[tuple[str, str], dict[str, float]] = {}

    def keep(event: Event) -> None:
        if "errors" in event:
            found = dict(event["errors"])
            errors[found.pop("kernel"), found.pop("name")] = found

    account = Account(progress, keep)
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder:
        request = {
            "stage": "survey",
            "rung": rung,
            "declared": dict(expected["declared"]),
            "libraries": {name: str(made.library) for name, made in builds.items()},
            "products": [case.as_record() for case in products],
            "product_seeds": [zlib.crc32(f"{seed} {case}".encode()) for case in products],
            "data": data,
            "device": device,
            "folder": folder,
            "reference_budget_s": settings["budget_s"],
            **{key: settings[key] for key in SURVEY_SAMPLING},
        }
        begun = time.monotonic()
        outcome = run_worker(WORKER, request, account.hear, settings["time_limit_s"], log)
        wall_s = round(time.monotonic() - begun, 3)
        files = collect(Path(folder))
    outcome = outcome.of_the_work(f"survey: {rung}")
    status, message = outcome.status, account.placed(outcome.message)
    times: dict[tuple[str, str], list[float]] = {}
    if status == "ok" and not account.dishonest:
        message = unfinished(files)
        status = "failed" if message else "ok"
        times = {} if message else {key: _us(each) for key, each in samples_s(files).items()}
    if status == "ok" and not account.dishonest:
        precision = expected["declared"][rung]["precision"]
        account.dishonest = (
            _wrong(rung, errors, data, len(products))
            or _inaccurate(rung, errors, products, precision)
            or _impossible(rung, products, times, expected["ceiling"])
        )
    status, message = account.verdict(rung, status, message)
    return {
        "status": status,
        "message": message,
        "builds": {name: made.record["build_digest"] for name, made in builds.items()},
        "seed": seed,
        "settings": {key: settings[key] for key in SURVEY_SETTINGS},
        "where": {**where, "wall_s": wall_s},
        **(_results(products, data, list(builds), times, errors) if status == "ok" else {"products": [], "data": []}),
    }


def _results(
    products: Sequence[Case],
    data: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    times_us: Mapping[tuple[str, str], Sequence[float]],
    errors: Mapping[tuple[str, str], Mapping[str, float]],
) -> dict[str, Any]:
    """`products` and `data` of the record of `survey_rung`; times and errors are by kernel and number."""
    return {
        "products": [
            {
                **_layout(case),
                "times_us": {name: times_us[name, str(number)] for name in names},
                "errors": {name: errors[name, str(number)] for name in names},
            }
            for number, case in enumerate(products)
        ],
        "data": [
            {
                **{**each, "amount": round(drawn_amount(each["seed"]), 4)},
                "kernels": {name: {"times_us": times_us[name, at], **errors[name, at]} for name in names},
            }
            for at, each in ((str(len(products) + number), each) for number, each in enumerate(data))
        ],
    }


def _layout(case: Case) -> dict[str, Any]:
    return {"shape": str(case.shape), "padding": list(case.paddings)}


def _us(samples: Sequence[float]) -> list[float]:
    return [float(f"{1e6 * each:.5g}") for each in samples]


def _wrong(
    rung: str, errors: Mapping[tuple[str, str], Mapping[str, float]], data: Sequence[Mapping[str, Any]], first: int
) -> dict[str, str]:
    """On which data a rung's last launch left something that is no number; empty where on none."""
    for number, each in enumerate(data):
        if not math.isfinite(errors[rung, str(first + number)]["error_normwise"]):
            return {"kernel": rung, "finding": f"on {each['family']} at {each['shape']} C was NaN or infinite"}
    return {}


def _inaccurate(
    rung: str, errors: Mapping[tuple[str, str], Mapping[str, float]], products: Sequence[Case], precision: str
) -> dict[str, str]:
    """On which product C is no number, or errs more than the bound of the rung's class; empty where on none."""
    for number, case in enumerate(products):
        found = errors[rung, str(number)]
        if not math.isfinite(found["error_normwise"]):
            return {"kernel": rung, "finding": f"at {case} C was NaN or infinite"}
        share = found["error_componentwise"] * UNIT_ROUNDOFF / componentwise_bound(case.shape.k, precision)
        if share > 1:
            return {"kernel": rung, "finding": f"at {case} an error is {share:.3g} times the bound of {precision}"}
    return {}


def _impossible(
    rung: str, products: Sequence[Case], times_us: Mapping[tuple[str, str], Sequence[float]], ceiling: Sequence[float]
) -> dict[str, str]:
    """On which product a rung was faster than its class can be; empty where on none."""
    for number, case in enumerate(products):
        seconds = min(times_us[rung, str(number)]) / 1e6
        if found := above_ceiling(case.shape, seconds, ceiling[1], ceiling):
            return {"kernel": rung, "finding": f"at {case}: {found}"}
    return {}
