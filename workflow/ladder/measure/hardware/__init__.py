"""The hardware stage: what the GPU does at most, by kernels/floor/hardware.cu."""
