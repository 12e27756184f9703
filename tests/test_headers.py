"""The figures in a tutorial rung's header are those of the build that is measured."""

import re
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools")]

import header_figures  # noqa: E402

TUTORIAL = ["naive", "coalesced", "tiled", "tiled_1d", "tiled_2d", "vectorized", "conflict_free", "warp_tiled"]
TUTORIAL += ["double_buffered", "async_copy", "tma"]
LADDER = yaml.safe_load((ROOT / "config/kernels.yaml").read_text())
TUNED = yaml.safe_load((ROOT / "config/tuned/h100-sxm.yaml").read_text())
TABLES = {
    name: pd.read_csv(ROOT / f"results/h100-sxm/tables/{name}.csv") for name in ("resources", "instructions", "paper")
}


def header(entry: str) -> list[str]:
    """The lines of a rung's first comment."""
    lines = (ROOT / "kernels/sgemm" / f"{entry}.cu").read_text().splitlines()
    return lines[: next(number for number, line in enumerate(lines) if not line.startswith("//"))]


def builds(entry: str) -> list[dict[str, str]]:
    """The rows of the table in a header."""
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in header(entry) if line.startswith("// |")]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def built(entry: str, label: str) -> tuple[str, str]:
    """The rung and the size that a row of a header is of."""
    if label == "before":
        return LADDER[entry]["before"], "4096"
    *variant, size = label.split(", ") if label[-4:].isdigit() else [label, "4096"]
    return "@".join([entry, *(name for name in variant if name != "all")]), size


def macros(rung: str, size: str) -> dict[str, int]:
    """What a rung is built with for a size, by the tuned file, its name and its source."""
    entry, _, variant = rung.partition("@")
    source = (ROOT / "kernels" / LADDER[entry]["source"]).read_text()
    found = {name: int(value) for name, value in re.findall(r"#define (\w+) (\d+)\n#endif", source)}
    found |= {name: int(value) for name, value in (each.split("=") for each in variant.split(",") if each)}
    return found | TUNED["rungs"].get(rung, {}).get(size, {})


@pytest.mark.parametrize("entry", TUTORIAL)
def test_a_header_has_every_build_of_its_rung_beside_that_of_the_rung_before(entry):
    own = [f"{entry}@{name}={value}" for each in LADDER[entry].get("variants", []) for name, value in each.items()]
    wanted = [(LADDER[entry]["before"], "4096")] if "before" in LADDER[entry] else []
    wanted += [(rung, size) for rung in own or [entry] for size in TUNED["rungs"].get(rung, ["4096"])]
    assert [built(entry, row["build"]) for row in builds(entry)] == wanted


@pytest.mark.parametrize("entry", TUTORIAL)
def test_the_figures_of_a_header_are_those_of_the_tables(entry):
    resources, instructions, paper = TABLES.values()
    for row in builds(entry):
        rung, size = built(entry, row["build"])
        made = macros(rung, size)
        tile = [made["TILE"]] * 3 if "TILE" in made else [made[name] for name in ("BM", "BN", "BK") if name in made]
        assert row["tile"] == " x ".join(map(str, tile))
        assert row["thread"] == f"{made.get('TM', 1)} x {made.get('TN', 1)}"
        at = resources.query("rung == @rung and shape == @size and multiplies").squeeze()
        assert int(row["threads"]) == at["block_threads"]
        assert int(row["registers"]) == at["registers"]
        assert float(row["KiB"]) == round((at["static_shared_bytes"] + at["dynamic_shared_bytes"]) / 1024, 1)
        assert int(row["blocks"]) == at["blocks_per_sm"]
        held, most = map(int, row["warps"].split(" of "))
        assert held == at["blocks_per_sm"] * at["block_threads"] / 32
        assert held / most == at["occupancy_percent"] / 100
        loop = instructions.query("rung == @rung and kernel == @at.kernel and part == 'inner loop'").squeeze()
        assert size in loop["launched_at"].split()
        assert float(row["LDS/FFMA"]) == pytest.approx(loop["LDS"] / loop["FFMA"], rel=0.005)
        assert float(row["FFMA"].rstrip(" %")) == pytest.approx(100 * loop["FFMA"] / loop["instructions"], abs=0.05)
        on_paper = paper.query("rung == @rung and shape == @size").squeeze()
        assert float(row["FLOP/B"]) == pytest.approx(on_paper["intensity_global"], rel=0.005)


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A copy of what the tool reads and writes."""
    for folder in ("kernels/sgemm", "config"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "tables").mkdir()
    for name in TABLES:
        shutil.copy(ROOT / f"results/h100-sxm/tables/{name}.csv", tmp_path / "tables")
    monkeypatch.setattr(header_figures, "ROOT", tmp_path)
    monkeypatch.setattr(header_figures, "TABLES", tmp_path / "tables")
    return tmp_path


def test_a_stale_header_is_named_and_written_anew_with_its_words_and_its_code_as_they_were(copied, capsys):
    header_figures.main(["--check"])
    assert capsys.readouterr().out == ""
    path = copied / "tables/resources.csv"
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    of_one = (table["rung"] == "tiled_2d") & (table["shape"] == "4096")
    table.loc[of_one, "registers"] = "77"
    table.to_csv(path, index=False)
    with pytest.raises(SystemExit) as stopped:
        header_figures.main(["--check"])
    assert stopped.value.code == "run python tools/header_figures.py"
    stale = ["tiled_2d", "vectorized"]  # the second has the first as the rung before
    assert capsys.readouterr().out == "".join(f"stale: kernels/sgemm/{name}.cu\n" for name in stale)
    header_figures.main([])
    assert capsys.readouterr().out == "".join(f"written: kernels/sgemm/{name}.cu\n" for name in stale)
    before, after = ((root / "kernels/sgemm/tiled_2d.cu").read_text().splitlines() for root in (ROOT, copied))
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert [(old.split("|")[5].strip() != "77", new.split("|")[5].strip()) for old, new in changed] == [(True, "77")]
    header_figures.main(["--check"])


def test_a_table_without_the_build_and_a_header_without_a_place_end_with_one_line(copied):
    path = copied / "tables/resources.csv"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith("tma,")))
    with pytest.raises(SystemExit, match=r"resources.csv: rung tma, shape 1024, multiplies True: 0 rows instead of"):
        header_figures.main([])
    with pytest.raises(SystemExit, match="naive: the header needs one line that begins with '// Builds on '"):
        header_figures.with_builds("naive", "// naive: no table\nint main() {}\n")
    with pytest.raises(SystemExit, match="the only argument is --check"):
        header_figures.main(["--chekc"])
