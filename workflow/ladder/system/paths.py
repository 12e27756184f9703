"""Where the project stands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


ROOT = Path(__file__).resolve().parents[3]
GPU_FILES = ROOT / "config" / "gpus"


def shown(path: Path) -> str:
    """The path as messages print it: relative to the project where it lies inside."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
