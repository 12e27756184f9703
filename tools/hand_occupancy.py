"""How many warps an SM holds of each rung, worked out as one would by hand, for every GPU file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from doc_numbers import GPU
from ladder.config.gpus import names, read_gpu
from ladder.config.kernels import read_kernels
from ladder.config.plan import KERNELS
from ladder.model.gpu import Gpu
from ladder.records import store
from ladder.system.paths import ROOT
from ladder.tables.files import read_table
from record_architectures import RECORD

REGISTER_UNIT, WARP_REGISTERS = 256, 32  # registers are given to a warp in units of 256: CUDA's cuda_occupancy.h


@dataclass(frozen=True)
class Held:
    """Blocks of a kernel that an SM holds by each limit, and what follows."""

    by_warps: int
    by_registers: int
    by_shared_memory: int
    by_blocks: int
    warps_a_block: int
    warps_of_sm: int

    @property
    def blocks(self) -> int:
        """The lowest limit."""
        return min(self.by_warps, self.by_registers, self.by_shared_memory, self.by_blocks)

    @property
    def warps(self) -> int:
        """Warps of these blocks."""
        return self.blocks * self.warps_a_block

    @property
    def limited_by(self) -> str:
        """Every limit that is the lowest."""
        limits = {
            **{"warps": self.by_warps, "registers": self.by_registers},
            **{"shared memory": self.by_shared_memory, "blocks": self.by_blocks},
        }
        return " and ".join(name for name, blocks in limits.items() if blocks == self.blocks)


def held(gpu: Gpu, threads: int, registers: int, shared_bytes: int) -> Held:
    """What an SM of a GPU holds of blocks of so many threads, registers a thread and bytes of shared memory.

    NVIDIA, CUDA C++ Best Practices Guide, «Calculating Occupancy»: warps, registers (given to a warp in units), shared
    memory (from compute capability 8.0 on 1 KiB more a block, for the system) and the number of blocks.
    """
    warps = -(-threads // 32)
    of_warp = -(-registers * WARP_REGISTERS // REGISTER_UNIT) * REGISTER_UNIT
    system = 1024 if float(gpu.compute_capability) >= 8 else 0
    of_sm = gpu.limits["max_threads_per_sm"] // 32
    shared = shared_bytes + system
    return Held(
        by_warps=of_sm // warps,
        by_registers=gpu.limits["registers_per_sm"] // of_warp // warps,
        by_shared_memory=gpu.limits["shared_memory_per_sm_kib"] * 1024 // shared if shared else 10**6,
        by_blocks=gpu.limits["max_blocks_per_sm"],
        warps_a_block=warps,
        warps_of_sm=of_sm,
    )


def occupancy_by_hand() -> dict[str, Any]:
    """What docs/occupancy.md says.

    Keys: `gpus` (names, those of one compute capability together), `rows` (a rung, and for each of these what an SM
    holds of it; empty where it does not run there or the record has no build), `lines` (a rung, and for each of these
    where it has a build the four divisions), and one `example` in sentences.

    Registers are those that nvcc gives each rung's default parameters for the architecture (the record of
    docs/architectures.md), threads and shared memory those of its launch at the default parameters. Rungs with tuned
    parameters or dynamic shared memory are left out: their blocks are another on each GPU.
    """
    builds = store.read_json(RECORD)["builds"]
    resources = read_table(ROOT / "results" / GPU / "tables" / "resources.csv")
    main = resources[resources["multiplies"].astype(bool)].drop_duplicates("rung", keep="last").set_index("rung")
    alike: dict[str, list[Gpu]] = {}  # of one compute capability all SMs are
    for gpu in map(read_gpu, names()):
        alike.setdefault(gpu.compute_capability, []).append(gpu)
    gpus = [alike[each][0] for each in sorted(alike, key=float)]
    found, lines = [], []
    for rung in read_kernels(KERNELS).values():
        if rung.role != "rung" or rung.name not in main.index or not _is_default(rung.name, builds, main):
            continue
        row = main.loc[rung.name]
        cells, divisions = [], []
        for gpu in gpus:
            build = builds[rung.name].get(gpu.architecture)
            kernel = _product(build)
            result = (
                held(gpu, row["block_threads"], kernel["registers"], row["static_shared_bytes"]) if kernel else None
            )
            cells.append(f"{result.warps} of {result.warps_of_sm}, {result.limited_by}" if result else "")
            if result:
                files = ", ".join(each.name for each in alike[gpu.compute_capability])
                shared = int(row["static_shared_bytes"])
                divisions.append([files, *_divisions(gpu, kernel["registers"], shared, result)])
        found.append((rung.name, cells))
        lines.append((rung.name, int(row["block_threads"]), divisions))
    return {
        "gpus": [", ".join(each.name for each in alike[gpu.compute_capability]) for gpu in gpus],
        "rows": found,
        "lines": lines,
        "example": _example(builds, main),
    }


def _divisions(gpu: Gpu, registers: int, shared_bytes: int, found: Held) -> list[str]:
    """What an SM has over what a block takes, for each of the four, and the warps that follow."""
    of_warp = -(-registers * WARP_REGISTERS // REGISTER_UNIT) * REGISTER_UNIT
    of_sm, warps = gpu.limits["registers_per_sm"], found.warps_a_block
    memory = 1024 * gpu.limits["shared_memory_per_sm_kib"]
    system = 1024 if float(gpu.compute_capability) >= 8 else 0
    shared = (
        f"{memory:,} / {shared_bytes + system:,} = {found.by_shared_memory}" if shared_bytes + system else "none taken"
    )
    share = 100 * found.warps / found.warps_of_sm
    return [
        f"{found.warps_of_sm} / {warps} = {found.by_warps}",
        f"{of_sm:,} / ({warps} x {of_warp:,}) = {found.by_registers} ({registers} a thread)",
        shared,
        str(found.by_blocks),
        f"{found.blocks} x {warps} = {found.warps} of {found.warps_of_sm}, {share:.0f} %",
        found.limited_by,
    ]


def _product(build: dict[str, Any] | None) -> dict[str, Any] | None:
    """The kernel of a build that computes the product: the one that is not a helper of kernels/include."""
    kernels = [each for name, each in (build or {"kernels": {}})["kernels"].items() if "scale_kernel" not in name]
    return kernels[0] if len(kernels) == 1 else None


def _is_default(name: str, builds: Any, main: Any) -> bool:
    """Whether the recorded launch is of the default build: its threads are those that the source's own block has."""
    kernel = _product(builds.get(name, {}).get("sm_90a"))
    row = main.loc[name]
    return bool(kernel) and kernel["threads"] == row["block_threads"] and not row["dynamic_shared_bytes"]


def _example(builds: Any, main: Any) -> list[str]:
    """`tiled@TILE=32` on an SM of an RTX A4500 (sm_86), line by line."""
    gpu, name = read_gpu("rtx-a4500"), "tiled@TILE=32"
    kernel, row = _product(builds[name][gpu.architecture]), main.loc[name]
    threads, shared = int(row["block_threads"]), int(row["static_shared_bytes"])
    result = held(gpu, threads, kernel["registers"], shared)
    of_warp = -(-kernel["registers"] * WARP_REGISTERS // REGISTER_UNIT) * REGISTER_UNIT
    registers = gpu.limits["registers_per_sm"]
    return [
        f"A block has {threads} threads, so {result.warps_a_block} warps. An SM holds {result.warps_of_sm} warps:"
        f" {result.by_warps} block(s).",
        f"A thread takes {kernel['registers']} registers, so a warp takes {of_warp} and a block"
        f" {of_warp * result.warps_a_block} of the SM's {registers}: {result.by_registers} block(s).",
        f"A block takes {shared} bytes of shared memory and 1024 of the system, of"
        f" {gpu.limits['shared_memory_per_sm_kib'] * 1024}: {result.by_shared_memory} blocks.",
        f"An SM holds at most {result.by_blocks} blocks.",
        f"The lowest is {result.blocks} block(s), so {result.warps} of {result.warps_of_sm} warps:"
        f" {100 * result.warps / result.warps_of_sm:.0f} %. The limit: {result.limited_by}.",
    ]
