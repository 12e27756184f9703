"""Which GPU a job measures on: one that no other job is on, and the same one that made what its record holds."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path

from ladder.config import gpus
from ladder.records.store import made_by
from ladder.system import nvml
from ladder.system.errors import LadderError
from ladder.system.nvml import Present
from ladder.system.process import gpu_lease


def candidates(gpu: str, devices: str | int | Sequence[str | int], record: Path) -> list[Present]:
    """The GPUs of this kind on which a job may add to a record: the one that made it last, if it is here, else all.

    `devices` is as in the configuration. Raises LadderError where this machine has none: a batch system may have sent
    the job to a machine with another GPU.
    """
    found = gpus.of_kind(gpu, gpus.chosen(devices))
    if not found:
        here = ", ".join(sorted({device.name for device in nvml.visible()})) or "no GPU"
        remedy = f"let slurm.gres in config/gpus/{gpu}.yaml ask for the right one, or set gpu"
        raise LadderError(f"{platform.node()}: the job is for {gpu}, and this machine has {here}; {remedy}")
    latest = next(reversed(made_by(record)), None) if record.exists() else None
    return [device for device in found if device.uuid == latest] or found


@contextlib.contextmanager
def lease(devices: Sequence[Present], exclusive: bool = False) -> Iterator[Present]:
    """Hold one of these GPUs alone, the first that is free; with `exclusive` while this machine's others rest.

    Inside, it is the only GPU that is visible, with the index LEASED.
    """
    resting = [device.uuid for device in nvml.visible()] if exclusive else []
    with gpu_lease([device.uuid for device in devices], resting) as uuid:
        yield next(device for device in devices if device.uuid == uuid)
