"""`snakemake compare --config against=...`: what is called slower, how rarely by chance, and what is said of it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import record_regression
from conftest import a_build, a_device, a_timing, line_of
from ladder.commands import regress
from ladder.commands.regress import in_two_steps, main
from ladder.model.shape import Shape
from ladder.records.baseline import unpacked
from ladder.records.timings import read_time_record
from ladder.show.regression import Comparison, markdown
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT
from ladder.tables.regression import (
    BLOCKS,
    CONFIRMED,
    REGRESSION_COLUMNS,
    SCREENED,
    SUSPECT,
    aliases,
    decided,
    observed,
    suspects,
    t_quantile,
)
from pipeline import RECORDED

TIMES = ROOT / "results" / RECORDED / "raw/time"
BETWEEN = 0.002  # standard deviation of a process's ratio about the rung's own, as a share of it


def changes(*rows: tuple[str, str, float]) -> pd.DataFrame:
    """Rows of processes with a change in percent."""
    table = pd.DataFrame(rows, columns=["rung", "shape", "percent"])
    return table.assign(change=np.log1p(table["percent"] / 100), time_ms_before=1.0, time_ms=1 + table["percent"] / 100)


# Blocks


@pytest.mark.parametrize("process", [0, 1])
def test_a_linear_and_a_quadratic_drift_are_the_same_for_both_builds(process):
    names = aliases(process)
    assert len(set(names)) == len(BLOCKS)
    for power in (1, 2):
        drift = {side: sum(i**power for i, name in enumerate(names) if name.startswith(side)) for side in "ab"}
        before, after = drift["b"], drift["a"]
        assert before == after
    assert aliases(process)[0].startswith("before" if process == 0 else "after")


def test_the_change_of_a_process_is_the_mean_over_its_blocks():
    times = {"before.0": [1.0, 1.0, 9.0], "after.0": [1.1], "before.1": [4.0], "after.1": [4.84], "cublas": [7.0]}
    timing = a_timing("before.0", "512", times)
    (row,) = observed({Shape(512, 512, 512): timing}).itertuples()
    assert row.change == pytest.approx((np.log(1.1) + np.log(1.21)) / 2)
    assert (row.shape, row.time_ms_before, row.time_ms) == ("512", 2.5, pytest.approx(2.97))


# Decisions


@pytest.mark.parametrize(
    ("probability", "degrees", "quantile"), [(0.975, 2, 4.3027), (0.995, 7, 3.4995), (0.975, 30, 2.0423)]
)
def test_quantiles_are_students(probability, degrees, quantile):
    assert t_quantile(probability, degrees) == pytest.approx(quantile, abs=1e-3)


def test_only_new_processes_decide_about_a_suspect():
    screened = changes(*[("a", "512", SUSPECT + each / 100) for each in (1, 2, 3)])
    assert suspects(screened) == [("a", "512")]
    for percent, verdict in ((1.0, "slower"), (-1.0, "faster"), (0.0, "same")):
        confirmed = changes(*[("a", "512", percent + each / 100) for each in range(CONFIRMED)])
        (row,) = decided(screened, confirmed).itertuples()
        assert (row.verdict, row.processes) == (verdict, CONFIRMED)
        assert row.change_percent_low < row.change_percent < row.change_percent_high


def test_what_varies_too_much_is_undecided():
    screened = changes(*[("a", "512", each) for each in (-3.0, 0.0, 3.0)])
    assert list(decided(screened, changes())["verdict"]) == ["undecided"]


def test_a_comparison_of_nothing_has_the_columns_and_no_rows():
    table = in_two_steps([], ["512"], lambda *_: pytest.fail("no rung is timed"))
    assert (list(table.columns), len(table)) == (REGRESSION_COLUMNS, 0)


# How often by chance, and how surely, with the noise of recorded samples


@pytest.fixture(scope="module")
def recorded():
    """The samples of each recorded rung at 1024, 2048 and 4096, by rung and shape."""
    found = {}
    for path in sorted(TIMES.glob("*.zip")):
        for shape, timing in read_time_record(path).items():
            if str(shape) in ("1024", "2048", "4096") and len(timing.own.times_s) >= 50:
                found[path.stem, str(shape)] = timing.own.times_s
    assert len(found) > 50
    return found


def simulated(recorded, random, slower=(), percent=1.0):
    """A comparison whose blocks are stretches of 10 recorded samples; `slower` rows are slower by so much."""

    def block(times):
        begin = random.integers(len(times) - 9)
        return np.median(times[begin : begin + 10])

    def process(rung, _, shapes):
        rows = []
        for shape in shapes:
            times = recorded[rung, shape]
            before, after = (np.log([block(times) for _ in range(4)]).mean() for _ in range(2))
            planted = np.log1p(percent / 100) if (rung, shape) in slower else 0
            rows.append((shape, 1.0, 1.0, after - before + planted + random.normal(0, BETWEEN)))
        table = pd.DataFrame(rows, columns=["shape", "time_ms_before", "time_ms", "change"])
        return table.assign(rung=rung)

    shapes = [shape for shape in ("1024", "2048", "4096") if all((rung, shape) in recorded for rung, _ in recorded)]
    return in_two_steps(list(dict.fromkeys(rung for rung, _ in recorded)), shapes, process)


def test_at_most_one_of_a_hundred_comparisons_of_the_same_code_calls_any_row_different(recorded):
    whole = {rung for rung, _ in recorded if all((rung, shape) in recorded for shape in ("1024", "2048", "4096"))}
    of = {key: times for key, times in recorded.items() if key[0] in whole}
    random = np.random.default_rng(1)
    wrong = sum(simulated(of, random)["verdict"].isin(["slower", "faster"]).any() for _ in range(100))
    assert len(of) > 30
    assert wrong <= 1


@pytest.mark.parametrize("rung", ["fastest", "double_buffered"])
@pytest.mark.parametrize("shape", ["2048", "4096"])
def test_a_slowdown_of_one_percent_is_found(recorded, rung, shape):
    random = np.random.default_rng(2)
    of = {key: times for key, times in recorded.items() if key[0] == rung}
    tables = [simulated(of, random, {(rung, shape)}).set_index("shape")["verdict"] for _ in range(20)]
    assert sum(table[shape] == "slower" for table in tables) >= 19
    assert all("slower" not in set(table.drop(shape)) for table in tables)


def test_the_record_of_the_tool_is_told_by_rates():
    random = np.random.default_rng(3)
    noise = lambda: float(random.normal(0, BETWEEN))  # noqa: E731
    rows = [
        {"process": process, "shape": shape, "same": noise(), "planted": 0.01 + noise()}
        for process in range(30)
        for shape in ("2048", "4096")
    ]
    told = record_regression.rates({"processes": rows})
    assert told["processes"] == 30
    assert told["different"] <= 1
    assert min(told["found"].values()) >= 95
    assert told["planted_percent"]["2048"] == pytest.approx(1, abs=0.15)


def test_every_build_is_as_often_first_as_last_in_a_process_of_the_tool():
    for process in (0, 1):
        rounds = [record_regression.blocks(process)[i : i + 3] for i in range(0, 12, 3)]
        firsts = [names[0].split(".")[0] for names in rounds]
        assert sorted(firsts) == ["before", "before", "planted", "planted"]
        assert len(set(record_regression.blocks(process))) == 12


# What is said, and the exit status


def a_table(**verdicts: str) -> pd.DataFrame:
    rows = [
        (rung, "2048", 2048, 2048, 2048, word, 3, 1.0, 1.01, 1.0, 0.9, 1.1, 95.0) for rung, word in verdicts.items()
    ]
    return pd.DataFrame(rows, columns=REGRESSION_COLUMNS)


def test_the_summary_begins_with_the_counts_and_has_what_is_slower_first():
    found = Comparison(a_table(a="same", b="slower"), "HEAD~1", ("c",), {"d": "is gone"}, "a GPU")
    lines = markdown(found).splitlines()
    assert lines[0] == "## Times against `HEAD~1`: 1 slower, 0 faster, 0 undecided, 1 same"
    rows = [line.split(" | ")[0] for line in lines if line.startswith("| `")]
    assert rows == ["| `b`", "| `a`"]
    assert (found.slower, "not timed: c." in lines[-3], "`d`: is gone" in lines[-1]) == (1, True, True)


class Machine:
    """A machine with a GPU on which nothing runs: what the two sides' builds are and what a process would measure."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.percent, self.timed = folder, 0.0, []
        self.digests = {
            "before": {"naive": "1", "same": "2", "gone": "3"},
            "after": {"naive": "4", "same": "2", "new": "5"},
        }
        patch.setattr("ladder.system.nvml.present", lambda index: a_device())
        patch.setattr("ladder.system.process.LOCKS", folder)
        patch.setattr(regress, "_built", lambda tree, run, rungs, folder: self.built(folder.name))
        patch.setattr(regress, "time_in_turn", self.time)
        patch.setenv("GITHUB_STEP_SUMMARY", str(folder / "step.md"))

    def built(self, side: str) -> dict:
        return {
            name: a_build(self.folder / side / name, build_digest=digest) for name, digest in self.digests[side].items()
        }

    def time(self, blocks, builds, shapes, *_):
        self.timed.append(builds["after"].folder.name)
        times = {name: [1 + self.percent / 100 if name.startswith("after") else 1.0] for name in blocks}
        return {Shape.parse(shape): a_timing(blocks[0], shape, times) for shape in shapes}

    def status(self, *arguments: str) -> int:
        return main([str(ROOT), "--summary", str(self.folder / "summary.md"), *arguments])


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch)


@pytest.mark.parametrize(("percent", "status", "words"), [(0, 0, "0 slower"), (1, 1, "2 slower"), (-1, 0, "2 faster")])
def test_the_exit_status_says_whether_something_is_slower(machine, percent, status, words):
    machine.percent = percent
    assert machine.status() == status
    text = (machine.folder / "summary.md").read_text()
    assert words in text.splitlines()[0]
    assert (machine.folder / "step.md").read_text() == text


def test_only_what_compiles_to_another_build_is_timed_and_a_change_is_confirmed(machine):
    assert machine.status() == 0
    assert machine.timed == ["naive"] * SCREENED
    machine.percent = 1
    assert machine.status() == 1
    assert machine.timed[SCREENED:] == ["naive"] * (SCREENED + CONFIRMED)
    text = (machine.folder / "summary.md").read_text()
    for word in ("not timed: same.", "`new`: is new", "`gone`: is gone"):
        assert word in text


def test_what_cannot_be_compared_has_a_status_of_its_own_and_one_line(machine, capsys, monkeypatch):
    def fails(*_):
        raise LadderError("naive: not timed: it hung")

    monkeypatch.setattr(regress, "time_in_turn", fails)
    assert machine.status() == 2
    assert capsys.readouterr().err.splitlines()[-1] == "regress: naive: not timed: it hung"
    assert main(["no-such-revision"]) == 2
    monkeypatch.setattr("ladder.system.nvml.present", lambda index: None)
    assert machine.status() == 2


# The other side


def test_the_other_side_is_a_checkout_or_a_revision(tmp_path):
    assert unpacked(str(ROOT), tmp_path / "unused") == ROOT
    assert "against: 'no-such-thing' is no checkout and no git revision" in line_of(
        unpacked, "no-such-thing", tmp_path / "unused"
    )
    if subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, check=False).returncode == 0:
        tree = unpacked("HEAD", tmp_path / "tree")
        assert {path.name for path in tree.iterdir()} == {"config", "kernels", "workflow"}


def test_each_side_compiles_its_own_rungs(tmp_path, monkeypatch):
    made = []
    real = subprocess.run

    def run(command, cwd, env, **more):
        made.append((cwd, env["PYTHONPATH"], json.loads(command[-1])["rungs"]))
        return real(["false"], capture_output=True, text=True, check=False)

    asked = SimpleNamespace(settings={"gpu": "auto"}, device=a_device())
    monkeypatch.setattr(regress.subprocess, "run", run)
    assert "its rungs cannot be compiled" in line_of(regress._built, tmp_path, asked, ["naive"], tmp_path / "made")
    assert made == [(tmp_path, str(tmp_path / "workflow"), ["naive"])]
