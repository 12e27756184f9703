"""The figures that say why a rung is not faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from ladder.model.gpu import Gpu
from ladder.model.precision import labelled
from ladder.show.figures import (
    instruction_mix,
    intensity,
    issue_slots,
    occupancy_limits,
    predicted,
    prediction,
    roofline,
)
from ladder.show.figures.specification import Specification


def figures(
    tables: Mapping[str, pd.DataFrame], gpu: Gpu, baseline: str, ladder: Sequence[str]
) -> dict[str, Specification]:
    """Every figure of why by its file's name, from the tables by theirs; that of the hardware may lack."""
    rungs = tables["rungs"][tables["rungs"]["role"] != "floor"]
    named = {
        name: labelled(tables[name], rungs)
        for name in ("profiles", "slots", "instructions", "resources", "paper", "predictions")
    }
    order = list(labelled(rungs, rungs)["rung"])
    fp32 = rungs[rungs["precision"] == "fp32"]  # the ceilings of the roofline are of FP32's pipe
    hardware = tables.get("hardware")
    return {
        "intensity": intensity.figure(named["profiles"], labelled(rungs, rungs), hardware, gpu, baseline, ladder),
        "roofline": roofline.figure(named["profiles"], tables["timings"], fp32, hardware, gpu, baseline, ladder),
        "issue_slots": issue_slots.figure(named["slots"], order),
        "instruction_mix": instruction_mix.figure(named["instructions"], order),
        "occupancy_limits": occupancy_limits.figure(named["resources"], order),
        "prediction": prediction.figure(named["paper"], order),
        "predicted": predicted.figure(named["predictions"], order),
    }
