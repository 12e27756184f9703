"""One product on the GPU as it is timed and profiled: the matrices, and the libraries that compute it."""

from __future__ import annotations

import secrets

import cupy as cp
import numpy as np

from ladder.build.library import Library, Operands, explain
from ladder.model.shape import Shape
from ladder.system.errors import LadderError


class Product:
    """C = A . B for one shape, with the matrices on the GPU and the workspaces of the libraries that compute it."""

    def __init__(self, shape: Shape, libraries: dict[str, Library]) -> None:
        """Draw uniform inputs in [-0.5, 0.5) from a fresh seed, and queue each library's product once."""
        self.shape = shape
        self.libraries = libraries
        self.seed = secrets.randbits(48)
        random = np.random.default_rng(self.seed)
        A, B = (random.random(size, dtype=np.float32) for size in ((shape.m, shape.k), (shape.k, shape.n)))
        A -= 0.5
        B -= 0.5
        self.A, self.B = cp.asarray(A), cp.asarray(B)
        self.C = cp.empty((shape.m, shape.n), np.float32)
        a, b, c = (matrix.data.ptr for matrix in (self.A, self.B, self.C))
        self.operands = Operands(a, shape.k, b, shape.n, c, shape.n)
        self.workspaces = {}
        for name, library in libraries.items():
            needed = library.workspace_bytes(shape, 1.0, 0.0, self.operands)
            self.workspaces[name] = cp.empty(max(1, needed), np.uint8)
            self.queue(name, 0)  # what a library sets up at its first call is not timed
            cp.cuda.runtime.deviceSynchronize()

    def queue(self, name: str, stream: int) -> None:
        """Queue the product of one library; raises LadderError where it returns an error."""
        workspace = self.workspaces[name].data.ptr
        error = self.libraries[name].queue(self.shape, 1.0, 0.0, self.operands, workspace, stream)
        if error:
            raise LadderError(f"{name}: sgemm returned {explain(error)}")
