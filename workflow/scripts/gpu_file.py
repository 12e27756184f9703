"""Keep the properties of the GPU that is present as a file in config/gpus."""

from ladder.config import gpus
from ladder.system.errors import LadderError
from ladder.system.paths import shown
from ladder.system.terminal import job, say

with job(snakemake):
    device = next(iter(gpus.chosen(snakemake.params.devices)), None)
    if device is None:
        raise LadderError("gpu_file: there is no GPU here whose properties could be kept")
    known = gpus.recognise(device)
    if known:
        raise LadderError(f"gpu_file: {device.name} has a file already: config/gpus/{known}.yaml")
    path = gpus.GPU_FILES / f"{gpus.slug(device.name)}.yaml"
    gpus.keep(path, device)
    say(f"gemm-ladder: wrote {shown(path)}")
