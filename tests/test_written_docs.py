"""The pages that are written from templates and tables."""

import json

import doc_numbers
import header_figures
import pytest
import write_docs
from conftest import line_of, time_run, write
from ladder.records import store
from ladder.system import paths
from ladder.tables.experiments import experiment_table
from ladder.tables.files import write_table

TIMINGS = "rung,shape,gflops,speedup_over_cublas\nnaive,512,1234,0.5\nnaive,4096,,\ntwice,512,1,1\ntwice,512,2,2\n"


def test_no_page_is_stale():
    assert write_docs.stale() == [], "write them with: make docs"


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A project with one table and no template; returns its folder."""
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    for name, path in {"ROOT": tmp_path, "DOCS": tmp_path / "docs", "RESULTS": tmp_path / "results"}.items():
        monkeypatch.setattr(write_docs, name, path)
    monkeypatch.setattr(doc_numbers, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(header_figures, "ROOT", tmp_path)
    write(tmp_path / "results/h100-sxm/tables/timings.csv", TIMINGS)
    return tmp_path


def test_a_page_is_filled_from_the_tables_and_says_what_made_it(house):
    write(house / "docs/templates/page.md.j2", "{{ tflops('naive', 512) }}, {{ share_of_cublas('naive', 512) }}\n")
    assert write_docs.main([]) == 0
    comment, line = (house / "docs/page.md").read_text().splitlines()
    assert line == "1.23, 0.50"
    assert comment.startswith("<!-- Made by `make docs` from docs/templates/page.md.j2 ")
    assert comment.endswith(" -->")


def test_a_template_below_top_is_a_page_of_the_repository(house):
    write(house / "docs/templates/top/README.md.j2", "words\n")
    assert write_docs.main([]) == 0
    assert (house / "README.md").read_text().endswith("\nwords\n")


def test_check_names_what_is_stale_and_changes_nothing(house, capsys):
    for name in ("one", "two", "three"):
        write(house / f"docs/templates/{name}.md.j2", f"{name} {{{{ tflops('naive', 512) }}}}\n")
    assert write_docs.main([]) == 0
    assert write_docs.main(["--check"]) == 0
    edited = write(house / "docs/one.md", "edited by hand\n")
    (house / "docs/two.md").unlink()
    assert write_docs.main(["--check"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"write_docs: docs/{name}.md: is stale; write it with: make docs" for name in ("one", "two")
    ]
    assert edited.read_text() == "edited by hand\n"
    assert not (house / "docs/two.md").exists()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("tflops('niave', 512)", "timings.csv: no row with rung=niave, shape=512"),
        ("tflops('naive', 1024)", "timings.csv: no row with rung=naive, shape=1024"),
        ("tflops('naive')", "timings.csv: rung=naive, shape=4096: column gflops is empty"),
        ("tflops('twice', 512)", "timings.csv: rung=twice, shape=512: 2 rows; name more columns"),
        ("tflops('naive', 512, 't5')", "results/t5/tables/timings.csv: there is no such table"),
        ("cell('timings', 'tflops', rung='naive', shape=512)", "no column tflops; it has rung, shape, gflops"),
        ("cell('timings', 'gflops', kernel='naive')", "timings.csv: no column kernel; it has rung, shape, gflops"),
        ("trial('no_such_trial', 'a')", "results/h100-sxm/tables/experiments.csv: there is no such table"),
        ("rates('no_such_trial', 'cycles')", "raw/experiments/no_such_trial.json: there is no such record"),
        ("gflops('naive')", "'gflops' is undefined"),
        ("tflops()", "missing 1 required positional argument"),
        ("tflops('naive' 512)", "expected token"),
    ],
)
def test_what_is_missing_is_one_line_that_names_template_line_and_key(house, capsys, call, words):
    write(house / "docs/templates/page.md.j2", f"first line\n{{{{ {call} }}}}\n")
    for arguments in ([], ["--check"]):
        assert write_docs.main(arguments) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("write_docs: docs/templates/page.md.j2:2: ")
        assert words in line
    assert not (house / "docs/page.md").exists()


def test_rates_have_three_digits_and_no_more_than_two_behind_the_point():
    assert [write_docs.rate(gflops) for gflops in (499.4, 6759, 56008, 407106)] == ["0.50", "6.76", "56.0", "407"]


# Trials


@pytest.fixture
def trial(house):
    """A trial of two variants, its table and what docs/trials.yaml says of it; returns a function that changes that."""
    record = house / "results/h100-sxm/raw/experiments/a_trial.zip"
    times = {"cublas": 1e-3, "slow": 2e-3, "fast@BM=64": 0.96e-3}
    run = time_run("slow", {(kernel, "512"): [time] * 5 for kernel, time in times.items()})
    store.add_run(record, run | {"sources/mine.cu/mine.cu": b"// the variant\n"})
    write_table(experiment_table([record], "cublas"), house / "results/h100-sxm/tables/experiments.csv")

    def say(**entries):
        one = {"lever": "a lever", "prediction": "faster", "verdict": "kept", "variants": ["slow", "fast@BM=64"]}
        write(house / "docs/trials.yaml", json.dumps({"macros": [], "records": {"a_trial": [one], **entries}}))
        return one

    say()
    return say


def test_a_trial_is_shown_with_its_words_numbers_and_sources(trial):
    (found,) = write_docs.trials()
    assert found["variants"] == {"cublas": ["0.27 (1.00)"], "slow": ["0.13 (0.50)"], "fast@BM=64": ["0.28 (1.04)"]}
    assert [(each["lever"], each["numbers"]) for each in found["trials"]] == [("a lever", [1, 2])]
    assert found["runs"][0]["sources"] == ["sources/mine.cu/mine.cu"]
    assert found["runs"][0]["where"]["measured_at"] == "2026-01-02T03:04:05+00:00"


def test_a_record_of_another_gpu_is_shown_where_it_has_an_entry_and_the_first_gpu_has_none(trial, house):
    for name, gpu, cycles in (
        ("first", "h200-sxm", 1),
        ("both", "h100-sxm", 2),
        ("both", "h200-sxm", 3),
        ("no", "x", 4),
    ):
        path = house / f"results/{gpu}/raw/experiments/{name}.json"
        write(path, json.dumps({"what": "cycles", "rates": [{"cycles": cycles}]}))
    entry = {"lever": "none", "prediction": "none", "verdict": "none"}
    trial(first=[entry], both=[entry])
    counted = {each["name"]: each["counted"] for each in write_docs.trials()}
    assert counted.pop("a_trial") is None
    assert {name: each["rates"][0]["cycles"] for name, each in counted.items()} == {"first": 1, "both": 2}
    assert write_docs.trial_link("both", "h200-sxm") == "[`both`](trials.md#both)"
    trial(first=[entry], both=[entry], **{"h200-sxm/both": [entry]})
    cycles = {each["name"]: each["counted"]["rates"][0]["cycles"] for each in write_docs.trials() if each["counted"]}
    assert cycles == {"first": 1, "both": 2, "h200-sxm/both": 3}
    assert write_docs.trial_link("both") == "[`both`](trials.md#both)"
    assert write_docs.trial_link("both", "h200-sxm") == "[`both`](trials.md#h200-sxmboth)"


def test_a_record_without_an_entry_is_told(trial, house):
    write(house / "docs/trials.yaml", '{"macros": [], "records": {}}')
    assert line_of(write_docs.trials).startswith("docs/trials.yaml: a_trial: no entry; say what was tried")


def test_an_entry_without_a_record_is_told(trial):
    trial(other=[])
    told = line_of(write_docs.trials)
    assert told.startswith("docs/trials.yaml: other: ")
    assert told.endswith(" has no such record; remove the entry")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [("verdict", None, "verdict: missing"), ("variants", None, ""), ("verdikt", "kept", "verdikt: unknown; an entry")],
)
def test_an_entry_has_a_lever_a_prediction_a_verdict_and_no_more(trial, key, value, words):
    entry = {name: text for name, text in (trial() | {key: value}).items() if text is not None}
    trial(a_trial=[entry])
    if words:
        assert line_of(write_docs.trials).startswith(f"docs/trials.yaml: a_trial: {words}")
    else:
        assert write_docs.trials()[0]["trials"][0]["numbers"] == []


def test_an_entry_may_only_name_variants_of_its_record(trial):
    trial(a_trial=[trial() | {"variants": ["slow", "fast@BM=32"]}])
    assert line_of(write_docs.trials).endswith("a_trial: variants: fast@BM=32 is not in the record")


def test_a_loop_of_instructions_is_shown_from_its_own_record(trial, house):
    rates = [{"beside": 0, "cycles": 6.0}, {"beside": 2, "cycles": 7.5}]
    write(house / "results/h100-sxm/raw/experiments/a_rate.json", json.dumps({"what": "cycles", "rates": rates}))
    trial(a_rate=[{"lever": "none", "prediction": "none", "verdict": "none"}])
    assert [each["name"] for each in write_docs.trials()] == ["a_rate", "a_trial"]
    assert write_docs.trials()[0]["counted"]["rates"] == rates
    assert write_docs.rates("a_rate", "cycles", beside=2) == 7.5
    told = line_of(lambda: write_docs.rates("a_rate", "cycles", beside=1))
    assert "0 rows with " in told
    assert told.endswith(", not one")


def test_variants_of_a_record_are_compared_in_words(trial):
    assert write_docs.change("a_trial", "fast@BM=64", "cublas", 512) == "4 % faster"
    assert write_docs.change("a_trial", "slow", "cublas", 512) == "50 % slower"
    assert write_docs.change("a_trial", "slow", "slow", 512) == "equally fast"
    table = write_docs.trial_table("a_trial", [512], {"slow": "words"})
    assert table.splitlines()[1:] == ["| --- | --- |", "| words | 0.13 |"]


def test_the_clock_of_a_trial_is_the_median_of_its_samples(trial):
    assert write_docs.trial_clock_ghz("a_trial", "slow", 512) == "1.50"
    assert "a_trial.zip: has no slow at 1024" in line_of(write_docs.trial_clock_ghz, "a_trial", "slow", 1024)
