"""The HTML report: what it says, that it needs nothing but itself, and that it reads well in a real browser."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from urllib.parse import unquote

import pandas as pd
import pytest
from browser import BROWSER, look
from ladder.model.precision import labelled
from ladder.show import interactive
from ladder.show.dark import legible
from ladder.show.figures import by_size, check_errors
from ladder.show.numbers import number
from ladder.show.report import WHY, Material, answer, render
from ladder.show.style import MOST
from ladder.system.paths import ROOT
from matplotlib.colors import to_rgb
from pipeline import RECORDED

RESULTS = ROOT / "results" / RECORDED
LIMIT = 5e6  # bytes, every sample among them
VERDICTS = ["rung", "status", "cases", "determinism", "on a CPU"]
CHARTS = ["by_size", "at_one_size", "check_errors", "accuracy", "published", *WHY]


@pytest.fixture(scope="module")
def material(recorded_material) -> Material:
    """Everything that is recorded on the H100."""
    return recorded_material


@pytest.fixture(scope="module")
def page(material, tmp_path_factory):
    """The report of the recorded run."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render(material))
    return path


def with_tables(material: Material, **tables: pd.DataFrame) -> Material:
    return Material(**{**vars(material), "tables": {**material.tables, **tables}})


def test_the_report_is_one_small_file_that_names_its_gpu_and_day(page, material):
    text = page.read_text()
    assert len(text.encode()) < LIMIT
    assert f"<title>gemm-ladder on {material.gpu.title}</title>" in text
    assert f"Recorded on {material.recorded}" in text


def test_equal_material_gives_equal_bytes(page, material):
    assert render(material) == page.read_text()


def test_every_rung_has_its_section_and_its_source(page, material):
    text = page.read_text()
    for rung in material.rungs:
        assert f'id="rung-{rung.name}"' in text
        assert f"Source: kernels/{rung.source}" in text


def test_the_answer_names_the_fastest_rung_and_its_share(material):
    timings = material.tables["timings"]
    shape = max(timings["n"])
    at = timings[(timings["n"] == shape) & (timings["precision"] == "fp32") & (timings["rung"] != "cublas")]
    best = at.loc[at["gflops"].idxmax()]
    first = answer(material)[0]
    assert first.startswith(f"{best['rung']} is the fastest rung at {shape}: {best['gflops'] / 1e3:.1f} TFLOP/s")
    assert f"{100 * best['speedup_over_cublas']:.1f} % of cuBLAS" in first


def test_the_fastest_is_named_where_naive_was_not_timed_beside_it(material):
    timings = material.tables["timings"]
    without = timings.assign(speedup_over_naive=timings["speedup_over_naive"].where(timings["rung"] != "fastest"))
    first = answer(with_tables(material, timings=without))[0]
    assert "times naive, " in answer(material)[0]
    assert first == re.sub(r"\d+ times naive, ", "", answer(material)[0])
    figures = by_size.figures(without, material.tables["rungs"], material.baseline, material.gpu.peak_gflops)
    titles = [figure.title for figure in figures.values()]
    assert [title.startswith("fastest ") for title in titles] == [True, True, False]
    assert not any("nan" in title for title in titles)


def test_only_a_whole_interval_over_cublas_counts_as_faster(material):
    timings = material.tables["timings"].copy()
    columns = ["speedup_over_cublas", "speedup_over_cublas_ci_low", "speedup_over_cublas_ci_high"]
    row = (timings["rung"] == "async_copy") & (timings["shape"] == "4096")
    timings.loc[timings["rung"] != "cublas", columns] = [0.9, 0.89, 0.91]
    assert "No rung is faster than cuBLAS at any square size." in answer(with_tables(material, timings=timings))
    timings.loc[row, columns] = [1.02, 0.99, 1.05]
    timings.loc[row, "gflops"] = 6e4
    assert "No rung is faster than cuBLAS at any square size." in answer(with_tables(material, timings=timings))
    timings.loc[row, columns] = [1.02, 1.01, 1.05]
    assert "async_copy is faster than cuBLAS, by the whole of the 95 % interval, at 4096 (1.02 x)." in answer(
        with_tables(material, timings=timings)
    )


def test_another_precision_is_never_the_answer(material):
    rungs = material.tables["rungs"].copy()
    rungs.loc[rungs["rung"] == "async_copy", "precision"] = "tf32"
    assert "async_copy" not in " ".join(answer(with_tables(material, rungs=rungs)))


def test_the_answer_names_the_fastest_rung_that_keeps_the_bounds_of_fp32_with_tensor_cores_and_its_class(material):
    rungs = material.tables["rungs"].copy()
    rungs.loc[rungs["precision"] != "fp32", "precision"] = "tf32"
    assert "tensor cores" not in " ".join(answer(with_tables(material, rungs=rungs)))
    rungs.loc[rungs["rung"] == "async_copy", "precision"] = "3xtf32"
    tables = {
        name: labelled(table, rungs) for name, table in (("rungs", rungs), ("timings", material.tables["timings"]))
    }
    (line,) = [line for line in answer(with_tables(material, **tables)) if "tensor cores" in line]
    assert "async_copy (3xTF32) is the fastest" in line


def test_without_measurements_the_report_says_so(material):
    empty = {name: material.tables[name].iloc[:0] for name in ("timings", "geomeans", "checks", "published")}
    nothing = with_tables(material, **empty)
    assert "Nothing is timed on this GPU yet" in answer(nothing)[0]
    text = render(Material(**{**vars(nothing), "recorded": None}))
    assert "Nothing is recorded on this GPU." in text
    assert 'id="by_size"' not in text
    assert 'id="ladder"' not in text
    assert 'id="instruction_mix"' in text


def test_a_failed_rung_stands_at_the_top_and_is_escaped(material):
    rungs = material.tables["rungs"].copy()
    rungs["message"] = rungs["message"].astype(object)
    rungs.loc[rungs["rung"] == "naive", ["status", "message"]] = ["wrong", "<script>alert(1)</script>"]
    text = render(with_tables(material, rungs=rungs))
    assert "<b>naive</b>: wrong: &lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>alert" not in text


def test_a_chart_has_a_value_with_its_interval_for_every_measurement(material):
    timings, rungs = material.tables["timings"], material.tables["rungs"]
    data = by_size.size_rows(timings, rungs)
    assert set(data["metric"]) == set(by_size.BY_SIZE_METRICS)
    kept = timings[~timings["rung"].isin(rungs.loc[rungs["role"] == "floor", "rung"])]
    assert len(data[data["metric"] == "TFLOP/s"]) == len(kept)
    assert ((data["low"] <= data["value"]) & (data["value"] <= data["high"])).all()


def rows_of(page, name: str) -> list[dict]:
    """The rows of the tables under a chart of a page."""
    return rows_in(page.read_text(), name)


def rows_in(text: str, name: str) -> list[dict]:
    """As `rows_of`, of the page's text."""
    specs = json.loads(re.search(r'id="specs">(.*?)</script>', text, re.DOTALL)[1])
    return [row for chart in specs[name] for columns in chart["datasets"].values() for row in as_rows(columns)]


def as_rows(columns: dict) -> list[dict]:
    """What `rows` of report.js makes of the columns of `interactive.compact`."""
    read = [[c["texts"][place] for place in c["at"]] if isinstance(c, dict) else c for c in columns.values()]
    return [dict(zip(columns, values, strict=True)) for values in zip(*read, strict=True)]


def test_rows_written_as_columns_are_read_as_they_were(material):
    tables = material.tables
    figures = by_size.figures(tables["timings"], tables["rungs"], material.baseline, 1.0, material.ladder)
    (chart,) = interactive.charts(next(iter(figures.values()))).values()
    written = json.loads(json.dumps(interactive.compact(chart)["datasets"]))
    assert {name: as_rows(columns) for name, columns in written.items()} == chart["datasets"]
    assert len(json.dumps(written)) < 0.6 * len(json.dumps(chart["datasets"]))


def test_the_chart_by_size_shows_one_family_at_a_time_and_its_legend_has_every_rung_once(page, material):
    text = page.read_text()
    form = re.search(r'<form class="chart" id="by_size".*?</form>', text, re.DOTALL)[0]
    options = {
        name: re.findall(r"<option[^>]*>(.*?)</option>", body)
        for name, body in re.findall(r'<select name="(\w+)">(.*?)</select>', form, re.DOTALL)
    }
    assert options["figure"] == list(by_size.BY_SIZE_METRICS)
    rows = [row for row in rows_of(page, "by_size") if "family" in row]
    shown = {family: {row["rung"] for row in rows if row["family"] == family} for family in options["family"]}
    assert len(shown) == 4
    assert all("cublas" in rungs and len(rungs) <= MOST + 1 for rungs in shown.values())
    assert sorted(re.findall(r'value="(.*?)"', form)) == sorted(set().union(*shown.values()))


def test_two_rungs_are_compared_by_times_counters_stalls_and_resources(page, material):
    found = json.loads(re.search(r'id="numbers">(.*?)</script>', page.read_text(), re.DOTALL)[1])
    place = list(found["rungs"]).index("async_copy")
    values = {row["name"]: row["at"]["4096"][place] for rows in reversed(found["groups"].values()) for row in rows}
    tables = {
        name: table[(table["rung"] == "async_copy") & (table["shape"] == "4096")]
        for name, table in material.tables.items()
        if "rung" in table and "shape" in table
    }
    assert values["median, ms"] == pytest.approx(tables["timings"]["time_ms_median"].item(), rel=1e-5)
    main = tables["resources"][tables["resources"]["multiplies"]]
    assert values["registers a thread"] == main["registers"].item()
    metrics = material.tables["metrics_by_rung"].set_index(["shape", "metric"])["async_copy"]
    assert values["FMA pipe active, %"] == pytest.approx(metrics["4096", "FMA pipe active"], rel=1e-5)
    stall = tables["profiles"][(tables["profiles"]["name"] == "stall_barrier") & tables["profiles"]["multiplies"]]
    assert values["barrier"] == pytest.approx(float(stall["value"].item()), rel=1e-5)


def test_the_rungs_of_a_table_lead_to_what_is_said_of_them(page):
    text = page.read_text()
    linked = set(re.findall(r'<a href=\\+"#(rung-[^"\\]+)', text))
    assert len(linked) > 10
    assert linked <= set(re.findall(r'id="(rung-[^"]+)"', text))


def test_the_ladder_shows_emulation_and_determinism_beside_each_verdict(page, material):
    rungs = material.tables["rungs"].copy()
    head = re.search(r'id="ladder-table".*?</thead>', page.read_text(), re.DOTALL)[0]
    titles = [re.sub(r"<.*>|\\n", "", title).strip() for title in re.findall(r"<th[^>]*>(.*?)</th>", head)]
    assert titles[: len(VERDICTS)] == VERDICTS
    rungs.loc[rungs["rung"] == "naive", ["emulation", "determinism"]] = ["wrong here", "never alike"]
    text = render(with_tables(material, rungs=rungs))
    (row,) = (row for row in re.findall(r"\[[^\[\]]*#rung-naive[^\[\]]*\]", text) if "never alike" in row)
    assert "wrong here" in row


@pytest.mark.parametrize("name", WHY)
def test_every_chart_of_why_is_drawn_from_the_records(page, material, name):
    rungs = set(labelled(material.tables["rungs"], material.tables["rungs"])["rung"])
    shown = {row["rung"] for row in rows_of(page, name) if "rung" in row}
    assert shown
    assert shown <= rungs


def test_the_roofline_shows_rungs_of_fp32_alone_and_no_rate_of_zero(page, material):
    rungs = material.tables["rungs"].set_index("rung")["precision"]
    shown = [row for row in rows_of(page, "roofline") if "rung" in row]
    assert {rungs[row["rung"]] for row in shown} == {"fp32"}
    profiles = material.tables["profiles"].copy()
    idle = (profiles["rung"] == shown[0]["rung"]) & (profiles["name"] == "ffma_per_cycle")
    profiles.loc[idle, "value"] = "0"
    text = render(with_tables(material, profiles=profiles))
    rows = [row for row in rows_in(text, "roofline") if "rung" in row]
    assert rows
    assert shown[0]["rung"] not in {row["rung"] for row in rows}


def test_the_charts_of_why_show_the_numbers_of_the_tables(page, material):
    slots, paper = material.tables["slots"], material.tables["paper"]
    one = slots.iloc[0]
    ffma = [row for row in rows_of(page, "issue_slots") if (row["rung"], row["part"]) == (one["rung"], "FFMA")]
    assert ffma[0]["percent"] == pytest.approx(one["percent"], rel=1e-3)
    by_rung = {}
    for row in rows_of(page, "instruction_mix"):
        by_rung.setdefault((row["rung"], row["shape"]), []).append(row["percent"])
    assert all(sum(parts) == pytest.approx(100, abs=0.1) for parts in by_rung.values())
    at = paper[(paper["rung"] == "tiled_1d") & (paper["shape"] == "4096")].iloc[0]
    row = next(row for row in rows_of(page, "prediction") if (row["rung"], row["shape"]) == ("tiled_1d", "4096"))
    assert row["measured"] == pytest.approx(at["measured_gflops"] / 1e3, rel=1e-3)
    assert row["predicted"] == pytest.approx(at["predicted_gflops"] / 1e3, rel=1e-3)


def test_without_profiles_the_report_has_no_chart_of_them(material):
    names = ("profiles", "slots", "metrics_by_rung", "hotspots", "diagnosis", "advice")
    text = render(with_tables(material, **{name: material.tables[name].iloc[:0] for name in names}))
    assert 'id="issue_slots"' not in text
    assert 'id="roofline"' not in text
    assert 'id="occupancy_limits"' in text


def test_the_errors_of_the_checks_stay_below_their_bounds(material):
    figure = check_errors.figure(material.tables["checks"], list(material.tables["rungs"]["rung"]))
    rows = figure.layers[-1].data.to_dict("records")
    assert {row["rung"] for row in rows} == set(material.tables["checks"]["rung"])
    assert all(0 < row["share"] <= 1 for row in rows)


@pytest.mark.parametrize("color", ["black", "white", "#332288", "#ddcc77", "#88ccee"])
def test_a_charts_colour_stands_out_from_light_and_dark_pages(color):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(legible(color))]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    assert 1.05 / (luminance + 0.05) >= 3
    assert (luminance + 0.05) / (0.0056 + 0.05) >= 3  # the dark page, #0d1117


def test_a_page_says_which_cublas_a_share_is_of(page, material):
    assert (
        "% of cuBLAS is of cublas_tf32 for TF32, of the faster of cublas and cublas_best for every other class."
        in page.read_text()
    )
    rungs = material.tables["rungs"]
    none = {name: material.tables[name].iloc[:0] for name in ("timings", "sustained") if name in material.tables}
    alike = with_tables(material, rungs=rungs[rungs["precision"] != "tf32"], **none)
    kept = [rung for rung in material.rungs if rung.name in set(alike.tables["rungs"]["rung"])]
    assert "% of cuBLAS is" not in render(Material(**{**vars(alike), "rungs": kept}))


def test_small_errors_keep_their_digits_in_the_table(page, material):
    smallest = material.tables["accuracy"]["error_normwise"].min()
    assert smallest < 1e-6
    assert number(smallest) in page.read_text()


def test_every_link_within_the_page_leads_somewhere(page):
    text = re.sub(r"<script>.*?</script>", "", page.read_text(), flags=re.DOTALL)
    targets = set(re.findall(r"""href=["']#([^"']+)["']""", text))
    assert "hardware" in targets
    assert targets <= set(re.findall(r"""id=["']([^"']+)["']""", text))


def test_nothing_in_the_page_is_loaded_from_elsewhere(page):
    head = re.sub(r"<script>.*?</script>", "", page.read_text(), flags=re.DOTALL)
    assert not re.findall(
        r"""(?:src|href)=["'](?!data:|#|../raw/)[^"']*["']""", re.sub(r"<pre>.*?</pre>", "", head, flags=re.DOTALL)
    )


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
@pytest.mark.parametrize("font", ["Verdana, DejaVu Sans", "serif", "monospace"])
def test_nothing_is_clipped_on_a_phone_in_any_font(page, font):
    seen = look(page, 390, False, font)
    assert seen.page["charts"] >= len(CHARTS)
    assert seen.page["clipped"] == []
    assert seen.page["overlapping"] == []
    assert seen.page["widest"] == ""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_a_browser_shows_the_report_without_a_network(page, width, dark):
    seen = look(page, width, dark)
    assert seen.console == []
    assert seen.page["requests"] == []
    assert seen.page["dark"] is dark
    assert seen.page["width"] == width
    assert seen.page["widest"] == ""
    assert seen.page["charts"] >= len(CHARTS)
    assert seen.page["tables"] >= 1
    assert seen.page["switched"] is True
    low, high = seen.page["axis"]
    assert 50 < low < high < 170  # of two rungs that were ticked, though others are far below
    assert seen.page["compared"] > 40
    assert seen.page["buttons"] >= 2
    rates = [float(rate) for rate in seen.page["rates"] if rate]  # of a rung that is not timed it is empty
    assert len(set(rates)) > 5
    assert rates == sorted(rates)
    tables = [list(csv.reader(io.StringIO(text))) for text in seen.page["saved"]]
    (ladder,) = (table for table in tables if "determinism" in table[0])
    assert [row[ladder[0].index("TFLOP/s")] for row in ladder[1:]] == seen.page["rates"]
    assert {len(row) for row in ladder} == {len(ladder[0])}
    assert "<" not in "".join(itertools.chain(*ladder))
    (compared,) = (table for table in tables if table[0][0].startswith("at "))
    (copied,) = seen.page["copied"]
    assert [line.split("\t") for line in copied.split("\n")] == compared
    assert len(compared) == seen.page["compared"]
    assert seen.page["texts"] > 300
    assert seen.page["faint"] == []
    assert seen.page["clipped"] == []
    assert seen.page["overlapping"] == []


def test_each_number_of_the_tables_leads_to_its_record(page):
    text = page.read_text()
    targets = set(re.findall(r'<a href=\\*"#((?:time|check|profile|accuracy)-[^"\\$]+)', text))
    assert {name.partition("-")[0] for name in targets} == {"time", "check", "profile", "accuracy"}
    assert targets <= set(re.findall(r'id="([^"]+)"', text))
    for file in set(re.findall(r'<a href="(../raw/[^"]+)"', text)):
        assert (ROOT / "results/h100-sxm/all" / unquote(file)).resolve().exists(), file
