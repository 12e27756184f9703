"""What docs/checking.md says of the cases that the emulator computes: `write_docs.py` fills it in."""

from __future__ import annotations

from typing import Any

from ladder.config.documents import read_yaml
from ladder.measure.check import branches as search
from ladder.measure.check import stage
from ladder.measure.devices import LARGE_S
from ladder.model import cases, drawn
from ladder.model.shape import Shape
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT


def check_settings() -> dict[str, Any]:
    """`check` of config/config.yaml."""
    return read_yaml(ROOT / "config/config.yaml")["check"]


def emulated() -> dict[str, Any]:
    """What the emulate stage computes of the configured cases.

    `limits` are the constants of `ladder.model.cases` and `some_blocks_s`, the CPU time of a launch of which some
    blocks run, in seconds; `alone` the number of cases that a GPU does not compute; `some_blocks` for each number of
    blocks the shapes of which no more than so many blocks run.
    """
    check = check_settings()
    shapes, of_families = ([Shape.parse(shape) for shape in check[key]] for key in ("shapes", "family_shapes"))
    some: dict[int, list[str]] = {}
    for case in cases.emulated_cases(cases.all_cases(shapes, check["cases"], [], check["families"], of_families)):
        if case.blocks and str(case.shape) not in some.setdefault(case.blocks, []):
            some[case.blocks].append(str(case.shape))
    limits = {name: value for name, value in vars(cases).items() if name.startswith("EMULATED_")}
    limits = {name.removeprefix("EMULATED_").lower(): value for name, value in limits.items() if isinstance(value, int)}
    return {
        "limits": limits | {"some_blocks_s": LARGE_S},
        "alone": len(cases.EMULATED_ALONE),
        "some_blocks": some,
    }


def on_a_gpu() -> dict[str, Any]:
    """How a GPU's check is shared, and what it asks beside the configured cases; most cases at bounds of regions."""
    return {
        "workers": stage.WORKERS,
        "drawn_runs": stage.DRAWN_RUNS,
        "large": stage.LARGE_MATRIX,
        "probes": cases.PROBES,
        "drawn_elements": drawn.ON_A_GPU.elements,
        "at_bounds": drawn.MOST_AT_BOUNDS,
    }


def branches() -> dict[str, int]:
    """The most cases that the emulator adds for ways through the host function, and the products that it asks for."""
    return {"most": search.MOST_CASES, "products": search.DRAWN_PRODUCTS + search.CHANGED_PRODUCTS}


def power_of_2(value: int) -> str:
    """`2^20`; raises LadderError where the value is none."""
    if value < 1 or value & (value - 1):
        raise LadderError(f"{value} is no power of 2; write it in another way")
    return f"2^{value.bit_length() - 1}"
