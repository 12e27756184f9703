"""One HTML report a GPU: self-contained, offline, from the tables, figures and sources alone."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import altair
import itables
import jinja2
import pandas as pd
import vl_convert
from itables.javascript import generate_init_offline_itables_html
from markdown_it import MarkdownIt
from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CppLexer, PythonLexer

from ladder.config.sources import source_of_rung, source_text
from ladder.model.claims import in_words
from ladder.model.gpu import Gpu
from ladder.model.precision import BOUNDS, label, labelled, name_of, shared_in
from ladder.model.rung import Rung
from ladder.records.identity import DEVICES, RecordPlace
from ladder.show import compare, interactive, samples
from ladder.show.figures import accuracy, at_one_size, by_size, check_errors, published, survey, sustained, why
from ladder.show.figures.by_size import best_rung
from ladder.show.figures.specification import Specification, one_of
from ladder.show.hardware_page import hardware_page
from ladder.show.numbers import number, percent
from ladder.show.origin import origin_line, origins
from ladder.show.pages import by_work
from ladder.show.shipped import of_shipped, shipped_line
from ladder.show.style import rung_key
from ladder.system.paths import ROOT, shown
from ladder.tables.published import COMPARED_RATES, findings, size_words, verdict_words
from ladder.tables.timings import headline_shape, square_rows

TEMPLATES = ROOT / "workflow" / "report"
STATIC = re.compile(r'(<div id="[^"]+_fallback">).*?</table>.*?(</div>)', re.DOTALL)  # a table without scripts
# The charts that say why.
WHY = (
    "intensity",
    "roofline",
    "issue_slots",
    "instruction_mix",
    "occupancy_limits",
    "prediction",
    "predicted",
)  # the charts that say why


@dataclass(frozen=True)
class Material:
    """What the report is made of: the GPU, the rungs, the tables by name, the folder of results."""

    gpu: Gpu
    recorded: str | None
    baseline: str
    rungs: Sequence[Rung]
    ladder: Sequence[str]
    tables: Mapping[str, pd.DataFrame]
    results: Path

    @property
    def folder(self) -> str:
        """The folder that the files of records are named from: results/GPU, or that of the user's device in it."""
        device = RecordPlace.of(self.results.parent / "raw/time").device
        return "/".join(filter(None, ["results", self.gpu.name, device and f"{DEVICES}/{device}"]))


def render(material: Material) -> str:
    """The report as one HTML document; equal material gives equal bytes."""
    figures = _figures(material)
    material = replace(material, tables=_labelled(material.tables))
    rungs, timings = material.tables["rungs"], material.tables["timings"]
    timed = [name for name in rungs.loc[rungs["role"] != "floor", "rung"] if name in set(timings["rung"])]
    charts = {name: interactive.charts(figure) for name, figure in figures.items()}
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    return environment.get_template("report.html.j2").render(
        gpu=material.gpu.title,
        recorded=material.recorded,
        answer=(lines := answer(material)),
        mentioned=samples.mentioned(lines, rungs, headline_shape(timings)) if timed else [],
        records=samples.entries(material.tables),
        figures=figures,
        choices={name: interactive.choices(figure) for name, figure in figures.items()},
        legends={name: interactive.legend(figure) for name, figure in figures.items()},
        charts=charts,
        why=[name for name in WHY if name in figures],
        compared=_comparison(material.tables["metrics_by_rung"], rungs),
        specs=_script({name: [interactive.compact(chart) for chart in each.values()] for name, each in charts.items()}),
        compare=_script(_compared(material)) if timed else "",
        pair=[material.baseline, _fastest(material) or material.baseline],
        shapes=list(by_work(timings.drop_duplicates("shape"))["shape"]),
        vega=Markup(_vega()),
        tables_script=Markup(generate_init_offline_itables_html(itables.options.dt_bundle)),
        ladder=_ladder_table(rungs, timings) if timed else "",
        cublas=shared_in(rungs),
        shape=headline_shape(timings[timings["rung"].isin(timed)]) if timed else "",
        explained=headline_shape(timings[timings["rung"].isin(timed)], material.tables["profiles"]) if timed else "",
        origin=origin_line(timings),
        folder=material.folder,
        shipped=_shipped(material),
        timings=_timing_table(timings) if timed else "",
        published=_published(material),
        accuracy=_accuracy(material),
        sustained=_sustained(material),
        hardware=_hardware(material),
        rungs=[_section(rung, material) for rung in material.rungs],
        failed=[row for row in rungs.to_dict("records") if row["message"]],
        environment=material.tables["environment"].fillna("").to_dict("records"),
        code_light=Markup(HtmlFormatter(style="default").get_style_defs(".code")),
        code_dark=Markup(HtmlFormatter(style="github-dark").get_style_defs(".code")),
    )


def _labelled(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """The tables with each rung named by its label, so that none stands beside one of another class without it."""
    rungs = tables["rungs"]
    return {name: labelled(table, rungs) if "rung" in table else table for name, table in tables.items()}


def answer(material: Material) -> list[str]:
    """The sentences that the report begins with: which rung is best, how far from cuBLAS and from the ceiling."""
    fp32 = _timings_of(material, ["fp32"])
    best = best_rung(fp32) if len(fp32) else None
    if not best:
        return ["Nothing is timed on this GPU yet: rungs are compiled and inspected only."]
    naive = f"{best['speedup_over_naive']:.0f} times naive, " if best["speedup_over_naive"] > 0 else ""
    lines = [
        f"{best['rung']} is the fastest rung at {best['n']}: {best['gflops'] / 1e3:.1f} TFLOP/s, "
        f"{percent(best['speedup_over_cublas'], 1)} of cuBLAS, {naive}and "
        f"{percent(best['share_of_peak'])} of the {material.gpu.peak_gflops / 1e3:.1f} TFLOP/s that the FP32 units"
        " could do."
    ]
    square = square_rows(fp32).dropna(subset=["speedup_over_cublas"])
    winners = square.loc[square.groupby("n")["gflops"].idxmax()]
    ahead = winners[winners["speedup_over_cublas_ci_low"] > 1]
    for rung, rows in ahead.groupby("rung", sort=False):
        where = ", ".join(f"{row.n} ({row.speedup_over_cublas:.2f} x)" for row in rows.itertuples())
        lines.append(f"{rung} is faster than cuBLAS, by the whole of the 95 % interval, at {where}.")
    if ahead.empty:
        lines.append("No rung is faster than cuBLAS at any square size.")
    means = material.tables["geomeans"]
    means = means[(means["over"] == "cublas") & means["rung"].isin(fp32["rung"])]
    if len(means):
        top = means.loc[means["speedup"].idxmax()]
        lines.append(
            f"Over n = {size_words(top['sizes'])}, {top['rung']} has the highest geometric mean:"
            f" {percent(top['speedup'], 1)} of cuBLAS."
        )
    if split := _best_split(material):
        lines.append(split)
    return lines


def _fastest(material: Material) -> str | None:
    """The label of the fastest rung of FP32 at the size that stands for the run."""
    fp32 = _timings_of(material, ["fp32"])
    best = best_rung(fp32) if len(fp32) else None
    return best["rung"] if best else None


def _timings_of(material: Material, precisions: Sequence[str]) -> pd.DataFrame:
    """The times of the rungs of these precisions, without baselines and floors."""
    timings, rungs = material.tables["timings"], material.tables["rungs"]
    alike = rungs.loc[rungs["precision"].isin(precisions) & (rungs["role"] == "rung"), "rung"]
    return timings[timings["rung"].isin(alike)]


def _compared(material: Material) -> dict[str, Any]:
    """What two rungs are compared by: their labels, and numbers by group."""
    rungs = material.tables["rungs"]
    labels = list(rungs.loc[rungs["role"] != "floor", "rung"])
    return {"rungs": {each: name_of(each) for each in labels}, "groups": compare.numbers(material.tables, labels)}


def _best_split(material: Material) -> str:
    """The sentence on the fastest rung that keeps the bounds of FP32 with tensor cores; empty where none is timed."""
    kept = [each for each, bound in BOUNDS.items() if bound == BOUNDS["fp32"] and each != "fp32"]
    timings = _timings_of(material, kept)
    best = best_rung(timings) if len(timings) else None
    if not best:
        return ""
    return (
        f"Of the rungs on tensor cores that keep FP32's error bounds, {best['rung']} is the fastest at {best['n']}: "
        f"{best['gflops'] / 1e3:.1f} TFLOP/s, {best['speedup_over_cublas']:.2f} times as fast as cuBLAS in FP32."
    )


@cache
def _vega() -> str:
    """The libraries that draw the charts, as one script, bundled once a process."""
    return vl_convert.javascript_bundle(vl_version=".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2]))


def _figures(material: Material) -> dict[str, Specification]:
    """The figures by their id in the page; those that nothing is recorded for are left out."""
    tables, gpu, baseline, ladder = material.tables, material.gpu, material.baseline, material.ladder
    timings, rungs = tables["timings"], tables["rungs"]
    named = labelled(rungs, rungs)[rungs["role"] != "floor"]
    sizes = by_size.figures(timings, rungs, baseline, gpu.peak_gflops, ladder)
    found = {
        "by_size": one_of("Metric", dict(zip(by_size.BY_SIZE_METRICS, sizes.values(), strict=True))),
        "at_one_size": at_one_size.figure(timings, rungs, baseline, rung_key(named, baseline, ladder)),
        **why.figures(tables, gpu, baseline, ladder),
        "check_errors": check_errors.figure(labelled(tables["checks"], rungs), list(named["rung"])),
    }
    if "accuracy" in tables:
        found["accuracy"] = accuracy.figure(tables["accuracy"], rungs, baseline, ladder)
    if "sustained" in tables:
        found["sustained"] = sustained.figure(tables["sustained"], rungs)
    if "survey" in tables:
        found["survey"] = survey.products(tables["survey"], tables["survey_classes"], rungs)
        found["survey_bandwidth"] = survey.reached_bandwidth(tables["survey"], tables["survey_classes"], rungs)
        found["survey_data"] = survey.on_data(tables["survey_data"], rungs, baseline, ladder)
    if "published" in tables:
        found["published"] = published.figure(tables["published"], list(rungs["rung"]))
    return {
        name: figure for name, figure in found.items() if any(len(layer.data) for layer in figure.layers if layer.x)
    }


def _script(value: Any) -> Markup:
    """A value as JSON that may stand inside a script element."""
    return Markup(json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"))


def _table(
    frame: pd.DataFrame,
    name: str,
    targets: Mapping[str, Sequence[str]] | None = None,
    pages: bool = False,
    **options: Any,
) -> Markup:
    """A table that sorts, copies and saves as CSV, with an id of its own so that equal data give equal bytes.

    Its first column stays in sight where it is wider than the page; the names of rungs in it lead to what is said of
    them. `targets` has for columns the ids that their numbers lead to. With `pages` it shows 15 rows at a time.
    """
    fixed = {"showIndex": False, "connected": False, "order": [], "text_in_header_can_be_selected": False}
    options = {"classes": "display compact nowrap"} | fixed | options
    options |= {"lengthMenu": [[15, 50, -1], [15, 50, "all"]]} if pages else {"paging": False}
    options["buttons"] = [{"extend": kind, "title": name, "footer": False} for kind in ("copyHtml5", "csvHtml5")]
    shown = frame.astype(object).map(lambda value: str(escape(number(value))))
    if "rung" in shown:
        links = [f'<a href="#rung-{name_of(label)}">{label}</a>' for label in shown["rung"]]
        shown = shown.assign(rung=links)
    for column, ids in (targets or {}).items():
        shown[column] = [samples.link(text, to) for text, to in zip(shown[column], ids, strict=True)]
    html = itables.to_html_datatable(shown, table_id=name, allow_html=True, **options)
    return Markup(STATIC.sub(r"\1The same numbers are in the folder tables.\2", html))


def _ladder_table(rungs: pd.DataFrame, timings: pd.DataFrame) -> Markup:
    """One row a rung, at the square size that stands for the run."""
    square = square_rows(timings[timings["rung"].isin(rungs.loc[rungs["role"] != "floor", "rung"])])
    top = square[square["shape"] == headline_shape(square)].set_index("rung")
    kept = rungs[rungs["role"] != "floor"].set_index("rung")
    frame = pd.DataFrame(
        {
            "rung": kept.index,
            "status": kept["status"].to_numpy(),
            "cases": kept["checked_cases"].to_numpy(),
            "determinism": kept["determinism"].to_numpy(),
            "on a CPU": kept["emulation"].to_numpy(),
        },
        index=kept.index,
    )
    numbers = {
        "ms": top["time_ms_median"],
        "± %": 50 * (top["time_ms_ci_high"] - top["time_ms_ci_low"]) / top["time_ms_median"],
        "TFLOP/s": top["gflops"] / 1e3,
        "% of peak": 100 * top["share_of_peak"],
        "% of cuBLAS": 100 * top["speedup_over_cublas"],
        "times naive": top["speedup_over_naive"],
        "times before": top["speedup_over_before"],
    }
    targets = [samples.target("time", name, headline_shape(square)) for name in frame.index]
    checks = [samples.target("check", name) if cases else "" for name, cases in frame["cases"].items()]
    frame = frame.join(pd.DataFrame(numbers)).join(origins(top))
    return _table(frame, "ladder-table", {"cases": checks, **dict.fromkeys(numbers, targets)})


def _comparison(compared: pd.DataFrame, rungs: pd.DataFrame) -> Markup | str:
    """Nsight Compute's metrics with the rungs as columns; empty where nothing is profiled."""
    if compared.empty:
        return ""
    frame, targets = compared[["metric", "unit", "shape"]], {}
    for title in rungs["rung"]:
        if (name := name_of(title)) in compared:
            frame = frame.assign(**{title: compared[name]})
            targets[title] = [samples.target("profile", name, shape) for shape in compared["shape"]]
    return _table(frame, "comparison-table", targets, maxBytes=0)


def _timing_table(timings: pd.DataFrame) -> Markup:
    """Every measurement, one row a rung and shape, by rung and then by size."""
    timings = pd.concat([by_work(rows) for _, rows in timings.groupby("rung", sort=False)])
    frame = pd.DataFrame(
        {
            "rung": timings["rung"],
            "shape": timings["shape"],
            "samples": timings["samples"],
            "median, ms": timings["time_ms_median"],
            "95 % from": timings["time_ms_ci_low"],
            "95 % to": timings["time_ms_ci_high"],
            "noise, %": timings["noise_percent"],
            "TFLOP/s": timings["gflops"] / 1e3,
            "% of cuBLAS": 100 * timings["speedup_over_cublas"],
            "times naive": timings["speedup_over_naive"],
            "SM MHz": timings["sm_clock_mhz"],
            "°C": timings["temperature_c"],
            "W": timings["power_w"],
        }
    )
    ids = [samples.target("time", *key) for key in zip(timings["rung"], timings["shape"], strict=True)]
    targets = dict.fromkeys([name for name in frame if name not in ("rung", "shape")], ids)
    return _table(frame.join(origins(timings)), "timing-table", targets, pages=True, maxBytes=0)


def _published(material: Material) -> dict[str, Any] | None:
    table = material.tables.get("published")
    if table is None or table.empty:
        return None
    rates = table[table["quantity"].isin(COMPARED_RATES)]
    known = set(map(name_of, material.tables["rungs"]["rung"]))
    trials = ~rates["rung"].isin(known)  # named after the tiles that somebody published
    entries, tiles = (rates["rung"].map(lambda name, part=part: name.partition("@")[part]) for part in (0, 2))
    frame = pd.DataFrame(
        {
            "publication": rates["publication"],
            "GPU": rates["gpu"],
            "kernel": rates["kernel"],
            "rung": rates["rung"].where(~trials, entries),
            "tiles": tiles.where(trials, "tuned"),
            "n": rates["sizes"].map(size_words),
            "what": rates["quantity"].str.replace("_", " "),
            "over": rates["compared_with"],
            "there": rates["published"],
            "here": rates["here"],
            "verdict": verdict_words(rates),
            "why": rates["reason"],
        }
    )
    sources = list(dict.fromkeys(zip(table["publication"], table["source"], strict=True)))
    return {"findings": findings(table), "table": _table(frame, "published-table"), "sources": sources}


def _shipped(material: Material) -> dict[str, Any] | None:
    """What ships with the repository beside this device: in words, and as a table; None where nothing is beside it."""
    table = material.tables.get("shipped")
    if table is None or table.empty:
        return None
    frame = pd.DataFrame(
        {
            "rung": table["rung"],
            "shape": table["shape"],
            "here, ms": table["time_ms"],
            "shipped, ms": table["time_ms_baseline"],
            "here / shipped": table["here_over_shipped"],
            "here is": table["verdict"],
            "builds": table["same_build"].astype(bool).map({True: "the same", False: "not the same"}),
        }
    )
    origin = origins(of_shipped(table)).add_prefix("shipped: ")
    ids = [samples.target("time", *key) for key in zip(table["rung"], table["shape"], strict=True)]
    return {
        "line": shipped_line(table),
        "table": _table(frame.join(origin), "shipped-table", {"here, ms": ids}, pages=True),
    }


def _accuracy(material: Material) -> Markup | str:
    """The table of errors against k; empty where none are recorded."""
    table = material.tables.get("accuracy")
    if table is None or table.empty:
        return ""
    frame = pd.DataFrame(
        {
            "rung": table["rung"],
            "inputs": table["family"].str.replace("_", " "),
            "k": table["k"],
            "norm of the error": table["error_normwise"],
            "largest error, u |A| |B|": table["error_componentwise"],
            "ms": table["time_ms"],
        }
    )
    ids = [samples.target("accuracy", rung) for rung in table["rung"]]
    targets = dict.fromkeys([name for name in frame if name not in ("rung", "inputs", "k")], ids)
    return _table(frame.join(origins(table)), "accuracy-table", targets, pages=True)


def _sustained(material: Material) -> Markup | str:
    """The table of launches back to back; empty where none are recorded."""
    table = material.tables.get("sustained")
    if table is None or table.empty:
        return ""
    frame = pd.DataFrame(
        {
            "rung": table["rung"],
            "shape": table["shape"],
            "TFLOP/s sustained": table["gflops_sustained"] / 1e3,
            "TFLOP/s isolated": table["gflops_isolated"] / 1e3,
            "% of cuBLAS sustained": 100 * table["share_of_cublas_sustained"],
            "% of cuBLAS isolated": 100 * table["share_of_cublas_isolated"],
            "J a product": table["joules_per_product"],
            "GFLOP/s a watt": table["gflops_per_watt"],
            "energy of cuBLAS's": table["energy_of_cublas"],
            "W": table["power_w"],
            "SM MHz": table["sm_clock_mhz"],
            "°C": table["temperature_c"],
            "throttled by": table["throttle_reasons"],
            "settled after, s": table["settled_after_s"],
        }
    )
    ids = [samples.target("sustained", *key) for key in zip(table["rung"], table["shape"], strict=True)]
    targets = dict.fromkeys([name for name in frame if name not in ("rung", "shape")], ids)
    return _table(frame.join(origins(table)), "sustained-table", targets)


def _section(rung: Rung, material: Material) -> dict[str, Any]:
    """What the report says of one rung: its page, and its source with colours."""
    row = material.tables["rungs"].set_index("rung").loc[label(rung.name, rung.precision, in_words(rung.claims))]
    page = material.results / "pages" / f"{rung.name}.md"
    source = source_of_rung(rung)
    return {
        "name": rung.name,
        "label": label(rung.name, rung.precision, in_words(rung.claims)),
        "title": rung.title,
        "status": row["status"],
        "message": row["message"] if isinstance(row["message"], str) else "",
        "page": Markup(
            samples.with_links(_page(page.read_text(encoding="utf-8"), rung.name, material.results), rung.name)
        )
        if page.exists()
        else "",
        "file": shown(source),
        "code": Markup(_colored(source_text(rung), source.suffix)) if source.exists() else "",
    }


def _colored(source: str, ending: str = ".cu") -> str:
    """C++, or Python of a .py file, as HTML with colours.

    Names, punctuation and spaces have the colour of the text, and need no element.
    """
    html = highlight(source, PythonLexer() if ending == ".py" else CppLexer(), HtmlFormatter(cssclass="code"))
    return re.sub(r'<span class="[npw]">([^<]*)</span>', r"\1", html)


def _rendered(text: str) -> str:
    return MarkdownIt("commonmark", {"html": False}).enable("table").render(text)


def _hardware(material: Material) -> Markup | str:
    """The page of the GPU's parts without its heading; empty where they are not measured."""
    table = material.tables.get("hardware")
    if table is None or table.empty:
        return ""
    return Markup(_rendered(hardware_page(table).partition("\n")[2]))


def _page(text: str, name: str, results: Path) -> str:
    """A rung's page without its first heading; of its figures, which are files beside it, its own drawing alone."""
    first, _, rest = text.partition("\n")
    body = rest if first.startswith("# ") else text
    drawing = f"../drawings/{name}.svg"
    file = results / "drawings" / f"{name}.svg"
    kept = f"]({drawing})" if file.exists() else None
    lines = [line for line in body.splitlines() if not line.startswith("![") or (kept and line.endswith(kept))]
    page = _rendered("\n".join(lines)).replace('href="hardware.md"', 'href="#hardware"')
    if not kept:
        return page
    data = f"data:image/svg+xml;base64,{base64.b64encode(file.read_bytes()).decode()}"
    return page.replace(f'src="{drawing}"', f'class="drawing" src="{data}"')
