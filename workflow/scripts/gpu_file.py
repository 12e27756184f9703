"""Keep the properties of the GPU that is present as a file in config/gpus."""

from ladder import gpu
from ladder.config import shown
from ladder.errors import LadderError
from ladder.script import one_line_errors, say

with one_line_errors(snakemake.log[0]):
    device = gpu.present(snakemake.config.get("device", 0))
    if device is None:
        raise LadderError("gpu_file: there is no GPU here whose properties could be kept")
    known = gpu.recognise(device)
    if known:
        raise LadderError(f"gpu_file: {device.name} has a file already: config/gpus/{known}.yaml")
    path = gpu.GPU_FILES / f"{gpu.slug(device.name)}.yaml"
    gpu.keep(path, device)
    say(f"gemm-ladder: wrote {shown(path)}")
