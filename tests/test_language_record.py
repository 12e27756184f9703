"""The record of what each language's compiler makes of an idea is of the present sources."""

import shutil

import numpy as np
import pytest
from conftest import a_rung, write
from ladder.config.sources import source_digest
from ladder.model.shape import Shape
from ladder.records import store
from ladder.records.digests import source_of
from ladder.records.timings import read_time_record
from ladder.system.paths import ROOT
from record_languages import IDEAS, RECORD, all_rungs, languages, lines_of_code, measured_gpus, measured_rows

RUNGS = all_rungs()


@pytest.mark.parametrize("name", [name for names in IDEAS.values() for name in names if name])
def test_every_rung_of_an_idea_is_recorded_from_its_present_source(name):
    build = store.read_json(RECORD)["builds"][name]
    again = "record it again: python tools languages compile, then make docs"
    assert build["source_digest"] == source_digest(RUNGS[name]), again
    assert build["lines"] == lines_of_code(RUNGS[name]), again


def test_rungs_of_an_idea_have_one_precision_and_the_page_shows_each():
    page = languages()
    for names in IDEAS.values():
        assert len({RUNGS[name].precision for name in names if name}) == 1
        assert all(f"`{name}`" in page for name in names if name)


def test_the_page_shows_what_was_measured_on_each_gpu_that_timed_a_rung_in_another_language(tmp_path):
    for stage, ending in (("time", "zip"), ("check", "json")):
        (tmp_path / "h200-sxm/raw" / stage).mkdir(parents=True)
        record = ROOT / f"results/h100-sxm/raw/{stage}/async_copy.{ending}"
        shutil.copy(record, tmp_path / "h200-sxm/raw" / stage)
    assert measured_gpus(tmp_path) == []
    (tmp_path / "h200-sxm/raw/time/triton_tiled.zip").touch()
    assert measured_gpus(tmp_path) == ["h200-sxm"]
    rows = measured_rows("h200-sxm", Shape(4096, 4096, 4096), tmp_path)
    assert list(rows) == [
        "time at 4096 on an H200", "of the fastest cuBLAS of its class, H200", "largest relative error on an H200",
    ]  # fmt: skip
    timing = read_time_record(ROOT / "results/h100-sxm/raw/time/async_copy.zip")[Shape(4096, 4096, 4096)]
    own, library = (np.median(timing.measurements[name].times_s) for name in ("async_copy", "cublas"))
    build = {"source_digest": source_of(timing.where)}
    time, share, error = (of(build, "async_copy") for of in rows.values())
    assert time == f"{1000 * own:.3f} ms"
    assert share == f"{100 * library / own:.0f} %"
    assert 1e-9 < float(error) < 1e-5
    assert {of({}, "cutile_tiled") for of in rows.values()} == {"not recorded yet"}


def test_the_page_says_what_was_measured_of_an_earlier_source_and_what_failed_its_check(tmp_path):
    raw = tmp_path / "h200-sxm/raw"
    for path in ("time/async_copy.zip", "check/async_copy.json"):
        (raw / path).parent.mkdir(parents=True)
        shutil.copy(ROOT / "results/h100-sxm/raw" / path, raw / path)
    time, _, error = measured_rows("h200-sxm", Shape(4096, 4096, 4096), tmp_path).values()
    record = store.read_record(raw / "check/async_copy.json")
    present, other = {"source_digest": source_of(record["where"])}, {"source_digest": "0" * 16}
    assert time(other, "async_copy") == f"{time(present, 'async_copy')}, of an earlier source"
    assert error(other, "async_copy") == f"{(value := error(present, 'async_copy'))}, of an earlier source"
    store.write_json(raw / "check/async_copy.json", record | {"status": "failed"})
    assert error(present, "async_copy") == f"{value}, failed"
    assert error(other, "async_copy") == f"{value}, of an earlier source that failed its check"


@pytest.mark.parametrize(
    ("ending", "text", "lines"),
    [
        (".cu", '// words\n\n#include "gemm.cuh"\n/* more\n words */\nint a;  // an end\nint b[] = {\n  1,\n};\n', 5),
        (
            ".py",
            '"""Words.\n\nMore.\n"""\n\nimport ast  # why\n\n\ndef f(a,\n      b):\n    """Words."""\n    return a\n',
            4,
        ),
    ],
)
def test_lines_of_code_are_those_with_more_than_words(tmp_path, ending, text, lines):
    rung = a_rung("mine", source=str(write(tmp_path / f"mine{ending}", text)))
    assert lines_of_code(rung) == lines
