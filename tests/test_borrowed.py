"""A rung multiplies with its own kernels: what it has from elsewhere is refused when it is compiled."""

import subprocess

import pytest
from conftest import a_rung, write
from ladder.build.borrowed import multiplying_libraries, why_borrowed
from ladder.build.compile import build
from ladder.config import gpus

H100 = gpus.read_gpu("h100-sxm")
DECLARED = 'extern "C" int {name}() __attribute__((weak));\nint call() {{ return {name}(); }}\n'


def compiled(folder, text, *flags):
    """An object file of C++ code."""
    made = folder / "made.o"
    source = write(folder / "made.cpp", text)
    subprocess.run(["g++", "-fPIC", *flags, "-o", made, source], check=True)
    return made


@pytest.mark.parametrize(
    "name", ["cublasSgemm_v2", "cublasLtMatmul", "cudnnCreate", "dlopen", "dlsym", "dlmopen", "PyRun_SimpleString"]
)
def test_an_import_by_which_others_multiply_is_named(tmp_path, name):
    made = compiled(tmp_path, DECLARED.format(name=name), "-c")
    assert why_borrowed([made], tmp_path / "none.so").startswith(f"imports {name}; ")


@pytest.mark.parametrize("name", ["cuEventElapsedTime", "cudaEventRecord", "nvmlDeviceGetClockInfo"])
def test_an_export_of_a_name_of_cudas_is_named(tmp_path, name):
    made = compiled(tmp_path, f'extern "C" int {name}() {{ return 0; }}\n', "-c")
    assert why_borrowed([made], tmp_path / "none.so").startswith(f"exports {name}, ")


@pytest.mark.parametrize("name", ["cudaMemcpyAsync", "cublast", "memcpy", "dlclose", "Pyramid"])
def test_any_other_import_is_welcome(tmp_path, name):
    made = compiled(tmp_path, DECLARED.format(name=name), "-c")
    assert why_borrowed([made], tmp_path / "none.so") == ""


@pytest.mark.parametrize(("name", "refused"), [("libcublas.so.13", True), ("libother.so", False)])
def test_a_library_that_multiplies_is_not_linked_with(tmp_path, name, refused):
    other = compiled(tmp_path, "int other() { return 0; }\n", "-shared", f"-Wl,-soname,{name}").rename(tmp_path / name)
    made = compiled(
        tmp_path, "int other();\nint call() { return other(); }\n", "-shared", "-Wl,--no-as-needed", str(other)
    )
    assert (f"needs {name}; " in why_borrowed([], made)) == refused


def test_libraries_that_multiply_are_known_by_their_files():
    files = ["/a/libcublas.so.13.1.0", "libcublasLt.so", "/b/libcudart.so.13", "/libcublas.so/libm.so.6"]
    assert multiplying_libraries(files) == files[:2]


@pytest.mark.parametrize(("role", "status"), [("rung", "failed"), ("baseline", "ok")])
def test_a_rung_that_loads_cublas_is_refused_and_a_baseline_is_not(tmp_path, nvcc, role, status):
    record = build(a_rung("cublas", role=role), H100, nvcc, ["-O1", "-std=c++17"], tmp_path)
    assert record["status"] == status
    assert (tmp_path / "library.so").exists() == (role == "baseline")
    assert record["message"].startswith("cublas.cu: imports dlopen; " if role == "rung" else "")
