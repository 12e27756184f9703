"""What the comments of the rungs beyond the tutorial say of registers, threads and shared memory is what was built."""

import itertools

import pytest
from ladder.config.kernels import read_kernels
from ladder.config.plan import KERNELS
from ladder.config.search_space import defaults
from ladder.config.tuned_file import tuned_file, with_tuned
from ladder.model.shape import Shape
from ladder.system.paths import ROOT
from ladder.tables.files import read_table

GPU = "h100-sxm"
BUILT = read_table(ROOT / f"results/{GPU}/tables/resources.csv")
SM_WARPS, WARP = 64, 32
WORDS = {1: "one block", 2: "two blocks"}


def said(entry: str) -> str:
    """The paragraph of a rung's comment that begins with `Occupancy:`, in one line."""
    lines = (ROOT / f"kernels/sgemm/{entry}.cu").read_text().splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("// Occupancy: "))
    rest = itertools.takewhile(lambda line: line.startswith("//"), lines[first:])
    return " ".join(line.removeprefix("//").strip() for line in rest)


def built(rung: str, kernel: str):
    """The rows of a rung's kernels whose names hold a text, with KiB of dynamic and of all shared memory, and warps."""
    rows = BUILT[(BUILT["rung"] == rung) & BUILT["multiplies"] & BUILT["kernel"].str.contains(kernel, regex=False)]
    assert len(rows)
    rows = rows.astype(dict.fromkeys(("block_threads", "registers", "blocks_per_sm"), int))
    dynamic = rows["dynamic_shared_bytes"] / 1024
    everything = dynamic + rows["static_shared_bytes"] / 1024
    return rows.assign(dynamic=dynamic, kib=everything, warps=rows["blocks_per_sm"] * rows["block_threads"] // WARP)


def one(rows, column: str):
    """The value in which all rows agree."""
    (value,) = rows[column].unique()
    return value


@pytest.mark.parametrize(
    ("entry", "kernel", "multiply", "copy", "what"),
    [
        ("wgmma_3xtf32", "sgemm_split", 232, 40, "Three stages"),
        ("tf32", "sgemm_tf32", 232, 40, "Four stages"),
        ("fastest", "sgemm_fastest_roles<Tiling<64, 512,", 216, 72, "Four stages and the results on their way to C"),
    ],
)
def test_warps_that_multiply_and_warps_that_copy_share_out_the_registers_of_the_build(
    entry, kernel, multiply, copy, what
):
    rows, text = built(entry, kernel), said(entry)
    threads = one(rows, "block_threads")
    copiers = 4 * WARP
    assert one(rows, "blocks_per_sm") == 1
    assert multiply * (threads - copiers) + copy * copiers == one(rows, "registers") * threads
    assert f"has {multiply} registers" in text
    assert f" {copy}" in text
    assert f"{what} take {one(rows, 'dynamic'):g} KiB of shared memory." in text
    warps = one(rows, "warps")
    shares = {
        f"one block of {threads} threads, {warps} of an SM's {SM_WARPS} warps.",
        f"These are {warps - 4} and 4 of an SM's {SM_WARPS} warps.",
    }
    assert any(share in text for share in shares), text


def test_the_tiles_of_mma_3xtf32_take_the_registers_and_the_shared_memory_that_its_comment_says():
    large, others, text = built("mma_3xtf32", "sgemm_large"), built("mma_3xtf32", "sgemm_mma"), said("mma_3xtf32")
    for rows in (large, others):
        assert one(rows, "warps") == 8
    assert f"{one(large, 'warps')} of an SM's {SM_WARPS} warps, at up to {others['registers'].max()} registers" in text
    blocks, threads = WORDS[one(large, "blocks_per_sm")], one(large, "block_threads")
    assert f"A large tile has {blocks} of {threads} threads and {one(large, 'kib'):g} KiB of shared memory" in text
    blocks, threads = WORDS[one(others, "blocks_per_sm")], one(others, "block_threads")
    assert f"Other tiles have {blocks} of {threads} threads and {one(others, 'dynamic'):g} KiB a block" in text


def test_split_k_takes_for_each_stage_the_shared_memory_that_its_comment_says():
    rows, text = built("split_k", "class_0::"), said("split_k")
    rung = with_tuned(read_kernels(KERNELS), tuned_file(GPU))["split_k"]
    macros = defaults((ROOT / "kernels" / rung.source).read_text())
    stages = {int((macros | rung.macros_at(Shape.parse(shape)))["STAGES"]) for shape in rows["shape"]}
    assert len(stages) == 1
    for_three = 3 * one(rows, "kib") / stages.pop()
    assert f"{for_three:.1f} KiB of shared memory for 3 stages" in text
    blocks, threads = WORDS[one(rows, "blocks_per_sm")], one(rows, "block_threads")
    assert f"{blocks} of {threads} threads, {one(rows, 'warps')} of an SM's {SM_WARPS} warps" in text
    most = 65536 // (one(rows, "blocks_per_sm") * threads)
    assert rows["registers"].max() <= most
    assert f"at most {most} registers" in text


def test_wgmma_3xfp16_has_the_occupancy_of_wgmma_3xtf32_to_which_its_comment_points():
    assert said("wgmma_3xfp16") == "Occupancy: as `wgmma_3xtf32`."
    columns = ["block_threads", "registers", "kib", "blocks_per_sm"]
    pair = [built(rung, "sgemm_split")[columns].drop_duplicates() for rung in ("wgmma_3xfp16", "wgmma_3xtf32")]
    assert pair[0].to_numpy().tolist() == pair[1].to_numpy().tolist()
