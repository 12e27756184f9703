"""The toolchain: what a rung is made of, what nvcc makes of it, and what its words mean."""

import os
import re
import shutil
from pathlib import Path

import pytest
from conftest import REPOSITORY, ROUND_GPU, a_build, a_check, a_rung, line_of, write
from ladder.build import resources, toolchain
from ladder.build.compile import Build, build, compile_command, compile_rung, why_not_measured
from ladder.build.inspection import inspect
from ladder.build.library import Library, Operands
from ladder.build.resources import resource_report, too_many_registers
from ladder.build.toolchain import (
    Nvcc,
    find_nvcc,
    find_tool,
    require_architecture,
    require_tool,
    run_compiler,
    supported_architectures,
    tool_beside,
)
from ladder.config import gpus
from ladder.config.sources import source_digest, sources
from ladder.model.shape import Shape
from ladder.records.provenance import settings_digest
from ladder.system.paths import ROOT

FLAGS = ["-O3", "-std=c++17", "-lineinfo"]
OF_CPP20 = """
#include "gemm.cuh"
template <std::floating_point T> T twice(T x) { return 2 * x; }
cudaError_t run(const Gemm& g, void*, cudaStream_t) { return twice(g.alpha) == 0.0f ? cudaSuccess : cudaErrorUnknown; }
EXPORT_SGEMM(run)
"""
NVCC = Nvcc(Path("/opt/nvcc"), "13.0.88", ("-L/opt/lib",))


# Sources


@pytest.fixture
def tree(project):
    """A rung that includes outer.cuh, which includes inner.cuh; lone.cuh is nobody's."""
    include = project / "kernels/include"
    write(include / "outer.cuh", '#pragma once\n#  include "inner.cuh"\n')
    write(include / "inner.cuh", '#pragma once\n#include "outer.cuh"\n')
    write(include / "lone.cuh", "#pragma once\n")
    write(
        project / "kernels/sgemm/naive.cu",
        '// #include "lone.cuh"\n#include <cuda_runtime.h>\n#include "outer.cuh"\n#include "missing.cuh"\n',
    )
    return project / "kernels"


def test_a_rungs_sources_are_its_file_and_what_that_includes_directly_or_not(tree):
    names = ["sgemm/naive.cu", "include/inner.cuh", "include/outer.cuh"]
    assert sources(a_rung()) == [tree / name for name in names]


def test_the_real_rungs_depend_on_the_contract():
    names = [path.relative_to(REPOSITORY / "kernels").as_posix() for path in sources(a_rung("naive"))]
    assert names == ["sgemm/naive.cu", "include/gemm.cuh", "include/launch.cuh"]


@pytest.mark.parametrize(
    ("file", "changes"),
    [("sgemm/naive.cu", True), ("include/outer.cuh", True), ("include/inner.cuh", True), ("include/lone.cuh", False)],
)
def test_the_source_digest_follows_the_content_of_what_is_included(tree, file, changes):
    before = source_digest(a_rung())
    with (tree / file).open("a") as text:
        text.write("int more;\n")
    assert (source_digest(a_rung()) != before) is changes


def test_the_source_digest_follows_the_macros(tree):
    macros = [{}, {"TILE": "8"}, {"TILE": "16"}, {"TILE": "8", "X": "1"}, {"TILE8": "1"}]
    assert len({source_digest(a_rung(macros=each)) for each in macros}) == len(macros)


# Finding tools


@pytest.fixture
def no_tools(monkeypatch):
    """A machine without NVIDIA's tools."""
    monkeypatch.setattr(toolchain, "wheel_folders", lambda: [])
    monkeypatch.setattr(toolchain, "TOOLKITS", ())
    monkeypatch.setenv("PATH", "")


def program(folder: Path, name: str, text: str = "#!/bin/sh\n") -> Path:
    path = write(folder / name, text)
    path.chmod(0o755)
    return path


def test_a_tool_that_is_nowhere_is_named_with_the_remedy(no_tools):
    assert find_tool("ncu") is None
    assert line_of(require_tool, "nvcc") == (
        "nvcc: not found; `make env` installs CUDA 13's, and a toolkit has CUDA 12's (docs/cuda12.md): put it "
        "on the PATH, or set config/config.yaml: compile.nvcc"
    )


def test_a_configured_tool_that_is_no_program_is_an_error_even_where_another_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(program(tmp_path, "ncu").parent))
    assert "'/no/such/ncu' is no program" in line_of(find_tool, "ncu", "/no/such/ncu")


def test_a_tool_beside_nvcc_comes_before_all_others(tmp_path, monkeypatch, no_tools):
    other = program(tmp_path / "path", "cuobjdump")
    monkeypatch.setenv("PATH", str(other.parent))
    nvcc = Nvcc(program(tmp_path / "toolkit", "nvcc"), "12.4.131", ())
    assert tool_beside(nvcc, "cuobjdump") == tool_beside(None, "cuobjdump") == other
    own = program(tmp_path / "toolkit", "cuobjdump")
    assert tool_beside(nvcc, "cuobjdump") == own


def test_a_tool_of_the_environment_comes_before_the_paths_and_that_before_a_toolkits(tmp_path, monkeypatch, no_tools):
    found = {place: program(tmp_path / place, "nvcc") for place in ("toolkit", "path", "wheel", "own")}
    monkeypatch.setattr(toolchain, "TOOLKITS", (str(tmp_path / "toolkit"),))
    assert find_tool("nvcc") == found["toolkit"]
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert find_tool("nvcc") == found["path"]
    monkeypatch.setattr(toolchain, "wheel_folders", lambda: [tmp_path / "wheel"])
    assert find_tool("nvcc") == found["wheel"]
    assert find_tool("nvcc", str(found["own"])) == found["own"]


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 3\n", "#!/bin/sh\necho something else\n"], ids=["fails", "other"])
def test_an_nvcc_that_does_not_answer_is_named(tmp_path, text):
    path = program(tmp_path, "nvcc", text)
    assert line_of(find_nvcc, str(path)) == (
        f"{path}: does not answer --version; set compile.nvcc to another nvcc, or auto"
    )


def test_a_toolkits_nvcc_needs_no_folders_of_the_wheels(tmp_path):
    path = program(tmp_path, "nvcc", "#!/bin/sh\necho 'Cuda compilation tools, release 12.4, V12.4.131'\n")
    assert find_nvcc(str(path)) == Nvcc(path, "12.4.131", ())


# Architectures


@pytest.fixture
def cuda13(monkeypatch):
    monkeypatch.setattr(toolchain, "supported_architectures", lambda nvcc: {"sm_75", "sm_90", "sm_100"})


def test_a_gpu_that_nvcc_no_longer_knows_is_sent_to_the_other_environment(cuda13):
    assert line_of(require_architecture, NVCC, gpus.read_gpu("v100")) == (
        "config/gpus/v100.yaml: architecture: nvcc 13.0.88 does not compile for sm_70; "
        "use CUDA 12: make env ENV=cuda12 (envs/cuda12.txt), with a toolkit's nvcc (docs/cuda12.md)"
    )


def test_a_gpu_that_is_newer_than_nvcc_needs_a_newer_nvcc(cuda13):
    assert line_of(require_architecture, NVCC, gpus.read_gpu("rtx-5090")) == (
        "config/gpus/rtx-5090.yaml: architecture: nvcc 13.0.88 does not compile for sm_120a; "
        "set compile.nvcc to a newer nvcc"
    )


@pytest.mark.parametrize("name", ["t4", "h100-sxm", "b200"])
def test_an_architecture_with_accelerated_features_is_known_by_its_number(cuda13, name):
    require_architecture(NVCC, gpus.read_gpu(name))


# Reading the compiler's words


LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z11sgemm_naive4Gemm' for 'sm_90a'
ptxas info    : Function properties for _Z11sgemm_naive4Gemm
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers
ptxas info    : Compile time = 64.892 ms
ptxas info    : Compiling entry function '_Z11sgemm_tiled4Gemm' for 'sm_90a'
ptxas info    : Function properties for _Z11sgemm_tiled4Gemm
    16 bytes stack frame, 24 bytes spill stores, 40 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 16 bytes cumulative stack size, 8192 bytes smem, 456 bytes cmem[0]
ptxas info    : Compile time = 22.288 ms
"""


def test_the_resource_report_has_each_kernels_registers_shared_memory_stack_and_spills():
    assert resource_report(LOG) == {
        "_Z11sgemm_naive4Gemm": {
            "stack_bytes": 0,
            "spill_store_bytes": 0,
            "spill_load_bytes": 0,
            "registers": 32,
            "static_shared_bytes": 0,
        },
        "_Z11sgemm_tiled4Gemm": {
            "stack_bytes": 16,
            "spill_store_bytes": 24,
            "spill_load_bytes": 40,
            "registers": 255,
            "static_shared_bytes": 8192,
        },
    }


def test_a_log_without_kernels_reports_none():
    assert resource_report("ptxas info    : 0 bytes gmem\n") == {}


# A warp of 255 registers a thread has 256 * 32 of the 65536, of 32 registers 32 * 32.
@pytest.mark.parametrize(
    ("blocks", "wrong"),
    [
        ({"_Z11sgemm_tiled4Gemm": 256, "_Z11sgemm_naive4Gemm": 1024}, ""),
        ({"_Z11sgemm_naive4Gemm": 1024, "_Z11sgemm_tiled4Gemm": 257}, "sgemm_tiled is launched with 257 threads"),
        ({"own::sgemm_tiled<32, float(4)>": 512}, "sgemm_tiled is launched with 512 threads"),
        ({"_ZN12_GLOBAL__N_111sgemm_tiledE4Gemm": 512}, "a thread 255 registers: 131072 are more than the 65536"),
        ({"another": 1024}, ""),
    ],
)
def test_a_block_with_more_registers_than_an_sm_has_is_named(blocks, wrong):
    found = too_many_registers(blocks, LOG)
    assert (wrong in found, bool(found)) == (True, bool(wrong))


def test_of_kernels_of_one_name_the_one_with_the_fewest_registers_counts():
    log = LOG.replace("_Z11sgemm_naive4Gemm", "_Z11sgemm_tiledILi1EEv4Gemm")
    assert not too_many_registers({"sgemm_tiled<T>": 1024}, log)
    assert too_many_registers({"_Z11sgemm_tiled4Gemm": 1024}, log)


@pytest.fixture
def compiler(tmp_path):
    """A command that says this and ends so: a status, or a signal."""

    def make(log: str, end: str = "exit 1") -> list[str]:
        write(tmp_path / "log", log)
        write(tmp_path / "compiler", f"#!/bin/sh\ncat {tmp_path}/log >&2\n{end}\n").chmod(0o755)
        return [str(tmp_path / "compiler")]

    return make


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (
            'a.cu(3): warning #177-D: error unused\n\na.cu(7): error: expected a ";"\n\n1 error detected',
            'a.cu(7): error: expected a ";"',
        ),
        (
            "In file included from a.cu:1:\nkernels/a.cu:2:10: fatal error: b.h: No such file\n",
            "kernels/a.cu:2:10: fatal error: b.h: No such file",
        ),
        (
            'a.cu(4): error: static assertion failed with "out of memory"\n',
            'a.cu(4): error: static assertion failed with "out of memory"',
        ),
        ("a.cu:4: error: #error Killed\n", "a.cu:4: error: #error Killed"),
        (
            "ptxas error   : Entry function 'f' uses too much shared data (0x10000 bytes, 0xc000 max)\n",
            "ptxas error   : Entry function 'f' uses too much shared data (0x10000 bytes, 0xc000 max)",
        ),
        ("/usr/bin/ld: a.o: undefined reference to `f'\n", "/usr/bin/ld: a.o: undefined reference to `f'"),
    ],
)
def test_the_first_error_is_the_line_that_says_where(compiler, log, line):
    assert run_compiler(compiler(log), Path("a.cu"))[1] == line


def test_a_compiler_speaks_english_whatever_the_users_language(tmp_path, monkeypatch):
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    says = 'test "$LC_ALL" = C && word=error || word=Fehler; echo "a.cu:4: $word: no"; exit 1'
    command = write(tmp_path / "compiler", f"#!/bin/sh\n{says}\n")
    command.chmod(0o755)
    assert run_compiler([str(command)], Path("a.cu"))[1] == "a.cu:4: error: no"


def test_a_source_that_only_a_newer_standard_of_cpp_compiles_is_told_so(tmp_path):
    rung = a_rung(source=str(write(tmp_path / "new.cu", f"#include <concepts>\n{OF_CPP20}")))
    record = compile_rung(rung, ROUND_GPU.target, find_nvcc(), [*FLAGS, "-cubin"], tmp_path / "library.so")
    assert record["message"].endswith(
        "; as c++20 it compiles, but rungs are compiled as c++17: leave out what is newer"
    )
    rung = a_rung(source=str(write(tmp_path / "wrong.cu", f"{OF_CPP20}}}")))
    record = compile_rung(rung, ROUND_GPU.target, find_nvcc(), [*FLAGS, "-cubin"], tmp_path / "library.so")
    assert record["status"] == "failed"
    assert "c++20" not in record["message"]


@pytest.mark.parametrize(
    ("log", "end"),
    [
        ("nvcc fatal   : Unsupported gpu architecture 'sm_1'\n", "exit 1"),
        ("sh: 1: g++: not found\n", "exit 127"),
        ("g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\n", "exit 1"),
        ("nvcc error   : 'cicc' died due to signal 9 (Kill signal)\n", "exit 1"),
        ("a.cu(3): warning #177-D: an error is unused\n", "kill -9 $$"),
        ("a.cu:9:1: fatal error: error writing to /tmp/a.s: No space left on device\n", "exit 1"),
        ("ptxas fatal   : Memory allocation failure\n", "exit 1"),
        ("cc1plus: out of memory allocating 65536 bytes\n", "exit 1"),
        ("", "exit 1"),
    ],
)
def test_what_the_machine_did_to_a_compiler_is_no_error_of_the_source(compiler, log, end):
    assert "that is no error of a.cu" in line_of(run_compiler, compiler(log, end), Path("a.cu"))


def test_a_compiler_that_is_not_there_is_no_error_of_the_source(tmp_path):
    assert "cannot be run" in line_of(run_compiler, [str(tmp_path / "none")], Path("a.cu"))


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="binutils' c++filt is not installed")
def test_symbols_are_demangled():
    assert resources.demangled(["_Z11sgemm_naive4Gemm"]) == {"_Z11sgemm_naive4Gemm": "sgemm_naive(Gemm)"}


def test_without_binutils_a_symbol_is_its_own_name(no_tools):
    assert resources.demangled(["_Z1a"]) == {"_Z1a": "_Z1a"}


# Compiling


def test_the_command_has_the_architecture_the_macros_and_the_flags_asked_for():
    rung = a_rung("tiled@TILE=8,WIDE=1")
    command = compile_command(rung, ROUND_GPU, NVCC, ["-O1"], Path("out.so"))
    assert command[:2] == ["/opt/nvcc", "-O1"]
    assert "-gencode=arch=compute_90a,code=sm_90a" in command
    assert command[command.index("-DTILE=8") + 1] == "-DWIDE=1"
    assert f"-L{os.path.relpath('/opt/lib', ROOT)}" in command
    assert command[command.index("-o") + 1 :] == ["out.so", "kernels/sgemm/tiled.cu", "-ldl"]


def test_a_newer_glibc_that_declares_rsqrt_compiles(tmp_path, nvcc, monkeypatch):
    chosen = "__GLIBC_USE_IEC_60559_FUNCS_EXT_C23"
    rsqrt = "#if __GLIBC_USE (IEC_60559_FUNCS_EXT_C23)\n__MATHCALL (rsqrt,, (_Mdouble_ __x));\n#endif\n"
    for name, more in {"libc-header-start": f"#undef {chosen}\n#define {chosen} 1\n", "mathcalls": rsqrt}.items():
        write(tmp_path / f"bits/{name}.h", f"#include_next <bits/{name}.h>\n{more}")
    monkeypatch.setenv("CPATH", str(tmp_path))
    record = build(a_rung("naive"), gpus.read_gpu("t4"), nvcc, FLAGS, tmp_path / "naive")
    assert record["status"] == "ok", record["log"]


BROKEN = """\
#include "gemm.cuh"

__global__ void sgemm_broken(Gemm g) { g.C[0] = undeclared; }
EXPORT_SGEMM(run)
"""


def test_where_nvcc_compiles_nothing_no_rung_is_said_not_to_compile(tmp_path, nvcc):
    text = line_of(build, a_rung("naive"), gpus.read_gpu("t4"), nvcc, ["-nonsense"], tmp_path / "naive")
    assert "nvcc fatal   : Unknown option '-nonsense'; that is no error of naive.cu: install g++, " in text
    assert not (tmp_path / "naive/compile.json").exists()


def test_a_source_that_does_not_compile_fails_with_its_file_and_line(project, nvcc):
    shutil.rmtree(project / "kernels/include")
    (project / "kernels/include").symlink_to(REPOSITORY / "kernels/include")
    write(project / "kernels/sgemm/broken.cu", BROKEN)
    made = project / "build/broken"
    record = build(a_rung("broken"), gpus.read_gpu("t4"), nvcc, FLAGS, made)
    assert record["status"] == "failed"
    assert record["message"] == 'kernels/sgemm/broken.cu(3): error: identifier "undeclared" is undefined'
    assert str(project) not in record["log"]
    assert not Build(made).library.exists()
    assert Build(made).record["message"] == record["message"]
    assert why_not_measured(Build(made), None) == f"it does not compile: {record['message']}"
    inspected = inspect(Build(made), ["8"], ROUND_GPU, project / "log")
    assert (inspected["status"], inspected["kernels"], inspected["launches"]) == ("failed", [], {})


ARCHITECTURES = sorted({gpus.read_gpu(name).architecture for name in gpus.names()})


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_first_rung_compiles_for_every_gpu_that_this_nvcc_knows(tmp_path, nvcc, architecture):
    one = next(found for name in gpus.names() if (found := gpus.read_gpu(name)).architecture == architecture)
    if architecture.rstrip("a") not in supported_architectures(nvcc):
        assert f"does not compile for {architecture}" in line_of(require_architecture, nvcc, one)
        return
    require_architecture(nvcc, one)
    record = compile_rung(a_rung("naive"), one, nvcc, FLAGS, tmp_path / "library.so")
    assert (record["status"], record["message"]) == ("ok", "")
    assert (record["architecture"], record["nvcc"]) == (architecture, nvcc.version)
    assert f"for '{architecture}'" in record["log"]
    resources = resource_report(record["log"])
    assert {re.search(r"sgemm_naive|scale_kernel", symbol)[0] for symbol in resources} == {
        "sgemm_naive",
        "scale_kernel",
    }
    for kernel in resources.values():
        assert 0 < kernel["registers"] <= 255
        assert (kernel["spill_store_bytes"], kernel["spill_load_bytes"], kernel["static_shared_bytes"]) == (0, 0, 0)
    shape = Shape(33, 65, 7)
    library = Library(tmp_path / "library.so")
    (launch,) = library.launches(shape, one.sms)
    assert launch.kernel in resources
    assert (launch.grid, launch.block, launch.dynamic_shared_bytes) == ((2 * 9, 1, 1), (32, 8, 1), 0)
    assert library.workspace_bytes(shape, 1.0, 0.0, Operands(0, 7, 0, 65, 0, 65)) == 0


# What compiling decides about the stages behind it


@pytest.fixture
def no_compiler(monkeypatch):
    """Stands in for nvcc: every source compiles at once."""
    done = type("Done", (), {"returncode": 0, "stdout": "", "stderr": ""})
    monkeypatch.setattr(toolchain.subprocess, "run", lambda *_, **__: done)


@pytest.mark.parametrize(
    "change",
    [
        {"nvcc": Nvcc(Path("/opt/nvcc"), "13.0.89", ())},
        {"flags": ["-O2"]},
        {"flags": ["-O3", "-lineinfo", "-std=c++17"]},
        {"target": gpus.read_gpu("t4").target},
        {"rung": a_rung("tiled@TILE=8")},
    ],
    ids=["nvcc", "flag", "order of flags", "architecture", "macros"],
)
def test_the_build_digest_follows_all_that_made_the_library(no_compiler, tmp_path, change):
    plain = {"rung": a_rung("tiled@TILE=16"), "target": ROUND_GPU.target, "nvcc": NVCC, "flags": FLAGS}
    library = tmp_path / "library.so"
    first = compile_rung(**plain, library=library)["build_digest"]
    assert compile_rung(**plain, library=library)["build_digest"] == first
    assert compile_rung(**plain | change, library=library)["build_digest"] != first


def test_a_rung_above_the_gpus_compute_capability_is_not_compiled(tmp_path):
    rung = a_rung("naive", compute_capability="10.0")
    record = build(rung, ROUND_GPU, NVCC, FLAGS, tmp_path)
    assert record["status"] == "does not apply"
    assert record["message"] == "needs compute capability 10.0; Round GPU has 9.0"
    assert why_not_measured(Build(tmp_path), None) == record["message"]


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        (None, ""),
        (a_check(), ""),
        (a_check("failed", "4: NaN at row 0"), "its check failed: 4: NaN at row 0"),
        (a_check(build="build-2"), "its check was of another build; run the check stage again"),
    ],
    ids=["empty kernel", "passed", "wrong", "of another build"],
)
def test_only_the_build_that_passed_its_check_is_measured(tmp_path, check, reason):
    assert why_not_measured(a_build(tmp_path), check) == reason


def test_the_digest_of_settings_does_not_depend_on_their_order():
    assert settings_digest({"a": 1, "b": 2}) == settings_digest({"b": 2, "a": 1})
    assert settings_digest({"a": 1}) != settings_digest({"a": 2})
