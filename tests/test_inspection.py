"""What is read of a compiled rung without a GPU: SASS, inner loops, occupancy, and the calculation on paper."""

from __future__ import annotations

import math
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROUND_GPU, a_rung, an_evidence, line_of, write
from ladder.build import sass
from ladder.build.compile import Build, build
from ladder.build.inspection import inspect, multiplying_kernel
from ladder.build.occupancy import LIMITS, occupancy
from ladder.build.sass import Instruction
from ladder.build.toolchain import find_nvcc
from ladder.config.gpus import names, read_gpu
from ladder.config.kernels import read_kernels
from ladder.config.plan import KERNELS
from ladder.model.cases import Case
from ladder.model.shape import Shape
from ladder.system.paths import ROOT
from ladder.tables.code import instruction_table, paper_table, resource_table
from ladder.tables.paper import accesses, ceilings, floors, tile_of, waves

LISTING = """
.text.kernel_a:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   LDS.128 R4, [R2] ;
        /*0020*/                   LDS R8, [R2+0x10] ;
        /*0030*/                   FFMA R9, R4.reuse, R8, R9 ;
        /*0040*/                   FFMA R10, R4, R6, R12 ;
        /*0050*/                   FFMA R11, R2, R6, R12 ;
        /*0060*/               @P0 BRA 0x10 ;
        /*0070*/              @!P1 BRA 0x0 ;
        /*0080*/                   EXIT ;
        /*0090*/                   BRA 0x90;
        /*00a0*/                   NOP;
.text.kernel_b:
        /*0000*/                   EXIT ;
"""


def test_a_listing_is_read_kernel_by_kernel_without_the_padding():
    found = sass.parse(LISTING)
    assert list(found) == ["kernel_a", "kernel_b"]
    assert found["kernel_a"][-1] == Instruction(0x90, "BRA 0x90")
    assert found["kernel_a"][1].opcode == "LDS"
    assert found["kernel_a"][1].width_bits == 128


def test_an_instruction_has_the_source_line_that_the_listing_named_last():
    named = LISTING.replace("        /*0020*/", '\t//## File "/x/kernels/a/b.py", line 7\n        /*0020*/', 1)
    named = named.replace("        /*0060*/", '\t//## File "/x/lib/c.py", line 9\n        /*0060*/', 1)
    body = sass.parse(named)["kernel_a"]
    assert body == sass.parse(LISTING)["kernel_a"]
    assert [(each.file, each.line) for each in body[1:3]] == [("", 0), ("/x/kernels/a/b.py", 7)]
    assert sass.source_lines(sass.inner_loop(body)) == [
        {"file": "c.py", "line": 9, "text": "", "instructions": 1, "mix": {"other": 1}},
        {"file": "kernels/a/b.py", "line": 7, "text": "", "instructions": 4, "mix": {"FFMA": 3, "LDS": 1}},
    ]
    assert sass.source_lines(sass.parse(LISTING)["kernel_a"]) == []


def test_without_ffmas_the_inner_loop_is_that_of_the_fmuls():
    body = sass.parse(LISTING.replace("FFMA", "FMUL"))["kernel_a"]
    assert [each.offset for each in sass.inner_loop(body)] == [0x10, 0x20, 0x30, 0x40, 0x50, 0x60]
    fused = sass.parse(LISTING.replace("LDC R1, c[0x0][0x28]", "FFMA R1, R2, R3, R4").replace("FFMA R9", "FMUL R9"))
    assert len(sass.inner_loop(fused["kernel_a"])) == 6


def test_a_branch_to_itself_is_no_loop_and_the_inner_loop_is_that_of_the_ffmas():
    body = sass.parse(LISTING)["kernel_a"]
    assert [(loop[0].offset, loop[-1].offset) for loop in sass.loops(body)] == [(0, 0x70), (0x10, 0x60)]
    assert [each.offset for each in sass.inner_loop(body)] == [0x10, 0x20, 0x30, 0x40, 0x50, 0x60]
    assert sass.inner_loop(sass.parse(LISTING)["kernel_b"]) == []


def test_a_branch_out_of_the_kernel_closes_no_loop():
    body = sass.parse(LISTING.replace("@!P1 BRA 0x0", "@!P1 BRA 0x13d0"))["kernel_a"]
    assert [(loop[0].offset, loop[-1].offset) for loop in sass.loops(body)] == [(0x10, 0x60)]


OUT_OF_LINE = """
.text.kernel:
        /*0000*/                   MOV R1, R2 ;
        /*0010*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R1] ;
        /*0020*/              @!P0 BRA 0xa0 ;
        /*0030*/                   HGMMA.64x128x8.F32.TF32 R24, gdesc[UR16], R24 ;
        /*0040*/               @P1 BRA 0x10 ;
        /*0050*/                   FFMA R9, R4, R8, R9 ;
        /*0060*/                   FFMA R9, R4, R8, R9 ;
        /*0070*/               @P2 BRA 0x50 ;
        /*0080*/               @P3 BRA 0x0 ;
        /*0090*/                   EXIT ;
        /*00a0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R1] ;
        /*00b0*/              @!P0 BRA 0xa0 ;
        /*00c0*/                   BRA 0x30 ;
        /*00d0*/                   BRA 0xd0 ;
"""


def test_a_branch_back_from_a_wait_that_stands_elsewhere_closes_no_loop():
    body = sass.parse(OUT_OF_LINE)["kernel"]
    found = [[each.offset for each in loop] for loop in sass.loops(body)]
    assert found == [
        [0x0, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x80],
        [0x10, 0x20, 0x30, 0x40],
        [0x50, 0x60, 0x70],
        [0xA0, 0xB0],
    ]


def test_labels_become_the_offsets_that_they_stand_for():
    listing = """
	.section	.text.kernel,"ax",@progbits
kernel:
.text.kernel:
        /*0000*/                   BSSY B0, `(.L_x_1) ;
.L_x_0:
        /*0010*/              @!P0 BRA `(.L_x_0) ;
        /*0020*/                   CALL.REL.NOINC `($kernel$divide) ;
.L_x_1:
$kernel$divide:
        /*00f0*/                   RET.REL.NODEC R4 `(kernel) ;
.text.other:
.L_x_0:
        /*0000*/                   BRA `(.L_x_0) ;
"""
    found = {name: [each.text for each in body] for name, body in sass.parse(listing).items()}
    kernel = ["BSSY B0, 0xf0", "@!P0 BRA 0x10", "CALL.REL.NOINC 0xf0", "RET.REL.NODEC R4 0x0"]
    assert found == {"kernel": kernel, "other": ["BRA 0x0"]}


def test_a_loop_goes_through_where_warps_meet_again_and_not_behind_an_exit():
    listing = """
.text.kernel:
        /*0000*/                   MOV R1, R2 ;
        /*0010*/                   BSSY B0, 0x50 ;
        /*0020*/               @P0 BRA 0x40 ;
        /*0030*/                   BSYNC B0 ;
        /*0040*/                   BSYNC B0 ;
        /*0050*/                   BSSY B0, 0x80 ;
        /*0060*/                   BSYNC B0 ;
        /*0070*/                   EXIT ;
        /*0080*/               @P1 BRA 0x10 ;
        /*0090*/                   EXIT ;
        /*00a0*/                   BRA 0x0 ;
"""
    found = [[each.offset for each in loop] for loop in sass.loops(sass.parse(listing)["kernel"])]
    assert found == [[0x0, 0xA0], [0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x80]]
    assert sass.loops([]) == []


def test_the_inner_loop_is_that_of_the_tensor_cores_where_these_multiply():
    loop = sass.inner_loop(sass.parse(OUT_OF_LINE)["kernel"])
    assert [each.offset for each in loop] == [0x10, 0x20, 0x30, 0x40]
    assert sass.ratios(sass.code_summary(loop)) == {}  # its FFMAs, if it had any, would not be what it computes


def test_the_kernel_that_computes_a_product_is_the_one_with_the_fastest_unit():
    assert sass.multiplications({"HGMMA": 1}) > sass.multiplications({"HMMA": 99, "FFMA": 99})
    assert sass.multiplications({"HMMA": 1}) > sass.multiplications({"FFMA": 99})
    assert sass.multiplications({"FFMA": 2}) > sass.multiplications({"FFMA": 1, "LDS": 99})


def test_instructions_are_counted_by_class_and_width():
    loop = sass.code_summary(sass.inner_loop(sass.parse(LISTING)["kernel_a"]))
    assert loop["mix"] == {**dict.fromkeys(sass.CLASSES, 0), "FFMA": 3, "LDS": 2, "other": 1}
    assert loop["widths"]["LDS"] == {"32": 1, "64": 0, "128": 1}
    ratios = sass.ratios(loop)
    assert ratios["ffma_share"] == 0.5
    assert ratios["load_bytes_per_ffma"] == pytest.approx(20 / 3)
    assert ratios["wavefronts_per_ffma"] == 1


def test_a_bank_conflict_needs_three_sources_of_one_bank_that_are_not_in_the_reuse_cache():
    body = sass.parse(LISTING)["kernel_a"]
    # R4, R6, R12 would be all even, but the FFMA before keeps R4; R2, R6, R12 are read from one bank.
    assert sass.bank_conflicts(body) == (1, 1)


@pytest.mark.parametrize(
    ("opcode", "kind"),
    [
        ("UIADD3", "integer"),
        ("LDGSTS.E", "LDGSTS"),
        ("BAR.SYNC", "BAR"),
        ("LDG.E.128", "LDG"),
        ("FMUL", "other"),
        ("HMMA.1688.F32.TF32", "HMMA"),
        ("HGMMA.64x128x16.F32", "HGMMA"),
        ("WARPGROUP.ARRIVE", "BAR"),
    ],
)
def test_opcodes_belong_to_one_class(opcode, kind):
    assert Instruction(0, f"{opcode} R1, R2").kind == kind


def test_the_inner_loop_of_ptx_is_the_one_with_most_fmas():
    ptx = "\n".join(
        [
            ".visible .entry other()",
            "{",
            "}",
            ".visible .entry kernel(.param .u64 a)",
            "{",
            "$L__BB0_1:",
            ".loc 1 2 3",
            "$L__BB0_2:",
            "fma.rn.f32 %f1, %f2, %f3, %f1;",
            "@%p1 bra $L__BB0_2;",
            "@%p2 bra $L__BB0_1;",
            "ret;",
            "}",
        ]
    )
    assert sass.ptx_loop(ptx, "kernel")[0] == "$L__BB0_2:"
    assert len(sass.ptx_loop(ptx, "kernel")) == 3
    multiplied = ptx.replace("ret;", "ret;\n").replace(
        "fma.rn.f32 %f1, %f2, %f3, %f1;", "{\nwgmma.mma_async.sync.x;\n}"
    )
    assert sass.ptx_loop(multiplied, "kernel")[2] == "wgmma.mma_async.sync.x;"
    assert sass.ptx_loop(ptx, "absent") == sass.ptx_loop(ptx, "other") == []


HOPPER = read_gpu("h100-sxm")


@pytest.mark.parametrize(
    ("registers", "static", "threads", "dynamic", "blocks", "limited_by"),
    [
        (32, 0, 256, 0, 8, ["warps", "registers"]),
        (128, 16384, 256, 0, 2, ["registers"]),
        (32, 0, 128, 100 << 10, 2, ["shared memory"]),
        (16, 0, 32, 0, 32, ["blocks"]),
    ],
)
def test_occupancy_is_what_cuda_says(calculator, registers, static, threads, dynamic, blocks, limited_by):
    found = occupancy(calculator, HOPPER, registers, static, threads, dynamic)
    assert (found["blocks"], found["limited_by"]) == (blocks, limited_by)
    assert found["percent"] == 100 * blocks * threads / 2048
    assert list(found["block_limits"]) == list(LIMITS)
    assert min(found["block_limits"].values()) == blocks


def test_every_gpu_file_says_what_its_sms_have_and_the_calculator_knows_it(calculator):
    for name in names():
        found = occupancy(calculator, read_gpu(name), 32, 0, 256, 0)
        assert 0 < found["percent"] <= 100, name


def test_an_unknown_gpu_is_one_line(calculator):
    unknown = replace(HOPPER, compute_capability="99.0")
    assert line_of(occupancy, calculator, unknown, 32, 0, 256, 0).endswith("compute capability 99.0")


def test_the_floors_are_those_of_the_roofline():
    found = floors(Shape(1000, 1000, 1000), ROUND_GPU)
    assert found["flop"] == 2e9
    assert found["minimum_bytes"] == 12e6
    assert found["compute_floor_ms"] == pytest.approx(2e9 / 25600e9 * 1e3)
    assert found["memory_floor_ms"] == pytest.approx(12e6 / 1000e9 * 1e3)


def test_accesses_are_those_of_the_worklogs():
    # 32 x 32 tiles, one result a thread: k / 16 from global memory and 2k from shared memory; a column of 8 in tiles
    # of 64: k / 32 and 9k / 8.
    small = accesses({"BM": 32, "BN": 32, "TM": 1, "TN": 1}, 4096, shared=True)
    assert (small["global_reads_per_result"], small["shared_reads_per_result"]) == (4096 / 16, 2 * 4096)
    column = accesses({"BM": 64, "BN": 64, "TM": 8, "TN": 1}, 4096, shared=True)
    assert (column["global_reads_per_result"], column["shared_reads_per_result"]) == (4096 / 32, 9 * 4096 / 8)
    assert accesses({}, 4096, shared=False)["global_reads_per_result"] == 2 * 4096
    assert math.isnan(accesses({}, 4096, shared=True)["intensity_shared"])


def test_tiles_are_read_from_the_source_and_the_variant():
    ladder = read_kernels(KERNELS)
    assert tile_of(ladder["tiled@TILE=8"], Shape.parse("1024")) == {"BM": 8, "BN": 8, "TM": 1, "TN": 1}
    assert tile_of(ladder["tiled_1d"], Shape.parse("1024"))["TN"] == 1
    assert tile_of(ladder["cublas"], Shape.parse("1024")) == {}


def test_waves_and_the_tail_of_the_last():
    found = waves(blocks=300, blocks_per_sm=2, sms=100)
    assert found == {"waves": 1.5, "tail_percent": 50.0, "balance": 1.0}
    assert waves(101, 2, 100)["balance"] == pytest.approx(101 / 200)


def test_ceilings_follow_from_the_inner_loop():
    loop = sass.code_summary(sass.inner_loop(sass.parse(LISTING)["kernel_a"]))
    found = ceilings(ROUND_GPU, Shape(1000, 1000, 1000), loop, 1.0, wavefronts=1.0)
    assert found["FP32 units"] == 25600
    assert found["issue slots"] == 12800
    assert found["load pipe"] == 25600 / 4  # a wavefront for each FFMA, of which an SM does four in a cycle
    assert set(ceilings(ROUND_GPU, Shape(8, 8, 8), None, 1.0)) == {"FP32 units", "DRAM"}


def an_inspection() -> dict:
    body = sass.parse(LISTING)["kernel_a"]
    code = {"whole": sass.code_summary(body), "loop": sass.code_summary(sass.inner_loop(body))}
    kernels = [{"symbol": "a", "kernel": "kernel_a", "code": code}, {"symbol": "b", "kernel": "b", "code": None}]
    launch = {"symbol": "a", "grid": [10, 1, 1], "block": [32, 1, 1], "dynamic_shared_bytes": 0}
    launches = {"1024": [{**launch, "symbol": "b"}, launch], "16": []}
    return {"status": "ok", "message": "", "kernels": kernels, "launches": launches, "nvcc": "", "architecture": ""}


def test_the_main_kernel_is_the_one_that_computes():
    assert multiplying_kernel(an_inspection(), "1024")[1]["kernel"] == "kernel_a"
    assert multiplying_kernel(an_inspection(), "16") is None


def test_resources_say_which_launch_computes():
    table = resource_table([an_evidence(inspection=an_inspection())])
    assert list(table.loc[table["multiplies"], "kernel"]) == ["kernel_a"]
    assert list(table["multiplies"]) == [False, True]


def test_tables_hold_the_loop_and_the_prediction():
    item = an_evidence("split_k", inspection=an_inspection())  # the addresses of its loads are not known
    table = instruction_table([item])
    assert list(table["part"]) == ["whole", "inner loop"]
    assert list(table["FFMA"]) == [3, 3]
    paper = paper_table([item], ROUND_GPU).iloc[0]
    assert paper["bound_by"] == "load pipe"
    assert paper["predicted_gflops"] == 6400
    assert math.isnan(paper["measured_gflops"])


def test_a_rung_of_another_class_has_its_floors_and_waves_on_paper_but_no_ceiling_of_ffmas():
    item = an_evidence(rung=a_rung("naive", precision="3xtf32"), inspection=an_inspection())
    own = paper_table([item], ROUND_GPU).iloc[0]
    same = paper_table([an_evidence(inspection=an_inspection())], ROUND_GPU).iloc[0]
    kept = ["flop", "minimum_bytes", "memory_floor_ms", "intensity_minimum", "blocks"]
    assert own[kept].to_list() == same[kept].to_list()
    empty = ["compute_floor_ms", "TM", "shared_reads_per_result", "ceiling_fp32_units_gflops", "predicted_gflops"]
    assert own[[*empty, "share_of_prediction", "wavefronts_per_ffma"]].isna().all()
    assert own["bound_by"] == ""


def test_the_thread_tile_of_a_rung_in_another_language_is_not_known_on_paper():
    rung = replace(a_rung("naive"), language="triton")
    own = paper_table([an_evidence(rung=rung, inspection=an_inspection())], ROUND_GPU).iloc[0]
    assert own[["TM", "TN", "shared_reads_per_result", "intensity_shared"]].isna().all()
    assert own["bound_by"] == "load pipe"
    assert own["compute_floor_ms"] > 0


def test_a_rung_of_the_ladder_has_its_inner_loop_in_sass_and_ptx(tmp_path, calculator):
    rung, gpu, nvcc = read_kernels(KERNELS)["tiled@TILE=16"], read_gpu("h100-sxm"), find_nvcc()
    build(rung, gpu, nvcc, ["-O3", "-std=c++17", "-lineinfo"], Path(tmp_path / "tiled"))
    record = inspect(Build(tmp_path / "tiled"), ["256"], gpu, tmp_path / "log", nvcc, calculator)
    launch, kernel = multiplying_kernel(record, "256")
    assert kernel["code"]["loop"]["mix"]["FFMA"] == 16
    assert launch["occupancy"]["percent"] == 100
    assert sum("FFMA" in line for line in kernel["code"]["loop_sass"]) == 16
    assert sum("fma.rn.f32" in line for line in kernel["code"]["loop_ptx"]) == 16
    lines = kernel["code"]["loop_lines"]
    (multiplying,) = (line for line in lines if line["mix"].get("FFMA"))
    assert (multiplying["file"], multiplying["mix"]["FFMA"]) == ("kernels/sgemm/tiled.cu", 16)
    assert multiplying["text"] in (ROOT / "kernels/sgemm/tiled.cu").read_text()
    assert sum(line["instructions"] for line in lines) == len(kernel["code"]["loop_sass"])


def test_a_kernel_that_no_shape_launches_is_named_and_not_disassembled(tmp_path):
    rung, gpu = read_kernels(KERNELS)["tiled@TILE=16"], read_gpu("h100-sxm")
    build(rung, gpu, find_nvcc(), ["-std=c++17"], tmp_path / "tiled")
    record = inspect(Build(tmp_path / "tiled"), ["256"], gpu, tmp_path / "log")
    code = {kernel["kernel"]: kernel["code"] for kernel in record["kernels"]}
    assert code.keys() == {"sgemm_tiled", "scale_kernel"}
    assert code["sgemm_tiled"]["loop"]
    assert code["scale_kernel"] is None


def inspected(text, shapes, folder, products=()):
    """What `inspect` says of a source at these shapes, and of these products."""
    source = os.path.relpath(write(folder / "rung.cu", text), ROOT / "kernels")
    gpu = read_gpu("h100-sxm")
    build(a_rung(source=source), gpu, find_nvcc(), ["-std=c++17"], folder / "made")
    return inspect(Build(folder / "made"), shapes, gpu, folder / "log", products=products)


ENGINE = """
#include "bulk_copy.cuh"
#include "gemm.cuh"
__global__ void with_engine(Gemm) {}
__global__ void without_engine(Gemm) {}
cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  CUtensorMap map;
  bool engine = make_tensor_map(&map, g.B, g.k, g.n, g.ldb, 16, 64, CU_TENSOR_MAP_SWIZZLE_NONE);
  return launch(engine ? with_engine : without_engine, dim3(1), dim3(32), 0, stream, g);
}
EXPORT_SGEMM(run)
"""


def test_the_launches_that_are_observed_are_those_with_the_copy_engine_where_it_can_read_the_matrix(tmp_path):
    record = inspected(ENGINE, ["64", "63"], tmp_path)
    launched = {shape: each["symbol"] for shape, (each,) in record["launches"].items()}
    assert "with_engine" in launched["64"]
    assert "without_engine" in launched["63"]


def test_the_ways_of_products_are_the_kernels_that_their_layout_leads_to(tmp_path):
    """The copy engine reads matrices whose rows begin at multiples of 16 bytes, gaps counted in."""
    products = [Case(Shape.parse("64")), Case(Shape.parse("64"), padding=(1, 1, 1)), Case(Shape.parse("63"), padding=1)]
    ways = inspected(ENGINE, [], tmp_path, products)["ways"]
    assert [Case.of(each) for each in ways] == products
    assert [each["kernels"] for each in ways] == [["with_engine"], ["without_engine"], ["with_engine"]]


PERSISTENT = """
#include "gemm.cuh"
__global__ void sgemm_each(Gemm) {}
__global__ void sgemm_persistent(Gemm) {}
__global__ void sgemm_few(Gemm) {}
__global__ void sgemm_endless(Gemm) {}
cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  int sms = 0;
  cudaError_t error = sm_count(&sms);
  unsigned tiles = tile_grid(g, 64, 32).x;
  launch(sgemm_each, dim3(tiles), dim3(32), 0, stream, g);
  if (2 * tiles <= static_cast<unsigned>(sms)) {
    return launch(sgemm_few, dim3(sms), dim3(32), 0, stream, g);
  }
  launch(sgemm_endless, dim3(2 * sms), dim3(32), 0, stream, g);
  return launch(sgemm_persistent, dim3(std::min(tiles, static_cast<unsigned>(sms))), dim3(32), 0, stream, g);
}
EXPORT_SGEMM(run)
"""


def test_the_tiles_of_a_persistent_kernel_are_its_blocks_where_sms_are_no_limit(tmp_path):
    record = inspected(PERSISTENT, ["2048", "128"], tmp_path)
    found = {
        shape: {re.search(r"sgemm_([a-z]+)", each["symbol"])[1]: each["tiles"] for each in launches}
        for shape, launches in record["launches"].items()
    }
    assert found["2048"] == {"each": 2048, "endless": None, "persistent": 2048}
    assert found["128"] == {"each": 8, "few": None}
    assert record["workspace_bytes"] == {"2048": 0, "128": 0}


def test_the_work_of_tensor_core_instructions_follows_from_their_names():
    group = "16b0  HGMMA.64x128x16.F32 R24, gdesc[UR20], RZ, !UPT"
    warp = "0920  @P0 HMMA.1688.F32.TF32 R4, R8, R12, R4"
    assert sass.tensor_work([group, "0010  FFMA R1, R2, R3, R1"]) == ("FP16", 2 * 64 * 128 * 16 / 4)
    assert sass.tensor_work([warp] * 3) == ("TF32", 3 * 2 * 16 * 8 * 8)
    assert sass.tensor_work(["0000  HGMMA.64x256x16.F32.BF16 R24, gdesc[UR20], R24"])[0] == "BF16"
    assert sass.tensor_work([group, warp])[0] == ""
    assert sass.tensor_work(["0010  FFMA R1, R2, R3, R1"]) == ("", 0)


def test_what_cannot_be_disassembled_is_one_line_that_names_it(tmp_path):
    nothing = write(tmp_path / "library.so", "no library")
    line = line_of(sass.disassemble, nothing, ["kernel"])
    assert f"cannot read {nothing}: " in line
    assert line.endswith("it has to be of nvcc's own toolkit")
