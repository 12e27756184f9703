"""From where the rows of a table come: said once where they agree, and in columns where they do not."""

import pandas as pd
import pytest
from conftest import a_device, a_timing, a_where, an_evidence
from ladder.model.shape import Shape
from ladder.records.provenance import origin
from ladder.show.origin import origin_columns, origin_groups, origin_line
from ladder.tables.evidence import Evidence
from ladder.tables.records import record_table, sample_table
from ladder.tables.rungs import rung_table


def a_place(uuid="GPU-01234567-89ab", commit="c" * 40, day="2026-01-02", **software):
    where = a_where(measured_at=f"{day}T03:04:05+00:00")
    software = {"cublas": "13.1.0", "cublas_lt": "13.1.0", **software}
    gpu = {**where["gpu"], "uuid": uuid}
    return {**where, "gpu": gpu, "software": {**where["software"], **software, "git_commit": commit}}


def rows(*places) -> pd.DataFrame:
    return pd.DataFrame([{**origin([place]), "measured_at": place["measured_at"]} for place in places])


def test_rows_that_agree_are_said_once_and_need_no_column():
    table = rows(a_place(), a_place())
    assert origin_line(table) == (
        "All of these numbers come from one card and one commit: NVIDIA H100 80GB HBM3 (GPU-01234567), cuBLAS 13.1.0, "
        "commit cccccccccccc, 2026-01-02."
    )
    assert list(origin_columns(table)) == []


@pytest.mark.parametrize(
    ("other", "count", "column", "values"),
    [
        ({"uuid": "GPU-89abcdef-0123"}, "2 cards", "card", ["GPU-01234567", "GPU-89abcdef"]),
        ({"commit": "d" * 40}, "2 commits", "commit", ["c" * 12, "d" * 12]),
        ({"commit": "c" * 40 + "-dirty"}, "2 commits", "commit", ["c" * 12, "c" * 12 + "-dirty"]),
        ({"commit": "unknown"}, "2 commits", "commit", ["c" * 12, "unknown"]),
        ({"cublas": "13.2.0", "cublas_lt": "13.2.0"}, "2 versions of cuBLAS", "cuBLAS", ["13.1.0", "13.2.0"]),
    ],
)
def test_rows_that_do_not_agree_say_so_in_words_and_in_a_column(other, count, column, values):
    table = rows(a_place(), a_place(**other))
    line = origin_line(table)
    assert line.startswith(f"These numbers come from {count}: ")
    assert all(value in line for value in values)
    assert origin_columns(table).to_dict("list") == {column: values}
    assert ("not committed" in line) == ("dirty" in other.get("commit", ""))


def test_several_days_are_no_disagreement_but_a_column():
    table = rows(a_place(), a_place(day="2026-01-03"))
    assert origin_line(table).startswith("All of these numbers come from one card and one commit: ")
    assert origin_line(table).endswith(", 2026-01-02 to 2026-01-03.")
    assert list(origin_columns(table)) == ["day"]


def test_where_rungs_differ_in_origin_each_is_told_once_with_those_of_its_own():
    one, other = a_place(), a_place(uuid="GPU-89abcdef-0123", commit="d" * 40)
    table = rows(one, other, one, one).assign(rung=["naive", "tiled", "tma", "tma"])
    assert origin_groups(table) == ["GPU-01234567, cccccccccccc: naive, tma", "GPU-89abcdef, dddddddddddd: tiled"]
    assert origin_groups(table[table["rung"] != "tiled"]) == []


def test_what_old_records_lack_is_said_and_a_cublaslt_of_its_own_is_named():
    old = a_place()
    del old["software"]["cublas"], old["software"]["cublas_lt"]
    assert origin([old])["cublas_version"] == "not recorded"
    assert origin([a_place(cublas_lt="13.0.9")])["cublas_version"] == "13.1.0 (cublasLt 13.0.9)"
    assert origin_line(rows()[[]].reindex(columns=["card", "cublas_version", "commit", "measured_at"])) == ""


def test_a_rung_whose_records_are_of_two_cards_names_both():
    check = {"status": "pass", "message": "", "where": a_place(uuid="GPU-a"), "cases": []}
    item = an_evidence("naive", (a_timing("naive", "512", {"naive": [1.0]}),), check=check)
    (card,) = rung_table([item])["card"]
    assert card == f"NVIDIA H100 80GB HBM3, {a_device().uuid}; NVIDIA H100 80GB HBM3, GPU-a"


def test_every_number_has_the_file_and_the_key_of_its_record_and_every_time_its_samples():
    timing = a_timing("naive", "512", {"naive": [1.0, 2.5], "cublas": [0.5]})
    timing = type(timing)(timing.rung, timing.shape, timing.where, timing.measurements, "2026-01-02T03-04-05")
    profiles = {"512": {"where": a_place(), "kernels": []}}
    item: Evidence = an_evidence("naive", (timing,), profiles=profiles)
    table = record_table([item])
    assert list(zip(table["stage"], table["shape"], table["file"], table["key"], strict=True)) == [
        ("check", "", "raw/check/naive.json", ""),
        ("time", "512", "raw/time/naive.zip", "2026-01-02T03-04-05"),
        ("profile", "512", "raw/profile/naive.json.xz", "shapes.512"),
    ]
    samples = sample_table([item])
    assert list(zip(samples["kernel"], samples["times_ms"], strict=True)) == [("naive", "1 2.5"), ("cublas", "0.5")]
    assert timing.shape == Shape.parse("512")
