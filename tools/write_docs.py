"""Writes the pages whose numbers come from recorded tables: fills the templates in docs/templates.

usage: python tools/write_docs.py            writes every page that has a template
       python tools/write_docs.py --check    names the pages that are stale; the exit status is 1 where one is

docs/templates/NAME.md.j2 becomes docs/NAME.md, and docs/templates/top/NAME.md.j2 becomes NAME.md of the repository. A
template is Jinja's. It names no measured number; it calls a function of this file (`FUNCTIONS`), which looks the number
up in results/GPU/tables, or in results/GPU/raw where no table has it. The headers of the tutorial rungs are pages too:
their tables of builds are written anew (header_figures.py).
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import jinja2
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "workflow")]

import doc_cases  # noqa: E402
import doc_numbers  # noqa: E402
from doc_numbers import GPU, Number, cell, rate, rows  # noqa: E402
from hand_occupancy import occupancy_by_hand  # noqa: E402
from header_figures import headers  # noqa: E402
from ladder.config.documents import read_yaml  # noqa: E402
from ladder.measure.survey.data import DATA_FAMILIES  # noqa: E402
from ladder.model.shape import Shape  # noqa: E402
from ladder.records import store  # noqa: E402
from ladder.records.timings import read_time_record  # noqa: E402
from ladder.system.errors import LadderError  # noqa: E402
from ladder.system.paths import shown  # noqa: E402
from record_architectures import architectures  # noqa: E402
from record_attacks import attacks  # noqa: E402
from record_errors import SPLIT, TITLES, above, limit, shares  # noqa: E402
from record_faults import corpus  # noqa: E402
from record_languages import languages  # noqa: E402
from record_library import programs_with_the_shim  # noqa: E402
from record_measuring import effects  # noqa: E402
from record_mutants import mutants  # noqa: E402
from record_neighbour import neighbour  # noqa: E402
from record_pair import pair  # noqa: E402
from record_regression import regression  # noqa: E402
from worklogs import ladder_as_published, worklogs  # noqa: E402

DOCS = ROOT / "docs"
RESULTS = ROOT / "results"
SAID = {"lever", "prediction", "verdict"}  # of each trial in docs/trials.yaml
MADE = "<!-- Made by `make docs` from {template} and the tables in results. Edit the template, not this page. -->\n"

# The ladder


def tflops(rung: str, shape: int | str = 4096, gpu: str = GPU) -> str:
    """TFLOP/s of the median time, as `rate` writes them."""
    return rate(cell("timings", "gflops", gpu, rung=rung, shape=shape))


def share_of_cublas(rung: str, shape: int | str = 4096, gpu: str = GPU) -> str:
    """How many times as fast as the cuBLAS that was measured beside it."""
    return f"{cell('timings', 'speedup_over_cublas', gpu, rung=rung, shape=shape):.2f}"


def predicted_tflops(rung: str, shape: int | str = 4096, gpu: str = GPU) -> str:
    """The lowest ceiling of the rung's own counts, in TFLOP/s."""
    return rate(cell("paper", "predicted_gflops", gpu, rung=rung, shape=shape))


def profiled(rung: str, name: str, shape: int | str = 4096, gpu: str = GPU) -> float:
    """A metric of Nsight Compute for the kernel that multiplies, by its name and in its unit in tables/profiles.csv."""
    return float(cell("profiles", "value", gpu, rung=rung, shape=shape, name=name, multiplies=True))


# Errors


def error_of_cublas(rung: str, m: int, k: int, family: str, gpu: str = GPU) -> str:
    """The norm-wise error of a product with n = m, in units of cuBLAS's error."""
    return _beside_cublas("error_normwise", rung, m, k, family, gpu)


def time_of_cublas(rung: str, m: int, k: int, family: str, gpu: str = GPU) -> str:
    """The time of the same product, in units of cuBLAS's time."""
    return _beside_cublas("time_ms", rung, m, k, family, gpu)


def _beside_cublas(column: str, rung: str, m: int, k: int, family: str, gpu: str) -> str:
    own, cublas = (cell("accuracy", column, gpu, rung=each, m=m, k=k, family=family) for each in (rung, "cublas"))
    return f"{own / cublas:.2f}"


def errors(gpu: str = GPU) -> dict[str, Any]:
    """What raw/errors.json says: where, shapes (their number), rungs, and families, one a kind of inputs.

    Of a family there are title, limit, and for each rung the largest error and how many shapes exceed the limit
    (`above`). Errors and limits are in units of cuBLAS's error.
    """
    record = store.read_record(RESULTS / gpu / "raw/errors.json")
    families = [
        {
            "title": title,
            "limit": limit(family),
            "largest": [max(shares(record, family, rung).values()) for rung in SPLIT],
            "above": [len(above(record, family, rung)) for rung in SPLIT],
        }
        for family, title in TITLES.items()
    ]
    shapes = len(shares(record, next(iter(TITLES)), SPLIT[0]))
    return {"where": record["where"], "shapes": shapes, "rungs": SPLIT, "families": families}


# Trials


def trial(record: str, kernel: str, shape: int | str = 4096, gpu: str = GPU) -> str:
    """TFLOP/s of one variant in the record of a trial."""
    return rate(cell("experiments", "gflops", gpu, experiment=record, kernel=kernel, shape=shape))


def trial_share(record: str, kernel: str, shape: int | str = 4096, gpu: str = GPU) -> str:
    """How many times as fast a variant is as the cuBLAS beside it."""
    return f"{cell('experiments', 'share_of_baseline', gpu, experiment=record, kernel=kernel, shape=shape):.2f}"


def change(record: str, kernel: str, before: str, shape: int | str = 4096, gpu: str = GPU) -> str:
    """How one variant compares with another of the same record, in words: `4 % faster`."""
    own, other = (
        float(cell("experiments", "gflops", gpu, experiment=record, kernel=each, shape=shape))
        for each in (kernel, before)
    )
    percent = round(100 * (own / other - 1))
    return f"{abs(percent)} % {'faster' if percent > 0 else 'slower'}" if percent else "equally fast"


def trial_table(record: str, shapes: Sequence[int | str], variants: Mapping[str, str], gpu: str = GPU) -> str:
    """A Markdown table of TFLOP/s: a row for each variant (kernel: what to call it), a column for each shape."""
    lines = [
        f"| TFLOP/s, {trial_link(record, gpu)} | {' | '.join(map(str, shapes))} |",
        "| --- |" + " --- |" * len(shapes),
    ]
    for kernel, title in variants.items():
        lines.append(f"| {title} | {' | '.join(trial(record, kernel, shape, gpu) for shape in shapes)} |")
    return "\n".join(lines)


def trial_link(record: str, gpu: str = GPU) -> str:
    """A link to the section of trials.md about a record."""
    return f"[`{record}`](trials.md#{_entry(record, gpu, described()['records']).lower().replace('/', '')})"


def trial_clock_ghz(record: str, kernel: str, shape: int, gpu: str = GPU) -> str:
    """The median SM clock around the samples of a variant, in GHz."""
    timings = read_time_record(RESULTS / gpu / "raw/experiments" / f"{record}.zip")
    try:
        clocks = timings[Shape.parse(str(shape))].measurements[kernel].clocks_hz
    except KeyError:
        raise LadderError(f"{record}.zip: has no {kernel} at {shape}") from None
    return f"{np.median(clocks) / 1e9:.2f}"


def rates(record: str, column: str, /, gpu: str = GPU, **key: Any) -> Number:
    """A column of the one row of a loop of instructions (raw/experiments/RECORD.json) that the key names."""
    found = [row for row in microbenchmark(record, gpu)["rates"] if key.items() <= row.items()]
    if len(found) != 1:
        raise LadderError(f"results/{gpu}/raw/experiments/{record}.json: {len(found)} rows with {key}, not one")
    return found[0][column]


def microbenchmark(record: str, gpu: str = GPU) -> dict[str, Any]:
    """The record of a loop of single instructions: what, gpu, nvcc, launch, source (lines), rates."""
    import json

    path = RESULTS / gpu / "raw/experiments" / f"{record}.json"
    if not path.exists():
        raise LadderError(f"{shown(path)}: there is no such record")
    return json.loads(path.read_text())


def described() -> dict[str, Any]:
    """docs/trials.yaml: `records` (for each the list of its trials) and `macros` (what names in old sources mean)."""
    return read_yaml(DOCS / "trials.yaml")


def trials() -> list[dict[str, Any]]:
    """Every recorded trial in the order of names, with what docs/trials.yaml says of it.

    Of a trial that several GPUs have, the record of `GPU` is taken, or of the first by name; other records of that
    name have entries of their own, as `h200-sxm/NAME`. Raises LadderError where a record of `GPU` has no entry or an
    entry no record, and where a variant is not in the record.
    """
    entries = described()["records"]
    found = sorted(RESULTS.glob("*/raw/experiments/*"), key=lambda path: (path.parts[-4] != GPU, path))
    names: dict[str, Path] = {}
    for path in found:
        entry = _entry(path.stem, path.parts[-4], entries)
        if path.suffix in (".zip", ".json") and (path.parts[-4] == GPU or entry in entries):
            names.setdefault(entry, path)
    if missing := sorted(set(names) - set(entries)):
        raise LadderError(f"docs/trials.yaml: {missing[0]}: no entry; say what was tried, predicted and found")
    if unknown := sorted(set(entries) - set(names)):
        where = shown(RESULTS / "*/raw/experiments")
        raise LadderError(f"docs/trials.yaml: {unknown[0]}: {where} has no such record; remove the entry")
    for name, each in ((name, each) for name, listed in entries.items() for each in listed):
        if missing := sorted(SAID - set(each)):
            raise LadderError(f"docs/trials.yaml: {name}: {missing[0]}: missing")
        if unknown := sorted(set(each) - SAID - {"variants"}):
            raise LadderError(
                f"docs/trials.yaml: {name}: {unknown[0]}: unknown; an entry has {', '.join(sorted(SAID))}"
            )
    return [
        {"name": name, **(_timed if path.suffix == ".zip" else _counted)(path.stem, entries[name], path.parts[-4])}
        for name, path in sorted(names.items())
    ]


def _entry(name: str, gpu: str, entries: Container[str]) -> str:
    """What a trial of a GPU is called in docs/trials.yaml and docs/trials.md."""
    own = f"{gpu}/{name}"
    return own if own in entries else name


def _counted(name: str, entry: Sequence[Mapping[str, Any]], gpu: str) -> dict[str, Any]:
    return {"trials": entry, "counted": microbenchmark(name, gpu), "runs": []}


def _timed(name: str, entry: Sequence[Mapping[str, Any]], gpu: str) -> dict[str, Any]:
    path = RESULTS / gpu / "raw/experiments" / f"{name}.zip"
    runs = [(store.run_record(files, path), sorted(files)) for files in store.read_runs(path).values()]
    found = rows("experiments", gpu, experiment=name)
    kernels, shapes = list(dict.fromkeys(found["kernel"])), list(dict.fromkeys(found["shape"]))
    kernels.sort(key=lambda kernel: kernel != "cublas")
    cells = {(row.kernel, row.shape): f"{rate(row.gflops)} ({row.share_of_baseline:.2f})" for row in found.itertuples()}
    for each in entry:
        if unknown := [kernel for kernel in each.get("variants", []) if kernel not in kernels]:
            raise LadderError(f"docs/trials.yaml: {name}: variants: {unknown[0]} is not in the record")
    return {
        "counted": None,
        "trials": [
            {**each, "numbers": [kernels.index(kernel) for kernel in each.get("variants", [])]} for each in entry
        ],
        "runs": [
            {
                **run,
                "sources": [file for file in files if file.startswith("sources/")],
                "commit": run["where"]["software"]["git_commit"].removesuffix("-dirty"),
                "dirty": run["where"]["software"]["git_commit"].endswith("-dirty"),
            }
            for run, files in runs
        ],
        "shapes": shapes,
        "variants": {kernel: [cells.get((kernel, shape), "") for shape in shapes] for kernel in kernels},
    }


def data_families() -> str:
    """The families of data of the survey, in the words of `ladder.measure.survey.data`, as a Markdown table."""
    lines = (f"| `{name}` | {(family.__doc__ or '').rstrip('.')} |" for name, family in DATA_FAMILIES.items())
    return "\n".join(["| family | A and B |", "| --- | --- |", *lines])


def public(module: ModuleType) -> list[Callable[..., Any]]:
    """The functions of a module that others may call."""
    found = (each for each in vars(module).values() if getattr(each, "__module__", "") == module.__name__)
    return [each for each in found if not each.__name__.startswith("_")]


FUNCTIONS = (
    *(*public(doc_numbers), *public(doc_cases)),
    *(tflops, share_of_cublas, predicted_tflops, profiled),
    *(error_of_cublas, time_of_cublas, errors),
    *(architectures, attacks, corpus, data_families, effects, languages, mutants, neighbour, pair),
    regression,
    *(occupancy_by_hand, worklogs, ladder_as_published, programs_with_the_shim),
    *(trial, trial_share, change, trial_table, trial_link, trial_clock_ghz, rates, trials, described),
)


# The pages


def page_of(template: Path) -> Path:
    """The page that a template is for."""
    inside = template.relative_to(DOCS / "templates")
    return (ROOT / inside.name if inside.parts[0] == "top" else DOCS / inside).with_suffix("")


def filled(template: Path) -> str:
    """A template with its numbers; raises LadderError, which names the template and its line, where one is missing."""
    name = shown(template)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template.parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    try:
        page = environment.get_template(template.name).render({each.__name__: each for each in FUNCTIONS})
    except jinja2.TemplateSyntaxError as error:
        raise LadderError(f"{name}:{error.lineno}: {error.message}") from None
    except (LadderError, jinja2.UndefinedError, TypeError) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(template)]
        raise LadderError(f"{name}:{lines[-1] if lines else 1}: {error}") from None
    return MADE.format(template=name) + page


def pages() -> dict[Path, str]:
    """Every page that has a template, and every source with a table of builds, as they have to be."""
    return {page_of(each): filled(each) for each in sorted((DOCS / "templates").rglob("*.j2"))} | headers()


def stale() -> list[Path]:
    """The pages that are missing or are not what their templates and the tables make."""
    return [page for page, text in pages().items() if not page.exists() or page.read_text() != text]


def main(arguments: Sequence[str]) -> int:
    """Do what the arguments ask for; returns the exit status, which is 1 after a line on the standard error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, name what is stale")
    try:
        if not parser.parse_args(arguments).check:
            for page, text in pages().items():
                store.write_text(page, text)
            return 0
        found = stale()
    except LadderError as error:
        print(f"write_docs: {error}", file=sys.stderr)
        return 1
    for page in found:
        print(f"write_docs: {shown(page)}: is stale; write it with: make docs", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
