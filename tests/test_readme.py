"""The README shows what the recorded tables say."""

from pathlib import Path

from ladder.summary import summary
from ladder.tables import read_table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "h100-sxm"


def test_the_readme_shows_the_summary_of_the_recorded_run():
    tables = [read_table(RESULTS / "tables" / f"{name}.csv") for name in ("rungs", "timings")]
    table = summary(*tables, "", "").split("\n\n")[1]
    assert table.count("\n") > 10
    assert f"```\n{table.strip()}\n```" in (ROOT / "README.md").read_text()


def test_the_pictures_and_files_that_the_readme_names_exist():
    text = (ROOT / "README.md").read_text()
    for target in (part.split(")")[0] for part in text.split("](")[1:]):
        assert (ROOT / target).exists(), target
