"""Cases that take ways through the host function which no other case takes."""

import os
import sys
from dataclasses import replace

import pytest
from conftest import a_build
from emulator import compiled_engine
from ladder.config.kernels import read_kernels
from ladder.config.named_numbers import named_by
from ladder.measure.check import branches, emulate
from ladder.model.cases import Case
from ladder.model.claims import claimed_cases
from ladder.model.drawn import drawn_cases
from ladder.system.paths import ROOT

NAIVE = read_kernels(ROOT / "config" / "kernels.yaml")["naive"]
LAUNCH = "  return launch("
OF_TILES = "  long tiles = static_cast<long>(ceil_div(g.m, 64)) * ceil_div(g.n, 48), steps = ceil_div(g.k, 24);\n"
# Where the last step is forgotten: conditions on what the host function derives from sides, SMs and layout.
SLIPS = {
    "a number of tiles": "tiles == 1008",
    "tiles beyond a limit, and few steps": "tiles > 400 && steps == 3",
    "as many tiles as SMs": "tiles == 8 * sms - 1",
    "parts of a sum": "steps / std::max(1L, tiles / 9) == 37 && tiles > 9",
    "rows that are far apart": "g.ldb - g.n == 4 && g.lda > g.k && steps * tiles > 5000",
}
SWITCHED = """  switch (tiles % 211) {
    case 147:
      h.k -= 1;
      break;
    case 179:
      h.alpha += 1e-30f;
  }
"""


@pytest.fixture
def checked(tmp_path):
    """Emulates `naive` with other host code, and with texts replaced, with the drawn cases of a seed; the record."""

    def check(host: str, replaced: dict[str, str] | None = None):
        text = (ROOT / "kernels" / NAIVE.source).read_text()
        before, _, arguments = text.partition(LAUNCH)
        assert ", g)" in arguments
        assert ", g)" not in before
        code = OF_TILES + "  int sms = 0;\n  sm_count(&sms);\n  Gemm h = g;\n" + host + LAUNCH
        text = before + code + arguments
        for old, new in (replaced or {", g)": ", h)"}).items():
            text = text.replace(old, new)
        (tmp_path / "rung.cu").write_text(text)
        rung = replace(NAIVE, source=os.path.relpath(tmp_path / "rung.cu", ROOT / "kernels"))
        cases = claimed_cases(NAIVE.claims, drawn_cases(1, 121, named_by(rung, all_classes=False), (58, 132)))
        return emulate.emulate_rung(
            rung, a_build(tmp_path / "naive"), cases, 2, 60, tmp_path / "log", compiled_engine()
        )

    return check


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_of_the_host_function_that_no_drawn_case_shows_is_found(checked, monkeypatch, slip):
    host = f"  h.k -= {SLIPS[slip]};\n"
    record = checked(host)
    assert record["status"] == "failed", record["message"]
    monkeypatch.setattr(emulate, "other_branches", lambda *_: [])
    assert checked(host)["status"] == "emulated"


def test_a_case_of_a_switch_is_a_way_of_its_own(checked, monkeypatch):
    assert checked(SWITCHED)["status"] == "failed"
    monkeypatch.setattr(emulate, "other_branches", lambda *_: [])
    assert checked(SWITCHED)["status"] == "emulated"


def test_a_number_that_a_kernel_is_given_is_a_way_of_its_own(checked, monkeypatch):
    host = "  int parts = steps > 3 ? static_cast<int>(tiles / 8) : 1;\n"
    kernel = {
        "naive(Gemm g)": "naive(Gemm g, int parts)",
        "p < g.k;": "p < g.k - (parts == 32);",
        ", g)": ", h, parts)",
    }
    assert checked(host, kernel)["status"] == "failed"
    monkeypatch.setattr(emulate, "other_branches", lambda *_: [])
    assert checked(host, kernel)["status"] == "emulated"


def test_what_the_host_function_prints_is_not_told_of_the_search(checked, tmp_path):
    asked_for = len(checked('  printf("called\\n");\n')["cases"])
    assert 0 < (tmp_path / "log").read_text().count("called") <= 2 * asked_for


def test_products_that_the_host_function_refuses_are_found(checked):
    record = checked("  if (tiles == 1232) return cudaErrorInvalidValue;\n")
    assert record["status"] == "failed"
    assert "sgemm returned cudaErrorInvalidValue" in record["message"]


def test_products_of_one_layout_that_the_host_function_refuses_are_found(checked):
    record = checked("  if (tiles > 900 && g.lda == g.k + 2) return cudaErrorInvalidValue;\n")
    assert record["status"] == "failed"
    assert "sgemm returned cudaErrorInvalidValue" in record["message"]


def test_no_case_is_beyond_what_a_rung_claims(checked, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "NAIVE", replace(NAIVE, claims={"n": "n % 16 == 0", "beta": 0}))
    record = checked("  if (g.n % 16 || g.beta != 0) return cudaErrorInvalidValue;\n  h.k -= tiles == 1008;\n")
    assert record["status"] == "failed"
    assert "returned" not in record["message"]


def test_cases_that_are_added_have_three_leading_dimensions_as_far_as_their_way_lets_them(checked):
    """One that is taken for another is then found on each way."""
    record = checked("  h.alpha += tiles == 1008 || (tiles == 1232 && g.ldb == g.n) ? 0.0f : 1e-30f;\n")
    gaps = [Case.of(case).paddings for case in record["cases"] if not case.get("drawn")]
    assert all(len(set(each)) == 3 for each in gaps)
    assert any(each[1] == 0 for each in gaps)
    assert any(each[1] for each in gaps)


def test_no_case_is_added_where_all_products_go_one_way(checked):
    assert len(checked("")["cases"]) == 121


def test_the_cases_that_are_added_are_the_same_each_time(checked):
    host = "  h.alpha += tiles == 1008 || steps == 211 ? 0.0f : 1e-30f;\n"
    first, second = ([case for case in checked(host)["cases"] if not case.get("drawn")] for _ in range(2))
    assert first == second != []
    assert len(first) <= branches.MOST_CASES


def test_a_host_function_that_ends_the_process_is_told_by_the_other_cases(checked):
    record = checked("  if (steps == 1) abort();\n")
    assert record["status"] == "failed"
    assert "SIGABRT" in record["message"]
