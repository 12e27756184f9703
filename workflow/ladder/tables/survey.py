"""Drawn products and data as users have them: times beside the faster of the libraries, by class and by family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ladder.model.survey import PRODUCT_CLASSES, least_bytes
from ladder.records.digests import state_of
from ladder.records.provenance import ORIGIN, origin
from ladder.records.survey import Survey

SLOWER_BELOW = 0.98  # of the library's speed, below which a product counts as slower: times repeat to about 1 %
SURVEY_COLUMNS = [
    *("rung", "precision", "m", "n", "k", "gap_a", "gap_b", "gap_c", "flop", "time_us", "gflops", "least_gb_s"),
    *("reference", "time_of_reference_us", "share_of_cublas", "seed", "source", *ORIGIN, "measured_at"),
]
CLASS_COLUMNS = [
    *("rung", "precision", "class", "products", "geometric_mean", "percentile_5", "median", "lowest", "lowest_at"),
    *("slower_percent", "seed", "source"),
]
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
) -> pd.DataFrame:
    """One row a rung and drawn product; all mappings are by the rung's name.

    `baselines` names its libraries, `digests` are those of its sources as they are now.

    Columns: rung, precision, m, n, k, gap_a, gap_b, gap_c (elements between rows), flop, time_us (median), gflops,
    least_gb_s (the bytes that the product moves at least, over the time), reference (the library that was the faster),
    time_of_reference_us, share_of_cublas (its time over the rung's), seed,
    source (`current` or `changed since`), card, cublas_version, commit, measured_at.
    """
    rows = [
        {
            **{"rung": name, "precision": precisions[name], "m": shape.m, "n": shape.n, "k": shape.k},
            **dict(zip(("gap_a", "gap_b", "gap_c"), case.paddings, strict=True)),
            **{"flop": shape.flop, "time_us": 1e6 * times[name], "gflops": shape.flop / 1e9 / times[name]},
            "least_gb_s": least_bytes(shape) / 1e9 / times[name],
            **_beside(times, name, baselines[name]),
            **_origin(survey, digests.get(name)),
        }
        for name, survey in surveys.items()
        for case, times in survey.products
        for shape in [case.shape]
    ]
    return pd.DataFrame(rows, columns=SURVEY_COLUMNS)


def class_table(
    surveys: Mapping[str, Survey],
    precisions: Mapping[str, str],
    baselines: Mapping[str, Sequence[str]],
    digests: Mapping[str, str],
) -> pd.DataFrame:
    """One row a rung and class of products (`ladder.model.survey.PRODUCT_CLASSES`) that has any.

    A rung that was surveyed without its libraries has none.

    Columns: rung, precision, class, products (how many), geometric_mean, percentile_5, median and lowest of the share
    of cuBLAS, lowest_at (that product), slower_percent (of the products, at a share below SLOWER_BELOW), seed,
    source (`current` or `changed since`).
    """
    rows: list[dict[str, Any]] = []
    for name, survey in surveys.items():
        beside = (_beside(times, name, baselines[name])["share_of_cublas"] for _, times in survey.products)
        shares = np.array(list(beside), float)
        if np.isnan(shares).any():
            continue
        for title, belongs in PRODUCT_CLASSES.items():
            chosen = np.array([belongs(case) for case, _ in survey.products], bool)
            if not chosen.any():
                continue
            of_class = shares[chosen]
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


def _ratio(own: float, reference: float) -> float:
    """Of two errors; 1 where both are none, infinite where only the reference's is."""
    return own / reference if reference else 1.0 if own == 0 else np.inf


def _origin(survey: Survey, digest: str | None) -> dict[str, Any]:
    where = survey.where
    source = state_of(where["compile"]["source_digest"], digest)
    return {"seed": survey.seed, "source": source, **origin([where]), "measured_at": where["measured_at"]}
