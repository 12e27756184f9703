"""Drawn products and data as users have them: times beside the faster of the libraries, by class and by family."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ladder.model.bounds import UNIT_ROUNDOFF, componentwise_bound
from ladder.model.cases import Case
from ladder.model.gpu import Gpu, ceiling_gflops
from ladder.model.precision import BOUNDS
from ladder.model.shape import Shape
from ladder.model.survey import PRODUCT_CLASSES, least_bytes
from ladder.records.digests import state_of
from ladder.records.provenance import ORIGIN, origin
from ladder.records.survey import Survey
from ladder.tables.hardware import as_measured

SLOWER_BELOW = 0.98  # of the library's speed, below which a product counts as slower: times repeat to about 1 %
SURVEY_COLUMNS = [
    *("rung", "precision", "m", "n", "k", "gap_a", "gap_b", "gap_c", "flop", "time_us", "gflops", "least_gb_s"),
    *("bound_by", "share_of_bandwidth", "reference", "time_of_reference_us", "share_of_cublas"),
    *("error_normwise", "error_of_cublas", "times_error_of_cublas", "error_componentwise", "share_of_bound"),
    *("seed", "source", *ORIGIN, "measured_at"),
]
CLASS_COLUMNS = [
    *("rung", "precision", "class", "products", "geometric_mean", "percentile_5", "median", "lowest", "lowest_at"),
    *("slower_percent", "below_1_percent", "memory_bound", "share_of_bandwidth"),
    *("largest_times_error_of_cublas", "largest_share_of_bound", "seed", "source"),
]
LAUNCH, MEMORY, ARITHMETIC = "launch", "memory", "arithmetic"


@dataclass(frozen=True)
class Least:
    """What a product takes at least: the GPU, as measured where its probes are recorded, and an empty kernel's time."""

    gpu: Gpu
    launch_s: float

    @classmethod
    def of(cls, gpu: Gpu, hardware: pd.DataFrame | None, timings: pd.DataFrame) -> Least:
        """From the tables hardware, if there is one, and timings; no launch where the empty kernel was not timed."""
        empty = timings.loc[timings["rung"] == "empty", "time_ms_median"]
        return cls(
            gpu if hardware is None else as_measured(gpu, hardware), float(empty.min()) / 1e3 if len(empty) else 0.0
        )

    def bound_by(self, shape: Shape, precision: str) -> str:
        """Which takes longest: a LAUNCH, MEMORY (reading A and B and writing C once), or ARITHMETIC.

        At the DRAM bandwidth and the ceiling of the class; where that is not known, at the FP32 peak.
        """
        ceiling = ceiling_gflops(precision, self.gpu)
        ceiling = ceiling if math.isfinite(ceiling) else self.gpu.peak_gflops
        memory = least_bytes(shape) / 1e9 / self.gpu.memory_bandwidth_gb_s
        seconds = {LAUNCH: self.launch_s, MEMORY: memory, ARITHMETIC: shape.flop / 1e9 / ceiling}
        return max(seconds, key=seconds.__getitem__)

    def share_of_bandwidth(self, shape: Shape, seconds: float, precision: str) -> float:
        """The least bytes over the time, over the DRAM bandwidth; not a number of a product not bound by memory."""
        if self.bound_by(shape, precision) != MEMORY:
            return np.nan
        return least_bytes(shape) / 1e9 / seconds / self.gpu.memory_bandwidth_gb_s


DATA_COLUMNS = [
    *("rung", "precision", "family", "amount", "m", "n", "k", "time_us", "reference", "time_of_reference_us"),
    *("share_of_cublas", "error_normwise", "error_of_cublas", "times_error_of_cublas", "error_componentwise"),
    *("seed", "source", *ORIGIN, "measured_at"),
]


def survey_table(
    surveys: Mapping[str, Survey],
    precisions: Mapping[str, str],
    baselines: Mapping[str, Sequence[str]],
    digests: Mapping[str, str],
    least: Least,
) -> pd.DataFrame:
    """One row a rung and drawn product; all mappings are by the rung's name.

    `baselines` names its libraries, `digests` are those of its sources as they are now, `least` says what a product
    takes at least.

    Columns: rung, precision, m, n, k, gap_a, gap_b, gap_c (elements between rows), flop, time_us (median), gflops,
    least_gb_s (the bytes that the product moves at least, over the time), bound_by (`Least.bound_by`),
    share_of_bandwidth (least_gb_s over the DRAM bandwidth, of products bound by memory), reference (the library that
    was the faster), time_of_reference_us, share_of_cublas (its time over the rung's), error_normwise, error_of_cublas,
    times_error_of_cublas and error_componentwise as in `data_table`, on normal numbers, share_of_bound (the largest
    error of an element over the bound of the rung's class), seed, source (`current` or `changed since`), card,
    cublas_version, commit, measured_at.
    """
    rows = [
        {
            **{"rung": name, "precision": precisions[name], "m": shape.m, "n": shape.n, "k": shape.k},
            **dict(zip(("gap_a", "gap_b", "gap_c"), case.paddings, strict=True)),
            **{"flop": shape.flop, "time_us": 1e6 * times[name], "gflops": shape.flop / 1e9 / times[name]},
            "least_gb_s": least_bytes(shape) / 1e9 / times[name],
            "bound_by": least.bound_by(shape, precisions[name]),
            "share_of_bandwidth": least.share_of_bandwidth(shape, times[name], precisions[name]),
            **_beside(times, name, baselines[name]),
            **_errors(errors, name, _beside(times, name, baselines[name])["reference"], shape.k, precisions[name]),
            **_origin(survey, digests.get(name)),
        }
        for name, survey in surveys.items()
        for (case, times), errors in _with_errors(survey)
        for shape in [case.shape]
    ]
    return pd.DataFrame(rows, columns=SURVEY_COLUMNS)


def class_table(
    surveys: Mapping[str, Survey],
    precisions: Mapping[str, str],
    baselines: Mapping[str, Sequence[str]],
    digests: Mapping[str, str],
    least: Least,
) -> pd.DataFrame:
    """One row a rung and class of products (`ladder.model.survey.PRODUCT_CLASSES`) that has any.

    A rung that was surveyed without its libraries has none.

    Columns: rung, precision, class, products (how many), geometric_mean, percentile_5, median and lowest of the share
    of cuBLAS, lowest_at (that product), slower_percent (of the products, at a share below SLOWER_BELOW),
    below_1_percent (of the products, at a share below 1), memory_bound (how many are bound by memory),
    share_of_bandwidth (of the DRAM bandwidth, their median), largest_times_error_of_cublas and largest_share_of_bound
    (of the products, as in `survey_table`), seed, source (`current` or `changed since`).
    """
    rows: list[dict[str, Any]] = []
    for name, survey in surveys.items():
        beside = (_beside(times, name, baselines[name])["share_of_cublas"] for _, times in survey.products)
        shares = np.array(list(beside), float)
        if np.isnan(shares).any():
            continue
        bandwidths = np.array(
            [least.share_of_bandwidth(case.shape, times[name], precisions[name]) for case, times in survey.products]
        )
        errors = pd.DataFrame(
            _errors(found, name, _beside(times, name, baselines[name])["reference"], case.shape.k, precisions[name])
            for (case, times), found in _with_errors(survey)
        )
        for title, belongs in PRODUCT_CLASSES.items():
            chosen = np.array([belongs(case) for case, _ in survey.products], bool)
            if not chosen.any():
                continue
            of_class, reached = shares[chosen], bandwidths[chosen & ~np.isnan(bandwidths)]
            lowest = int(np.flatnonzero(chosen)[of_class.argmin()])
            rows.append(
                {
                    **{"rung": name, "precision": precisions[name], "class": title, "products": len(of_class)},
                    "geometric_mean": float(np.exp(np.log(of_class).mean())),
                    "percentile_5": float(np.percentile(of_class, 5)),
                    "median": float(np.median(of_class)),
                    "lowest": float(of_class.min()),
                    "lowest_at": str(survey.products[lowest][0]),
                    "slower_percent": 100 * float((of_class < SLOWER_BELOW).mean()),
                    "below_1_percent": 100 * float((of_class < 1).mean()),
                    "memory_bound": len(reached),
                    "share_of_bandwidth": float(np.median(reached)) if len(reached) else np.nan,
                    "largest_times_error_of_cublas": errors.loc[chosen, "times_error_of_cublas"].max(),
                    "largest_share_of_bound": errors.loc[chosen, "share_of_bound"].max(),
                    "seed": survey.seed,
                    "source": state_of(survey.where["compile"]["source_digest"], digests.get(name)),
                }
            )
    return pd.DataFrame(rows, columns=CLASS_COLUMNS)


def data_table(
    surveys: Mapping[str, Survey],
    precisions: Mapping[str, str],
    baselines: Mapping[str, Sequence[str]],
    digests: Mapping[str, str],
) -> pd.DataFrame:
    """One row a rung, family of data and shape.

    Columns: rung, precision, family, amount (what the seed drew of it, 0 to 1), m, n, k, time_us (median), reference
    (the library that was the faster), time_of_reference_us, share_of_cublas, error_normwise (||C - AB|| / ||AB||),
    error_of_cublas (the same of the reference), times_error_of_cublas (their ratio), error_componentwise (the largest
    |C - AB| / (|A| |B|), in units of 2^-24), seed (of the survey),
    source (`current` or `changed since`), card, cublas_version, commit, measured_at.
    """
    rows = []
    for name, survey in surveys.items():
        for each, kernels in survey.data:
            m, n, k = (int(side) for side in (each["shape"].split("x") * 3)[:3])
            beside = _beside({kernel: found.seconds for kernel, found in kernels.items()}, name, baselines[name])
            own, reference = kernels[name], kernels.get(beside["reference"])
            error_of_cublas = reference.error_normwise if reference else np.nan
            rows.append(
                {
                    **{"rung": name, "precision": precisions[name], "family": each["family"]},
                    **{"amount": each["amount"], "m": m, "n": n, "k": k, "time_us": 1e6 * own.seconds},
                    **beside,
                    "error_normwise": own.error_normwise,
                    "error_of_cublas": error_of_cublas,
                    "times_error_of_cublas": _ratio(own.error_normwise, error_of_cublas),
                    "error_componentwise": own.error_componentwise,
                    **_origin(survey, digests.get(name)),
                }
            )
    return pd.DataFrame(rows, columns=DATA_COLUMNS)


def _beside(times: Mapping[str, float], name: str, baselines: Sequence[str]) -> dict[str, Any]:
    """A rung's time over that of the faster of its libraries; of a library the others are its own.

    A rung whose libraries were all left out, as one that does not pass its check is, has no share.
    """
    found = [each for each in baselines if each in times and each != name] or [name] * (name in baselines)
    if not found:
        return {"reference": "", "time_of_reference_us": np.nan, "share_of_cublas": np.nan}
    reference = min(found, key=times.__getitem__)
    share = times[reference] / times[name]
    return {"reference": reference, "time_of_reference_us": 1e6 * times[reference], "share_of_cublas": share}


def _with_errors(survey: Survey) -> Iterator[tuple[tuple[Case, Mapping[str, float]], Mapping[str, Any]]]:
    """Each product of a survey with its errors by kernel; without any where its record is older than these."""
    return zip(survey.products, survey.errors or [{}] * len(survey.products), strict=True)


def _errors(found: Mapping[str, Any], name: str, reference: str, k: int, precision: str) -> dict[str, float]:
    """A rung's errors on a product, beside those of the library that it is compared with and the bound of its class."""
    nothing = {"error_normwise": np.nan, "error_componentwise": np.nan}
    own, beside = found.get(name, nothing), found.get(reference, nothing)
    bound = componentwise_bound(k, BOUNDS[precision])
    return {
        "error_normwise": own["error_normwise"],
        "error_of_cublas": beside["error_normwise"],
        "times_error_of_cublas": _ratio(own["error_normwise"], beside["error_normwise"]),
        "error_componentwise": own["error_componentwise"],
        "share_of_bound": own["error_componentwise"] * UNIT_ROUNDOFF / bound,
    }


def _ratio(own: float, reference: float) -> float:
    """Of two errors; 1 where both are none, infinite where only the reference's is."""
    return own / reference if reference else 1.0 if own == 0 else np.inf


def _origin(survey: Survey, digest: str | None) -> dict[str, Any]:
    where = survey.where
    source = state_of(where["compile"]["source_digest"], digest)
    return {"seed": survey.seed, "source": source, **origin([where]), "measured_at": where["measured_at"]}
