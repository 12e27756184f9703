"""What the process of a rung and its references says while it measures, and what that says of the rung."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ladder.system.process import Event


@dataclass
class Account:
    """Takes the events of a process: where it is (`starts`), whom it caught (`dishonest`), and others for `other`."""

    progress: Callable[[str, str], None]
    other: Callable[[Event], None]
    current: Mapping[str, str] = field(default_factory=dict)  # kernel and shape
    dishonest: Mapping[str, str] = field(default_factory=dict)  # kernel and finding

    def hear(self, event: Event) -> None:
        """Take one event."""
        if "starts" in event:
            self.current = event["starts"]
            self.progress(self.current["kernel"], self.current["shape"])
        elif "dishonest" in event:
            self.dishonest = event["dishonest"]
        else:
            self.other(event)

    def placed(self, message: str) -> str:
        """A message with the kernel and shape that the process was at; empty where it is."""
        return (
            f"{self.current['kernel']} at {self.current['shape']}: {message}" if message and self.current else message
        )

    def verdict(self, rung: str, status: str, message: str) -> tuple[str, str]:
        """Status and message of a rung: these, unless it or what was measured beside it was caught."""
        if not self.dishonest:
            return status, message
        kernel, finding = self.dishonest["kernel"], self.dishonest["finding"]
        return ("dishonest", finding) if kernel == rung else ("failed", f"{kernel} beside it: {finding}")
