"""A real browser for the tests of pages: headless Chromium, with the network cut off."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def runs(path: str) -> bool:
    """Whether a browser starts: Ubuntu's chromium-browser, for one, is a stub where there is no snap."""
    return subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0


BROWSER = next(filter(runs, filter(None, map(shutil.which, BROWSERS))), None)

# Run inside the page once it is drawn: how it fits and reads, told to the page around it.
PROBE = """
<script>
function channel(value) { value /= 255; return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4; }
function luminance([r, g, b]) { return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); }
function parse(color) { return (color.match(/[\\d.]+/g) || []).map(Number); }
function behind(element) {
  for (; element; element = element.parentElement) {
    const color = parse(getComputedStyle(element).backgroundColor);
    if (color.length === 3 || color[3] > 0.5) return color.slice(0, 3);
  }
  return matchMedia("(prefers-color-scheme: dark)").matches ? [0, 0, 0] : [255, 255, 255];
}
function outside(text) {
  const [box, frame] = [text, text.closest("svg")].map(element => element.getBoundingClientRect());
  return box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1;
}
// What a chart shows before and after another choice of its first select.
const shown = () => document.querySelector("#at_one_size .panel svg")?.textContent;
let first = "";
const heads = () => [...document.querySelectorAll("#ladder-table thead th")];
const rate = () => heads().findIndex(head => head.textContent.trim() === "TFLOP/s");
function choose() {
  heads()[rate()]?.click();
  first = shown();
  const select = document.querySelector("#at_one_size select");
  if (!select) return;
  select.selectedIndex = (select.selectedIndex + 1) % select.options.length;
  select.dispatchEvent(new Event("change", {bubbles: true}));
  pick();
  press();
}
// Two rungs of the chart by size, in % of cuBLAS, and two others side by side.
let before = "";
function pick() {
  const form = document.querySelector("#by_size");
  form.querySelector("select[name=figure]").value = "% of cuBLAS";
  for (const box of form.querySelectorAll("input")) if (["async_copy", "fastest"].includes(box.value)) box.click();
  const [one] = document.querySelectorAll("#compare select");
  before = document.querySelector("#compared").textContent;
  one.value = "async_copy";
  one.dispatchEvent(new Event("change", {bubbles: true}));
}
function overlapping() {
  const found = [];
  for (const chart of document.querySelectorAll(".panel svg")) {
    const boxes = [...chart.querySelectorAll("text")].filter(text => text.textContent && text.style.opacity !== "0"
      && text.getAttribute("opacity") !== "0").map(text => [text.textContent, text.getBoundingClientRect()]);
    boxes.forEach(([one, a], place) => boxes.slice(place + 1).forEach(([other, b]) => {
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (Math.min(wide, high) > 3) found.push(`${one} on ${other}`);
    }));
  }
  return found;
}
// What the buttons of tables copy and save, in the place of the clipboard and of files.
const copied = [], saved = [];
function press() {
  URL.createObjectURL = blob => { blob.text().then(text => saved.push(text)); return "data:,"; };
  HTMLAnchorElement.prototype.click = HTMLAnchorElement.prototype.dispatchEvent = () => true;
  navigator.clipboard.writeText = async text => { copied.push(text); };
  for (const button of document.querySelectorAll("#ladder .buttons-csv, #compare .buttons button")) button.click();
}
function switched() { return Boolean(first) && first !== shown(); }
// The innermost element that makes the page wider than its window: what it holds is hidden, step by step.
function widest() {
  const page = document.documentElement;
  const widens = element => {
    const [wide, shown] = [page.scrollWidth, element.style.display];
    element.style.display = "none";
    const narrower = page.scrollWidth < wide;
    element.style.display = shown;
    return narrower;
  };
  let at = document.body;
  if (page.scrollWidth <= innerWidth) return "";
  for (let next = at; next; next = [...at.children].find(widens)) at = next;
  return `${at.tagName} in ${at.closest("[id]")?.id}: ${at.textContent.trim().slice(0, 200)}`;
}
function report() {
  const faint = [];
  let texts = 0;
  for (const element of document.querySelectorAll("body *")) {
    if (element.closest("script, style, noscript, .disabled") || !element.getClientRects().length) continue;
    const own = [...element.childNodes].filter(node => node.nodeType === 3).map(node => node.data.trim()).join("");
    if (!own) continue;
    texts += 1;
    const style = getComputedStyle(element);
    const color = parse(element instanceof SVGElement ? style.fill : style.color).slice(0, 3);
    const pair = [luminance(color), luminance(behind(element))].sort((a, b) => b - a);
    const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (contrast < 4.5) faint.push(`${contrast.toFixed(1)} ${own.slice(0, 40)}`);
  }
  parent.postMessage({
    width: innerWidth, widest: widest(), texts, faint: [...new Set(faint)].slice(0, 20),
    clipped: [...document.querySelectorAll(".panel svg text")].filter(outside).map(text => text.textContent),
    charts: document.querySelectorAll(".panel svg").length, overlapping: overlapping(),
    tables: document.querySelectorAll("table.dataTable").length,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    switched: switched(),
    axis: document.querySelector('#by_size [aria-label^="Y-axis"]')?.ariaLabel.match(/[\\d.]+/g).map(Number),
    compared: before !== document.querySelector("#compared")?.textContent
      && document.querySelectorAll("#difference ins").length && document.querySelectorAll("#compared tr").length,
    copied, saved,
    buttons: document.querySelectorAll("#ladder .dt-button").length,
    rates: [...document.querySelectorAll("#ladder-table tbody tr")].map(row => row.children[rate()].textContent),
    requests: performance.getEntriesByType("resource").map(one => one.name).filter(name => !/^(data|blob)/.test(name)),
  }, "*");
}
addEventListener("load", () => { setTimeout(choose, 3000); setTimeout(report, 4000); });
</script>
"""
# The page is made narrower once it is drawn, as it is where a scroll bar appears.
FRAME = """<!doctype html><pre id="found"></pre>
<iframe id="page" src="page.html" style="width:{wider}px;height:900px;border:0"></iframe>
<script>
addEventListener("load", () => setTimeout(() => page.style.width = "{width}px", 2000));
addEventListener("message", event => found.textContent = JSON.stringify(event.data));
</script>"""


@dataclass(frozen=True)
class Seen:
    """What a browser found in a page, as PROBE tells it, and what the page printed to the console."""

    page: dict
    console: list[str]


def look(page: Path, width: int, dark: bool, font: str = "system-ui, sans-serif") -> Seen:
    """Open a copy of a page, `width` pixels wide, in a light or a dark scheme, in its own fonts or in another."""
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as name:
        folder = Path(name)
        body, end = page.read_text().replace("system-ui, sans-serif", font).rsplit("</body>", 1)
        (folder / "page.html").write_text(f"{body}{PROBE}</body>{end}")
        (folder / "frame.html").write_text(FRAME.format(width=width, wider=width + 16))
        result = subprocess.run(
            [
                *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
                *("--disable-background-networking", "--disable-component-update", "--disable-default-apps"),
                *("--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--virtual-time-budget=15000"),
                f"--user-data-dir={folder / 'profile'}",
                *(("--blink-settings=preferredColorScheme=0", "--force-dark-mode") if dark else ()),
                *(f"--window-size={width + 60},1000", "--dump-dom", (folder / "frame.html").as_uri()),
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        found = re.search(r'<pre id="found">(.*?)</pre>', result.stdout, re.DOTALL)
        assert found, result.stdout[:300]
    return Seen(
        json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")),
        [line for line in result.stderr.splitlines() if "CONSOLE" in line],
    )
