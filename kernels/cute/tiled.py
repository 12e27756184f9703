"""Tiled FP32 in CuTe DSL: a block of TILE x TILE threads computes as large a tile of C, in steps of TILE along k.

`python tiled.py sm_90a` compiles it without a GPU to tiled.cubin, beside this file. Rows may be of any length and begin
anywhere: each thread loads one element at a time.
"""

import sys
import tempfile
from pathlib import Path

import cutlass
from cutlass import cute

TILE = 16


@cute.kernel
def gemm(
    A: cute.Pointer, B: cute.Pointer, C: cute.Pointer,
    m: cutlass.Int32, n: cutlass.Int32, k: cutlass.Int32,
    lda: cutlass.Int64, ldb: cutlass.Int64, ldc: cutlass.Int64,
    alpha: cutlass.Float32, beta: cutlass.Float32,
):  # fmt: skip
    x, y, _ = cute.arch.thread_idx()
    column_of_tiles, row_of_tiles, _ = cute.arch.block_idx()
    row, col = row_of_tiles * TILE + y, column_of_tiles * TILE + x
    a = cute.make_tensor(A, cute.make_layout((m, k), stride=(lda, 1)))
    b = cute.make_tensor(B, cute.make_layout((k, n), stride=(ldb, 1)))
    c = cute.make_tensor(C, cute.make_layout((m, n), stride=(ldc, 1)))
    shared, tile = cutlass.memory.SmemAllocator(), cute.make_layout((TILE, TILE), stride=(TILE, 1))
    tile_a, tile_b = (shared.allocate_tensor(cutlass.Float32, tile, 16) for _ in range(2))
    total = cutlass.Float32(0.0)
    for p in range(0, k, TILE):
        of_a, of_b = cutlass.Float32(0.0), cutlass.Float32(0.0)
        if row < m and p + x < k:
            of_a = a[row, p + x]
        if p + y < k and col < n:
            of_b = b[p + y, col]
        tile_a[y, x], tile_b[y, x] = of_a, of_b
        cute.arch.sync_threads()
        for q in cutlass.range_constexpr(TILE):
            total += tile_a[y, q] * tile_b[q, x]
        cute.arch.sync_threads()
    if row < m and col < n:
        result = alpha * total
        if beta != 0.0:
            result += beta * c[row, col]
        c[row, col] = result


@cute.jit
def launch(
    A: cute.Pointer, B: cute.Pointer, C: cute.Pointer,
    m: cutlass.Int32, n: cutlass.Int32, k: cutlass.Int32,
    lda: cutlass.Int64, ldb: cutlass.Int64, ldc: cutlass.Int64,
    alpha: cutlass.Float32, beta: cutlass.Float32,
):  # fmt: skip
    grid = cute.ceil_div(n, TILE), cute.ceil_div(m, TILE), 1
    gemm(A, B, C, m, n, k, lda, ldb, ldc, alpha, beta).launch(grid=grid, block=(TILE, TILE, 1))


def main(architecture: str, output: Path) -> None:
    """Compile the kernel; its symbol is gemm_0, for CuTe DSL numbers the kernels of a process."""
    gemm.set_name_prefix("gemm", remove_cutlass_symbol=True, keep_mangled_name=False)
    pointers = [cute.runtime.make_ptr(cutlass.Float32, 16, cute.AddressSpace.gmem, assumed_align=4) for _ in range(3)]
    sizes = [cutlass.Int32(1)] * 3 + [cutlass.Int64(1)] * 3
    options = f"--gpu-arch {architecture} --keep-cubin --generate-line-info"
    with tempfile.TemporaryDirectory() as folder:
        asked = [*pointers, *sizes, cutlass.Float32(1), cutlass.Float32(0)]
        made = cute.compile(launch, *asked, options=f"{options} --dump-dir {folder}")
        output.write_bytes(made.__cubin__)


if __name__ == "__main__":
    main(sys.argv[1], Path(__file__).with_suffix(".cubin"))
