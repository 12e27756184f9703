"""How many warps an SM holds of each rung, and what limits them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ladder.build.occupancy import LIMITS
from ladder.show.figures.specification import MARKERS, PALETTE, Axis, Choice, Key, Layer, Specification
from ladder.tables.timings import largest


def warp_limits(resources: pd.DataFrame, shape: str) -> pd.DataFrame:
    """Warps that an SM holds of each rung at a shape, by rung: `held` at once, and what each of LIMITS alone allows.

    They are those of the kernel that computes the product. Of a rung that takes no shared memory this is no limit, and
    not a number. `resources` is the table of that name.
    """
    main = resources["multiplies"].astype(bool) & resources["blocks_per_sm"].notna()
    at = resources[main & (resources["shape"] == shape)].set_index("rung")
    warps = np.ceil(at["block_threads"].astype(float) / 32)
    found = pd.DataFrame({"held": at["blocks_per_sm"] * warps})
    for limit in LIMITS:
        found[limit] = at[f"block_limit_{limit.replace(' ', '_')}"] * warps
    takes = at["static_shared_bytes"].fillna(0) + at["dynamic_shared_bytes"].fillna(0)
    found["shared memory"] = found["shared memory"].where(takes > 0)
    return found.astype(float)


def figure(resources: pd.DataFrame, order: Sequence[str]) -> Specification:
    """A bar of the warps held, a mark for what each resource alone allows. `resources` is the table of that name."""
    shapes = list(resources["shape"].unique())
    frames = [warp_limits(resources, shape).rename_axis("rung").reset_index().assign(shape=shape) for shape in shapes]
    held = pd.concat(frames) if frames else pd.DataFrame(columns=["rung", "shape", "held", *LIMITS])
    held = held[held["rung"].isin(order)]
    most = held[["held", "warps"]].max(axis=None) if len(held) else 64
    limits = held.melt(["rung", "shape"], LIMITS, "limit", "allowed")
    limits = limits[limits["allowed"] < most]
    key = Key("limit", dict(zip(LIMITS, PALETTE, strict=False)), dict(zip(LIMITS, MARKERS, strict=False)))
    first = largest(shapes)
    at = held[held["shape"] == first]
    kept = at[(at["held"] < at["warps"]) & (at["held"] == at["registers"])]
    same = {"rung": "rung", "shape": "shape"}
    return Specification(
        title=f"Registers keep {len(kept)} of {len(at)} rungs from filling an SM at {first}"
        if len(at)
        else "What limits the warps of an SM",
        note="A bar shows how many warps an SM holds at once. A mark shows how many one resource alone would allow. A"
        f" resource that allows {most:.0f} warps or more, as many as an SM can hold, has no mark.",
        layers=[
            Layer("bar", held, "held", "rung", color="#cccccc", hints={**same, "held": "warps held"}),
            Layer(
                "point", limits, "allowed", "rung", key=key, dodge=True,
                hints={**same, "limit": "limit by", "allowed": "warps"},
            ),
        ],
        x=Axis("warps an SM", limits=(0, 1.02 * most)),
        y=Axis(scale="names", names=[rung for rung in order if rung in set(held["rung"])]),
        choices=[Choice("shape", "shape", shapes, first)],
    )  # fmt: skip
