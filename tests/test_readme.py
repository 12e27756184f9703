"""README and docs show what the recorded tables say, and name what there is."""

from pathlib import Path

import pytest
from ladder.show.summary import run_summary
from ladder.tables.files import read_table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "h100-sxm"


def test_the_quick_start_shows_the_summary_of_the_recorded_run():
    tables = [read_table(RESULTS / "tables" / f"{name}.csv") for name in ("rungs", "timings")]
    table = run_summary(*tables, "", "").split("\n\n")[1]
    assert table.count("\n") > 10
    assert f"```\n{table.strip()}\n```" in (ROOT / "docs/quick-start.md").read_text()


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_pictures_and_files_that_a_page_names_exist(page):
    for target in (part.split(")")[0] for part in page.read_text().split("](")[1:]):
        assert target.startswith("https://") or (page.parent / target.split("#")[0]).exists(), target


def test_the_index_names_every_page():
    index = (ROOT / "docs/README.md").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "README.md" or f"]({page.name})" in index, page.name
