"""What NVML says of a GPU while launches follow each other: energy, power, clock and temperature."""

from __future__ import annotations

import threading
import time
from typing import Any

from ladder.system import nvml

POLL_S, SAMPLE_S = 0.004, 0.04  # how often the counter of energy is read, and how far samples are apart at least
SAMPLED = ("power_w", "sm_clock_mhz", "temperature_c", "throttle_reasons")  # of nvml.state


class Meter:
    """A thread that asks NVML for energy, power, clock and temperature, until it is closed.

    The counter of energy changes every 20 to 100 ms. A sample is kept just after it has changed.
    """

    def __init__(self, device: int) -> None:
        """Begin to ask."""
        self.samples: list[dict[str, Any]] = []
        self._device, self._over = device, threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        last, kept_s = None, 0.0
        while not self._over.wait(POLL_S):
            energy_j, now_s = nvml.energy_j(self._device), time.monotonic()
            if now_s - kept_s < SAMPLE_S or (energy_j is not None and energy_j == last):
                last = energy_j
                continue
            last, kept_s = energy_j, now_s
            energy = {} if energy_j is None else {"energy_j": energy_j}
            self.samples.append({"at_s": now_s, **energy, **nvml.state(self._device)})

    def wait(self) -> int:
        """Wait for a sample that is taken from now on, a second at most; the number of the last one."""
        begun_s = time.monotonic()
        while time.monotonic() < begun_s + 1 and not (self.samples and self.samples[-1]["at_s"] >= begun_s):
            time.sleep(POLL_S)
        return max(0, len(self.samples) - 1)

    def columns(self, origin_s: float, first: int) -> dict[str, list[Any]]:
        """The samples from a number on, a list for each key that all of them have; times are from an origin on."""
        rows = self.samples[first:]
        keys = [key for key in ("energy_j", *SAMPLED) if rows and all(key in row for row in rows)]
        found = {key: [row[key] for row in rows] for key in keys}
        if reasons := found.get("throttle_reasons"):
            found["throttle_reasons"] = ["; ".join(each) for each in reasons]
        return {"at_s": [round(row["at_s"] - origin_s, 4) for row in rows], **found}

    def close(self) -> None:
        """Ask no more."""
        self._over.set()
        self._thread.join()
