"""A small model of torch.nn, which `record_library.py` runs with and without the shim; prints one JSON object.

Three linear layers without bias, whose products PyTorch asks cublasSgemm for: each layer's own, that of its input's
gradient and that of its weights' gradient, all three kinds of transposes. A bias would make PyTorch call cublasLt.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "workflow"))

from ladder.model.bounds import componentwise_bound, statistical_bound

BATCH, WIDTHS = 1024, (1024, 4096, 1024, 1000)
WARM_UP, STEPS = 5, 30


def share_of_bound(C: np.ndarray, A: np.ndarray, B: np.ndarray) -> float:
    """The error of C = A . B as a share of the largest that FP32 allows, of an element and of all; above 1 it is not.

    All are float64, exact copies of what was computed with.
    """
    error, k = np.abs(C - A @ B), A.shape[1]
    elements = error / (componentwise_bound(k) * (np.abs(A) @ np.abs(B)) + np.finfo(np.float32).tiny)
    terms = np.square(A) @ np.square(B)
    columns = terms.sum() / terms.sum(axis=0).max()
    norm = float(np.sqrt(np.square(error).sum() / terms.sum()))
    return max(float(elements.max()), norm / float(statistical_bound(k, columns)))


def main(device: str) -> dict[str, Any]:
    """Times of steps (forward, backward) in ms, and of each product its share of FP32's bound."""
    import torch

    torch.manual_seed(1)
    layers = [torch.nn.Linear(m, n, bias=False) for m, n in pairwise(WIDTHS)]
    parts = [part for layer in layers for part in (layer, torch.nn.GELU())]
    model = torch.nn.Sequential(*parts[:-1]).to(device)
    data = torch.randn(BATCH, WIDTHS[0], device=device, requires_grad=True)
    target = torch.randn(BATCH, WIDTHS[-1], device=device)
    seen: dict[torch.nn.Module, dict[str, torch.Tensor]] = {layer: {} for layer in layers}

    def step() -> None:
        model.zero_grad()
        torch.nn.functional.mse_loss(model(data), target, reduction="sum").backward()

    hooks = [layer.register_forward_hook(lambda layer, x, y: seen[layer].update(x=x[0], y=y)) for layer in layers]
    hooks += [
        layer.register_full_backward_hook(lambda layer, gx, gy: seen[layer].update(gx=gx[0], gy=gy[0]))
        for layer in layers
    ]
    step()
    for hook in hooks:
        hook.remove()
    shares = {}
    for number, layer in enumerate(layers):
        found = {name: each.detach().cpu().double().numpy() for name, each in seen[layer].items()}
        W, gW = (each.detach().cpu().double().numpy() for each in (layer.weight, layer.weight.grad))
        shares |= {
            f"layer {number}": share_of_bound(found["y"], found["x"], W.T),
            f"layer {number}, gradient of its input": share_of_bound(found["gx"], found["gy"], W),
            f"layer {number}, gradient of its weights": share_of_bound(gW, found["gy"].T, found["x"]),
        }
    seen.clear()

    def wait() -> None:
        if device != "cpu":
            torch.cuda.synchronize()

    times_ms = []
    for number in range(WARM_UP + STEPS):
        wait()
        begun = time.perf_counter()
        step()
        wait()
        times_ms += [round(1e3 * (time.perf_counter() - begun), 5)] if number >= WARM_UP else []
    return {"program": f"torch {torch.__version__}", "times_ms": times_ms, "shares_of_bound": shares}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:] or ["cuda"])))
