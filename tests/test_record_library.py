"""Programs with and without the shim of `make library`: what is run, judged and left out, on stand-ins."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import record_library
from conftest import a_device, line_of, write
from ladder.commands.library import SHIM_NAME
from ladder.records import store
from ladder.system.errors import LadderError
from record_library import CUPY_SOURCE, CUPY_TESTS, cupy_tests, judged_model, judged_tests, on_gpu, programs, run
from shimmed_model import share_of_bound
from test_exported_library import place  # noqa: F401, a fixture

# Of CuPy's tests one of each outcome, of which one is of another with a shim.
TESTS = """
import os
import pytest

def test_right():
    pass

def test_wrong():
    assert False

def test_elsewhere():
    pytest.skip("not here")

def test_with_shim():
    assert "LD_PRELOAD" not in os.environ
"""


def operands(m=48, n=40, k=512):
    rng = np.random.default_rng(3)
    return rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)


def share(C, A, B):
    return share_of_bound(*(each.astype(np.float64) for each in (C, A, B)))


def test_a_product_in_fp32_is_within_the_bound_and_one_in_tf32_or_with_a_wrong_element_is_not():
    A, B = operands()
    C = A @ B
    assert 0 < share(C, A, B) < 1
    short_A, short_B = ((each.view(np.int32) & ~0x1FFF).view(np.float32) for each in (A, B))
    assert share(short_A @ short_B, A, B) > 1
    C[3, 4] = 0
    assert share(C, A, B) > 1


def test_a_program_runs_with_the_shim_before_its_cublas_and_the_shims_products_are_counted(place):  # noqa: F811
    program = [str(place / "program")]
    ended, counts = run(program, place / SHIM_NAME)
    assert ended.stdout.splitlines()[-1] == "status 0, computed"
    assert counts == {"by_the_shim": 1, "fp32_products": 1}
    ended, counts = run([*program, "transposed", "3", "0"], place / SHIM_NAME)
    assert counts == {"by_the_shim": 0, "fp32_products": 1}
    ended, counts = run(program, None)
    assert ended.stdout.splitlines()[-1] == "status 0, not computed"
    assert counts == {"by_the_shim": 0, "fp32_products": 0}


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout that CUPY_SOURCE names."""
    write(tmp_path / "cupy" / CUPY_TESTS, TESTS)
    monkeypatch.setenv(CUPY_SOURCE, str(tmp_path / "cupy"))
    return tmp_path / "cupy"


def test_a_test_that_ends_otherwise_with_the_shim_is_named(checkout, tmp_path):
    before, after = cupy_tests(None), cupy_tests(tmp_path / "no shim")
    ends = {name.rpartition("::")[2]: end for name, end in before["outcomes"].items()}
    assert ends == {
        "test_right": "passed",
        "test_wrong": "failure",
        "test_elsewhere": "skipped",
        "test_with_shim": "passed",
    }
    assert before["wall_s"] > 0
    assert judged_tests(before, before) == ""
    assert judged_tests(before, after).endswith("::test_with_shim: ends otherwise than without the shim")


def test_a_checkout_whose_tests_do_not_run_is_one_line(checkout):
    (checkout / CUPY_TESTS).write_text("import no_such_module_of_anyone\n")
    assert set(cupy_tests(None)["outcomes"].values()) == {"error"}
    (checkout / CUPY_TESTS).write_text("")
    assert line_of(cupy_tests, None).startswith(f"library: {checkout / CUPY_TESTS}: pytest ran no test: ")


def test_a_model_beyond_the_bound_is_named_by_its_worst_product():
    sound = {"shares_of_bound": {"layer 0": 0.1, "layer 1": 0.3}}
    assert judged_model(sound, sound) == ""
    wrong = {"shares_of_bound": {"layer 0": 0.1, "layer 1": 30.0}}
    assert judged_model(sound, wrong) == "layer 1: its error is 30 of FP32's bound"
    assert judged_model(sound, {"shares_of_bound": {"layer 0": float("nan")}})


def test_a_program_that_cannot_run_is_left_out_in_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(record_library, "find_spec", lambda name: None)
    assert line_of(programs, tmp_path) == "library: no program to run; the lines above say what is missing"
    assert capsys.readouterr().out.splitlines() == [
        f"library: torch.nn: left out: {sys.executable} has no PyTorch; install torch there",
        f"library: CuPy: left out: {sys.executable} has no CuPy; run make env",
    ]
    monkeypatch.setattr(record_library, "find_spec", lambda name: name == "cupy")
    monkeypatch.setenv(CUPY_SOURCE, str(tmp_path))
    with pytest.raises(LadderError):
        programs(tmp_path)
    assert f"left out: {CUPY_SOURCE}: {tmp_path}: holds no {CUPY_TESTS}" in capsys.readouterr().out


def test_the_record_holds_times_before_with_and_after_the_shim(monkeypatch, capsys):
    shims = []

    def model(shim):
        shims.append(shim and shim.name)
        times = {"times_ms": [2.0, 2.0, 9.0] if shim else [4.0, 4.0, 9.0]}
        counts = {"by_the_shim": 9 * bool(shim), "fp32_products": 9 * bool(shim)}
        return {"program": "a model", "shares_of_bound": {"layer 0": 0.5}, **times, **counts}

    monkeypatch.setattr(record_library, "PROGRAMS", {"torch.nn": (str, model, judged_model)})
    monkeypatch.setattr(record_library, "make_library", lambda *given: None)
    device = a_device()
    record = on_gpu(SimpleNamespace(device=device, by_name=str))
    assert shims == [None, SHIM_NAME, None]
    (found,) = record["programs"]
    assert (found["name"], found["wrong"]) == ("torch.nn", "")
    assert found["with"]["times_ms"] == [2.0, 2.0, 9.0]
    assert record["where"]["gpu"] == vars(device)
    assert json.loads(store.to_json(record)) == record
    said = capsys.readouterr().out
    assert said == ("library: torch.nn: 2 ms with the shim, 4 ms without (0.500); 9 of 9 products by the rung\n")
