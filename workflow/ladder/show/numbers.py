"""How every page, figure and table writes a number."""

from __future__ import annotations

from typing import Any

import pandas as pd

TINY = 1e-3  # below it a number is written with a power of ten


def number(value: Any) -> str:
    """A value as text: four significant digits, thousands apart, whole numbers whole; empty where there is none."""
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return ""
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2e}".replace("e-0", "e-") if abs(value) < TINY else f"{value:#.4g}"


def percent(share: float, decimals: int = 0) -> str:
    """A share as text: 1.084 is `108 %`; empty where there is none."""
    return "" if pd.isna(share) else f"{100 * share:.{decimals}f} %"
