"""Rungs in Triton and cuTile: compiled without a GPU behind the same contract, inspected, and checked on the CPU."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
import yaml
from conftest import a_check, an_evidence, line_of, write
from ladder.build import sass
from ladder.build.compile import NO_COMPILER, Build, build
from ladder.build.inspection import inspect
from ladder.build.languages import compile as languages
from ladder.build.languages.compile import compiler_version
from ladder.build.library import Library
from ladder.commands import bench
from ladder.config import gpus, wrapper
from ladder.config.kernels import read_kernels
from ladder.config.plan import KERNELS, plan
from ladder.config.sources import source_digest
from ladder.measure.check.emulate import emulate_source
from ladder.model.cases import Case
from ladder.model.rung import TunedClass
from ladder.model.shape import Shape
from ladder.show.pages import own_words, page
from ladder.show.summary import FAILURES
from ladder.system.paths import ROOT
from ladder.tables.every import all_tables

H100 = gpus.read_gpu("h100-sxm")
FLAGS = ["-O3", "-std=c++17"]
LADDERS = {language: ROOT / f"kernels/{language}/kernels.yaml" for language in ("triton", "cutile")}
CASES = [
    Case(Shape(33, 65, 17), alpha=-1.25, beta=0.75, padding=3),
    Case(Shape(64, 64, 64)),
    Case(Shape(1, 130, 33), alpha=0.5, beta=0, offset=1),
    Case(Shape(5, 0, 7)),
    Case(Shape(31, 33, 0), beta=0.5),
]


def rungs_of(language: str) -> dict:
    ours = read_kernels(KERNELS)
    return {name: rung for name, rung in read_kernels(LADDERS[language], ours).items() if name not in ours}


ALL = {name: rung for language in LADDERS for name, rung in rungs_of(language).items()}


def needs(language: str) -> None:
    if why := languages.why_no_compiler(language):
        pytest.skip(why)


@pytest.mark.parametrize("language", LADDERS)
def test_a_ladder_of_each_language_has_the_same_four_ideas(language):
    rungs = rungs_of(language).values()
    assert [rung.name.partition("_")[2] for rung in rungs] == ["tiled", "3xtf32", "persistent", "tf32"]
    assert [rung.precision for rung in rungs] == ["fp32", "3xtf32", "3xtf32", "tf32"]
    assert all(own_words(rung) for rung in rungs)


def test_a_ladder_in_the_project_keeps_its_records_beside_all_others():
    run = plan({"gpu": "h100-sxm", "measure": False, "ladder": "kernels/triton/kernels.yaml"})
    assert (run.results, run.folder) == (ROOT / "results", "selected")
    assert run.by_name("triton_tiled").before == "async_copy"


@pytest.mark.parametrize("name", ALL)
def test_every_rung_compiles_is_launched_by_the_contract_and_is_inspected(name, tmp_path, nvcc, calculator):
    rung = ALL[name]
    needs(rung.language)
    record = build(rung, H100, nvcc, FLAGS, tmp_path)
    assert (record["status"], record["message"]) == ("ok", "")
    assert any(flag.startswith(f"{rung.language} ") for flag in record["flags"])
    found = inspect(Build(tmp_path), ["1024", "1023"], H100, tmp_path / "log", nvcc, calculator)
    (aligned,), (other,) = found["launches"]["1024"], found["launches"]["1023"]
    assert (aligned["symbol"], other["symbol"]) == ("gemm_aligned", "gemm")
    values = rung.wrap["parameters"]
    tiles = -(-1024 // values["BM"]) * -(-1024 // values["BN"])
    assert aligned["grid"] == [H100.sms if "persistent" in name else tiles, 1, 1]
    assert aligned["block"][0] % 32 == 0
    kernel = next(kernel for kernel in found["kernels"] if kernel["symbol"] == "gemm_aligned")
    mix = kernel["code"]["whole"]["mix"]
    on_tensor_cores = mix.get("HGMMA", 0) + mix.get("HMMA", 0) > 0
    assert on_tensor_cores == (rung.precision != "fp32")
    assert kernel["registers"] <= 255
    assert 0 < aligned["occupancy"]["percent"] <= 100
    code = kernel["code"]
    assert sum(line["instructions"] for line in code["loop_lines"]) == code["loop"]["instructions"]
    multiplying = [line for line in code["loop_lines"] if re.search(r"\b(dot|mma)\(", line["text"])]
    assert multiplying
    for line in multiplying:
        source = ROOT / line["file"]
        assert source.parent == ROOT / "kernels" / rung.language
        assert source.read_text().splitlines()[line["line"] - 1].strip() == line["text"]
    of_them = sum(line["instructions"] for line in multiplying)
    assert of_them > code["loop"]["instructions"] / 10
    assert bool(code["loop_ptx"]) == (rung.language == "triton")
    shown = page(
        rung, found, all_tables([an_evidence(rung=rung, inspection=found, check=None)], H100, "cublas", "naive")
    )
    assert f"Compiled by {compiler_version(rung.language)}, and its host code by nvcc" in shown
    largest = max(multiplying, key=lambda line: line["instructions"])
    assert f"| {largest['file']}:{largest['line']} |" in shown


def test_lines_that_move_in_a_shared_file_are_those_of_the_next_build(tmp_path, nvcc):
    needs("triton")
    shutil.copytree(ROOT / "kernels/triton", tmp_path / "kernels/mine")
    tiles = tmp_path / "kernels/mine/tiles.py"
    rung = replace(ALL["triton_tiled"], source=str(tmp_path / "kernels/mine/tiled.py"))
    found = []
    for text in (tiles.read_text(), "# moved\n" + tiles.read_text()):
        tiles.write_text(text)
        build(rung, H100, nvcc, FLAGS, tmp_path / "b")
        launches = Library(tmp_path / "b/library.so").launches(Shape.parse("1024"), H100.sms)
        (body,) = sass.disassemble(tmp_path / "b/library.so", {launches[0].kernel}, nvcc).values()
        found.append({each.line for each in body if each.opcode == "FFMA"})
    assert found[1] == {line + 1 for line in found[0]}


@pytest.mark.parametrize("language", LADDERS)
def test_a_compiler_that_passes_other_parameters_is_one_line(language, tmp_path, nvcc, monkeypatch):
    needs(language)
    passed = wrapper.passed_parameters(ALL[f"{language}_tiled"])
    monkeypatch.setattr("ladder.build.compile.passed_parameters", lambda rung: passed - 1)
    record = build(ALL[f"{language}_tiled"], H100, nvcc, FLAGS, tmp_path)
    differ = f"it takes {passed} parameters, and the wrapper passes {passed - 1}"
    remedy = f"make env EXTRA={language} installs one whose kernels it knows"
    message = f"tiled.py: compiled by {compiler_version(language)} {differ}; {remedy}"
    assert (record["status"], record["message"]) == ("failed", message)


@pytest.mark.parametrize("name", [name for name in ALL if name.startswith("triton")])
def test_every_rung_in_triton_passes_the_check_in_the_interpreter(name, tmp_path):
    needs("triton")
    record = emulate_source(ALL[name], CASES, 1, 120, tmp_path / "log")
    assert record["message"] == ""
    assert (record["status"], len(record["cases"])) == ("emulated", len(CASES))


def test_a_wrong_kernel_in_triton_is_found_in_the_interpreter(tmp_path):
    needs("triton")
    shutil.copytree(ROOT / "kernels/triton", tmp_path, dirs_exist_ok=True)
    tiles = tmp_path / "tiles.py"
    tiles.write_text(tiles.read_text().replace("p + steps[None, :] < k", "p + steps[None, :] < k - 1"))
    wrong = replace(ALL["triton_tiled"], source=str(tmp_path / "tiled.py"))
    assert source_digest(wrong) != source_digest(ALL["triton_tiled"])
    record = emulate_source(wrong, CASES, 1, 120, tmp_path / "log")
    assert record["status"] == "failed"


def test_a_kernel_in_cute_dsl_is_a_cubin_that_is_wrapped_and_inspected_by_line(tmp_path, nvcc):
    extra = languages.extra_folder("cute")
    if not extra.is_dir():
        pytest.skip("needs CuTe DSL, which is not installed; make env EXTRA=cute installs it")
    shutil.copytree(ROOT / "kernels/cute", tmp_path / "kernels/cute")
    command = [sys.executable, tmp_path / "kernels/cute/tiled.py", "sm_90a"]
    paths = f"{extra}:{extra / 'nvidia_cutlass_dsl/dsl_packages'}"
    subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, check=True)
    rung = read_kernels(tmp_path / "kernels/cute/kernels.yaml", read_kernels(KERNELS))["cute_tiled"]
    assert build(rung, H100, nvcc, FLAGS, tmp_path / "b")["message"] == ""
    found = inspect(Build(tmp_path / "b"), ["1000x24x7"], H100, tmp_path / "log", nvcc)
    assert found["compiler"] == "others (tiled.cubin)"
    (launch,) = found["launches"]["1000x24x7"]
    assert (launch["symbol"], launch["grid"], launch["block"]) == ("gemm_0", [2, 63, 1], [16, 16, 1])
    (kernel,) = (kernel for kernel in found["kernels"] if kernel["symbol"] == "gemm_0")
    (line,) = (each for each in kernel["code"]["loop_lines"] if each["mix"].get("FFMA"))
    assert (line["file"], line["text"]) == ("kernels/cute/tiled.py", "total += tile_a[y, q] * tile_b[q, x]")
    assert line["mix"] == {"FFMA": 16, "LDS": line["mix"]["LDS"]}


def test_each_tuned_class_has_images_of_its_own(tmp_path, nvcc):
    needs("triton")
    tuned = (TunedClass(1e8, {"BM": "64", "BN": "32"}), TunedClass(float("inf"), {"BM": "128", "BN": "32"}))
    build(replace(ALL["triton_tf32"], tuned=tuned), H100, nvcc, FLAGS, tmp_path)
    library = Library(tmp_path / "library.so")
    found = {shape: library.launches(Shape.parse(shape), 132)[0] for shape in ("256", "512")}
    assert {shape: (launch.kernel, launch.grid[0]) for shape, launch in found.items()} == {
        "256": ("gemm_0_aligned", 32),
        "512": ("gemm_1_aligned", 64),
    }


@pytest.mark.parametrize("language", LADDERS)
def test_without_its_compiler_a_rung_says_so_in_one_line_and_nothing_fails(language, tmp_path, nvcc, monkeypatch):
    monkeypatch.setattr(languages, "extra_folder", lambda _: tmp_path / "none")
    monkeypatch.setattr(languages, "_is_importable", lambda _: False)
    rung = next(iter(rungs_of(language).values()))
    record = build(rung, H100, nvcc, FLAGS, tmp_path / "b")
    assert record["status"] == NO_COMPILER
    assert record["message"].endswith(f"is not installed; make env EXTRA={language} installs it")
    evidence = an_evidence(
        rung=rung, inspection=inspect(Build(tmp_path / "b"), ["1024"], H100, tmp_path / "log", nvcc), check=None
    )
    assert evidence.status == NO_COMPILER
    assert NO_COMPILER not in FAILURES
    recorded = replace(evidence, check=a_check())
    assert (recorded.status, recorded.message) == ("not recorded", "")


def test_a_compiler_that_is_installed_later_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(languages, "extra_folder", lambda language: tmp_path / language)
    monkeypatch.setattr(languages, "_is_importable", lambda _: False)
    before = languages.state_of_compiler("triton")
    (tmp_path / "triton").mkdir()
    after = languages.state_of_compiler("triton")
    assert before.startswith("needs the compiler of Triton")
    assert after != before
    assert after == languages.state_of_compiler("triton")
    assert languages.state_of_compiler("cuda") == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"language": "cuda"}, "mine.language: 'cuda' is not that of a .py file; mend language or source"),
        ({"source": "tiled.cu"}, "mine.language: 'triton' is not that of a .cu file; mend language or source"),
        ({"block": [32]}, "mine.wrap.block: the compiler of triton decides it; leave it out"),
        ({"source": "broken.py"}, "broken.py: line 1: is no Python: "),
    ],
)
def test_what_a_rung_in_a_language_cannot_be_is_one_line(tmp_path, change, message):
    entry = yaml.safe_load(LADDERS["triton"].read_text())["triton_tiled"]
    write(tmp_path / "tiled.py", "")
    write(tmp_path / "tiled.cu", "")
    write(tmp_path / "broken.py", "def (")
    entry["wrap"] |= {key: value for key, value in change.items() if key == "block"}
    entry |= {key: value for key, value in change.items() if key != "block"}
    path = write(tmp_path / "kernels.yaml", yaml.safe_dump({"mine": entry}))
    ours = read_kernels(KERNELS)
    assert message in line_of(lambda: source_digest(read_kernels(path, ours)["mine"]))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tl.program_id(0)", "tl.program_id(0) + missing", "missing"),
        (
            "BK: tl.constexpr",
            "BK: tl.constexpr, EXTRA: tl.constexpr",
            "the parameter EXTRA is neither among arguments nor",
        ),
        ("def gemm", "def other", "has no kernel gemm; mend kernels.yaml: wrap.kernel"),
        ("@triton.jit\n", "", "gemm: is no kernel of Triton; put @triton.jit above it"),
        ("import triton\n", "import triton\n\n1 / 0\n", "line 8: division by zero"),
        ("import triton\n", "import triton, sys\n\nsys.exit(3)\n", "line 8: SystemExit 3"),
        ("from tiles", "from tile", "line 8: No module named 'tile'"),
    ],
)
def test_what_the_compiler_refuses_is_one_line_of_the_record(tmp_path, nvcc, old, new, message):
    needs("triton")
    shutil.copytree(ROOT / "kernels/triton", tmp_path, dirs_exist_ok=True)
    source = tmp_path / "tiled.py"
    source.write_text(source.read_text().replace(old, new))
    record = build(replace(ALL["triton_tiled"], source=str(source)), H100, nvcc, FLAGS, tmp_path / "b")
    assert record["status"] == "failed"
    assert message in record["message"]
    assert record["message"].startswith(f"{source}: ")


@pytest.mark.parametrize(
    ("wrap", "message"),
    [
        ({"arguments": [*"ABCmnk"]}, "gemm: the parameter lda is neither among arguments nor parameters"),
        (
            {"arguments": [*ALL["triton_tiled"].wrap["arguments"], "null"]},
            "gemm: takes 11 arguments beside constants, and kernels.yaml gives 12; mend wrap.arguments",
        ),
        (
            {"parameters": {**ALL["triton_tiled"].wrap["parameters"], "BM": 60}},
            "`rows = row * BM + tl.arange(0, BM)`: arange's range must be a power of 2",
        ),
        (
            {"parameters": {**ALL["triton_tiled"].wrap["parameters"], "WARPS": 3}},
            "num_warps must be a power of 2",
        ),
    ],
)
def test_what_kernels_yaml_gives_a_kernel_in_triton_and_it_cannot_take_is_one_line(tmp_path, nvcc, wrap, message):
    needs("triton")
    rung = ALL["triton_tiled"]
    record = build(replace(rung, wrap={**rung.wrap, **wrap}), H100, nvcc, FLAGS, tmp_path)
    assert (record["status"], record["message"]) == ("failed", f"kernels/triton/tiled.py: {message}")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("@ct.kernel\n", "", "gemm: is no kernel of cuTile; put @ct.kernel above it"),
        ("ct.mma(", "ct.mmma(", "line 20 of tiled.py: Module 'cuda.tile' has no attribute 'mmma'"),
        ("def gemm", "def other", "has no kernel gemm; mend kernels.yaml: wrap.kernel"),
    ],
)
def test_what_the_compiler_of_cutile_refuses_is_one_line_of_the_record(tmp_path, nvcc, old, new, message):
    needs("cutile")
    shutil.copytree(ROOT / "kernels/cutile", tmp_path, dirs_exist_ok=True)
    source = tmp_path / "tiled.py"
    source.write_text(source.read_text().replace(old, new))
    record = build(replace(ALL["cutile_tiled"], source=str(source)), H100, nvcc, FLAGS, tmp_path / "b")
    assert (record["status"], record["message"]) == ("failed", f"{source}: {message}")


@pytest.mark.parametrize("extra", ["triton", "cutile", "cute"])
def test_make_installs_the_compiler_of_a_language_beside_the_environment(extra):
    planned = subprocess.run(
        ["make", "-nB", "env", f"EXTRA={extra}"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert f"--target .venv/extra/{extra} -r envs/{extra}.txt" in planned.stdout


def test_an_environment_that_make_does_not_know_is_one_line():
    made = subprocess.run(["make", "-n", "env", "EXTRA=tritn"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 2
    assert "EXTRA=tritn is no optional environment; give one of: triton cutile cute slurm." in made.stderr
    assert len(made.stderr.splitlines()) == 1


def test_bench_says_what_installs_a_missing_compiler(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(languages, "extra_folder", lambda _: tmp_path / "none")
    monkeypatch.setattr(languages, "_is_importable", lambda _: False)
    assert bench.main(["triton_tiled", "64", "-C", "gpu=h100-sxm", "ladder=kernels/triton/kernels.yaml"]) == 1
    message = "needs the compiler of Triton, which is not installed; make env EXTRA=triton installs it"
    assert capsys.readouterr().err.splitlines()[-1] == f"bench: triton_tiled: {message}"
